"""The folder of a proof: its tables hold the numbers of the study."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.evaluation.conservation import Conservation, ConservationPanel
from likewise.evaluation.faithfulness import Faithfulness
from likewise.evaluation.faithfulness_report import write_proof
from likewise.evaluation.faithfulness_study import Proof
from likewise.evaluation.perturbation import FRACTIONS


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
def proof() -> Proof:
    return Proof(made_up("bilrp", "random", second_order=True), made_up("bilrp", "integrated-jacobian", seed=1), panels())


@pytest.fixture(scope="module")
def folder(proof: Proof, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drawn once."""
    run = {"command": "faithfulness", "seed": 7}
    return write_proof(proof, run, tmp_path_factory.mktemp("proofs") / "new")


def test_files(folder: Path) -> None:
    tables = ["areas", "methods", "curves", "slow_areas", "slow_methods", "slow_curves", "second_order", "conservation"]
    figures = ["curves", "slow_curves", "insertion", "deletion", "conservation"]
    expected = {f"{name}.csv" for name in tables} | {f"{name}{end}" for name in figures for end in (".png", ".svg")}
    assert {path.name for path in folder.iterdir()} == expected | {"run.json"}


def test_small_proof_writes_less(tmp_path: Path) -> None:
    write_proof(Proof(made_up("bilrp")), {}, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "run.json", "areas.csv", "methods.csv", "curves.csv", "curves.png", "curves.svg",
    }  # fmt: skip


def test_run_holds_the_results(proof: Proof, folder: Path) -> None:
    found = json.loads((folder / "run.json").read_text())
    assert (found["command"], found["seed"]) == ("faithfulness", 7)
    assert found["results"] == json.loads(json.dumps(proof.to_dict()))
    assert "torch" in found["versions"]


@pytest.mark.parametrize("prefix", ["", "slow_"])
def test_tables_hold_every_pair_and_every_step(proof: Proof, folder: Path, prefix: str) -> None:
    study: Any = proof.slow if prefix else proof.faithfulness
    areas = rows_of(folder / f"{prefix}areas.csv")
    assert len(areas) == 2 * 5
    for row in areas:
        assert float(row["aupc"]) == study.areas[row["method"]][int(row["pair"])]
    curves = rows_of(folder / f"{prefix}curves.csv")
    assert len(curves) == 2 * len(FRACTIONS)
    for row in curves:
        place = int(np.flatnonzero(float(row["fraction"]) == FRACTIONS)[0])
        assert float(row["distance"]) == study.curves[row["method"]].mean(0)[place]
    methods = rows_of(folder / f"{prefix}methods.csv")
    assert [row["method"] for row in methods] == [row[0] for row in study.rows()]
    assert [float(row["AUPC"]) for row in methods] == sorted(areas.mean() for areas in study.areas.values())


def test_second_order_and_conservation(proof: Proof, folder: Path) -> None:
    second = [(row["method"], float(row["insertion"]), float(row["deletion"]))
              for row in rows_of(folder / "second_order.csv")]  # fmt: skip
    assert second == proof.faithfulness.second_order_rows()
    points = rows_of(folder / "conservation.csv")
    assert len(points) == 4 * 3
    for row in points:
        assert float(row["relevance"]) - float(row["components"]) == int(row["panel"][-1])


def test_run_is_json_where_a_number_is_none(tmp_path: Path) -> None:
    alike = ConservationPanel("panel", np.ones(2), np.ones(2))
    write_proof(Proof(made_up("bilrp"), None, Conservation("model", (alike,) * 4)), {}, tmp_path)
    assert "NaN" not in (tmp_path / "run.json").read_text()
