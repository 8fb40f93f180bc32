"""Figures of an attention study: a panel for each layer, what is known and nothing else."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_studies import attention_study, crowded_study
from likewise.attention.clustering import ClusterScores
from likewise.attention.figures import p_text
from likewise.attention.groups import Variables
from likewise.attention.settings import Highlight
from likewise.attention.study import AttentionStudy
from likewise.plotting.axes import save_figure

NAMES = [
    "effects", "distributions", "loss", "clusters", "boxes-similarity", "boxes-length", "boxes-structure",
    "highlight-similarity", "highlight-length", "highlight-structure", "heads", "reducers", "consensus",
]  # fmt: skip


@cache
def study() -> AttentionStudy:
    return attention_study()


def panels(name: str, shown: AttentionStudy | None = None) -> list[Any]:
    figure = (shown or study()).figures()[name].draw().figure
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


@pytest.mark.slow
def test_every_figure_in_order() -> None:
    assert list(study().figures()) == NAMES
    counts = [len(panels(name)) for name in NAMES]
    # The highlights' layers 2, 7, 10, 12 of 12 are 1, 2, 3 of three; 1, 4, 8, 12 are 1, 2, 3 too.
    assert counts == [4, 3, 2, 3, 3, 3, 3, 3, 3, 3, 6, 2, 3]


def test_what_is_unknown_is_not_drawn() -> None:
    known = study().variables
    bare = replace(
        study(), curve=None, random_curve=None, others=(), variables=Variables(known.similarity, known.length, None)
    )
    left = set(NAMES) - {"loss", "reducers", "boxes-structure", "highlight-structure"}
    assert set(bare.figures()) == left


def test_points_of_each_layer_and_their_noise() -> None:
    for layer, axes in enumerate(panels("clusters")):
        chosen = study().main.groups[layer].clusters.chosen
        drawn = [np.asarray(group.get_offsets()) for group in axes.collections]
        labels = sorted(set(chosen.labels.tolist()), key=lambda label: (label == -1, label))
        assert labels[-1] == -1, "the made-up points have noise"
        for label, offsets in zip(labels, drawn, strict=True):
            assert np.array_equal(offsets, study().main.view[chosen.labels == label, layer])
        assert axes.get_legend().get_texts()[-1].get_text() == f"noise: {(chosen.labels == -1).sum()}"
        assert axes.get_title() == f"layer {layer + 1}: {chosen.algorithm}, K = {chosen.k}"


def test_boxes_of_each_cluster_without_noise() -> None:
    for group, axes in zip(study().main.groups, panels("boxes-length"), strict=True):
        labels = group.clusters.chosen.labels
        for cluster, box in enumerate(axes.patches):
            heights = box.get_path().vertices[:, 1]
            ends = np.percentile(study().variables.length[labels == cluster], [25, 75])
            assert np.allclose([heights.min(), heights.max()], ends)
        assert len(axes.patches) == group.clusters.chosen.k
        test = group.tests["length"]
        assert axes.get_title() == f"layer {group.layer}: ε² = {test.epsilon2:.2f}, p = {p_text(test.kruskal_p)}"


def test_highlights_show_their_ranges_in_their_layers() -> None:
    ranges = (Highlight("length", ((7, 20),), (12,)), Highlight("length", ((0, 1), (30, float("inf")))))
    found = replace(study(), settings=replace(study().settings, highlights=ranges))
    first, second = panels("highlight-length", found), panels("highlight-length-2", found)
    assert [axes.get_title() for axes in first] == ["layer 3"] and len(second) == 3
    length = study().variables.length
    assert np.array_equal(first[0].collections[1].get_offsets(), study().main.view[(length >= 7) & (length <= 20), 2])
    names = [text.get_text() for text in second[0].get_legend().get_texts()]
    assert names == ["length 0-1, n = 0", f"length >= 30, n = {(length >= 30).sum()}"]


def test_the_view_is_drawn_where_points_have_more_numbers() -> None:
    deep = replace(study().main, points=np.zeros((60, 3, 5)))
    axes = panels("clusters", replace(study(), main=deep))[0]
    assert np.abs(axes.collections[0].get_offsets()).max() > 0


def test_losses_beside_the_trivial_one() -> None:
    own, random = panels("loss")
    train, held_out, trivial = (line.get_ydata().tolist() for line in own.lines)
    curve = study().curve
    assert curve is not None
    assert (train, held_out, trivial) == (list(curve.train), list(curve.held_out), [study().trivial_loss] * 4)
    assert own.get_ylim()[0] == 0 and random.lines[2].get_ydata()[0] == 0.0009


def test_a_diverged_training_is_drawn(tmp_path: Path) -> None:
    curve = study().curve
    assert curve is not None
    lost = replace(curve, train=(float("nan"),) * 4)
    save_figure(replace(study(), curve=lost).figures()["loss"].draw(), tmp_path / "a.png")


def test_heads_have_a_cell_each_and_even_attention_beside() -> None:
    for axes, (name, values) in zip(panels("heads"), study().heads.values.items(), strict=True):
        assert np.array_equal(axes.images[0].get_array(), values) and axes.images[0].get_clim()[0] == 0
        assert axes.get_title() == f"{name} (even attention: 0.08)"


def test_effects_beside_their_controls() -> None:
    similarity, length, _, points = panels("effects")
    groups, controls = study().main.groups, study().controls
    clusters, random, given, zero = (line.get_ydata() for line in similarity.lines)
    assert list(clusters) == [group.tests["similarity"].eta2 for group in groups]
    assert list(random) == [control.random.same_k["similarity"].eta2 for control in controls if control.random]
    assert list(given) == [control.given_length["similarity"].eta2 for control in controls]
    assert list(zero) == [0, 0] and len(length.lines) == 3, "length is not given itself"
    assert list(points.lines[0].get_ydata()) == [control.points["similarity"].r2 for control in controls]
    without = replace(study(), controls=tuple(replace(control, random=None) for control in controls))
    assert len(panels("effects", without)[0].lines) == 3


def test_consensus_turns_the_score_where_less_is_better() -> None:
    scores = {2: ClusterScores(0.2, 3.0, 10.0), 3: ClusterScores(0.6, 1.0, 20.0), 5: ClusterScores(0.4, 2.0, 30.0)}
    group = study().main.groups[0]
    clusters = replace(group.clusters, by_k={group.clusters.chosen.algorithm: scores})
    main = replace(study().main, groups=(replace(group, clusters=clusters), *study().main.groups[1:]))
    axes = panels("consensus", replace(study(), main=main))[0]
    silhouette, davies, calinski, choice = axes.lines
    assert silhouette.get_xdata().tolist() == [2, 3, 5]
    found = [line.get_ydata().round(9).tolist() for line in (silhouette, davies, calinski)]
    assert found == [[0, 1, 0.5], [0, 1, 0.5], [0, 0.5, 1]]
    assert choice.get_xdata()[0] == group.clusters.chosen.k


@pytest.mark.slow
def test_one_layer_and_no_warning(tmp_path: Path) -> None:
    found = attention_study(n=30, depth=1, seed=1).figures()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, figure in found.items():
            save_figure(figure.draw(), tmp_path / f"{name}.png")


@cache
def crowded() -> AttentionStudy:
    return crowded_study(n=300)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clusters", "boxes-length", "consensus"])
def test_twelve_layers_of_fifteen_clusters_do_not_touch(name: str) -> None:
    """No title runs into the next panel's, none is cut."""
    figure = crowded().figures()[name].draw().figure
    figure.canvas.draw()
    boxes = [axes.title.get_window_extent() for axes in figure.axes]
    assert len(boxes) == 12 and all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
    rows = pairwise(boxes)
    assert all(left.x1 < right.x0 for left, right in rows if abs(left.y0 - right.y0) < 5)
