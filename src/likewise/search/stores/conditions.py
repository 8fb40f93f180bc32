"""Filters as servers take them: expressions of Milvus, filters of Qdrant, SQL with parameters.

A condition holds for every match, and maybe for other rows; it is None where a server cannot express any of it. Values
are quoted only where that is plainly safe, and are sent as JSON or as parameters otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from likewise.search.filters import ORDER, Comparison, Condition, Filter, Junction, Literal, Negation, type_of
from likewise.search.stores.server_rows import METADATA

MOST_EXACT = 2**53  # From here on, floats are no longer exact


@dataclass(frozen=True)
class Dialect:
    """How a server writes conditions."""

    compare: Callable[[Comparison], Any]  # None for what cannot be expressed
    join: Callable[[str, list[Any]], Any]  # by ``and`` or by ``or``
    negate: Callable[[Any], Any] | None  # None where a negation of a missing value is not true

    def translated(self, condition: Condition) -> tuple[Any, bool]:
        """The condition, and whether it holds for matches only."""
        if isinstance(condition, Comparison):
            found = self.compare(condition)
            return found, found is not None
        if isinstance(condition, Negation):
            found, is_exact = self.translated(condition.part)
            # The negation of a condition that holds too often would hold too rarely.
            return (None, False) if self.negate is None or not is_exact else (self.negate(found), True)
        return self._joined(condition)

    def _joined(self, condition: Junction) -> tuple[Any, bool]:
        """Of ``and`` the parts that can be expressed; of ``or`` all parts, or nothing."""
        parts = [self.translated(part) for part in condition.parts]
        known = [found for found, _ in parts if found is not None]
        if not known or (condition.word == "or" and len(known) < len(parts)):
            return None, False
        return self.join(condition.word, known), all(is_exact for _, is_exact in parts)


def milvus_condition(where: Filter, field: str = METADATA) -> tuple[Any, bool]:
    """An expression of Milvus on a JSON field.

    In Milvus a comparison with a missing value is false, and so is its negation.

    >>> milvus_condition(Filter.parse("year >= 2020 and lang != 'de'"))
    ('(metadata["year"] >= 2020)', False)
    """

    def compare(one: Comparison) -> str | None:
        parts = [_milvus_literal(value) for value in one.values]
        if not parts or not all(parts) or (one.operator in ORDER and type_of(one.values[0]) != "number"):
            return None
        if not re.fullmatch(r"[\w .-]+", one.column, re.ASCII):
            return None
        sign = one.operator if one.operator in ORDER else "=="
        return " or ".join(f'{field}["{one.column}"] {sign} {part}' for part in parts)

    def join(word: str, parts: list[Any]) -> str:
        return f" {word} ".join(f"({part})" for part in parts)

    return Dialect(compare, join, None).translated(where.condition)


def _milvus_literal(value: Literal) -> str:
    """A literal as Milvus writes it; empty if quoting it is not plainly safe."""
    if isinstance(value, str):
        return f'"{value}"' if re.fullmatch(r"[\w .,:;/+@#-]*", value, re.ASCII) else ""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None or abs(value) >= MOST_EXACT else repr(value)


def qdrant_condition(where: Filter) -> tuple[Any, bool]:
    """A filter of Qdrant, as its JSON.

    >>> qdrant_condition(Filter.parse("year >= 2020"))
    ({'must': [{'key': 'metadata."year"', 'range': {'gte': 2020}}]}, True)
    """

    def join(word: str, parts: list[Any]) -> dict[str, Any]:
        return {"must" if word == "and" else "should": parts}

    found, is_exact = Dialect(_qdrant_comparison, join, lambda part: {"must_not": [part]}).translated(where.condition)
    return found if found is None else {"must": [found]}, is_exact


def _qdrant_comparison(one: Comparison) -> dict[str, Any] | None:
    if not one.column or '"' in one.column or not one.values or not _are_plain([one.column, *one.values]):
        return None
    key = f'{METADATA}."{one.column}"'
    if one.operator in ORDER:
        name = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}[one.operator]
        return {"key": key, "range": {name: one.values[0]}} if type_of(one.values[0]) == "number" else None
    parts: list[dict[str, Any]] = []
    for value in one.values:
        if value is None:
            parts.append({"is_empty": {"key": key}})
        elif type_of(value) == "number":
            # Not a match: an integer does not match 2020.0.
            parts.append({"key": key, "range": {"gte": value, "lte": value}})
        else:
            parts.append({"key": key, "match": {"value": value}})
    return parts[0] if len(parts) == 1 else {"should": parts}


Sql = tuple[str, list[Any]]
"""A condition of SQL with %s for each of its parameters."""


def sql_condition(where: Filter) -> tuple[Sql | None, bool]:
    """A condition of SQL on a column of type jsonb.

    >>> sql_condition(Filter.parse("lang == 'de'"))
    (('coalesce(metadata -> %s::text = %s::jsonb, false)', ['lang', '"de"']), True)
    """

    def join(word: str, parts: list[Sql]) -> Sql:
        text = f" {word} ".join(f"({part})" for part, _ in parts)
        return text, [value for _, values in parts for value in values]

    return Dialect(_sql_comparison, join, lambda part: (f"not ({part[0]})", part[1])).translated(where.condition)


def _sql_comparison(one: Comparison) -> Sql | None:
    """False, and never unknown, for a missing value."""
    if not one.values or not _are_plain([one.column, *one.values], zero=False):
        return None
    value = f"{METADATA} -> %s::text"
    if one.operator not in ORDER:
        part = f"coalesce({value} = %s::jsonb, false)"
        missing = f"coalesce({value}, 'null'::jsonb) = %s::jsonb"
        texts = [missing if given is None else part for given in one.values]
        return " or ".join(texts), [each for given in one.values for each in (one.column, json.dumps(given))]
    if type_of(one.values[0]) == "number":
        text, given = f"({value}) {one.operator} %s::jsonb", json.dumps(one.values[0])
        kind = "number"
    else:
        # By code points, as Python compares: the order of the bytes of UTF-8 is the same.
        text, given = f'({METADATA} ->> %s::text) collate "C" {one.operator} %s::text', str(one.values[0])
        kind = "string"
    return f"coalesce(jsonb_typeof({value}) = '{kind}' and {text}, false)", [one.column, one.column, given]


def _are_plain(values: Sequence[Literal], zero: bool = True) -> bool:
    """Whether values arrive as they are: exact numbers, and texts of whole characters; ``zero`` allows U+0000."""
    for value in values:
        if isinstance(value, str):
            if re.search("[\ud800-\udfff]" if zero else "[\0\ud800-\udfff]", value):
                return False
        elif value is not None and abs(value) >= MOST_EXACT:
            return False
    return True
