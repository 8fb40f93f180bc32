"""What each unit of a text adds to its vector (contributions) or to the vector's product with directions (shares)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from likewise.explain.units import Unit

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Contributions:
    """One text's units, their contributions (n, d), the bias's (d,), and the model's own vector (d,).

    phi(x) = c_1 + ... + c_n + c_bias. With a reference, its part is in the bias's.

    >>> one = Contributions("a", (Unit("a", 0, 1, (0,)),), np.ones((1, 2)), np.zeros(2), np.ones(2))
    >>> float(one.missing)
    0.0
    """

    text: str
    units: tuple[Unit, ...]
    values: NDArray[np.floating]
    bias: NDArray[np.floating]
    vector: NDArray[np.floating]
    truncated: bool = False
    parts: dict[str, NDArray[np.floating]] = field(default_factory=dict)
    """the same contributions split by what the input embedding is made of, (n, d) each"""
    ids: tuple[int, ...] = ()
    """the ids of all tokens"""
    length: float | None = None
    """what the cosine divides by where that is not the vector's own length (the embedding baseline)"""

    @property
    def missing(self) -> float:
        """The length of what the contributions leave of the vector; nan for a baseline, which sums to no vector."""
        if self.length is not None:
            return float("nan")
        total = self.values.sum(0, dtype=np.float64) + self.bias
        return float(np.linalg.norm(self.vector - total))

    @property
    def divisor(self) -> float:
        """What the cosine divides by; 1 for a zero vector, whose similarity is 0."""
        length = float(np.linalg.norm(self.vector.astype(np.float64))) if self.length is None else self.length
        return length or 1.0


@dataclass(frozen=True, eq=False)
class Shares:
    """One text's units, their shares (K, n) in <vector, direction> for K directions, and the bias's (K,)."""

    text: str
    units: tuple[Unit, ...]
    values: Array
    bias: Array
    vector: NDArray[np.floating]
    truncated: bool = False
    parts: dict[str, Array] = field(default_factory=dict)
    """the same shares split by what the input embedding is made of, (K, n) each"""
    ids: tuple[int, ...] = ()

    @property
    def divisor(self) -> float:
        """What the cosine divides by; 1 for a zero vector, whose similarity is 0."""
        return float(np.linalg.norm(self.vector.astype(np.float64))) or 1.0
