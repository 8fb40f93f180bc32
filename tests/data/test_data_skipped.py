from __future__ import annotations

from likewise.data import SkippedRows
from likewise.data.bad_rows import KEPT_ERRORS
from likewise.errors import DataError


def test_counts_and_keeps_the_first_errors() -> None:
    skipped = SkippedRows()
    assert str(skipped) == "skipped no rows"
    skipped(DataError("a"))
    assert str(skipped) == "skipped 1 bad row (first: a)"
    for _ in range(9):
        skipped(DataError("b"))
    assert str(skipped) == "skipped 10 bad rows (first: a)"
    assert len(skipped.errors) == KEPT_ERRORS
