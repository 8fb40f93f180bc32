"""Planted points through clusters and tests: K and ties are found, and where there is no tie, as often as by chance.

Two hundred draws of points with three clusters of known sizes. One variable differs between the clusters, one does not
and has the ties of similarity labels, one follows length alone, which in turn follows the clusters.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from likewise.attention.clustering import clusterings_of
from likewise.attention.groups import LayerControls, LayerGroups, Structures, Variables, layer_controls, layer_groups
from likewise.attention.settings import AttentionSettings, ClusterSettings

DRAWS, SIZES = 200, (90, 60, 30)
MIDDLES = np.array([[0.0, 0.0], [6.0, 1.0], [2.0, 7.0]])
QUICK = ClusterSettings(("kmeans", "agglomerative", "dbscan"), most=5, linkages=("ward",), distances=("euclidean",))
SETTINGS = AttentionSettings(clusters=QUICK, permutations=199)
Array = NDArray[np.float64]


def drawn(seed: int) -> tuple[Array, Variables, Array]:
    """Points (n, 2), variables (structure is the tied one), and which cluster each point was planted in."""
    rng = np.random.default_rng(seed)
    planted = rng.permutation(np.repeat(np.arange(3), SIZES))
    points = MIDDLES[planted] + rng.normal(size=(sum(SIZES), 2))
    length = np.rint(12 + 6 * planted + rng.normal(0, 3, sum(SIZES)))
    similarity = rng.integers(0, 26, sum(SIZES)) / 5
    tied = rng.normal(size=sum(SIZES)) + 1.5 * (planted == 2)
    return points, Variables(similarity, length, Structures(tied, ((), ()), 1, 2)), planted


@cache
def studied() -> list[tuple[LayerGroups, LayerControls, Array]]:
    found = []
    for seed in range(DRAWS):
        points, variables, planted = drawn(seed)
        groups = layer_groups(1, clusterings_of(points, QUICK, seed), variables, SETTINGS.alpha)
        found.append((groups, layer_controls(groups, points, variables, SETTINGS, np.array([]), None), planted))
    return found


def is_nominal(rejected: list[bool]) -> bool:
    """Whether so many rejections are what a test at this level gives, in 999 of 1000 runs."""
    low, high = binom.interval(0.999, len(rejected), SETTINGS.alpha)
    return bool(low <= sum(rejected) <= high)


@pytest.mark.slow
def test_the_number_of_clusters_and_their_sizes_are_found() -> None:
    found = [groups.clusters.chosen for groups, _, _ in studied()]
    assert np.mean([one.k == 3 for one in found]) >= 0.97
    near = [np.abs(np.array(one.sizes) - SIZES).max() <= 12 for one in found if one.k == 3]
    assert np.mean(near) >= 0.97


@pytest.mark.slow
def test_the_tie_is_found_in_every_draw() -> None:
    assert all(groups.tests["structure"].kruskal_p < 0.05 for groups, _, _ in studied())
    assert all(groups.tests["length"].kruskal_p < 1e-6 for groups, _, _ in studied())
    shares = [groups.tests["structure"].pairs_significant for groups, _, _ in studied()]
    # Two of the three pairs of clusters differ.
    assert np.mean(shares) == pytest.approx(2 / 3, abs=0.05)


def test_without_a_tie_the_rate_is_nominal() -> None:
    assert is_nominal([groups.tests["similarity"].kruskal_p < 0.05 for groups, _, _ in studied()])
    assert is_nominal([controls.permutation["similarity"].p <= 0.05 for _, controls, _ in studied()])
    assert is_nominal([controls.within_length["similarity"].p <= 0.05 for _, controls, _ in studied()])


def test_no_pair_of_clusters_is_found_more_often_than_by_chance() -> None:
    _, high = binom.interval(0.999, DRAWS, SETTINGS.alpha)
    assert sum(groups.tests["similarity"].pairs_significant > 0 for groups, _, _ in studied()) <= high


@pytest.mark.slow
def test_one_cloud_cut_into_parts_ties_to_nothing() -> None:
    rejected = []
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        variables = Variables(rng.integers(0, 26, 120) / 5, rng.normal(size=120), None)
        quick = ClusterSettings(("kmeans",), most=4)
        groups = layer_groups(1, clusterings_of(rng.normal(size=(120, 2)), quick, seed), variables, 0.05)
        rejected.append(groups.tests["similarity"].kruskal_p < 0.05)
    assert is_nominal(rejected)
