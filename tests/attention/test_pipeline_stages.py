"""Stages: made once, made again where what they depend on has changed, never half written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from likewise.attention.pipeline import Stages, key_of
from likewise.errors import UsageError


def test_a_stage_is_made_once_for_its_key(tmp_path: Path) -> None:
    made: list[str] = []

    def document(key: str) -> object:
        def make() -> object:
            made.append(key)
            return {"key": key}

        return Stages(tmp_path).document("clusters", key, make)

    assert document("a") == document("a") == {"key": "a"}
    assert document("b") == {"key": "b"}
    assert document("a") == {"key": "a"}
    assert made == ["a", "b", "a"]


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    points = np.random.default_rng(0).normal(size=(3, 2))
    kept = Stages(tmp_path).arrays("points", "k", lambda: {"points": points, "loss": [0.5]})
    again = Stages(tmp_path).arrays("points", "k", lambda: pytest.fail("made again"))
    assert np.array_equal(kept["points"], points) and np.array_equal(again["points"], points)
    assert again["loss"].tolist() == [0.5]


def test_a_break_leaves_no_half_result(tmp_path: Path) -> None:
    def broken() -> object:
        raise KeyboardInterrupt

    stages = Stages(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        stages.document("labels", "k", broken)
    assert stages.document("labels", "k", lambda: [1, 2]) == [1, 2]


def test_another_key_clears_what_was_there(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    (stages.path("points", "a") / "autoencoder.pt").write_text("old")
    assert (stages.path("points", "a") / "autoencoder.pt").exists()
    assert not (stages.path("points", "b") / "autoencoder.pt").exists()


def test_keys_see_every_part() -> None:
    assert key_of("m", {"a": 1, "b": 2}) == key_of("m", {"b": 2, "a": 1})
    assert len({key_of("m", 1), key_of("m", 2), key_of("n", 1), key_of("m"), key_of(["m", 1])}) == 5


def test_a_break_while_clearing_leaves_no_key_over_half_a_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = Stages(tmp_path / "stages")
    (stages.path("maps", "a") / "maps.f16").write_text("whole")

    def broken(folder: Path) -> None:
        (folder / "maps.f16").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr("likewise.attention.pipeline.shutil.rmtree", broken)
    with pytest.raises(KeyboardInterrupt):
        stages.path("maps", "b")
    monkeypatch.undo()
    assert [path.name for path in stages.path("maps", "a").iterdir()] == ["key.txt"]


def test_somebody_elses_folder_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "stages" / "maps" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(UsageError, match="choose another --out"):
        Stages(tmp_path / "stages").path("maps", "a")
    assert mine.read_text() == "mine"
