"""Partly shown texts: which places are shown when, and their pooled vectors against one text at a time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import processors

from conftest import tiny_tokenizer
from likewise.encoder import Encoder
from likewise.encoder.forward import Batch
from likewise.encoder.pooling import Dense, ModulesConfig
from likewise.encoder.tokens import Tokenizer, Vocabulary
from likewise.evaluation.perturbation import FRACTIONS, Shown, shown_steps, shown_vectors
from tiny_models import NoDowncast, spelling_tokenizer, tiny_encoder

TEXTS = ["the man is out", "a dog, the", "the man is out of the sea", "red"]
CLS, SEP, MASK = 2, 3, 4


@cache
def bert(seed: int = 0) -> Encoder:
    return tiny_encoder("bert", seed)


def shown_texts(encoder: Encoder, seed: int = 0) -> list[Shown]:
    """Several random subsets of each text's places, of all lengths."""
    rng = np.random.default_rng(seed)
    found = []
    for text in encoder.tokenize(TEXTS):
        for share in (0.0, 0.3, 0.7, 1.0):
            places = np.flatnonzero(rng.random(len(text)) < share)
            found.append(Shown(text.ids, frozenset(places.tolist())))
    return found


def masked(text: Shown, mask: int) -> list[int]:
    return [id if place in text.shown else mask for place, id in enumerate(text.ids)]


def plain_states(encoder: Encoder, ids: list[int]) -> np.ndarray:
    """Last states (T, D) of one sequence through Hugging Face's own layers."""
    with torch.no_grad(), NoDowncast():
        return encoder.model(input_ids=torch.tensor([ids])).last_hidden_state[0].numpy()


POOLED = {
    "mean": lambda states, counts: states[counts].mean(0),
    "cls": lambda states, counts: states[counts][0],
    "last": lambda states, counts: states[counts][-1],
    "max": lambda states, counts: states[counts].max(0),
    "mean-sqrt-len": lambda states, counts: states[counts].sum(0) / np.sqrt(counts.sum()),
}


class TestSteps:
    def test_fractions(self) -> None:
        assert FRACTIONS.tolist() == [round(0.04 * step, 2) for step in range(26)]
        assert FRACTIONS[0] == 0 and FRACTIONS[-1] == 1

    @pytest.mark.parametrize("count", [0, 1, 2, 5, 12, 25, 75, 200])
    def test_counts_round_half_up(self, count: int) -> None:
        """In whole numbers: step k shows k n / 25 tokens, rounded half up."""
        found = [len(step) for step in shown_steps(range(count))]
        assert found == [(2 * step * count + 25) // 50 for step in range(26)]

    def test_tokens_enter_in_their_order(self) -> None:
        order = [3, 1, 4, 0, 2]
        steps = shown_steps(order)
        for step in steps:
            assert step == set(order[: len(step)])
        assert all(before <= after for before, after in pairwise(steps))
        assert [len(step) for step in steps][::5] == [0, 1, 2, 3, 4, 5]

    def test_kept_places_are_always_there(self) -> None:
        steps = shown_steps([1, 2, 3], always_shown=[0, 4])
        assert steps[0] == {0, 4} and steps[-1] == {0, 1, 2, 3, 4}
        assert all({0, 4} <= step for step in steps)
        assert [len(step) - 2 for step in steps] == [len(step) for step in shown_steps([1, 2, 3])]

    def test_nothing_to_order(self) -> None:
        assert shown_steps([], always_shown=[0, 1]) == [{0, 1}] * 26


class TestVectors:
    @pytest.mark.parametrize("seed", [0, 1, 2])
    @pytest.mark.parametrize("pooling", POOLED)
    def test_slow_twin(self, seed: int, pooling: str) -> None:
        encoder = bert(seed).with_pooling(pooling=pooling)
        texts = shown_texts(encoder, seed)
        found = shown_vectors(encoder, texts)
        assert found.shape == (len(texts), 32) and found.dtype == np.float32
        for vector, text in zip(found, texts, strict=True):
            every = np.ones(len(text.ids), dtype=bool)
            expected = POOLED[pooling](plain_states(encoder, masked(text, MASK)), every)
            np.testing.assert_allclose(vector, expected, rtol=1e-5, atol=1e-5)

    def test_layer_of_the_reading(self) -> None:
        encoder = bert().with_pooling(layer=1)
        text = "the man is out"
        states = encoder.states([text], attention=False)[0]
        whole = Shown(states.tokens.ids, frozenset(range(len(states.tokens))))
        np.testing.assert_allclose(shown_vectors(encoder, [whole])[0], states.hidden[1].mean(0), atol=1e-5)

    def test_masked_text_is_the_text_of_mask_tokens(self) -> None:
        """Against ``Encoder.states`` of a text that spells the mask out."""
        encoder = bert()
        (full,) = encoder.tokenize(["the man is out"])
        man = [place for place, span in enumerate(full.offsets) if 4 <= span[0] < span[1] <= 7]
        shown = Shown(full.ids, frozenset([0, *man, len(full) - 1]))
        after = len(full) - man[-1] - 2
        (spelled,) = encoder.states(["[MASK] man" + " [MASK]" * after], attention=False)
        assert spelled.tokens.ids == (CLS, MASK, *(full.ids[place] for place in man), *[MASK] * after, SEP)
        np.testing.assert_allclose(shown_vectors(encoder, [shown])[0], spelled.hidden[-1].mean(0), atol=1e-5)

    @pytest.mark.parametrize("pooling", ["mean", "max", "cls", "last"])
    def test_masked_words_still_count_where_special_tokens_do_not(self, pooling: str) -> None:
        """Whatever is shown, the words' places are pooled, masked ones too, and [CLS] and [SEP] are not."""
        encoder = bert().with_pooling(special_tokens=False, pooling=pooling)
        texts = shown_texts(encoder)
        for vector, text in zip(shown_vectors(encoder, texts), texts, strict=True):
            words = np.array([id not in (CLS, SEP) for id in text.ids])
            expected = POOLED[pooling](plain_states(encoder, masked(text, MASK)), words)
            np.testing.assert_allclose(vector, expected, rtol=1e-5, atol=1e-5)
        (full,) = encoder.tokenize([TEXTS[0]])
        hidden = shown_vectors(encoder, [Shown(full.ids, frozenset())])[0]
        assert np.abs(hidden).max() > 0.1, "an all-masked text must not pool to nothing"

    def test_a_prompt_that_does_not_count(self) -> None:
        modules_config = ModulesConfig(prompts={"p": "the sea: "}, default_prompt="p", include_prompt=False)
        encoder = tiny_encoder("bert", modules_config=modules_config)
        (full,) = encoder.tokenize(["a man"])
        text = Shown(full.ids, frozenset({0, 1}))
        counts = np.arange(len(full)) >= encoder.tokenizer.prompt_length("the sea: ")
        assert 0 < counts.sum() < len(full)
        expected = plain_states(encoder, masked(text, MASK))[counts].mean(0)
        np.testing.assert_allclose(shown_vectors(encoder, [text])[0], expected, atol=1e-5)

    def test_heads_and_normalize_come_later(self) -> None:
        """The distance is taken of the pooled vector, whatever the model does to it then."""
        plain = bert()
        text = shown_texts(plain)[:8]
        head = Dense(torch.randn(3, 32, dtype=torch.float64), None, "Tanh")
        finished = replace(plain, modules_config=replace(plain.modules_config, normalizes=True, heads=(head,)))
        for encoder in (finished, plain.with_pooling(normalize=True), plain.with_pooling(truncate_dim=4)):
            np.testing.assert_array_equal(shown_vectors(encoder, text), shown_vectors(plain, text))

    def test_whole_text_is_the_encoded_one(self, tiny: Encoder) -> None:
        plain = tiny.with_pooling(normalize=False)
        tokens = plain.tokenize(TEXTS)
        whole = [Shown(one.ids, frozenset(range(len(one)))) for one in tokens]
        np.testing.assert_allclose(shown_vectors(tiny, whole), plain.encode(TEXTS), atol=1e-5)

    @pytest.mark.parametrize("budget", [1, 20, 4096])
    def test_order_does_not_depend_on_batches(self, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
        texts = shown_texts(bert())
        expected = np.stack([shown_vectors(bert(), [text])[0] for text in texts])
        monkeypatch.setattr("likewise.evaluation.perturbation.TOKEN_BUDGET", budget)
        np.testing.assert_allclose(shown_vectors(bert(), texts), expected, atol=1e-6)

    def test_equal_sequences_are_encoded_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rows: list[tuple[int, ...]] = []
        layer_states = Encoder.layer_states

        def counting(self: Encoder, batch: Batch, *rest: Any) -> torch.Tensor:
            rows.extend(map(tuple, batch.ids.tolist()))
            return layer_states(self, batch, *rest)

        monkeypatch.setattr(Encoder, "layer_states", counting)
        texts = shown_texts(bert())
        found = shown_vectors(bert(), [*texts, *texts[::-1], texts[0]])
        assert len(rows) == len(set(texts)) < 2 * len(texts)
        assert set(rows) == {tuple(masked(text, MASK)) for text in texts}
        np.testing.assert_array_equal(found[: len(texts)], found[len(texts) : -1][::-1])
        np.testing.assert_array_equal(found[-1], found[0])


class TestFiller:
    def test_mask_token(self) -> None:
        assert bert().tokenizer.filler_id("mask") == MASK

    def test_gpt_neo_has_a_blank_or_a_stand_in(self) -> None:
        """Without a mask token the blank stands in, and where a tokenizer swallows blanks, the padding."""
        encoder = tiny_encoder("gpt_neo", tokenizer=spelling_tokenizer())
        assert encoder.tokenizer.vocabulary.id_of("mask") is None
        (full,) = encoder.tokenize(["the man"])
        found = shown_vectors(encoder, [Shown(full.ids, frozenset({0, 2}))])[0]
        pad = encoder.tokenizer.vocabulary.id_of("pad")
        ids = [id if place in (0, 2) else pad for place, id in enumerate(full.ids)]
        np.testing.assert_allclose(found, plain_states(encoder, ids).mean(0), atol=1e-5)

    def test_blank_of_a_byte_tokenizer(self) -> None:
        encoder = tiny_encoder("gpt_neo", tokenizer=byte_tokenizer())
        blank = encoder.tokenizer.filler_id("mask")
        assert encoder.tokenizer.backend.decode([blank]) == " "
        (full,) = encoder.tokenize(["the man"])
        found = shown_vectors(encoder, [Shown(full.ids, frozenset({1}))])[0]
        ids = [id if place == 1 else blank for place, id in enumerate(full.ids)]
        np.testing.assert_allclose(found, plain_states(encoder, ids).mean(0), atol=1e-5)


def byte_tokenizer() -> Any:
    """Bytes as tokens, as GPT-2 has them, without merges and without a mask or any other special token in texts."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    characters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(models.BPE({letter: place for place, letter in enumerate(characters)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=40, eos_token="Z")


def test_tokenizer_without_any_special_token() -> None:
    """Nothing is kept in place; an all-masked text is fillers only."""
    words = tiny_tokenizer()
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1")
    encoder = replace(bert(), tokenizer=Tokenizer(Vocabulary.of(words), 40))
    (full,) = encoder.tokenize(["a dog"])
    found = shown_vectors(encoder, [Shown(full.ids, frozenset())])[0]
    np.testing.assert_allclose(found, plain_states(encoder, [MASK] * len(full)).mean(0), atol=1e-5)
