"""Post-processing of embeddings: affine maps (x - center) @ matrix, fitted on a corpus's mean and covariance."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.encoder.modes import Mode, Transposed
from likewise.errors import DataError, UsageError
from likewise.storage import atomic_write

Array = NDArray[np.float64]
EMPTY_SHARE = 1e-8
"""A direction with at most this share of the largest variance is empty: sums of float32 leave as much in directions
without variance, such as the one that every LayerNorm removes."""


@dataclass(frozen=True)
class PostProcessing:
    """(x - center) @ matrix: center (d,), matrix (d, k)."""

    kind: str
    center: Array
    matrix: Array

    @property
    def name(self) -> str:
        """The kind and a hash of the fitted numbers, for manifests."""
        digest = hashlib.sha256(self.center.tobytes() + np.ascontiguousarray(self.matrix).tobytes())
        return f"{self.kind}-{digest.hexdigest()[:16]}"

    def __call__(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, d) -> (n, k)."""
        if vectors.shape[-1] != len(self.center):
            raise DataError(
                f"post-processing was fitted on {len(self.center)} dimensions, these vectors have {vectors.shape[-1]};"
                " fit it again with the same model and settings"
            )
        return ((vectors - self.center) @ self.matrix).astype(np.float32)

    def forward(self, vectors: Tensor, mode: Mode) -> Tensor:
        """The same on tensors in double precision, with the bias added by the mode: (..., d) -> (..., k)."""
        matrix, bias = self._affine(vectors.device)
        return mode.add_bias(vectors.double() @ matrix, bias)

    def transposed(self, gradient: Tensor, mode: Transposed) -> Tensor:
        """(B, K, k) -> (B, K, d), in double precision."""
        matrix, bias = self._affine(gradient.device)
        mode.collect(gradient.double(), bias)
        return gradient.double() @ matrix.T

    def _affine(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """The matrix (d, k) and the bias (k,)."""
        arrays = self.matrix, self.center
        matrix, center = (torch.as_tensor(array, dtype=torch.float64, device=device) for array in arrays)
        return matrix, -center @ matrix

    def to_bytes(self) -> bytes:
        """The content of a safetensors file."""
        from safetensors.numpy import save

        tensors = {"shift": self.center, "matrix": np.ascontiguousarray(self.matrix)}
        return bytes(save(tensors, metadata={"kind": self.kind}))

    def save(self, path: Path) -> None:
        """Write to one safetensors file."""
        atomic_write(path, lambda draft: draft.write_bytes(self.to_bytes()))

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "these bytes") -> PostProcessing:
        """The inverse of ``to_bytes``; ``name`` is for errors."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            tensors = load(data)
            # The header is a length of eight bytes and that much JSON.
            header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
            return cls(header["__metadata__"]["kind"], tensors["shift"], tensors["matrix"])
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise _not_a_file(name, error) from error

    @classmethod
    def load(cls, path: Path) -> PostProcessing:
        """Read what ``save`` wrote."""
        try:
            return cls.from_bytes(path.read_bytes(), str(path))
        except OSError as error:
            raise _not_a_file(str(path), error) from error


def _not_a_file(name: str, error: Exception) -> DataError:
    return DataError(f"{name} is not a post-processing file ({error}); make one with: likewise fit-postprocessing")


def all_but_the_top(mean: Array, covariance: Array, dim: int | None = None) -> PostProcessing:
    """Remove the mean and the ``dim`` strongest directions, d / 100 by default (Mu et al. 2018)."""
    width = len(mean)
    count = max(1, width // 100) if dim is None else dim
    if not 0 <= count < width:
        raise UsageError(f"all-but-the-top can remove 0 to {width - 1} directions, not {count}")
    _, directions = _filled_directions(mean, covariance)
    top = directions[:, :count]
    return PostProcessing("all-but-the-top", mean, np.eye(width) - top @ top.T)


def mean_removal(mean: Array, covariance: Array, dim: int | None = None) -> PostProcessing:  # noqa: ARG001
    """Only remove the mean."""
    _refuse_dim("mean-removal", dim)
    return PostProcessing("mean-removal", mean, np.eye(len(mean)))


def standardisation(mean: Array, covariance: Array, dim: int | None = None) -> PostProcessing:
    """Mean 0 and deviation 1 in each dimension; constant dimensions are only centred."""
    _refuse_dim("standardisation", dim)
    variances = np.diag(covariance)
    # A constant dimension is not scaled: its rounding errors would count as much as any other dimension.
    varies = variances > np.maximum(_rounding(mean), variances.max() * EMPTY_SHARE)
    return PostProcessing("standardisation", mean, np.diag(1 / np.sqrt(np.where(varies, variances, 1))))


def whitening(mean: Array, covariance: Array, dim: int | None = None) -> PostProcessing:
    """Mean 0 and identity covariance, in the ``dim`` strongest directions (Su et al. 2021)."""
    width = len(mean)
    if dim is not None and not 1 <= dim <= width:
        raise UsageError(f"whitening can keep 1 to {width} dimensions, not {dim}")
    variances, directions = _filled_directions(mean, covariance)
    # Empty directions would be scaled up to noise: they get weight 0.
    matrix = np.zeros((width, width))
    matrix[:, : len(variances)] = directions / np.sqrt(variances)
    return PostProcessing("whitening", mean, matrix[:, :dim])


def _refuse_dim(kind: str, dim: int | None) -> None:
    if dim is not None:
        raise UsageError(f"{kind} keeps every dimension; use whitening to cut dimensions")


def _rounding(mean: Array) -> Array:
    """The variance (d,) of float32 vectors with this mean (d,) by rounding alone."""
    return np.asarray((np.finfo(np.float32).eps * mean) ** 2)


def _filled_directions(mean: Array, covariance: Array) -> tuple[Array, Array]:
    """The directions that are not empty, strongest first: variances (r,) and directions (d, r)."""
    variances, directions = np.linalg.eigh(covariance)
    filled = variances > max(variances.max() * EMPTY_SHARE, _rounding(mean).max())
    return variances[filled][::-1], directions[:, filled][:, ::-1]


POSTPROCESSORS: dict[str, Callable[[Array, Array, int | None], PostProcessing]] = {
    "all-but-the-top": all_but_the_top,
    "mean-removal": mean_removal,
    "standardisation": standardisation,
    "whitening": whitening,
}


def check_kind(kind: str) -> None:
    """Reject an unknown kind."""
    if kind not in POSTPROCESSORS:
        raise UsageError(f"unknown post-processing {kind!r}; choose from {', '.join(sorted(POSTPROCESSORS))}")


def fit_from_moments(kind: str, mean: Array, covariance: Array, dim: int | None = None) -> PostProcessing:
    """Fit a kind by name to the mean (d,) and covariance (d, d) of a corpus, in float64.

    Whitening and standardisation bring the variances of the given covariance to 1, whether of the sample (n - 1) or of
    the population (n); cosines are the same.

    >>> fit_from_moments("whitening", np.array([1.0]), np.array([[4.0]])).matrix
    array([[0.5]])
    """
    check_kind(kind)
    if mean.ndim != 1 or covariance.shape != (len(mean), len(mean)):
        raise UsageError(f"a mean (d,) and a covariance (d, d) are needed, got {mean.shape} and {covariance.shape}")
    return POSTPROCESSORS[kind](np.asarray(mean, np.float64), np.asarray(covariance, np.float64), dim)


def fit_postprocessing(kind: str, vectors: NDArray[np.float32], dim: int | None = None) -> PostProcessing:
    """Fit a kind by name on vectors (n, d), in float64.

    >>> fit_postprocessing("standardisation", np.array([[0.0], [2.0]], dtype=np.float32)).center
    array([1.])
    """
    check_kind(kind)
    if len(vectors) < 2:
        raise DataError(f"post-processing needs at least 2 texts to fit on, got {len(vectors)}")
    corpus = np.asarray(vectors, dtype=np.float64)
    mean = corpus.mean(axis=0)
    # Whitening uses the sample's covariance, standardisation the population's.
    covariance = np.cov(corpus - mean, rowvar=False, ddof=1 if kind == "whitening" else 0)
    return fit_from_moments(kind, mean, np.atleast_2d(covariance), dim)
