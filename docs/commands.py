"""Generates docs/commands.md from the command line, so that options are declared once.

python docs/commands.py           writes the page
python docs/commands.py --check   fails if the page is not current
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from likewise.cli.app import app

PAGE = Path(__file__).with_name("commands.md")
HEAD = """# Commands

Made from the command line by `python docs/commands.py`; `likewise COMMAND --help` shows the same.
"""


def commands(group: TyperGroup, prefix: str = "likewise") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


def section(name: str, command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and one.name != "help"]
    usage = " ".join([name, *(_argument(one) for one in arguments), *(["[OPTIONS]"] if options else [])])
    lines = [f"## {name}", "", "```text", usage, "```", "", " ".join((command.help or "").split()), ""]
    rows = [(f"`{_argument(one)}`", "", one.help or "") for one in arguments]
    rows += [
        (", ".join(f"`{part}`" for part in (*one.opts, *one.secondary_opts)), _default(one), one.help or "")
        for one in options
    ]
    table = [f"| {_cell(option)} | {_cell(default)} | {_cell(text)} |" for option, default, text in rows]
    return "\n".join([*lines, "| option | default | meaning |", "|---|---|---|", *table, ""])


def _argument(one: Any) -> str:
    shown = one.name.upper() + ("..." if one.nargs != 1 else "")
    return shown if one.required else f"[{shown}]"


def _default(one: Any) -> str:
    value = one.default() if callable(one.default) else one.default
    if value is None or value is False or value == () or value == []:
        return ""
    return f"`{' '.join(map(str, value)) if isinstance(value, (list, tuple)) else value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def page() -> str:
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    return "\n".join([HEAD, *(section(name, command) for name, command in sorted(commands(group)))])


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(
            0
            if PAGE.read_text(encoding="utf-8") == page()
            else f"{PAGE.name} is not current; run: python docs/commands.py"
        )
    PAGE.write_text(page(), encoding="utf-8")
