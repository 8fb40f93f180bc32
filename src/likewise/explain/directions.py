"""Directions in the embedding space: a vector, a text, a difference, a centroid, a linear model's weights, an axis."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.data import Dataset
from likewise.encoder import Encoder
from likewise.encoder.encoder import unit
from likewise.errors import DataError, UsageError, first_line

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Direction:
    """A named vector (d,) whose product with a text's vector is explained.

    >>> Direction("first dimension", np.eye(384)[0]).vector.shape
    (384,)
    """

    name: str
    vector: Array


def as_directions(encoder: Encoder, given: Any) -> list[Direction]:
    """Directions from arrays, texts, a scikit-learn linear model, or a list of such."""
    if isinstance(given, Direction):
        found = [given]
    elif isinstance(given, str):
        found = [text_direction(encoder, given)]
    elif hasattr(given, "coef_"):
        found = model_directions(given)
    elif (rows := _numbers(given)) is not None:
        found = _rows(rows)
    elif isinstance(given, (list, tuple)):
        found = [each for one in given for each in as_directions(encoder, one)]
    else:
        raise UsageError(
            f"{type(given).__name__} is no direction; give a text, a vector, a fitted linear model (with coef_), a"
            " Direction, or a list of such"
        )
    for one in found:
        _check(one, encoder.dimension)
    if not found:
        raise UsageError("no direction given; give a text, a vector, or a Direction")
    return found


def text_direction(encoder: Encoder, text: str, prompt: str | None = None) -> Direction:
    """The unit vector of a text."""
    return Direction(text, _unit(encoder, [text], prompt)[0])


def difference_direction(encoder: Encoder, text: str, other: str, prompt: str | None = None) -> Direction:
    """The unit vector of a text minus that of another one."""
    first, second = _unit(encoder, [text, other], prompt)
    return Direction(f"{text} - {other}", first - second)


def centroid_direction(
    encoder: Encoder, texts: Sequence[str], name: str = "centroid", prompt: str | None = None
) -> Direction:
    """The mean of the unit vectors of texts."""
    if not texts:
        raise DataError("a centroid needs at least one text")
    return Direction(name, _unit(encoder, texts, prompt).mean(0))


def axis_direction(encoder: Encoder, texts: Sequence[str], number: int = 1, prompt: str | None = None) -> Direction:
    """A principal axis of texts, 1 for the strongest; its sign is such that its largest component is positive."""
    vectors = encoder.encode(list(texts), prompt=prompt).astype(np.float64)
    most = min(vectors.shape[0] - 1, vectors.shape[1])
    if not 1 <= number <= most:
        raise UsageError(f"{len(texts)} texts have principal axes 1 to {most}, not {number}; give more texts")
    axis = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)[2][number - 1]
    return Direction(f"axis {number}", axis * np.sign(axis[np.abs(axis).argmax()]))


def model_directions(model: Any) -> list[Direction]:
    """The weights of a fitted scikit-learn linear model, one direction for each row of ``coef_``."""
    rows = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    classes = list(getattr(model, "classes_", []))
    names = classes[1:] if len(classes) == 2 and len(rows) == 1 else classes
    if len(names) != len(rows):
        names = list(range(1, len(rows) + 1))
    return [Direction(f"{type(model).__name__} {name}", row) for name, row in zip(names, rows, strict=True)]


def read_vectors(path: Path) -> Array:
    """Directions (d,) or (K, d) from a .npy file."""
    try:
        found = np.load(path, allow_pickle=False)
        if not isinstance(found, np.ndarray) or not np.issubdtype(found.dtype, np.number):
            raise ValueError("no array of numbers")
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as numbers ({first_line(error)}); save them with numpy.save") from error
    return found.astype(np.float64)


def parse_direction(encoder: Encoder, written: str, texts: Sequence[str], dataset: Dataset) -> list[Direction]:
    """Directions as the command line writes them; ``axis:1`` is one of ``texts``, other files are read as a dataset is.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> parse_direction(encoder, "difference:hot | cold", [], Dataset("sample/sentences"))[0].name
    'hot - cold'
    """
    kind, _, rest = written.partition(":")
    if kind == "difference":
        sides = [side.strip() for side in rest.split("|")]
        if len(sides) != 2 or not all(sides):
            raise UsageError(f"a difference is two texts as difference:A | B, not {rest!r}")
        return [difference_direction(encoder, *sides)]
    if kind == "centroid":
        others = [row.text for row in replace(dataset, name=rest).texts()]
        return [centroid_direction(encoder, others, f"centroid of {rest}")]
    if kind == "axis":
        if not rest.isdigit():
            raise UsageError(f"axis takes a number from 1 on, as axis:1, not {rest!r}")
        return [axis_direction(encoder, texts, int(rest))]
    if kind == "vector":
        return as_directions(encoder, read_vectors(Path(rest)))
    return [text_direction(encoder, written)]


def _unit(encoder: Encoder, texts: Sequence[str], prompt: str | None) -> Array:
    return unit(encoder.encode(list(texts), prompt=prompt)).astype(np.float64)


def _numbers(given: Any) -> Array | None:
    """An array, a tensor or a list of numbers as an array; None for anything else."""
    if isinstance(given, (list, tuple)) and not (given and isinstance(given[0], numbers.Real)):
        return None
    try:
        return np.asarray(given.detach().cpu() if hasattr(given, "detach") else given, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _rows(rows: Array) -> list[Direction]:
    if rows.ndim not in (1, 2):
        raise DataError(f"directions must be (d,) or (K, d), got {rows.ndim} dimensions")
    rows = np.atleast_2d(rows)
    return [Direction("direction" if len(rows) == 1 else f"direction {k}", row) for k, row in enumerate(rows, start=1)]


def _check(one: Direction, width: int) -> None:
    if one.vector.shape != (width,):
        raise DataError(f"{one.name!r} has shape {one.vector.shape}, the model's vectors ({width},); give that many")
    if not np.isfinite(one.vector).all():
        raise DataError(f"{one.name!r} holds numbers that are not finite; give finite ones")
