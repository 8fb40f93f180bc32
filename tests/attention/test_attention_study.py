"""The folder and the page of an attention study: exact numbers, escaped texts, no network, a bounded size."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from functools import cache
from html import escape
from pathlib import Path

import numpy as np
import pytest

from attention_studies import HEADS, HOSTILE, attention_study, crowded_study
from likewise.attention.clustering import RULE
from likewise.attention.figures import p_text, study_figures
from likewise.attention.groups import Variables
from likewise.attention.settings import ALGORITHMS
from likewise.attention.study import AttentionStudy, algorithm_table
from likewise.attention.survival import verdicts
from likewise.plotting.html import inline_svg
from likewise.results.result import finite


@cache
def study() -> AttentionStudy:
    return attention_study()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return study().save(tmp_path_factory.mktemp("a") / "new", {"command": "attention"})


def rows_of(folder: Path, name: str) -> tuple[list[str], list[list[str]]]:
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return header, rows


@pytest.mark.slow
def test_everything_is_written(folder: Path) -> None:
    figures = {f"{name}.{ending}" for name in study_figures(study()) for ending in ("png", "svg")}
    tables = {
        "points", "clusters", "pairs", "algorithms", "metrics", "tests", "controls", "agreement", "pair-tests",
        "cluster-ranges", "head-measures",
    }  # fmt: skip
    others = {"results.json", "run.json", "index.html", ".lock"}
    assert {path.name for path in folder.iterdir()} == figures | {f"{name}.csv" for name in tables} | others


@pytest.mark.slow
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
    monkeypatch.setattr("likewise.attention.study.study_figures", lambda study: {})


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_more_latent_numbers_come_with_a_view(tmp_path: Path) -> None:
    deep = attention_study(n=30, depth=1, latent=3)
    known = deep.variables
    main = replace(deep.main, loss=None)
    bare = replace(
        deep, variables=Variables(known.similarity, known.length, None), curve=None, main=main, others=(),
    )  # fmt: skip
    header, rows = rows_of(bare.save(tmp_path), "points")
    assert header == ["pair", "layer", "z1", "z2", "z3", "view1", "view2", "similarity", "length", "structure"]
    found = np.array([[float(cell) for cell in row[2:7]] for row in rows])
    assert np.array_equal(found, np.concatenate([deep.main.points, deep.main.view], 2)[:, 0])
    assert {row[9] for row in rows} == {""}
    assert "there was no grammar" in (tmp_path / "index.html").read_text(encoding="utf-8")


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
    _, rows = rows_of(replace(study(), pairs=pairs).save(tmp_path), "pairs")
    assert rows[0][2] == "a\ufffd\ufffd\nb"


def test_p_values_of_files_are_exact(folder: Path) -> None:
    header, rows = rows_of(folder, "tests")
    found = [float(row[header.index("Kruskal-Wallis p")]) for row in rows]
    assert found == [test.kruskal_p for group in study().main.groups for test in group.tests.values()]


def test_documents(folder: Path) -> None:
    found = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert found == json.loads(json.dumps(finite(study().to_dict())))
    assert found["n"] == 60 and [layer["layer"] for layer in found["layers"]] == [1, 2, 3]
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert run["command"] == "attention" and "numpy" in run["versions"]
    assert run["results"] == found


def test_the_page_tells_all_and_shows_all(folder: Path) -> None:
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert text.count("<svg ") == len(study_figures(study()))
    places = [
        text.index(part)
        for part in ("Length: the clusters differ in", "60 pairs of made-up went", RULE[:40], "<table>")
    ]
    assert places == sorted(places), "verdicts come first, then the methods, the rule, tables"
    assert "0.0012; writing 1/n everywhere has 0.0031, 39% of it" in text
    assert "3 of 60 pairs share the most frequent structure, of 58 different ones" in text
    assert text.count("<table>") == 5


def test_the_page_is_safe_and_alone(folder: Path) -> None:
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert "<img" not in text and text.count("&lt;img src=x onerror=alert(1)&gt;") >= 3
    # Letters of a picture may spell "http", but never a colon after it.
    assert not re.search(r"https?:|<script|<link|@import", text)
    sources = re.findall(r'(?:href|src)="([^"]{0,30})', text)
    assert sources and all(source.startswith(("#", "data:image/png;base64,")) for source in sources)


@pytest.mark.slow
def test_figures_of_an_earlier_run_do_not_stay(folder: Path, tmp_path: Path) -> None:
    for name in ("highlight-length-2.png", "boxes-structure.svg", "loss.png", "mine.png"):
        (tmp_path / name).write_text("old")
    known = study().variables
    bare = replace(study(), variables=Variables(known.similarity, known.length, None), curve=None, others=())
    bare.save(tmp_path)
    left = {path.name for path in tmp_path.glob("*.*g")}
    assert not left & {"highlight-length-2.png", "boxes-structure.svg", "loss.png"}
    assert "mine.png" in left and (tmp_path / "mine.png").read_text() == "old"


@pytest.mark.slow
def test_a_large_study_is_a_small_page(tmp_path: Path) -> None:
    folder = crowded_study(1379, 12, 15).save(tmp_path)
    assert (folder / "index.html").stat().st_size < 2_000_000


@pytest.mark.slow
def test_heavy_figures_are_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = dict(list(study_figures(study()).items())[:2])
    sizes = [len(inline_svg(figure.draw(), "x", dots=True)) for figure in figures.values()]
    monkeypatch.setattr("likewise.attention.study.study_figures", lambda study: figures)
    monkeypatch.setattr("likewise.plotting.html.HEAVY", sum(sizes) // 2)
    text = (attention_study().save(tmp_path) / "index.html").read_text(encoding="utf-8")
    assert (text.count("<img "), text.count("<svg ")) == (1, 1)


def test_tables_are_whole() -> None:
    tables = study().tables()
    names = ("algorithms", "metrics", "tests", "controls", "agreement", "pair-tests", "cluster-ranges", "head-measures")
    pairs = 3 * sum(group.clusters.chosen.k * (group.clusters.chosen.k - 1) // 2 for group in study().main.groups)
    clusters = sum(group.clusters.chosen.k + 1 for group in study().main.groups)
    assert [len(tables[name].rows) for name in names] == [9, 3, 9, 9, 9, pairs, clusters, 3 * HEADS]
    for table in tables.values():
        assert {len(row) for row in table.rows} == {len(table.columns)}
        assert not any(cell != cell for row in table.rows for cell in row), "nothing is nan"


def test_the_chosen_algorithm_comes_first_and_others_say_why_not() -> None:
    group = study().main.groups[0]
    clusters = replace(
        group.clusters, rejected={"spectral": "finds none", group.clusters.alternatives[0].algorithm: "x"}
    )
    one = replace(study(), main=replace(study().main, groups=(replace(group, clusters=clusters),)))
    header, rows = algorithm_table(one).flat()
    chosen, why = header.index("chosen"), header.index("why not")
    assert [row[chosen] for row in rows] == ["yes", "", "", ""]
    assert rows[0][1] == clusters.chosen.algorithm and rows[0][3] == clusters.chosen.k
    assert [row[why] for row in rows] == ["", "x", "", "finds none"] and rows[3][1] == "spectral"


def test_p_values_are_read_or_exact() -> None:
    tests, controls = study().tables()["tests"], study().tables()["controls"]
    column = [one.name for one in tests.columns].index("Kruskal-Wallis p")
    p = study().main.groups[0].tests["length"].kruskal_p
    assert tests.rows[1][:2] == (1, "length") and tests.texts()[1][column] == p_text(p) and tests.rows[1][column] == p
    given = [one.name for one in controls.columns].index("p given length")
    assert controls.texts()[1][given] == "" and controls.texts()[0][given] != ""


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.0, "< 1e-300"), (3.2e-310, "3e-310"), (4e-5, "4e-5"), (0.00099, "1e-3"), (0.001, "0.001"), (1.0, "1")],
)
def test_p_text(p: float, text: str) -> None:
    assert p_text(p) == text


def test_ranges_of_clusters() -> None:
    header, rows = study().tables()["cluster-ranges"].flat()
    chosen = study().main.groups[0].clusters.chosen
    own = study().variables.length[chosen.labels == 0]
    row = next(row for row in rows if row[:2] == [1, 0])
    found = [row[header.index(f"length {end}")] for end in ("min", "median", "max")]
    assert (row[2], found) == (len(own), [own.min(), np.median(own), own.max()])


def test_a_notebook_shows_verdicts_and_tables() -> None:
    shown = replace(study(), data=HOSTILE)._repr_html_()
    assert HOSTILE not in shown and "<img" not in shown, "texts are escaped"
    assert f"Attention of tiny {escape(HOSTILE)} on 60 pairs of {escape(HOSTILE)}." in shown
    assert all(escape(line) in shown for line in verdicts(study()))
    tables = [study().tables()[name] for name in ("metrics", "tests", "controls")]
    assert all(f"<th>{escape(name)}</th>" in shown for table in tables for name in table.headings)
    assert shown.count("<tr>") == sum(1 + len(table.rows) for table in tables)
