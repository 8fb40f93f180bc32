"""The clusters of each layer, the variables of the pairs, and the tests and controls that relate them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.attention.clustering import LayerClusters, clusterings_of
from likewise.attention.maps import HeadMeasures
from likewise.attention.reduction import TrainingCurve
from likewise.attention.settings import VARIABLES, AttentionSettings, ClusterSettings
from likewise.attention.significance import (
    ClusterTest,
    PermutationTest,
    PointTie,
    cluster_test,
    partial_permutation_test,
    partial_test,
    permutation_test,
    point_tie,
)
from likewise.data import ScoredPair
from likewise.errors import DataError, UsageError
from likewise.grammar import Grammar
from likewise.progress import Progress, named

Array = NDArray[np.float64]
Labels = tuple[tuple[str, ...], tuple[str, ...]]  # the ordered dependency labels of a pair's two texts
TextPairs = Sequence[tuple[str, str]]
ARRAYS, PAIRS = "points.npz", "pairs.json"
QUARTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, eq=False)
class Variables:
    """The variables of n pairs; nan where a pair lacks one."""

    similarity: Array  # (n,): the human score
    length: Array  # (n,): tokens of the pair as one sequence, with special tokens
    structure: Structures | None  # None without a grammar

    @property
    def names(self) -> tuple[str, ...]:
        """The known variables."""
        return VARIABLES if self.structure is not None else VARIABLES[:2]

    @property
    def without_length(self) -> list[str]:
        """The known variables except length."""
        return [name for name in self.names if name != "length"]

    def __getitem__(self, name: str) -> Array:
        if name == "structure":
            assert self.structure is not None
            return self.structure.cosines
        return self.similarity if name == "similarity" else self.length

    def of(self, indices: ArrayLike) -> Variables:
        """The variables of some of the pairs; structures keep their reference."""
        some, known = np.asarray(indices), self.structure
        structure = None if known is None else replace(known, cosines=known.cosines[some])
        return Variables(self.similarity[some], self.length[some], structure)


@dataclass(frozen=True, eq=False)
class Structures:
    """How similar each pair's grammar is to the most frequent one."""

    cosines: Array  # (n,): the cosine of a pair's label counts with those of the most frequent structure
    most_frequent: Labels
    shared_by: int  # pairs with exactly this structure
    distinct: int  # different structures

    def to_dict(self) -> dict[str, Any]:
        """The most frequent structure and how many pairs share it."""
        most_frequent = [list(labels) for labels in self.most_frequent]
        return {"most_frequent": most_frequent, "shared_by": self.shared_by, "distinct": self.distinct}


def structures_of(labels: Sequence[Labels]) -> Structures:
    """Compare each pair's counts of dependency labels, both texts together, with those of the most frequent structure.

    Of equally frequent structures, the first in the file counts.
    """
    tally = Counter(labels)
    most_frequent, shared_by = tally.most_common(1)[0]
    target = Counter(most_frequent[0] + most_frequent[1])
    cosines = np.array([_cosine(Counter(first + second), target) for first, second in labels])
    return Structures(cosines, most_frequent, shared_by, len(tally))


def _cosine(left: Counter[str], right: Counter[str]) -> float:
    shared = sum(count * right[name] for name, count in left.items())
    sizes = sum(count**2 for count in left.values()) * sum(count**2 for count in right.values())
    return shared / float(np.sqrt(sizes)) if sizes else 0.0


def dependency_labels(pairs: TextPairs, grammar: Grammar, progress: Progress | None = None) -> list[Labels]:
    """The dependency labels of both texts of each pair, in word order."""
    parsed = grammar.parse([text for pair in pairs for text in pair], progress)
    labels = [tuple(word.dep for word in text.words) for text in parsed]
    return list(zip(labels[::2], labels[1::2], strict=True))


@dataclass(frozen=True, eq=False)
class LayerGroups:
    """The clusters of one layer's points and their tests against each variable."""

    layer: int  # from 1
    clusters: LayerClusters
    tests: Mapping[str, ClusterTest]  # by variable, of the chosen clustering, without noise

    def to_dict(self) -> dict[str, Any]:
        """The chosen clustering, its tests, and the other algorithms'."""
        clusters, rejected = self.clusters, dict(self.clusters.rejected)
        return {
            "layer": self.layer,
            **clusters.chosen.to_dict(),
            "tests": _documents(self.tests),
            "alternatives": [one.to_dict() | {"why_not": rejected.get(one.algorithm)} for one in clusters.alternatives],
            "rejected": rejected,
            "agreement": [{"first": a, "second": b, "ari": value} for (a, b), value in clusters.agreement.items()],
        }

    def brief(self) -> dict[str, Any]:
        """The chosen clustering and its tests."""
        chosen = self.clusters.chosen
        about = {"n": len(chosen.labels), "algorithm": chosen.algorithm, "k": chosen.k, "noise": chosen.noise}
        return about | vars(chosen.scores) | {"tests": _documents(self.tests)}


@dataclass(frozen=True, eq=False)
class RandomLayer:
    """The results of the same pipeline on random attention, by variable; those given length are without length."""

    groups: LayerGroups
    same_k: Mapping[str, ClusterTest]  # of k-means with as many clusters as the model's layer; eta^2 grows with K
    within_length: Mapping[str, PermutationTest]  # values permuted among pairs of similar length
    points: Mapping[str, PointTie]  # what its points explain of a variable given length

    def to_dict(self) -> dict[str, Any]:
        """All tests."""
        names = ("same_k", "within_length", "points")
        return self.groups.brief() | {name: _documents(getattr(self, name)) for name in names}


@dataclass(frozen=True, eq=False)
class LayerControls:
    """The controls of one layer's result, by variable; those given length are without length."""

    given_length: Mapping[str, ClusterTest]  # the test with length partialled out
    within_length: Mapping[str, PermutationTest]  # values permuted among pairs of similar length
    permutation: Mapping[str, PermutationTest]  # values permuted among all pairs
    points: Mapping[str, PointTie]  # what the points explain of a variable given length, without clusters
    gaussian_null: Array  # silhouettes of the same algorithm on draws from one Gaussian; nan where none may be chosen
    random: RandomLayer | None  # None without random attention

    @property
    def null_mean(self) -> float:
        """The mean of the finite silhouettes of one Gaussian."""
        return float(np.nanmean(self.gaussian_null)) if np.isfinite(self.gaussian_null).any() else float("nan")

    @property
    def null_high(self) -> float:
        """The 95 % quantile of the silhouettes of one Gaussian; nan where too few are finite."""
        found = np.nan_to_num(self.gaussian_null, nan=-1.0)
        high = float(np.quantile(found, 0.95)) if len(found) else -1.0
        return high if high > -1 else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """All controls."""
        given, within = _documents(self.given_length), self.within_length
        return {
            "permutation": _documents(self.permutation),
            "given_length": {name: given[name] | {"permutation": within[name].to_dict()} for name in given},
            "points": _documents(self.points),
            "random_attention": None if self.random is None else self.random.to_dict(),
            "single_gaussian": {"silhouette": self.null_mean, "high": self.null_high},
        }


def _documents(tests: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Tests by variable, without pairs of clusters, which have their own table."""
    return {name: {k: v for k, v in test.to_dict().items() if k != "pairs"} for name, test in tests.items()}


@dataclass(frozen=True, eq=False)
class ReducedMaps:
    """The points that one reducer makes of all maps, and their groups."""

    reducer: str
    points: Array  # (n, L, d), as in points.csv
    view: Array  # (n, L, 2): the points themselves, or the first two principal components of each layer
    groups: tuple[LayerGroups, ...]
    loss: float | None = None  # an autoencoder's mean squared error over all sequences

    def to_dict(self) -> dict[str, Any]:
        """The loss, and each layer in brief."""
        layers = [{"layer": group.layer, **group.brief()} for group in self.groups]
        return {"reducer": self.reducer, "loss": self.loss, "layers": layers}


@dataclass(frozen=True, eq=False, repr=False)
class StudyData:
    """The data of a study: maps of n pairs as points, their clusters in each of L layers, tests and controls."""

    model: str
    data: str
    pairs: tuple[ScoredPair, ...]
    variables: Variables
    main: ReducedMaps
    others: tuple[ReducedMaps, ...]  # the compared reducers, with the same clusters and tests
    controls: tuple[LayerControls, ...]  # one per layer
    heads: HeadMeasures
    trivial_loss: float  # the mean squared error of a decoder that always answers 1 / n
    curve: TrainingCurve | None
    random_curve: TrainingCurve | None  # of the autoencoder of the random attention
    random_losses: tuple[float, float] | None  # loss and trivial loss on the random attention
    settings: AttentionSettings
    metadata: Mapping[str, Any]  # pairs left out, pairs cut at the model's limit, the grammar's name

    @property
    def loss(self) -> float | None:
        """The autoencoder's mean squared error over all sequences; None for other reducers."""
        return self.main.loss

    @property
    def random_groups(self) -> tuple[LayerGroups, ...]:
        """The clusters of the random attention, layer by layer; empty without it."""
        return tuple(control.random.groups for control in self.controls if control.random is not None)

    @property
    def depth(self) -> int:
        """The number of layers."""
        return len(self.main.groups)


def layer_groups(layer: int, clusters: LayerClusters, variables: Variables, alpha: float) -> LayerGroups:
    """Test the chosen clusters of a layer, from 1, against each variable."""
    labels = clusters.chosen.labels
    tests = {name: cluster_test(variables[name], labels, alpha) for name in variables.names}
    return LayerGroups(layer, clusters, tests)


def _given_length(
    groups: LayerGroups, points: Array, variables: Variables, settings: AttentionSettings
) -> tuple[dict[str, PermutationTest], dict[str, PointTie]]:
    """By variable except length: whether clusters differ, and what points (n, d) explain, given length."""
    labels, length = groups.clusters.chosen.labels, variables.length
    draws, values = (settings.permutations, settings.seed), {name: variables[name] for name in variables.without_length}
    within = {name: partial_permutation_test(each, length, labels, *draws) for name, each in values.items()}
    return within, {name: point_tie(points, each, length, *draws) for name, each in values.items()}


def layer_controls(
    groups: LayerGroups,
    points: Array,
    variables: Variables,
    settings: AttentionSettings,
    gaussian_null: Array,
    random: RandomLayer | None = None,
) -> LayerControls:
    """The controls of a layer with points (n, d): permutations, length, the points themselves, random attention."""
    labels, length = groups.clusters.chosen.labels, variables.length
    draws, seed = settings.permutations, settings.seed
    given = {name: partial_test(variables[name], length, labels, settings.alpha) for name in variables.without_length}
    permutation = {name: permutation_test(variables[name], labels, None, draws, seed) for name in variables.names}
    within, ties = _given_length(groups, points, variables, settings)
    return LayerControls(given, within, permutation, ties, gaussian_null, random)


def random_layer(
    groups: LayerGroups, points: Array, k: int, variables: Variables, settings: AttentionSettings
) -> RandomLayer:
    """The tests of random attention with points (n, d), also with k clusters; ``variables`` are those of its pairs."""
    fixed = min(k, len(points) - 1)
    same_k = clusterings_of(points, ClusterSettings(("kmeans",), fixed, fixed), settings.seed)
    tests = layer_groups(groups.layer, same_k, variables, settings.alpha).tests
    return RandomLayer(groups, tests, *_given_length(groups, points, variables, settings))


@dataclass(frozen=True, eq=False)
class AttentionPoints:
    """What remains of a study to look at: the points of each pair in each layer, and its variables."""

    points: Array  # (n, L, d)
    view: Array  # (n, L, 2): what is drawn
    variables: Mapping[str, Array]  # by name, (n,) each; nan where a pair lacks one
    pairs: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, study: StudyData) -> AttentionPoints:
        """Those of a study."""
        variables = {name: study.variables[name] for name in study.variables.names}
        pairs = tuple((pair.left, pair.right) for pair in study.pairs)
        return cls(study.main.points, study.main.view, variables, pairs)

    def save(self, folder: Path) -> None:
        """Write them into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        variables: dict[str, Any] = {f"variable_{name}": values for name, values in self.variables.items()}
        np.savez(folder / ARRAYS, points=self.points, view=self.view, **variables)
        (folder / PAIRS).write_text(json.dumps(self.pairs), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> AttentionPoints:
        """Read them back."""
        try:
            with np.load(folder / ARRAYS, allow_pickle=False) as found:
                arrays = {name: found[name] for name in found.files}
            pairs = tuple((left, right) for left, right in json.loads((folder / PAIRS).read_text(encoding="utf-8")))
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
            note = named(progress, f"layer {layer + 1}/{self.depth}")
            chosen = clusterings_of(self.points[:, layer], settings, progress=note).chosen
            labels = chosen.labels.tolist()
            found.append({"layer": layer + 1, **chosen.to_dict(), "labels": labels} | self.tested(labels))
        return found

    def tested(self, labels: Sequence[int], rows: Sequence[int] | None = None) -> dict[str, Any]:
        """Clusters and tests of all pairs, or of some rows only; without rows there is no test."""
        if len(labels) != len(self.points):
            raise UsageError(f"{len(labels)} labels do not fit {len(self.points)} pairs; take those of this study")
        chosen = np.arange(len(labels)) if rows is None else np.array(sorted(set(rows)), dtype=int)
        if len(chosen) and not (chosen[0] >= 0 and chosen[-1] < len(labels)):
            raise UsageError(f"rows run from 0 to {len(labels) - 1}, got {int(chosen[0])} and {int(chosen[-1])}")
        marks = np.asarray(labels)[chosen]
        values = {name: each[chosen] for name, each in self.variables.items()}
        clusters = [_cluster(int(label), marks == label, values) for label in np.unique(marks)]
        tests = {name: cluster_test(each, marks).to_dict() if len(marks) else None for name, each in values.items()}
        return {"n": len(chosen), "clusters": clusters, "tests": tests}


def _cluster(label: int, own: NDArray[np.bool_], values: Mapping[str, Array]) -> dict[str, Any]:
    """A cluster's size, and the minimum, quartiles and maximum of each variable."""
    known = {name: each[own][~np.isnan(each[own])] for name, each in values.items()}
    ends = {name: np.quantile(each, QUARTILES).tolist() if len(each) else None for name, each in known.items()}
    return {"label": label, "n": int(own.sum()), "quartiles": ends}
