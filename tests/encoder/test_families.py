"""Families, activations and set-ups that our forward pass does not know are refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import transformers

from conftest import tiny_tokenizer
from likewise.encoder import Encoder
from likewise.encoder.families import FAMILIES
from likewise.encoder.model_view import ACTIVATIONS
from likewise.encoder.weights import model_view
from likewise.errors import ModelError

BERT: dict[str, Any] = {
    "vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12,
}  # fmt: skip


@pytest.mark.parametrize(
    "config",
    [
        transformers.GPT2Config(vocab_size=30, n_embd=8, n_layer=1, n_head=2, n_positions=16),
        transformers.BloomConfig(vocab_size=30, hidden_size=8, n_layer=1, n_head=2),
    ],
    ids=lambda config: config.model_type,
)
def test_an_unsupported_family_is_refused(config: Any) -> None:
    with pytest.raises(ModelError) as raised:
        model_view(transformers.AutoModel.from_config(config))
    names = ", ".join(sorted(FAMILIES))
    assert str(raised.value) == f"model family {config.model_type!r} is not supported; supported are {names}"
    assert names.startswith("albert, bert, camembert, deberta-v2, ")


def test_loading_an_unsupported_family_is_refused(tmp_path: Path) -> None:
    config = transformers.GPT2Config(vocab_size=500, n_embd=8, n_layer=1, n_head=2, n_positions=16)
    transformers.GPT2Model(config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="model family 'gpt2' is not supported"):
        Encoder.load(str(tmp_path))


def test_an_unsupported_activation_is_refused() -> None:
    model = transformers.BertModel(transformers.BertConfig(**BERT, hidden_act="quick_gelu"))
    with pytest.raises(ModelError, match="activation 'quick_gelu' is not supported; supported are gelu, gelu_new"):
        model_view(model)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_equal_hugging_face(name: str) -> None:
    import torch
    from transformers.activations import ACT2FN

    x = torch.linspace(-6, 6, 101, dtype=torch.float64)
    assert torch.allclose(ACTIVATIONS[name](x), ACT2FN[name](x), atol=1e-12, rtol=0)


def test_a_decoder_is_refused() -> None:
    model = transformers.BertModel(transformers.BertConfig(**BERT, is_decoder=True))
    with pytest.raises(ModelError, match="a bert model set up as a decoder is not supported; use it as an encoder"):
        model_view(model)


def test_views_share_the_weights() -> None:
    model = transformers.BertModel(transformers.BertConfig(**BERT))
    views = model_view(model)
    model.encoder.layer[0].attention.self.query.weight.data.fill_(7)
    assert (views.blocks[0].attention.query.weight == 7).all()
    assert views.embeddings.word.weight is model.embeddings.word_embeddings.weight
