"""The architecture of src/likewise: the directions of imports, the size of files and functions, the ways through it.

An import points strictly down the tiers; packages of one tier never import each other. Imports inside functions and
under TYPE_CHECKING count like all others.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import get_args

import pytest

import likewise

ROOT = Path(likewise.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

TIERS = (
    ("__main__",),
    ("cli",),
    ("server",),
    ("integrations",),
    ("demo",),
    ("reproduce",),
    ("train",),
    ("attention", "geometry", "lint"),
    ("interface",),
    ("search", "evaluation", "cluster"),
    ("explain",),
    ("encoder",),
    ("data", "grammar"),
    ("results",),
    ("plotting", "metrics", "progress"),
    ("sample", "storage"),
    ("errors",),
)
TIER = {package: place for place, packages in enumerate(TIERS) for package in packages}

MAX_FILE_LINES, MAX_BODY_LINES = 500, 45
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "common", "misc"}
MODELS = {"torch", "transformers", "tokenizers", "safetensors", "onnx", "onnxruntime", "sentence_transformers"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def module_of(path: Path) -> str:
    """The dotted name of a file of the package."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parent_of(path: Path) -> str:
    """The dotted name that the dots of a file's relative imports stand for."""
    return module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]


def imports(source: str | ast.AST, parent: str) -> Iterator[str]:
    """Every imported dotted name, wherever the import stands; dots are relative to ``parent``."""
    for node in ast.walk(ast.parse(source) if isinstance(source, str) else source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = parent.split(".")[: len(parent.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def package_of(name: str) -> str | None:
    """The package of ours that an imported name lives in; None for other libraries, "" for likewise itself."""
    first, _, rest = name.partition(".")
    if first != "likewise":
        return None
    package = rest.split(".")[0]
    lazy = likewise._HOMES.get(package, "").partition(".")[2]
    return package if package in TIER else lazy


def wrong_imports(source: str, parent: str, own: str) -> list[str]:
    """The imports of one source that do not point down."""
    wrong = []
    for name in imports(source, parent):
        target = package_of(name)
        is_wrong = own != "cli" if target == "" else target not in (None, own) and TIER[target] <= TIER[own]
        wrong += [name] if is_wrong else []
    return wrong


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def packages() -> list[tuple[Path, str]]:
    """Each file with its package, the __init__ of likewise left out."""
    files = [(path, path.relative_to(ROOT).parts[0].removesuffix(".py")) for path in FILES]
    return [(path, package) for path, package in files if package != "__init__"]


def test_every_package_has_its_tier() -> None:
    assert {package for _, package in packages()} == TIER.keys()


def test_imports_point_down() -> None:
    found = {
        module_of(path): wrong_imports(path.read_text(encoding="utf-8"), parent_of(path), own)
        for path, own in packages()
    }
    assert {module: wrong for module, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(
    ("source", "own"),
    [
        ("from likewise.encoder import Encoder", "data"),
        ("import likewise.evaluation.sts as sts", "encoder"),
        ("from likewise import search", "explain"),
        ("from likewise import Encoder", "grammar"),
        ("from likewise import __version__", "evaluation"),
        ("from ..encoder import tokens", "data"),
        ("from .. import metrics", "sample"),
        ("from likewise.storage import user_cache", "sample"),
        ("from likewise.plotting.html import page", "metrics"),
        ("def f():\n    from likewise.cli.output import notice", "results"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from likewise.explain import x", "encoder"),
    ],
)
def test_walker_sees_a_wrong_import(source: str, own: str) -> None:
    assert len(wrong_imports(source, f"likewise.{own}", own)) == 1


@pytest.mark.parametrize(
    ("source", "own"),
    [
        ("from likewise.errors import DataError\nimport numpy, torch", "sample"),
        (
            "from likewise.data import Columns\nfrom . import sts\nfrom .sts import x\nfrom ..encoder import y",
            "evaluation",
        ),
        ("from likewise import Encoder, __version__", "cli"),
        ("from likewise import errors", "plotting"),
    ],
)
def test_walker_accepts_a_right_import(source: str, own: str) -> None:
    assert wrong_imports(source, f"likewise.{own}", own) == []


def test_nothing_is_imported_by_string() -> None:
    """The walker would not see it; only the package's lazy names are imported so."""
    words = re.compile(r"\b(import_module|__import__)\(")
    assert [path.name for path, _ in packages() if words.search(path.read_text(encoding="utf-8"))] == []


def module_graph() -> dict[str, set[str]]:
    """Each module with the modules of ours that it imports, inside functions too; lazy names and types left out."""
    names = {module_of(path) for path in FILES}
    graph = {}
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tree.body = [node for node in tree.body if not (is_lazy(node) or is_for_types(node))]
        found = {
            max((name, name.rpartition(".")[0]), key=lambda one: one in names)
            for name in imports(tree, parent_of(path))
        }
        graph[module_of(path)] = (found & names) - {module_of(path)}
    return graph


def is_lazy(node: ast.AST) -> bool:
    return isinstance(node, Function) and node.name == "__getattr__"


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def test_no_import_hides_a_cycle() -> None:
    try:
        TopologicalSorter(module_graph()).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize(
    "package", ["data", "grammar", "plotting", "metrics", "progress", "sample", "storage", "errors"]
)
def test_packages_without_models(package: str) -> None:
    files = [path for path, own in packages() if own == package]
    assert files
    for path in files:
        names = {name.split(".")[0] for name in imports(path.read_text(encoding="utf-8"), "likewise")}
        assert not names & MODELS, path


def test_package_is_lazy() -> None:
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    at_once = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not [line for line in at_once if "likewise" in line or re.search(rf"\b({'|'.join(MODELS)})\b", line)]


def test_files_are_short() -> None:
    lengths = {module_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_function_bodies_are_short() -> None:
    long = {}
    for path in FILES:
        for function in functions(ast.parse(path.read_text(encoding="utf-8"))):
            body = function.body[1:] if ast.get_docstring(function) else function.body
            lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            if lines > MAX_BODY_LINES:
                long[f"{module_of(path)}.{function.name}"] = lines
    assert long == {}


def test_names_say_something() -> None:
    names = {part for path in FILES for part in path.relative_to(ROOT).with_suffix("").parts}
    assert not {name for name in names if set(name.split("_")) & VAGUE_NAMES}


def test_library_does_not_print() -> None:
    found = []
    for path, package in packages():
        calls = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
        found += [
            f"{module_of(path)}:{call.lineno}"
            for call in calls
            if package != "cli" and ast.unparse(call.func) == "print"
        ]
    assert found == []


def test_nothing_is_left_to_do() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    assert [module_of(path) for path in FILES if marks.search(path.read_text(encoding="utf-8"))] == []


def methods(sources: Iterable[str]) -> list[tuple[str, set[str]]]:
    """The name of each class with its methods, those of its bases in the same sources included."""
    nodes = [node for source in sources for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]

    def found(node: ast.ClassDef) -> set[str]:
        own = {inner.name for inner in node.body if isinstance(inner, Function)}
        bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        return own.union(*(found(other) for other in nodes if other.name in bases - {node.name}))

    return [(node.name, found(node)) for node in nodes]


def without_html(sources: Iterable[str]) -> list[str]:
    """Results that are public, tell and draw themselves, and yet show nothing in a notebook."""
    results = [(name, own) for name, own in methods(sources) if {"to_dict", "plot"} <= own]
    return [name for name, own in results if not name.startswith("_") and "_repr_html_" not in own]


def test_results_show_themselves_in_notebooks() -> None:
    assert without_html(path.read_text(encoding="utf-8") for path in FILES) == []


def test_walker_sees_a_result_that_does_not_show_itself() -> None:
    bare = "class Bare:\n    def to_dict(self): ...\n    def plot(self): ..."
    heir = "class Heir(results.Bare):\n    def _repr_html_(self): ..."
    assert without_html([bare, heir, "class Other(Heir): ...", "class Late(Bare): ...", "class _Own(Bare): ..."]) == [
        "Bare", "Late",
    ]  # fmt: skip


def test_no_name_is_defined_twice_in_a_module() -> None:
    """The second definition would silently replace the first one."""
    twice = []
    for path in FILES:
        names: list[str] = []
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (*get_args(Function), ast.ClassDef)):
                names += [] if "overload" in map(ast.unparse, node.decorator_list) else [node.name]
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names += [target.id for target in targets if isinstance(target, ast.Name)]
        twice += [f"{module_of(path)}.{name}" for name, count in Counter(names).items() if count > 1]
    assert twice == []
