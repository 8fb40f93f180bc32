"""Explained pairs: the arrays of an explanation, and an interactive HTML fragment that needs no network."""

from __future__ import annotations

import base64
import functools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import UsageError
from likewise.plotting.html import Number, paragraph, table
from likewise.plotting.terminal import one_line, shortened, strongest

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ExplainedPair:
    """Two texts of n and m units and the relevance of each pair of units for their similarity."""

    left: Sequence[str]  # The labels of the left text's units (n)
    right: Sequence[str]  # The labels of the right text's units (m)
    relevance: ArrayLike  # What each pair of units adds to the similarity (n, m)
    bias_left: ArrayLike  # What each left unit adds together with the right text's bias (n,)
    bias_right: ArrayLike  # What each right unit adds together with the left text's bias (m,)
    bias_both: float  # What the two biases add together
    similarity: float  # The similarity that all of this adds up to
    metadata: Mapping[str, str] = field(default_factory=dict)  # Method, model, pooling
    units: str = "units"  # What the units are called: tokens, words, sentences
    rest: str = "bias"  # What the bias terms hold: bias, or reference

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
        """The terms that sum to the similarity; the gap is the unexplained rest."""
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
        """Merges each ``left`` and each ``right`` neighbouring units; their relevances are summed."""
        rows, columns = range(0, len(self.left), left), range(0, len(self.right), right)
        bias_left, bias_right = self.biases
        return replace(
            self,
            left=[" ".join(self.left[start : start + left]) for start in rows],
            right=[" ".join(self.right[start : start + right]) for start in columns],
            relevance=np.add.reduceat(np.add.reduceat(self.cells, rows, 0), columns, 1),
            bias_left=np.add.reduceat(bias_left, rows),
            bias_right=np.add.reduceat(bias_right, columns),
        )


# Two bytes a cell, so that 65,536 cells are 175 KB of base64 and a fragment stays below 300 KB.
MAX_CELLS, MAX_UNITS, MAX_LABEL_BYTES = 65_536, 512, 30_000
MAX_TABLE_CELLS = 1_600
CUTS = (2_000, 800, 400, 200, 100, 60, 40, 24, 12)
LEVELS = 32_767


def explained_fragment(pair: ExplainedPair) -> str:
    """The pair as JSON, a script that draws it, and plain tables for readers without scripts.

    Matrices above 65,536 cells are shown with neighbouring units merged, and the fragment says so.
    """
    steps = _steps(len(pair.left), len(pair.right))
    merged = pair.merged(*steps)
    characters = _label_length([*merged.left, *merged.right])
    left, right = ([_cut(label, characters) for label in side] for side in (merged.left, merged.right))
    metadata = {_cut(name, 60): _cut(str(value), 200) for name, value in pair.metadata.items()}
    shown = replace(merged, left=left, right=right, metadata=metadata)
    strongest_pairs = [
        (row // steps[0], column // steps[1], _cut(pair.left[row], 60), _cut(pair.right[column], 60), value)
        for row, column, value in pair.strongest_pairs()
        if math.isfinite(value)
    ]
    data = _embedded(shown) | {"strongest": strongest_pairs, "notes": list(_notes(pair, steps, characters))}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    quoted = escape(text, quote=False).replace("'", "&#x27;")
    plain = "".join(_plain(shown, data))
    return f"<div class=likewise-explained data-pair='{quoted}'><div>{plain}</div><script>{_script()}</script></div>\n"


@functools.cache
def _script() -> str:
    return Path(__file__).with_name("explained.js").read_text(encoding="utf-8")


def _cut(text: str, characters: int) -> str:
    return shortened(one_line(text), characters)


def _steps(rows: int, columns: int) -> tuple[int, int]:
    """How many neighbouring units to merge on each side, the longer side first."""
    steps, sizes = [1, 1], [rows, columns]
    while max(sizes) > MAX_UNITS or sizes[0] * sizes[1] > MAX_CELLS:
        side = 0 if sizes[0] >= sizes[1] else 1
        steps[side] += 1
        sizes[side] = math.ceil((rows, columns)[side] / steps[side])
    return steps[0], steps[1]


def _label_length(labels: Sequence[str]) -> int:
    """The length of labels at which all of them fit their budget."""
    sizes = (sum(len(escape(_cut(label, cut)).encode()) for label in labels) for cut in CUTS)
    return next((cut for cut, size in zip(CUTS, sizes, strict=True) if size <= MAX_LABEL_BYTES), CUTS[-1])


def _notes(pair: ExplainedPair, steps: tuple[int, int], characters: int) -> Iterator[str]:
    if steps != (1, 1):
        yield (
            f"{len(pair.left)} × {len(pair.right)} {pair.units} are too many to show one by one: neighbouring ones are"
            f" taken together, {steps[0]} on the left and {steps[1]} on the right. Their sums are exact; the ledger and"
            " the strongest pairs are of single ones."
        )
    if any(len(one_line(label)) > characters for label in [*pair.left, *pair.right]):
        yield f"Longer {pair.units} are cut to {characters} letters."


def _embedded(pair: ExplainedPair) -> dict[str, Any]:
    """What the script draws (web/src/page.ts)."""
    ledger = {**pair.ledger(), "similarity": float(pair.similarity)}
    bias = np.concatenate([*pair.biases, [pair.bias_both]])
    names = {"units": [pair.left, pair.right], "kind": pair.units, "rest": pair.rest, "metadata": pair.metadata}
    return names | {
        "relevance": _encoded(pair.cells),
        "bias": _encoded(bias),
        "shares": _encoded(np.concatenate(pair.shares())),
        "ledger": {name: value if math.isfinite(value) else None for name, value in ledger.items()},
    }


def _encoded(values: ArrayLike) -> str:
    """A scale and 16-bit levels in base64; the lowest level stands for nan."""
    numbers = np.asarray(values, dtype=float).ravel()
    scale = strongest(numbers)
    levels = np.where(np.isfinite(numbers), np.round(np.nan_to_num(numbers) / scale * LEVELS), -LEVELS - 1)
    return f"{scale:.9g};{base64.b64encode(levels.astype('<i2').tobytes()).decode()}"


def _plain(pair: ExplainedPair, data: Mapping[str, Any]) -> Iterator[str]:
    """The same as tables; a row or column of the matrix sums to the share of its unit."""
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pair.metadata.items())
    yield f"<p><b>{pair.similarity:.4f}</b> similarity</p>\n"
    yield f"<dl style='display:grid;grid-template-columns:max-content 1fr'>{facts}</dl>\n"
    yield from (paragraph(note, note=True) for note in data["notes"])
    if pair.cells.size <= MAX_TABLE_CELLS:
        (bias_left, bias_right), (left, right) = pair.biases, pair.shares()
        rows = [*np.column_stack([pair.cells, bias_left, left]), [*bias_right, pair.bias_both], right]
        names = [*pair.left, pair.rest, "sum"]
        yield table(["", *pair.right, pair.rest, "sum"], map(_row, names, rows))
    else:
        yield paragraph(" ".join(pair.left)) + paragraph(" ".join(pair.right))
        yield paragraph("The matrix of long texts needs JavaScript.", note=True)
    yield table(["ledger", ""], [_row(name, [value]) for name, value in data["ledger"].items()])
    strongest_pairs = [_row(f"{left} × {right}", [value]) for _, _, left, right, value in data["strongest"]]
    yield table(["strongest pairs", ""], strongest_pairs)


def _row(name: str, values: Iterable[float | None]) -> list[object]:
    return [name, *("" if value is None else Number(f"{value:+.4g}") for value in values)]
