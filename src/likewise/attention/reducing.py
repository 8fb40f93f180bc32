"""Reducing: every map of every layer to a point, by an LSTM autoencoder or from a fixed-size summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.attention.autoencoder import train_autoencoder
from likewise.attention.maps import MapSource
from likewise.attention.settings import AutoencoderSettings
from likewise.attention.summaries import neighbourly_points, principal_points, summaries_of
from likewise.attention.training_curve import TrainingCurve
from likewise.errors import MissingExtra
from likewise.progress import Progress

SUMMARISERS: dict[str, Callable[[Any, int, int], NDArray[np.float32]]] = {
    "pca": principal_points,
    "umap": neighbourly_points,
}


@dataclass(frozen=True, eq=False)
class Reduction:
    """What a reducer made of maps."""

    points: NDArray[np.float64]
    """(n, L, d), one plane for all layers"""
    loss: float | None = None
    """an autoencoder's mean squared error over all sequences"""
    curve: TrainingCurve | None = None


def reduced(
    maps: MapSource,
    reducer: str,
    settings: AutoencoderSettings,
    seed: int = 0,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
) -> Reduction:
    """Turn maps into points (n, L, latent) by ``lstm``, ``pca`` or ``umap``; all layers share the reducer.

    >>> from likewise.attention.maps import RandomMaps
    >>> maps = RandomMaps(np.array([5, 6, 7, 8]), layers=2, heads=3)
    >>> reduced(maps, "pca", AutoencoderSettings()).points.shape
    (4, 2, 2)
    """
    if reducer == "lstm":
        trained = train_autoencoder(maps, settings, seed, checkpoint, progress)
        points, loss = trained.points(maps, progress)
        return Reduction(points.astype(np.float64), loss, trained.curve)
    points = SUMMARISERS[reducer](summaries_of(maps, progress), settings.latent, seed)
    return Reduction(points.astype(np.float64))


def require_reducers(names: Iterable[str]) -> None:
    """Refuse, before long work, a reducer whose package is missing."""
    if "umap" in names and find_spec("umap") is None:
        raise MissingExtra("umap-learn", "umap")


def plane_view(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """What a picture shows of points (n, L, d): themselves, or each layer's two principal components: (n, L, 2)."""
    if points.shape[2] == 2:
        return points
    centred = points - points.mean(0)
    axes = np.linalg.svd(centred.transpose(1, 0, 2), full_matrices=False)[2][:, :2]
    view: NDArray[np.float64] = np.einsum("nld,lcd->nlc", centred, axes)
    return view
