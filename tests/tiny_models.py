"""Tiny random models, one or more of each family, in float64 and as encoders."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers, processors
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedTokenizerFast

from conftest import randomise, tiny_tokenizer
from likewise.encoder import Encoder
from likewise.encoder.families import model_view
from likewise.encoder.pooling import ModulesConfig, PoolingConfig
from likewise.encoder.tokens import Tokenizer, Vocabulary

SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
}
RIM: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": 2}
CONFIGS = {
    "bert": lambda: transformers.BertConfig(**SIZES),
    "bert-relu": lambda: transformers.BertConfig(**SIZES, hidden_act="relu"),
    "roberta": lambda: transformers.RobertaConfig(**(SIZES | {"pad_token_id": 1})),
    "xlm-roberta": lambda: transformers.XLMRobertaConfig(**(SIZES | {"pad_token_id": 1})),
    "distilbert": lambda: transformers.DistilBertConfig(
        vocab_size=60, dim=32, n_layers=3, n_heads=4, hidden_dim=48, max_position_embeddings=40
    ),
    "mpnet": lambda: transformers.MPNetConfig(**(SIZES | {"pad_token_id": 1})),
    "albert": lambda: transformers.AlbertConfig(**SIZES, embedding_size=16, num_hidden_groups=1, inner_group_num=2),
    "albert-dropout": lambda: transformers.AlbertConfig(
        **SIZES, embedding_size=16, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
    ),
    "electra": lambda: transformers.ElectraConfig(**SIZES, embedding_size=16),
    "electra-same-width": lambda: transformers.ElectraConfig(**SIZES, embedding_size=32),
    "gpt_neo": lambda: transformers.GPTNeoConfig(
        vocab_size=60, hidden_size=32, num_layers=4, num_heads=4, attention_types=[[["global", "local"], 2]],
        window_size=4, max_position_embeddings=40, resid_dropout=0.1, embed_dropout=0.1, attention_dropout=0.1, **RIM,
    ),
    "modernbert": lambda: transformers.ModernBertConfig(
        **SIZES, local_attention=6, global_attn_every_n_layers=2, cls_token_id=1, sep_token_id=2,
        attention_dropout=0.1, mlp_dropout=0.1, embedding_dropout=0.1, **RIM,
    ),
    "qwen3": lambda: transformers.Qwen3Config(
        **SIZES, num_key_value_heads=2, head_dim=8, attention_dropout=0.1, **RIM
    ),
    "qwen3-sliding": lambda: transformers.Qwen3Config(
        **SIZES, num_key_value_heads=2, head_dim=8, use_sliding_window=True, sliding_window=4, max_window_layers=1,
        **RIM,
    ),
}  # fmt: skip
BIASES = {"norm_bias": True, "mlp_bias": True, "attention_bias": True}
"""What a ModernBERT or a Qwen3 has no biases without."""


class NoDowncast(TorchFunctionMode):
    """Lifts Hugging Face's casts to float32 (in GPT-Neo, ModernBERT, Qwen3), so that float64 stays float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def lifted(value: Any) -> Any:
            return torch.float64 if value is torch.float32 else value

        func = torch.Tensor.double if func is torch.Tensor.float else func
        return func(*map(lifted, args), **{name: lifted(value) for name, value in (kwargs or {}).items()})


def make_model(name: str, seed: int, **changes: Any) -> Any:
    torch.manual_seed(seed)
    config = CONFIGS[name]()
    for setting, value in changes.items():
        setattr(config, setting, value)
    model = transformers.AutoModel.from_config(config, attn_implementation="eager").double()
    randomise(model)
    return model.eval()


@cache
def shared_tokenizer() -> PreTrainedTokenizerFast:
    return tiny_tokenizer()


@cache
def spelling_tokenizer() -> PreTrainedTokenizerFast:
    """Knows letters only and calls its special tokens <s> and </s>."""
    characters = "abcdefghijklmnopqrstuvwxyz"
    entries = ["<pad>", "<unk>", "<s>", "</s>", *characters, *(f"##{letter}" for letter in characters), *".,!?'"]
    backend = Backend(models.WordPiece({entry: place for place, entry in enumerate(entries)}, unk_token="<unk>"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    roles = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=64, **roles)


def tiny_encoder(
    name: str = "bert",
    seed: int = 0,
    modules_config: ModulesConfig | None = None,
    tokenizer: PreTrainedTokenizerFast | None = None,
    config: dict[str, Any] | None = None,
    **pooling_config: Any,
) -> Encoder:
    """A tiny encoder in float64."""
    modules_config, words = modules_config or ModulesConfig(), tokenizer or shared_tokenizer()
    model = make_model(name, seed, **({"vocab_size": len(words)} | (config or {})))
    views = model_view(model)
    read = PoolingConfig(**({"pooling": modules_config.pooling} | pooling_config))
    limited = Tokenizer(Vocabulary.of(words), min(2048, views.max_positions))
    return Encoder(name, model, model_view=views, tokenizer=limited, modules_config=modules_config, pooling_config=read)
