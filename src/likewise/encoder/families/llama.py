"""Llama and its descendants: Mistral, Qwen 2 and 3, EuroBERT."""

from __future__ import annotations

from likewise.encoder.families.family import Family
from likewise.encoder.model_view import Attention, Block, Config, Embeddings, FeedForward, ModelView, Parts, Rotary
from likewise.encoder.rotary import KINDS, SLIDING, check_kinds, rotary


def _attention(parts: Parts, name: str, kind: str, positions: Rotary) -> Attention:
    width, head, family = parts["hidden_size"], _head(parts), parts["model_type"]
    heads, key_heads = parts["num_attention_heads"], parts["num_key_value_heads"]
    # Qwen 2 has biases for queries, keys and values, and Mistral has none, whatever their configs say.
    bias = family == "qwen2" or parts.config.get("attention_bias", False)
    normed, causal = family == "qwen3", family != "eurobert" and parts.config.get("is_causal", True)
    window = parts.config.get("sliding_window") or 0
    return Attention(
        query=parts.linear(f"{name}.q_proj", width, heads * head, bias),
        key=parts.linear(f"{name}.k_proj", width, key_heads * head, bias),
        value=parts.linear(f"{name}.v_proj", width, key_heads * head, bias),
        output=parts.linear(f"{name}.o_proj", heads * head, width, bias and family != "qwen2"),
        heads=heads, key_heads=key_heads, scale=head**-0.5, causal=causal, rotary=positions,
        reach=(window - 1 if causal else window) if kind == SLIDING else None,
        query_norm=parts.rms_norm(f"{name}.q_norm", head, parts["rms_norm_eps"]) if normed else None,
        key_norm=parts.rms_norm(f"{name}.k_norm", head, parts["rms_norm_eps"]) if normed else None,
        map_dropout=parts["attention_dropout"],
    )  # fmt: skip


def gated(parts: Parts, name: str, activation: str, bias: bool = False) -> FeedForward:
    """The feed-forward layer that most decoders have."""
    width, inner = parts["hidden_size"], parts["intermediate_size"]
    return FeedForward(
        up=parts.linear(f"{name}.gate_proj", width, inner, bias), activation=activation,
        down=parts.linear(f"{name}.down_proj", inner, width, bias),
        gate=parts.linear(f"{name}.up_proj", width, inner, bias),
    )  # fmt: skip


def _block(parts: Parts, name: str, kind: str, positions: Rotary) -> Block:
    width, eps = parts["hidden_size"], parts["rms_norm_eps"]
    return Block(
        attention=_attention(parts, f"{name}.self_attn", kind, positions),
        attention_norm=parts.rms_norm(f"{name}.input_layernorm", width, eps),
        feed_forward=gated(parts, f"{name}.mlp", parts["hidden_act"], parts.config.get("mlp_bias", False)),
        feed_forward_norm=parts.rms_norm(f"{name}.post_attention_layernorm", width, eps), pre_norm=True,
    )  # fmt: skip


def _head(parts: Parts) -> int:
    own = parts.config.get("head_dim")
    return int(own or parts.head_width(parts["hidden_size"], parts["num_attention_heads"]))


def _kinds(parts: Parts) -> list[str]:
    """The kind of attention of each layer."""
    layers = parts["num_hidden_layers"]
    if "use_sliding_window" not in parts.config:
        return [KINDS[parts.config.get("sliding_window") is not None]] * layers
    window = parts["sliding_window"] if parts["use_sliding_window"] else None
    first = layers if window is None else parts["max_window_layers"]
    kinds = parts["layer_types"] or [KINDS[layer >= first] for layer in range(layers)]
    check_kinds(kinds, KINDS if window else KINDS[:1], layers)
    return list(kinds)


def _llama(parts: Parts) -> ModelView:
    width = parts["hidden_size"]
    word = parts.table("embed_tokens", parts["vocab_size"], width, parts["pad_token_id"])
    positions = rotary(parts.config, _head(parts), word)
    return ModelView(
        parts["model_type"], Embeddings(word),
        blocks=tuple(_block(parts, f"layers.{layer}", kind, positions) for layer, kind in enumerate(_kinds(parts))),
        hidden_size=width, max_positions=parts["max_position_embeddings"],
        final_norm=parts.rms_norm("norm", width, parts["rms_norm_eps"]),
    )  # fmt: skip


_LLAMA: Config = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": None, "head_dim": None, "hidden_act": "silu",
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_parameters": None, "attention_bias": False,
    "mlp_bias": False, "attention_dropout": 0.0, "pad_token_id": None,
}  # fmt: skip
_MISTRAL = {name: value for name, value in _LLAMA.items() if not name.endswith("_bias")} | {
    "intermediate_size": 14336, "num_key_value_heads": 8, "max_position_embeddings": 131072, "sliding_window": 4096,
}  # fmt: skip
_QWEN3 = {name: value for name, value in _LLAMA.items() if name != "mlp_bias"} | {
    "vocab_size": 151936, "intermediate_size": 22016, "num_key_value_heads": 32, "head_dim": 128,
    "max_position_embeddings": 32768, "use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28,
    "layer_types": None,
}  # fmt: skip
_QWEN2 = {name: value for name, value in _QWEN3.items() if name not in ("attention_bias", "head_dim")}
_EUROBERT = _LLAMA | {
    "vocab_size": 128256, "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
    "num_attention_heads": 12, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "pad_token_id": 128001,
}  # fmt: skip

FAMILIES = {
    "eurobert": Family(_llama, "EuroBertModel", _EUROBERT),
    "llama": Family(_llama, "LlamaModel", _LLAMA, decoder=True, passed=("is_causal",)),
    "mistral": Family(_llama, "MistralModel", _MISTRAL, decoder=True, passed=("is_causal",)),
    "qwen2": Family(
        _llama, "Qwen2Model", _QWEN2, decoder=True, passed=("is_causal",), may_be_zero=("max_window_layers",)
    ),
    "qwen3": Family(
        _llama, "Qwen3Model", _QWEN3, decoder=True, passed=("is_causal",), may_be_zero=("max_window_layers",)
    ),
}
