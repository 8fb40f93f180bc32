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
from transformers.models.deberta_v2 import modeling_deberta_v2

from conftest import randomise, tiny_tokenizer
from likewise.encoder import Encoder
from likewise.encoder.families import FAMILIES
from likewise.encoder.pooling import ModulesConfig, PoolingConfig
from likewise.encoder.tokens import Tokenizer, Vocabulary
from likewise.encoder.weights import model_view

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
T5_SIZES: dict[str, Any] = {"vocab_size": 60, "d_model": 32, "d_kv": 6, "d_ff": 48, "num_layers": 3, "num_heads": 4}
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
    "ernie": lambda: transformers.ErnieConfig(**SIZES),
    "camembert": lambda: transformers.CamembertConfig(**(SIZES | {"pad_token_id": 1})),
    "nomic_bert": lambda: transformers.NomicBertConfig(
        **SIZES, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
    ),
    "gte": lambda: transformers.GteConfig(**(SIZES | {"pad_token_id": 1}), attention_probs_dropout_prob=0.1),
    "jina_embeddings_v3": lambda: transformers.JinaEmbeddingsV3Config(**(SIZES | {"pad_token_id": 1})),
    "eurobert": lambda: transformers.EuroBertConfig(
        **SIZES, num_key_value_heads=2, attention_dropout=0.1, classifier_pooling="mean", **RIM
    ),
    "llama": lambda: transformers.LlamaConfig(**SIZES, num_key_value_heads=2, attention_dropout=0.1, **RIM),
    "mistral": lambda: transformers.MistralConfig(
        **SIZES, num_key_value_heads=2, sliding_window=4, attention_dropout=0.1, **RIM
    ),
    "qwen2": lambda: transformers.Qwen2Config(**SIZES, num_key_value_heads=2, attention_dropout=0.1, **RIM),
    "gemma3_text": lambda: transformers.Gemma3TextConfig(
        **SIZES, num_key_value_heads=2, head_dim=8, query_pre_attn_scalar=10, sliding_window=4, attention_dropout=0.1,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], **RIM,
    ),
    "embedding_gemma2": lambda: transformers.EmbeddingGemma2TextConfig(
        **SIZES, num_key_value_heads=2, head_dim=8, global_head_dim=16, num_global_key_value_heads=1, sliding_window=3,
        layer_types=["sliding_attention", "full_attention", "full_attention"], hidden_size_per_layer_input=8,
        embedding_dim=32, attention_dropout=0.1, **RIM,
    ),
    "t5": lambda: transformers.T5Config(**T5_SIZES),
    "mt5": lambda: transformers.MT5Config(**T5_SIZES),
    "deberta-v2": lambda: transformers.DebertaV2Config(
        **SIZES, relative_attention=True, position_buckets=6, max_relative_positions=-1,
        pos_att_type=["p2c", "c2p"], norm_rel_ebd="layer_norm", share_att_key=True, position_biased_input=False,
    ),
    "qwen3-sliding": lambda: transformers.Qwen3Config(
        **SIZES, num_key_value_heads=2, head_dim=8, use_sliding_window=True, sliding_window=4, max_window_layers=1,
        **RIM,
    ),
}  # fmt: skip
VARIANTS = {
    "gte-no-types": lambda: transformers.GteConfig(**SIZES, type_vocab_size=0, rope_parameters={
        "rope_type": "linear", "factor": 2.0, "rope_theta": 500.0
    }),
    "llama-biases": lambda: transformers.LlamaConfig(
        **SIZES, attention_bias=True, mlp_bias=True, head_dim=6, is_causal=False, **RIM
    ),
    "mistral-full": lambda: transformers.MistralConfig(
        **SIZES, num_key_value_heads=2, sliding_window=None, is_causal=False, **RIM
    ),
    "mistral-both-ways": lambda: transformers.MistralConfig(
        **SIZES, num_key_value_heads=2, sliding_window=3, is_causal=False, **RIM
    ),
    "gemma3-both-ways": lambda: transformers.Gemma3TextConfig(
        **SIZES, num_key_value_heads=2, head_dim=12, query_pre_attn_scalar=8, sliding_window=6,
        use_bidirectional_attention=True, sliding_window_pattern=2, **RIM,
    ),
    "t5-gated": lambda: transformers.T5Config(**T5_SIZES, feed_forward_proj="gated-gelu"),
    "deberta-own-projections": lambda: transformers.DebertaV2Config(
        **SIZES, relative_attention=True, pos_att_type="c2p", type_vocab_size=2
    ),
    "embedding_gemma2-narrow": lambda: transformers.EmbeddingGemma2TextConfig(
        **SIZES, num_key_value_heads=2, head_dim=8, sliding_window=3, hidden_size_per_layer_input=4, embedding_dim=24,
        attention_bias=True, **RIM,
    ),
}  # fmt: skip
"""Other settings of these families."""
EVERY = CONFIGS | VARIANTS
BIASES = {"norm_bias": True, "mlp_bias": True, "attention_bias": True}
"""What a ModernBERT or a Qwen3 has no biases without."""


def exact_scale(query: torch.Tensor, factor: int) -> torch.Tensor:
    """DeBERTa's scale of scores, which its own function rounds to float32."""
    return torch.tensor(query.size(-1) * factor, dtype=torch.float64).sqrt()


modeling_deberta_v2.scaled_size_sqrt = exact_scale


class NoDowncast(TorchFunctionMode):
    """Lifts Hugging Face's casts to float32 (in GPT-Neo, ModernBERT, Qwen3), so that float64 stays float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def lifted(value: Any) -> Any:
            return torch.float64 if value is torch.float32 else value

        func = torch.Tensor.double if func is torch.Tensor.float else func
        return func(*map(lifted, args), **{name: lifted(value) for name, value in (kwargs or {}).items()})


def model_class(config: Any) -> Any:
    """The class of transformers that is the encoder alone."""
    return getattr(transformers, FAMILIES[config.model_type].architecture)


def unround(model: Any) -> None:
    """Set Gemma's scale of embeddings, which was rounded to float32, to its value in float64."""
    for part in model.modules():
        if hasattr(part, "scalar_embed_scale"):
            part.embed_scale.fill_(part.scalar_embed_scale)


def make_model(name: str, seed: int, **changes: Any) -> Any:
    torch.manual_seed(seed)
    config = EVERY[name]()
    for setting, value in changes.items():
        setattr(config, setting, value)
    config._attn_implementation = "eager"
    model = model_class(config)(config).double()
    unround(model)
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
