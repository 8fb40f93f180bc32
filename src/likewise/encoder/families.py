"""Model families: how each Hugging Face class lays out its modules. The only file that knows their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from likewise.encoder.activations import ACTIVATIONS
from likewise.encoder.anatomy import (
    Affine,
    Anatomy,
    Attention,
    Block,
    Embeddings,
    FeedForward,
    Norm,
    RelativeBias,
    Rotary,
)
from likewise.errors import ModelError


def anatomy(model: nn.Module) -> Anatomy:
    """Views on ``model``'s modules; an unsupported family is refused by name.

    >>> from transformers import BertConfig, BertModel
    >>> config = BertConfig(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, vocab_size=10)
    >>> anatomy(BertModel(config)).layers
    2
    """
    config: Any = model.config
    family = require_family(config.model_type)
    if getattr(config, "is_decoder", False) and family not in ("gpt_neo", "qwen3"):
        raise ModelError(f"a {family} model set up as a decoder is not supported; use it as an encoder")
    views = FAMILIES[family](model)
    activation = views.blocks[0].feed_forward.activation
    if activation not in ACTIVATIONS:
        raise ModelError(f"activation {activation!r} is not supported; supported are {', '.join(sorted(ACTIVATIONS))}")
    return views


def require_family(family: str) -> str:
    """The family, if it is supported; refused by name otherwise.

    >>> require_family("bert")
    'bert'
    """
    if family not in FAMILIES:
        raise ModelError(f"model family {family!r} is not supported; supported are {', '.join(sorted(FAMILIES))}")
    return family


def _layer_norm(module: nn.LayerNorm) -> Norm:
    return Norm(module, "layer", module.eps)


def _embeddings(module: Any, first_position: int = 0) -> Embeddings:
    """BERT's embedding layer, or one of its many descendants with the same names."""
    return Embeddings(
        word=module.word_embeddings,
        position=module.position_embeddings,
        type=getattr(module, "token_type_embeddings", None),
        norm=_layer_norm(module.LayerNorm),
        first_position=first_position,
        dropout=module.dropout.p,
    )


def _bert_block(layer: Any, config: Any) -> Block:
    attention, output = layer.attention.self, layer.attention.output
    return Block(
        attention=Attention(
            query=Affine(attention.query),
            key=Affine(attention.key),
            value=Affine(attention.value),
            output=Affine(output.dense),
            heads=config.num_attention_heads,
            key_heads=config.num_attention_heads,
            scale=attention.scaling,
            map_dropout=attention.dropout.p,
            output_dropout=output.dropout.p,
        ),
        attention_norm=_layer_norm(output.LayerNorm),
        feed_forward=FeedForward(
            up=Affine(layer.intermediate.dense),
            down=Affine(layer.output.dense),
            activation=config.hidden_act,
            output_dropout=layer.output.dropout.p,
        ),
        feed_forward_norm=_layer_norm(layer.output.LayerNorm),
    )


def _bert(model: Any) -> Anatomy:
    config = model.config
    first = config.pad_token_id + 1 if config.model_type in ("roberta", "xlm-roberta") else 0
    project = getattr(model, "embeddings_project", None)
    pooler = getattr(model, "pooler", None)
    return Anatomy(
        family=config.model_type,
        embeddings=_embeddings(model.embeddings, first),
        blocks=tuple(_bert_block(layer, config) for layer in model.encoder.layer),
        hidden_size=config.hidden_size,
        max_positions=config.max_position_embeddings - first,
        projection=None if project is None else Affine(project),
        pooler=None if pooler is None else Affine(pooler.dense),
    )


def _distilbert_block(layer: Any, config: Any) -> Block:
    attention, feed = layer.attention, layer.ffn
    return Block(
        attention=Attention(
            query=Affine(attention.q_lin),
            key=Affine(attention.k_lin),
            value=Affine(attention.v_lin),
            output=Affine(attention.out_lin),
            heads=config.n_heads,
            key_heads=config.n_heads,
            scale=attention.scaling,
            map_dropout=attention.dropout.p,
        ),
        attention_norm=_layer_norm(layer.sa_layer_norm),
        feed_forward=FeedForward(
            up=Affine(feed.lin1), down=Affine(feed.lin2), activation=config.activation, output_dropout=feed.dropout.p
        ),
        feed_forward_norm=_layer_norm(layer.output_layer_norm),
    )


def _distilbert(model: Any) -> Anatomy:
    config = model.config
    return Anatomy(
        family=config.model_type,
        embeddings=_embeddings(model.embeddings),
        blocks=tuple(_distilbert_block(layer, config) for layer in model.transformer.layer),
        hidden_size=config.dim,
        max_positions=config.max_position_embeddings,
    )


def _mpnet_block(layer: Any, config: Any, relative: RelativeBias) -> Block:
    attention = layer.attention.attn
    return Block(
        attention=Attention(
            query=Affine(attention.q),
            key=Affine(attention.k),
            value=Affine(attention.v),
            output=Affine(attention.o),
            heads=config.num_attention_heads,
            key_heads=config.num_attention_heads,
            scale=attention.attention_head_size**-0.5,
            relative=relative,
            map_dropout=attention.dropout.p,
            output_dropout=layer.attention.dropout.p,
        ),
        attention_norm=_layer_norm(layer.attention.LayerNorm),
        feed_forward=FeedForward(
            up=Affine(layer.intermediate.dense),
            down=Affine(layer.output.dense),
            activation=config.hidden_act,
            output_dropout=layer.output.dropout.p,
        ),
        feed_forward_norm=_layer_norm(layer.output.LayerNorm),
    )


def _mpnet(model: Any) -> Anatomy:
    config = model.config
    # The encoder ignores config.relative_attention_num_buckets when it computes buckets: always 32.
    relative = RelativeBias(model.encoder.relative_attention_bias, buckets=32)
    first = model.embeddings.padding_idx + 1
    return Anatomy(
        family=config.model_type,
        embeddings=_embeddings(model.embeddings, first),
        blocks=tuple(_mpnet_block(layer, config, relative) for layer in model.encoder.layer),
        hidden_size=config.hidden_size,
        max_positions=config.max_position_embeddings - first,
        pooler=None if model.pooler is None else Affine(model.pooler.dense),
    )


def _albert_block(layer: Any, config: Any) -> Block:
    attention = layer.attention
    return Block(
        attention=Attention(
            query=Affine(attention.query),
            key=Affine(attention.key),
            value=Affine(attention.value),
            output=Affine(attention.dense),
            heads=config.num_attention_heads,
            key_heads=config.num_attention_heads,
            scale=attention.scaling,
            map_dropout=attention.attention_dropout.p,
            output_dropout=attention.output_dropout.p,
        ),
        attention_norm=_layer_norm(attention.LayerNorm),
        feed_forward=FeedForward(up=Affine(layer.ffn), down=Affine(layer.ffn_output), activation=config.hidden_act),
        feed_forward_norm=_layer_norm(layer.full_layer_layer_norm),
    )


def _albert(model: Any) -> Anatomy:
    config = model.config
    groups = model.encoder.albert_layer_groups
    per_group = config.num_hidden_layers / config.num_hidden_groups
    blocks = tuple(
        _albert_block(layer, config)
        for index in range(config.num_hidden_layers)
        for layer in groups[int(index / per_group)].albert_layers
    )
    return Anatomy(
        family=config.model_type,
        embeddings=_embeddings(model.embeddings),
        blocks=blocks,
        hidden_size=config.hidden_size,
        max_positions=config.max_position_embeddings,
        projection=Affine(model.encoder.embedding_hidden_mapping_in),
        pooler=None if model.pooler is None else Affine(model.pooler),
    )


def _gpt_neo_block(layer: Any, config: Any) -> Block:
    attention, feed = layer.attn.attention, layer.mlp
    return Block(
        attention=Attention(
            query=Affine(attention.q_proj),
            key=Affine(attention.k_proj),
            value=Affine(attention.v_proj),
            output=Affine(attention.out_proj),
            heads=config.num_heads,
            key_heads=config.num_heads,
            scale=1.0,  # GPT-Neo does not scale its scores
            causal=True,
            reach=config.window_size - 1 if attention.attention_type == "local" else None,
            map_dropout=attention.attn_dropout.p,
            output_dropout=attention.resid_dropout.p,
        ),
        attention_norm=_layer_norm(layer.ln_1),
        feed_forward=FeedForward(
            up=Affine(feed.c_fc),
            down=Affine(feed.c_proj),
            activation=config.activation_function,
            output_dropout=feed.dropout.p,
        ),
        feed_forward_norm=_layer_norm(layer.ln_2),
        pre_norm=True,
    )


def _gpt_neo(model: Any) -> Anatomy:
    config = model.config
    return Anatomy(
        family=config.model_type,
        embeddings=Embeddings(word=model.wte, position=model.wpe, dropout=model.drop.p),
        blocks=tuple(_gpt_neo_block(layer, config) for layer in model.h),
        hidden_size=config.hidden_size,
        max_positions=config.max_position_embeddings,
        final_norm=_layer_norm(model.ln_f),
    )


def _modernbert_block(layer: Any, config: Any, rotary: Any) -> Block:
    attention, feed, kind = layer.attn, layer.mlp, layer.attention_type
    width, inner = config.hidden_size, config.intermediate_size
    return Block(
        attention=Attention(
            query=Affine(attention.Wqkv, (0, width)),
            key=Affine(attention.Wqkv, (width, 2 * width)),
            value=Affine(attention.Wqkv, (2 * width, 3 * width)),
            output=Affine(attention.Wo),
            heads=config.num_attention_heads,
            key_heads=config.num_attention_heads,
            scale=attention.head_dim**-0.5,
            reach=config.sliding_window if kind == "sliding_attention" else None,
            rotary=Rotary(rotary, f"{kind}_inv_freq", getattr(rotary, f"{kind}_attention_scaling")),
            map_dropout=config.attention_dropout,
            output_dropout=config.attention_dropout,
        ),
        attention_norm=None if isinstance(layer.attn_norm, nn.Identity) else _layer_norm(layer.attn_norm),
        # The half that Hugging Face calls `input` is activated; the one it calls `gate` is not.
        feed_forward=FeedForward(
            up=Affine(feed.Wi, (0, inner)),
            down=Affine(feed.Wo),
            activation=config.hidden_activation,
            gate=Affine(feed.Wi, (inner, 2 * inner)),
            inner_dropout=feed.drop.p,
        ),
        feed_forward_norm=_layer_norm(layer.mlp_norm),
        pre_norm=True,
    )


def _modernbert(model: Any) -> Anatomy:
    config = model.config
    embeddings = model.embeddings
    return Anatomy(
        family=config.model_type,
        embeddings=Embeddings(embeddings.tok_embeddings, norm=_layer_norm(embeddings.norm), dropout=embeddings.drop.p),
        blocks=tuple(_modernbert_block(layer, config, model.rotary_emb) for layer in model.layers),
        hidden_size=config.hidden_size,
        max_positions=config.max_position_embeddings,
        final_norm=_layer_norm(model.final_norm),
    )


def _rms_norm(module: Any) -> Norm:
    return Norm(module, "rms", module.variance_epsilon)


def _qwen3_block(layer: Any, config: Any, rotary: Any) -> Block:
    attention, feed = layer.self_attn, layer.mlp
    window = attention.sliding_window
    return Block(
        attention=Attention(
            query=Affine(attention.q_proj),
            key=Affine(attention.k_proj),
            value=Affine(attention.v_proj),
            output=Affine(attention.o_proj),
            heads=config.num_attention_heads,
            key_heads=config.num_key_value_heads,
            scale=attention.scaling,
            causal=True,
            reach=None if window is None else window - 1,
            rotary=Rotary(rotary, "inv_freq", rotary.attention_scaling),
            query_norm=_rms_norm(attention.q_norm),
            key_norm=_rms_norm(attention.k_norm),
            map_dropout=attention.attention_dropout,
        ),
        attention_norm=_rms_norm(layer.input_layernorm),
        feed_forward=FeedForward(
            up=Affine(feed.gate_proj),
            down=Affine(feed.down_proj),
            activation=config.hidden_act,
            gate=Affine(feed.up_proj),
        ),
        feed_forward_norm=_rms_norm(layer.post_attention_layernorm),
        pre_norm=True,
    )


def _qwen3(model: Any) -> Anatomy:
    config = model.config
    return Anatomy(
        family=config.model_type,
        embeddings=Embeddings(word=model.embed_tokens),
        blocks=tuple(_qwen3_block(layer, config, model.rotary_emb) for layer in model.layers),
        hidden_size=config.hidden_size,
        max_positions=config.max_position_embeddings,
        final_norm=_rms_norm(model.norm),
    )


FAMILIES: dict[str, Callable[[Any], Anatomy]] = {
    "albert": _albert,
    "bert": _bert,
    "distilbert": _distilbert,
    "electra": _bert,
    "gpt_neo": _gpt_neo,
    "modernbert": _modernbert,
    "mpnet": _mpnet,
    "qwen3": _qwen3,
    "roberta": _bert,
    "xlm-roberta": _bert,
}
