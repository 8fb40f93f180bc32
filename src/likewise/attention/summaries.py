"""Summaries: each map as a fixed number of averages, whatever its length, and few numbers of these by PCA or UMAP."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from likewise.attention.maps import MapSource
from likewise.errors import MissingExtra
from likewise.progress import Progress, Ticker

SIDE = 8
"""A map is averaged over so many stretches of each side."""
NEIGHBOURLY = 50
"""Principal components that UMAP starts from, as is usual."""

Numbers = NDArray[np.float32]


def summaries_of(maps: MapSource, progress: Progress | None = None) -> Numbers:
    """Every map in a grid of averages, as multiples of even attention: (n, L, H * SIDE * SIDE).

    Even attention gives 1 everywhere, whatever the length: unlike a sum of errors, a summary does not hold the length
    by the mere size of its numbers.
    """
    ticker, found = Ticker(progress, len(maps.lengths), "maps summarised"), []
    for index, n in enumerate(maps.lengths.tolist()):
        found.append(summary(maps.sequence(index), n).numpy())
        ticker.add()
    ticker.close()
    return np.stack(found)


def summary(steps: Tensor, n: int) -> Tensor:
    """The grids of maps (L, n * n, H): (L, H * SIDE * SIDE)."""
    squares = steps.transpose(1, 2).reshape(len(steps), -1, n, n)
    return adaptive_avg_pool2d(squares, SIDE).flatten(1) * n


def principal_points(summaries: Numbers, latent: int, seed: int = 0) -> Numbers:
    """The first principal components of all layers' summaries together (n, L, S): (n, L, latent)."""
    from sklearn.decomposition import PCA

    rows = summaries.reshape(-1, summaries.shape[-1])
    kept = min(latent, *rows.shape)
    # Components beyond the rank of few maps are zeros, so that a point always has as many numbers.
    points = np.zeros((len(rows), latent), np.float32)
    points[:, :kept] = PCA(kept, random_state=seed).fit_transform(rows)
    return points.reshape(*summaries.shape[:2], latent)


def neighbourly_points(summaries: Numbers, latent: int, seed: int = 0) -> Numbers:
    """UMAP of all layers' summaries together (n, L, S): (n, L, latent)."""
    try:
        from umap import UMAP
    except ImportError as error:
        raise MissingExtra("umap-learn", "umap") from error
    start = principal_points(summaries, min(NEIGHBOURLY, summaries.shape[-1]), seed)
    rows = start.reshape(-1, start.shape[-1])
    with warnings.catch_warnings():
        # That a seed costs its parallelism, and that few points have fewer neighbours.
        warnings.simplefilter("ignore")
        points = UMAP(n_components=latent, random_state=seed).fit_transform(rows)
    return np.asarray(points, np.float32).reshape(*summaries.shape[:2], latent)
