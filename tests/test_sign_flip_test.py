"""The randomization test of paired differences: exact for few pairs, by draws for many."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from likewise.errors import DataError
from likewise.metrics import sign_flip_test

SEEDS = (0, 1, 2)


def plain_p(differences: list[float]) -> float:
    """The share of all signs whose sum is at least as far from zero as the observed one."""
    observed = abs(sum(differences))
    sums = [
        abs(sum(sign * each for sign, each in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(each >= observed - 1e-12 for each in sums) / len(sums)


@pytest.mark.parametrize("seed", SEEDS)
def test_few_pairs_are_exact(seed: int) -> None:
    rows = np.random.default_rng(seed).normal(0.3, 1.0, (4, 9))
    assert sign_flip_test(rows) == pytest.approx([plain_p(row.tolist()) for row in rows], abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_that_of_scipy(seed: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(seed)
    first, second = rng.normal(0.0, 1.0, (2, 10))
    found = stats.permutation_test(
        (first, second), lambda a, b: (a - b).mean(), permutation_type="samples", n_resamples=2**10
    )
    assert sign_flip_test([first - second]) == pytest.approx([found.pvalue], abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_many_pairs_are_near_the_normal_limit(seed: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    row = np.random.default_rng(seed).normal(0.1, 1.0, 400)
    limit = 2 * stats.norm.sf(abs(row.sum()) / np.sqrt((row**2).sum()))
    assert sign_flip_test([row])[0] == pytest.approx(limit, abs=0.02)


def test_no_difference_and_a_clear_one() -> None:
    assert sign_flip_test([[0.0] * 5, [0.1] * 5]) == [1.0, 2 / 32]
    assert sign_flip_test([[0.1] * 100]) == [1 / 10_000]  # never 0: the observed signs count


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(0, 1, (2, 30))
    whole = sign_flip_test(rows)
    monkeypatch.setattr("likewise.metrics.COUNTS_AT_ONCE", 100)
    assert sign_flip_test(rows) == pytest.approx(whole, abs=0.02)


@pytest.mark.parametrize("rows", [[], [[]], [1.0, 2.0]])
def test_no_rows_are_refused(rows: list[object]) -> None:
    with pytest.raises(DataError, match="at least one difference"):
        sign_flip_test(rows)  # type: ignore[arg-type]
