"""Gemma 3 and EmbeddingGemma 2, as text encoders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from likewise.encoder.families.family import Family
from likewise.encoder.families.llama import gated
from likewise.encoder.model_view import (
    Affine,
    Attention,
    Block,
    Config,
    Embeddings,
    InputGate,
    ModelView,
    Norm,
    Parts,
    Rotary,
)
from likewise.encoder.rotary import FULL, KINDS, ROPE_THETA, SLIDING, check_kinds, rotary_of_kind
from likewise.errors import ModelError


def _attention(parts: Parts, name: str, layer: int, positions: Rotary, offset: float, **more: Any) -> Attention:
    width, heads, bias = parts["hidden_size"], parts["num_attention_heads"], parts["attention_bias"]
    head, key_heads = _head_sizes(parts, layer)
    return Attention(
        query=parts.linear(f"{name}.q_proj", width, heads * head, bias),
        key=parts.linear(f"{name}.k_proj", width, key_heads * head, bias),
        value=parts.linear(f"{name}.v_proj", width, key_heads * head, bias),
        output=parts.linear(f"{name}.o_proj", heads * head, width, bias),
        heads=heads, key_heads=key_heads, rotary=positions, map_dropout=parts["attention_dropout"],
        query_norm=parts.rms_norm(f"{name}.q_norm", head, parts["rms_norm_eps"], offset),
        key_norm=parts.rms_norm(f"{name}.k_norm", head, parts["rms_norm_eps"], offset), **more,
    )  # fmt: skip


def _head_sizes(parts: Parts, layer: int) -> tuple[int, int]:
    """The width of a head and the number of key heads, which EmbeddingGemma 2 sets by layer."""
    own = (parts.config.get("per_layer_config") or {}).get(str(layer)) or {}
    return own.get("head_dim", parts["head_dim"]), own.get("num_key_value_heads", parts["num_key_value_heads"])


def _block(parts: Parts, name: str, attention: Attention, offset: float) -> Block:
    def norm(which: str) -> Norm:
        return parts.rms_norm(f"{name}.{which}_layernorm", parts["hidden_size"], parts["rms_norm_eps"], offset)

    return Block(
        attention, norm("input"), gated(parts, f"{name}.mlp", parts["hidden_activation"]), norm("pre_feedforward"),
        pre_norm=True, attention_output_norm=norm("post_attention"),
        feed_forward_output_norm=norm("post_feedforward"),
    )  # fmt: skip


def _kinds(parts: Parts) -> list[str]:
    layers, every = parts["num_hidden_layers"], parts.config.get("sliding_window_pattern", 6)
    kinds = list(parts["layer_types"] or [KINDS[bool((layer + 1) % every)] for layer in range(layers)])
    check_kinds(kinds, KINDS, layers)
    return kinds


def _embeddings(parts: Parts) -> Embeddings:
    width = parts["hidden_size"]
    word = parts.table("embed_tokens", parts["vocab_size"], width, parts["pad_token_id"])
    return Embeddings(word, scale=width**0.5)


def _gemma3(parts: Parts) -> ModelView:
    if parts["attn_logit_softcapping"] is not None:
        raise ModelError("a Gemma that caps its attention scores is not supported; use a Gemma 3 model")
    width, kinds, embeddings = parts["hidden_size"], _kinds(parts), _embeddings(parts)
    both, window = bool(parts["use_bidirectional_attention"]), parts["sliding_window"]
    thetas = {
        FULL: parts.config.get("rope_theta", 1_000_000.0), SLIDING: parts.config.get("rope_local_base_freq", ROPE_THETA)
    }  # fmt: skip

    def block(layer: int, kind: str) -> Block:
        positions = rotary_of_kind(
            parts.config, kind, thetas[kind], parts["head_dim"], embeddings.word, scaled=kind == FULL
        )
        # In both directions the window is half to the left, half to the right.
        reach = (window // 2 if both else window - 1) if kind == SLIDING else None
        attention = _attention(
            parts, f"layers.{layer}.self_attn", layer, positions, 1.0,
            scale=parts["query_pre_attn_scalar"] ** -0.5, causal=not both, reach=reach,
        )  # fmt: skip
        return _block(parts, f"layers.{layer}", attention, 1.0)

    return ModelView(
        parts["model_type"], embeddings, blocks=tuple(block(layer, kind) for layer, kind in enumerate(kinds)),
        hidden_size=width, max_positions=parts["max_position_embeddings"],
        final_norm=parts.rms_norm("norm", width, parts["rms_norm_eps"], 1.0),
    )  # fmt: skip


def _embedding_gemma2(parts: Parts) -> ModelView:
    width, eps, kinds, embeddings = parts["hidden_size"], parts["rms_norm_eps"], _kinds(parts), _embeddings(parts)
    kinds[-1] = FULL  # whatever the config says
    thetas = {FULL: 1_000_000.0, SLIDING: ROPE_THETA}

    def block(layer: int, kind: str) -> Block:
        head, _ = _head_sizes(parts, layer)
        positions = rotary_of_kind(parts.config, kind, thetas[kind], head, embeddings.word)
        attention = _attention(
            parts, f"layers.{layer}.self_attn", layer, positions, 0.0, scale=1.0, value_norm=Norm(None, "rms", eps),
            reach=parts["sliding_window"] if kind == SLIDING else None,
        )  # fmt: skip
        plain = _block(parts, f"layers.{layer}", attention, 0.0)
        return replace(
            plain, input_gate=_input_gate(parts, layer),
            scaled_by=parts.constant(f"layers.{layer}", "layer_scalar", (1,)),
        )  # fmt: skip

    return ModelView(
        parts["model_type"], embeddings, blocks=tuple(block(layer, kind) for layer, kind in enumerate(kinds)),
        hidden_size=width, max_positions=parts["max_position_embeddings"],
        final_norm=parts.rms_norm("norm", width, eps),
        output=parts.linear("embedding_projection", width, parts["embedding_dim"], bias=False),
    )  # fmt: skip


def _input_gate(parts: Parts, layer: int) -> InputGate:
    width, inner, eps = parts["hidden_size"], parts["hidden_size_per_layer_input"], parts["rms_norm_eps"]
    name, layers = f"layers.{layer}.ple_block", parts["num_hidden_layers"]
    whole = parts.linear("ple.per_layer_model_projection", width, layers * inner, bias=False).module
    return InputGate(
        source=Affine(whole, (layer * inner, (layer + 1) * inner)), source_scale=width**-0.5,
        source_norm=parts.rms_norm("ple.per_layer_projection_norm", inner, eps),
        gate=parts.linear(f"{name}.per_layer_input_gate", width, inner, bias=False),
        activation=parts["hidden_activation"],
        output=parts.linear(f"{name}.per_layer_projection", inner, width, bias=False),
        output_norm=parts.rms_norm(f"{name}.post_per_layer_input_norm", width, eps),
    )  # fmt: skip


def _text_part(config: Mapping[str, Any]) -> Config:
    """The text encoder of a model for texts, images and sounds."""
    return {"model_type": "embedding_gemma2_text"} | dict(config.get("text_config") or {})


_GEMMA3: Config = {
    "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "pad_token_id": 0, "rope_parameters": None,
    "attention_bias": False, "attention_dropout": 0.0, "query_pre_attn_scalar": 256, "sliding_window": 4096,
    "layer_types": None, "attn_logit_softcapping": None, "use_bidirectional_attention": False,
}  # fmt: skip
_NOT_IN_2 = ("query_pre_attn_scalar", "attn_logit_softcapping", "use_bidirectional_attention")
_EMBEDDING_GEMMA2 = {name: value for name, value in _GEMMA3.items() if name not in _NOT_IN_2} | {
    "vocab_size": 262144, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 24,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 262144, "sliding_window": 512,
    "hidden_size_per_layer_input": 512, "embedding_dim": 768,
}  # fmt: skip

FAMILIES = {
    "embedding_gemma2_text": Family(
        _embedding_gemma2, "EmbeddingGemma2TextModel", _EMBEDDING_GEMMA2, prefixes=("language_model.",),
        passed=("sliding_window_pattern", "per_layer_config"),
    ),
    "gemma3_text": Family(
        _gemma3, "Gemma3TextModel", _GEMMA3, decoder=True, passed=("sliding_window_pattern", "rope_local_base_freq"),
    ),
}  # fmt: skip
LAYOUTS = {"embedding_gemma2": _text_part}
