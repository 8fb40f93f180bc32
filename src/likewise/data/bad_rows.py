"""Bad rows: where in a data file something is wrong, the one-line error that names it, and a count of skipped rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from likewise.errors import DataError

SHOWN_CHARACTERS = 40
KEPT_ERRORS = 5


class BadRow(DataError):
    """A row that cannot be used in a file that otherwise can; ``--skip-bad`` leaves it out."""


def shown(value: object) -> str:
    r"""A value as an error shows it: short, and escaped so that it stays on one line.

    >>> shown("two\nlines")
    "'two\\nlines'"
    """
    if isinstance(value, str):
        # Cut before repr: a field can hold a million characters.
        return repr(value[:SHOWN_CHARACTERS]) + ("..." if len(value) > SHOWN_CHARACTERS else "")
    text = repr(value)
    text = text if text.isprintable() else repr(text)
    return text[:SHOWN_CHARACTERS] + ("..." if len(text) > SHOWN_CHARACTERS else "")


@dataclass(frozen=True, slots=True)
class Location:
    """A file, a line in it, or a column of that line.

    >>> str(Location("corpus.csv", 7, "score"))
    "corpus.csv, line 7, column 'score'"
    """

    file: str
    line: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        # A file name may hold a line break or bytes that no terminal can print.
        parts = [self.file if self.file.isprintable() else repr(self.file)]
        if self.line is not None:
            parts.append(f"line {self.line}")
        if self.column is not None:
            parts.append(f"column {shown(self.column)}")
        return ", ".join(parts)

    def at(self, column: str) -> Location:
        """The same line at a column.

        >>> str(Location("a.csv", 2).at("text"))
        "a.csv, line 2, column 'text'"
        """
        return replace(self, column=column)

    def error(self, message: str) -> DataError:
        """The error to raise or report here: a bad row if there is a line, else an error of the whole file.

        >>> Location("a.csv", 2).error("the text is empty")
        BadRow('a.csv, line 2: the text is empty')
        """
        return (DataError if self.line is None else BadRow)(f"{self}: {message}")


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
        return f"skipped {self.count} bad {'row' if self.count == 1 else 'rows'} (first: {self.errors[0]})"
