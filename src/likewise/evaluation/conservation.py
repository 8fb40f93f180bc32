"""Conservation: does the summed relevance of a text's tokens equal the sum of its vector's components?"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from likewise.encoder import Encoder
from likewise.encoder.families import model_view
from likewise.encoder.model_view import Dense
from likewise.errors import DataError
from likewise.explain.settings import PLAIN
from likewise.explain.texts import Contributions, contributions
from likewise.plotting.axes import grid_of_axes
from likewise.plotting.scatter import identity_scatter
from likewise.progress import Progress, Ticker
from likewise.results import Column, Figure, Result, Table

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ConservationPanel:
    """Sums of vectors' components (n,) and what a method's contributions sum to (n,)."""

    name: str
    components: Array
    relevance: Array

    @property
    def r2(self) -> float:
        """1 minus the squared distance from the identity line over the components' own spread."""
        spread = float(((self.components - self.components.mean()) ** 2).sum())
        missed = float(((self.components - self.relevance) ** 2).sum())
        return 1 - missed / spread if spread > 0 else float("nan")


@dataclass(frozen=True, eq=False, repr=False)
class Conservation(Result):
    """Four panels: HxP; BiLRP; BiLRP in the model with every bias set to zero; BiLRP with the bias row."""

    model: str
    panels: tuple[ConservationPanel, ...]

    def to_dict(self) -> dict[str, Any]:
        """R^2 of each panel against the identity line."""
        return {
            "model": self.model,
            "n": len(self.panels[0].components),
            "r2": {one.name: one.r2 for one in self.panels},
        }

    def plot(self) -> Any:
        """The four panels in one figure; returns the first Axes."""
        axes = grid_of_axes(len(self.panels))
        labels = ("sum of the vector's components", "summed relevance")
        for panel, ax in zip(self.panels, axes, strict=True):
            identity_scatter(panel.components, panel.relevance, labels, panel.name, f"R² = {panel.r2:.4f}", ax)
        return axes[0]

    def tables(self) -> dict[str, Table]:
        """R² of each panel; every text's point for files."""
        r2 = [(one.name, one.r2) for one in self.panels]
        points = [
            (one.name, float(across), float(up))
            for one in self.panels
            for across, up in zip(one.components, one.relevance, strict=True)
        ]
        return {
            "conservation_r2": Table.of(["panel", Column("r2", "R² to the identity")], r2, "Conservation"),
            "conservation": Table.of(["panel", "components", "relevance"], points, detail=True),
        }

    def figures(self) -> dict[str, Figure]:
        """The four panels."""
        return {"conservation": Figure(self.plot, "Summed relevance against the vector's components")}


def conservation(encoder: Encoder, texts: Sequence[str], progress: Progress | None = None) -> Conservation:
    """Sum the relevance of each text's tokens and compare with its pooled vector, before any Normalize.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> [panel.name for panel in conservation(encoder, ["A cat sat.", "It rains."]).panels]
    ['HxP', 'BiLRP', 'BiLRP, biases set to zero', 'BiLRP with the bias row']
    """
    if len(texts) < 2:
        raise DataError(f"conservation needs at least 2 texts, got {len(texts)}")
    plain = encoder.with_pooling(normalize=False)
    ticker = Ticker(progress, 3 * len(texts), "texts")
    hxp = contributions(plain, texts, method="hxp", progress=ticker.part(), **PLAIN)
    bilrp = contributions(plain, texts, progress=ticker.part(), **PLAIN)
    zero = contributions(without_biases(plain), texts, progress=ticker.part(), **PLAIN)
    ticker.close()
    panels = (
        _panel("HxP", hxp),
        _panel("BiLRP", bilrp),
        _panel("BiLRP, biases set to zero", zero),
        _panel("BiLRP with the bias row", bilrp, with_bias=True),
    )
    return Conservation(encoder.name, panels)


def _panel(name: str, found: Sequence[Contributions], with_bias: bool = False) -> ConservationPanel:
    components = np.array([one.vector.sum(dtype=np.float64) for one in found])
    relevance = np.array([one.values.sum(dtype=np.float64) for one in found])
    if with_bias:
        relevance = relevance + np.array([one.bias.sum(dtype=np.float64) for one in found])
    return ConservationPanel(name, components, relevance)


def without_biases(encoder: Encoder) -> Encoder:
    """A copy of the encoder in which every bias is zero, of linear maps, norms and heads."""
    model = copy.deepcopy(encoder.model)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                weight.zero_()
    heads = tuple(Dense(head.weight, None, head.activation) for head in encoder.modules_config.heads)
    modules_config = replace(encoder.modules_config, heads=heads)
    return replace(
        encoder, model=model, model_view=model_view(model), modules_config=modules_config, postprocessing=None
    )
