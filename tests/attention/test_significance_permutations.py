"""Permutation tests against a plain loop, and how often they find what is not there."""

from __future__ import annotations

import json
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from likewise.attention import significance as module
from likewise.attention.significance import cluster_test, length_strata, permutation_test
from likewise.errors import DataError, UsageError

SEEDS = [0, 1, 2]


def example(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values with ties and gaps, labels with noise, strata with a gap (40,)."""
    rng = np.random.default_rng(seed)
    values, labels, strata = rng.integers(0, 6, 40).astype(float), rng.integers(-1, 3, 40), rng.integers(-1, 4, 40)
    values[:2] = np.nan
    return values, labels, strata


def all_shuffles(values: np.ndarray, labels: np.ndarray, strata: np.ndarray) -> list[float]:
    """Epsilon squared of every order of the values that keeps each in its stratum."""
    orders = (np.array(order) for order in permutations(range(len(values))))
    shuffles = (values[order] for order in orders if (strata[order] == strata).all())
    return [stats.kruskal(one[labels == 0], one[labels == 1]).statistic / (len(one) - 1) for one in shuffles]


@pytest.mark.parametrize("strata", [[0] * 6, [0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 0]], ids=str)
def test_draws_are_those_of_all_shuffles(strata: list[int]) -> None:
    values, labels = np.array([1.0, 2, 2, 3, 5, 7]), np.array([0, 0, 1, 0, 1, 1])
    exact = all_shuffles(values, labels, np.array(strata))
    observed = cluster_test(values, labels).epsilon2
    found = permutation_test(values, labels, strata, draws=20000)
    assert found.p == pytest.approx(np.mean(np.array(exact) >= observed - 1e-9), abs=0.02)
    assert found.null_mean == pytest.approx(np.mean(exact), abs=0.01)
    near = np.quantile(exact, [0.93, 0.97])
    assert near[0] - 1e-9 <= found.null_high <= near[1] + 1e-9


@pytest.mark.parametrize("held", [1, 100, 2**20], ids=["one draw", "some draws", "all draws at a time"])
@pytest.mark.parametrize("seed", SEEDS)
def test_test_is_a_plain_loop_over_its_draws(seed: int, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", held)
    values, labels, strata = example(seed)
    kept = (labels >= 0) & (strata >= 0) & ~np.isnan(values)
    inside, clusters, groups = values[kept], labels[kept], strata[kept]
    rng, null = np.random.default_rng(seed), []
    for _ in range(60):
        shuffled, keys = inside.copy(), rng.random(len(inside))
        # The module hands its random keys out stratum by stratum.
        start = 0
        for stratum in np.unique(groups):
            places = np.flatnonzero(groups == stratum)
            shuffled[places] = inside[places][np.argsort(keys[start : start + len(places)])]
            start += len(places)
        null.append(cluster_test(shuffled, clusters).epsilon2)
    observed = cluster_test(inside, clusters).epsilon2
    found = permutation_test(values, labels, strata, draws=60, seed=seed)
    assert found.p == (1 + sum(one >= observed - 1e-12 for one in null)) / 61
    assert found.null_mean == pytest.approx(np.mean(null), abs=1e-10)
    assert found.null_high == pytest.approx(np.quantile(null, 0.95), abs=1e-10)


def test_null_mean_is_what_chance_gives() -> None:
    rng = np.random.default_rng(0)
    found = permutation_test(rng.integers(0, 6, 300), rng.integers(0, 5, 300), draws=4000)
    assert found.null_mean == pytest.approx(4 / 299, abs=0.0005)
    assert found.null_high == pytest.approx(stats.chi2.ppf(0.95, 4) / 299, rel=0.05)


@pytest.mark.filterwarnings("error")
def test_nothing_to_shuffle() -> None:
    constant = permutation_test([2.0] * 6, [0, 0, 0, 1, 1, 1], draws=9)
    assert (constant.p, constant.null_mean, constant.null_high) == (1, 0, 0)
    alone = permutation_test([1.0, 5, 2, 6], [0, 1, 0, 1], strata=[0, 1, 2, 3], draws=9)
    assert (alone.p, alone.null_mean) == (1, pytest.approx(cluster_test([1.0, 5, 2, 6], [0, 1, 0, 1]).epsilon2))
    for values, labels in ([], []), ([1.0, 2.0], [0, 0]), ([1.0, np.nan], [0, 1]):
        one = permutation_test(values, labels, draws=9)
        assert np.isnan([one.p, one.null_mean, one.null_high]).all() and one.draws == 9


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UsageError, match="draws must be at least 1"):
        permutation_test([1.0, 2.0], [0, 1], draws=0)
    with pytest.raises(DataError, match="a stratum for each point"):
        permutation_test([1.0, 2.0], [0, 1], strata=[0])
    with pytest.raises(UsageError, match="most and least"):
        length_strata([1, 2], least=0)


def test_same_seed_draws_the_same() -> None:
    values, labels, strata = example(0)
    first, again, other = (permutation_test(values, labels, strata, 50, seed) for seed in (3, 3, 4))
    assert first == again and first != other
    assert list(json.loads(json.dumps(first.to_dict()))) == ["p", "null_mean", "null_high", "draws"]


@pytest.mark.parametrize("ties", [True, False], ids=["labels", "continuous"])
def test_level_is_kept_where_clusters_are_alike(ties: bool) -> None:
    rng, labels = np.random.default_rng(1), np.repeat(np.arange(4), (90, 60, 30, 20))
    count = 0
    for seed in range(200):
        values = rng.normal(2.8, 1.8, 200)
        values = np.clip(np.round(values * 5) / 5, 0, 5) if ties else values
        count += permutation_test(values, labels, draws=199, seed=seed).p <= 0.05
    low, high = stats.binom.interval(0.999, 200, 0.05)
    assert low <= count <= high


@pytest.mark.parametrize(("most", "least"), [(20, 10), (5, 10), (1000, 1), (1, 1), (20, 200)])
@pytest.mark.parametrize("seed", SEEDS)
def test_strata_hold_like_lengths(seed: int, most: int, least: int) -> None:
    length = np.random.default_rng(seed).geometric(0.05, 500) + 4
    strata = length_strata(length, most, least)
    sizes = np.bincount(strata)
    assert len(sizes) <= most and sizes.min() >= least
    # In the order of length, a stratum begins where another has ended, and no length is in two.
    order = np.argsort(length, kind="stable")
    assert (np.diff(strata[order]) >= 0).all()
    assert all(len(set(strata[length == one])) == 1 for one in set(length))
    # None could end sooner.
    for stratum in range(len(sizes) - 2):
        last = length[strata == stratum].max()
        assert (length[strata == stratum] < last).sum() < max(least, 500 / most)


def test_strata_of_few_points() -> None:
    assert length_strata([]).tolist() == []
    assert length_strata([9, 3, 5]).tolist() == [0, 0, 0]
    assert length_strata([7] * 30).tolist() == [0] * 30
    assert length_strata([1, np.nan, 2], least=1).tolist() == [0, -1, 1]
