"""Writing: some rows of a file into another one of the same format, byte for byte."""

from __future__ import annotations

import gzip
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from likewise.data.columns import GUESSED, Columns, Record, RoleFinder, read_examples
from likewise.data.dataset import Dataset
from likewise.data.rows import FORMATS, Cursor, OnBad, locate, suffix_of, text_lines
from likewise.errors import UsageError
from likewise.storage import atomic_write


def check_copy(source: Dataset, target: Path) -> None:
    """Rejects a file that exists, or has another format than the source, before any work."""
    suffix = suffix_of(locate(source.name, source.data_dir))
    if target.exists():
        raise UsageError(f"{target} exists and is not overwritten; give another file or remove it")
    if suffix_of(target) != suffix:
        raise UsageError(f"{target} is no {suffix} file, as {source.name} is; name it {target.stem}{suffix}")
    if not target.resolve().parent.is_dir():
        raise UsageError(f"no folder {target.parent} to write {target.name} to; make it first")


def copy_rows(source: Dataset, chosen: Iterable[bool], target: Path) -> None:
    """Write the header and the chosen rows among those that ``Dataset.texts`` reads; ``target`` must not exist.

    A row keeps its bytes: quotes, line breaks and other columns. A name that ends with .gz is compressed.

    >>> copy_rows(Dataset("sample/sentences", limit=3), [True, False, True], Path("some.csv"))
    >>> [text.id for text in Dataset("some.csv").texts()]
    ['s001', 's003']
    """
    check_copy(source, target)
    lines = {line for line, is_chosen in zip(source.stream(_read_lines), chosen, strict=True) if is_chosen}

    def write(draft: Path) -> None:
        opened: Any = gzip.open if target.suffix == ".gz" else open
        with opened(draft, "wt", encoding="utf-8", errors="surrogateescape", newline="") as stream:
            stream.writelines(_chosen(source, lines))

    atomic_write(target, write, unique=True)


def _read_lines(
    source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None, on_bad: OnBad | None = None
) -> Iterator[int]:
    """The line on which each row with a text starts."""
    path = locate(source, data_dir)

    def line(record: Record) -> int:
        record.text("text")  # raises where it cannot be used
        return record.row.line

    return read_examples(path, RoleFinder(path, str(source), ("text",), columns), line, on_bad)


def _chosen(source: Dataset, lines: Collection[int]) -> Iterator[str]:
    """The header's lines, and those of each chosen row: up to where the next row starts."""
    path = locate(source.name, source.data_dir)
    starts = {line for line, _ in FORMATS[suffix_of(path)](path, source.name, Cursor())}
    is_chosen = suffix_of(path) in (".csv", ".tsv")  # Files with a header begin with it
    for number, text in enumerate(text_lines(path, source.name, "" if suffix_of(path) == ".csv" else "\n"), start=1):
        if number in starts:
            is_chosen = number in lines
        if is_chosen:
            yield text
