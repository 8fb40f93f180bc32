"""A study of faithfulness: fast methods on all pairs, the slow one on fewer, conservation; its folder of tables."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.data import Pair
from likewise.encoder import Encoder
from likewise.errors import Cancelled, DataError
from likewise.evaluation.faithfulness import (
    Conservation,
    ConservationPanel,
    Faithfulness,
    FaithfulnessStudy,
    PerturbationSettings,
    conservation,
    faithfulness,
    study_faithfulness,
)
from likewise.evaluation.perturbation import FRACTIONS
from tiny_models import tiny_encoder

PAIRS = [
    Pair("the man is out", "a dog, the", "1"),
    Pair("red", "green is the sea", "2"),
    Pair("the man is out", "it is red", "3"),
]


@cache
def bert() -> Encoder:
    return tiny_encoder("bert")


def run(*variants: str, slow_pairs: int = 2, sentences: int = 0, **settings: Any) -> FaithfulnessStudy:
    chosen = PerturbationSettings(variants, steps=2, **settings)
    return study_faithfulness(bert(), PAIRS, chosen, slow_pairs, sentences)


def test_quick_methods_only() -> None:
    found = run("bilrp", "random", second_order=True)
    assert found.slow is None and found.conservation is None
    expected = faithfulness(bert(), PAIRS, PerturbationSettings(("bilrp", "random"), second_order=True))
    for name in ("bilrp", "random"):
        np.testing.assert_array_equal(found.faithfulness.curves[name], expected.curves[name])
        np.testing.assert_array_equal(found.faithfulness.deletion[name], expected.deletion[name])


def test_slow_method_has_fewer_pairs_and_company() -> None:
    found = run("bilrp", "hxp", "integrated-jacobian", second_order=True)
    assert list(found.faithfulness.curves) == ["bilrp", "hxp"]
    assert found.slow is not None and set(found.slow.curves) == {"bilrp", "random", "integrated-jacobian"}
    assert {len(curve) for curve in found.faithfulness.curves.values()} == {3}
    assert {len(curve) for curve in found.slow.curves.values()} == {2}
    np.testing.assert_allclose(found.slow.curves["bilrp"], found.faithfulness.curves["bilrp"][:2], atol=1e-6)
    assert set(found.slow.insertion) == set(found.slow.curves)
    expected = faithfulness(bert(), PAIRS[:2], PerturbationSettings(("integrated-jacobian",), steps=2))
    np.testing.assert_allclose(
        found.slow.curves["integrated-jacobian"], expected.curves["integrated-jacobian"], atol=1e-6
    )


def test_slow_method_alone_is_the_study() -> None:
    found = run("integrated-jacobian")
    assert found.slow is None
    assert set(found.faithfulness.curves) == {"bilrp", "random", "integrated-jacobian"}
    assert len(found.faithfulness.curves["integrated-jacobian"]) == 2


@pytest.mark.parametrize(("sentences", "expected"), [(2, 2), (3, 3), (300, 5)])
def test_conservation_is_on_the_first_different_texts(sentences: int, expected: int) -> None:
    found = run("embedding", sentences=sentences).conservation
    assert found is not None
    texts = ["the man is out", "a dog, the", "red", "green is the sea", "it is red"][:expected]
    for panel, wanted in zip(found.panels, conservation(bert(), texts).panels, strict=True):
        np.testing.assert_allclose(panel.components, wanted.components)
        np.testing.assert_allclose(panel.relevance, wanted.relevance)


def test_json() -> None:
    whole = json.loads(json.dumps(run("bilrp", "integrated-jacobian", sentences=3).to_dict(), allow_nan=False))
    assert whole["methods"].keys() == {"bilrp"} and whole["n"] == 3
    assert whole["slow"]["n"] == 2 and "integrated-jacobian" in whole["slow"]["methods"]
    assert whole["conservation"]["n"] == 3
    assert run("bilrp").to_dict().keys() & {"slow", "conservation"} == set()


def test_no_pairs() -> None:
    with pytest.raises(DataError, match="at least one pair"):
        study_faithfulness(bert(), [], PerturbationSettings(("bilrp",)), sentences=0)


def test_progress_and_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0)
    seen: list[tuple[int, int | None, str]] = []
    settings = PerturbationSettings(("embedding",))
    study_faithfulness(bert(), PAIRS, settings, 2, 3, lambda *call: seen.append(call))
    assert (3, 3, "pairs") in seen and seen[-1] == (9, 9, "texts")

    def cancel(_done: int, _total: int | None, note: str) -> None:
        if note == "texts":
            raise Cancelled

    with pytest.raises(Cancelled):
        study_faithfulness(bert(), PAIRS, settings, 2, 3, cancel)


def made_up(*names: str, second_order: bool = False, seed: int = 0) -> Faithfulness:
    rng = np.random.default_rng(seed)
    curves = [{name: rng.uniform(size=(5, 26)) for name in names} for _ in range(3)]
    return Faithfulness("model", "mean", *(curves if second_order else curves[:1]))


def panels() -> Conservation:
    points = np.array([1.0, 2.0, 3.5])
    named = [ConservationPanel(f"panel {place}", points, points + place) for place in range(4)]
    return Conservation("model", tuple(named))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def study() -> FaithfulnessStudy:
    return FaithfulnessStudy(
        made_up("bilrp", "random", second_order=True), made_up("bilrp", "integrated-jacobian", seed=1), panels()
    )


@pytest.fixture(scope="module")
def folder(study: FaithfulnessStudy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drawn once."""
    run = {"command": "faithfulness", "seed": 7}
    return study.save(tmp_path_factory.mktemp("studies") / "new", run)


@pytest.mark.slow
def test_files(folder: Path) -> None:
    tables = ["areas", "methods", "curves", "slow_areas", "slow_methods", "slow_curves", "second_order", "conservation",
              "conservation_r2"]  # fmt: skip
    figures = ["curves", "slow_curves", "insertion", "deletion", "conservation"]
    expected = {f"{name}.csv" for name in tables} | {f"{name}{end}" for name in figures for end in (".png", ".svg")}
    assert {path.name for path in folder.iterdir()} == expected | {"run.json", "index.html"}


def test_small_study_writes_less(tmp_path: Path) -> None:
    FaithfulnessStudy(made_up("bilrp")).save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "run.json", "index.html", "areas.csv", "methods.csv", "curves.csv", "curves.png", "curves.svg",
    }  # fmt: skip


@pytest.mark.slow
def test_run_holds_the_results(study: FaithfulnessStudy, folder: Path) -> None:
    found = json.loads((folder / "run.json").read_text())
    assert (found["command"], found["seed"]) == ("faithfulness", 7)
    assert found["results"] == json.loads(json.dumps(study.to_dict()))
    assert "torch" in found["versions"]


@pytest.mark.parametrize("prefix", ["", "slow_"])
def test_tables_hold_every_pair_and_every_step(study: FaithfulnessStudy, folder: Path, prefix: str) -> None:
    found: Any = study.slow if prefix else study.faithfulness
    areas = rows_of(folder / f"{prefix}areas.csv")
    assert len(areas) == 2 * 5
    for row in areas:
        assert float(row["aupc"]) == found.areas[row["method"]][int(row["pair"])]
    curves = rows_of(folder / f"{prefix}curves.csv")
    assert len(curves) == 2 * len(FRACTIONS)
    for row in curves:
        place = int(np.flatnonzero(float(row["fraction"]) == FRACTIONS)[0])
        assert float(row["distance"]) == found.curves[row["method"]].mean(0)[place]
    methods = rows_of(folder / f"{prefix}methods.csv")
    assert [row["method"] for row in methods] == [row[0] for row in found.tables()["methods"].rows]
    assert [float(row["AUPC"]) for row in methods] == sorted(areas.mean() for areas in found.areas.values())


def test_second_order_and_conservation(study: FaithfulnessStudy, folder: Path) -> None:
    second = [(row["method"], float(row["insertion"]), float(row["deletion"]))
              for row in rows_of(folder / "second_order.csv")]  # fmt: skip
    assert second == study.tables()["second_order"].rows
    points = rows_of(folder / "conservation.csv")
    assert len(points) == 4 * 3
    for row in points:
        assert float(row["relevance"]) - float(row["components"]) == int(row["panel"][-1])


@pytest.mark.slow
def test_run_is_json_where_a_number_is_none(tmp_path: Path) -> None:
    alike = ConservationPanel("panel", np.ones(2), np.ones(2))
    FaithfulnessStudy(made_up("bilrp"), None, Conservation("model", (alike,) * 4)).save(tmp_path)
    assert "NaN" not in (tmp_path / "run.json").read_text()
