"""Grouping: what the clusters of a layer have to do with the variables, and what controls leave of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from likewise.attention.clustering import clusterings_of
from likewise.attention.clusterings import LayerClusters
from likewise.attention.partial import partial_test
from likewise.attention.permutations import PermutationTest, partial_permutation_test, permutation_test
from likewise.attention.point_ties import PointTie, point_tie
from likewise.attention.settings import AttentionSettings, ClusterSettings
from likewise.attention.significance import cluster_test
from likewise.attention.study import LayerControls, LayerGroups, RandomLayer
from likewise.attention.variables import Variables


def layer_groups(layer: int, clusters: LayerClusters, variables: Variables, alpha: float) -> LayerGroups:
    """Test the chosen clusters of a layer, from 1 on, against each variable."""
    labels = clusters.chosen.labels
    return LayerGroups(
        layer, clusters, {name: cluster_test(variables[name], labels, alpha) for name in variables.names}
    )


def within_length_tests(
    groups: LayerGroups, variables: Variables, settings: AttentionSettings
) -> dict[str, PermutationTest]:
    """By variable but length: do clusters differ among pairs of like length?"""
    labels, length = groups.clusters.chosen.labels, variables.length
    return {
        name: partial_permutation_test(variables[name], length, labels, settings.permutations, settings.seed)
        for name in _but_length(variables)
    }


def point_ties(points: NDArray[np.float64], variables: Variables, settings: AttentionSettings) -> dict[str, PointTie]:
    """By variable but length: what points (n, d) tell of it given length."""
    return {
        name: point_tie(points, variables[name], variables.length, settings.permutations, settings.seed)
        for name in _but_length(variables)
    }


def layer_controls(
    groups: LayerGroups,
    points: NDArray[np.float64],
    variables: Variables,
    settings: AttentionSettings,
    gaussian_null: NDArray[np.float64],
    random: RandomLayer | None = None,
) -> LayerControls:
    """What a layer's tests are held against: permutations, length partialled out, its points (n, d) themselves, one
    Gaussian, random attention.
    """
    labels, length = groups.clusters.chosen.labels, variables.length
    return LayerControls(
        given_length={
            name: partial_test(variables[name], length, labels, settings.alpha) for name in _but_length(variables)
        },
        within_length=within_length_tests(groups, variables, settings),
        permutation={
            name: permutation_test(variables[name], labels, draws=settings.permutations, seed=settings.seed)
            for name in variables.names
        },
        points=point_ties(points, variables, settings),
        gaussian_null=gaussian_null,
        random=random,
    )


def random_layer(
    groups: LayerGroups,
    points: NDArray[np.float64],
    k: int,
    variables: Variables,
    settings: AttentionSettings,
) -> RandomLayer:
    """The tests of random attention, whose points (n, d) are also cut into k clusters; ``variables`` are its pairs'."""
    fixed = min(k, len(points) - 1)
    alike = clusterings_of(points, ClusterSettings(("kmeans",), fixed, fixed), settings.seed)
    same_k = layer_groups(groups.layer, alike, variables, settings.alpha).tests
    within = within_length_tests(groups, variables, settings)
    return RandomLayer(groups, same_k, within, point_ties(points, variables, settings))


def _but_length(variables: Variables) -> list[str]:
    return [name for name in variables.names if name != "length"]
