"""The folder and the page of an attention study: exact numbers, escaped texts, no network, a bounded size."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from attention_studies import attention_study, crowded_study
from likewise.attention.cluster_choice import RULE
from likewise.attention.document import study_document
from likewise.attention.figures import study_figures
from likewise.attention.report import write_attention
from likewise.attention.settings import ALGORITHMS
from likewise.attention.study import AttentionStudy
from likewise.attention.variables import Variables
from likewise.plotting.html import inline_svg
from likewise.results.folder import finite


@cache
def study() -> AttentionStudy:
    return attention_study()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_attention(study(), {"command": "attention"}, tmp_path_factory.mktemp("a") / "new")


def rows_of(folder: Path, name: str) -> tuple[list[str], list[list[str]]]:
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return header, rows


def test_everything_is_written(folder: Path) -> None:
    figures = {f"{name}.{ending}" for name in study_figures(study()) for ending in ("png", "svg")}
    tables = {
        "points", "clusters", "pairs", "algorithms", "metrics", "tests", "agreement", "pair-tests", "cluster-ranges",
        "head-measures",
    }  # fmt: skip
    others = {"results.json", "run.json", "report.html", ".lock"}
    assert {path.name for path in folder.iterdir()} == figures | {f"{name}.csv" for name in tables} | others


def test_points_are_read_back_exactly(folder: Path) -> None:
    header, rows = rows_of(folder, "points")
    assert header == ["pair", "layer", "z1", "z2", "similarity", "length", "structure"]
    assert [row[:2] for row in rows[:4]] == [["1", "1"], ["1", "2"], ["1", "3"], ["2", "1"]]
    assert [row[6] for row in rows[:3]] == ["", "", ""], "the first pair has no structure"
    numbers = np.array([[float(cell or "nan") for cell in row[2:]] for row in rows]).reshape(60, 3, 5)
    assert np.array_equal(numbers[..., :2], study().main.points)
    for place, name in enumerate(("similarity", "length", "structure")):
        assert np.array_equal(numbers[:, 0, 2 + place], study().variables[name], equal_nan=True)


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take long, and other tests have them."""
    monkeypatch.setattr("likewise.attention.report.study_figures", lambda study: {})


@pytest.mark.usefixtures("no_figures")
def test_more_latent_numbers_come_with_a_view(tmp_path: Path) -> None:
    deep = attention_study(n=30, depth=1, latent=3)
    known = deep.variables
    main = replace(deep.main, loss=None)
    bare = replace(
        deep, variables=Variables(known.similarity, known.length, None), curve=None, main=main, others=(),
    )  # fmt: skip
    header, rows = rows_of(write_attention(bare, {}, tmp_path), "points")
    assert header == ["pair", "layer", "z1", "z2", "z3", "view1", "view2", "similarity", "length", "structure"]
    found = np.array([[float(cell) for cell in row[2:7]] for row in rows])
    assert np.array_equal(found, np.concatenate([deep.main.points, deep.main.view], 2)[:, 0])
    assert {row[9] for row in rows} == {""}
    assert "no grammar was at hand" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_every_algorithm_has_its_clusters(folder: Path) -> None:
    header, rows = rows_of(folder, "clusters")
    assert header == ["pair", "layer", "algorithm", "cluster"] and len(rows) == 60 * 3 * 3
    chosen = study().main.groups[1].clusters.chosen
    found = [int(row[3]) for row in rows if row[1:3] == ["2", chosen.algorithm]]
    assert found == chosen.labels.tolist() and -1 in found
    order = list(dict.fromkeys(row[2] for row in rows))
    assert order == [name for name in ALGORITHMS if name in order]


def test_pairs_are_read_back(folder: Path) -> None:
    header, rows = rows_of(folder, "pairs")
    assert header == ["pair", "id", "left", "right", "similarity", "length", "structure"]
    assert [row[:4] for row in rows] == [
        [str(place + 1), pair.id, pair.left, pair.right] for place, pair in enumerate(study().pairs)
    ]


@pytest.mark.usefixtures("no_figures")
def test_texts_that_cannot_be_written_are_replaced(tmp_path: Path) -> None:
    pairs = (replace(study().pairs[0], left="a\x00\ud800\nb"), *study().pairs[1:])
    _, rows = rows_of(write_attention(replace(study(), pairs=pairs), {}, tmp_path), "pairs")
    assert rows[0][2] == "a\ufffd\ufffd\nb"


def test_p_values_of_files_are_exact(folder: Path) -> None:
    header, rows = rows_of(folder, "tests")
    found = [float(row[header.index("Kruskal-Wallis p")]) for row in rows]
    assert found == [test.kruskal_p for group in study().main.groups for test in group.tests.values()]


def test_documents(folder: Path) -> None:
    found = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert found == json.loads(json.dumps(finite(study_document(study()))))
    assert found["n"] == 60 and [layer["layer"] for layer in found["layers"]] == [1, 2, 3]
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert run["command"] == "attention" and "numpy" in run["versions"]


def test_the_page_tells_all_and_shows_all(folder: Path) -> None:
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert text.count("<svg ") == len(study_figures(study()))
    places = [
        text.index(part) for part in ("Length: the clusters differ in", "60 pairs of made-up", RULE[:40], "<table>")
    ]
    assert places == sorted(places), "verdicts come first, then what was done, the rule, tables"
    assert "0.0012; writing 1/n everywhere has 0.0031, 39% of it" in text
    assert "3 of 60 pairs share the most frequent structure, of 58 different ones" in text
    assert text.count("<table>") == 4


def test_the_page_is_safe_and_alone(folder: Path) -> None:
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "<img" not in text and text.count("&lt;img src=x onerror=alert(1)&gt;") >= 3
    # Letters of a picture may spell "http", but never a colon after it.
    assert not re.search(r"https?:|<script|<link|@import", text)
    sources = re.findall(r'(?:href|src)="([^"]{0,30})', text)
    assert sources and all(source.startswith(("#", "data:image/png;base64,")) for source in sources)


def test_figures_of_an_earlier_run_do_not_stay(folder: Path, tmp_path: Path) -> None:
    for name in ("highlight-length-2.png", "boxes-structure.svg", "loss.png", "mine.png"):
        (tmp_path / name).write_text("old")
    known = study().variables
    bare = replace(study(), variables=Variables(known.similarity, known.length, None), curve=None, others=())
    write_attention(bare, {}, tmp_path)
    left = {path.name for path in tmp_path.glob("*.*g")}
    assert not left & {"highlight-length-2.png", "boxes-structure.svg", "loss.png"}
    assert "mine.png" in left and (tmp_path / "mine.png").read_text() == "old"


@pytest.mark.slow
def test_a_large_study_is_a_small_page(tmp_path: Path) -> None:
    folder = write_attention(crowded_study(1379, 12, 15), {}, tmp_path)
    assert (folder / "report.html").stat().st_size < 2_000_000


def test_heavy_figures_are_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = dict(list(study_figures(study()).items())[:2])
    sizes = [len(inline_svg(figure, "x", dots=True)) for figure in figures.values()]
    heavy = sum(sizes) // 2
    monkeypatch.setattr("likewise.attention.report.study_figures", lambda study: figures)
    monkeypatch.setattr("likewise.attention.report.HEAVY", heavy)
    text = (write_attention(study(), {}, tmp_path) / "report.html").read_text(encoding="utf-8")
    assert (text.count("<img "), text.count("<svg ")) == (1, 1)
