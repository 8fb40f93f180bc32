"""Filters on metadata, such as ``year >= 2020 and lang == 'de'``: parsed by hand and never evaluated as code.

A comparison matches a document whose column has a value of the literal's type. ``!=`` is the negation of ``==``, so it
also matches documents without the column, and so does ``not``.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from likewise.errors import UsageError

Literal = str | int | float | bool | None
Metadata = Mapping[str, Any]
ColumnTypes = Mapping[str, Sequence[str]]
"""The types of the values of each column: number, text, boolean."""

MOST_CHARACTERS, MOST_TOKENS, MOST_DEPTH = 10_000, 1_000, 50
SHOWN_COLUMNS = 12
ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
CONSTANTS: dict[str, Literal] = {"true": True, "false": False, "null": None}
KEYWORDS = {"and", "or", "not", "in", *CONSTANTS}
TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?!\w))
    |(?P<column>`[^`]+`)
    |(?P<word>[^\W\d]\w*(?:[.-]\w+)*)
    |(?P<mark><=|>=|==|!=|[=<>()\[\],])
    )""",
    re.VERBOSE | re.DOTALL,
)


def type_of(value: object) -> str:
    """How filters call the type of a value.

    >>> type_of(2020), type_of("de"), type_of(True), type_of(None)
    ('number', 'text', 'boolean', 'null')
    """
    if value is None:
        return "null"
    return "boolean" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def column_types(documents: Iterable[Metadata]) -> dict[str, list[str]]:
    """The columns of all documents and the types of their values."""
    found: dict[str, set[str]] = {}
    for metadata in documents:
        for name, value in metadata.items():
            found.setdefault(name, set()).add(type_of(value))
    return {name: sorted(types) for name, types in sorted(found.items())}


@dataclass(frozen=True)
class Comparison:
    """A column compared with literals: equal to one of them, or in an order with the first."""

    column: str
    operator: str  # ==, <, <=, >, >= or in
    values: tuple[Literal, ...]

    def matches(self, metadata: Metadata) -> bool:
        """Whether a document's value has the same type and compares as wanted."""
        value = metadata.get(self.column)
        same = [one for one in self.values if type_of(one) == type_of(value)]
        if self.operator in ORDER:
            return bool(same) and ORDER[self.operator](value, same[0])
        return value in same

    def comparisons(self) -> Iterator[Comparison]:
        """Itself."""
        yield self


@dataclass(frozen=True)
class Negation:
    """Matches what its part does not match."""

    part: Condition

    def matches(self, metadata: Metadata) -> bool:
        """Whether the part does not."""
        return not self.part.matches(metadata)

    def comparisons(self) -> Iterator[Comparison]:
        """Those of the part."""
        return self.part.comparisons()


@dataclass(frozen=True)
class Junction:
    """Several conditions, joined by ``and`` or by ``or``."""

    word: str
    parts: tuple[Condition, ...]

    def matches(self, metadata: Metadata) -> bool:
        """Whether all parts match, or any."""
        return (all if self.word == "and" else any)(part.matches(metadata) for part in self.parts)

    def comparisons(self) -> Iterator[Comparison]:
        """Those of all parts."""
        for part in self.parts:
            yield from part.comparisons()


Condition = Comparison | Negation | Junction


@dataclass(frozen=True)
class Filter:
    """A parsed filter.

    >>> chosen = Filter.parse("year >= 2020 and (lang == 'de' or not draft)")
    >>> chosen.matches({"year": 2021, "lang": "en"}), chosen.matches({"year": 1999, "lang": "de"})
    (True, False)
    """

    text: str
    condition: Condition

    @classmethod
    def parse(cls, text: str) -> Filter:
        """Read a filter; a mistake raises UsageError with its position."""
        return cls(text, _Parser(text).whole())

    def matches(self, metadata: Metadata) -> bool:
        """Whether a document matches."""
        return self.condition.matches(metadata)

    def check(self, columns: ColumnTypes) -> None:
        """Rejects a column that no document has, and a literal of a type that none of its values has."""
        for one in self.condition.comparisons():
            if one.column not in columns:
                raise UsageError(f"--where: no column {one.column!r}; {_listed(columns)}")
            for value in one.values:
                if value is not None and type_of(value) not in columns[one.column]:
                    has = " and ".join(columns[one.column])
                    flaw = f"column {one.column!r} holds {has}, but {json.dumps(value)} is {type_of(value)}"
                    raise UsageError(f"--where: {flaw}; {_listed(columns)}")


def _listed(columns: ColumnTypes) -> str:
    if not columns:
        return "the index has no metadata; build it with --passages or --metadata from a file with more columns"
    return f"the columns are {described(columns)}"


def described(columns: ColumnTypes) -> str:
    """The first columns with their types, in one line.

    >>> described({"lang": ["text"], "year": ["number", "text"]})
    'lang (text), year (number, text)'
    """
    names = [f"{name} ({', '.join(types)})" for name, types in columns.items()]
    more = f" and {len(names) - SHOWN_COLUMNS} more" if len(names) > SHOWN_COLUMNS else ""
    return ", ".join(names[:SHOWN_COLUMNS]) + more


class _Parser:
    """A recursive-descent parser: or, and, not, comparison."""

    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise UsageError(f"--where has {len(text):,} characters, at most {MOST_CHARACTERS:,}; shorten it")
        self.text, self.next, self.depth = text, 0, 0

    @cached_property
    def tokens(self) -> list[tuple[str, str, int]]:
        """Kind, text and position of each token; the last one is the end."""
        found: list[tuple[str, str, int]] = []
        position = 0
        while self.text[position:].strip():
            match = TOKEN.match(self.text, position)
            if match is None or len(found) == MOST_TOKENS:
                start = position + len(self.text[position:]) - len(self.text[position:].lstrip())
                flaw = f"more than {MOST_TOKENS} parts" if match else f"cannot read {self.text[start : start + 20]!r}"
                raise self.error(flaw, start)
            kind = str(match.lastgroup)
            found.append((kind, match[kind], match.start(kind)))
            position = match.end()
        return [*found, ("end", "the end", len(self.text))]

    def error(self, flaw: str, position: int) -> UsageError:
        """The error at a character."""
        form = "write it as \"year >= 2020 and lang == 'de'\""
        return UsageError(f"--where: {flaw} at character {position + 1}; {form}")

    def expected(self, what: str) -> UsageError:
        """The error at the next token."""
        _, found, position = self.tokens[self.next]
        return self.error(f"expected {what}, got {found[:20]!r}", position)

    def take(self, *marks: str) -> str:
        """The next token if it is one of these marks or keywords, else nothing."""
        kind, found, _ = self.tokens[self.next]
        word = found.lower() if kind == "word" else found
        if kind in ("word", "mark") and word in marks:
            self.next += 1
            return word
        return ""

    def whole(self) -> Condition:
        """The whole text as one condition."""
        found = self.either()
        if self.tokens[self.next][0] != "end":
            raise self.expected("and, or or the end")
        return found

    def either(self) -> Condition:
        """Conditions joined by ``or``."""
        return self._joined("or", lambda: self._joined("and", self.single))

    def _joined(self, word: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self.take(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Junction(word, tuple(parts))

    def single(self) -> Condition:
        """A negation, a condition in parentheses, or a comparison."""
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise self.error(f"nested more than {MOST_DEPTH} deep", self.tokens[self.next][2])
        if self.take("not"):
            found: Condition = Negation(self.single())
        elif self.take("("):
            found = self.either()
            if not self.take(")"):
                raise self.expected("a closing parenthesis")
        else:
            found = self.comparison()
        self.depth -= 1
        return found

    def comparison(self) -> Condition:
        """A column with an operator and a literal; a column alone is one that is true."""
        column = self.column()
        mark = self.take("=", "==", "!=", "<", "<=", ">", ">=", "in", "not")
        if mark in ("in", "not"):
            if mark == "not" and not self.take("in"):
                raise self.expected("in")
            found = Comparison(column, "in", self.values())
            return Negation(found) if mark == "not" else found
        if not mark:
            return Comparison(column, "==", (True,))
        value = self.literal()
        if mark in ORDER:
            if type_of(value) not in ("number", "text"):
                raise self.error(f"{mark} needs a number or a text", self.tokens[self.next - 1][2])
            return Comparison(column, mark, (value,))
        equal = Comparison(column, "==", (value,))
        return Negation(equal) if mark == "!=" else equal

    def column(self) -> str:
        """A bare name, or any name in backticks or quotes."""
        kind, found, _ = self.tokens[self.next]
        if kind not in ("word", "column", "string") or (kind == "word" and found.lower() in KEYWORDS):
            raise self.expected("a column")
        self.next += 1
        return _unquoted(found) if kind == "string" else found.strip("`")

    def values(self) -> tuple[Literal, ...]:
        """A list of literals in brackets."""
        if not self.take("["):
            raise self.expected("a list such as ['de', 'en']")
        found: list[Literal] = []
        while not self.take("]"):
            if found and not self.take(","):
                raise self.expected("a comma or a closing bracket")
            found.append(self.literal())
        return tuple(found)

    def literal(self) -> Literal:
        """A text in quotes, a number, true, false or null."""
        kind, found, position = self.tokens[self.next]
        self.next += 1
        if kind == "string":
            return _unquoted(found)
        if kind == "number":
            number = float(found) if re.search(r"[.eE]", found) or len(found) > 300 else int(found)
            if not math.isfinite(number):
                raise self.error("a number that is too large", position)
            return number
        if kind == "word" and found.lower() in CONSTANTS:
            return CONSTANTS[found.lower()]
        self.next -= 1
        raise self.expected("a text in quotes, a number, true, false or null")


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
