"""An index in memory: the same engine, scores, errors and changes as one in a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from likewise.data import Text
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.sample import sample_sentences
from likewise.search import Hit, Index, IndexSettings

TEXTS = sample_sentences()[:60]
ITEMS = [(f"t{number}", text) for number, text in enumerate(TEXTS)]


@pytest.mark.parametrize(
    "settings",
    [IndexSettings(), IndexSettings("hnsw"), IndexSettings("ivf", 8), IndexSettings("exact", 8, "dot", "the ", "a ")],
    ids=str,
)
def test_same_hits_as_in_a_folder(tiny: Encoder, tmp_path: Path, settings: IndexSettings) -> None:
    memory = Index.from_texts(tiny, ITEMS, settings)
    folder = Index.build(tiny, ITEMS, tmp_path / "index", settings)
    for query in ("the cat", "a volcano erupted", TEXTS[3]):
        assert memory.search(query, 7) == folder.search(query, 7)
    assert memory.store.searched == folder.store.searched and memory.summary() == folder.summary()
    assert memory.corpus() == folder.corpus()
    for (_, mine), (_, theirs) in zip(memory.score_blocks(["cat"]), folder.score_blocks(["cat"]), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_changes_are_those_of_a_folder(tiny: Encoder, tmp_path: Path) -> None:
    memory, folder = Index.from_texts(tiny, ITEMS[:9]), Index.build(tiny, ITEMS[:9], tmp_path / "index")
    for index in (memory, folder):
        index.add(ITEMS[5:20])
        index.delete(["t0", "t19", "t7"])
        with pytest.raises(DataError, match="'t1' is already in the index with another text"):
            index.add([("new", "a new one"), ("t1", "another text")])
        with pytest.raises(DataError, match="'t0' is not in the index; nothing was deleted"):
            index.delete(["t3", "t0"])
    assert len(memory) == len(folder) == 17 and memory.corpus() == folder.corpus()
    assert memory.search("the cat", 20) == folder.search("the cat", 20)


def test_everything_can_be_deleted_and_added_again(tiny: Encoder) -> None:
    index = Index.from_texts(tiny, ITEMS[:2])
    index.delete(["t0", "t1"])
    assert len(index) == 0 and len(index.search("cat")) == 0
    index.add(ITEMS[:2])
    assert [hit.id for hit in index.search(TEXTS[1], 1)] == ["t1"]


def test_a_failed_addition_changes_nothing(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index.from_texts(tiny, ITEMS[:3])
    with pytest.raises(DataError, match="an item is a text or a tuple"):
        index.add([("t9", "a new one"), 7])  # type: ignore[list-item]
    assert len(index) == 3 and "t9" not in index.corpus().ids


class TestPlainTexts:
    def test_ids_are_numbers_from_one(self, tiny: Encoder, tmp_path: Path) -> None:
        for index in (Index.from_texts(tiny, TEXTS), Index.build(tiny, TEXTS, tmp_path / "index")):
            assert list(index.corpus().ids) == [str(number) for number in range(1, 61)]
            assert list(index.corpus().texts) == TEXTS
            index.add(["one more"])
            assert index.corpus().ids[-1] == "61"

    def test_two_letters_are_a_text(self, tiny: Encoder, tmp_path: Path) -> None:
        index = Index.build(tiny, ["ab", "cd"], tmp_path / "index")
        assert (list(index.corpus().ids), list(index.corpus().texts)) == (["1", "2"], ["ab", "cd"])

    def test_rows_of_a_reader(self, tiny: Encoder) -> None:
        index = Index.from_texts(tiny, [Text("a cat", id="x"), ("y", "a dog"), "a fox"])
        assert list(index.corpus().ids) == ["x", "y", "3"]

    @pytest.mark.parametrize("item", [["a", "text"], ("a", "b", "c"), 7, None, b"bytes"], ids=str)
    def test_other_items_are_rejected(self, tiny: Encoder, item: object) -> None:
        with pytest.raises(DataError, match=r"an item is a text or a tuple \(id, text\), got"):
            Index.from_texts(tiny, [item])  # type: ignore[list-item]

    def test_ids_and_texts_are_strings(self, tiny: Encoder) -> None:
        with pytest.raises(DataError, match="an id and a text are strings, got 7 and str"):
            Index.from_texts(tiny, [(7, "text")])  # type: ignore[list-item]


class TestShown:
    def test_representations_have_one_line(self, tiny: Encoder) -> None:
        index = Index.from_texts(tiny, ["two\nlines " * 40, "a cat"])
        found = index.search("a\ncat", 2)
        for one in (index, found, found[0], found[1], index.search("cat", 1, explain=True)[0]):
            assert "\n" not in repr(one) and len(repr(one)) < 200
        assert repr(index) == f"<Index memory: 2 texts, {tiny.name}, exact>"
        assert repr(Hit("7", "A cat.", 0.25)) == "<Hit 7: 0.2500 'A cat.'>"

    def test_data_frames(self, tiny: Encoder) -> None:
        pytest.importorskip("pandas")
        index = Index.from_texts(tiny, ITEMS)
        plain, explained = index.search("the cat", 3), index.search("the cat", 3, explain=True)
        assert list(plain.to_dataframe()) == ["query", "rank", "id", "score", "text"]
        frame = explained.to_dataframe()
        assert frame["id"].tolist() == plain.to_dataframe()["id"].tolist()
        assert frame["margin"].tolist() == [hit.margin for hit in explained]
        words = explained.to_dataframe("words")
        assert words["share"].tolist() == [share for hit in explained for *_, share in hit.words]

    def test_options_without_explain_have_no_effect(self, tiny: Encoder) -> None:
        with pytest.raises(UsageError, match="granularity has no effect without explain=True"):
            Index.from_texts(tiny, ["a cat"]).search("cat", granularity="token")
