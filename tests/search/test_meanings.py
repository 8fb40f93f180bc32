"""The calibration for single scores: found by index, corpus or file; refused for other scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from likewise.data import Dataset
from likewise.encoder import Encoder
from likewise.encoder.inspection import text_similarities
from likewise.errors import DataError, UsageError
from likewise.sample import sample_sentences
from likewise.search import Index, IndexSettings, calibrate
from likewise.search.indexed_files import cached_index
from likewise.search.meanings import calibration_for, similarities_with_meaning

TEXTS = sample_sentences()[:40]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))


def test_of_a_file(tiny: Encoder, tmp_path: Path) -> None:
    path = calibrate(tiny, TEXTS).save(tmp_path / "meaning.json")
    assert calibration_for(str(path), tiny).texts == 40


def test_of_an_index(tiny: Encoder, tmp_path: Path) -> None:
    index = Index.build(tiny, TEXTS, tmp_path / "index")
    with pytest.raises(UsageError, match="has no calibration"):
        calibration_for(str(tmp_path / "index"), tiny)
    index.calibrate()
    assert calibration_for(str(tmp_path / "index"), tiny).texts == 40
    index.add(["one more text"])
    with pytest.raises(UsageError, match="was made for another corpus"):
        calibration_for(str(tmp_path / "index"), tiny)


def test_of_a_corpus(tiny: Encoder) -> None:
    with pytest.raises(UsageError, match="sample/sentences has no calibration; calibrate first"):
        calibration_for("sample/sentences", tiny)
    cached_index(tiny, Dataset("sample/sentences"), IndexSettings()).index.calibrate()
    assert calibration_for("sample/sentences", tiny).texts == 300
    with pytest.raises(DataError):
        calibration_for("no/such/file.csv", tiny)


def test_other_scores_are_refused(tiny: Encoder, tmp_path: Path) -> None:
    path = str(calibrate(tiny, TEXTS).save(tmp_path / "meaning.json"))
    with pytest.raises(UsageError, match=r"was made for another pooling \('mean', not 'cls'\); use the same"):
        calibration_for(path, tiny.with_pooling(pooling="cls"))
    with pytest.raises(UsageError, match=r"was made for another query prompt \('', not 'find '\)"):
        calibration_for(path, tiny, ("find ", None))
    with pytest.raises(UsageError, match="was made for another similarity"):
        calibration_for(path, tiny, similarity="dot")


def test_similarities_have_meanings(tiny: Encoder) -> None:
    known = calibrate(tiny, TEXTS)
    found = similarities_with_meaning(text_similarities(tiny, TEXTS[:3], matrix=True), known)
    assert found.to_dict()["meaning"][0][1] == known.meaning(float(found.scores[0, 1])).to_dict()
    assert len(found.tables()["similarity"].rows) == 9
