"""GPT-Neo."""

from __future__ import annotations

from likewise.encoder.families.family import Family
from likewise.encoder.model_view import Attention, Block, Config, Embeddings, FeedForward, ModelView, Parts  # fmt: skip
from likewise.encoder.rotary import check_kinds


def _gpt_neo_block(parts: Parts, name: str, kind: str) -> Block:
    width, heads, eps = parts["hidden_size"], parts["num_heads"], parts["layer_norm_epsilon"]
    inner = parts["intermediate_size"] or 4 * width
    parts.head_width(width, heads)
    query, key, value = (parts.linear(f"{name}.attn.attention.{each}_proj", width, width, bias=False) for each in "qkv")
    attention = Attention(
        query=query, key=key, value=value, output=parts.linear(f"{name}.attn.attention.out_proj", width, width),
        heads=heads, key_heads=heads, scale=1.0,  # GPT-Neo does not scale its scores
        causal=True, reach=parts["window_size"] - 1 if kind == "local" else None,
        map_dropout=float(parts["attention_dropout"]), output_dropout=float(parts["resid_dropout"]),
    )  # fmt: skip
    attention_norm = parts.layer_norm(f"{name}.ln_1", width, eps)
    feed_forward = FeedForward(
        up=parts.linear(f"{name}.mlp.c_fc", width, inner), down=parts.linear(f"{name}.mlp.c_proj", inner, width),
        activation=parts["activation_function"], output_dropout=float(parts["resid_dropout"]),
    )  # fmt: skip
    return Block(attention, attention_norm, feed_forward, parts.layer_norm(f"{name}.ln_2", width, eps), pre_norm=True)


def _gpt_neo(parts: Parts) -> ModelView:
    width = parts["hidden_size"]
    kinds = [kind for pattern, times in parts["attention_types"] for _ in range(times) for kind in pattern]
    check_kinds(kinds, ("global", "local"), parts["num_layers"])
    word = parts.table("wte", parts["vocab_size"], width)
    position = parts.table("wpe", parts["max_position_embeddings"], width)
    return ModelView(
        parts["model_type"], Embeddings(word, position, dropout=float(parts["embed_dropout"])),
        blocks=tuple(_gpt_neo_block(parts, f"h.{layer}", kind) for layer, kind in enumerate(kinds)),
        hidden_size=width, max_positions=parts["max_position_embeddings"],
        final_norm=parts.layer_norm("ln_f", width, parts["layer_norm_epsilon"]),
    )  # fmt: skip


_GPT_NEO: Config = {
    "vocab_size": 50257, "max_position_embeddings": 2048, "hidden_size": 2048, "num_layers": 24,
    "attention_types": [[["global", "local"], 12]], "num_heads": 16, "intermediate_size": None, "window_size": 256,
    "activation_function": "gelu_new", "resid_dropout": 0.0, "embed_dropout": 0.0, "attention_dropout": 0.0,
    "layer_norm_epsilon": 1e-5,
}  # fmt: skip

FAMILIES = {
    "gpt_neo": Family(
        _gpt_neo, "GPTNeoModel", _GPT_NEO, prefixes=("transformer.",), decoder=True,
        aliases={"num_attention_heads": "num_heads", "num_hidden_layers": "num_layers"},
    )
}  # fmt: skip
