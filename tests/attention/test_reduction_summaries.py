"""Summaries of maps: averages in a grid by plain loops, few numbers of them, and the reducers side by side."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from likewise.attention.maps import RandomMaps
from likewise.attention.reduction import SIDE, grid_of, grids_of, pca_points, plane_view, reduced
from likewise.attention.settings import AutoencoderSettings
from likewise.errors import MissingExtra

MAPS = RandomMaps(np.array([5, 9, 8, 16, 12, 30, 7, 11]), layers=3, heads=2)


@pytest.mark.parametrize("n", [8, 16, 24])
def test_a_summary_is_the_mean_of_each_stretch_in_multiples_of_even_attention(n: int) -> None:
    steps = RandomMaps(np.array([n]), layers=2, heads=3).sequence(0)
    found = grid_of(steps, n).reshape(2, 3, SIDE, SIDE)
    size = n // SIDE
    for layer in range(2):
        for head in range(3):
            square = steps[layer, :, head].reshape(n, n)
            for row in range(SIDE):
                for column in range(SIDE):
                    cells = [float(square[row * size + i, column * size + j]) for i in range(size) for j in range(size)]
                    assert float(found[layer, head, row, column]) == pytest.approx(
                        n * sum(cells) / len(cells), rel=1e-5
                    )


@pytest.mark.parametrize("n", [2, 5, 8, 31])
def test_even_attention_is_one_whatever_the_length(n: int) -> None:
    assert torch.allclose(grid_of(torch.full((1, n * n, 2), 1 / n), n), torch.ones(1, 2 * SIDE * SIDE))


def test_pca_points_keep_as_much_variance_as_they_can() -> None:
    summaries = grids_of(MAPS)
    assert summaries.shape == (8, 3, 2 * SIDE * SIDE)
    points = pca_points(summaries, 2)
    rows = summaries.reshape(24, -1).astype(np.float64)
    spread = np.linalg.svd(rows - rows.mean(0), compute_uv=False) ** 2
    assert points.shape == (8, 3, 2)
    assert points.reshape(24, 2).astype(np.float64).var(0) * 24 == pytest.approx(spread[:2], rel=1e-4)


def test_few_maps_still_give_as_many_numbers() -> None:
    few = RandomMaps(np.array([5, 6]), layers=1, heads=2)
    points = reduced(few, "pca", AutoencoderSettings(latent=4)).points
    assert points.shape == (2, 1, 4) and (points[..., 2:] == 0).all()


@pytest.mark.parametrize("reducer", ["lstm", "pca"])
def test_reducers_are_the_same_with_the_same_seed(reducer: str) -> None:
    settings = AutoencoderSettings(hidden=4, epochs=1, latent=3)
    one, other = (reduced(MAPS, reducer, settings, seed=3).points for _ in range(2))
    assert one.shape == (8, 3, 3) and np.array_equal(one, other)


@pytest.mark.slow
def test_umap_keeps_neighbours_together() -> None:
    pytest.importorskip("umap", reason="umap-learn is not installed (extra: umap)")
    lengths = np.array([6] * 20 + [24] * 20)
    points = reduced(RandomMaps(lengths, 1, 2), "umap", AutoencoderSettings()).points[:, 0]
    assert points.shape == (40, 2) and np.isfinite(points).all()
    few = reduced(RandomMaps(np.array([4, 5, 6]), 2, 2), "umap", AutoencoderSettings()).points
    assert few.shape == (3, 2, 2)


def test_a_missing_umap_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(MissingExtra, match=r'pip install "likewise\[umap\]"'):
        reduced(MAPS, "umap", AutoencoderSettings())


def test_a_picture_shows_two_principal_components_of_each_layer() -> None:
    points = np.random.default_rng(0).normal(size=(30, 2, 4)) * [3, 1, 0.5, 2]
    view = plane_view(points)
    assert view.shape == (30, 2, 2)
    for layer in range(2):
        spread = np.linalg.eigvalsh(np.cov(points[:, layer], rowvar=False))[::-1]
        assert view[:, layer].var(0, ddof=1) == pytest.approx(spread[:2])
    flat = points[..., :2]
    assert plane_view(flat) is flat
