"""Names come from the field: none of those that a first reader did not understand is left.

Modules, classes, functions, parameters, fields, options and commands are looked at; keys of documented JSON, local
variables and scikit-learn's own ``fit`` are not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.main import get_command

import likewise
from likewise.cli.app import app

ROOT = Path(likewise.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

NOT_OURS = {
    "Reading", "with_reading", "reading", "readings", "readout", "place", "places", "facts", "aggregation",
    "towers", "joint", "hold", "shift", "by", "counted", "Workshop", "workshop", "Trainee", "trainee",
    "Reader", "kept", "shelf", "Shelf", "turns", "presence", "proving", "proof", "Proof", "judged", "Outcome",
    "outcome", "hiding", "pace", "Course", "course", "squares", "Band", "census", "plan", "nouns", "checkup",
    "Checkup", "Examinee", "rests_on", "patterns", "Patterns", "Prompted", "Grouped", "encode_counted",
    "drafts", "write_whole", "told", "read_told", "told_apart", "recipe", "Recipe", "anatomy", "Anatomy",
    "blob", "lead", "reasons", "still_norms", "crossed", "Here", "letters", "room", "rooms",
}  # fmt: skip
OLD_COMMANDS = {"patterns", "nouns", "checkup", "fit"}
OLD_OPTIONS = {"--by", "--aggregation"}


def defined_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Classes, functions, their parameters, and the fields of classes, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name, node.lineno
            # The fields of a response are keys of documented JSON.
            is_response = any("Response" in ast.unparse(base) for base in node.bases)
            for inner in [] if is_response else node.body:
                if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                    yield inner.target.id, inner.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
            given = node.args
            for argument in [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]:
                if argument is not None:
                    yield argument.arg, argument.lineno


def is_old(name: str) -> bool:
    return name.lstrip("_") in NOT_OURS or name.endswith("Asked")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_of_code(path: Path) -> None:
    modules = [part for part in path.relative_to(ROOT).with_suffix("").parts if is_old(part)]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [f"{name}, line {line}" for name, line in defined_names(tree) if is_old(name)]
    assert modules + found == []


def commands(group: typer.core.TyperGroup, prefix: str = "") -> Iterator[tuple[str, list[str]]]:
    """Every command with its options as they are written."""
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", [option for one in command.params for option in one.opts]


def test_names_of_the_command_line() -> None:
    group = get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    listed = dict(commands(group))
    assert len(listed) > 25
    assert not OLD_COMMANDS & listed.keys()
    assert {
        name: sorted(OLD_OPTIONS & set(options)) for name, options in listed.items() if OLD_OPTIONS & set(options)
    } == {}


def test_the_walker_sees_every_kind_of_name() -> None:
    source = (
        "class Shelf:\n    place: int\n    def hold(self, by, *facts, kept=1, **told): ...\n"
        "    async def judged(self): ..."
    )
    names = [name for name, _ in defined_names(ast.parse(source)) if is_old(name)]
    assert names == ["Shelf", "place", "hold", "by", "kept", "facts", "told", "judged"]
