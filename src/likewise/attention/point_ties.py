"""Ties of points: what the points themselves tell of a variable once length is known, before any clustering.

Clusters that are cut along length cannot show what lies across it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.attention.partial import given
from likewise.attention.permutations import DRAWS, SAME, length_strata, shuffled

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PointTie:
    """The share of a variable's ranks, without what another variable tells of them, that points tell linearly.

    >>> PointTie(r2=0.04, p=0.001).to_dict()
    {'r2': 0.04, 'p': 0.001}
    """

    r2: float
    p: float
    """The share of shuffles among points alike in the other variable with an R^2 as large."""

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name."""
        return asdict(self)


def point_tie(points: ArrayLike, values: ArrayLike, other: ArrayLike, draws: int = DRAWS, seed: int = 0) -> PointTie:
    """How much points (n, d) tell of values (n,) given another variable (n,): R^2 of what is left of their ranks.

    >>> rng = np.random.default_rng(0)
    >>> length, side = rng.integers(9, 80, 200), rng.normal(size=200)
    >>> across = np.column_stack([length + 0.1 * side, side])
    >>> found, none = (point_tie(across, values, length, draws=99) for values in (side + rng.normal(size=200), length))
    >>> found.p, found.r2 > 0.3, none.r2
    (0.01, True, 0.0)
    """
    every = np.column_stack([np.asarray(each, dtype=np.float64) for each in (other, values, points)])
    length, *columns = every[~np.isnan(every).any(1)].T
    if len(length) < 2:
        return PointTie(float("nan"), float("nan"))
    target, *left = (given(column, length) for column in columns)
    target, basis = target - target.mean(), _basis(np.column_stack(left))
    observed = _r2(target[None], basis)[0]
    null = np.concatenate([_r2(some, basis) for some in shuffled(target, length_strata(length), draws, seed)])
    return PointTie(float(observed), (1 + int((null >= observed - SAME).sum())) / (1 + draws))


def _basis(columns: Array) -> Array:
    """Orthonormal directions of centred columns (n, d), as many as they have."""
    directions, sizes, _ = np.linalg.svd(columns - columns.mean(0), full_matrices=False)
    basis: Array = directions[:, sizes > 1e-9 * max(sizes[0], 1e-300)]
    return basis


def _r2(rows: Array, basis: Array) -> Array:
    """The share (m,) of centred rows (m, n) that lies in the basis (n, d)."""
    total = np.square(rows[0]).sum()
    inside: Array = np.square(rows @ basis).sum(1)
    return inside / total if total > 0 else np.zeros(len(rows))
