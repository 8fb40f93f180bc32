"""TwoNN against loops over all pairs of points."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.errors import DataError
from likewise.geometry import intrinsic_dimension
from likewise.geometry.intrinsic_dimension import LEAST_POINTS, distinct_rows, two_nn


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
    monkeypatch.setattr(intrinsic_dimension, "HELD", held)
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


def test_float32_is_computed_in_float64() -> None:
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


def test_shapes_are_checked() -> None:
    with pytest.raises(DataError, match=r"\(n, D\)"):
        two_nn(np.ones(30))


def test_points_that_only_rounding_tells_apart_are_one() -> None:
    """As are the states of one word at one place in batches of other shapes."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, 8)).astype(np.float32)
    again = np.concatenate([points, points[:200] * np.float32(1 + 3e-7), points[:200] * np.float32(1 - 3e-7)])
    assert two_nn(again, draws=1).value == pytest.approx(two_nn(points, draws=1).value, rel=1e-12)
