"""The command line in this process: arguments -> exit code, stdout, stderr.

A plugin and not a ``conftest.py`` of tests/cli, which would hide the one above it from ``from conftest import ...``.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from likewise.cli.app import main


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


Run = Callable[..., Answer]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run ``likewise`` with arguments; an error that the command line lets through fails the test."""
    log, threads = logging.getLogger("likewise"), torch.get_num_threads()
    before = list(log.handlers), log.propagate

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["likewise", *map(str, arguments)])
        log.handlers = []
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        heard = capsys.readouterr()
        code = stop.value.code
        return Answer(code if isinstance(code, int) else 0, heard.out, heard.err)

    yield call
    log.handlers, log.propagate = before
    torch.set_num_threads(threads)


@pytest.fixture
def run_tiny(run: Run, tiny_folder: Path) -> Run:
    """The same with the tiny model."""
    return lambda *arguments: run(*arguments, "--model", tiny_folder)


@pytest.fixture
def pairs_file(tmp_path: Path) -> Path:
    """Four scored pairs."""
    rows = ["a cat sat,the cat sat,5", "a dog ran,the sea is blue,0.5", "red,green,2", "one two three,one two,4"]
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join(["sentence1,sentence2,score", *rows, ""]))
    return path
