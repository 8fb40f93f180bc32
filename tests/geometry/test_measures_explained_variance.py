"""Maximum explainable variance against full decompositions and scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse.linalg
from sklearn.decomposition import PCA, TruncatedSVD

from likewise.errors import DataError
from likewise.geometry import measures
from likewise.geometry.measures import VARIANTS, explained_variances, random_explained_variances


def plain_shares(vectors: np.ndarray) -> list[float]:
    """The three readings of one layer (n, D), in the order of READINGS."""
    squares = np.linalg.svd(vectors, compute_uv=False) ** 2
    pca = PCA(svd_solver="full").fit(vectors)
    svd = TruncatedSVD(n_components=1, algorithm="arpack", random_state=0).fit(vectors)
    return [squares[0] / squares.sum(), pca.explained_variance_ratio_[0], svd.explained_variance_ratio_[0]]


def words(seed: int, n: int, dim: int, layers: int = 3) -> np.ndarray:
    """Vectors off the origin, of uneven variances."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(layers, n, dim)) / np.sqrt(1 + np.arange(dim)) + rng.normal(size=(layers, 1, dim))


SIZES = [(2, 12), (5, 12), (12, 12), (40, 12), (150, 200), (300, 140)]


@pytest.mark.parametrize(("n", "dim"), SIZES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_shares_are_those_of_full_decompositions(seed: int, n: int, dim: int) -> None:
    vectors = words(seed, n, dim)
    expected = np.transpose([plain_shares(layer) for layer in vectors])
    np.testing.assert_allclose(explained_variances(vectors), expected, rtol=1e-10)


@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_origin_far_or_near(shift: float) -> None:
    vectors = words(0, 30, 10) + shift
    expected = np.transpose([plain_shares(layer) for layer in vectors])
    np.testing.assert_allclose(explained_variances(vectors), expected, rtol=1e-9)


def test_readings_differ_where_the_mean_is_the_first_direction() -> None:
    """All vectors lie along one axis and vary along another."""
    rng = np.random.default_rng(0)
    vectors = np.array([10.0, 0.0]) + rng.normal(size=(500, 2)) * [0.0, 1.0]
    shares = dict(zip(VARIANTS, explained_variances(vectors[None])[:, 0], strict=True))
    assert shares["formula"] > 0.98 and shares["pca"] == pytest.approx(1.0) and shares["svd"] < 1e-3


@pytest.mark.parametrize("size", [4, 200], ids=["direct", "iterated"])
def test_equal_and_zero_vectors(size: int) -> None:
    equal, zero = np.full((size, size), 0.1), np.zeros((size, size))
    found = explained_variances(np.stack([equal, zero]))
    assert found[0, 0] == pytest.approx(1.0)
    assert np.isnan(found[1:, 0]).all() and np.isnan(found[:, 1]).all()


def test_one_vector() -> None:
    found = explained_variances([[[1.0, 2.0]], [[0.0, 0.0]]])
    assert found[0, 0] == 1.0
    assert np.isnan(found[1:]).all() and np.isnan(found[0, 1])


@pytest.mark.parametrize("rows", [150, 400], ids=["gram", "scatter"])
def test_one_line_of_many_vectors(rows: int) -> None:
    """A matrix of rank one leaves the iterations nothing to go on with after a step."""
    line = np.random.default_rng(0).normal(size=(1, rows, 1)) * np.random.default_rng(1).normal(size=200)
    np.testing.assert_allclose(explained_variances(line), np.ones((3, 1)), rtol=1e-10)


def test_same_vectors_same_bits() -> None:
    vectors = words(0, 150, 200)
    np.testing.assert_array_equal(explained_variances(vectors), explained_variances(vectors))


def test_iterations_that_do_not_converge_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_up(*_: object, **__: object) -> None:
        raise scipy.sparse.linalg.ArpackNoConvergence("no convergence", np.empty(0), np.empty((0, 0)))

    vectors = words(0, 150, 200)
    expected = explained_variances(vectors)
    monkeypatch.setattr(scipy.sparse.linalg, "eigsh", gives_up)
    np.testing.assert_allclose(explained_variances(vectors), expected, rtol=1e-10)


def test_float32_is_computed_in_float64() -> None:
    single = words(0, 20, 30).astype(np.float32)
    np.testing.assert_array_equal(explained_variances(single), explained_variances(single.astype(np.float64)))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_random_rows_are_distinct_and_the_same_in_all_layers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = np.stack([np.arange(20.0), -np.arange(20.0)])[..., None]
    seen: list[np.ndarray] = []
    monkeypatch.setattr(measures, "explained_variances", lambda rows: seen.append(rows))
    random_explained_variances(pool, 15, seed)
    random_explained_variances(pool, 15, seed)
    one, again = seen
    assert len(set(one[0, :, 0])) == 15
    np.testing.assert_array_equal(one[0], -one[1])
    np.testing.assert_array_equal(one, again)


def test_whole_pool_is_the_pool() -> None:
    pool = words(0, 10, 6)
    np.testing.assert_allclose(random_explained_variances(pool, 10, seed=3), explained_variances(pool), rtol=1e-10)


@pytest.mark.parametrize("shape", [(3, 4), (2, 0, 4), (2, 4, 0)], ids=str)
def test_shapes_are_checked(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="at least one row"):
        explained_variances(np.ones(shape))


@pytest.mark.parametrize("n", [0, 11])
def test_a_pool_must_hold_the_rows(n: int) -> None:
    with pytest.raises(DataError, match="cannot be drawn"):
        random_explained_variances(np.ones((2, 10, 3)), n, seed=0)
