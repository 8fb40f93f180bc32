from __future__ import annotations

import pytest

from likewise.data.bad_rows import BadRow, Location
from likewise.data.columns import USUAL_NAMES, Columns, assigned, column_flag, guess
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
    assert assigned(present, ["text"], Columns(text="headline", id="key"), FILE) == {
        "text": "Headline",
        "id": "key",
    }


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
