"""Bootstrap intervals of means against resampling draw by draw."""

from __future__ import annotations

import numpy as np
import pytest

from likewise import metrics
from likewise.errors import DataError
from likewise.metrics import bootstrap_means


def plain_intervals(values: np.ndarray, draws: int, seed: int) -> list[tuple[float, float, float]]:
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, values.shape[1], values.shape[1]) for _ in range(draws)]
    means = np.array([[row[drawn].mean() for row in values] for drawn in columns])
    return [
        (row.mean(), *np.percentile(means[:, which], [2.5, 97.5])) for which, row in enumerate(values)
    ]  # fmt: skip


@pytest.mark.parametrize("counts", [1, 700, 2**21], ids=["one draw", "some draws", "all draws at a time"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_intervals_are_those_of_plain_resampling(seed: int, counts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "COUNTS_AT_ONCE", counts)
    values = np.random.default_rng(seed).random((3, 50))
    found = [(one.value, one.low, one.high) for one in bootstrap_means(values, draws=40, seed=seed)]
    np.testing.assert_allclose(found, plain_intervals(values, 40, seed), atol=1e-12)


def test_constant_rows_have_no_width() -> None:
    [one, other] = bootstrap_means([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    assert (one.value, one.low, one.high, other.value, other.high) == pytest.approx((1, 1, 1, 0, 0))


@pytest.mark.parametrize("values", [[], [[]], [1.0, 2.0]], ids=str)
def test_shapes_are_checked(values: list[object]) -> None:
    with pytest.raises(DataError, match="at least one value"):
        bootstrap_means(values)
