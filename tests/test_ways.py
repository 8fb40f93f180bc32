"""The ways through the code: how many modules a command runs through, and what docs/architecture.md says of it."""

from __future__ import annotations

import gc
import re
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import likewise

pytest_plugins = ("command_line",)

ROOT = Path(likewise.__file__).parent
PROJECT = Path(__file__).parents[1]
COMMANDS = {
    "explain": ("explain", "A cat sat.", "The cat slept."),
    "search --explain": ("search", "sample/sentences", "a cat sat", "-k", "2", "--explain"),
    "geometry": ("geometry", "sample/pairs", "--min-contexts", "3"),
}
MOST_TRACED = {"explain": 22, "search --explain": 42, "geometry": 30}
MOST_LISTED = {"explain": 14, "search --explain": 20, "geometry": 14, "train": 20, "studio": 20, "attention": 18}
NO_FUNCTIONS = {"<module>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"}
"""Names of code that runs while a module is imported."""
OPTIMIZED = 1
"""The flag of a function's code, which the body of a class does not have."""


class Tracer:
    """Collects our modules in which a function is called."""

    def __init__(self) -> None:
        self.modules: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and is_ours(frame.f_code):
            self.modules.add(Path(frame.f_code.co_filename).relative_to(ROOT).as_posix())


def is_ours(code: CodeType) -> bool:
    is_function = code.co_flags & OPTIMIZED and code.co_name not in NO_FUNCTIONS
    return bool(is_function) and code.co_filename.startswith(str(ROOT))


def traced(run: Any, *arguments: str) -> set[str]:
    """The modules that a command runs through."""
    tracer = Tracer()
    gc.collect()  # generators of earlier tests would be closed while this one is traced
    sys.setprofile(tracer)
    threading.setprofile(tracer)
    try:
        answer = run(*arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert answer.code == 0, answer.err
    return tracer.modules


def listed_ways() -> dict[str, list[str]]:
    """By way: the files that docs/architecture.md lists, in their order."""
    page = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    sections = re.findall(r"^### Way: (.+?)\n(.*?)(?=^##|\Z)", page, flags=re.MULTILINE | re.DOTALL)
    return {name: re.findall(r"^\d+\. `([^`]+)`", text, flags=re.MULTILINE) for name, text in sections}


@pytest.mark.slow
@pytest.mark.parametrize("way", COMMANDS)
def test_a_command_runs_through_few_modules(
    run_tiny: Any, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path))  # another test may have calibrated the same sample
    modules = traced(run_tiny, *COMMANDS[way])
    assert len(modules) <= MOST_TRACED[way], sorted(modules)
    assert {f"src/likewise/{one}" for one in modules} >= set(listed_ways()[way]), "a listed file is not on the way"


@pytest.mark.parametrize("way", MOST_LISTED)
def test_the_listed_files_exist_and_are_few(way: str) -> None:
    files = listed_ways()[way]
    assert 5 <= len(files) <= MOST_LISTED[way]
    assert [file for file in files if not (PROJECT / file).is_file()] == []


def test_tracer_sees_a_function_and_no_class_body() -> None:
    source = "class A:\n    x = 1\ndef f():\n    return A\nf()"
    code = compile(source, str(ROOT / "made_up.py"), "exec")
    tracer = Tracer()
    before = sys.getprofile()
    sys.setprofile(tracer)
    try:
        exec(code.replace(co_consts=tuple(one for one in code.co_consts)), {})
    finally:
        sys.setprofile(before)
    assert tracer.modules == {"made_up.py"}
    assert [is_ours(one) for one in code.co_consts if isinstance(one, CodeType)] == [False, True]
