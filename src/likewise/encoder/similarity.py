"""Similarity of embeddings: cosine or dot product, of all pairs or row by row, in blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import DataError, UsageError

BLOCK_BYTES = 2**26  # The largest size of a block of scores, and of a block of normed vectors
MEASURES = ("cosine", "dot")
Vectors = NDArray[np.float32]


def similarity(left: ArrayLike, right: ArrayLike, measure: str = "cosine") -> Vectors:
    """Every left vector with every right one: (d,) or (n, d), and (m, d) -> (n, m); a zero vector gives 0.

    >>> similarity([[1.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]]).round(3)
    array([[0.707, 0.   ]], dtype=float32)
    """
    a, b = _rows(left), _rows(right)
    result = np.empty((len(a), len(b)), dtype=np.float32)
    for start, block in similarity_blocks(a, b, measure):
        result[start : start + len(block)] = block
    return result


def similarity_blocks(
    left: ArrayLike, right: ArrayLike, measure: str = "cosine", block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[int, Vectors]]:
    """The same in pieces: the first left row of a block, and the block (rows, m) of at most ``block_bytes``."""
    prepare, a, b = _scaling(measure), _rows(left), _rows(right)
    if a.shape[1] != b.shape[1]:
        raise DataError(f"vectors of {a.shape[1]} and of {b.shape[1]} dimensions; were they made by the same model?")
    rows = max(1, block_bytes // (4 * max(1, len(b))))
    width = max(1, block_bytes // (4 * max(1, b.shape[1])))
    for start in range(0, len(a), rows):
        some = prepare(a[start : start + rows])
        block = np.empty((len(some), len(b)), dtype=np.float32)
        # The right side in blocks too: it may be memory-mapped and larger than the memory.
        for column in range(0, len(b), width):
            block[:, column : column + width] = some @ prepare(b[column : column + width]).T
        yield start, block


def paired_similarity(left: ArrayLike, right: ArrayLike, measure: str = "cosine") -> Vectors:
    """Row by row: (n, d) and (n, d) -> (n,).

    >>> paired_similarity([[3.0, 4.0]], [[3.0, 4.0]], "dot")
    array([25.], dtype=float32)
    """
    a, b = _rows(left), _rows(right)
    if a.shape != b.shape:
        raise DataError(f"{len(a)} left and {len(b)} right vectors of widths {a.shape[1]} and {b.shape[1]}")
    scale = _scaling(measure)
    scores: Vectors = np.einsum("nd,nd->n", scale(a), scale(b))
    return scores


def _scaling(measure: str) -> Callable[[Vectors], Vectors]:
    if measure not in MEASURES:
        raise UsageError(f"unknown similarity {measure!r}; choose from {', '.join(MEASURES)}")
    return unit if measure == "cosine" else np.asarray


def unit(vectors: Vectors) -> Vectors:
    """Scale each row (n, d) to length 1; zero rows stay zero."""
    # In float64: the square of a small float32 is 0, that of a large one infinite.
    lengths = np.sqrt(np.einsum("...d,...d->...", vectors, vectors, dtype=np.float64))[..., None]
    scale: Vectors = np.where(lengths > 0, lengths, 1).astype(np.float32)
    return vectors / scale


def _rows(vectors: ArrayLike) -> Vectors:
    rows = np.asarray(vectors, dtype=np.float32)
    if rows.ndim not in (1, 2):
        raise DataError(f"vectors must be (d,) or (n, d), got {rows.ndim} dimensions")
    return np.atleast_2d(rows)
