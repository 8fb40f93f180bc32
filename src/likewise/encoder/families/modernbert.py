"""ModernBERT."""

from __future__ import annotations

from likewise.encoder.families.family import Family
from likewise.encoder.model_view import (
    Affine,
    Attention,
    Block,
    Config,
    Embeddings,
    FeedForward,
    ModelView,
    Parts,
    Rotary,
)
from likewise.encoder.rotary import FULL, KINDS, ROPE_THETA, SLIDING, check_kinds, rotary_of_kind


def _modernbert_block(parts: Parts, layer: int, kind: str, positions: Rotary) -> Block:
    width, inner, heads = parts["hidden_size"], parts["intermediate_size"], parts["num_attention_heads"]
    name, norm = f"layers.{layer}", (width, parts["norm_eps"], parts["norm_bias"])
    whole = parts.linear(f"{name}.attn.Wqkv", width, 3 * width, parts["attention_bias"]).module
    gated = parts.linear(f"{name}.mlp.Wi", width, 2 * inner, parts["mlp_bias"]).module
    query, key, value = (Affine(whole, (each * width, (each + 1) * width)) for each in range(3))
    attention = Attention(
        query=query, key=key, value=value,
        output=parts.linear(f"{name}.attn.Wo", width, width, parts["attention_bias"]),
        heads=heads, key_heads=heads, scale=parts.head_width(width, heads) ** -0.5, rotary=positions,
        reach=_reach(parts) if kind == SLIDING else None,
        map_dropout=parts["attention_dropout"], output_dropout=parts["attention_dropout"],
    )  # fmt: skip
    attention_norm = None if layer == 0 else parts.layer_norm(f"{name}.attn_norm", *norm)
    # The half that Hugging Face calls `input` is activated; the one it calls `gate` is not.
    feed_forward = FeedForward(
        up=Affine(gated, (0, inner)), down=parts.linear(f"{name}.mlp.Wo", inner, width, parts["mlp_bias"]),
        activation=parts["hidden_activation"], gate=Affine(gated, (inner, 2 * inner)),
        inner_dropout=parts["mlp_dropout"],
    )  # fmt: skip
    return Block(attention, attention_norm, feed_forward, parts.layer_norm(f"{name}.mlp_norm", *norm), pre_norm=True)


def _modernbert(parts: Parts) -> ModelView:
    width, layers = parts["hidden_size"], parts["num_hidden_layers"]
    every, norm = parts["global_attn_every_n_layers"], (width, parts["norm_eps"], parts["norm_bias"])
    kinds = parts["layer_types"] or [KINDS[bool(layer % every)] for layer in range(layers)]
    check_kinds(kinds, KINDS, layers)
    head = parts.head_width(width, parts["num_attention_heads"])
    word = parts.table("embeddings.tok_embeddings", parts["vocab_size"], width, parts["pad_token_id"])
    thetas = {
        FULL: parts.config.get("global_rope_theta", 160_000.0),
        SLIDING: parts.config.get("local_rope_theta", ROPE_THETA),
    }
    rotaries = {kind: rotary_of_kind(parts.config, kind, thetas[kind], head, word) for kind in dict.fromkeys(kinds)}
    first = parts.layer_norm("embeddings.norm", *norm)
    return ModelView(
        parts["model_type"], Embeddings(word, norm=first, dropout=parts["embedding_dropout"]),
        blocks=tuple(_modernbert_block(parts, layer, kind, rotaries[kind]) for layer, kind in enumerate(kinds)),
        hidden_size=width, max_positions=parts["max_position_embeddings"],
        final_norm=parts.layer_norm("final_norm", *norm),
    )  # fmt: skip


def _reach(parts: Parts) -> int:
    """Half the window; a config may name the half itself."""
    half = parts.config.get("sliding_window")
    return int(parts["local_attention"] // 2 if half is None else half)


_MODERNBERT: Config = {
    "vocab_size": 50368, "hidden_size": 768, "intermediate_size": 1152, "num_hidden_layers": 22,
    "num_attention_heads": 12, "hidden_activation": "gelu", "max_position_embeddings": 8192, "norm_eps": 1e-5,
    "norm_bias": False, "pad_token_id": 50283, "attention_bias": False, "attention_dropout": 0.0,
    "layer_types": None, "global_attn_every_n_layers": 3, "rope_parameters": None, "local_attention": 128,
    "embedding_dropout": 0.0, "mlp_bias": False, "mlp_dropout": 0.0,
}  # fmt: skip

FAMILIES = {"modernbert": Family(_modernbert, "ModernBertModel", _MODERNBERT, passed=("sliding_window",))}
