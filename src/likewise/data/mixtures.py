"""Mixtures: pairs across two parallel data sets, such as an English left and a German right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest

from likewise.data.examples import ScoredPair
from likewise.errors import DataError

SCORE_TOLERANCE = 1e-6


def mixed_pairs(first: Iterable[ScoredPair], second: Iterable[ScoredPair]) -> Iterator[ScoredPair]:
    """Yield the left of the first with the right of the second, row by row; the rest is the first's.

    >>> english = [ScoredPair("A plane.", "A jet.", 4.0, "1")]
    >>> german = [ScoredPair("Ein Flugzeug.", "Ein Jet.", 4.0, "1")]
    >>> next(mixed_pairs(english, german)).right
    'Ein Jet.'
    """
    for row, (one, other) in enumerate(zip_longest(first, second), start=1):
        if one is None or other is None:
            shorter = "first" if one is None else "second"
            raise DataError(
                f"row {row}: the {shorter} data set has ended; "
                "mixed pairs need two data sets that are parallel row by row"
            )
        if abs(one.score - other.score) > SCORE_TOLERANCE:
            raise DataError(
                f"row {row}: the scores {one.score:g} and {other.score:g} differ, so the rows are not "
                "parallel; give two translations of the same pairs in the same order"
            )
        yield replace(one, right=other.right)
