"""Post-processing fitted on a corpus of vectors; each kind is an affine map, (x - shift) @ matrix."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from likewise.errors import DataError, UsageError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PostProcessing:
    """(x - shift) @ matrix: shift (d,), matrix (d, k)."""

    kind: str
    shift: Array
    matrix: Array

    @property
    def name(self) -> str:
        """The kind with a fingerprint of the fitted numbers, for manifests."""
        digest = hashlib.sha256(self.shift.tobytes() + np.ascontiguousarray(self.matrix).tobytes())
        return f"{self.kind}-{digest.hexdigest()[:16]}"

    def __call__(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, d) -> (n, k)."""
        if vectors.shape[-1] != len(self.shift):
            raise DataError(
                f"post-processing was fitted on {len(self.shift)} dimensions, these vectors have {vectors.shape[-1]};"
                " fit it again with the same model and settings"
            )
        return ((vectors - self.shift) @ self.matrix).astype(np.float32)

    def to_bytes(self) -> bytes:
        """In the form of a safetensors file."""
        from safetensors.numpy import save

        tensors = {"shift": self.shift, "matrix": np.ascontiguousarray(self.matrix)}
        return bytes(save(tensors, metadata={"kind": self.kind}))

    def save(self, path: Path) -> None:
        """Write to one safetensors file."""
        path.write_bytes(self.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "these bytes") -> PostProcessing:
        """What ``to_bytes`` made; ``name`` is for errors."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            tensors = load(data)
            # The header is a length of eight bytes and that much JSON.
            header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
            return cls(header["__metadata__"]["kind"], tensors["shift"], tensors["matrix"])
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{name} is no post-processing file ({error}); make one with: likewise fit") from error

    @classmethod
    def load(cls, path: Path) -> PostProcessing:
        """Read what ``save`` wrote."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise DataError(f"{path} is no post-processing file ({error}); make one with: likewise fit") from error
        return cls.from_bytes(data, str(path))


def fit_standardisation(vectors: Array, dim: int | None = None) -> PostProcessing:
    """Mean 0 and deviation 1 in each dimension of vectors (n, d); constant dimensions are only centred."""
    if dim is not None:
        raise UsageError("standardisation keeps every dimension; use whitening to cut dimensions")
    deviation = vectors.std(axis=0)
    scale = 1 / np.where(deviation > 0, deviation, 1)
    return PostProcessing("standardisation", vectors.mean(axis=0), np.diag(scale))


def fit_all_but_the_top(vectors: Array, dim: int | None = None) -> PostProcessing:
    """Remove the mean and the ``dim`` strongest directions of vectors (n, d), d / 100 by default (Mu et al. 2018)."""
    width = vectors.shape[1]
    count = max(1, width // 100) if dim is None else dim
    if not 0 <= count < width:
        raise UsageError(f"all-but-the-top can remove 0 to {width - 1} directions, not {count}")
    mean = vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(vectors - mean, full_matrices=False)
    top = directions[:count]
    return PostProcessing("all-but-the-top", mean, np.eye(width) - top.T @ top)


def fit_whitening(vectors: Array, dim: int | None = None) -> PostProcessing:
    """Mean 0 and identity covariance of vectors (n, d), in their ``dim`` strongest directions (Su et al. 2021)."""
    width = vectors.shape[1]
    if dim is not None and not 1 <= dim <= width:
        raise UsageError(f"whitening can keep 1 to {width} dimensions, not {dim}")
    mean = vectors.mean(axis=0)
    variances, directions = np.linalg.eigh(np.atleast_2d(np.cov(vectors - mean, rowvar=False)))
    order = np.argsort(variances)[::-1][:dim]
    # Directions that the corpus does not fill would be blown up to noise: they get weight 0.
    filled = variances[order] > variances.max() * 1e-10
    scale = np.where(filled, 1 / np.sqrt(np.where(filled, variances[order], 1)), 0)
    return PostProcessing("whitening", mean, directions[:, order] * scale)


POSTPROCESSORS: dict[str, Callable[[Array, int | None], PostProcessing]] = {
    "all-but-the-top": fit_all_but_the_top,
    "standardisation": fit_standardisation,
    "whitening": fit_whitening,
}


def check_kind(kind: str) -> None:
    """Refuse an unknown kind."""
    if kind not in POSTPROCESSORS:
        raise UsageError(f"unknown post-processing {kind!r}; choose from {', '.join(sorted(POSTPROCESSORS))}")


def fit_postprocessing(kind: str, vectors: NDArray[np.float32], dim: int | None = None) -> PostProcessing:
    """Fit a kind by name on vectors (n, d), in float64.

    >>> fit_postprocessing("standardisation", np.array([[0.0], [2.0]], dtype=np.float32)).shift
    array([1.])
    """
    check_kind(kind)
    if len(vectors) < 2:
        raise DataError(f"post-processing needs at least 2 texts to fit on, got {len(vectors)}")
    return POSTPROCESSORS[kind](np.asarray(vectors, dtype=np.float64), dim)
