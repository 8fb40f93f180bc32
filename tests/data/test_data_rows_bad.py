from __future__ import annotations

import pytest

from likewise.data import SkippedRows
from likewise.data.rows import KEPT_ERRORS, BadRow, Location, shown
from likewise.errors import DataError


def test_a_place_with_a_line_gives_a_bad_row() -> None:
    error = Location("corpus.csv", 7, "score").error("expected a number, got 'abc'")
    assert isinstance(error, BadRow)
    assert str(error) == "corpus.csv, line 7, column 'score': expected a number, got 'abc'"


def test_a_place_without_a_line_gives_the_files_error() -> None:
    error = Location("corpus.csv").error("is empty")
    assert type(error) is DataError
    assert str(error) == "corpus.csv: is empty"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("abc", "'abc'"),
        ("a\nb\x00\x1b", r"'a\nb\x00\x1b'"),
        ("x" * 41, "'" + "x" * 40 + "'..."),
        ("\u202egnp", r"'\u202egnp'"),
        ("\udcff", r"'\udcff'"),
        (None, "None"),
        ([1] * 100, "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ..."),
    ],
)
def test_shown_is_short_and_on_one_line(value: object, text: str) -> None:
    assert shown(value) == text


def test_an_odd_file_name_stays_on_one_line() -> None:
    assert str(Location("a\nb.csv", 2)) == r"'a\nb.csv', line 2"


def test_counts_and_keeps_the_first_errors() -> None:
    skipped = SkippedRows()
    assert str(skipped) == "skipped no rows"
    skipped(DataError("a"))
    assert str(skipped) == "skipped 1 bad row (first: a)"
    for _ in range(9):
        skipped(DataError("b"))
    assert str(skipped) == "skipped 10 bad rows (first: a)"
    assert len(skipped.errors) == KEPT_ERRORS
