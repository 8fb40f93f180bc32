"""Relevance between parts of speech, against plain loops; what changes between two settings; strongest word pairs."""

from __future__ import annotations

import numpy as np
import pytest

from ledgers import ledger, parsed, side, words_only
from likewise.errors import DataError, UsageError
from likewise.explain.explanation import ExplainedText, Explanation
from likewise.explain.texts import Unit
from likewise.lint.evidence import unit_classes
from likewise.lint.pos_relevance import (
    KINDS,
    ClassSums,
    PosRelevance,
    WordPair,
    pos_change,
    strongest_by_quarter,
    strongest_words,
    word_relevance,
)

TAGS = ["NOUN", "VERB", "DET", "X", "[CLS]", "[SEP]", "prompt"]
Labelled = tuple[Explanation, list[str], list[str]]


def random_ledgers(seed: int, count: int = 5) -> list[Labelled]:
    """Ledgers of random cells and biases, each unit with a random class."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        left, right = (side(" ".join("w" * rng.integers(1, 6))) for _ in range(2))
        shape = len(left.units), len(right.units)
        bias = rng.normal(size=shape[0]), rng.normal(size=shape[1]), float(rng.normal())
        classes = [list(rng.choice(TAGS, size)) for size in shape]
        found.append((ledger(left, right, rng.normal(size=shape), bias), classes[0], classes[1]))
    return found


def sums(ledgers: list[Labelled]) -> PosRelevance:
    adding = ClassSums()
    for found, left, right in ledgers:
        adding.add(found, left, right)
    return adding.result()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_slow_twin(seed: int) -> None:
    ledgers = random_ledgers(seed)
    result = sums(ledgers)
    slow: dict[frozenset[str], list[float]] = {}
    for found, left, right in ledgers:
        for i, a in enumerate(left):
            for j, b in enumerate(right):
                cell = slow.setdefault(frozenset((a, b)), [0.0, 0.0, 0])
                cell[0 if found.relevance[i, j] > 0 else 1] += found.relevance[i, j]
                cell[2] += 1
    averages = result.table("averaged")
    for i, a in enumerate(result.classes):
        for j, b in enumerate(result.classes):
            up, down, count = slow.get(frozenset((a, b)), [0.0, 0.0, 0])
            assert result.positive[i, j] == pytest.approx(up)
            assert result.negative[i, j] == pytest.approx(down)
            assert result.counts[i, j] == count
            assert averages[0][i, j] == pytest.approx(up / max(count, 1))
            assert averages[1][i, j] == pytest.approx(down / max(count, 1))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_bias_and_total(seed: int) -> None:
    ledgers = random_ledgers(seed)
    result = sums(ledgers)
    assert result.total == pytest.approx(sum(found.similarity for found, _, _ in ledgers))
    for place, name in enumerate(result.classes):
        shares = [
            value
            for found, left, right in ledgers
            for own, values in ((left, found.bias_left), (right, found.bias_right))
            for label, value in zip(own, values, strict=True)
            if label == name
        ]
        assert result.bias_positive[place] == pytest.approx(sum(value for value in shares if value > 0))
        assert result.bias_negative[place] == pytest.approx(sum(value for value in shares if value < 0))


def test_sides_do_not_matter() -> None:
    ledgers = random_ledgers(3)
    turned = [
        (ledger(one.right, one.left, one.relevance.T, (one.bias_right, one.bias_left, one.bias_both)), right, left)
        for one, left, right in ledgers
    ]
    first, second = sums(ledgers), sums(turned)
    assert first.classes == second.classes
    np.testing.assert_allclose(first.positive, second.positive)
    np.testing.assert_allclose(first.counts, second.counts)


def test_more_classes_than_room() -> None:
    text = " ".join("w" * 60)
    found = ledger(text, text, np.ones((62, 62)))
    names = [f"T{place}" for place in range(62)]
    result = sums([(found, names, names)])
    assert len(result.classes) == 62 and result.total == pytest.approx(62 * 62)


@pytest.mark.parametrize("kind", KINDS)
def test_scaled_by_the_largest(kind: str) -> None:
    result = sums(random_ledgers(4))
    positive, negative = result.scaled(kind)
    assert max(positive.max(), -negative.min()) == pytest.approx(1.0)
    ratio = result.table(kind)[0][positive > 0] / positive[positive > 0]
    np.testing.assert_allclose(ratio, ratio[0])


def test_unknown_table() -> None:
    with pytest.raises(UsageError, match="choose from summed, averaged"):
        sums(random_ledgers(0)).table("total")


def test_nothing_to_add() -> None:
    with pytest.raises(DataError, match="at least one"):
        ClassSums().result()


def test_classes_of_units() -> None:
    units = (
        Unit("[CLS]", 0, 0, (0,), "special"),
        Unit("query:", 0, 0, (1,), "prompt"),
        Unit("Dog", 0, 3, (2,)),
        Unit("s", 3, 4, (3,)),
        Unit(" ", 4, 5, (4,)),
        Unit("bark", 5, 9, (5,)),
    )
    text = ExplainedText("Dogs bark", units)
    words = parsed("Dogs bark", pos=["NOUN", "VERB"])
    assert unit_classes(text, words) == ["[CLS]", "prompt", "NOUN", "NOUN", "X", "VERB"]


def test_reading_order() -> None:
    found = ledger("a b c", "a", np.ones((5, 3)))
    result = sums([(found, ["[CLS]", "X", "VERB", "NOUN", "prompt"], ["[SEP]", "NOUN", "ZZ"])])
    assert result.classes == ("NOUN", "VERB", "ZZ", "X", "[CLS]", "[SEP]", "prompt")


def test_rows_and_json() -> None:
    result = sums(random_ledgers(5))
    document = result.to_dict()
    assert document["classes"] == list(result.classes)
    for row in result.rows:
        a, b = (result.classes.index(name) for name in row[:2])
        tables = [document[kind][name] for kind in KINDS for name in ("positive", "negative")]
        assert row[2] == document["counts"][a][b] > 0
        assert [row[3], row[4], row[7], row[8]] == [table[a][b] for table in tables]
    assert "token pairs" in result._repr_html_()


def test_plot_names_what_is_darkest() -> None:
    result = sums(random_ledgers(6))
    axes = result.plot(title="hand")
    notes = " ".join(text.get_text() for text in axes.texts)
    assert f"1 = {result.positive.max():.3g}" in notes and f"1 = {-result.negative.min():.3g}" in notes
    assert axes.get_title() == "hand"


def test_change_between_settings() -> None:
    before, after = sums(random_ledgers(7)), sums(random_ledgers(8))
    change = pos_change(("one", "two"), before, after)
    for kind in KINDS:
        for sign, which in (("positive", 0), ("negative", 1)):
            slow = {}
            for a in change.before.classes:
                for b in change.before.classes:
                    values = [_value(one.scaled(kind)[which], one.classes, a, b) for one in (before, after)]
                    slow[frozenset((a, b))] = abs(values[1] - values[0])
            found = change.changed(sign, kind)
            assert len(found) == 10
            assert [abs(one.change) for one in found] == pytest.approx(sorted(slow.values(), reverse=True)[:10])
            assert all(slow[frozenset((one.first, one.second))] == pytest.approx(abs(one.change)) for one in found)


def _value(table: np.ndarray, classes: tuple[str, ...], a: str, b: str) -> float:
    return float(table[classes.index(a), classes.index(b)]) if a in classes and b in classes else 0.0


def test_change_with_a_class_of_one_setting_only() -> None:
    cells = np.ones((3, 3))
    first = sums([(ledger("a", "b", cells), ["[CLS]", "NOUN", "[SEP]"], ["[CLS]", "NOUN", "[SEP]"])])
    second = sums([(ledger("a", "b", cells), ["<s>", "NOUN", "</s>"], ["<s>", "NOUN", "</s>"])])
    change = pos_change(("a", "b"), first, second)
    assert set(change.before.classes) == {"NOUN", "[CLS]", "[SEP]", "<s>", "</s>"}
    assert not any({one.first, one.second} == {"[CLS]", "<s>"} for one in change.changed("positive"))
    assert change.to_dict()["settings"] == ["a", "b"]
    assert change.plot().get_title() == "b minus a"
    assert "change" in change._repr_html_()


def pieces(text: str, spans: list[tuple[int, int]]) -> ExplainedText:
    """[CLS] and a token per span."""
    units = [Unit(text[start:end], start, end, (place,)) for place, (start, end) in enumerate(spans, start=1)]
    return ExplainedText(text, (Unit("[CLS]", 0, 0, (0,), "special"), *units))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_words_are_sums_of_tokens(seed: int) -> None:
    left = pieces("hospitals burn", [(0, 8), (8, 9), (9, 14)])  # the last begins with its blank
    right = pieces("fire!", [(0, 2), (2, 4), (4, 5)])
    cells = np.random.default_rng(seed).normal(size=(4, 4))
    names, others, words = word_relevance(ledger(left, right, cells))
    assert (names, others) == (["hospitals", "burn"], ["fire", "!"])
    groups = [[1, 2], [3]], [[1, 2], [3]]
    for row, mine in enumerate(groups[0]):
        for column, its in enumerate(groups[1]):
            assert words[row, column] == pytest.approx(sum(cells[i, j] for i in mine for j in its))


def test_strongest_words() -> None:
    found = ledger("a b", "c d", words_only([[0.1, -0.9], [0.5, 0.2]]))
    named = [(one.left, one.right, one.relevance) for one in strongest_words(found, "7", 10)]
    assert named == [("b", "c", 0.5), ("b", "d", 0.2), ("a", "c", 0.1)]
    assert strongest_words(found, "7", 1) == [WordPair("7", "b", "c", 0.5, found.similarity)]


def test_quarters() -> None:
    predicted = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    words = [WordPair(str(row), "a", "b", 1 - value, value) for row, value in enumerate(predicted.tolist())]
    found = strongest_by_quarter(words, predicted, 10)
    named = {quarter: [one.id for one in part] for quarter, part in found.items()}
    assert named == {"top": ["6", "7"], "second": ["4", "5"], "third": ["2", "3"], "bottom": ["0", "1"]}
    assert [one.id for one in strongest_by_quarter(words, predicted, 1)["top"]] == ["6"]
    same = strongest_by_quarter(words[:1], predicted[:1], 10)
    assert [len(part) for part in same.values()] == [1, 0, 0, 0], "a pair stands in one quarter alone"
