"""A folder of results: run.json, tables as csv, figures as png and svg."""

from __future__ import annotations

import csv
import json
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import pytest

from likewise.plotting.curves import curves
from likewise.results.folder import Results, versions, write_results


def test_everything_is_written(tmp_path: Path) -> None:
    ax = curves([0, 1], {"mean": ([1, 2], None, None)}, ("x", "y"))
    table = (("name", "value"), [("a", 0.1), ("b", 2.0)])
    folder = tmp_path / "new" / "deep"
    assert write_results(Results({"seed": 3}, {"areas": table}, {"curve": ax}), folder) == folder
    assert {path.name for path in folder.iterdir()} == {"run.json", "areas.csv", "curve.png", "curve.svg"}
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    ElementTree.parse(folder / "curve.svg")


def test_run_names_settings_and_versions(tmp_path: Path) -> None:
    run = {"command": "test", "seed": 3, "text": "日本", "settings": {"variants": ("a", "b")}, "path": Path("a/b")}
    write_results(Results(run), tmp_path)
    found = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert found["seed"] == 3 and found["settings"]["variants"] == ["a", "b"] and found["text"] == "日本"
    assert found["path"] == str(Path("a/b")), "what JSON does not know is written as text"
    assert found["versions"] == versions()
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_versions() -> None:
    found = versions()
    assert found["torch"] == version("torch") and found["numpy"] == version("numpy")
    assert {"python", "likewise", "transformers", "tokenizers", "scipy"} <= found.keys()


def test_a_package_that_is_missing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.results.folder.PACKAGES", ("numpy", "no-such-package"))
    assert versions().keys() == {"python", "numpy"}


def test_tables_are_read_back(tmp_path: Path) -> None:
    """Commas, quotes, line breaks and exact numbers survive."""
    rows = [('a, "b"', 0.1 + 0.2), ("line\nbreak", 1e-300), ("ü", 3), ("", "")]
    write_results(Results({}, {"t": (("name", "value"), rows)}), tmp_path)
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        header, *found = csv.reader(file)
    assert header == ["name", "value"]
    assert [name for name, _ in found] == [name for name, _ in rows]
    assert float(found[0][1]) == 0.1 + 0.2 and float(found[1][1]) == 1e-300


def test_results_are_replaced(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_results(Results({"seed": seed}, {"t": (("a",), [(seed,)] * (3 - seed))}), tmp_path)
    assert json.loads((tmp_path / "run.json").read_text())["seed"] == 2
    assert (tmp_path / "t.csv").read_text().split() == ["a", "2"]
