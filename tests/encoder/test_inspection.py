"""Inspection tells the truth about tokens, padding, special tokens and shapes."""

from __future__ import annotations

import json

import pytest
import torch

from likewise.encoder import Encoder
from likewise.encoder.inspection import inspect
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.errors import DataError
from likewise.sample import sample_sentences
from twins import twin_model, twin_tokenizer

TEXTS = ["Two dogs run in the park.", "A cat 😀"]


def test_tokens_and_padding(minilm: Encoder) -> None:
    longer, shorter = inspect(minilm, TEXTS).texts
    assert [token.token for token in longer.tokens[:3]] == ["[CLS]", "two", "dogs"]
    assert len(shorter.tokens) == len(longer.tokens) == 9
    assert [token.token for token in shorter.tokens] == ["[CLS]", "a", "cat", "[UNK]", "[SEP]"] + ["[PAD]"] * 4
    assert [token.mask for token in shorter.tokens] == [1] * 5 + [0] * 4
    assert [token.special for token in shorter.tokens] == [True, False, False, False, True] + [True] * 4
    assert [shorter.text[slice(*token.span)] for token in shorter.tokens[1:4]] == ["A", "cat", "😀"]
    assert shorter.decoded == "[CLS] a cat [UNK] [SEP]"
    assert {token.id for token in shorter.tokens[5:]} == {0}


def test_padding_equals_hugging_face(minilm: Encoder) -> None:
    theirs = twin_tokenizer(minilm)(TEXTS, padding=True)
    ours = inspect(minilm, TEXTS).texts
    assert [[token.id for token in text.tokens] for text in ours] == theirs["input_ids"]
    assert [[token.mask for token in text.tokens] for text in ours] == theirs["attention_mask"]
    assert [[token.type for token in text.tokens] for text in ours] == theirs["token_type_ids"]


def test_shapes_equal_hugging_face(minilm: Encoder) -> None:
    outputs = inspect(minilm, TEXTS).outputs
    inputs = twin_tokenizer(minilm)(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        theirs = twin_model(minilm)(**inputs, output_hidden_states=True, output_attentions=True)
    assert outputs == {
        "embeddings": str(tuple(theirs.hidden_states[0].shape)),
        "hidden_states": f"{len(theirs.hidden_states)} x {tuple(theirs.hidden_states[1].shape)}",
        "attentions": f"{len(theirs.attentions)} x {tuple(theirs.attentions[0].shape)}",
        "last_hidden_state": str(tuple(theirs.last_hidden_state.shape)),
        "pooler_output": str(tuple(theirs.pooler_output.shape)),
        "sentence_vectors": str(minilm.encode(TEXTS).shape),
    }


def test_the_model_in_numbers(minilm: Encoder) -> None:
    metadata = inspect(minilm, TEXTS).model
    config = twin_model(minilm).config
    assert (metadata.name, metadata.family, metadata.pooling) == ("minilm", "bert", "mean")
    assert metadata.vocabulary == config.vocab_size == 30522
    assert metadata.layers == config.num_hidden_layers == 6
    assert metadata.heads == config.num_attention_heads == 12
    assert metadata.hidden_size == metadata.dimension == 384
    assert metadata.feed_forward_size == config.intermediate_size == 1536
    assert metadata.parameters == twin_model(minilm).num_parameters()
    assert metadata.max_tokens == 256


def test_special_tokens_have_a_purpose(minilm: Encoder) -> None:
    found = {special.role: special for special in inspect(minilm, TEXTS).special_tokens}
    assert list(found) == ["cls", "sep", "pad", "mask", "unk"]
    assert {role: (special.token, special.id) for role, special in found.items()} == {
        "cls": ("[CLS]", 101),
        "sep": ("[SEP]", 102),
        "pad": ("[PAD]", 0),
        "mask": ("[MASK]", 103),
        "unk": ("[UNK]", 100),
    }
    assert "separates the two texts of a pair" in found["sep"].purpose
    assert all(special.purpose for special in found.values())


@pytest.mark.data
def test_prompts(e5: Encoder) -> None:
    inspection = inspect(e5, ["dogs"])
    assert [token.token for token in inspection.texts[0].tokens] == ["[CLS]", "query", ":", "dogs", "[SEP]"]
    assert [token.token for token in inspect(e5, ["dogs"], prompt="").texts[0].tokens] == ["[CLS]", "dogs", "[SEP]"]
    assert inspection.model.prompts == {"query": "query: ", "passage": "passage: "}


def test_a_cut_text_is_marked(tiny: Encoder) -> None:
    short, long = inspect(tiny, ["a", "a " * 100]).texts
    assert not short.truncated and long.truncated
    assert len(long.tokens) == tiny.tokenizer.limit


def test_the_result_is_json(tiny: Encoder) -> None:
    inspection = inspect(tiny, ["a b", "", "lone \ud83d surrogate"])
    found = json.loads(json.dumps(inspection.to_dict()))
    assert list(found) == ["model", "special_tokens", "texts", "outputs"]
    assert found["texts"][0]["tokens"][1] == {
        "token": "a", "id": 5, "type": 0, "mask": 1, "special": False, "span": [0, 1],
    }  # fmt: skip


def test_the_vectors_shape_is_the_encoders(tiny: Encoder) -> None:
    fitted = fit_postprocessing("whitening", tiny.encode(sample_sentences()[:40]), 5)
    variants = [tiny.with_pooling(truncate_dim=3), tiny.with_pooling(pooling="cls+mean")]
    for encoder in [*variants, tiny.with_postprocessing(fitted)]:
        inspection = inspect(encoder, TEXTS)
        assert inspection.outputs["sentence_vectors"] == str(encoder.encode(TEXTS).shape)
        assert inspection.model.dimension == encoder.dimension


def test_no_texts(tiny: Encoder) -> None:
    with pytest.raises(DataError, match="no text to inspect; give at least one"):
        inspect(tiny, [])
