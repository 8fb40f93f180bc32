"""Histograms of scores and reliability diagrams draw what they are given."""

from __future__ import annotations

import numpy as np

from likewise.plotting.distributions import histograms, reliability_diagram


def test_histograms_are_densities_over_one_range() -> None:
    rng = np.random.default_rng(0)
    samples = {"unrelated": rng.normal(size=5000), "matches": rng.normal(3, 1, 30)}
    ax = histograms(samples, {"95 %": (1.6, 1.5, 1.7)}, ("cosine", "density"))
    first, second = (patch.get_path().vertices for patch in ax.patches[:2])
    assert len(first) > 2 * len(second)
    assert first[:, 0].min() == second[:, 0].min()
    assert ax.lines[0].get_xdata()[0] == 1.6
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["unrelated", "matches"]


def test_equal_scores_are_one_bar() -> None:
    ax = histograms({"unrelated": np.full(10, 0.5)}, {}, ("cosine", "density"))
    assert ax.get_legend() is None


def test_reliability_points_lie_at_their_bins() -> None:
    observed = [(0.1, 0.0, 0.2), (0.9, 0.8, 1.0)]
    ax = reliability_diagram([0.2, 0.8], observed, ("predicted", "observed"), "Brier score 0.1")
    points = ax.lines[1].get_xydata()
    np.testing.assert_allclose(points, [[0.2, 0.1], [0.8, 0.9]])
    assert ax.texts[0].get_text() == "Brier score 0.1"
