"""Debiased CKA against the unbiased HSIC written as its sums over different points."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from likewise.errors import DataError
from likewise.geometry import layer_alignment
from likewise.geometry.layer_alignment import debiased_cka


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
    monkeypatch.setattr(layer_alignment, "TILE", tile)
    states = layers_of(seed)
    np.testing.assert_allclose(debiased_cka(states), plain_cka(states), atol=1e-10)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_hsic_is_a_mean_over_four_different_points(seed: int) -> None:
    left, right = layers_of(seed, n=8)[:2]
    shared = layer_alignment._unbiased_hsic(np.stack([left, right]))[0, 1] / (8 * 5)
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


def test_float32_is_computed_in_float64() -> None:
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


def test_shapes_are_checked() -> None:
    with pytest.raises(DataError, match=r"\(L, n, D\)"):
        debiased_cka(np.ones((5, 3)))
