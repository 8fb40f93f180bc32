"""The explanation of one similarity: the ledger that sums to it; tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from likewise.errors import ModelError
from likewise.explain.texts import Unit
from likewise.metrics import ScoreMeaning
from likewise.plotting.axes import grid_of_axes
from likewise.plotting.explained import ExplainedPair, explained_fragment
from likewise.plotting.heatmap import bipartite, heatmap
from likewise.plotting.terminal import matrix_lines, unit_line
from likewise.results import Figure, Result, Table

Array = NDArray[np.float64]
TOLERANCE = 1e-4  # How far the ledger of a complete method may miss the shown similarity before it is refused
STRONGEST_PAIRS, STRONGEST_UNITS = 8, 12  # Rows that tables for people have


@dataclass(frozen=True, eq=False)
class ExplainedText:
    """One side of an explanation: the text, its n units and, on request, their shares split by embedding part."""

    text: str
    units: tuple[Unit, ...]
    truncated: bool = False
    ids: tuple[int, ...] = ()  # the ids of all tokens
    parts: Mapping[str, Array] = field(default_factory=dict)
    """what each part of the input embedding (word, position, type, bias) makes of each unit's share, (n,) each"""

    @property
    def labels(self) -> list[str]:
        """The units' texts."""
        return [unit.text for unit in self.units]

    def to_dict(self) -> dict[str, Any]:
        """Text and units, with their character spans and kinds."""
        found: dict[str, Any] = {"text": self.text, "units": self.labels}
        found |= {"spans": [[unit.start, unit.end] for unit in self.units]}
        found |= {"kinds": [unit.kind for unit in self.units], "truncated": self.truncated}
        return found | ({"parts": {name: part.tolist() for name, part in self.parts.items()}} if self.parts else {})

    def by_share(self, shares: Array, count: int) -> list[tuple[str, float]]:
        """The units of largest absolute share (n,), strongest first."""
        rows = zip(self.labels, shares.tolist(), strict=True)
        return sorted(rows, key=lambda row: -abs(row[1]))[:count]


@dataclass(frozen=True)
class Metadata:
    """How an explanation was made."""

    method: str
    model: str
    pooling: str
    granularity: str
    similarity: str = "cosine"
    bias_mode: str = "separate"
    complete: bool = True  # whether the method promises that the ledger sums to the similarity
    layer: str = "-1"
    rules: tuple[str, ...] = ()
    relative_to: str = "none"  # the reference that contributions are relative to; its part is in the bias terms

    @property
    def rest(self) -> str:
        """What the bias terms hold: the biases, or the reference and the biases that go with it."""
        return "bias" if self.relative_to == "none" else "reference"

    def headline(self, score: float) -> str:
        """A score, and how it was explained, in one line."""
        return f"{self.similarity} {score:.4f}  ({self.method}, {self.model}, {self.pooling})"

    def to_dict(self) -> dict[str, Any]:
        """The fields, under the documented keys."""
        keys = {"granularity": "by", "similarity": "measure"}
        return {keys.get(name, name): value for name, value in vars(self).items()}


def require_complete(score: float, gap: float, tolerance: float) -> None:
    """Refuse a ledger that does not sum to what it explains."""
    if not abs(gap) <= tolerance:
        raise ModelError(
            f"the ledger misses the score {score:.6f} by {gap:.1e}, so it is not shown;"
            " load the model with dtype float32 or float64"
        )


def with_biases(relevance: Array, left: Array, right: Array, both: float) -> Array:
    """The relevance (n, m) with a column and a row of biases: (n + 1, m + 1)."""
    return np.block([[relevance, left[:, None]], [right[None], np.full((1, 1), both)]])


def strongest_pairs(
    relevance: Array, left: Sequence[Unit], right: Sequence[Unit], count: int
) -> list[tuple[Unit, Unit, float]]:
    """The pairs of units of largest absolute relevance (n, m), strongest first."""
    order = np.argsort(-np.abs(relevance), axis=None, kind="stable")[:count]
    rows, columns = np.unravel_index(order, relevance.shape)
    return [
        (left[row], right[column], float(relevance[row, column])) for row, column in zip(rows, columns, strict=True)
    ]


def _meaning_document(meaning: ScoreMeaning | None) -> dict[str, Any]:
    return {} if meaning is None else {"meaning": meaning.to_dict()}


@dataclass(frozen=True, eq=False, repr=False)
class PairShares(Result):
    """The share of each unit of two texts in their similarity; the shares and bias of each side sum to it.

    >>> from likewise.encoder import Encoder
    >>> from likewise.explain import explain
    >>> found = explain(Encoder.load("minilm", device="cpu"), "A cat sat.", "The cat sat down.", shares_only=True)
    >>> found.left.labels[found.left_shares.argmax()]
    'cat'
    """

    left: ExplainedText
    right: ExplainedText
    left_shares: Array
    right_shares: Array
    left_bias: float
    right_bias: float
    similarity: float
    metadata: Metadata
    tolerance: float = TOLERANCE
    meaning: ScoreMeaning | None = field(default=None, kw_only=True)  # of the similarity, by a calibration

    def __post_init__(self) -> None:
        require_complete(self.similarity, self.gap, self.tolerance)

    @property
    def gap(self) -> float:
        """What is left unexplained of the similarity, by the side that leaves more."""
        left = self.similarity - float(self.left_shares.sum()) - self.left_bias
        right = self.similarity - float(self.right_shares.sum()) - self.right_bias
        return max(left, right, key=abs)

    def to_dict(self) -> dict[str, Any]:
        """Both sides' shares, on the scale of the similarity."""
        sides = {"left": self.left.to_dict(), "right": self.right.to_dict()}
        shares = {"left": self.left_shares.tolist(), "right": self.right_shares.tolist()}
        bias = {"left": self.left_bias, "right": self.right_bias}
        numbers = {"shares": shares, "bias": bias, "similarity": self.similarity, "gap": self.gap}
        return sides | numbers | self.metadata.to_dict() | _meaning_document(self.meaning)

    title = "What each unit adds to the similarity"

    @property
    def notes(self) -> list[str]:
        """What the similarity means, if that is known."""
        return [] if self.meaning is None else [f"{self.similarity:.4f} ({self.meaning})"]

    def tables(self) -> dict[str, Table]:
        """Every unit's share, and the strongest of each side with the sums."""
        sides = {
            "left": (self.left, self.left_shares, self.left_bias),
            "right": (self.right, self.right_shares, self.right_bias),
        }
        rows = [(name, label, share) for name, (side, shares, _) in sides.items()
                for label, share in zip(side.labels, shares.tolist(), strict=True)]  # fmt: skip
        tables = {"shares": Table.of(["side", "unit", "share"], rows, detail=True)}
        for name, (side, shares, bias) in sides.items():
            sums = [("all units", float(shares.sum())), *([(f"({self.metadata.rest})", bias)] if bias else [])]
            strongest = [*side.by_share(shares, STRONGEST_UNITS), *sums]
            tables[name] = Table.of(["unit", "share"], strongest, f"{name} text", summary=True)
        return tables

    def lines(self, width: int) -> list[Text]:  # noqa: ARG002
        """The score, and both texts coloured by the shares."""
        return text_lines(self)


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Result):
    """Why a model calls two texts similar: relevance (n, m) of unit pairs, and what the biases add.

    ``similarity`` is the model's own score; everything else sums to it, ``gap`` is what is left unexplained.

    >>> from likewise.encoder import Encoder
    >>> from likewise.explain import explain
    >>> found = explain(Encoder.load("minilm", device="cpu"), "A cat sat.", "The cat sat down.", granularity="word")
    >>> [(left.text, right.text) for left, right, _ in found.strongest(1)]
    [('cat', 'cat')]
    """

    left: ExplainedText
    right: ExplainedText
    relevance: Array
    bias_left: Array  # <c_i, d_bias>, (n,): each left unit with the right side's bias
    bias_right: Array  # <c_bias, d_j>, (m,): the left side's bias with each right unit
    bias_both: float
    similarity: float
    metadata: Metadata
    tolerance: float = TOLERANCE
    reference: Mapping[str, float] = field(default_factory=dict)
    """reference terms of integrated Jacobians: f(r,y), f(x,r), f(r,r)"""
    meaning: ScoreMeaning | None = field(default=None, kw_only=True)  # of the similarity, by a calibration

    def __post_init__(self) -> None:
        if self.metadata.complete:
            require_complete(self.similarity, self.gap, self.tolerance)

    @property
    def explained(self) -> float:
        """What the ledger sums to."""
        return float(self.relevance.sum() + self.bias_left.sum() + self.bias_right.sum() + self.bias_both)

    @property
    def gap(self) -> float:
        """What is left unexplained."""
        return self.similarity - self.explained

    @property
    def left_shares(self) -> Array:
        """What each left unit makes of the similarity, with all of the right side, (n,)."""
        shares: Array = self.relevance.sum(1) + self.bias_left
        return shares

    @property
    def right_shares(self) -> Array:
        """What each right unit makes of the similarity, with all of the left side, (m,)."""
        shares: Array = self.relevance.sum(0) + self.bias_right
        return shares

    @property
    def left_bias(self) -> float:
        """What the left side's bias makes of the similarity, with all of the right side."""
        return float(self.bias_right.sum()) + self.bias_both

    @property
    def right_bias(self) -> float:
        """What the right side's bias makes of the similarity, with all of the left side."""
        return float(self.bias_left.sum()) + self.bias_both

    def strongest(self, count: int = 10) -> list[tuple[Unit, Unit, float]]:
        """The unit pairs of largest absolute relevance, strongest first."""
        return strongest_pairs(self.relevance, self.left.units, self.right.units, count)

    @property
    def ledger(self) -> dict[str, float]:
        """The similarity's parts: units with units, each side's units with the other's bias, the biases, the gap."""
        rest = self.metadata.rest
        return {
            "units": float(self.relevance.sum()),
            f"left units with {rest}": float(self.bias_left.sum()),
            f"right units with {rest}": float(self.bias_right.sum()),
            f"{rest} with {rest}": self.bias_both,
            "gap": self.gap,
        }

    @property
    def matrix(self) -> tuple[Array, list[str], list[str]]:
        """What a drawing of the ledger shows: the relevance with, where they are apart, a bias row and column."""
        if not (self.bias_left.any() or self.bias_right.any() or self.bias_both):
            return self.relevance, self.left.labels, self.right.labels
        cells = with_biases(self.relevance, self.bias_left, self.bias_right, self.bias_both)
        rest = f"({self.metadata.rest})"
        return cells, [*self.left.labels, rest], [*self.right.labels, rest]

    def to_dict(self) -> dict[str, Any]:
        """Everything, on the scale of the similarity."""
        bias = {"left": self.bias_left.tolist(), "right": self.bias_right.tolist(), "both": self.bias_both}
        sides = {"left": self.left.to_dict(), "right": self.right.to_dict()}
        numbers = {"relevance": self.relevance.tolist(), "bias": bias, "similarity": self.similarity, "gap": self.gap}
        # What integrated Jacobians leave unexplained is the error of their quadrature.
        reference = {"reference": {**self.reference, "quadrature_error": self.gap}} if self.reference else {}
        return sides | numbers | self.metadata.to_dict() | reference | _meaning_document(self.meaning)

    def drawn(self) -> ExplainedPair:
        """The arrays and labels that drawings take."""
        metadata = {
            "method": self.metadata.method, "model": self.metadata.model, "pooling": self.metadata.pooling,
            "by": self.metadata.granularity, "similarity": self.metadata.similarity, "bias": self.metadata.bias_mode,
            "relative to": self.metadata.relative_to,
        }  # fmt: skip
        biases = (self.bias_left, self.bias_right, self.bias_both)
        units = {"token": "tokens", "word": "words", "sentence": "sentences"}.get(self.metadata.granularity, "units")
        return ExplainedPair(
            self.left.labels, self.right.labels, self.relevance, *biases, self.similarity, metadata, units,
            self.metadata.rest,
        )  # fmt: skip

    title = "Why these two texts are similar"

    @property
    def notes(self) -> list[str]:
        """What the similarity means, if that is known."""
        return [] if self.meaning is None else [f"{self.similarity:.4f} ({self.meaning})"]

    def tables(self) -> dict[str, Table]:
        """Every unit pair; the strongest pairs, the ledger and, where shares are split, their parts."""
        header = ["left", "right", "relevance"]
        cells = [(left, right, value) for left, row in zip(self.left.labels, self.relevance.tolist(), strict=True)
                 for right, value in zip(self.right.labels, row, strict=True)]  # fmt: skip
        strongest = [(left.text, right.text, value) for left, right, value in self.strongest(STRONGEST_PAIRS)]
        ledger = [(name, value) for name, value in self.ledger.items() if value or name in ("units", "gap")]
        ledger += [("similarity", self.similarity)]
        tables = {
            "relevance": Table.of(header, cells, detail=True),
            "strongest": Table.of(header, strongest, "strongest pairs", summary=True),
            "ledger": Table.of(["ledger", self.metadata.similarity], ledger),
        }
        for name, side in (("left", self.left), ("right", self.right)):
            if side.parts:
                rows = zip(side.labels, *(part.tolist() for part in side.parts.values()), strict=True)
                tables[f"{name}_parts"] = Table.of(["unit", *side.parts], rows, "shares by part of the input embedding")
        return tables

    def figures(self) -> dict[str, Figure]:
        """Heat map and lines."""
        return {"explanation": Figure(self.plot_both)}

    def lines(self, width: int) -> list[Text]:
        """The score, both texts coloured by the shares, and the matrix."""
        return [*text_lines(self), *matrix_lines(*self.matrix, width)]

    def fragments(self) -> list[str]:
        """The explanation as interactive HTML."""
        return [explained_fragment(self.drawn())]

    def _repr_html_(self) -> str:
        return "".join(self.fragments())

    def __repr__(self) -> str:
        return f"<Explanation {self.metadata.headline(self.similarity)}>"

    def save_html(self, path: Path) -> Path:
        """Write the page; the folder is made where it is missing."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.to_html(), encoding="utf-8")
        return path

    @property
    def caption(self) -> str:
        """A line for figures."""
        return f"{self.metadata.similarity} {self.similarity:.3f}, {self.metadata.method}, {self.metadata.model}"

    def plot(self, ax: Any = None) -> Any:
        """The ledger as a heat map."""
        return heatmap(*self.matrix, self.caption, ax)

    def plot_lines(self, ax: Any = None) -> Any:
        """The two texts as columns with lines between the units that carry the score."""
        return bipartite(self.relevance, self.left.labels, self.right.labels, self.caption, ax)

    def plot_both(self) -> Any:
        """Heat map and lines in one figure; returns the first Axes."""
        side = min(12.0, 4.0 + 0.18 * max(self.relevance.shape))
        first, second = grid_of_axes(2, (side + 1, side))
        self.plot(first)
        self.plot_lines(second)
        return first


def text_lines(found: Explanation | PairShares) -> list[Text]:
    """The score, and both texts coloured by their units' shares."""
    sides = ((found.left, found.left_shares), (found.right, found.right_shares))
    headline = Text(found.metadata.headline(found.similarity))
    return [headline, *(unit_line(side.labels, shares) for side, shares in sides)]


@dataclass(frozen=True, eq=False, repr=False)
class Contrast(Result):
    """Why a query finds one text more similar than another: the difference of two ledgers, by the query's units.

    What each text's own units make of its score are ``better.right_shares`` and ``worse.right_shares``.

    >>> from likewise.encoder import Encoder
    >>> from likewise.explain import contrast
    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> found = contrast(encoder, "warm soup", "The soup is hot.", "The car is red.")
    >>> found.difference > 0.2, abs(found.gap) < 1e-5
    (True, True)
    """

    better: Explanation | PairShares
    worse: Explanation | PairShares

    @property
    def difference(self) -> float:
        """How much higher the better text scores."""
        return self.better.similarity - self.worse.similarity

    @property
    def query(self) -> list[tuple[Unit, float]]:
        """What each query unit adds to the difference; with ``query_bias`` it sums to it."""
        shares = self.better.left_shares - self.worse.left_shares
        return list(zip(self.better.left.units, shares.tolist(), strict=True))

    @property
    def query_bias(self) -> float:
        """What the query's bias adds to the difference."""
        return self.better.left_bias - self.worse.left_bias

    @property
    def gap(self) -> float:
        """What is left unexplained of the difference."""
        return self.difference - sum(share for _, share in self.query) - self.query_bias

    def to_dict(self) -> dict[str, Any]:
        """Both ledgers and the difference by query unit."""
        query = [{"unit": unit.text, "difference": share} for unit, share in self.query]
        metadata = {"difference": self.difference, "query": query, "query_bias": self.query_bias, "gap": self.gap}
        return metadata | {"better": self.better.to_dict(), "worse": self.worse.to_dict()}

    title = "Why one text is more similar than another"

    @property
    def notes(self) -> list[str]:
        """Both scores, their difference, and the texts."""
        scores = f"{self.better.similarity:.4f} against {self.worse.similarity:.4f}, {self.difference:+.4f}"
        return [f"{scores}: {self.better.right.text!r} and {self.worse.right.text!r}"]

    def tables(self) -> dict[str, Table]:
        """The strongest units of both texts, and the difference by the query's units."""
        sides = {"better": ("right text", self.better), "worse": ("--against", self.worse)}
        tables = {}
        for key, (name, one) in sides.items():
            rows = one.right.by_share(one.right_shares, STRONGEST_PAIRS)
            tables[key] = Table.of([f"{name}: its strongest units", "share"], rows, summary=True)
        rows = [(unit.text, share) for unit, share in sorted(self.query, key=lambda item: -abs(item[1]))]
        rows += [(f"({self.better.metadata.rest})", self.query_bias), ("(gap)", self.gap)]
        return {"query": Table.of(["query", "difference"], rows)} | tables
