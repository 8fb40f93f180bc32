"""Skipped rows: what a reader passed over."""

from __future__ import annotations

from likewise.errors import DataError

KEPT_ERRORS = 5


class SkippedRows:
    """Counts bad rows and keeps the first few errors; pass it to a reader as ``on_bad``.

    >>> skipped = SkippedRows()
    >>> skipped(DataError("a.csv, line 2, column 'text': the text is empty"))
    >>> str(skipped)
    "skipped 1 bad row (first: a.csv, line 2, column 'text': the text is empty)"
    """

    def __init__(self) -> None:
        self.count = 0
        self.errors: list[DataError] = []

    def __call__(self, error: DataError) -> None:
        """Count one bad row."""
        self.count += 1
        if len(self.errors) < KEPT_ERRORS:
            self.errors.append(error)

    def __str__(self) -> str:
        if not self.count:
            return "skipped no rows"
        rows = "row" if self.count == 1 else "rows"
        return f"skipped {self.count} bad {rows} (first: {self.errors[0]})"
