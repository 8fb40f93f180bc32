from __future__ import annotations

import pytest

from likewise.data import ScoredPair, mixed_pairs
from likewise.errors import DataError

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
        f"row 2: the {shorter} data set has ended; mixed pairs need two data sets that are parallel row by row"
    )


def test_different_scores() -> None:
    with pytest.raises(DataError) as caught:
        list(mixed_pairs(ENGLISH, [GERMAN[0], ScoredPair("C", "D", 2.00001, "g2")]))
    assert str(caught.value).startswith("row 2: the scores 2 and 2.00001 differ, so the rows are not parallel;")
