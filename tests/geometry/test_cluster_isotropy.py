"""Isotropy within clusters against loops over the pairs of each cluster."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans

from likewise.errors import DataError
from likewise.geometry.cluster_isotropy import STARTS, ClusterIsotropy, cluster_isotropy
from likewise.geometry.spectrum import isoscore


def plain_isotropy(points: np.ndarray, groups: np.ndarray, clusters: int, seed: int) -> ClusterIsotropy:
    """Each cluster around its own mean, then a cosine for every pair."""
    labels = KMeans(clusters, n_init=STARTS, random_state=seed).fit_predict(points)
    residuals = np.array([x - points[labels == label].mean(0) for x, label in zip(points, labels, strict=True)])
    means, counts = [], []
    for label in range(clusters):
        members = np.flatnonzero(labels == label)
        cosines = [
            residuals[i] @ residuals[j] / np.linalg.norm(residuals[i]) / np.linalg.norm(residuals[j])
            for i in members
            for j in members
            if groups[i] != groups[j]
        ]
        means.append(np.mean(cosines))
        counts.append(len(cosines))
    return ClusterIsotropy(clusters, float(np.average(means, weights=counts)), isoscore(np.cov(residuals.T)))


def blobs(seed: int, n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(4, 5)) * 6
    return centres[rng.integers(0, 4, n)] + rng.normal(size=(n, 5)), rng.integers(0, 12, n)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_isotropy_is_that_of_plain_loops(seed: int) -> None:
    points, groups = blobs(seed)
    found, expected = cluster_isotropy(points, groups, clusters=4, seed=seed), plain_isotropy(points, groups, 4, seed)
    assert found.clusters == expected.clusters
    assert found.baseline == pytest.approx(expected.baseline, abs=1e-10)
    assert found.isoscore == pytest.approx(expected.isoscore, abs=1e-10)


def test_clusters_with_their_own_origins_are_isotropic() -> None:
    """Two far clusters look like a line until each is centred."""
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(300, 4)) + 40, rng.normal(size=(300, 4)) + 80])
    one, two = (cluster_isotropy(points, range(600), clusters) for clusters in (1, 2))
    assert isoscore(np.cov(points.T)) < 0.01 and one.isoscore < 0.01
    assert two.isoscore > 0.95 and abs(two.baseline) < 0.01


@pytest.mark.parametrize(("n", "used"), [(1, 1), (2, 1), (3, 1), (4, 2), (9, 4), (20, 10), (40, 10)])
def test_each_cluster_has_two_points_to_share(n: int, used: int) -> None:
    points = np.random.default_rng(n).normal(size=(n, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cluster_isotropy(points, range(n)).clusters == used


def test_equal_points_leave_nothing() -> None:
    """Their mean may miss them by a rounding, which must not become a direction."""
    points = np.repeat(np.random.default_rng(0).normal(size=(3, 4)), 7, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = cluster_isotropy(points, range(21))
    assert found.clusters == 3 and found.baseline == 0.0 and np.isnan(found.isoscore)


def test_no_pairs_no_baseline() -> None:
    points, _ = blobs(0)
    assert np.isnan(cluster_isotropy(points, np.zeros(80, int)).baseline)
    single = cluster_isotropy(points[:1], [0])
    assert np.isnan([single.baseline, single.isoscore]).all()


def test_seed_fixes_the_result_and_float32_is_computed_in_float64() -> None:
    points, groups = blobs(0)
    single = points.astype(np.float32)
    assert cluster_isotropy(single, groups, seed=5) == cluster_isotropy(single.astype(np.float64), groups, seed=5)


@pytest.mark.parametrize(("n", "token_groups"), [(5, 4), (0, 0)])
def test_shapes_are_checked(n: int, token_groups: int) -> None:
    with pytest.raises(DataError, match=r"groups \(n,\)"):
        cluster_isotropy(np.ones((n, 3)), range(token_groups))
