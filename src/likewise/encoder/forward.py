"""The one forward pass of the project: a short transformer over views, in pure functions.

Shapes: B texts, T tokens, D hidden width, H heads, W head width, F feed-forward width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from likewise.encoder.anatomy import Affine, Anatomy, Attention, Block, FeedForward, Norm, RelativeBias

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
}


@dataclass(frozen=True)
class Batch:
    """Token ids (B, T); type ids (B, T) or None for zeros; mask (B, T), 1 for real tokens, or None for all."""

    ids: Tensor
    types: Tensor | None = None
    mask: Tensor | None = None


@dataclass(frozen=True)
class Step:
    """One layer's result: hidden states (B, T, D) and, where asked for, attention maps (B, H, T, T)."""

    states: Tensor
    maps: Tensor | None


def embed(anatomy: Anatomy, batch: Batch, training: bool = False) -> Tensor:
    """Sum word, position and type vectors and norm them: -> (B, T, E), before any projection."""
    view = anatomy.embeddings
    x = view.word(batch.ids)
    if view.type is not None:
        types = torch.zeros_like(batch.ids) if batch.types is None else batch.types
        x = x + view.type(types)
    if view.position is not None:
        places = torch.arange(batch.ids.shape[1], device=batch.ids.device)[None]
        x = x + view.position(places + view.first_position)
    if view.norm is not None:
        x = norm(view.norm, x)
    return F.dropout(x, view.dropout, training)


def layers(
    anatomy: Anatomy, x: Tensor, mask: Tensor | None = None, *, maps: bool = False, training: bool = False
) -> Iterator[Step]:
    """Run the blocks on embeddings x (B, T, E), yielding L + 1 steps; the last one has passed the final norm.

    ``maps`` uses plain attention and hands the maps out; without, attention is fused.
    """
    h = x if anatomy.projection is None else linear(anatomy.projection, x)
    yield Step(h, None)
    for index, block in enumerate(anatomy.blocks, start=1):
        scores_bias = attention_bias(block.attention, h, mask)
        h, attention_maps = run_block(block, h, scores_bias, maps, training)
        if index == anatomy.layers and anatomy.final_norm is not None:
            h = norm(anatomy.final_norm, h)
        yield Step(h, attention_maps)


def run_block(block: Block, h: Tensor, bias: Tensor | None, maps: bool, training: bool) -> tuple[Tensor, Tensor | None]:
    """One layer: states (B, T, D) -> states (B, T, D) and maps (B, H, T, T) or None."""
    inner = norm(block.attention_norm, h) if block.pre_norm else h
    mixed, attention_maps = attend(block.attention, inner, bias, maps, training)
    h = h + mixed
    if not block.pre_norm:
        h = norm(block.attention_norm, h)
    inner = norm(block.feed_forward_norm, h) if block.pre_norm else h
    h = h + feed_forward(block.feed_forward, inner, training)
    if not block.pre_norm:
        h = norm(block.feed_forward_norm, h)
    return h, attention_maps


def attend(view: Attention, x: Tensor, bias: Tensor | None, maps: bool, training: bool) -> tuple[Tensor, Tensor | None]:
    """Self-attention: x (B, T, D) -> mixed (B, T, D) and maps (B, H, T, T) or None where fused."""
    query, key = queries_and_keys(view, x)
    value = spread(heads_of(linear(view.value, x), view.key_heads), view.heads)
    dropout = view.map_dropout if training else 0.0
    attention_maps = None
    if maps:
        attention_maps = attention_map(view, query, key, bias)
        mixed = F.dropout(attention_maps, dropout, training) @ value
    else:
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=dropout, scale=view.scale)
    merged = mixed.transpose(1, 2).flatten(2)
    return F.dropout(linear(view.output, merged), view.output_dropout, training), attention_maps


def queries_and_keys(view: Attention, x: Tensor) -> tuple[Tensor, Tensor]:
    """x (B, T, D) -> queries and keys (B, H, T, W), normed and rotated where the family does so."""
    query = heads_of(linear(view.query, x), view.heads)
    key = heads_of(linear(view.key, x), view.key_heads)
    if view.query_norm is not None:
        query = norm(view.query_norm, query)
    if view.key_norm is not None:
        key = norm(view.key_norm, key)
    if view.rotary is not None:
        cos, sin = rotation(view.rotary.frequencies, x, view.rotary.scaling)
        query, key = rotate(query, cos, sin), rotate(key, cos, sin)
    return query, spread(key, view.heads)


def attention_map(view: Attention, query: Tensor, key: Tensor, bias: Tensor | None) -> Tensor:
    """Attention probabilities (B, H, T, T) of queries and keys (B, H, T, W)."""
    scores = query @ key.transpose(-1, -2) * view.scale
    return torch.softmax(scores if bias is None else scores + bias, dim=-1)


def feed_forward(view: FeedForward, x: Tensor, training: bool) -> Tensor:
    """(B, T, D) -> (B, T, D)."""
    inner = ACTIVATIONS[view.activation](linear(view.up, x))
    if view.gate is not None:
        inner = inner * linear(view.gate, x)
    inner = F.dropout(inner, view.inner_dropout, training)
    return F.dropout(linear(view.down, inner), view.output_dropout, training)


def linear(view: Affine, x: Tensor) -> Tensor:
    """(..., in) -> (..., out)."""
    return F.linear(x, view.weight, view.bias)


def norm(view: Norm | None, x: Tensor) -> Tensor:
    """LayerNorm or RMSNorm, (..., D) -> (..., D); None is the identity (ModernBERT's first layer)."""
    if view is None:
        return x
    if view.kind == "rms":
        return F.rms_norm(x, x.shape[-1:], view.weight, view.eps)
    return F.layer_norm(x, x.shape[-1:], view.weight, view.bias, view.eps)


def heads_of(x: Tensor, heads: int) -> Tensor:
    """Split the width: (B, T, H * W) -> (B, H, T, W)."""
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads).transpose(1, 2)


def spread(x: Tensor, heads: int) -> Tensor:
    """Share key or value heads between query heads: (B, K, T, W) -> (B, H, T, W)."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def rotation(frequencies: Tensor, x: Tensor, scaling: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines (T, W) of the rotary angles at the positions of x (B, T, D)."""
    # Angles in at least float32: positions beyond 2048 are not exact in half precision.
    dtype = torch.promote_types(x.dtype, torch.float32)
    places = torch.arange(x.shape[1], device=x.device, dtype=dtype)
    angles = (places[:, None] * frequencies.to(dtype)).repeat(1, 2)
    return (angles.cos() * scaling).to(x.dtype), (angles.sin() * scaling).to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair (x_d, x_{d + W/2}) of x (B, H, T, W) by its position's angle."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def attention_bias(view: Attention, h: Tensor, mask: Tensor | None) -> Tensor | None:
    """What is added to the scores: (B or 1, H or 1, T, T), or None where every token sees every other."""
    length = h.shape[1]
    visible = visible_pairs(view, length, h.device)
    if mask is not None:
        real = mask.bool()[:, None, None, :]
        visible = real if visible is None else visible & real
    # The lowest finite number, not -inf: a padding row that sees nothing must not become NaN.
    bias = None
    if visible is not None:
        bias = torch.zeros(visible.shape, dtype=h.dtype, device=h.device)
        bias = bias.masked_fill(~visible, torch.finfo(h.dtype).min)
    if view.relative is not None:
        distances = relative_bias(view.relative, length)
        bias = distances if bias is None else distances + bias
    return bias


def visible_pairs(view: Attention, length: int, device: torch.device) -> Tensor | None:
    """Which token sees which, (1, 1, T, T), by causality and reach; None where all do."""
    # An export must hold for every length, so it may not branch on this one.
    all_in_reach = view.reach is None or (not torch.compiler.is_exporting() and view.reach >= length - 1)
    if not view.causal and all_in_reach:
        return None
    places = torch.arange(length, device=device)
    ahead = places[None, :] - places[:, None]
    visible = ahead <= 0 if view.causal else torch.ones_like(ahead, dtype=torch.bool)
    if view.reach is not None:
        visible = visible & (ahead.abs() <= view.reach)
    return visible[None, None]


def relative_bias(view: RelativeBias, length: int) -> Tensor:
    """MPNet's bias (1, H, T, T): near distances have a bucket each, far ones share logarithmic buckets."""
    places = torch.arange(length, device=view.module.weight.device)
    ahead = places[None, :] - places[:, None]
    half = view.buckets // 2
    exact = half // 2
    distance = ahead.abs()
    far = torch.log(distance.clamp(min=1).float() / exact) / math.log(view.max_distance / exact)
    far_bucket = (exact + (far * (half - exact)).long()).clamp(max=half - 1)
    bucket = torch.where(distance < exact, distance, far_bucket) + (ahead > 0) * half
    values: Tensor = view.module(bucket)  # (T, T, H)
    return values.permute(2, 0, 1)[None]
