"""Metrics of links against scikit-learn and against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from likewise.evaluation.link_metrics import RULES, Discrete, average_precision, f1, roc_auc, strongest_linked, tuned


def drawn(seed: int, ties: bool = True) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(2, 8, 2))
    scores = rng.integers(0, 5, shape).astype(float) if ties else rng.random(shape)
    linked = rng.random(shape) < 0.4
    linked.flat[0], linked.flat[-1] = True, False
    return scores, linked


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ties", [True, False])
def test_auc_and_average_precision_are_those_of_scikit_learn(seed: int, ties: bool) -> None:
    scores, linked = drawn(seed, ties)
    assert roc_auc(scores, linked) == pytest.approx(roc_auc_score(linked.ravel(), scores.ravel()))
    assert average_precision(scores, linked) == pytest.approx(average_precision_score(linked.ravel(), scores.ravel()))


def test_nothing_to_measure_is_nan() -> None:
    scores, none = np.ones((2, 2)), np.zeros((2, 2), bool)
    assert all(math.isnan(metric(scores, none)) for metric in (roc_auc, average_precision, strongest_linked))
    assert math.isnan(roc_auc(scores, ~none)) and f1(none, none) == 1.0 and f1(none, ~none) == 0.0


@pytest.mark.parametrize("seed", range(4))
def test_strongest_partner_word_by_word(seed: int) -> None:
    scores, linked = drawn(seed, ties=False)
    found = [linked[i, scores[i].argmax()] for i in range(len(scores)) if linked[i].any()]
    found += [linked[scores[:, j].argmax(), j] for j in range(scores.shape[1]) if linked[:, j].any()]
    assert strongest_linked(scores, linked) == pytest.approx(np.mean(found))


def test_equal_strongest_partners_share() -> None:
    assert strongest_linked(np.zeros((1, 4)), np.array([[True, False, False, False]])) == pytest.approx((0.25 + 1) / 2)


def test_tuned_is_the_best_of_all_rules_and_thresholds() -> None:
    found = [drawn(seed) for seed in range(12)]
    scores, linked = [one[0] for one in found], [one[1] for one in found]
    best = max(
        np.mean([f1(RULES[rule](s) & (s >= threshold), links) for s, links in found])
        for rule in RULES
        for threshold in range(5)
    )
    rule = tuned(scores, linked)
    assert np.mean([f1(rule(s), links) for s, links in found]) == pytest.approx(best)


def test_rules() -> None:
    scores = np.array([[0.9, 0.2], [0.8, 0.1]])
    assert Discrete("both", 0.0)(scores).tolist() == [[True, False], [False, False]]
    assert Discrete("either", 0.15)(scores).tolist() == [[True, True], [True, False]]
    assert Discrete("all", 0.15)(scores).tolist() == [[True, True], [True, False]]
