"""The encoders of T5 and mT5."""

from __future__ import annotations

from likewise.encoder.families.family import Family
from likewise.encoder.model_view import (
    Attention,
    Block,
    Config,
    Embeddings,
    FeedForward,
    ModelView,
    Parts,
    RelativeBias,
)
from likewise.errors import ModelError

MANY_POSITIONS = 2**20  # T5 knows distances, not positions, so it has no limit of its own


def _block(parts: Parts, name: str, relative: RelativeBias) -> Block:
    width, eps, dropout = parts["d_model"], parts["layer_norm_epsilon"], parts["dropout_rate"]
    heads, inner, attention = parts["num_heads"], parts["num_heads"] * parts["d_kv"], f"{name}.layer.0.SelfAttention"
    query, key, value = (parts.linear(f"{attention}.{each}", width, inner, bias=False) for each in "qkv")
    return Block(
        Attention(
            query=query, key=key, value=value, output=parts.linear(f"{attention}.o", inner, width, bias=False),
            heads=heads, key_heads=heads, scale=1.0, relative=relative, map_dropout=dropout, output_dropout=dropout,
        ),
        parts.rms_norm(f"{name}.layer.0.layer_norm", width, eps),
        _feed_forward(parts, f"{name}.layer.1.DenseReluDense"),
        parts.rms_norm(f"{name}.layer.1.layer_norm", width, eps), pre_norm=True,
    )  # fmt: skip


def _feed_forward(parts: Parts, name: str) -> FeedForward:
    width, inner, dropout = parts["d_model"], parts["d_ff"], parts["dropout_rate"]
    *gated, activation = str(parts["feed_forward_proj"]).split("-")
    if gated not in ([], ["gated"]):
        raise ModelError(f"feed_forward_proj {parts['feed_forward_proj']!r} is not supported; fix config.json")
    if gated and activation == "gelu":
        activation = "gelu_new"  # as T5 v1.1 means it
    return FeedForward(
        up=parts.linear(f"{name}.wi_0" if gated else f"{name}.wi", width, inner, bias=False),
        down=parts.linear(f"{name}.wo", inner, width, bias=False), activation=activation,
        gate=parts.linear(f"{name}.wi_1", width, inner, bias=False) if gated else None,
        inner_dropout=dropout, output_dropout=dropout,
    )  # fmt: skip


def _t5(parts: Parts) -> ModelView:
    width, dropout, buckets = parts["d_model"], parts["dropout_rate"], parts["relative_attention_num_buckets"]
    # All blocks share the table of the first.
    table = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"
    relative = RelativeBias(
        parts.table(table, buckets, parts["num_heads"]), buckets, parts["relative_attention_max_distance"]
    )
    return ModelView(
        parts["model_type"], Embeddings(parts.table("shared", parts["vocab_size"], width), dropout=dropout),
        blocks=tuple(_block(parts, f"encoder.block.{layer}", relative) for layer in range(parts["num_layers"])),
        hidden_size=width, max_positions=MANY_POSITIONS, final_dropout=dropout,
        final_norm=parts.rms_norm("encoder.final_layer_norm", width, parts["layer_norm_epsilon"]),
    )  # fmt: skip


_T5: Config = {
    "vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8,
    "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "dropout_rate": 0.1,
    "layer_norm_epsilon": 1e-6, "feed_forward_proj": "relu",
}  # fmt: skip
_MT5 = _T5 | {"vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu"}
_ALIASES = {
    "hidden_size": "d_model", "num_attention_heads": "num_heads", "num_hidden_layers": "num_layers", "head_dim": "d_kv"
}  # fmt: skip
_TIED = {"encoder.embed_tokens.": "shared."}

FAMILIES = {
    "mt5": Family(_t5, "MT5EncoderModel", _MT5, _ALIASES, renamed=_TIED),
    "t5": Family(_t5, "T5EncoderModel", _T5, _ALIASES, renamed=_TIED),
}
