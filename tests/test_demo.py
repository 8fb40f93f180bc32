"""The demo's study."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from conftest import save_tiny
from likewise.data import read_scored_pairs
from likewise.demo import TEXTS, demo
from likewise.encoder import Encoder
from likewise.evaluation.sts import evaluate_sts


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """Wide enough that each bias can be dealt out to all tokens of the demo's texts."""
    return Encoder.load(str(save_tiny(tmp_path_factory.mktemp("models") / "wide", hidden_size=64)), device="cpu")


def test_kinds_are_means_over_their_pairs(wide: Encoder) -> None:
    pairs = list(read_scored_pairs("sample/pairs"))
    found, cosines = demo(wide), evaluate_sts(wide, pairs).predicted
    assert {kind: count for kind, count, _, _ in found.kinds} == Counter(pair.meta["kind"] for pair in pairs)
    for kind, _, score, cosine in found.kinds:
        rows = [place for place, pair in enumerate(pairs) if pair.meta["kind"] == kind]
        assert score == pytest.approx(np.mean([pairs[row].score for row in rows]))
        assert cosine == pytest.approx(cosines[rows].mean(), abs=1e-6)
    order = [cosine for *_, cosine in found.kinds]
    assert order == sorted(order, reverse=True)


def test_similarities_are_the_encoder_s(wide: Encoder) -> None:
    found = demo(wide)
    assert found.texts == TEXTS and found.similarity.shape == (5, 5)
    np.testing.assert_allclose(found.similarity, wide.similarity(TEXTS, TEXTS), atol=1e-6)
    assert found.inspection.texts[0].text == TEXTS[0] and found.sts.n == 60


def test_explains_the_first_two_texts(wide: Encoder) -> None:
    found = demo(wide).explanation
    assert (found.left.text, found.right.text) == TEXTS[:2] and found.metadata.granularity == "word"
    assert found.similarity == pytest.approx(wide.similarity(TEXTS[0], TEXTS[1])[0, 0], abs=1e-5)
    assert abs(found.gap) < 1e-5 and "harbour" in found.left.labels


def test_bundled_model_tells_the_story_of_the_page(minilm: Encoder) -> None:
    """The page says that near-misses cost: they score like other meanings and lie close."""
    found = demo(minilm)
    cosine = {kind: value for kind, _, _, value in found.kinds}
    assert found.sts.agreement["spearman"].value > 0.5
    assert min(cosine["negation"], cosine["number"], cosine["role-swap"]) > cosine["idiom"] > cosine["unrelated"]
    strongest = [(left.text, right.text) for left, right, _ in found.explanation.strongest(3)]
    assert ("harbour", "harbour") in strongest
