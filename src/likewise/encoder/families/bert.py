"""Model families (BERT, ALBERT, GPT-Neo, Qwen3 and others): Hugging Face's weight names -> views."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from likewise.encoder import model_view as views
from likewise.encoder.config import Config, completed, require_family, rotary, rotary_by_kind
from likewise.encoder.model_view import Affine, Attention, Block, Embeddings, FeedForward, ModelView, Norm, Table
from likewise.errors import ModelError


def model_view(model: nn.Module) -> ModelView:
    """Views on the weights of a ``Transformer``, whose weights this declares, or of a Hugging Face model in memory.

    An unsupported family or config is rejected.
    """
    config = config_of(model)
    found = FAMILIES[config["model_type"]](_Parts(model, config))
    activation = found.blocks[0].feed_forward.activation
    if activation not in views.ACTIVATIONS:
        known = ", ".join(sorted(views.ACTIVATIONS))
        raise ModelError(f"activation {activation!r} is not supported; supported are {known}")
    return found


def config_of(model: nn.Module) -> Config:
    """All that a model's forward pass depends on besides its weights."""
    config: Any = model.config
    if isinstance(config, Mapping):
        return completed(config)
    require_family(config.model_type)
    if not type(model).__module__.startswith("transformers."):
        kind = type(model).__name__
        raise ModelError(f"{kind} is not a class of transformers, so its forward pass is unknown; use a plain model")
    # The class is known, so the folder's own code does not matter.
    return completed({name: value for name, value in config.to_dict().items() if name != "auto_map"})


def saved_config(model: nn.Module) -> Config:
    """The ``config.json`` of a model, with the class and the dtype that are saved."""
    config: Any = model.config
    given = config if isinstance(config, Mapping) else json.loads(config.to_json_string(use_diff=True))
    saved = {name: value for name, value in given.items() if name not in ("_name_or_path", "torch_dtype", "auto_map")}
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    return saved | {"architectures": [ARCHITECTURES[saved["model_type"]]], "dtype": dtype}


ARCHITECTURES = {
    "albert": "AlbertModel", "bert": "BertModel", "distilbert": "DistilBertModel", "electra": "ElectraModel",
    "gpt_neo": "GPTNeoModel", "modernbert": "ModernBertModel", "mpnet": "MPNetModel", "qwen3": "Qwen3Model",
    "roberta": "RobertaModel", "xlm-roberta": "XLMRobertaModel",
}  # fmt: skip


def _embeddings(parts: _Parts, width: int, dropout: float, eps: float, first: int = 0) -> Embeddings:
    """BERT's embedding layer, or one of its many descendants with the same names."""
    types = parts.config.get("type_vocab_size")
    padding = first - 1 if first else parts["pad_token_id"]
    return Embeddings(
        word=parts.table("embeddings.word_embeddings", parts["vocab_size"], width, padding),
        position=parts.table("embeddings.position_embeddings", parts["max_position_embeddings"], width),
        type=None if types is None else parts.table("embeddings.token_type_embeddings", types, width),
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


def _block(parts: _Parts, name: str, called: Mapping[str, Any], relative: views.RelativeBias | None = None) -> Block:
    """A block of BERT or of its descendants, with norms after each sum."""

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
        scale=parts.head_width(width, heads) ** -0.5, relative=relative,
        map_dropout=setting("map_dropout"), output_dropout=setting("attention_dropout"),
    )  # fmt: skip
    attention_norm = parts.layer_norm(f"{name}.{called['attention_norm']}", width, eps)
    feed_forward = FeedForward(
        up=linear("up", width, inner), down=linear("down", inner, width), activation=setting("activation"),
        output_dropout=setting("feed_forward_dropout"),
    )  # fmt: skip
    feed_forward_norm = parts.layer_norm(f"{name}.{called['feed_forward_norm']}", width, eps)
    return Block(attention, attention_norm, feed_forward, feed_forward_norm)


def _bert(parts: _Parts) -> ModelView:
    """BERT, and the families with other names or other positions."""
    family = parts["model_type"]
    called = {"distilbert": _DISTILBERT_BLOCK, "mpnet": _MPNET_BLOCK}.get(family, _BERT_BLOCK)
    width, layers = parts[called["width"]], range(parts[called["layers"]])
    inner, eps = parts.config.get("embedding_size", width), parts.config.get("layer_norm_eps", FIXED_EPS)
    first, relative = 0, None
    if family in ("roberta", "xlm-roberta"):
        first = parts["pad_token_id"] + 1  # where positions start
    if family == "mpnet":
        # Whatever its config says, MPNet computes 32 buckets and its padding id is 1.
        stored, heads = parts["relative_attention_num_buckets"], parts["num_attention_heads"]
        relative = views.RelativeBias(parts.table("encoder.relative_attention_bias", stored, heads), buckets=32)
        first = 2
    return ModelView(
        family, _embeddings(parts, inner, parts[called["dropout"]], eps, first),
        blocks=tuple(_block(parts, f"{called['prefix']}.{layer}", called, relative) for layer in layers),
        hidden_size=width, max_positions=parts["max_position_embeddings"] - first,
        projection=None if inner == width else parts.linear("embeddings_project", inner, width),
        pooler=None if family in ("distilbert", "electra") else parts.pooler("pooler.dense", width),
    )  # fmt: skip


def _albert(parts: _Parts) -> ModelView:
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
        pooler=parts.pooler(views.POOLER, width),
    )  # fmt: skip


def _gpt_neo_block(parts: _Parts, name: str, kind: str) -> Block:
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


def _gpt_neo(parts: _Parts) -> ModelView:
    width = parts["hidden_size"]
    kinds = [kind for pattern, times in parts["attention_types"] for _ in range(times) for kind in pattern]
    _check_kinds(kinds, ("global", "local"), parts["num_layers"])
    word = parts.table("wte", parts["vocab_size"], width)
    position = parts.table("wpe", parts["max_position_embeddings"], width)
    return ModelView(
        parts["model_type"], Embeddings(word, position, dropout=float(parts["embed_dropout"])),
        blocks=tuple(_gpt_neo_block(parts, f"h.{layer}", kind) for layer, kind in enumerate(kinds)),
        hidden_size=width, max_positions=parts["max_position_embeddings"],
        final_norm=parts.layer_norm("ln_f", width, parts["layer_norm_epsilon"]),
    )  # fmt: skip


KINDS = ("full_attention", "sliding_attention")  # The kinds of attention, by their names in `layer_types`


def _check_kinds(kinds: list[str], known: tuple[str, ...], layers: int) -> None:
    for kind in kinds:
        if kind not in known:
            raise ModelError(f"layers of type {kind!r} are not supported; supported are {', '.join(known)}")
    if len(kinds) != layers:
        raise ModelError(f"the config has types for {len(kinds)} layers, but {layers} layers; fix config.json")


def _modernbert_block(parts: _Parts, layer: int, kind: str, positions: views.Rotary) -> Block:
    width, inner, heads = parts["hidden_size"], parts["intermediate_size"], parts["num_attention_heads"]
    name, norm = f"layers.{layer}", (width, parts["norm_eps"], parts["norm_bias"])
    whole = parts.linear(f"{name}.attn.Wqkv", width, 3 * width, parts["attention_bias"]).module
    gated = parts.linear(f"{name}.mlp.Wi", width, 2 * inner, parts["mlp_bias"]).module
    query, key, value = (Affine(whole, (each * width, (each + 1) * width)) for each in range(3))
    attention = Attention(
        query=query, key=key, value=value,
        output=parts.linear(f"{name}.attn.Wo", width, width, parts["attention_bias"]),
        heads=heads, key_heads=heads, scale=parts.head_width(width, heads) ** -0.5, rotary=positions,
        reach=parts["local_attention"] // 2 if kind == "sliding_attention" else None,
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


def _modernbert(parts: _Parts) -> ModelView:
    width, layers = parts["hidden_size"], parts["num_hidden_layers"]
    every, norm = parts["global_attn_every_n_layers"], (width, parts["norm_eps"], parts["norm_bias"])
    kinds = parts["layer_types"] or [KINDS[bool(layer % every)] for layer in range(layers)]
    _check_kinds(kinds, KINDS, layers)
    head = parts.head_width(width, parts["num_attention_heads"])
    word = parts.table("embeddings.tok_embeddings", parts["vocab_size"], width, parts["pad_token_id"])
    rotaries = {kind: rotary_by_kind(parts.config, kind, head, word) for kind in dict.fromkeys(kinds)}
    first = parts.layer_norm("embeddings.norm", *norm)
    return ModelView(
        parts["model_type"], Embeddings(word, norm=first, dropout=parts["embedding_dropout"]),
        blocks=tuple(_modernbert_block(parts, layer, kind, rotaries[kind]) for layer, kind in enumerate(kinds)),
        hidden_size=width, max_positions=parts["max_position_embeddings"],
        final_norm=parts.layer_norm("final_norm", *norm),
    )  # fmt: skip


def _qwen3_block(parts: _Parts, name: str, kind: str, positions: views.Rotary) -> Block:
    width, inner, eps = parts["hidden_size"], parts["intermediate_size"], parts["rms_norm_eps"]
    head, heads, key_heads = parts["head_dim"], parts["num_attention_heads"], parts["num_key_value_heads"]
    bias = parts["attention_bias"]
    attention = Attention(
        query=parts.linear(f"{name}.self_attn.q_proj", width, heads * head, bias),
        key=parts.linear(f"{name}.self_attn.k_proj", width, key_heads * head, bias),
        value=parts.linear(f"{name}.self_attn.v_proj", width, key_heads * head, bias),
        output=parts.linear(f"{name}.self_attn.o_proj", heads * head, width, bias),
        heads=heads, key_heads=key_heads, scale=head**-0.5, causal=True, rotary=positions,
        reach=parts["sliding_window"] - 1 if kind == "sliding_attention" else None,
        query_norm=parts.rms_norm(f"{name}.self_attn.q_norm", head, eps),
        key_norm=parts.rms_norm(f"{name}.self_attn.k_norm", head, eps), map_dropout=parts["attention_dropout"],
    )  # fmt: skip
    attention_norm = parts.rms_norm(f"{name}.input_layernorm", width, eps)
    feed_forward = FeedForward(
        up=parts.linear(f"{name}.mlp.gate_proj", width, inner, bias=False),
        down=parts.linear(f"{name}.mlp.down_proj", inner, width, bias=False), activation=parts["hidden_act"],
        gate=parts.linear(f"{name}.mlp.up_proj", width, inner, bias=False),
    )  # fmt: skip
    last = parts.rms_norm(f"{name}.post_attention_layernorm", width, eps)
    return Block(attention, attention_norm, feed_forward, last, pre_norm=True)


def _qwen3(parts: _Parts) -> ModelView:
    width, layers = parts["hidden_size"], parts["num_hidden_layers"]
    window = parts["sliding_window"] if parts["use_sliding_window"] else None
    first = layers if window is None else parts["max_window_layers"]
    kinds = parts["layer_types"] or [KINDS[layer >= first] for layer in range(layers)]
    _check_kinds(kinds, KINDS if window else KINDS[:1], layers)
    word = parts.table("embed_tokens", parts["vocab_size"], width, parts["pad_token_id"])
    positions = rotary(parts.config, parts["head_dim"], word)
    return ModelView(
        parts["model_type"], Embeddings(word),
        blocks=tuple(_qwen3_block(parts, f"layers.{layer}", kind, positions) for layer, kind in enumerate(kinds)),
        hidden_size=width, max_positions=parts["max_position_embeddings"],
        final_norm=parts.rms_norm("norm", width, parts["rms_norm_eps"]),
    )  # fmt: skip


FAMILIES: dict[str, Callable[[_Parts], ModelView]] = {
    "albert": _albert, "bert": _bert, "distilbert": _bert, "electra": _bert, "gpt_neo": _gpt_neo,
    "modernbert": _modernbert, "mpnet": _bert, "qwen3": _qwen3, "roberta": _bert, "xlm-roberta": _bert,
}  # fmt: skip
