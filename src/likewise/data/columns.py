"""Columns: which one holds the text, the score, the label."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from likewise.data.location import Location, shown

SHOWN_COLUMNS = 12

# In order of preference. Case and punctuation do not count: "Sentence 1" and "sentence_1" are "sentence1".
USUAL_NAMES = {
    "text": (
        "text", "sentence", "content", "document", "passage", "body", "review", "abstract",
        "comment", "message", "tweet", "utterance", "title", "word",
    ),
    "left": (
        "sentence1", "text1", "left", "premise", "question1", "sentence_a", "text_a", "anchor", "full",
        "original", "query", "s1",
    ),
    "right": (
        "sentence2", "text2", "right", "hypothesis", "question2", "sentence_b", "text_b", "positive",
        "compressed", "compression", "passage", "document", "answer", "s2",
    ),
    "score": (
        "score", "similarity", "similarity_score", "sts_score", "relatedness_score", "relatedness",
        "label_score", "gold_score", "gold",
    ),
    "label": (
        "label", "gold_label", "entailment_label", "class", "sentiment", "is_duplicate", "sense", "topic",
        "category",
    ),
    # Not "sid": STSb counts it anew in each of its source files, so it names no row.
    "id": ("id", "_id", "guid", "uid", "pair_id", "idx"),
}  # fmt: skip

MEANINGS = {
    "text": "the text",
    "left": "the left text",
    "right": "the right text",
    "score": "the score",
    "label": "the label",
    "id": "the id",
}


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of the columns to read; what is None is guessed from the usual names.

    >>> Columns(text="headline").text
    'headline'
    """

    text: str | None = None
    """Column of the text."""
    left: str | None = None
    """Column of a pair's left text."""
    right: str | None = None
    """Column of a pair's right text."""
    score: str | None = None
    """Column of a pair's similarity score."""
    label: str | None = None
    """Column of the label."""
    id: str | None = None
    """Column of the id; without one, rows are numbered from 1."""

    def of(self, role: str) -> str | None:
        """The name given for a role.

        >>> Columns(left="full").of("left")
        'full'
        """
        name: str | None = getattr(self, role)
        return name


GUESSED = Columns()


def column_flag(role: str) -> str:
    """The command line's flag that sets a role's column.

    >>> column_flag("left")
    '--left-column'
    """
    return f"--{role}-column"


def guess(role: str, present: Sequence[str], taken: Collection[str] = ()) -> str | None:
    """The present column whose name is usual for the role, or None.

    >>> guess("left", ["id", "Sentence 1", "Sentence 2"])
    'Sentence 1'
    """
    return usual_column(USUAL_NAMES[role], present, taken)


def usual_column(usual: Sequence[str], present: Sequence[str], taken: Collection[str] = ()) -> str | None:
    """The present column of the first usual name that there is, or None; case and punctuation do not count.

    >>> usual_column(["query-id", "qid"], ["Query ID", "score"])
    'Query ID'
    """
    by_key = {_key(name): name for name in reversed(present) if name not in taken}
    return next((by_key[_key(name)] for name in usual if _key(name) in by_key), None)


def assigned(present: Sequence[str], wanted: Sequence[str], columns: Columns, location: Location) -> dict[str, str]:
    """Role -> column, for the wanted roles and, where there is one, the id.

    >>> assigned(["text", "stars"], ["text", "label"], Columns(label="stars"), Location("a.csv"))
    {'text': 'text', 'label': 'stars'}
    """
    found: dict[str, str] = {}
    for role in (*wanted, "id"):
        if columns.of(role) is not None:
            found[role] = _named(role, present, columns, location)
    # A column the user gave to one role is no guess for another: `--left-column sentence2` asks for a swap.
    taken = set(found.values())
    for role in (*wanted, "id"):
        name = found.get(role) or guess(role, present, taken)
        if name is not None:
            found[role] = name
        elif role != "id":
            raise location.error(_missing(role, present, location))
    return {role: found[role] for role in (*wanted, "id") if role in found}


def _key(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


def _named(role: str, present: Sequence[str], columns: Columns, location: Location) -> str:
    name = columns.of(role) or ""
    if name in present:
        return name
    for other in present:
        if other.casefold() == name.casefold():
            return other
    hint = _header_hint(present, location)
    raise location.error(f"no column {shown(name)} ({column_flag(role)}); {_listed(present)}{hint}")


def _missing(role: str, present: Sequence[str], location: Location) -> str:
    message = (
        f"no column for {MEANINGS[role]}; {_listed(present)}; "
        f"expected {', '.join(USUAL_NAMES[role])}, or name it with {column_flag(role)}"
    )
    left = guess("left", present)
    if role == "text" and left is not None and guess("right", present) is not None:
        return f"{message}; these are pairs, so choose a side, for example {column_flag('text')} {left}"
    return message + _header_hint(present, location)


def _listed(present: Sequence[str]) -> str:
    names = ", ".join(shown(name) for name in present[:SHOWN_COLUMNS])
    more = f" and {len(present) - SHOWN_COLUMNS} more" if len(present) > SHOWN_COLUMNS else ""
    return f"its columns are {names}{more}" if present else "it has no columns"


def _header_hint(present: Sequence[str], location: Location) -> str:
    """What may be wrong with the first line; rows of JSON carry their own names and have none."""
    if location.line is not None:
        return ""
    separator = next((mark for mark in ";\t|," if mark in "".join(present[:1])), None)
    if len(present) == 1 and separator is not None:
        return f"; are they separated by {separator!r}? Use commas in .csv and tabs in .tsv"
    if all(guess(role, present) is None for role in USUAL_NAMES):
        return "; the first line looks like data: add a header line that names the columns"
    return ""
