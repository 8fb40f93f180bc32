"""The demo's study."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from likewise.data import read_scored_pairs
from likewise.encoder import Encoder
from likewise.studies.demo import TEXTS, demo
from likewise.studies.sts import evaluate_sts


def test_kinds_are_means_over_their_pairs(tiny: Encoder) -> None:
    pairs = list(read_scored_pairs("sample/pairs"))
    found, cosines = demo(tiny), evaluate_sts(tiny, pairs).predicted
    assert {kind: count for kind, count, _, _ in found.kinds} == Counter(pair.meta["kind"] for pair in pairs)
    for kind, _, score, cosine in found.kinds:
        rows = [place for place, pair in enumerate(pairs) if pair.meta["kind"] == kind]
        assert score == pytest.approx(np.mean([pairs[row].score for row in rows]))
        assert cosine == pytest.approx(cosines[rows].mean(), abs=1e-6)
    order = [cosine for *_, cosine in found.kinds]
    assert order == sorted(order, reverse=True)


def test_similarities_are_the_encoder_s(tiny: Encoder) -> None:
    found = demo(tiny)
    assert found.texts == TEXTS and found.similarity.shape == (5, 5)
    np.testing.assert_allclose(found.similarity, tiny.similarity(TEXTS, TEXTS), atol=1e-6)
    assert found.inspection.texts[0].text == TEXTS[0] and found.sts.n == 60


def test_bundled_model_tells_the_story_of_the_page(minilm: Encoder) -> None:
    """The page says that near-misses cost: they score like other meanings and lie close."""
    found = demo(minilm)
    cosine = {kind: value for kind, _, _, value in found.kinds}
    assert found.sts.agreement["spearman"].value > 0.5
    assert min(cosine["negation"], cosine["number"], cosine["role-swap"]) > cosine["idiom"] > cosine["unrelated"]
