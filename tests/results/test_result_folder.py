"""A folder of results: run.json, tables as csv, figures as png and svg."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from likewise.plotting.curves import curves
from likewise.results import Figure, Result, Table
from likewise.results.result import versions


@dataclass(frozen=True)
class Some(Result):
    """A result with at most one table and one figure."""

    table: Table | None = None
    figure: Figure | None = None

    def to_dict(self) -> dict[str, Any]:
        return {}

    def tables(self) -> dict[str, Table]:
        return {} if self.table is None else {"t": self.table}

    def figures(self) -> dict[str, Figure]:
        return {} if self.figure is None else {"curve": self.figure}


def test_everything_is_written(tmp_path: Path) -> None:
    figure = Figure(lambda: curves([0, 1], {"mean": ([1, 2], None, None)}, ("x", "y")))
    table = Table.of(("name", "value"), [("a", 0.1), ("b", 2.0)])
    folder = tmp_path / "new" / "deep"
    assert Some(table, figure).save(folder, {"seed": 3}) == folder
    assert {path.name for path in folder.iterdir()} == {"run.json", "t.csv", "curve.png", "curve.svg", "index.html"}
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    ElementTree.parse(folder / "curve.svg")


def test_run_names_settings_and_versions(tmp_path: Path) -> None:
    run = {"command": "test", "seed": 3, "text": "日本", "settings": {"variants": ("a", "b")}, "path": Path("a/b")}
    Some().save(tmp_path, run)
    found = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert found["seed"] == 3 and found["settings"]["variants"] == ["a", "b"] and found["text"] == "日本"
    assert found["path"] == str(Path("a/b")), "what JSON does not know is written as text"
    assert found["versions"] == versions()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.html", "run.json"]


def test_versions() -> None:
    found = versions()
    assert found["torch"] == version("torch") and found["numpy"] == version("numpy")
    assert {"python", "likewise", "transformers", "tokenizers", "scipy"} <= found.keys()


def test_a_package_that_is_missing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.results.result.PACKAGES", ("numpy", "no-such-package"))
    assert versions().keys() == {"python", "numpy"}


def test_tables_are_read_back(tmp_path: Path) -> None:
    """Commas, quotes, line breaks and exact numbers survive."""
    rows = [('a, "b"', 0.1 + 0.2), ("line\nbreak", 1e-300), ("ü", 3), ("", "")]
    Some(Table.of(("name", "value"), rows)).save(tmp_path)
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        header, *found = csv.reader(file)
    assert header == ["name", "value"]
    assert [name for name, _ in found] == [name for name, _ in rows]
    assert float(found[0][1]) == 0.1 + 0.2 and float(found[1][1]) == 1e-300


def test_results_are_replaced(tmp_path: Path) -> None:
    for seed in (1, 2):
        Some(Table.of(["a"], [(seed,)] * (3 - seed))).save(tmp_path, {"seed": seed})
    assert json.loads((tmp_path / "run.json").read_text())["seed"] == 2
    assert (tmp_path / "t.csv").read_text().split() == ["a", "2"]
