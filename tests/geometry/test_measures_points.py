"""TwoNN, debiased CKA and isotropy within clusters against plain loops over points."""

from __future__ import annotations

import warnings
from itertools import permutations

import numpy as np
import pytest
from sklearn.cluster import KMeans

from likewise.errors import DataError
from likewise.geometry import measures
from likewise.geometry.measures import (
    KMEANS_STARTS,
    LEAST_POINTS,
    ClusterIsotropy,
    cluster_isotropy,
    debiased_cka,
    distinct_rows,
    isoscore,
    two_nn,
)


def plain_ratios(points: np.ndarray) -> np.ndarray:
    """r_2 / r_1 of each point, one distance at a time."""
    ratios = []
    for i, one in enumerate(points):
        distances = sorted(float(np.linalg.norm(one - other)) for j, other in enumerate(points) if j != i)
        ratios.append(distances[1] / distances[0])
    return np.array(ratios)


def plain_slope(ratios: np.ndarray) -> float:
    """The steps of Facco et al. 2017: F(mu_i) = i / N, nine tenths of the points, a line through the origin."""
    n = len(ratios)
    points = [(np.log(mu), -np.log(1 - rank / n)) for rank, mu in enumerate(sorted(ratios), start=1) if rank <= 0.9 * n]
    return float(sum(x * y for x, y in points) / sum(x * x for x, _ in points))


@pytest.mark.parametrize("held", [1, 700, 2**20], ids=["one row", "some rows", "all rows at a time"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_dimension_and_interval_are_those_of_plain_loops(seed: int, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "HELD", held)
    points = np.random.default_rng(seed).normal(size=(90, 4)) * [1, 1, 1, 0.1] + 5
    ratios, rng = plain_ratios(points), np.random.default_rng(seed)
    drawn = [plain_slope(ratios[rng.integers(0, 90, 90)]) for _ in range(30)]
    found = two_nn(points, seed=seed, draws=30)
    expected = (plain_slope(ratios), *np.percentile(drawn, [2.5, 97.5]))
    assert (found.value, found.low, found.high) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_known_dimensions_in_ten(dim: int) -> None:
    rng = np.random.default_rng(dim)
    turn, _ = np.linalg.qr(rng.normal(size=(10, 10)))
    found = two_nn(rng.random((1500, dim)) @ turn[:dim])
    assert found.value == pytest.approx(dim, rel=0.12)
    assert found.low < found.value < found.high


def test_equal_points_count_once() -> None:
    points = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    points[4, 0] = 0.0
    twice = np.concatenate([points, points[:30]])
    twice[54, 0] = -0.0
    assert two_nn(twice) == two_nn(points)
    np.testing.assert_array_equal(distinct_rows(twice), points)


def test_close_points_far_from_the_origin() -> None:
    """Products of vectors alone would lose these distances to rounding."""
    points = 1000 + 1e-6 * np.random.default_rng(0).normal(size=(60, 3))
    assert two_nn(points, draws=1).value == pytest.approx(plain_slope(plain_ratios(points)), rel=1e-10)


def test_dimension_of_float32_is_computed_in_float64() -> None:
    points = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    assert two_nn(points) == two_nn(points.astype(np.float64))


def test_nan_where_there_is_too_little() -> None:
    few = np.random.default_rng(0).normal(size=(LEAST_POINTS - 1, 3))
    for points in (few, np.concatenate([few, few]), np.zeros((100, 3)), np.zeros((0, 3))):
        found = two_nn(points)
        assert np.isnan([found.value, found.low, found.high]).all()
    assert np.isfinite(two_nn(np.concatenate([few, [[9.0, 9.0, 9.0]]])).value)


def test_nan_on_a_lattice() -> None:
    lattice = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), axis=-1).reshape(-1, 2)
    found = two_nn(lattice)
    assert np.isnan([found.value, found.low, found.high]).all()


def test_shape_of_points_is_checked() -> None:
    with pytest.raises(DataError, match=r"\(n, D\)"):
        two_nn(np.ones(30))


def test_points_that_only_rounding_tells_apart_are_one() -> None:
    """As are the states of one word at one place in batches of other shapes."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, 8)).astype(np.float32)
    again = np.concatenate([points, points[:200] * np.float32(1 + 3e-7), points[:200] * np.float32(1 - 3e-7)])
    assert two_nn(again, draws=1).value == pytest.approx(two_nn(points, draws=1).value, rel=1e-12)


def plain_hsic(left: np.ndarray, right: np.ndarray) -> float:
    """HSIC_1 of Song et al. 2012, in full matrices."""
    n, one = len(left), np.ones(len(left))
    k, m = left @ left.T, right @ right.T
    np.fill_diagonal(k, 0)
    np.fill_diagonal(m, 0)
    pairwise_scores = (
        np.trace(k @ m) + (one @ k @ one) * (one @ m @ one) / ((n - 1) * (n - 2)) - 2 / (n - 2) * one @ k @ m @ one
    )
    return float(pairwise_scores / (n * (n - 3)))


def looped_hsic(left: np.ndarray, right: np.ndarray) -> float:
    """The same as a U-statistic: the mean of k_ij (m_ij + m_qr - 2 m_iq) over all i, j, q, r that differ."""
    k, m = left @ left.T, right @ right.T
    return float(
        np.mean([k[i, j] * (m[i, j] + m[q, r] - 2 * m[i, q]) for i, j, q, r in permutations(range(len(k)), 4)])
    )


def plain_cka(states: np.ndarray) -> np.ndarray:
    own = [plain_hsic(layer, layer) for layer in states]
    return np.array(
        [
            [plain_hsic(a, b) / np.sqrt(own[i] * own[j]) for j, b in enumerate(states)]
            for i, a in enumerate(states)
        ]
    )  # fmt: skip


def biased_cka(left: np.ndarray, right: np.ndarray) -> float:
    left, right = left - left.mean(0), right - right.mean(0)
    own = np.linalg.norm(left.T @ left) * np.linalg.norm(right.T @ right)
    return float(np.linalg.norm(left.T @ right) ** 2 / own)


def layers_of(seed: int, n: int = 37, dim: int = 6) -> np.ndarray:
    """Four layers, each a step from the one before, off the origin."""
    rng = np.random.default_rng(seed)
    states = [rng.normal(size=(n, dim))]
    for _ in range(3):
        states.append(states[-1] @ rng.normal(size=(dim, dim)) + rng.normal(size=(n, dim)))
    return np.stack(states) + rng.normal(size=(4, 1, dim)) * 3


@pytest.mark.parametrize("tile", [1, 16, 256], ids=["single cells", "uneven tiles", "one tile"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_alignment_is_that_of_full_matrices(seed: int, tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "TILE", tile)
    states = layers_of(seed)
    np.testing.assert_allclose(debiased_cka(states), plain_cka(states), atol=1e-10)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_hsic_is_a_mean_over_four_different_points(seed: int) -> None:
    left, right = layers_of(seed, n=8)[:2]
    shared = measures._unbiased_hsic(np.stack([left, right]))[0, 1] / (8 * 5)
    assert shared == pytest.approx(looped_hsic(left, right), rel=1e-10)


def test_diagonal_is_one_and_halves_agree() -> None:
    found = debiased_cka(layers_of(0))
    assert np.diag(found).tolist() == [1.0] * 4
    np.testing.assert_array_equal(found, found.T)


def test_rotation_scale_and_shift_do_not_matter() -> None:
    points = layers_of(0)[0]
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))
    found = debiased_cka([points, points @ turn, 1e-6 * points, points + 1000])
    np.testing.assert_allclose(found, np.ones((4, 4)), atol=1e-10)


def test_independent_layers_are_near_zero_where_the_biased_ones_are_not() -> None:
    rng = np.random.default_rng(0)
    trials = rng.normal(size=(40, 2, 20, 30))
    assert abs(np.mean([debiased_cka(pair)[0, 1] for pair in trials])) < 0.05
    assert np.mean([biased_cka(*pair) for pair in trials]) > 0.5


def test_alignment_of_float32_is_computed_in_float64() -> None:
    single = layers_of(0).astype(np.float32)
    np.testing.assert_array_equal(debiased_cka(single), debiased_cka(single.astype(np.float64)))


@pytest.mark.parametrize("constant", [0.0, 0.1])
def test_a_layer_of_equal_points_is_nan(constant: float) -> None:
    states = layers_of(0)
    states[1] = constant
    found = debiased_cka(states)
    assert np.isnan(found[1]).all() and np.isnan(found[:, 1]).all()
    assert np.isfinite(np.delete(np.delete(found, 1, 0), 1, 1)).all()


def test_one_point_apart_is_no_geometry() -> None:
    """HSIC_1 is 0 then, but its terms only cancel to a rounding."""
    states = layers_of(0)
    states[1] = 0.1
    states[1, 5] = 0.7
    assert np.isnan(debiased_cka(states)[1]).all()


def test_fewer_than_four_points_are_nan() -> None:
    assert np.isnan(debiased_cka(layers_of(0, n=3))).all()
    assert np.isfinite(debiased_cka(layers_of(0, n=4))).all()


def test_shape_of_states_is_checked() -> None:
    with pytest.raises(DataError, match=r"\(L, n, D\)"):
        debiased_cka(np.ones((5, 3)))


def plain_isotropy(points: np.ndarray, groups: np.ndarray, clusters: int, seed: int) -> ClusterIsotropy:
    """Each cluster around its own mean, then a cosine for every pair."""
    labels = KMeans(clusters, n_init=KMEANS_STARTS, random_state=seed).fit_predict(points)
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
def test_shapes_of_points_and_groups_are_checked(n: int, token_groups: int) -> None:
    with pytest.raises(DataError, match=r"groups \(n,\)"):
        cluster_isotropy(np.ones((n, 3)), range(token_groups))
