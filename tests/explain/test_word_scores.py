"""Scores of word pairs, each against a plain version of its definition."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.explain import explain
from likewise.explain.texts import TextInput, Unit
from likewise.explain.word_scores import (
    NEIGHBOUR,
    NO_LINK,
    ORDER,
    USUAL_BASELINE,
    Words,
    above_baseline,
    context,
    cosines,
    equal_words,
    is_punctuation,
    less_hubs,
    method_named,
    methods_of,
    mutual_softmax,
    neighbours,
    random_scores,
    transport,
    words_of,
)


def words(*names: str, seed: int = 0, width: int = 5) -> Words:
    units = tuple(Unit(name, index, index + 1, (index,)) for index, name in enumerate(names))
    rng = np.random.default_rng([seed, len(names)])
    return Words(" ".join(names), units, rng.normal(size=(len(names), width)) + 0.5)


LEFT, RIGHT = words("a", ",", "b", "c", seed=1), words("d", "e", "f", "!", "g", seed=2)


def plain_cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def plain_above_baseline(left: Words, right: Words) -> np.ndarray:
    means = []
    for text in (left, right):
        n = len(text.units)
        pairs = [plain_cosine(text.vectors[i], text.vectors[j]) for i in range(n) for j in range(n) if i != j]
        means.append(np.mean(pairs))
    baseline = np.mean(means)
    return np.array([[(plain_cosine(x, y) - baseline) / (1 - baseline) for y in right.vectors] for x in left.vectors])


def plain_context(left: Words, right: Words, order: float) -> np.ndarray:
    """From the definition, cell by cell."""
    cells = plain_above_baseline(left, right)
    n, m = cells.shape
    is_mark = [[is_punctuation(unit.text) for unit in text.units] for text in (left, right)]
    found = np.full((n, m), NO_LINK)
    for i in range(n):
        for j in range(m):
            if is_mark[0][i] or is_mark[1][j]:
                continue
            total = weights = 0.0
            for k in range(max(0, i - 1), min(n, i + 2)):
                for q in range(max(0, j - 1), min(m, j + 2)):
                    if not (is_mark[0][k] or is_mark[1][q]):
                        weight = 1.0 if (k, q) == (i, j) else NEIGHBOUR
                        total, weights = total + weight * cells[k, q], weights + weight
            found[i, j] = total / weights - order * abs(i / (n - 1) - j / (m - 1))
    return found


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_context_is_its_definition(seed: int) -> None:
    left, right = words("a", ",", "b", "c", seed=seed), words("d", "e", "f", "!", "g", seed=seed + 9)
    np.testing.assert_allclose(above_baseline(left, right), plain_above_baseline(left, right), atol=1e-12)
    np.testing.assert_allclose(context(left, right), plain_context(left, right, ORDER), atol=1e-12)
    np.testing.assert_allclose(neighbours(left, right), plain_context(left, right, 0.0), atol=1e-12)
    np.testing.assert_allclose(context(left, right), context(right, left).T, atol=1e-12)


def test_one_word_has_the_usual_baseline_and_equal_words_of_one_text_do_not_divide_by_zero() -> None:
    one, other = words("cat", seed=3), words("dog", seed=4)
    cosine = plain_cosine(one.vectors[0], other.vectors[0])
    np.testing.assert_allclose(context(one, other), [[(cosine - USUAL_BASELINE) / (1 - USUAL_BASELINE)]])
    same = Words("a a", LEFT.units[:2], np.ones((2, 3)))
    assert np.isfinite(context(same, same)).all()
    assert np.isfinite(cosines(Words("a", LEFT.units[:1], np.zeros((1, 3))), same)).all()


def test_transport_moves_all_weights_and_finds_the_cheapest_plan() -> None:
    plan = transport(LEFT, RIGHT) / len(RIGHT.units)
    np.testing.assert_allclose(plan.sum(0), 1 / len(RIGHT.units), atol=1e-9)
    np.testing.assert_allclose(plan.sum(1), 1 / len(LEFT.units), atol=1e-3)
    turned = Words(RIGHT.text, RIGHT.units, RIGHT.vectors[::-1])
    # Scipy's exact assignment of a text to itself in another order.
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(-cosines(RIGHT, turned))
    np.testing.assert_array_equal(transport(RIGHT, turned).argmax(1)[rows], columns)


def test_softmax_and_csls_are_their_definitions() -> None:
    cells = cosines(LEFT, RIGHT)
    soft = [np.exp(cells / 0.1) / np.exp(cells / 0.1).sum(axis, keepdims=True) for axis in (0, 1)]
    np.testing.assert_allclose(mutual_softmax(LEFT, RIGHT), np.sqrt(soft[0] * soft[1]), atol=1e-12)
    for i in range(4):
        for j in range(5):
            nearest = np.mean(sorted(cells[i])[-3:]) + np.mean(sorted(cells[:, j])[-3:])
            assert less_hubs(LEFT, RIGHT)[i, j] == pytest.approx(2 * cells[i, j] - nearest)


def test_equal_words_and_noise() -> None:
    np.testing.assert_array_equal(equal_words(words("The", "cat"), words("the", "Cats", "CAT")), [[1, 0, 0], [0, 0, 1]])
    assert random_scores(LEFT, RIGHT).tolist() == random_scores(LEFT, RIGHT).tolist()
    assert random_scores(LEFT, RIGHT).T.tolist() != random_scores(RIGHT, LEFT).tolist()


def test_vectors_of_layers_are_means_of_token_states(tiny: Encoder) -> None:
    texts = ["the man, unknownish", "a", "the sea is out"]
    found = words_of(tiny, [TextInput(text, granularity="word") for text in texts], [0, 2])
    for number in (0, 2):
        for own, states in zip(found[number], tiny.states(texts, attention=False), strict=True):
            assert [unit.kind for unit in own.units] == ["text"] * len(own.units)
            for unit, vector in zip(own.units, own.vectors, strict=True):
                expected = np.mean([states.hidden[number][token] for token in unit.tokens], axis=0)
                np.testing.assert_allclose(vector, expected, atol=1e-5)


def test_every_method_scores_every_pair(tiny: Encoder) -> None:
    known = methods_of(tiny)
    assert {"context", "layer-0", "layer-2", "bilrp", "bilrp-local", "hxp", "contribution-cosine"} < known.keys()
    assert "layer-3" not in known
    texts = [TextInput("the man is out", granularity="word"), TextInput("a dog, the sea", granularity="word")]
    found = words_of(tiny, texts, {method.source for method in known.values()})
    for name, method in known.items():
        scores = method.between(*found[method.source])
        assert scores.shape == (4, 5) and np.isfinite(scores).all(), name
    with pytest.raises(UsageError, match="unknown method 'nothing'; choose from context"):
        method_named(tiny, "nothing")


def test_products_are_the_ledger_but_for_its_scale(tiny: Encoder) -> None:
    left, right = "the man is out", "a dog, the sea"
    why = explain(tiny, left, right, granularity="word", bias="local", reference="none")
    method = method_named(tiny, "bilrp-local")
    texts = [TextInput(text, granularity="word") for text in (left, right)]
    scores = method.between(*words_of(tiny, texts, [method.source])[method.source])
    kept = [[index for index, unit in enumerate(side.units) if unit.kind == "text"] for side in (why.left, why.right)]
    relevance = why.relevance[np.ix_(*kept)]
    np.testing.assert_allclose(scores / np.abs(scores).max(), relevance / np.abs(relevance).max(), atol=1e-5)
