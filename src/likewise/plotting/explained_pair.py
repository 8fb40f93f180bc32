"""An explained pair of texts: the arrays and labels that its drawings start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import UsageError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ExplainedPair:
    """Two texts of n and m units and the relevance of each pair of units for their similarity.

    >>> pair = ExplainedPair(["a", "b"], ["c"], [[0.5], [0.1]], [0.0, 0.1], [0.05], 0.15, 0.9)
    >>> [f"{name}: {value:.2f}" for name, value in pair.ledger().items()][0]
    'units × units: 0.60'
    """

    left: Sequence[str]
    """The labels of the left text's units (n)."""
    right: Sequence[str]
    """The labels of the right text's units (m)."""
    relevance: ArrayLike
    """What each pair of units adds to the similarity (n, m)."""
    bias_left: ArrayLike
    """What each left unit adds together with the right text's bias (n,)."""
    bias_right: ArrayLike
    """What each right unit adds together with the left text's bias (m,)."""
    bias_both: float
    """What the two biases add together."""
    similarity: float
    """The similarity that all of this adds up to."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What else to tell: method, model, pooling."""
    units: str = "units"
    """What the units are called: tokens, words, sentences."""
    rest: str = "bias"
    """What the bias terms hold: bias, or reference."""

    def __post_init__(self) -> None:
        rows, columns = len(self.left), len(self.right)
        if not rows or not columns:
            raise UsageError("nothing to draw: a text without units; give at least one unit on each side")
        wanted = {"relevance": (rows, columns), "bias_left": (rows,), "bias_right": (columns,)}
        for name, shape in wanted.items():
            found = np.asarray(getattr(self, name), dtype=float)
            if found.shape != shape:
                raise UsageError(f"{name} has the shape {found.shape}; {rows} and {columns} labels need {shape}")
            object.__setattr__(self, name, found)

    @property
    def cells(self) -> Floats:
        """The relevance as an array (n, m)."""
        return np.asarray(self.relevance, dtype=float)

    @property
    def biases(self) -> tuple[Floats, Floats]:
        """The left units' bias (n,) and the right units' (m,)."""
        return np.asarray(self.bias_left, dtype=float), np.asarray(self.bias_right, dtype=float)

    def shares(self) -> tuple[Floats, Floats]:
        """What each left unit (n,) and each right unit (m,) adds to the similarity, its bias included."""
        left, right = self.biases
        return self.cells.sum(1) + left, self.cells.sum(0) + right

    def ledger(self) -> dict[str, float]:
        """The terms that add up to the similarity; the gap is what they leave unexplained."""
        left, right = self.biases
        terms = {
            f"{self.units} × {self.units}": float(self.cells.sum()),
            f"left {self.units} × right {self.rest}": float(left.sum()),
            f"left {self.rest} × right {self.units}": float(right.sum()),
            f"{self.rest} × {self.rest}": float(self.bias_both),
        }
        return terms | {"gap": float(self.similarity) - sum(terms.values())}

    def strongest_pairs(self, count: int = 10) -> list[tuple[int, int, float]]:
        """The pairs of units (row, column, relevance) of the largest magnitude, strongest first."""
        sizes = np.nan_to_num(np.abs(self.cells)).ravel()
        order = np.argsort(-sizes, kind="stable")[:count]
        indices = (divmod(int(index), len(self.right)) for index in order)
        return [(row, column, float(self.cells[row, column])) for row, column in indices]

    def merged(self, left: int, right: int) -> ExplainedPair:
        """Each ``left`` and each ``right`` neighbouring units taken as one; relevances are summed, so all adds up.

        >>> pair = ExplainedPair(["a", "b", "c"], ["d"], [[1], [2], [3]], [0, 0, 0], [0], 0, 6)
        >>> pair.merged(2, 1).left, pair.merged(2, 1).cells.tolist()
        (['a b', 'c'], [[3.0], [3.0]])
        """
        rows, columns = list(range(0, len(self.left), left)), list(range(0, len(self.right), right))
        bias_left, bias_right = self.biases
        return replace(
            self,
            left=[" ".join(self.left[start : start + left]) for start in rows],
            right=[" ".join(self.right[start : start + right]) for start in columns],
            relevance=np.add.reduceat(np.add.reduceat(self.cells, rows, 0), columns, 1),
            bias_left=np.add.reduceat(bias_left, rows),
            bias_right=np.add.reduceat(bias_right, columns),
        )
