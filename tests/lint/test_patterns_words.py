"""Strongest word pairs, and errors by level of the human score."""

from __future__ import annotations

import numpy as np
import pytest
from explain.ledgers import ledger, words_only

from likewise.data import ScoredPair
from likewise.explain.explanation import ExplainedText
from likewise.explain.units import Unit
from likewise.lint.level_errors import disagreements, level_edges, level_errors, score_line
from likewise.lint.word_pairs import WordPair, strongest_by_quarter, strongest_words, word_relevance
from likewise.metrics import scaled_mse


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


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_levels_slow_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = np.append(rng.uniform(0, 5, 40), [0.0, 5.0])
    predicted = truth / 5 + rng.normal(size=42) * 0.2
    found = level_errors(predicted, truth)
    slope, shift = np.polyfit(predicted, truth, 1)
    for place, level in enumerate(found.levels):
        inside = [
            (slope * p + shift - t) ** 2 for p, t in zip(predicted, truth, strict=True) if min(int(t), 4) == place
        ]
        assert (level.name, level.n) == (f"{place}-{place + 1}", len(inside))
        assert level.error.value == pytest.approx(sum(inside) / len(inside))
        assert level.error.low <= level.error.value <= level.error.high
    overall = sum(level.error.value * level.n for level in found.levels) / 42
    assert overall == pytest.approx(scaled_mse(predicted, truth))
    assert len(found.to_dict()["levels"]) == 5
    assert found.plot().get_xlabel() == "human score"
    assert "0-1" in found._repr_html_()


def test_edges() -> None:
    assert level_edges(np.array([1.0, 3.2])) == [1.0, 2.0, 3.0, 4.0]
    assert level_edges(np.array([0.0, 1.0])) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert level_edges(np.array([2.0, 2.0]))[0] == 2.0


def test_constant_predictions_are_mapped_to_the_mean() -> None:
    line = score_line(np.ones(3), np.array([1.0, 2.0, 6.0]))
    assert line.mapped(np.ones(3)).tolist() == [3.0, 3.0, 3.0]


def test_disagreements_are_worst_first() -> None:
    truth = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 0.0])
    predicted = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    pairs = [ScoredPair(f"l{row}", f"r{row}", score, str(row)) for row, score in enumerate(truth.tolist())]
    found = disagreements(pairs, predicted, truth, 2)
    slope, shift = np.polyfit(predicted, truth, 1)
    assert found[0].id == "5" and found[0].difference == pytest.approx(slope + shift)
    assert abs(found[0].difference) >= abs(found[1].difference)
    assert found[0].to_dict()["difference"] == found[0].difference
