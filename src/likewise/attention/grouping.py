"""Grouping: what the clusters of a layer have to do with the variables, and what controls leave of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from likewise.attention.clusterings import LayerClusters
from likewise.attention.partial import partial_test
from likewise.attention.permutations import partial_permutation_test, permutation_test
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


def layer_controls(
    groups: LayerGroups,
    variables: Variables,
    settings: AttentionSettings,
    blob: NDArray[np.float64],
    random: LayerGroups | None,
) -> LayerControls:
    """What a layer's tests are held against: permutations, length partialled out, one Gaussian, random attention."""
    labels, draws, seed = groups.clusters.chosen.labels, settings.permutations, settings.seed
    others = [name for name in variables.names if name != "length"]
    length = variables.length
    return LayerControls(
        given_length={name: partial_test(variables[name], length, labels, settings.alpha) for name in others},
        within_length={name: partial_permutation_test(variables[name], length, labels, draws, seed) for name in others},
        permutation={
            name: permutation_test(variables[name], labels, draws=draws, seed=seed) for name in variables.names
        },
        blob=blob,
        random=random,
    )
