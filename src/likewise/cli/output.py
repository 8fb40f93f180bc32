"""The output of a command: terminal or JSON, and on request a folder, an HTML page or a figure."""

from __future__ import annotations

import json
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likewise.errors import UsageError
from likewise.progress import progress_bar as progress_bar

if TYPE_CHECKING:
    from likewise.results import Result


@dataclass(frozen=True)
class Output:
    """The options of every command that has a result."""

    out: Annotated[Path | None, typer.Option(help="A folder for run.json, tables, figures and a page.")] = None
    html: Annotated[Path | None, typer.Option(help="Write a page.")] = None
    plot: Annotated[Path | None, typer.Option(help="Draw the main figure: .png, .svg or .pdf.")] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False

    def __post_init__(self) -> None:
        """Rejects what cannot be written before any work is done."""
        object.__setattr__(self, "_began", time.time())
        # A file of JSON lines holds no figure.
        draws = self.plot is not None or (self.out is not None and self.out.suffix not in (".jsonl", ".ndjson"))
        if draws:
            from likewise.plotting.axes import check_format

            check_format(Path("figure.png") if self.plot is None else self.plot)
        if self.html is not None and self.html.is_dir():
            raise UsageError(f"{self.html} is a folder; give a file as --html")

    @property
    def run(self) -> dict[str, Any]:
        """The command, when it began, and how long it took."""
        from likewise.results.result import made_by

        return made_by(shlex.join(["likewise", *sys.argv[1:]]), vars(self)["_began"])

    def show(self, result: Result, **settings: Any) -> None:
        """Write what was asked for, then print the result. ``settings`` go into run.json."""
        for caution in result.cautions:
            notice(caution)
        if self.plot is not None:
            notice(f"wrote {_save_figure(result, self.plot)}")
        if self.html is not None:
            self.html.parent.mkdir(parents=True, exist_ok=True)
            self.html.write_text(result.to_html(self.run["command"]), encoding="utf-8")
            notice(f"wrote {self.html}")
        if self.out is not None:
            notice(f"wrote {result.save(self.out, self.run | settings)}")
        if self.as_json:
            return show_json(result.to_dict())
        from likewise.results.terminal import print_result

        print_result(result)


def _save_figure(result: Result, path: Path) -> Path:
    from likewise.plotting.axes import save_figure

    if result.main_figure is None:
        raise UsageError("this result has no figure; leave --plot out")
    return save_figure(result.main_figure.draw(), path)


def show_json(document: Any) -> None:
    """Print exactly one JSON document; numbers that JSON does not know become null."""
    from likewise.results.result import finite

    typer.echo(json.dumps(finite(document), ensure_ascii=False))


def notice(message: str) -> None:
    """Print a line on stderr, where it cannot spoil a JSON document."""
    from likewise.plotting.terminal import printable

    typer.echo(f"likewise: {printable(message)}", err=True)
