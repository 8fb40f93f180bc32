"""The points of an attention study, kept so that they can be clustered and tested again in other ways."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.attention.clustering import clusterings_of
from likewise.attention.settings import ClusterSettings
from likewise.attention.significance import cluster_test
from likewise.attention.study import AttentionStudy
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.progress import Progress, named

ARRAYS, FACTS = "points.npz", "pairs.json"
QUARTILES = (0.0, 0.25, 0.5, 0.75, 1.0)

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AttentionPoints:
    """What is left of a study to look at: where each pair's maps lie in each layer, and its variables."""

    points: Array
    """(n, L, d)"""
    view: Array
    """(n, L, 2): what is drawn"""
    variables: Mapping[str, Array]
    """by name, (n,) each; nan where a pair lacks one"""
    pairs: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, study: AttentionStudy) -> AttentionPoints:
        """Those of a study."""
        variables = {name: study.variables[name] for name in study.variables.names}
        pairs = tuple((pair.left, pair.right) for pair in study.pairs)
        return cls(study.main.points, study.main.view, variables, pairs)

    def save(self, folder: Path) -> None:
        """Write them into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        named_arrays = {f"variable_{name}": values for name, values in self.variables.items()}
        arrays: dict[str, Any] = {"points": self.points, "view": self.view, **named_arrays}
        np.savez(folder / ARRAYS, **arrays)
        (folder / FACTS).write_text(json.dumps(self.pairs), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> AttentionPoints:
        """Read them back."""
        try:
            with np.load(folder / ARRAYS, allow_pickle=False) as found:
                arrays = {name: found[name] for name in found.files}
            pairs = tuple((left, right) for left, right in json.loads((folder / FACTS).read_text(encoding="utf-8")))
            points, view = arrays.pop("points"), arrays.pop("view")
        except (OSError, ValueError, KeyError) as error:
            raise DataError("the points of this study cannot be read; run the study again") from error
        return cls(points, view, {name.removeprefix("variable_"): each for name, each in arrays.items()}, pairs)

    @property
    def depth(self) -> int:
        """The number of layers."""
        return int(self.points.shape[1])

    def clustered(self, settings: ClusterSettings, progress: Progress | None = None) -> list[dict[str, Any]]:
        """The best clustering of each layer, with its labels, clusters and tests."""
        found = []
        for layer in range(self.depth):
            summary = named(progress, f"layer {layer + 1}/{self.depth}")
            chosen = clusterings_of(self.points[:, layer], settings, progress=summary).chosen
            metadata = {"layer": layer + 1, **chosen.to_dict(), "labels": chosen.labels.tolist()}
            found.append(metadata | self.tested(chosen.labels.tolist()))
        return found

    def tested(self, labels: Sequence[int], rows: Sequence[int] | None = None) -> dict[str, Any]:
        """Clusters and tests of all pairs, or of some rows only; of no rows there is nothing to test."""
        if len(labels) != len(self.points):
            raise UsageError(f"{len(labels)} labels do not fit {len(self.points)} pairs; take those of this study")
        chosen = np.arange(len(labels)) if rows is None else np.array(sorted(set(rows)), dtype=int)
        if len(chosen) and not (chosen[0] >= 0 and chosen[-1] < len(labels)):
            raise UsageError(f"rows run from 0 to {len(labels) - 1}, got {int(chosen[0])} and {int(chosen[-1])}")
        marks = np.asarray(labels)[chosen]
        values = {name: each[chosen] for name, each in self.variables.items()}
        return {
            "n": len(chosen),
            "clusters": [_cluster(int(label), marks == label, values) for label in np.unique(marks)],
            "tests": {name: _test(each, marks) for name, each in values.items()},
        }


def _test(values: Array, marks: NDArray[np.int_]) -> dict[str, Any] | None:
    return cluster_test(values, marks).to_dict() if len(marks) else None


def _cluster(label: int, own: NDArray[np.bool_], values: Mapping[str, Array]) -> dict[str, Any]:
    """A cluster's size, and the least, the quartiles and the most of each variable."""
    known = {name: each[own][~np.isnan(each[own])] for name, each in values.items()}
    ends = {name: np.quantile(each, QUARTILES).tolist() if len(each) else None for name, each in known.items()}
    return {"label": label, "n": int(own.sum()), "quartiles": ends}


def pair_maps(encoder: Encoder, left: str, right: str, layer: int) -> dict[str, Any]:
    """A pair's maps in a layer, from 1 on, read as one sequence: each head's (T, T), their mean, and the tokens."""
    [batch] = encoder.state_batches([(left, right)], attention=True)
    assert batch.attention is not None
    if not 1 <= layer <= len(batch.attention):
        raise DataError(f"no layer {layer}; there are 1 to {len(batch.attention)}")
    heads = batch.attention[layer - 1, 0].float().cpu().numpy()
    shown = {"heads": heads.round(4).tolist(), "mean": heads.mean(0).round(4).tolist()}
    return {"tokens": list(batch.tokens[0].tokens), **shown}
