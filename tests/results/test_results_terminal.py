"""Tables in a terminal: wide ones in parts, and rows of tables that differ in width."""

from __future__ import annotations

import pytest

from likewise.metrics import Interval
from likewise.results import Table
from likewise.results.terminal import _fitting

WIDE = Table.of(["model", "pair", *map(str, range(15))], [("m", "a / b", *[0.5] * 15)], "cosines", "a note")


@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_wide_table_is_shown_in_parts_that_repeat_its_texts(width: int) -> None:
    parts = _fitting(WIDE, width)
    assert len(parts) > 1
    assert [name for part in parts for name in part.headings[2:]] == [str(layer) for layer in range(15)]
    assert {tuple(part.headings[:2]) for part in parts} == {("model", "pair")}
    assert {tuple(row[:2]) for part in parts for row in part.rows} == {("m", "a / b")}
    assert [(part.title, part.note) for part in parts] == [("cosines", "a note"), *[("", "")] * (len(parts) - 1)]


def test_a_table_that_fits_stays_whole() -> None:
    assert _fitting(WIDE, 160) == [WIDE]


def test_texts_are_folded_and_not_split() -> None:
    table = Table.of(["n", "text"], [(1, "word " * 100)])
    assert _fitting(table, 40) == [table]


def test_rows_of_a_narrower_table_end_in_empty_cells() -> None:
    shallow, deep = Table.of(["0"], [[Interval(1, 0, 2)]]), Table.of(["0", "1"], [[0.5, 0.25]])
    for both in (shallow.extended(deep), deep.extended(shallow)):
        assert both.headings == ["0", "1"] and sorted(len(row) for row in both.rows) == [2, 2]
    assert shallow.extended(deep).texts() == [["1\n0 to 2", ""], ["0.5000", "0.2500"]]
