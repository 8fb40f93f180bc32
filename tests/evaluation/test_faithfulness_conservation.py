"""Conservation: four panels, of which those with nothing left out lie on the identity line."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from ledgers import contributions
from likewise.encoder import Encoder
from likewise.encoder.pooling import Dense
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.errors import Cancelled, DataError
from likewise.evaluation.faithfulness import ConservationPanel, conservation, without_biases
from likewise.sample import sample_sentences
from tiny_models import BIASES, tiny_encoder

TEXTS = ["the man is out", "a dog, the", "red", "the sea is green and the man is out of it", "one two three"]
NAMES = ["HxP", "BiLRP", "BiLRP, biases set to zero", "BiLRP with the bias row"]


@cache
def encoder_of(name: str, seed: int = 0) -> Encoder:
    return tiny_encoder(name, seed, config=BIASES if name == "modernbert" else None)


class TestPanels:
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_nothing_is_lost_where_nothing_is_left_out(self, seed: int) -> None:
        found = conservation(encoder_of("bert", seed), TEXTS)
        assert [panel.name for panel in found.panels] == NAMES
        r2 = [panel.r2 for panel in found.panels]
        assert r2[2] == pytest.approx(1, abs=1e-6) and r2[3] == pytest.approx(1, abs=1e-6)
        assert r2[0] < 0.99 and r2[1] < 0.99

    @pytest.mark.parametrize("name", ["mpnet", "albert", "gpt_neo", "modernbert"])
    def test_other_families(self, name: str) -> None:
        r2 = [panel.r2 for panel in conservation(encoder_of(name), TEXTS).panels]
        assert r2[2:] == pytest.approx([1, 1], abs=1e-6)
        assert max(r2[:2]) < 0.999

    def test_head_and_normalize(self) -> None:
        """A head's own bias goes too; vectors are taken before any Normalize."""
        plain = encoder_of("bert")
        torch.manual_seed(0)
        head = Dense(torch.randn(8, 32, dtype=torch.float64), torch.randn(8, dtype=torch.float64), "Tanh")
        encoder = replace(plain, modules_config=replace(plain.modules_config, heads=(head,), normalizes=True))
        found = conservation(encoder, TEXTS)
        assert [panel.r2 for panel in found.panels[2:]] == pytest.approx([1, 1], abs=1e-6)
        expected = encoder.with_pooling(normalize=False).encode(TEXTS).sum(1)
        np.testing.assert_allclose(found.panels[1].components, expected, atol=1e-5)

    def test_points(self) -> None:
        """Each panel by its definition, on vectors before any Normalize."""
        encoder = encoder_of("bert").with_pooling(normalize=True)
        plain = encoder_of("bert").with_pooling(normalize=False)
        found = conservation(encoder, TEXTS)
        one = contributions(plain, TEXTS)
        np.testing.assert_allclose(found.panels[1].components, plain.encode(TEXTS).sum(1), atol=1e-4)
        np.testing.assert_allclose(found.panels[1].relevance, [each.values.sum() for each in one])
        np.testing.assert_allclose(found.panels[3].relevance, [each.values.sum() + each.bias.sum() for each in one])
        hxp = contributions(plain, TEXTS, method="hxp")
        np.testing.assert_allclose(found.panels[0].relevance, [each.values.sum() for each in hxp])
        bare = without_biases(plain)
        np.testing.assert_allclose(found.panels[2].components, bare.encode(TEXTS).sum(1), atol=1e-4)

    @pytest.mark.slow
    def test_bundled_model(self, minilm: Encoder) -> None:
        found = conservation(minilm, sample_sentences()[:6])
        r2 = [panel.r2 for panel in found.panels]
        assert min(r2[2:]) > 0.9999
        assert max(r2[:2]) < 0.9


class TestR2:
    def test_on_the_line_and_off_it(self) -> None:
        points = np.array([1.0, 2.0, 4.0])
        assert ConservationPanel("p", points, points).r2 == 1
        assert ConservationPanel("p", points, np.full(3, points.mean())).r2 == pytest.approx(0)
        shifted = ConservationPanel("p", points, points + 1)
        assert shifted.r2 == pytest.approx(1 - 3 / np.sum((points - points.mean()) ** 2))

    def test_texts_that_are_all_alike(self) -> None:
        assert np.isnan(ConservationPanel("p", np.ones(3), np.ones(3)).r2)


class TestWithoutBiases:
    @pytest.mark.parametrize("name", ["bert", "distilbert", "gpt_neo", "modernbert", "electra"])
    def test_original_is_untouched_and_the_copy_has_none(self, name: str) -> None:
        encoder = encoder_of(name)
        before = {key: weight.clone() for key, weight in encoder.model.state_dict().items()}
        vector = encoder.encode(TEXTS[:1])
        bare = without_biases(encoder)
        after = encoder.model.state_dict()
        assert before.keys() == after.keys()
        assert all(torch.equal(before[key], after[key]) for key in before)
        np.testing.assert_array_equal(encoder.encode(TEXTS[:1]), vector)
        biases = {key: weight for key, weight in bare.model.named_parameters() if key.endswith(".bias")}
        assert len(biases) > 5 and not any(weight.any() for weight in biases.values())
        assert all(before[key].any() for key in biases), "the tiny model has biases to lose"
        for key, weight in bare.model.named_parameters():
            assert key in biases or torch.equal(weight, before[key])
            assert weight.data_ptr() != dict(encoder.model.named_parameters())[key].data_ptr()
        assert np.abs(bare.encode(TEXTS[:1]) - vector).max() > 0.01, "the copy is the one that runs"

    def test_nothing_comes_from_nothing(self) -> None:
        """Its bias row is zero."""
        (one,) = contributions(without_biases(encoder_of("bert")), ["the man is out"])
        assert np.abs(one.bias).max() == 0
        np.testing.assert_allclose(one.values.sum(0), one.vector, atol=1e-10)

    def test_post_processing_goes_too(self) -> None:
        encoder = encoder_of("bert")
        fitted = fit_postprocessing("standardisation", encoder.encode(TEXTS))
        assert without_biases(encoder.with_postprocessing(fitted)).postprocessing is None


class TestUse:
    def test_json_html_and_plot(self) -> None:
        found = conservation(encoder_of("bert"), TEXTS)
        document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert document["model"] == "bert" and document["n"] == 5
        assert list(document["r2"]) == NAMES
        assert all(name in found._repr_html_() for name in NAMES)
        first = found.plot()
        assert isinstance(first, Axes) and len(first.figure.axes) == 4
        assert [name in ax.get_title() for name, ax in zip(NAMES, first.figure.axes, strict=True)] == [True] * 4

    @pytest.mark.parametrize("texts", [[], ["one"]])
    def test_too_few_texts(self, texts: list[str]) -> None:
        with pytest.raises(DataError, match=f"at least 2 texts, got {len(texts)}"):
            conservation(encoder_of("bert"), texts)

    def test_progress_and_cancel(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0)
        seen: list[Any] = []
        conservation(encoder_of("bert"), TEXTS, lambda *call: seen.append(call))
        assert seen[-1] == (15, 15, "texts")
        assert [done for done, *_ in seen] == sorted(done for done, *_ in seen)

        def cancel(done: int, *_: Any) -> None:
            if done >= 7:
                raise Cancelled

        with pytest.raises(Cancelled):
            conservation(encoder_of("bert"), TEXTS, cancel)
