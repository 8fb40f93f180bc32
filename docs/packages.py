"""Draws the packages of src/likewise with the imports between them, and lists their modules, read from the code.

python docs/packages.py           writes docs/images/packages.svg and docs/modules.md
python docs/packages.py --check   fails where one of them is not current

A package stands above everything that it imports: its row is its tier in tests/test_architecture.py. An arrow that
follows from two others is left out.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "tests"))

from test_architecture import TIERS  # noqa: E402

ROOT = PROJECT / "src" / "likewise"
PICTURE = Path(__file__).with_name("images") / "packages.svg"
LIST = Path(__file__).with_name("modules.md")
PLACES = {
    "cli": 0.5, "server": 0.5, "train": 0.5, "attention": 0.1, "geometry": 0.38, "lint": 0.9, "search": 0.38,
    "evaluation": 0.68, "explain": 0.53, "encoder": 0.36, "data": 0.1, "grammar": 0.62, "results": 0.36,
    "plotting": 0.24, "metrics": 0.48, "progress": 0.76, "storage": 0.1, "cluster": 0.93,
}  # fmt: skip
"""The place of each package in its row, from 0 to 1; entry points, integrations and errors are left out."""
WIDTH, BOX, ROW = 700, (104, 34), 68
STYLE = """
rect { fill: #eef3fb; stroke: #4a6fa5; rx: 6 } text { font: 14px sans-serif; text-anchor: middle; fill: #16324f }
path { stroke: #9aa7b8; fill: none; stroke-width: 1.2 } marker path { fill: #9aa7b8; stroke: none }
""".strip()


def package_of(path: Path) -> str:
    """A folder of src/likewise, or a module that stands by itself."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports() -> dict[str, set[str]]:
    """Each package with the packages that it imports."""
    found: dict[str, set[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        own = found.setdefault(package_of(path), set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("likewise."):
                own.add(str(node.module).split(".")[1])
    return {name: (found[name] & PLACES.keys()) - {name} for name in PLACES}


def layers(below: dict[str, set[str]]) -> list[list[str]]:
    """Packages by the tier that tests/test_architecture.py declares, the highest first."""
    return [row for tier in TIERS if (row := [name for name in tier if name in below])]


def direct(below: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The imports that do not follow from two others."""

    @cache
    def reached(name: str) -> frozenset[str]:
        return frozenset(below[name]).union(*(reached(one) for one in below[name]))

    return [
        (name, one) for name in below for one in sorted(below[name])
        if not any(one in reached(other) for other in below[name])
    ]  # fmt: skip


def drawn(below: dict[str, set[str]]) -> str:
    """The picture as SVG."""
    rows, centres, boxes = layers(below), {}, []
    for level, row in enumerate(rows):
        for name in row:
            x, y = WIDTH * PLACES[name], ROW * (level + 0.5)
            centres[name] = x, y
            boxes.append(
                f'<rect x="{x - BOX[0] / 2:.0f}" y="{y - BOX[1] / 2:.0f}" width="{BOX[0]}" height="{BOX[1]}"/>'
                f'<text x="{x:.0f}" y="{y + 5:.0f}">{name}</text>'
            )
    arrows = []
    for above, under in direct(below):
        (x0, y0), (x1, y1) = centres[above], centres[under]
        y0, y1 = y0 + BOX[1] / 2, y1 - BOX[1] / 2 - 6
        bend = (y1 - y0) / 2
        curve = f"M{x0:.0f} {y0:.0f}C{x0:.0f} {y0 + bend:.0f} {x1:.0f} {y1 - bend:.0f} {x1:.0f} {y1:.0f}"
        arrows.append(f'<path d="{curve}" marker-end="url(#end)"/>')
    height = ROW * len(rows)
    tip = '<path d="M0 0L7 3.5L0 7z"/>'
    marker = f'<marker id="end" orient="auto" markerWidth="7" markerHeight="7" refY="3.5">{tip}</marker>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    title = "<title>The packages of Likewise; arrows point from a package to what it imports</title>"
    return "\n".join([head, title, f"<style>{STYLE}</style>", f"<defs>{marker}</defs>", *arrows, *boxes, "</svg>", ""])


def listed() -> str:
    """Every module with the first line of its docstring, by package, from the top."""
    lines = [
        "# Modules",
        "",
        "Made from the docstrings by `python docs/packages.py`. Packages come from the top down.",
        "",
    ]
    order = [package for tier in TIERS for package in tier]
    files = [path for path in sorted(ROOT.rglob("*.py")) if path.name != "__init__.py"]
    for package in sorted({package_of(path) for path in files}, key=order.index):
        own = [path for path in files if package_of(path) == package]
        is_folder = (ROOT / package).is_dir()
        lines += [f"## `{package}/`", "", "| module | what it holds |", "|---|---|"] if is_folder else []
        rows = [(path.relative_to(ROOT / package if is_folder else ROOT), purpose(path)) for path in own]
        lines += [f"| `{name}` | {text} |" if is_folder else f"## `{name}`\n\n{text}" for name, text in rows] + [""]
    return "\n".join(lines)


def purpose(path: Path) -> str:
    """The first sentence of a module's docstring, in one line."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("``", "`").replace("|", "\\|")


def pages() -> dict[Path, str]:
    """What this script writes, by file."""
    return {PICTURE: drawn(imports()), LIST: listed()}


if __name__ == "__main__":
    for file, text in pages().items():
        if sys.argv[1:] != ["--check"]:
            file.write_text(text, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            sys.exit(f"{file} is not current; run: python docs/packages.py")
