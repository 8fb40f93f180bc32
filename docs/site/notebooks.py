"""Makes the notebooks of examples/ from the scripts next to them, and runs them.

python docs/site/notebooks.py                writes examples/*.ipynb, without output
python docs/site/notebooks.py --run FOLDER   runs them and writes them with their output to FOLDER

A script has cells that begin with ``# %%``, or ``# %% [markdown]`` for text. A magic such as ``# %matplotlib inline``
is a comment in the script and a command in the notebook.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
CELL = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)
MAGIC = re.compile(r"^# %(?=\w)", re.MULTILINE)
SECONDS = 300  # of a cell, before it is given up
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def scripts() -> list[Path]:
    """The scripts that are notebooks: those with a number."""
    return sorted(EXAMPLES.glob("[0-9]*_*.py"))


def notebook(script: str) -> dict[str, Any]:
    """A script as a notebook of format 4.5, without output."""
    _, *parts = CELL.split(script)
    cells = [_cell(number, kind, text) for number, (kind, text) in enumerate(zip(parts[::2], parts[1::2], strict=True))]
    return {"cells": cells, "metadata": {"kernelspec": KERNEL}, "nbformat": 4, "nbformat_minor": 5}


def _cell(number: int, kind: str | None, text: str) -> dict[str, Any]:
    if kind:
        lines = "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.strip().splitlines())
        return {"cell_type": "markdown", "id": f"cell-{number}", "metadata": {}, "source": lines}
    code = {"cell_type": "code", "execution_count": None, "outputs": []}
    return code | {"id": f"cell-{number}", "metadata": {}, "source": MAGIC.sub("%", text.strip())}


def written(script: Path) -> str:
    """The text of the notebook of a script."""
    return json.dumps(notebook(script.read_text(encoding="utf-8")), indent=1, ensure_ascii=False) + "\n"


def run(folder: Path) -> None:
    """Run every notebook in a kernel of its own; an error in a cell ends the program with its traceback."""
    import nbformat
    from nbclient import NotebookClient

    folder.mkdir(parents=True, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"  # more threads than idle cores take ten times as long
    for script in scripts():
        read = nbformat.from_dict(notebook(script.read_text(encoding="utf-8")))
        nbformat.validate(read)
        NotebookClient(read, timeout=SECONDS, resources={"metadata": {"path": str(folder)}}).execute()
        nbformat.write(read, folder / f"{script.stem}.ipynb")
        print(f"{script.stem}: {sum(cell.cell_type == 'code' for cell in read.cells)} cells ran")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(Path(sys.argv[2]))
    else:
        for script in scripts():
            script.with_suffix(".ipynb").write_text(written(script), encoding="utf-8")
