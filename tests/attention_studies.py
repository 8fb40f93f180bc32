"""Small attention studies from arrays: points drawn at random whose clusters follow the length of a pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.attention.clustering import (
    NOISE,
    Clustering,
    ClusterScores,
    LayerClusters,
    clusterings_of,
    gaussian_silhouettes,
)
from likewise.attention.groups import (
    LayerControls,
    LayerGroups,
    ReducedMaps,
    Structures,
    Variables,
    layer_controls,
    layer_groups,
    random_layer,
)
from likewise.attention.maps import MEASURES, HeadMeasures
from likewise.attention.reduction import TrainingCurve
from likewise.attention.settings import ALGORITHMS, AttentionSettings, AutoencoderSettings, ClusterSettings
from likewise.attention.significance import cluster_test
from likewise.attention.study import AttentionStudy
from likewise.data import ScoredPair

HOSTILE = "<img src=x onerror=alert(1)>"
QUICK = ClusterSettings(algorithms=("kmeans", "dbscan", "agglomerative"), most=4, linkages=("ward", "single"))
HEADS = 4


def attention_study(
    n: int = 60, depth: int = 3, latent: int = 2, seed: int = 0, settings: AttentionSettings | None = None, **other: Any
) -> AttentionStudy:
    """A study of n pairs; ``other`` replaces any of its fields."""
    rng = np.random.default_rng(seed)
    how = settings or AttentionSettings(
        clusters=QUICK, permutations=19, autoencoder=AutoencoderSettings(latent=latent), seed=seed
    )
    pairs = tuple(
        ScoredPair(f"left {place} {HOSTILE}", f'right, "{place}"', float(rng.integers(0, 26)) / 5, f"id-{place}")
        for place in range(n)
    )
    variables = _variables(pairs, rng)
    main, random = (_reduced("lstm", variables, (depth, latent), how, rng) for _ in range(2))
    found: dict[str, Any] = {
        "model": f"tiny {HOSTILE}", "data": "made-up", "pairs": pairs, "variables": variables, "main": main,
        "others": (_reduced("pca", variables, (depth, latent), how, rng),),
        "controls": tuple(
            _controls(main.points[:, place], group, random, variables, how) for place, group in enumerate(main.groups)
        ),
        "heads": HeadMeasures({name: rng.random((depth, HEADS)) for name in MEASURES}, dict.fromkeys(MEASURES, 0.08)),
        "trivial_loss": 0.0031,
        "curve": TrainingCurve((0.003, 0.0021, 0.0015, 0.0013), (0.0026, 0.0018, 0.0014, 0.0012)),
        "random_curve": TrainingCurve((0.0009, 0.0008), (0.00085, 0.0008)), "random_losses": (0.0008, 0.0009),
        "settings": how, "metadata": {"truncated": 2, "grammar": "en_core_web_sm"},
    }  # fmt: skip
    return AttentionStudy(**(found | other))


def _variables(pairs: Sequence[ScoredPair], rng: np.random.Generator) -> Variables:
    length = np.clip(np.rint(rng.lognormal(3.2, 0.45, len(pairs))), 7, 90)
    cosines = np.clip(0.9 - length / 300 + rng.normal(0, 0.08, len(pairs)), 0, 1)
    cosines[0] = np.nan
    labels = ("nsubj", "root", "punct"), ("nsubj", "root", "punct")
    return Variables(np.array([pair.score for pair in pairs]), length, Structures(cosines, labels, 3, len(pairs) - 2))


def _reduced(
    reducer: str, variables: Variables, shape: tuple[int, int], how: AttentionSettings, rng: np.random.Generator
) -> ReducedMaps:
    depth, latent = shape
    n = len(variables.length)
    points = rng.normal(0, 0.4, (n, depth, latent))
    # Each layer hears the length with an error of its own, so that no two results are the same.
    heard = variables.length[:, None] + rng.normal(0, 5, (n, depth))
    points[:, :, 0] += 3 * np.digitize(heard, np.quantile(heard, [0.33, 0.66]))
    groups = tuple(_groups(points[:, place], variables, place + 1, how) for place in range(depth))
    return ReducedMaps(reducer, points, points[:, :, :2].copy(), groups, 0.0012)


def _groups(points: NDArray[np.float64], variables: Variables, layer: int, how: AttentionSettings) -> LayerGroups:
    clusters = clusterings_of(points, how.clusters, how.seed)
    # Whatever is chosen, there is noise to draw, to write and to leave out of tests.
    labels = clusters.chosen.labels.copy()
    labels[-2:] = NOISE
    clusters = replace(clusters, chosen=replace(clusters.chosen, labels=labels))
    return layer_groups(layer, clusters, variables, how.alpha)


def _controls(
    points: NDArray[np.float64], group: LayerGroups, random: ReducedMaps, variables: Variables, how: AttentionSettings
) -> LayerControls:
    place, chosen = group.layer - 1, group.clusters.chosen
    beside = random_layer(random.groups[place], random.points[:, place], chosen.k, variables, how)
    return layer_controls(
        group, points, variables, how, gaussian_silhouettes(points, chosen, how.clusters, draws=3), beside
    )


def crowded_study(n: int = 1379, depth: int = 12, k: int = 15) -> AttentionStudy:
    """As large as the studies that are published: the same k clusters and noise in each layer, moved about.

    One layer is tested and stands for all, since tests of so many take long.
    """
    small, rng = attention_study(n=60, depth=1), np.random.default_rng(0)
    pairs = tuple(small.pairs[place % 60] for place in range(n))
    variables = _variables(pairs, rng)
    labels = np.argsort(np.argsort(variables.length + rng.normal(0, 3, n))) * k // n
    labels[rng.random(n) < 0.04] = NOISE
    scores = [{of: ClusterScores(*rng.random(2), 900 * rng.random()) for of in range(2, k + 1)} for _ in range(depth)]
    chosen = Clustering("gaussian-mixture", labels, {"covariance": "spherical"}, scores[0][k])
    others = tuple(Clustering(name, labels, {"distance": "euclidean"}, scores[0][k]) for name in ALGORITHMS[:4])
    clusters = LayerClusters(chosen, others, {"spectral": "too small"}, {("kmeans", "dbscan"): 0.5}, {})
    tests = {name: cluster_test(variables[name], labels) for name in variables.names}
    middles = 6 * rng.random((depth, k + 1, 2))
    points = np.stack([middles[layer][labels] for layer in range(depth)], 1) + rng.normal(0, 0.3, (n, depth, 2))
    groups = tuple(
        LayerGroups(layer + 1, replace(clusters, by_k={chosen.algorithm: scores[layer]}), tests)
        for layer in range(depth)
    )
    main = ReducedMaps("lstm", points, points, groups)
    heads = HeadMeasures({name: rng.random((depth, 12)) for name in MEASURES}, dict.fromkeys(MEASURES, 0.08))
    return replace(
        small, pairs=pairs, variables=variables, main=main, others=(replace(main, reducer="pca"),),
        controls=small.controls * depth, heads=heads,
    )  # fmt: skip
