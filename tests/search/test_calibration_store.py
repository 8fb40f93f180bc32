"""The calibration of an index: kept with it, read again, refused once the corpus or the settings have changed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from conftest import save_classic
from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.metrics import ScoreMeaning
from likewise.sample import sample_sentences
from likewise.search import Calibration, Index, IndexSettings, Least, calibrate
from likewise.search.calibration_store import calibration_path, changed_setting, stored_calibration

TEXTS = [(f"t{place}", text) for place, text in enumerate(sample_sentences()[:40])]
QUERY = "A fight erupted outside the stadium."


@pytest.fixture
def index(tiny: Encoder, tmp_path: Path) -> Index:
    return Index.build(tiny, TEXTS, tmp_path / "index")


def test_an_index_without_a_calibration_has_plain_scores(index: Index) -> None:
    assert index.calibration is None
    assert index.search(QUERY, 3)[0].meaning is None
    assert "calibrat" not in index.summary()
    with pytest.raises(
        UsageError, match=f"has no calibration; calibrate first: likewise calibrate {index.store.address}"
    ):
        index.search(QUERY, least=Least(percentile=0.9))


@pytest.mark.parametrize("explain", [False, True])
def test_hits_have_the_meaning_of_their_scores(index: Index, explain: bool) -> None:
    known = index.calibrate()
    found = index.search(QUERY, 3, explain=explain)
    assert [hit.meaning for hit in found] == [known.meaning(hit.score) for hit in found]
    first = found[0]
    assert first.to_dict()["meaning"] == {"percentile": known.percentile(first.score), "probability": None}
    assert f"{first.score:.4f} ({first.meaning})" in str(found.lines()[1])
    assert f"({first.meaning})" in found.to_html()


def test_a_reopened_index_reads_it(index: Index, tiny: Encoder, tmp_path: Path) -> None:
    known = index.calibrate(name="news")
    again = Index.open(tmp_path / "index", tiny)
    assert again.calibration is not None
    assert again.calibration.to_dict() == known.to_dict()
    assert again.calibration.corpus == "news"
    assert stored_calibration(again.store).calibration is not None


def test_another_process_writes_it(index: Index, tiny: Encoder, tmp_path: Path) -> None:
    other = Index.open(tmp_path / "index", tiny)
    assert other.calibration is None
    index.calibrate()
    assert other.calibration is not None
    path = calibration_path(index.store)
    assert path == tmp_path / "index" / "calibration.json"
    path.unlink()
    assert other.calibration is None


def test_it_is_read_once(index: Index, tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index.calibrate()
    other, load, reads = Index.open(tmp_path / "index", tiny), Calibration.load, []
    monkeypatch.setattr(Calibration, "load", lambda path: reads.append(path) or load(path))
    for _ in range(3):
        other.search(QUERY, 1)
    assert len(reads) == 1


@pytest.mark.parametrize("change", ["add", "delete"])
def test_a_changed_corpus_has_plain_scores_and_a_caution(index: Index, tiny: Encoder, change: str) -> None:
    index.calibrate()
    if change == "add":
        index.add([("new", "The volcano spat ash.")])
    else:
        index.delete(["t7"])
    again = Index.open(index.store.address, tiny)
    for one in (index, again):
        assert one.calibration is None
        assert one.search(QUERY, 1)[0].meaning is None
        cure = f"was made for another corpus; calibrate again: likewise calibrate {one.store.address}"
        assert one.summary().endswith(cure)
        with pytest.raises(UsageError, match=cure):
            one.search(QUERY, least=Least(percentile=0.5))
    again.calibrate()
    assert index.calibration is not None


def test_a_corpus_that_is_as_before_fits_again(index: Index) -> None:
    index.calibrate()
    index.add([("new", "The volcano spat ash.")])
    index.delete(["new"])
    assert index.calibration is not None


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"pooling": "cls"}, "pooling"),
        ({"query_prompt": "find "}, "query prompt"),
        ({"similarity": "dot"}, "similarity"),
    ],
)
def test_other_settings_are_refused(tiny: Encoder, tmp_path: Path, changes: dict[str, Any], setting: str) -> None:
    encoder = tiny.with_pooling(pooling="cls") if "pooling" in changes else tiny
    settings = IndexSettings(**{name: value for name, value in changes.items() if name != "pooling"})
    old = Index.build(tiny, TEXTS, tmp_path / "old")
    old.calibrate()
    new = Index.build(encoder, TEXTS, tmp_path / "new", settings)
    os.replace(tmp_path / "old" / "calibration.json", tmp_path / "new" / "calibration.json")
    assert new.calibration is None
    assert f"was made for another {setting}; calibrate again" in new.summary()


def test_another_model_is_refused(index: Index, tmp_path: Path) -> None:
    index.calibrate()
    other = Encoder.load(str(save_classic(tmp_path / "other", seed=1)), device="cpu")
    new = Index.build(other, TEXTS, tmp_path / "index", replace=True)
    assert new.calibration is None
    assert "was made for another model; calibrate again" in new.summary()


def test_the_name_of_a_model_does_not_count(index: Index, tiny: Encoder) -> None:
    known = index.calibrate()
    assert changed_setting(known, {**index.store.settings, "model": "elsewhere"}) == ""
    assert changed_setting(known, {**index.store.settings, "layer": 3}) == "layer"


def test_a_damaged_file_is_a_caution(index: Index) -> None:
    index.calibrate()
    path = calibration_path(index.store)
    assert path is not None
    path.write_text(path.read_text()[:-100])
    assert index.calibration is None
    assert "is damaged or no calibration" in index.summary()
    with pytest.raises(UsageError, match="is damaged or no calibration"):
        index.search(QUERY, least=Least(percentile=0.5))


def test_an_index_can_be_built_where_only_a_calibration_is_left(index: Index, tiny: Encoder, tmp_path: Path) -> None:
    index.calibrate()
    for path in (tmp_path / "index").iterdir():
        if path.name != "calibration.json":
            path.unlink()
    assert Index.build(tiny, TEXTS, tmp_path / "index").calibration is not None


def test_memory_holds_it_in_the_object(tiny: Encoder) -> None:
    index = Index.from_texts(tiny, TEXTS)
    index.calibrate()
    assert index.search(QUERY, 1)[0].meaning is not None
    index.add(["The volcano spat ash."])
    assert index.calibration is None
    assert index.summary().endswith("calibrate again: index.calibrate()")
    assert Index.from_texts(tiny, TEXTS).calibration is None


def test_milvus_has_it_in_the_cache(tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("milvus_lite")
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    address = f"milvus:{tmp_path / 'index.db'}"
    with Index.build(tiny, TEXTS, address) as index:
        known = index.calibrate()
        assert index.search(QUERY, 1)[0].meaning is not None
    with Index.open(address, tiny) as again:
        assert again.calibration is not None
        assert again.calibration.to_dict() == known.to_dict()
        again.add([("new", "The volcano spat ash.")])
        assert again.calibration is None
        assert "was made for another corpus" in again.summary()
    assert len(list((tmp_path / "cache" / "calibrations").iterdir())) == 1


def test_least_leaves_out_lower_hits(index: Index) -> None:
    index.calibrate()
    every = index.search(QUERY, 40)
    middle = every[10].meaning
    assert middle is not None
    for explain in (False, True):
        some = index.search(
            QUERY, 40 if not explain else 12, explain=explain, least=Least(percentile=middle.percentile)
        )
        assert [hit.id for hit in some] == [hit.id for hit in every][:11]
    [found] = index.search_many([QUERY], 40, least=Least(percentile=1.0))
    assert len(found) == 0
    with pytest.raises(UsageError, match="the calibration has no labelled pairs"):
        index.search(QUERY, least=Least(probability=0.5))


def test_least_compares_what_is_known() -> None:
    both = ScoreMeaning(0.99, 0.4)
    assert Least().leaves(None)
    assert Least(percentile=0.99).leaves(both)
    assert not Least(percentile=0.99).leaves(None)
    assert not Least(0.5, 0.41).leaves(both)
    assert not Least(probability=0.1).leaves(ScoreMeaning(0.99))
    with pytest.raises(UsageError, match=r"a percentile is between 0 and 1, such as 0\.99, got 99"):
        Least(percentile=99)


def test_a_calibration_of_texts_fits_an_index_of_them(tiny: Encoder, index: Index) -> None:
    found = calibrate(tiny, [text for _, text in TEXTS])
    path = calibration_path(index.store)
    assert path is not None
    found.save(path)
    assert index.calibration is not None
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"depends": document["depends"] | {"corpus": "40-0"}}))
    assert index.calibration is None
