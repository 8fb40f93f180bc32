"""Tests of one variable against their textbook formulas, and how often they find what is not there."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from likewise.attention.significance import cluster_test, holm
from likewise.errors import DataError

SEEDS = [0, 1, 2]
SIZES = (90, 60, 30, 20)
Draw = Callable[[np.random.Generator, int], np.ndarray]


def sts_labels(rng: np.random.Generator, n: int) -> np.ndarray:
    """Means of a few judges from 0 to 5: many ties, most at the ends."""
    return np.clip(np.round(rng.normal(2.8, 1.8, n) * 5) / 5, 0, 5)


def continuous(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(size=n)


def example(seed: int, draw: Draw = sts_labels) -> tuple[np.ndarray, np.ndarray]:
    """Values and labels with noise, a cluster number that is absent, and clusters that differ."""
    rng = np.random.default_rng(seed)
    labels = rng.choice([-1, 0, 1, 3, 4], 70, p=[0.1, 0.4, 0.3, 0.1, 0.1])
    return draw(rng, 70) + 0.4 * (labels == 1), labels


def plain_ranks(values: np.ndarray) -> list[float]:
    """One more than the smaller values, and half of the other equal ones."""
    return [1 + sum(a < b for a in values) + (sum(a == b for a in values) - 1) / 2 for b in values]


def plain_h(values: np.ndarray, labels: np.ndarray) -> float:
    """12 / (n (n + 1)) sum R^2 / n_c - 3 (n + 1), over 1 - sum (t^3 - t) / (n^3 - n)."""
    n, ranks = len(values), plain_ranks(values)
    total = 0.0
    for cluster in set(labels):
        inside = [rank for rank, label in zip(ranks, labels, strict=True) if label == cluster]
        total += sum(inside) ** 2 / len(inside)
    ties = sum(count**3 - count for count in (sum(a == b for a in values) for b in set(values)))
    return (12 / (n * (n + 1)) * total - 3 * (n + 1)) / (1 - ties / (n**3 - n))


def plain_holm(p: list[float]) -> list[float]:
    """The smallest level at which Holm's steps reach each hypothesis: the largest factor times p up to it."""
    return [min(1.0, max(sum(r >= q for r in p) * q for q in p if q <= own)) for own in p]


@pytest.mark.parametrize("draw", [sts_labels, continuous])
@pytest.mark.parametrize("seed", SEEDS)
def test_kruskal_is_the_textbook_formula(seed: int, draw: Draw) -> None:
    values, labels = example(seed, draw)
    test, kept = cluster_test(values, labels), labels != -1
    n, h = int(kept.sum()), plain_h(values[kept], labels[kept])
    groups = [values[labels == cluster] for cluster in (0, 1, 3, 4)]
    assert (test.n, test.k) == (n, 4)
    assert test.h == pytest.approx(h, abs=1e-10)
    assert (test.h, test.kruskal_p) == pytest.approx(tuple(stats.kruskal(*groups)), abs=1e-10)
    assert test.kruskal_p == pytest.approx(stats.chi2.sf(h, 3), abs=1e-10)
    assert test.epsilon2 == pytest.approx(h * (n + 1) / (n**2 - 1), abs=1e-10)
    assert test.eta2 == pytest.approx((h - 4 + 1) / (n - 4), abs=1e-10)


@pytest.mark.parametrize("draw", [sts_labels, continuous])
@pytest.mark.parametrize("seed", SEEDS)
def test_pairs_are_counted(seed: int, draw: Draw) -> None:
    values, labels = example(seed, draw)
    test = cluster_test(values, labels)
    assert [(pair.first, pair.second) for pair in test.pairs] == list(combinations([0, 1, 3, 4], 2))
    for pair in test.pairs:
        left, right = values[labels == pair.first], values[labels == pair.second]
        above = sum(a > b for a in left for b in right)
        below = sum(a < b for a in left for b in right)
        ties = sum(a == b for a in left for b in right)
        assert pair.u == above + ties / 2
        assert pair.rank_biserial == pytest.approx((above - below) / (len(left) * len(right)), abs=1e-10)
        assert pair.p == pytest.approx(plain_p(pair.u, left, right), abs=1e-10)


def plain_p(u: float, left: np.ndarray, right: np.ndarray) -> float:
    """The normal approximation with its corrections for ties and continuity."""
    both = [*left, *right]
    n, product = len(both), len(left) * len(right)
    ties = sum(both.count(value) ** 3 - both.count(value) for value in set(both))
    spread = (product / 12 * (n + 1 - ties / (n * (n - 1)))) ** 0.5
    return min(1.0, 2 * stats.norm.sf((abs(u - product / 2) - 0.5) / spread))


@pytest.mark.parametrize("seed", SEEDS)
def test_holm_is_its_definition(seed: int) -> None:
    values, labels = example(seed)
    test = cluster_test(values, labels)
    assert [pair.holm for pair in test.pairs] == pytest.approx(plain_holm([pair.p for pair in test.pairs]), abs=1e-12)
    p = np.round(np.random.default_rng(seed).random(20) ** 3, 2)
    np.testing.assert_allclose(holm(p), plain_holm(p.tolist()), atol=1e-12)


def test_share_of_pairs_follows_the_level() -> None:
    values, labels = example(0)
    adjusted = [pair.holm for pair in cluster_test(values, labels).pairs]
    for alpha in (0.01, 0.3, 1.0):
        share = sum(p < alpha for p in adjusted) / len(adjusted)
        assert cluster_test(values, labels, alpha).pairs_significant == pytest.approx(share)


def test_first_cluster_with_larger_values_is_positive() -> None:
    [pair] = cluster_test([5, 6, 7, 1, 2, 3], [2, 2, 2, 7, 7, 7]).pairs
    assert (pair.first, pair.second, pair.u, pair.rank_biserial) == (2, 7, 9, 1)


@pytest.mark.filterwarnings("error")
def test_constant_values_tell_nothing() -> None:
    test = cluster_test([2.0] * 9, [0, 0, 0, 1, 1, 1, 2, 2, 2])
    assert (test.h, test.kruskal_p, test.epsilon2, test.pairs_significant) == (0, 1, 0, 0)
    assert {(pair.u, pair.p, pair.holm, pair.rank_biserial) for pair in test.pairs} == {(4.5, 1, 1, 0)}
    one_pair_alike = cluster_test([2, 2, 2, 2, 5, 6], [0, 0, 1, 1, 2, 2])
    assert one_pair_alike.pairs[0].p == 1 and one_pair_alike.kruskal_p < 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("labels", [[], [-1, -1], [0, 0], [-1, 3], [0, -1]], ids=str)
def test_one_cluster_cannot_be_tested(labels: list[int]) -> None:
    test = cluster_test(np.arange(len(labels)), labels)
    assert np.isnan([test.h, test.kruskal_p, test.epsilon2, test.eta2, test.pairs_significant]).all()
    assert (test.k, test.n, test.pairs) == (len(set(labels) - {-1}), sum(label >= 0 for label in labels), ())


def test_points_without_a_value_are_left_out() -> None:
    values, labels = example(0)
    lacking = np.where(np.arange(70) % 5 == 0, np.nan, values)
    kept = ~np.isnan(lacking)
    assert cluster_test(lacking, labels).to_dict() == cluster_test(values[kept], labels[kept]).to_dict()
    emptied = cluster_test(np.where(labels == 3, np.nan, values), labels)
    assert (emptied.k, len(emptied.pairs)) == (3, 3)


@pytest.mark.filterwarnings("error")
def test_single_points_are_clusters() -> None:
    test = cluster_test([1, 2, 3], [0, 1, 2])
    assert (test.k, test.n, test.h) == (3, 3, pytest.approx(2))
    assert np.isnan(test.eta2)


def test_shapes_are_checked() -> None:
    with pytest.raises(DataError, match="a value and a label for each point"):
        cluster_test([1.0, 2.0], [0, 1, 1])


def test_json_holds_plain_numbers() -> None:
    written = json.loads(json.dumps(cluster_test(*example(0)).to_dict()))
    keys = ["n", "k", "h", "kruskal_p", "epsilon2", "eta2", "pairs_significant", "pairs"]
    assert list(written) == keys
    assert list(written["pairs"][0]) == ["first", "second", "u", "p", "holm", "rank_biserial"]


@pytest.mark.slow
@pytest.mark.parametrize("draw", [sts_labels, continuous])
def test_level_is_kept_where_clusters_are_alike(draw: Draw) -> None:
    rng, labels = np.random.default_rng(0), np.repeat(np.arange(4), SIZES)
    tests = [cluster_test(draw(rng, len(labels)), labels) for _ in range(200)]
    low, high = stats.binom.interval(0.999, 200, 0.05)
    assert low <= sum(test.kruskal_p < 0.05 for test in tests) <= high
    # Holm holds the chance of any false pair.
    assert sum(test.pairs_significant > 0 for test in tests) <= high
    # Chance taken out, the mean effect is none; epsilon squared keeps (k - 1) / (n - 1).
    assert np.mean([test.eta2 for test in tests]) == pytest.approx(0, abs=0.003)
    assert np.mean([test.epsilon2 for test in tests]) == pytest.approx(3 / 199, abs=0.003)
