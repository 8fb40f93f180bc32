"""Filters: what they match, by a slow twin in Python; what they refuse; what they become on servers."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from likewise.errors import UsageError
from likewise.search.filters import Filter, column_types
from likewise.search.stores.conditions import milvus_condition, qdrant_condition, sql_condition

ROWS: list[dict[str, Any]] = [
    {"year": 2020, "lang": "de", "draft": True},
    {"year": 2021.5, "lang": "en", "draft": False},
    {"year": "unknown", "lang": "de"},
    {},
    {"year": 1999, "lang": "it's", "odd name": 3},
    {"year": 2020.0, "draft": False, "lang": ""},
]


def matches(text: str) -> list[int]:
    chosen = Filter.parse(text)
    return [index for index, row in enumerate(ROWS) if chosen.matches(row)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("year >= 2020", [0, 1, 5]),
        ("year = 2020", [0, 5]),
        ("year == 2020.0", [0, 5]),
        ("year != 2020", [1, 2, 3, 4]),
        ("year < 2020.5 and year > 1999", [0, 5]),
        ("year == 'unknown'", [2]),
        ("year > 'a'", [2]),
        ('lang == "it\'s"', [4]),
        (r"lang == 'it\'s'", [4]),
        ("lang in ['de', 'en']", [0, 1, 2]),
        ("lang not in ['de', 'en']", [3, 4, 5]),
        ("year in [2020, 'unknown', null]", [0, 2, 3, 5]),
        ("year in []", []),
        ("draft", [0]),
        ("not draft", [1, 2, 3, 4, 5]),
        ("draft == false", [1, 5]),
        ("draft == 0", []),
        ("year == true", []),
        ("draft == null", [2, 3, 4]),
        ("draft != NULL", [0, 1, 5]),
        ("`odd name` >= 3", [4]),
        ("'odd name' >= -3e0", [4]),
        ("lang == 'de' or lang == 'en' and draft", [0, 2]),
        ("(lang == 'de' or lang == 'en') and draft", [0]),
        ("not (lang == 'de' or lang == 'en') AND NOT draft", [3, 4, 5]),
        ("not not draft", [0]),
    ],
)
def test_matches(text: str, found: list[int]) -> None:
    assert matches(text) == found


VALUES = st.sampled_from([0, 1, -2.5, 2020, True, False, "a", "b", "it's", ""])
ATOMS = st.tuples(st.sampled_from("xyz"), st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), VALUES)
TREES = st.recursive(ATOMS, lambda inner: st.tuples(st.sampled_from(["and", "or", "not"]), inner, inner), max_leaves=8)


def written(tree: Any) -> str:
    if tree[0] in ("and", "or"):
        return f"({written(tree[1])} {tree[0]} {written(tree[2])})"
    if tree[0] == "not":
        return f"not {written(tree[1])}"
    name, mark, value = tree
    plain = "'" + value.replace("'", r"\'") + "'" if isinstance(value, str) else str(value).lower()
    return f"{name} {mark} {plain}"


def twin(tree: Any, row: dict[str, Any]) -> bool:
    """The definition, in Python."""
    if tree[0] == "not":
        return not twin(tree[1], row)
    if tree[0] in ("and", "or"):
        both = twin(tree[1], row), twin(tree[2], row)
        return all(both) if tree[0] == "and" else any(both)
    name, mark, value = tree
    there = name in row and kind(row[name]) == kind(value)
    if mark in ("==", "!="):
        return (there and row[name] == value) == (mark == "==")
    below, equal = there and row[name] < value, there and row[name] == value
    return there and {"<": below, "<=": below or equal, ">": not below and not equal, ">=": not below}[mark]


def kind(value: Any) -> type:
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def is_ordered(tree: Any) -> bool:
    """Whether no truth value is compared by order, which is refused."""
    if tree[0] in ("and", "or", "not"):
        return is_ordered(tree[1]) and (tree[0] == "not" or is_ordered(tree[2]))
    return tree[1] in ("==", "!=") or not isinstance(tree[2], bool)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(tree=TREES.filter(is_ordered), row=st.dictionaries(st.sampled_from("xyz"), VALUES))
def test_as_the_definition(tree: Any, row: dict[str, Any]) -> None:
    assert Filter.parse(written(tree)).matches(row) == twin(tree, row)


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("", "expected a column, got 'the end' at character 1"),
        ("year >", "expected a text in quotes, a number, true, false or null, got 'the end'"),
        ("year >= 2020 lang", "expected and, or or the end, got 'lang' at character 14"),
        ("(year > 1", "expected a closing parenthesis"),
        ("year in (1, 2)", r"expected a list such as \['de', 'en'\]"),
        ("year in [1 2]", "expected a comma or a closing bracket"),
        ("year not 5", "expected in, got '5'"),
        ("lang == de", "expected a text in quotes"),
        ("lang == 'de", "cannot read"),
        ("1 == year", "expected a column, got '1'"),
        ("and == 1", "expected a column, got 'and'"),
        ("draft < true", "< needs a number or a text"),
        ("year == 1e999", "a number that is too large"),
        ("__import__('os').system('x')", "at character"),
        ("year == 2020; drop", "cannot read"),
        ("year.__class__ == 1 == 2", "expected and, or or the end"),
        ("x == 1" + " and x == 1" * 400, "more than 1000 parts"),
        ("not " * 60 + "x", "nested more than 50 deep"),
        ("(" * 60 + "x" + ")" * 60, "nested more than 50 deep"),
        ("x" * 20_000, "20,000 characters, at most 10,000"),
        ("\ud800 == 1", "cannot read"),
        ("year>=2020and draft", "cannot read"),
    ],
)
def test_mistakes_are_one_line(text: str, flaw: str) -> None:
    with pytest.raises(UsageError, match=flaw) as caught:
        Filter.parse(text)
    assert "\n" not in str(caught.value) and str(caught.value).startswith("--where")


WORDS = ("x", "(", ")", "and", "or", "not", "in", "[", "]", ",", "==", "'a'", "1", "true")


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(max_size=40) | st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_any_text_is_a_filter_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        Filter.parse(text).matches({"x": 1})


def test_columns_and_types_are_checked() -> None:
    columns = column_types(ROWS)
    assert columns == {
        "draft": ["boolean"], "lang": ["text"], "odd name": ["number"], "year": ["number", "text"]
    }  # fmt: skip
    Filter.parse("year >= 2020 or year == 'unknown' or draft == null").check(columns)
    for text, flaw in {
        "yeer > 3": r"no column 'yeer'; the columns are draft \(boolean\), lang \(text\), odd name \(number\)",
        "lang > 3": "column 'lang' holds text, but 3 is number",
        "draft == 'yes'": "column 'draft' holds boolean, but \"yes\" is text",
        "lang": "column 'lang' holds text, but true is boolean",
    }.items():
        with pytest.raises(UsageError, match=flaw):
            Filter.parse(text).check(columns)
    with pytest.raises(UsageError, match="the index has no metadata; build it with --passages or --metadata"):
        Filter.parse("year > 3").check({})


@pytest.mark.parametrize(
    ("text", "expression", "exact"),
    [
        ("year >= 2020 and lang == 'de'", '(m["year"] >= 2020) and (m["lang"] == "de")', True),
        ("year in [1, 2.5]", 'm["year"] == 1 or m["year"] == 2.5', True),
        ("draft", 'm["draft"] == true', True),
        ("not draft and year > 1", '(m["year"] > 1)', False),
        ("not draft or year > 1", "", False),
        ("lang == 'it\\'s'", "", False),
        ('lang == "x\\" or true"', "", False),
        ("lang < 'x'", "", False),
        ('`a"] or m["b` == 1', "", False),
        ("year == null", "", False),
        ("lang in []", "", False),
        ("year == 99999999999999999999", "", False),
    ],
)
def test_in_milvus(text: str, expression: str, exact: bool) -> None:
    assert milvus_condition(Filter.parse(text), "m") == (expression or None, exact)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(tree=TREES.filter(is_ordered), row=st.dictionaries(st.sampled_from("xyz"), VALUES))
def test_in_qdrant(tree: Any, row: dict[str, Any]) -> None:
    """By the filters of Qdrant's own client, which compares payloads without a server."""
    models = pytest.importorskip("qdrant_client").models
    from qdrant_client.local.payload_filters import check_filter

    where = Filter.parse(written(tree))
    condition, is_exact = qdrant_condition(where)
    holds = condition is None or check_filter(models.Filter.model_validate(condition), {"metadata": row}, 0, {})
    assert holds == where.matches(row) if is_exact else holds >= where.matches(row)


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("not (x == 1)", True),
        ("x == null", True),
        ("x != 'it\\'s'", True),
        ("x < 'a'", False),
        ("not (x < 'a')", False),
        ('`a"b` == 1', False),
        ("x in []", False),
        ("x == 99999999999999999999", False),
    ],
)
def test_what_qdrant_can_express(text: str, exact: bool) -> None:
    assert qdrant_condition(Filter.parse(text))[1] == exact


@pytest.mark.parametrize(
    ("text", "sql", "values"),
    [
        ("x == 'a\\' or true --'", "coalesce(metadata -> %s::text = %s::jsonb, false)", ["x", '"a\' or true --"']),
        ("`a) or (b` == 1", "coalesce(metadata -> %s::text = %s::jsonb, false)", ["a) or (b", "1"]),
        ("not x", "not (coalesce(metadata -> %s::text = %s::jsonb, false))", ["x", "true"]),
    ],
)
def test_values_are_never_part_of_sql(text: str, sql: str, values: list[str]) -> None:
    assert sql_condition(Filter.parse(text)) == ((sql, values), True)


@pytest.mark.parametrize("text", ["x == '\0'", "x in []", "x == 99999999999999999999", "'\ud800' == 1"])
def test_what_sql_cannot_express(text: str) -> None:
    assert sql_condition(Filter.parse(text)) == (None, False)


def test_rows_of_the_twin_differ() -> None:
    """The table above would be worth nothing if all filters matched alike."""
    found = [tuple(matches(text)) for text in ("year >= 2020", "draft", "lang == 'de'", "not draft")]
    assert all(one != other for one, other in itertools.combinations(found, 2))
