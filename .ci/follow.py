"""Follows documents word for word: runs their code in an empty folder, and compares what it prints with what they show.

    cd EMPTY_FOLDER && ENVIRONMENT/bin/python /path/to/.ci/follow.py README.md docs/tutorial.md

The commands and the library are those of the interpreter's own environment. ``python`` blocks of a document are one
program, block after block; ``likewise`` lines of ``bash`` blocks are run by a shell. What a ``text`` block shows must be
among the lines that the blocks since the last ``text`` block have printed, in the same order; ``...`` leaves lines out.
Left out: lines that install, build or serve, and lines with ``../shared``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_OUT = ("likewise studio", "../shared")
WIDTH = "100"  # of the terminal; that of the documents' tables
ZERO = re.compile(r"-(0\.0+)\b")
END = "--- end of the block ---"


def blocks(document: str) -> Iterator[tuple[str, str]]:
    """The language and the text of each block."""
    return ((found[1], found[2]) for found in FENCE.finditer(document))


def lines_of(text: str) -> list[str]:
    """Lines without the blanks at their ends; empty ones do not count, and neither does the sign of a zero."""
    return [ZERO.sub(r" \1", line).rstrip() for line in text.splitlines() if line.strip()]


def missing(shown: str, printed: str) -> str | None:
    """The first shown line that was not printed after the ones before it; None if all were."""
    left = iter(lines_of(printed))
    for line in lines_of(shown):
        if line.strip() != "..." and line not in left:
            return line
    return None


def run(command: list[str] | str, **options: object) -> str:
    """What a program prints; the end of this one where it fails."""
    environment = os.environ | {"COLUMNS": WIDTH, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, shell=isinstance(command, str), capture_output=True, text=True, env=environment, **options
    )
    if done.returncode:
        sys.exit(f"{command}\nended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def python_outputs(document: str) -> Iterator[str]:
    """What each python block of a document prints; they are one program."""
    sources = [text for language, text in blocks(document) if language == "python"]
    program = f"\nprint({END!r}, flush=True)\n".join([*sources, ""])
    return iter(run([sys.executable, "-"], input=program).split(f"{END}\n"))


def commands(text: str) -> list[str]:
    """The lines of a bash block that are run."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("likewise ") and not any(word in line for word in LEFT_OUT)]


def follow(name: str) -> int:
    """Follow one document; the number of its blocks whose output was compared."""
    document = (ROOT / name).read_text(encoding="utf-8")
    outputs, printed, compared = python_outputs(document), "", 0
    for language, text in blocks(document):
        if language == "python":
            printed += next(outputs)
        elif language == "bash":
            printed += "".join(run(line) for line in commands(text))
        elif language == "text" and printed:
            if (line := missing(text, printed)) is not None:
                sys.exit(f"{name} shows\n{line}\nwhich was not printed; this was:\n{printed}")
            printed, compared = "", compared + 1
    return compared


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(f"{each}: followed, {follow(each)} outputs are as shown")
