"""BERT and its descendants: RoBERTa, CamemBERT, DistilBERT, MPNet, ELECTRA, ALBERT, DeBERTa."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from likewise.encoder.families.family import Family
from likewise.encoder.model_view import (
    POOLER,
    Affine,
    Attention,
    Block,
    Config,
    Disentangled,
    Embeddings,
    FeedForward,
    ModelView,
    Parts,
    RelativeBias,
)
from likewise.errors import ModelError


def _embeddings(parts: Parts, width: int, dropout: float, eps: float, first: int = 0) -> Embeddings:
    """BERT's embedding layer, or one of its many descendants with the same names."""
    types, positions = parts.config.get("type_vocab_size"), parts["max_position_embeddings"]
    padding, absolute = first - 1 if first else parts["pad_token_id"], parts.config.get("position_biased_input", True)
    return Embeddings(
        word=parts.table("embeddings.word_embeddings", parts["vocab_size"], width, padding),
        position=parts.table("embeddings.position_embeddings", positions, width) if absolute else None,
        type=parts.table("embeddings.token_type_embeddings", types, width) if types else None,
        norm=parts.layer_norm("embeddings.LayerNorm", width, eps), first_position=first, dropout=dropout,
    )  # fmt: skip


_BERT_BLOCK: dict[str, Any] = {
    "prefix": "encoder.layer", "layers": "num_hidden_layers", "dropout": "hidden_dropout_prob",
    "width": "hidden_size", "inner": "intermediate_size", "heads": "num_attention_heads", "activation": "hidden_act",
    "map_dropout": "attention_probs_dropout_prob", "attention_dropout": "hidden_dropout_prob",
    "feed_forward_dropout": "hidden_dropout_prob",
    "query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
    "output": "attention.output.dense", "attention_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense", "down": "output.dense", "feed_forward_norm": "output.LayerNorm",
}  # fmt: skip
"""The names of a block, of its parts and of its settings; None for a setting that does not exist."""
_MPNET_BLOCK = _BERT_BLOCK | {
    "query": "attention.attn.q", "key": "attention.attn.k", "value": "attention.attn.v", "output": "attention.attn.o",
    "attention_norm": "attention.LayerNorm",
}  # fmt: skip
_ALBERT_BLOCK = _BERT_BLOCK | {
    "query": "attention.query", "key": "attention.key", "value": "attention.value", "output": "attention.dense",
    "attention_norm": "attention.LayerNorm", "up": "ffn", "down": "ffn_output",
    "feed_forward_norm": "full_layer_layer_norm", "feed_forward_dropout": None,
}  # fmt: skip
_DISTILBERT_BLOCK: dict[str, Any] = {
    "prefix": "transformer.layer", "layers": "n_layers", "dropout": "dropout",
    "width": "dim", "inner": "hidden_dim", "heads": "n_heads", "activation": "activation",
    "map_dropout": "attention_dropout", "attention_dropout": None, "feed_forward_dropout": "dropout",
    "query": "attention.q_lin", "key": "attention.k_lin", "value": "attention.v_lin", "output": "attention.out_lin",
    "attention_norm": "sa_layer_norm", "up": "ffn.lin1", "down": "ffn.lin2", "feed_forward_norm": "output_layer_norm",
}  # fmt: skip
FIXED_EPS = 1e-12  # The epsilon of DistilBERT's norms, whatever its config says


def _block(parts: Parts, name: str, called: Mapping[str, Any], **positions: Any) -> Block:
    """A block of BERT or of its descendants, with norms after each sum; ``positions`` are fields of ``Attention``."""

    def setting(role: str) -> Any:
        key = called[role]
        return None if key is None else parts[key]

    def linear(role: str, into: int, out: int) -> Affine:
        return parts.linear(f"{name}.{called[role]}", into, out)

    width, inner, heads = setting("width"), setting("inner"), setting("heads")
    eps = parts.config.get("layer_norm_eps", FIXED_EPS)
    attention = Attention(
        query=linear("query", width, width), key=linear("key", width, width), value=linear("value", width, width),
        output=linear("output", width, width), heads=heads, key_heads=heads,
        map_dropout=setting("map_dropout"), output_dropout=setting("attention_dropout"),
        **({"scale": parts.head_width(width, heads) ** -0.5} | positions),
    )  # fmt: skip
    attention_norm = parts.layer_norm(f"{name}.{called['attention_norm']}", width, eps)
    feed_forward = FeedForward(
        up=linear("up", width, inner), down=linear("down", inner, width), activation=setting("activation"),
        output_dropout=setting("feed_forward_dropout"),
    )  # fmt: skip
    feed_forward_norm = parts.layer_norm(f"{name}.{called['feed_forward_norm']}", width, eps)
    return Block(attention, attention_norm, feed_forward, feed_forward_norm)


def _bert(parts: Parts) -> ModelView:
    """BERT, and the families with other names or other positions."""
    family = parts["model_type"]
    called = {"distilbert": _DISTILBERT_BLOCK, "mpnet": _MPNET_BLOCK}.get(family, _BERT_BLOCK)
    width, layers = parts[called["width"]], range(parts[called["layers"]])
    inner, eps = parts.config.get("embedding_size", width), parts.config.get("layer_norm_eps", FIXED_EPS)
    first, relative = 0, None
    if family in ("camembert", "roberta", "xlm-roberta"):
        first = parts["pad_token_id"] + 1  # where positions start
    if family == "mpnet":
        # Whatever its config says, MPNet computes 32 buckets and its padding id is 1.
        stored, heads = parts["relative_attention_num_buckets"], parts["num_attention_heads"]
        relative = RelativeBias(parts.table("encoder.relative_attention_bias", stored, heads), buckets=32)
        first = 2
    return ModelView(
        family, _embeddings(parts, inner, parts[called["dropout"]], eps, first),
        blocks=tuple(_block(parts, f"{called['prefix']}.{layer}", called, relative=relative) for layer in layers),
        hidden_size=width, max_positions=parts["max_position_embeddings"] - first,
        projection=None if inner == width else parts.linear("embeddings_project", inner, width),
        pooler=None if family in ("distilbert", "electra") else parts.pooler("pooler.dense", width),
    )  # fmt: skip


def _ernie(parts: Parts) -> ModelView:
    if parts["use_task_id"]:
        raise ModelError("an ERNIE with vectors of tasks is not supported; use one without (use_task_id)")
    return _bert(parts)


def _albert(parts: Parts) -> ModelView:
    width, inner, layers = parts["hidden_size"], parts["embedding_size"], parts["num_hidden_layers"]
    per_group = layers / parts["num_hidden_groups"]
    names = [
        f"encoder.albert_layer_groups.{int(layer / per_group)}.albert_layers.{each}"
        for layer in range(layers)
        for each in range(parts["inner_group_num"])
    ]
    # Layers of a group share weights, and so their view.
    made = {name: _block(parts, name, _ALBERT_BLOCK) for name in dict.fromkeys(names)}
    return ModelView(
        parts["model_type"], _embeddings(parts, inner, parts["hidden_dropout_prob"], parts["layer_norm_eps"]),
        blocks=tuple(made[name] for name in names),
        hidden_size=width, max_positions=parts["max_position_embeddings"],
        projection=parts.linear("encoder.embedding_hidden_mapping_in", inner, width),
        pooler=parts.pooler(POOLER, width),
    )  # fmt: skip


_DEBERTA_BLOCK = _BERT_BLOCK | {
    "query": "attention.self.query_proj", "key": "attention.self.key_proj", "value": "attention.self.value_proj",
}  # fmt: skip


def _deberta(parts: Parts) -> ModelView:
    """DeBERTa-v2 and v3. Its dropout of the vectors of distances is left out."""
    if parts.config.get("conv_kernel_size"):
        raise ModelError("a DeBERTa with a convolution (v2-xlarge, v2-xxlarge) is not supported; use a v3 model")
    width, heads = parts["hidden_size"], parts["num_attention_heads"]
    if parts.config.get("embedding_size", width) != width:
        raise ModelError("a DeBERTa with embeddings of another width is not supported; use another model")
    kinds = parts["pos_att_type"] or ()
    kinds = [kind.strip() for kind in kinds.lower().split("|")] if isinstance(kinds, str) else list(kinds)
    scale = (parts.head_width(width, heads) * (1 + ("c2p" in kinds) + ("p2c" in kinds))) ** -0.5
    names = [f"encoder.layer.{layer}" for layer in range(parts["num_hidden_layers"])]
    return ModelView(
        parts["model_type"], _embeddings(parts, width, parts["hidden_dropout_prob"], parts["layer_norm_eps"]),
        blocks=tuple(
            _block(parts, name, _DEBERTA_BLOCK, scale=scale, disentangled=_disentangled(parts, name, kinds))
            for name in names
        ),
        hidden_size=width, max_positions=parts["max_position_embeddings"],
    )  # fmt: skip


def _disentangled(parts: Parts, name: str, kinds: list[str]) -> Disentangled | None:
    if not parts["relative_attention"]:
        return None
    width, eps = parts["hidden_size"], parts["layer_norm_eps"]
    longest, buckets = parts["max_relative_positions"], parts.config.get("position_buckets", -1)
    longest = parts["max_position_embeddings"] if longest < 1 else longest
    shared, span = parts.config.get("share_att_key", False), buckets if buckets > 0 else longest

    def projection(kind: str, own: str, content: str) -> Affine | None:
        return (
            parts.linear(f"{name}.attention.self.{content if shared else own}", width, width) if kind in kinds else None
        )

    normed = "layer_norm" in str(parts.config.get("norm_rel_ebd", "none")).lower()
    return Disentangled(
        vectors=parts.table("encoder.rel_embeddings", 2 * span, width),
        norm=parts.layer_norm("encoder.LayerNorm", width, eps) if normed else None,
        key=projection("c2p", "pos_key_proj", "key_proj"), query=projection("p2c", "pos_query_proj", "query_proj"),
        span=span, max_distance=longest if buckets > 0 else None,
    )  # fmt: skip


_BERT: Config = {
    "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
}  # fmt: skip
_ROBERTA = _BERT | {"pad_token_id": 1}
_ALBERT = _BERT | {
    "vocab_size": 30000, "embedding_size": 128, "hidden_size": 4096, "num_attention_heads": 64,
    "intermediate_size": 16384, "hidden_act": "gelu_new", "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0, "num_hidden_groups": 1, "inner_group_num": 1,
}  # fmt: skip
_DISTILBERT: Config = {
    "vocab_size": 30522, "max_position_embeddings": 512, "n_layers": 6, "n_heads": 12, "dim": 768,
    "hidden_dim": 3072, "dropout": 0.1, "attention_dropout": 0.1, "activation": "gelu", "pad_token_id": 0,
}  # fmt: skip
_ELECTRA = _BERT | {"embedding_size": 128, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
_MPNET = {name: value for name, value in _BERT.items() if name != "type_vocab_size"} | {
    "vocab_size": 30527, "pad_token_id": 1, "relative_attention_num_buckets": 32,
}  # fmt: skip
_DEBERTA = _BERT | {
    "vocab_size": 128100, "hidden_size": 1536, "num_hidden_layers": 24, "num_attention_heads": 24,
    "intermediate_size": 6144, "type_vocab_size": 0, "layer_norm_eps": 1e-7, "relative_attention": False,
    "max_relative_positions": -1, "position_biased_input": True, "pos_att_type": None,
}  # fmt: skip

FAMILIES = {
    "albert": Family(_albert, "AlbertModel", _ALBERT, prefixes=("albert.",)),
    "bert": Family(_bert, "BertModel", _BERT, prefixes=("bert.",)),
    "camembert": Family(_bert, "CamembertModel", _ROBERTA, prefixes=("roberta.",)),
    "deberta-v2": Family(
        _deberta, "DebertaV2Model", _DEBERTA, prefixes=("deberta.",), may_be_zero=("type_vocab_size",),
        passed=("position_buckets", "norm_rel_ebd", "share_att_key", "conv_kernel_size", "embedding_size"),
    ),
    "distilbert": Family(
        _bert, "DistilBertModel", _DISTILBERT, prefixes=("distilbert.",),
        aliases={"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"},
    ),
    "electra": Family(_bert, "ElectraModel", _ELECTRA, prefixes=("electra.",)),
    "ernie": Family(_ernie, "ErnieModel", _BERT | {"use_task_id": False}, prefixes=("ernie.",)),
    "mpnet": Family(_bert, "MPNetModel", _MPNET, prefixes=("mpnet.",)),
    "roberta": Family(_bert, "RobertaModel", _ROBERTA | {"vocab_size": 50265}, prefixes=("roberta.",)),
    "xlm-roberta": Family(_bert, "XLMRobertaModel", _ROBERTA, prefixes=("roberta.",)),
}  # fmt: skip
