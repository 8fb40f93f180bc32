"""Overlap: rows of the dev and test files that stand in the train files too, which would make a model look better."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from likewise.data.bad_rows import Location
from likewise.errors import DataError
from likewise.plotting.text import one_line, shortened
from likewise.train.examples import Example

MAX_SHARE = 0.05
"""Up to this share of a dev or test file is dropped from training; above it, something else is wrong."""

SHOWN_EXAMPLES, SHOWN_LETTERS = 3, 80
BETWEEN = " | "

Key = tuple[str, ...]
"""What two rows have in common when they overlap: their normalised texts, in either order."""
Keys = tuple[Key, ...]
"""Of one row."""

Files = Mapping[str, Sequence[Example]]
"""Examples by the name of their file."""


@dataclass(frozen=True)
class Overlap:
    """What a train file and a dev or test file have in common.

    >>> Overlap("stsb/train", "stsb/test", rows=12, of=1379, dropped=17, examples=()).share < MAX_SHARE
    True
    """

    train: str
    """The train file."""
    held_out: str
    """The dev or test file."""
    rows: int
    """Rows of the dev or test file that are in the train file."""
    of: int
    """Rows of the dev or test file."""
    dropped: int
    """Rows of the train file that were dropped for it; a row that is in several such files counts in each."""
    examples: tuple[str, ...]
    """The first few texts or pairs in common, shortened."""

    @property
    def share(self) -> float:
        """The part of the dev or test file that is in the train file."""
        return self.rows / self.of

    @property
    def words(self) -> str:
        """What was found, and what was done about it."""
        done = f"{self.dropped} rows left out" if self.dropped else "nothing left out"
        return f"{self.train}: {done}, for {self.rows} of the {self.of} rows of {self.held_out} are in it"

    def to_dict(self) -> dict[str, Any]:
        """All fields, the share, and all of it in words."""
        return asdict(self) | {"examples": list(self.examples), "share": self.share, "words": self.words}


def normalised(text: str) -> str:
    """A text without what does not make it another: case, punctuation, white space, ways to write a letter.

    >>> normalised("It 's  a “Dog”!") == normalised("it's a dog")
    True
    """
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return " ".join(folded.translate(_blanks()).split()) or folded


def find_overlaps(train: Files, held_out: Files) -> list[Overlap]:
    """Every train file against every dev and test file; pairs count in either order, targets do not count.

    ``dropped`` tells how many rows of the train file would have to go.

    >>> one, two = Example(("A dog.",), 1.0, "1", "a"), Example(("a dog",), 3.0, "1", "b")
    >>> find_overlaps({"a": [one]}, {"b": [two]})[0].rows
    1
    """
    return _overlaps(_keys(train), _keys(held_out), held_out)


def without_overlap(
    train: Files, held_out: Files, allow: bool = False
) -> tuple[dict[str, list[Example]], list[Overlap]]:
    """The train files without the rows of any dev or test file, and what was found.

    Too much in common is a DataError; with ``allow`` nothing is dropped and nothing refused.

    >>> one, two = Example(("A dog.",), 1.0, "1", "a"), Example(("A cat.",), 3.0, "1", "b")
    >>> without_overlap({"a": [one]}, {"b": [two]})[1]
    []
    """
    keys, held_keys = _keys(train), _keys(held_out)
    found = _overlaps(keys, held_keys, held_out)
    if allow:
        return {file: list(rows) for file, rows in train.items()}, [replace(one, dropped=0) for one in found]
    refused = [one for one in (*found, *_joined(keys, held_keys, held_out, found)) if one.share > MAX_SHARE]
    if refused:
        raise DataError(_refusal(refused))
    held = {key for rows in held_keys.values() for own in rows for key in own}
    kept = {
        file: [row for row, own in zip(rows, keys[file], strict=True) if not held.intersection(own)]
        for file, rows in train.items()
    }
    for one in found:
        if not kept[one.train]:
            raise DataError(_nothing_left(one, len(train[one.train])))
    return kept, found


@cache
def _blanks() -> dict[int, str]:
    """A blank for every punctuation mark, and for the backtick, which old corpora use as a quote."""
    marks = (code for code in range(0x20000) if unicodedata.category(chr(code)).startswith("P"))
    return dict.fromkeys((*marks, ord("`")), " ")


def _keys(files: Files) -> dict[str, list[Keys]]:
    return {file: [_row_keys(row) for row in rows] for file, rows in files.items()}


def _row_keys(row: Example) -> Keys:
    """The key of a text or a pair; those of a text with each of several others."""
    first, *others = map(normalised, row.texts)
    return tuple((min(first, other), max(first, other)) for other in others) or ((first,),)


def _overlaps(train: Mapping[str, list[Keys]], held_out: Mapping[str, list[Keys]], rows: Files) -> list[Overlap]:
    trained, held = (
        {file: {key for own in keys for key in own} for file, keys in files.items()} for files in (train, held_out)
    )
    found = []
    for file, keys in train.items():
        for other, other_keys in held_out.items():
            common = [index for index, own in enumerate(other_keys) if trained[file].intersection(own)]
            if common:
                dropped = sum(bool(held[other].intersection(own)) for own in keys)
                examples = _examples(rows[other][index] for index in common)
                found.append(Overlap(file, other, len(common), len(other_keys), dropped, examples))
    return found


def _joined(
    train: Mapping[str, list[Keys]], held_out: Mapping[str, list[Keys]], rows: Files, found: Sequence[Overlap]
) -> list[Overlap]:
    """What several train files together have in common with one dev or test file."""
    files: dict[str, list[str]] = {}
    for one in found:
        files.setdefault(one.held_out, []).append(one.train)
    made = []
    for other, several in files.items():
        if len(several) > 1:
            every = {" and ".join(several): [key for file in several for key in train[file]]}
            made += _overlaps(every, {other: held_out[other]}, rows)
    return made


def _examples(rows: Iterable[Example]) -> tuple[str, ...]:
    """The first few that differ, each text of a pair with half of the room."""
    shown: dict[str, None] = {}
    for row in rows:
        characters = (SHOWN_LETTERS - len(BETWEEN) * (len(row.texts) - 1)) // len(row.texts)
        shown[BETWEEN.join(shortened(one_line(text), characters) for text in row.texts)] = None
        if len(shown) == SHOWN_EXAMPLES:
            break
    return tuple(shown)


def _refusal(refused: Sequence[Overlap]) -> str:
    """One line on the worst of them."""
    worst = max(refused, key=lambda one: one.share)
    count = f"{worst.rows} of the {worst.of} rows of {Location(worst.held_out)}"
    same = worst.train == worst.held_out
    what = f"trains on what is held out, {count}" if same else f"holds {count}"
    more = f" ({len(refused) - 1} more such overlaps)" if len(refused) > 1 else ""
    return (
        f"{Location(worst.train)} {what} ({worst.share:.1%}, and no more than {MAX_SHARE:.0%} can be dropped), "
        f"such as: {worst.examples[0]}{more}; leave the file out, or add --allow-overlap"
    )


def _nothing_left(overlap: Overlap, rows: int) -> str:
    train, held_out = Location(overlap.train), Location(overlap.held_out)
    return (
        f"{train}: none of its {rows} rows is left to train on, since all are in dev or test files such as {held_out}; "
        "leave the file out, or add --allow-overlap"
    )
