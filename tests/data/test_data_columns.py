from __future__ import annotations

from pathlib import Path

import pytest

from likewise.data.columns import USUAL_NAMES, Columns, Record, RoleFinder, assigned, column_flag, guess
from likewise.data.rows import BadRow, Location, Row
from likewise.errors import DataError

FILE = Location("a.csv")


@pytest.mark.parametrize("role", USUAL_NAMES)
def test_usual_names_are_found_in_any_case(role: str) -> None:
    for name in USUAL_NAMES[role]:
        assert guess(role, ["other", name.upper()]) == name.upper()


def test_punctuation_does_not_count() -> None:
    assert guess("left", ["pair_ID", "Sentence 1", "Sentence 2"]) == "Sentence 1"
    assert guess("right", ["pair_ID", "sentence_A", "sentence_B"]) == "sentence_B"
    assert guess("id", ["pairID"]) == "pairID"


def test_earlier_usual_names_win() -> None:
    assert guess("text", ["title", "sentence", "text"]) == "text"
    assert guess("label", ["category", "label"]) == "label"


def test_sid_is_no_id() -> None:
    assert guess("id", ["sentence1", "sid"]) is None


def test_overrides_win_and_ignore_case() -> None:
    present = ["text", "Headline", "id", "key"]
    assert assigned(present, ["text"], Columns(text="headline", id="key"), FILE) == {"text": "Headline", "id": "key"}


def test_an_exact_override_wins_over_another_case() -> None:
    assert assigned(["Text", "text"], ["text"], Columns(text="text"), FILE)["text"] == "text"


def test_a_column_given_to_one_side_is_no_guess_for_the_other() -> None:
    present = ["sentence1", "sentence2", "text2"]
    assert assigned(present, ["left", "right"], Columns(left="sentence2"), FILE) == {
        "left": "sentence2",
        "right": "text2",
    }


def test_flags() -> None:
    assert [column_flag(role) for role in ("text", "id")] == ["--text-column", "--id-column"]


def message(present: list[str], wanted: list[str], columns: Columns = Columns(), place: Location = FILE) -> str:  # noqa: B008
    with pytest.raises(DataError) as caught:
        assigned(present, wanted, columns, place)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_column_names_file_columns_expectation_and_flag() -> None:
    assert message(["sentence1", "other", "score"], ["left", "right"]) == (
        "a.csv: no column for the right text; its columns are 'sentence1', 'other', 'score'; expected "
        "sentence2, text2, right, hypothesis, question2, sentence_b, text_b, positive, compressed, "
        "compression, passage, document, answer, s2, or name it with --right-column"
    )


def test_texts_wanted_from_pairs() -> None:
    assert message(["premise", "hypothesis"], ["text"]).endswith(
        "or name it with --text-column; these are pairs, so choose a side, for example --text-column premise"
    )


def test_a_wrong_override() -> None:
    assert message(["text", "label"], ["text"], Columns(text="body")) == (
        "a.csv: no column 'body' (--text-column); its columns are 'text', 'label'"
    )
    assert message(["text"], ["text"], Columns(id="key")) == (
        "a.csv: no column 'key' (--id-column); its columns are 'text'"
    )


def test_a_missing_header_is_told() -> None:
    first_row = ["A plane is taking off.", "An air plane\nis taking off.", "5.0"]
    summary = message(first_row, ["left", "right"])
    assert "its columns are 'A plane is taking off.', 'An air plane\\nis taking off.', '5.0'" in summary
    assert summary.endswith("; the first line looks like data: add a header line that names the columns")


def test_rows_of_json_have_no_header_to_miss() -> None:
    with pytest.raises(BadRow) as caught:
        assigned(["foo"], ["text"], Columns(), Location("a.jsonl", 3))
    assert str(caught.value).startswith("a.jsonl, line 3: no column for the text; its columns are 'foo';")
    assert str(caught.value).endswith("--text-column")


def test_no_columns_at_all() -> None:
    assert "it has no columns;" in message([], ["text"], place=Location("a.jsonl", 1))


def test_another_separator_is_told() -> None:
    assert message(["left;right;score"], ["left", "right"]).endswith(
        "; are they separated by ';'? Use commas in .csv and tabs in .tsv"
    )


def test_many_columns_are_cut_short() -> None:
    assert "'c11' and 88 more; expected" in message([f"c{i}" for i in range(100)], ["text"])


def record(value: object) -> Record:
    return Record(Row({"v": value}, 7, 6), {"role": "v"}, Location("a.jsonl", 7))


@pytest.mark.parametrize(
    ("value", "summary"),
    [
        (" \n\t", "the text is empty"),
        ("", "the text is empty"),
        (None, "the value is missing"),
        (5, "expected a text, got 5"),
        (["a"], "expected a text, got ['a']"),
    ],
)
def test_bad_texts(value: object, summary: str) -> None:
    with pytest.raises(BadRow) as caught:
        record(value).text("role")
    assert str(caught.value) == f"a.jsonl, line 7, column 'v': {summary}"


@pytest.mark.parametrize(("value", "number"), [("2.50", 2.5), (" -1e2 ", -100.0), (3, 3.0), (0.5, 0.5)])
def test_numbers(value: object, number: float) -> None:
    assert record(value).number("role") == number


@pytest.mark.parametrize(
    ("value", "summary"),
    [
        ("abc", "expected a number, got 'abc'"),
        ("1_000", "expected a number, got '1_000'"),
        ("3,5", "expected a number, got '3,5'"),
        (True, "expected a number, got True"),
        ([1], "expected a number, got [1]"),
        ("nan", "expected a finite number, got 'nan'"),
        (float("-inf"), "expected a finite number, got -inf"),
        ("1e999", "expected a finite number, got '1e999'"),
        (10**400, "expected a number, got 1000000000000000000000000000000000000000..."),
        ("", "the value is missing"),
        (None, "the value is missing"),
    ],
)
def test_bad_numbers(value: object, summary: str) -> None:
    with pytest.raises(BadRow) as caught:
        record(value).number("role")
    assert str(caught.value) == f"a.jsonl, line 7, column 'v': {summary}"


@pytest.mark.parametrize(("value", "label"), [(" x", " x"), (1, "1"), (True, "true"), (1.0, "1.0")])
def test_labels_are_kept_as_written(value: object, label: str) -> None:
    assert record(value).label("role") == label


@pytest.mark.parametrize(
    ("value", "summary"),
    [({"a": 1}, "expected a label, got {'a': 1}"), (" ", "the value is missing"), (None, "the value is missing")],
)
def test_bad_labels(value: object, summary: str) -> None:
    with pytest.raises(BadRow) as caught:
        record(value).label("role")
    assert str(caught.value) == f"a.jsonl, line 7, column 'v': {summary}"


@pytest.mark.parametrize(("value", "name"), [("k1", "k1"), (12, "12"), ("", "6"), (None, "6")])
def test_ids_fall_back_to_the_row_number(value: object, name: str) -> None:
    row = Row({"text": "a", "id": value}, 7, 6)
    assert Record(row, {"text": "text", "id": "id"}, Location("a.jsonl", 7)).id == name


def test_meta_holds_the_remaining_columns_as_strings() -> None:
    row = Row({"text": "a", "": "0", "genre": "news", "year": 2012, "tags": ["é"], "none": None}, 2, 1)
    meta = Record(row, {"text": "text"}, Location("a.jsonl", 2)).meta
    assert meta == {"genre": "news", "year": "2012", "tags": '["é"]'}


def test_a_pair_in_one_field_is_spread() -> None:
    finder = RoleFinder(Path("a.jsonl"), "a.jsonl", ["left", "right"], Columns())
    found = finder.record(Row({"set": ["l", "r"], "year": 1}, 1, 1))
    assert (found.text("left"), found.text("right"), found.meta) == ("l", "r", {"year": "1"})


def test_a_list_beside_named_sides_is_left_alone() -> None:
    finder = RoleFinder(Path("a.jsonl"), "a.jsonl", ["left", "right"], Columns())
    found = finder.record(Row({"premise": "l", "hypothesis": "r", "tags": ["a", "b"]}, 1, 1))
    assert (found.text("left"), found.meta) == ("l", {"tags": '["a", "b"]'})


def test_two_lists_of_two_are_ambiguous() -> None:
    finder = RoleFinder(Path("a.jsonl"), "a.jsonl", ["left", "right"], Columns())
    with pytest.raises(BadRow, match=r"^a.jsonl, line 1: no column for the left text; its columns are 'x', 'y'"):
        finder.record(Row({"x": ["a", "b"], "y": ["c", "d"]}, 1, 1))


def test_roles_follow_names_that_change_from_row_to_row() -> None:
    finder = RoleFinder(Path("a.jsonl"), "a.jsonl", ["text"], Columns())
    assert finder.record(Row({"text": "a"}, 1, 1)).text("text") == "a"
    assert finder.record(Row({"sentence": "b"}, 2, 2)).text("text") == "b"


def test_a_missing_column_is_the_files_fault_where_there_is_a_header() -> None:
    finder = RoleFinder(Path("a.csv"), "a.csv", ["text"], Columns())
    with pytest.raises(DataError) as caught:
        finder.record(Row({"foo": "a"}, 2, 1))
    assert not isinstance(caught.value, BadRow)
