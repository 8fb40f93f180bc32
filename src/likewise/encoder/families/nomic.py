"""BERTs with rotary positions: Nomic, GTE and Jina v3, as transformers has them and as they were first published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from likewise.encoder.families.family import Family
from likewise.encoder.model_view import Attention, Block, Config, Embeddings, FeedForward, ModelView, Parts, Rotary
from likewise.encoder.rotary import rotary
from likewise.errors import ModelError

_THETAS = {"nomic_bert": 1_000.0, "gte": 160_000.0, "jina_embeddings_v3": 20_000.0}


def _block(parts: Parts, name: str, positions: Rotary) -> Block:
    width, heads, eps = parts["hidden_size"], parts["num_attention_heads"], parts["layer_norm_eps"]
    biases, dropout = parts["model_type"] != "nomic_bert", parts["hidden_dropout_prob"]
    head = parts.config.get("head_dim") or parts.head_width(width, heads)
    query, key, value = (parts.linear(f"{name}.self_attn.{each}_proj", width, heads * head, biases) for each in "qkv")
    attention = Attention(
        query=query, key=key, value=value,
        output=parts.linear(f"{name}.self_attn.o_proj", heads * head, width, biases),
        heads=heads, key_heads=heads, scale=head**-0.5, rotary=positions,
        map_dropout=parts["attention_probs_dropout_prob"], output_dropout=dropout,
    )  # fmt: skip
    return Block(
        attention, parts.layer_norm(f"{name}.post_attention_layernorm", width, eps),
        _feed_forward(parts, f"{name}.mlp"), parts.layer_norm(f"{name}.post_mlp_layernorm", width, eps),
    )  # fmt: skip


def _feed_forward(parts: Parts, name: str) -> FeedForward:
    width, inner, family = parts["hidden_size"], parts["intermediate_size"], parts["model_type"]
    common: Any = {"activation": parts["hidden_act"], "output_dropout": parts["hidden_dropout_prob"]}
    if family == "jina_embeddings_v3":
        return FeedForward(
            parts.linear(f"{name}.fc1", width, inner), parts.linear(f"{name}.fc2", inner, width), **common
        )
    return FeedForward(
        up=parts.linear(f"{name}.gate_proj", width, inner, bias=False),
        down=parts.linear(f"{name}.down_proj", inner, width, bias=family == "gte"),
        gate=parts.linear(f"{name}.up_proj", width, inner, bias=False),
        inner_dropout=parts["hidden_dropout_prob"] if family == "gte" else None, **common,
    )  # fmt: skip


def _rotary_bert(parts: Parts) -> ModelView:
    width, types, eps = parts["hidden_size"], parts["type_vocab_size"], parts["layer_norm_eps"]
    word = parts.table("embeddings.word_embeddings", parts["vocab_size"], width, parts["pad_token_id"])
    head = parts.config.get("head_dim") or parts.head_width(width, parts["num_attention_heads"])
    positions = rotary(parts.config, head, word, _THETAS[parts["model_type"]])
    return ModelView(
        parts["model_type"],
        Embeddings(
            word, type=parts.table("embeddings.token_type_embeddings", types, width) if types else None,
            norm=parts.layer_norm("embeddings.LayerNorm", width, eps), dropout=parts["hidden_dropout_prob"],
        ),
        blocks=tuple(_block(parts, f"layers.{layer}", positions) for layer in range(parts["num_hidden_layers"])),
        hidden_size=width, max_positions=parts["max_position_embeddings"],
        pooler=parts.pooler("pooler.dense", width) if parts["model_type"] == "jina_embeddings_v3" else None,
    )  # fmt: skip


def _required(config: Mapping[str, Any], wanted: Mapping[str, tuple[Any, ...]]) -> None:
    """Reject settings of the published code that the class of transformers does not have."""
    for name, values in wanted.items():
        if name in config and config[name] not in values:
            raise ModelError(f"{name} {config[name]!r} is not supported (known: {values[0]!r}); use another model")


_OLD_NOMIC = {
    "n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
    "n_inner": "intermediate_size", "n_positions": "max_position_embeddings", "layer_norm_epsilon": "layer_norm_eps",
    "resid_pdrop": "hidden_dropout_prob", "attn_pdrop": "attention_probs_dropout_prob",
    "rotary_emb_base": "rope_theta", "activation_function": "hidden_act",
}  # fmt: skip
_GATED = {"swiglu": "silu", "geglu": "gelu"}


def _nomic(config: Mapping[str, Any]) -> Config:
    if config.get("moe_every_n_layers") or config.get("num_experts"):
        raise ModelError("a Nomic model with experts (v2-moe) is not supported; use nomic-ai/nomic-embed-text-v1.5")
    _required(config, {
        "prenorm": (False,), "use_rms_norm": (False, None), "parallel_block": (False,), "rotary_emb_fraction": (1, 1.0),
        "rotary_emb_interleaved": (False,), "rotary_emb_scale_base": (None,), "qkv_proj_bias": (False,),
        "mlp_fc1_bias": (False,), "mlp_fc2_bias": (False,), "causal": (False,), "activation_function": tuple(_GATED),
    })  # fmt: skip
    given = {_OLD_NOMIC.get(name, name): value for name, value in config.items() if name != "auto_map"}
    return given | {"model_type": "nomic_bert", "hidden_act": _GATED.get(given.get("hidden_act", "swiglu"), "silu")}


def _gte(config: Mapping[str, Any]) -> Config:
    _required(config, {
        "position_embedding_type": ("rope",), "layer_norm_type": ("layer_norm",), "logn_attention_scale": (False,),
        "pack_qkv": (True,), "logn_attention_clip1": (False,),
    })  # fmt: skip
    dropped = ("auto_map", "position_embedding_type")
    return {name: value for name, value in config.items() if name not in dropped} | {"model_type": "gte"}


def _jina(config: Mapping[str, Any]) -> Config:
    _required(config, {"position_embedding_type": ("rotary",)})
    given = {name: value for name, value in config.items() if name not in ("auto_map", "position_embedding_type")}
    return given | {"model_type": "jina_embeddings_v3", "rope_theta": config.get("rotary_emb_base", 10_000.0)}


_ROTARY_BERT: Config = {
    "vocab_size": 30528, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072, "hidden_act": "silu", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
    "max_position_embeddings": 2048, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
    "rope_parameters": None,
}  # fmt: skip
_GTE = _ROTARY_BERT | {
    "vocab_size": 250048, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "max_position_embeddings": 8192,
    "type_vocab_size": 1, "pad_token_id": 1,
}  # fmt: skip
_JINA = _GTE | {
    "vocab_size": 250002, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
    "intermediate_size": 4096, "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 8194,
    "layer_norm_eps": 1e-5,
}  # fmt: skip
_QKV = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")

FAMILIES = {
    "gte": Family(
        _rotary_bert, "GteModel", _GTE, prefixes=("gte.", "new."), may_be_zero=("type_vocab_size",),
        renamed={
            "encoder.layer.": "layers.", "attention.o_proj": "self_attn.o_proj", "attn_ln": "post_attention_layernorm",
            "mlp_ln": "post_mlp_layernorm",
        },
        split={"attention.qkv_proj": _QKV, "mlp.up_gate_proj": ("mlp.up_proj", "mlp.gate_proj")},
    ),
    "jina_embeddings_v3": Family(
        _rotary_bert, "JinaEmbeddingsV3Model", _JINA, prefixes=("roberta.",),
        renamed={
            ".parametrizations.weight.original": ".weight", "emb_ln": "embeddings.LayerNorm",
            "encoder.layers.": "layers.", "mixer.out_proj": "self_attn.o_proj", "norm1": "post_attention_layernorm",
            "norm2": "post_mlp_layernorm",
        },
        split={"mixer.Wqkv": _QKV},
    ),
    "nomic_bert": Family(
        _rotary_bert, "NomicBertModel", _ROTARY_BERT, prefixes=("nomic_bert.",), passed=("head_dim",),
        renamed={
            "encoder.layers.": "layers.", "emb_ln": "embeddings.LayerNorm", "attn.out_proj": "self_attn.o_proj",
            "fc11": "up_proj", "fc12": "gate_proj", "fc2": "down_proj", "norm1": "post_attention_layernorm",
            "norm2": "post_mlp_layernorm",
        },
        split={"attn.Wqkv": _QKV},
    ),
}  # fmt: skip
LAYOUTS = {"NomicBertModel": _nomic, "NewModel": _gte, "XLMRobertaLoRA": _jina, "XLMRobertaModel": _jina}
"""By the class of their published code."""
