"""Interactions: how the relevance between parts of speech changes from one setting to another."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from likewise.explain.explanation import Array
from likewise.lint.pos_relevance import KINDS, SIGNS, PosRelevance, class_order, sign_map
from likewise.plotting.html import table

MOST = 10
"""Interactions that are named."""


@dataclass(frozen=True)
class Interaction:
    """One class pair in two settings, each scaled by its own setting's largest absolute value."""

    first: str
    second: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """After minus before."""
        return self.after - self.before

    def to_dict(self) -> dict[str, Any]:
        """The classes, both values and the change."""
        return asdict(self) | {"change": self.change}


@dataclass(frozen=True, eq=False)
class PosChange:
    """Two settings on the same classes, e.g. two models, two poolings, one language and a mixed pair."""

    names: tuple[str, str]
    before: PosRelevance
    after: PosRelevance

    def changed(self, sign: str = "positive", kind: str = "summed", count: int = MOST) -> list[Interaction]:
        """The class pairs whose scaled relevance of one sign changes most, strongest change first."""
        which = SIGNS.index(sign)
        before, after = self.before.scaled(kind)[which], self.after.scaled(kind)[which]
        seen = np.triu(self.before.counts + self.after.counts) > 0
        change = np.where(seen, np.abs(after - before), -1.0)
        order = np.argsort(-change, axis=None, kind="stable")[: min(count, int(seen.sum()))]
        classes = self.before.classes
        return [
            Interaction(classes[a], classes[b], float(before[a, b]), float(after[a, b]))
            for a, b in zip(*np.unravel_index(order, change.shape), strict=True)
        ]

    def difference(self, kind: str = "summed") -> tuple[Array, Array]:
        """After minus before, scaled, positive and negative table, (k, k) each."""
        before, after = self.before.scaled(kind), self.after.scaled(kind)
        return after[0] - before[0], after[1] - before[1]

    def to_dict(self) -> dict[str, Any]:
        """The most changed interactions by kind and sign."""
        found = {kind: {sign: [one.to_dict() for one in self.changed(sign, kind)] for sign in SIGNS} for kind in KINDS}
        return {"settings": list(self.names)} | found

    def plot(self, ax: Any = None, kind: str = "summed") -> Any:
        """The change as a heat map: positive relevance above the diagonal, negative below."""
        title = f"{self.names[1]} minus {self.names[0]}"
        return sign_map(self.difference(kind), self.before.classes, kind, title, ax)

    def _repr_html_(self) -> str:
        rows = [
            (sign, one.first, one.second, one.before, one.after, one.change)
            for sign in SIGNS
            for one in self.changed(sign)
        ]
        return table(("sign", "class", "class", *self.names, "change"), rows)


def pos_change(names: tuple[str, str], before: PosRelevance, after: PosRelevance) -> PosChange:
    """Two tables brought onto the classes of both."""
    classes = sorted({*before.classes, *after.classes}, key=class_order)
    return PosChange(names, before.on(classes), after.on(classes))
