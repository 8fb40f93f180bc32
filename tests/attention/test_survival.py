"""Verdicts: which layers survive which control, by hand, and sentences that say so."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from attention_studies import attention_study
from likewise.attention.groups import RandomLayer
from likewise.attention.settings import ClusterSettings
from likewise.attention.significance import ClusterTest, PermutationTest, PointTie
from likewise.attention.study import AttentionStudy
from likewise.attention.survival import survival, verdicts


@cache
def small(depth: int) -> AttentionStudy:
    return attention_study(depth=depth)


def kruskal(p: float, eta2: float) -> ClusterTest:
    return ClusterTest(60, 3, 1.0, p, eta2, eta2, 1.0, ())


def permuted(p: float) -> PermutationTest:
    return PermutationTest(p, 0.01, 0.03, 999)


def planted(
    ps: list[float], permutation: list[float], within: list[float], random: list[float], random_within: list[float]
) -> AttentionStudy:
    """A study whose every variable has these p-values, layer by layer, with effects of 0.3, 0.2 and 0.1."""
    study = small(3)
    names = study.variables.names
    groups, controls = [], []
    for place, (group, control) in enumerate(zip(study.main.groups, study.controls, strict=True)):
        assert control.random is not None
        groups.append(replace(group, tests=dict.fromkeys(names, kruskal(ps[place], 0.3 - 0.1 * place))))
        controls.append(
            replace(
                control,
                permutation=dict.fromkeys(names, permuted(permutation[place])),
                within_length=dict.fromkeys(names[::2], permuted(within[place])),
                given_length=dict.fromkeys(names[::2], kruskal(0.001 if place == 0 else 0.5, 0.1)),
                points=dict.fromkeys(names[::2], PointTie(0.04 * place, 0.001 if place else 0.5)),
                random=RandomLayer(
                    replace(control.random.groups, tests=dict.fromkeys(names, kruskal(random[place], 0.5))),
                    same_k=dict.fromkeys(names, kruskal(random[place], 0.05)),
                    within_length=dict.fromkeys(names[::2], permuted(random_within[place])),
                    points=dict.fromkeys(names[::2], PointTie(0.01, 0.5)),
                ),
            )
        )
    return replace(study, main=replace(study.main, groups=tuple(groups)), controls=tuple(controls))


LOW, HIGH = [0.001] * 3, [0.5] * 3


@pytest.mark.slow
def test_each_control_takes_its_layers_away() -> None:
    study = planted([1e-9, 1e-9, 0.4], LOW, [0.001, 0.6, 0.001], HIGH, HIGH)
    found = survival(study, "similarity")
    assert (found.tested, found.permuted, found.given_length, found.random) == ((1, 2), (1, 2), (1,), ())
    assert found.survives == (1,)
    length = survival(study, "length")
    assert length.given_length is None and length.survives == (1, 2)
    assert survival(planted(LOW, [0.9, 0.001, 0.001], LOW, HIGH, HIGH), "length").survives == (2, 3)


def test_what_random_attention_shows_as_well_does_not_survive() -> None:
    # Plainly for length; within like length for the others, where a plain difference of random attention is length's.
    study = planted(LOW, LOW, LOW, random=[1e-50, 1e-50, 0.5], random_within=[0.5, 0.5, 0.001])
    assert survival(study, "length").random == (1, 2) and survival(study, "length").survives == (3,)
    assert survival(study, "similarity").random == (3,) and survival(study, "similarity").survives == (1, 2)
    bare = [replace(control, random=None) for control in study.controls]
    without = survival(replace(study, controls=tuple(bare)), "length")
    assert without.random is None and without.survives == (1, 2, 3)


def test_layers_are_corrected_for_their_number() -> None:
    # By Holm 0.02 is 0.06 among three, and what is larger cannot pass after it.
    assert survival(planted([0.02, 0.03, 0.04], LOW, LOW, HIGH, HIGH), "length").tested == ()
    assert survival(planted([0.016, 0.02, 0.04], LOW, LOW, HIGH, HIGH), "length").tested == (1, 2, 3)


def test_a_layer_without_a_test_does_not_count() -> None:
    study = planted([float("nan"), 1e-9, 1e-9], LOW, LOW, HIGH, HIGH)
    assert survival(study, "similarity").tested == (2, 3)


def test_sentences_name_layers_and_numbers() -> None:
    study = planted(LOW, LOW, [0.001, 0.001, 0.9], random=LOW, random_within=HIGH)
    loss, clusters, similarity, length, structure = verdicts(study)
    assert "0.0012" in loss and "0.0031" in loss and "61% less" in loss
    assert "more than one Gaussian cloud in" in clusters
    assert similarity.startswith("Similarity: the clusters differ in all 3 layers")
    assert "2 of 3 layers (1, 2) by permutation among pairs of like length, 1 of 3 layers (1) by the rank" in similarity
    assert "beyond length in 2 of 3 layers (2, 3), at most 8.0% of what length leaves, in layer 3" in similarity
    assert "Random attention's points tell it in no layer." in similarity
    assert "in no layer; its eta^2 with as many clusters is 0.050 on average, against 0.200" in similarity
    assert similarity.endswith("What survives of the clusters: 2 of 3 layers (1, 2), eta^2 0.200 to 0.300.")
    assert "differs as well in all 3 layers" in length
    assert length.endswith("Of the clusters nothing survives.")
    assert structure.startswith("Structure: ")


def test_several_layers_have_a_range_of_effects() -> None:
    assert verdicts(planted(LOW, LOW, LOW, HIGH, HIGH))[2].endswith("all 3 layers, eta^2 0.100 to 0.300.")
    assert verdicts(planted(LOW, LOW, [0.001, 0.9, 0.9], HIGH, HIGH))[2].endswith("1 of 3 layers (1), eta^2 0.300.")


def test_the_largest_number_of_clusters_is_told_as_the_end_of_the_range() -> None:
    study = small(3)
    ks = [group.clusters.chosen.k for group in study.main.groups]
    at_the_end = replace(study, settings=replace(study.settings, clusters=ClusterSettings(most=max(ks))))
    assert f"the largest K that was tried, {max(ks)}" in verdicts(at_the_end)[2]
    beyond = replace(study, settings=replace(study.settings, clusters=ClusterSettings(most=max(ks) + 1)))
    assert not any("the largest K" in sentence for sentence in verdicts(beyond))


@pytest.mark.parametrize(("loss", "said"), [(0.0031, "no better"), (0.0030, "little of what"), (0.0003, "90% less.")])
def test_the_loss_is_read_beside_the_trivial_one(loss: float, said: str) -> None:
    assert said in verdicts(replace(small(3), main=replace(small(3).main, loss=loss), trivial_loss=0.0031))[0]


def test_without_an_autoencoder_there_is_no_word_of_its_loss() -> None:
    study = replace(small(3), main=replace(small(3).main, loss=None), curve=None)
    assert not any("autoencoder" in sentence for sentence in verdicts(study))


def test_clusters_are_held_against_one_cloud() -> None:
    study = small(3)
    # One in twenty clouds may do as well; where the algorithm finds nothing in a cloud, what it found here stands out.
    blobs = [np.array([0.999] + [-0.5] * 19), np.full(20, 1.0), np.full(20, np.nan)]
    controls = tuple(
        replace(control, gaussian_null=gaussian_null)
        for control, gaussian_null in zip(study.controls, blobs, strict=True)
    )
    assert "in 2 of 3 layers (1, 3)" in verdicts(replace(study, controls=controls))[1]


def test_a_clustering_against_the_rule_is_told() -> None:
    study = small(3)
    first, *others = study.main.groups
    clusters = replace(first.clusters, rejected={first.clusters.chosen.algorithm: "its smallest cluster is small"})
    main = replace(study.main, groups=(replace(first, clusters=clusters), *others))
    assert any(
        "In 1 of 3 layers (1) no clustering keeps to the rule" in said for said in verdicts(replace(study, main=main))
    )
