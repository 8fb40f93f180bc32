"""Datasets: limits, bad rows, pairs with and without scores, texts of pairs; and pairs across two of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from likewise.data import Dataset, Datasets, Pair, ScoredPair, mixed_pairs, read_texts
from likewise.errors import DataError, UsageError

ENGLISH = [ScoredPair("a", "b", 1.0, "e1", {"genre": "news"}), ScoredPair("c", "d", 2.0, "e2")]
GERMAN = [ScoredPair("A", "B", 1.0 + 5e-7, "g1"), ScoredPair("C", "D", 2.0, "g2")]


def test_left_of_the_first_and_right_of_the_second() -> None:
    mixed = list(mixed_pairs(ENGLISH, iter(GERMAN)))
    assert mixed == [ScoredPair("a", "B", 1.0, "e1"), ScoredPair("c", "D", 2.0, "e2")]
    assert mixed[0].meta == {"genre": "news"}


@pytest.mark.parametrize(
    ("first", "second", "shorter"), [(ENGLISH, GERMAN[:1], "second"), (ENGLISH[:1], GERMAN, "first")]
)
def test_different_lengths(first: list[ScoredPair], second: list[ScoredPair], shorter: str) -> None:
    with pytest.raises(DataError) as caught:
        list(mixed_pairs(first, second))
    assert str(caught.value) == (
        f"row 2: the {shorter} data set has ended; give two data sets that are parallel row by row"
    )


def test_different_scores() -> None:
    with pytest.raises(DataError) as caught:
        list(mixed_pairs(ENGLISH, [GERMAN[0], ScoredPair("C", "D", 2.00001, "g2")]))
    assert str(caught.value).startswith("row 2: the scores 2 and 2.00001 differ, so the rows are not parallel;")


SCORED = "sentence1,sentence2,score\na,b,1\nc,,2\nd,e,3\nf,g,x\n"


@pytest.fixture
def scored(tmp_path: Path) -> str:
    path = tmp_path / "scored.csv"
    path.write_text(SCORED)
    return str(path)


def test_bad_rows_raise_unless_they_are_skipped(scored: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataError, match="line 3, column 'sentence2': the text is empty"):
        Dataset(scored).pairs()
    pairs = Dataset(scored, skip_bad=True).pairs()
    assert [(pair.left, pair.right) for pair in pairs] == [("a", "b"), ("d", "e")]
    assert pairs.skipped == 2
    assert caplog.messages == [f"{scored}: skipped 2 bad rows"]


def test_limit_counts_good_rows(scored: str) -> None:
    assert [pair.left for pair in Dataset(scored, skip_bad=True, limit=2).scored_pairs()] == ["a", "d"]
    assert len(Dataset(scored, limit=1).pairs()) == 1
    with pytest.raises(UsageError, match="--limit takes a number of rows from 1 on, got 0"):
        Dataset(scored, limit=0)


@pytest.mark.parametrize("skip_bad", [False, True])
def test_pairs_without_scores_are_not_bad_rows(tmp_path: Path, skip_bad: bool) -> None:
    path = tmp_path / "plain.jsonl"
    path.write_text("\n".join(json.dumps({"left": side, "right": side}) for side in "ab"))
    pairs = Dataset(str(path), skip_bad=skip_bad).pairs()
    assert pairs == [Pair("a", "a", "1"), Pair("b", "b", "2")]
    assert pairs.skipped == 0


def test_scores_that_cannot_be_read_are_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_text("left,right,score\na,b,high\n")
    with pytest.raises(DataError, match="expected a number, got 'high'"):
        Dataset(str(path)).pairs()


def test_sentences_are_all_texts_of_texts_and_pairs(scored: str, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("x\ny\n")
    bad: list[DataError] = []
    both = Datasets((Dataset(str(texts)), Dataset(scored, skip_bad=True, limit=2)))
    assert list(both.sentences(bad.append)) == ["x", "y", "a", "b", "d", "e"]
    assert len(bad) == 1
    assert both.name == f"{texts}, {scored}"
    with pytest.raises(UsageError, match="give a file of texts or pairs"):
        Datasets(())


def test_rows_are_streamed(scored: str) -> None:
    path = Path(scored).with_name("texts.txt")
    path.write_text("x\ny\n")
    assert next(Dataset(str(path)).stream(read_texts)).text == "x"
    assert [row.id for row in Dataset(str(path)).texts()] == ["1", "2"]
