"""Texts -> vectors, as sentence-transformers gives them, whatever the batch; and the states behind them."""

from __future__ import annotations

import hashlib
import logging
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import GPTNeoConfig, GPTNeoModel

from conftest import randomise, tiny_tokenizer
from likewise.encoder import Encoder
from likewise.encoder.forward import Batch, TextDropout
from likewise.encoder.pooling import POOLERS, Layer
from likewise.errors import Cancelled, ModelError, UsageError
from likewise.sample import sample_sentences
from twins import twin_model, twin_tokenizer

TEXTS = [
    *sample_sentences()[:24],
    "",
    " ",
    "a",
    "😀",
    "👩‍👩‍👧‍👦 family, 🇩🇪 flag",
    "Café crème à la carte",
    "北京是中国的首都",
    "שלום עולם",
    "\0control\x07characters",
    "lines\nand\ttabs\r\n",
    "UPPER lower MiXeD",
    "100% of $3.50 in 1999-12-31",
    "a" * 300,
    "many words " * 120,
    "[CLS] written [SEP] out [MASK]",
    "https://example.org/path?query=1&other=2#part",
]
SHORT = [*sample_sentences()[:12], "", "a", "😀 日本", "the cat " * 9]


def gap(left: np.ndarray, right: np.ndarray) -> float:
    assert left.shape == right.shape
    return float(np.abs(left - right).max())


@pytest.fixture(scope="session")
def gpt_neo(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """A tiny decoder whose tokenizer adds no special tokens."""
    folder = tmp_path_factory.mktemp("models") / "gpt-neo"
    torch.manual_seed(0)
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = None
    tokenizer.save_pretrained(folder)
    config = GPTNeoConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_layers=2, num_heads=4, window_size=4,
        attention_types=[[["global", "local"], 1]], max_position_embeddings=64, bos_token_id=2, eos_token_id=3,
    )  # fmt: skip
    model = GPTNeoModel(config)
    randomise(model)
    model.save_pretrained(folder)
    return Encoder.load(str(folder), device="cpu", pooling="weighted")


# The same vectors as sentence-transformers


@pytest.mark.slow
def test_minilm_equals_sentence_transformers(minilm: Encoder) -> None:
    theirs = SentenceTransformer(str(minilm.folder), device="cpu")
    assert gap(minilm.encode(TEXTS), theirs.encode(TEXTS)) < 1e-5


@pytest.mark.slow
@pytest.mark.data
def test_e5_equals_sentence_transformers(e5: Encoder, e5_folder: Path) -> None:
    theirs = SentenceTransformer(str(e5_folder), device="cpu")
    assert gap(e5.encode(TEXTS), theirs.encode(TEXTS)) < 1e-5
    few = TEXTS[:3]
    assert gap(e5.encode_query(few), theirs.encode(few, prompt="query: ")) < 1e-5
    assert gap(e5.encode_document(few), theirs.encode(few, prompt="passage: ")) < 1e-5
    assert gap(e5.encode(few, prompt=""), theirs.encode(few, prompt="")) < 1e-5
    assert gap(e5.encode(few), e5.encode(few, prompt="")) > 1e-3, "the default prompt does something"


def test_a_sentence_transformer_in_memory_shares_its_weights(tiny_folder: Path) -> None:
    theirs = SentenceTransformer(str(tiny_folder), device="cpu", prompts={"query": "who is "}).train()
    encoder = Encoder.from_sentence_transformer(theirs)
    assert gap(encoder.encode(SHORT), theirs.encode(SHORT)) < 1e-6
    assert gap(encoder.encode_query(SHORT), theirs.encode_query(SHORT)) < 1e-6
    before = encoder.encode(SHORT)
    with torch.no_grad():
        theirs[0].model.embeddings.word_embeddings.weight.mul_(2)
    assert gap(encoder.encode(SHORT), before) > 1e-3
    assert gap(encoder.encode(SHORT), theirs.encode(SHORT)) < 1e-6


# The same vector in any company


@pytest.mark.parametrize("which", ["tiny", "minilm"])
@pytest.mark.parametrize("budget", [1, 64, 4096])
def test_neighbours_and_order_do_not_matter(which: str, budget: int, request: pytest.FixtureRequest) -> None:
    encoder: Encoder = request.getfixturevalue(which)
    alone = np.stack([encoder.encode(text) for text in SHORT])
    order = list(range(len(SHORT)))
    random.Random(budget).shuffle(order)
    mixed = encoder.encode_with_stats([SHORT[place] for place in order], budget=budget).vectors
    assert gap(mixed, alone[order]) < 1e-6


def test_windows_do_not_matter(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tiny.encode(SHORT)
    monkeypatch.setattr("likewise.encoder.forward.WINDOW_TEXTS", 5)
    assert gap(tiny.encode(SHORT), whole) < 1e-6


# Shapes and types


def test_one_string_gives_one_vector(tiny: Encoder) -> None:
    assert tiny.encode("a dog").shape == (16,)
    assert np.array_equal(tiny.encode("a dog"), tiny.encode(["a dog"])[0])


def test_no_texts_give_no_vectors(tiny: Encoder) -> None:
    assert tiny.encode([]).shape == (0, 16)
    assert tiny.encode([]).dtype == np.float32


@pytest.mark.parametrize("pooling_config", [{"truncate_dim": 4}, {"pooling": "cls+mean"}])
def test_no_texts_have_the_width_of_the_reading(tiny: Encoder, pooling_config: Any) -> None:
    assert tiny.encode([], **pooling_config).shape[1] == tiny.encode(["a"], **pooling_config).shape[1]
    assert tiny.with_pooling(**pooling_config).encode([]).shape == (0, tiny.with_pooling(**pooling_config).dimension)


@pytest.mark.filterwarnings("ignore:TF32")
@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-6), ("float16", 2e-2), ("bfloat16", 0.15)])
def test_vectors_are_float32_whatever_the_weights(dtype: str, bound: float, tiny_folder: Path, tiny: Encoder) -> None:
    encoder = Encoder.load(str(tiny_folder), device="cpu", dtype=dtype)
    assert str(encoder.model_view.dtype) == f"torch.{dtype}"
    # oneDNN dies of an illegal instruction where a virtual machine promises AMX and has none.
    with torch.backends.mkldnn.flags(enabled=False):
        vectors = encoder.encode(SHORT)
    assert vectors.dtype == np.float32
    assert 0 < gap(vectors, tiny.encode(SHORT)) < bound


def test_an_unknown_dtype_is_refused(tiny_folder: Path) -> None:
    with pytest.raises(UsageError, match="unknown dtype 'int8'; choose from float32, float64, float16, bfloat16"):
        Encoder.load(str(tiny_folder), dtype="int8")


# Ways of reading


def plain_vectors(encoder: Encoder, layers: list[int], special: bool = True) -> np.ndarray:
    """Mean pooling over the average of layers, text by text, from the states."""
    vectors = []
    for text in encoder.states(SHORT):
        kept = [place for place, flag in enumerate(text.tokens.special) if special or not flag]
        averaged = np.mean([text.hidden[layer] for layer in layers], axis=0)
        vectors.append(averaged[kept].mean(0) if kept else np.zeros(averaged.shape[1]))
    rows = np.array(vectors)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


@pytest.mark.parametrize(
    ("layer", "layers"),
    [
        (0, [0]),
        (1, [1]),
        (2, [2]),
        (-1, [2]),
        (-3, [0]),
        ([0, 2], [0, 2]),
        ([1, -1, 2], [1, 2]),
        ("first-last", [1, 2]),
    ],
)
def test_layers(layer: Layer, layers: list[int], tiny: Encoder) -> None:
    assert gap(tiny.encode(SHORT, layer=layer), plain_vectors(tiny, layers)) < 1e-6


@pytest.mark.parametrize("layer", [3, "first-last", [0, 2, 5]])
def test_layers_of_a_real_model(layer: Layer, minilm: Encoder) -> None:
    layers = [1, 6] if layer == "first-last" else [layer] if isinstance(layer, int) else list(layer)
    assert gap(minilm.encode(SHORT, layer=layer), plain_vectors(minilm, layers)) < 1e-5


@pytest.mark.parametrize("pooling", [*POOLERS, "cls+max"])
def test_poolings(pooling: str, tiny: Encoder) -> None:
    [text] = tiny.states(["the cat sat on a mat"])
    states = torch.from_numpy(text.hidden[-1])[None]
    mask = torch.ones(states.shape[:2], dtype=torch.long)
    pooled = torch.cat([POOLERS[part](states, mask) for part in pooling.split("+")], dim=1).numpy()
    vector = tiny.encode("the cat sat on a mat", pooling=pooling, normalize=False)
    assert gap(vector, pooled[0]) < 1e-5


def test_the_models_own_pooler_equals_hugging_face(tiny: Encoder) -> None:
    ids = torch.tensor([tiny.tokenize(["two dogs run"])[0].ids])
    with torch.no_grad():
        theirs = twin_model(tiny)(ids).pooler_output.numpy()
    assert gap(tiny.encode(["two dogs run"], pooling="pooler", normalize=False), theirs) < 1e-5


def test_special_tokens_can_be_left_out(tiny: Encoder) -> None:
    without = tiny.encode(SHORT, special_tokens=False)
    known = [place for place, text in enumerate(tiny.tokenize(SHORT)) if "[UNK]" not in text.tokens]
    assert len(known) > 5
    assert gap(without[known], plain_vectors(tiny, [2], special=False)[known]) < 1e-6
    assert not without[SHORT.index("")].any(), "nothing is left of an empty text"


def test_unknown_words_are_not_special_tokens(tiny: Encoder) -> None:
    assert gap(tiny.encode(SHORT, special_tokens=False), plain_vectors(tiny, [2], special=False)) < 1e-6
    assert tiny.encode("日本", special_tokens=False).any()


def test_truncate_dim(tiny: Encoder) -> None:
    whole = tiny.encode(SHORT)
    assert np.array_equal(tiny.encode(SHORT, truncate_dim=5), whole[:, :5])
    cut = tiny.encode(SHORT, truncate_dim=5, normalize=True)
    assert np.allclose(np.linalg.norm(cut, axis=1), 1, atol=1e-6)
    assert tiny.with_pooling(truncate_dim=5).dimension == 5


def test_normalize(tiny: Encoder, gpt_neo: Encoder) -> None:
    plain = tiny.encode(SHORT, normalize=False)
    assert np.abs(np.linalg.norm(plain, axis=1) - 1).min() > 1e-3
    unit = plain / np.linalg.norm(plain, axis=1, keepdims=True)
    assert gap(tiny.encode(SHORT, normalize=True), unit) < 1e-6
    assert gap(tiny.encode(SHORT, normalize=None), unit) < 1e-6, "the folder says Normalize"
    texts = ["two dogs run"]
    assert np.array_equal(gpt_neo.encode(texts, normalize=None), gpt_neo.encode(texts, normalize=False))
    assert np.linalg.norm(gpt_neo.encode(texts, normalize=True)) == pytest.approx(1, abs=1e-6)


def test_readings_leave_the_encoder_as_it_is(tiny: Encoder) -> None:
    before = tiny.pooling_config
    read = tiny.with_pooling(layer=1, pooling="cls")
    assert tiny.pooling_config == before and (read.pooling_config.layer, read.pooling_config.pooling) == (1, "cls")
    assert read.model is tiny.model
    assert np.array_equal(read.encode(SHORT), tiny.encode(SHORT, layer=1, pooling="cls"))


@pytest.mark.parametrize(
    ("pooling_config", "message"),
    [
        ({"layer": 3}, "no layer 3; this model has layers 0 to 2"),
        ({"layer": "all"}, "unknown layer 'all'"),
        ({"pooling": "avg"}, "unknown pooling 'avg'"),
        ({"truncate_dim": 0}, "truncate_dim must be at least 1"),
        ({"pooling": "pooler", "layer": 1}, "the model's own pooler takes the last layer only"),
    ],
)
def test_wrong_readings_are_refused(pooling_config: Any, message: str, tiny: Encoder, tiny_folder: Path) -> None:
    for read in (tiny.with_pooling, lambda **options: tiny.encode("a", **options)):
        with pytest.raises(UsageError, match=message):
            read(**pooling_config)
    with pytest.raises(UsageError, match=message):
        Encoder.load(str(tiny_folder), **pooling_config)


def test_a_model_without_a_pooler_says_so(gpt_neo: Encoder) -> None:
    with pytest.raises(ModelError, match="has no pooler; choose from cls, last, max, mean"):
        gpt_neo.with_pooling(pooling="mean+pooler")


# Limits


def test_cut_texts_are_counted_and_logged(tiny: Encoder, caplog: pytest.LogCaptureFixture) -> None:
    texts = ["a " * 30, "a " * 31, "a " * 500]
    assert tiny.encode_with_stats(texts).truncated == 2
    with caplog.at_level(logging.INFO, logger="likewise"):
        tiny.encode(texts)
        assert caplog.messages == ["cut at the model's limit of 32 tokens: 2 of 3 texts"]
        tiny.states(texts)
        assert len(caplog.messages) == 2


def test_nothing_is_logged_where_nothing_is_cut(tiny: Encoder, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="likewise"):
        assert tiny.encode_with_stats(["a " * 30, ""]).truncated == 0
        tiny.encode(["a " * 30, ""])
        tiny.states(["a"])
    assert caplog.messages == []


def test_a_tokenizer_without_special_tokens(gpt_neo: Encoder) -> None:
    assert not gpt_neo.encode("").any()
    assert gpt_neo.encode("").shape == gpt_neo.encode("two dogs").shape == (16,)
    mixed = gpt_neo.encode(["", "two dogs", ""])
    assert not mixed[[0, 2]].any() and mixed[1].any()
    assert gpt_neo.encode([]).shape == (0, 16)


def test_a_text_without_tokens_has_empty_states(gpt_neo: Encoder) -> None:
    empty, full = gpt_neo.states(["", "two dogs"])
    assert empty.hidden.shape == (3, 0, 16) and full.hidden.shape == (3, len(full.tokens), 16)


# Progress


def test_progress_is_told(tiny: Encoder) -> None:
    calls: list[tuple[int, int | None, str]] = []
    tiny.encode(SHORT, progress=lambda *call: calls.append(call))
    assert calls[-1] == (len(SHORT), len(SHORT), "texts")
    assert len(calls) >= 2 and calls == sorted(calls)


def test_cancelling_stops(tiny: Encoder) -> None:
    calls = []

    def cancel(done: int, total: int | None, note: str) -> None:
        calls.append(done)
        raise Cancelled("enough")

    with pytest.raises(Cancelled, match="enough"):
        tiny.encode(SHORT, progress=cancel)
    assert len(calls) == 1 and calls[0] < len(SHORT)


# States


def test_states_come_in_order_with_their_shapes(tiny: Encoder) -> None:
    found = tiny.states(SHORT)
    assert [text.tokens.text for text in found] == SHORT
    for text in found:
        length = len(text.tokens)
        assert text.hidden.shape == (3, length, 16) and text.hidden.dtype == np.float32
        assert text.attention is not None and text.attention.shape == (2, 4, length, length)
        assert np.allclose(text.attention.sum(-1), 1, atol=1e-5)
    assert all(text.attention is None for text in tiny.states(SHORT, attention=False))
    assert tiny.states([]) == []


def test_states_equal_hugging_face(minilm: Encoder) -> None:
    text = SHORT[0]
    [found] = minilm.states([text])
    inputs = twin_tokenizer(minilm)([text], return_tensors="pt")
    with torch.no_grad():
        theirs = twin_model(minilm)(**inputs, output_hidden_states=True, output_attentions=True)
    assert gap(found.hidden, torch.cat(theirs.hidden_states).numpy()) < 1e-4
    assert gap(found.attention, torch.cat(theirs.attentions).numpy()) < 1e-5  # type: ignore[arg-type]


def test_a_pair_is_one_sequence_with_two_types(minilm: Encoder) -> None:
    [found] = minilm.states([("two dogs run", "a cat")])
    assert found.tokens.types == (0, 0, 0, 0, 0, 1, 1, 1)
    inputs = twin_tokenizer(minilm)("two dogs run", "a cat", return_tensors="pt")
    with torch.no_grad():
        theirs = twin_model(minilm)(**inputs).last_hidden_state[0].numpy()
        untyped = twin_model(minilm)(inputs["input_ids"]).last_hidden_state[0].numpy()
    assert gap(found.hidden[-1], theirs) < 1e-4
    assert gap(found.hidden[-1], untyped) > 1e-3


def test_state_batches_hold_equal_lengths(tiny: Encoder) -> None:
    places = []
    for batch in tiny.state_batches(SHORT, budget=40):
        assert batch.attention is None
        assert batch.hidden.shape[:2] == (3, len(batch.indices))
        places += batch.indices
    assert sorted(places) == list(range(len(SHORT)))


def test_the_prompt_is_in_the_states(tiny: Encoder) -> None:
    [with_prompt] = tiny.states(["dogs run"], prompt="two ")
    [plain] = tiny.states(["two dogs run"])
    assert np.array_equal(with_prompt.hidden, plain.hidden)


# Gradients


def test_gradients_reach_the_layers_that_are_read(tiny_folder: Path) -> None:
    encoder = Encoder.load(str(tiny_folder), device="cpu", layer=1)
    batch = Batch(torch.tensor([encoder.tokenize(["two dogs run"])[0].ids]))
    encoder.layer_states(batch).square().sum().backward()
    first, second = encoder.model.encoder.layer.children()
    assert first.attention.self.query.weight.grad.abs().sum() > 0
    assert encoder.model.embeddings.word_embeddings.weight.grad.abs().sum() > 0
    assert second.attention.self.query.weight.grad is None


def test_gradients_pass_pooling_and_heads(tiny_folder: Path) -> None:
    encoder = Encoder.load(str(tiny_folder), device="cpu")
    batch = Batch(torch.tensor([encoder.tokenize(["two dogs run"])[0].ids]))
    vector = encoder.finish(encoder.pool(encoder.layer_states(batch), torch.ones_like(batch.ids)))
    assert gap(vector.detach().numpy()[0], encoder.encode("two dogs run")) < 1e-6
    vector[0, 0].backward()
    assert all(weight.grad is not None for name, weight in encoder.model.named_parameters() if "pooler" not in name)


def test_dropout_is_on_in_training_only(tiny: Encoder) -> None:
    batch = Batch(torch.tensor([tiny.tokenize(["two dogs run"])[0].ids]))
    with torch.no_grad():
        assert torch.equal(tiny.layer_states(batch), tiny.layer_states(batch))
        dropped = tiny.layer_states(batch, TextDropout([(0,)], [batch.ids.shape[1]]))
        assert not torch.equal(tiny.layer_states(batch), dropped)


# The hash


def test_the_hash_names_the_weights(tiny: Encoder, tiny_folder: Path) -> None:
    assert tiny.hash == hashlib.sha256((tiny_folder / "model.safetensors").read_bytes()).hexdigest()
    assert tiny.with_pooling(pooling="cls").hash == tiny.hash


def test_the_hash_of_a_model_in_memory(tiny_folder: Path) -> None:
    theirs = SentenceTransformer(str(tiny_folder), device="cpu")
    before = Encoder.from_sentence_transformer(theirs).hash
    assert before == Encoder.from_sentence_transformer(theirs).hash
    with torch.no_grad():
        theirs[0].model.embeddings.word_embeddings.weight[0, 0] += 1
    assert Encoder.from_sentence_transformer(theirs).hash != before


def test_a_reader_of_batches_can_still_compute_gradients(tiny: Encoder) -> None:
    for _ in tiny.state_batches(["one text", "another text"]):
        assert not torch.is_inference_mode_enabled()


def test_similarity_of_no_texts_is_an_empty_table(tiny: Encoder) -> None:
    assert tiny.similarity([], ["one", "two"]).shape == (0, 2)
