"""Several models on one corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from likewise.data import Dataset
from likewise.encoder import Encoder
from likewise.geometry import GeometrySettings, compare_geometry


class TestCompareGeometry:
    SETTINGS = GeometrySettings(min_contexts=3, draws=10, corrections=False)

    @pytest.mark.slow
    def test_each_model_on_the_same_words(self, tiny_folder: Path, tmp_path: Path) -> None:
        from conftest import save_tiny

        other = save_tiny(tmp_path / "other", seed=5, num_hidden_layers=3)
        table = compare_geometry(Dataset("sample/pairs"), [str(tiny_folder), str(other)], self.SETTINGS)
        first, second = table.to_dict()["results"]
        assert [len(first["layers"]), len(second["layers"])] == [3, 4]
        assert first["texts"] == second["texts"] == 120
        assert table.results[0].words.words == table.results[1].words.words
        assert first["layers"][1]["baseline"] != second["layers"][1]["baseline"]
        axes = table.figures()["measures"].draw()
        assert len(axes.lines) == 2 and len(axes.figure.axes) == 15

    def test_skipped_rows_are_counted_once(self, tiny: Encoder, tmp_path: Path) -> None:
        rows = ["the old town", "the old bank", "", "the old river"]
        file = tmp_path / "texts.jsonl"
        file.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
        table = compare_geometry(Dataset(str(file), skip_bad=True), ["a", "a"], self.SETTINGS, lambda name: tiny)
        assert table.results[0].skipped == 1 and len(table.results) == 1
        assert table.cautions == [f"{file}: bad rows skipped: 1"]
        assert table.to_dict()["texts"] == 3
