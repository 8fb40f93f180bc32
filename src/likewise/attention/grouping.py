"""Grouping: what the clusters of a layer have to do with the variables, and what controls leave of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from likewise.attention.clusterings import LayerClusters
from likewise.attention.partial import partial_test
from likewise.attention.permutations import PermutationTest, partial_permutation_test, permutation_test
from likewise.attention.settings import AttentionSettings
from likewise.attention.significance import cluster_test
from likewise.attention.study import LayerControls, LayerGroups
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


def layer_controls(
    groups: LayerGroups,
    variables: Variables,
    settings: AttentionSettings,
    blob: NDArray[np.float64],
    random: tuple[LayerGroups, Variables] | None = None,
) -> LayerControls:
    """What a layer's tests are held against: permutations, length partialled out, one Gaussian, and random attention,
    which comes with the variables of its own pairs.
    """
    labels, length = groups.clusters.chosen.labels, variables.length
    others = _but_length(variables)
    return LayerControls(
        given_length={name: partial_test(variables[name], length, labels, settings.alpha) for name in others},
        within_length=within_length_tests(groups, variables, settings),
        permutation={
            name: permutation_test(variables[name], labels, draws=settings.permutations, seed=settings.seed)
            for name in variables.names
        },
        blob=blob,
        random=None if random is None else random[0],
        random_within_length={} if random is None else within_length_tests(*random, settings),
    )


def _but_length(variables: Variables) -> list[str]:
    return [name for name in variables.names if name != "length"]
