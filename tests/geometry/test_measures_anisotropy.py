"""The expected cosine against loops over all pairs; IsoScore and effective rank against the papers' steps."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from likewise.errors import DataError
from likewise.geometry.measures import (
    dimension_contributions,
    effective_rank,
    expected_cosine,
    isoscore,
    pair_sums,
    unit_rows,
)


def plain_contributions(vectors: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The mean over all pairs of different groups of u_d v_d / (|u| |v|)."""
    products = []
    for u, of_u in zip(vectors, groups, strict=True):
        for v, of_v in zip(vectors, groups, strict=True):
            if of_u != of_v:
                lengths = np.linalg.norm(u) * np.linalg.norm(v)
                products.append(u * v / lengths if lengths > 0 else np.zeros_like(u))
    return np.mean(products, axis=0)


def cloud(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points off the origin, one of them zero, of sentences in no order."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(40, 6)) + rng.normal(size=6)
    vectors[7] = 0
    return vectors, rng.integers(-3, 5, 40)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_expected_cosine_is_the_mean_over_pairs(seed: int) -> None:
    vectors, groups = cloud(seed)
    assert expected_cosine(vectors, groups) == pytest.approx(plain_contributions(vectors, groups).sum(), abs=1e-10)
    alone = plain_contributions(vectors, np.arange(40)).sum()
    assert expected_cosine(vectors) == pytest.approx(alone, abs=1e-10)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_contributions_of_running_sums_over_layers(seed: int) -> None:
    clouds = [cloud(seed + shift) for shift in range(3)]
    layers, groups = np.stack([vectors for vectors, _ in clouds]), np.sort(clouds[0][1])
    whole = dimension_contributions(*pair_sums(layers, groups))
    expected = [plain_contributions(layer, groups) for layer in layers]
    np.testing.assert_allclose(whole, expected, atol=1e-10)
    streamed = [pair_sums(layers[:, groups == group], groups[groups == group]) for group in np.unique(groups)]
    total, within = sum(part[0] for part in streamed), sum(part[1] for part in streamed)
    pairs = len(groups) ** 2 - sum(int((groups == group).sum()) ** 2 for group in np.unique(groups))
    np.testing.assert_allclose(dimension_contributions(total, within, pairs), expected, atol=1e-10)


def test_order_and_names_of_groups_do_not_matter() -> None:
    vectors, groups = cloud(0)
    order = np.random.default_rng(1).permutation(40)
    names = np.array([f"sentence {group}" for group in groups])
    assert expected_cosine(vectors[order], names[order]) == pytest.approx(expected_cosine(vectors, groups), abs=1e-12)


def test_float32_is_computed_in_float64() -> None:
    vectors, groups = cloud(0)
    single = vectors.astype(np.float32)
    assert expected_cosine(single, groups) == expected_cosine(single.astype(np.float64), groups)


def test_one_direction_and_zeros() -> None:
    assert expected_cosine([[1.0, 1.0], [2.0, 2.0], [5.0, 5.0]]) == pytest.approx(1.0)
    assert expected_cosine(np.zeros((3, 2))) == 0.0
    assert expected_cosine([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("vectors", "groups"),
    [(np.ones((3, 2)), [4, 4, 4]), (np.ones((1, 2)), None), (np.zeros((0, 2)), None)],
    ids=["one group", "one row", "no row"],
)
def test_nan_without_two_groups(vectors: np.ndarray, groups: list[int] | None) -> None:
    assert np.isnan(expected_cosine(vectors, groups))


def test_shapes_are_checked() -> None:
    with pytest.raises(DataError, match="one group each"):
        expected_cosine(np.ones((3, 2)), [0, 1])
    with pytest.raises(DataError, match=r"\(n, D\)"):
        expected_cosine(np.ones((2, 3, 2)))


def test_unit_rows_leave_their_argument() -> None:
    vectors = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(np.linalg.norm(unit_rows(vectors), axis=1), [1.0, 0.0])
    assert vectors[0].tolist() == [3.0, 4.0]


def plain_isoscore(points: np.ndarray) -> float:
    """The steps of Rudman et al. 2022, from points to score."""
    dim = points.shape[1]
    variances = np.cov(PCA().fit_transform(points).T).diagonal()
    normalised = np.sqrt(dim) * variances / np.linalg.norm(variances)
    defect = np.linalg.norm(normalised - np.ones(dim)) / np.sqrt(2 * (dim - np.sqrt(dim)))
    phi = (dim - defect**2 * (dim - np.sqrt(dim))) ** 2 / dim**2
    return float((dim * phi - 1) / (dim - 1))


def plain_effective_rank(points: np.ndarray) -> float:
    """Roy & Vetterli 2007: exp of the entropy of the singular values of the centred points."""
    singular = np.linalg.svd(points - points.mean(0), compute_uv=False)
    shares = singular / singular.sum()
    return float(np.exp(-sum(share * np.log(share) for share in shares if share > 1e-15)))


def mixed_cloud(seed: int, dim: int = 8) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(60, dim)) @ rng.normal(size=(dim, dim)) + rng.normal(size=dim)


@pytest.mark.parametrize("dim", [2, 8])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_both_follow_their_papers(seed: int, dim: int) -> None:
    points = mixed_cloud(seed, dim)
    covariance = np.cov(points.T)
    assert isoscore(covariance) == pytest.approx(plain_isoscore(points), abs=1e-10)
    assert effective_rank(covariance) == pytest.approx(plain_effective_rank(points), abs=1e-10)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fewer_points_than_dimensions(seed: int) -> None:
    points = np.random.default_rng(seed).normal(size=(6, 40))
    assert effective_rank(np.cov(points.T)) == pytest.approx(plain_effective_rank(points), abs=1e-10)


def test_stacks_are_taken_one_by_one() -> None:
    stack = np.array([[np.cov(mixed_cloud(seed + 3 * row).T) for seed in range(3)] for row in range(2)])
    expected = [[isoscore(matrix) for matrix in row] for row in stack]
    np.testing.assert_allclose(isoscore(stack), expected, rtol=1e-14)
    expected = [[effective_rank(matrix) for matrix in row] for row in stack]
    np.testing.assert_allclose(effective_rank(stack), expected, rtol=1e-14)


def test_known_values() -> None:
    """k equal variances of D: the score is (k - 1) / (D - 1), the rank k."""
    for k in range(1, 6):
        matrix = np.diag([3.0] * k + [0.0] * (5 - k))
        assert isoscore(matrix) == pytest.approx((k - 1) / 4, abs=1e-12)
        assert effective_rank(matrix) == pytest.approx(k, abs=1e-12)


def test_many_isotropic_points_come_near_one() -> None:
    covariance = np.cov(np.random.default_rng(0).normal(size=(20_000, 10)).T)
    assert isoscore(covariance) > 0.99
    assert effective_rank(covariance) > 9.99


def test_neither_scale_nor_rotation_matters() -> None:
    covariance = np.cov(mixed_cloud(0).T)
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))
    for factor in (1e-12, 1.0, 1e12):
        turned = factor * turn @ covariance @ turn.T
        assert isoscore(turned) == pytest.approx(isoscore(covariance), abs=1e-10)
        assert effective_rank(turned) == pytest.approx(effective_rank(covariance), abs=1e-10)


def test_one_dimension_and_no_variance() -> None:
    assert isoscore([[2.0]]) == 1.0
    assert effective_rank([[2.0]]) == 1.0
    for dim in (1, 3):
        assert np.isnan(isoscore(np.zeros((dim, dim))))
        assert np.isnan(effective_rank(np.zeros((dim, dim))))


def test_negative_rounding_is_none() -> None:
    assert effective_rank(np.diag([1.0, 1.0, -1e-17])) == pytest.approx(2.0, abs=1e-12)


def test_spectra_of_float32_are_computed_in_float64() -> None:
    single = np.cov(mixed_cloud(0).T).astype(np.float32)
    assert isoscore(single) == isoscore(single.astype(np.float64))
    assert effective_rank(single) == effective_rank(single.astype(np.float64))


@pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 0), (2, 3, 4)], ids=str)
def test_shapes_of_covariances_are_checked(shape: tuple[int, ...]) -> None:
    for measure in (isoscore, effective_rank):
        with pytest.raises(DataError, match=r"D, D\)"):
            measure(np.ones(shape))
