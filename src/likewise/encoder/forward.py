"""The one forward pass of the project: a short transformer over views, in pure functions.

Shapes: B texts, T tokens, D hidden width, H heads, W head width, F feed-forward width. A replay has R rows per
text, each a part of its input: where a docstring says (B, T, D) it takes (B, R, T, D).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from likewise.encoder.activations import ACTIVATIONS, Activation
from likewise.encoder.anatomy import Affine, Anatomy, Attention, Block, FeedForward, Norm, RelativeBias
from likewise.encoder.dropout import Dropout, no_dropout
from likewise.encoder.modes import LIVE, Mode, Recorder, Replay
from likewise.encoder.packing import Group, Packing


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


def embed(anatomy: Anatomy, batch: Batch, dropout: Dropout = no_dropout) -> Tensor:
    """Sum word, position and type vectors and norm them: -> (B, T, E), before any projection."""
    view = anatomy.embeddings
    first, *others = _embedding_terms(anatomy, batch).values()
    x = sum(others, first)
    if view.norm is not None:
        x = norm(view.norm, x)
    return dropout(x, view.dropout)


def _embedding_terms(anatomy: Anatomy, batch: Batch) -> dict[str, Tensor]:
    """What is summed before the norm: (B, T, E) or (1, T, E) each."""
    view = anatomy.embeddings
    terms = {"word": view.word(batch.ids)}
    if view.type is not None:
        terms["type"] = view.type(torch.zeros_like(batch.ids) if batch.types is None else batch.types)
    if view.position is not None:
        places = torch.arange(batch.ids.shape[1], device=batch.ids.device)[None]
        terms["position"] = view.position(places + view.first_position)
    return terms


def embedding_parts(anatomy: Anatomy, batch: Batch) -> dict[str, Tensor]:
    """``embed`` as the sum of its parts, the norm's scale held: word, type, position, bias, (B, T, E) each."""
    view = anatomy.embeddings
    terms = _embedding_terms(anatomy, batch)
    whole = sum(terms.values(), torch.zeros_like(terms["word"]))
    parts = {name: term.expand_as(whole) for name, term in terms.items()}
    if view.norm is None:
        return parts
    recorder = Recorder()
    scaled(view.norm, whole, recorder)
    parts = {name: scaled(view.norm, part[:, None], Replay(recorder)).squeeze(1) for name, part in parts.items()}
    return parts if view.norm.bias is None else parts | {"bias": view.norm.bias.expand_as(whole)}


def layers(
    anatomy: Anatomy,
    x: Tensor,
    mask: Tensor | Packing | None = None,
    *,
    maps: bool = False,
    dropout: Dropout = no_dropout,
    mode: Mode = LIVE,
    start: int = 0,
) -> Iterator[Step]:
    """Run the blocks on embeddings x (B, T, E), yielding L + 1 steps; the last one has passed the final norm.

    ``maps`` uses plain attention and hands the maps out; without, attention is fused where the mode allows it.
    With ``start`` x holds the states of that layer, and the steps begin there. With a packing in place of a mask x
    holds texts laid end to end, (N, E), and so do the steps.
    """
    h = x if anatomy.projection is None or start > 0 else linear(anatomy.projection, x, mode)
    yield Step(h, None)
    for index, block in enumerate(anatomy.blocks[start:], start=start + 1):
        h, attention_maps = run_block(block, h, mask, maps, dropout, mode)
        if index == anatomy.layers and anatomy.final_norm is not None:
            h = norm(anatomy.final_norm, h, mode)
        yield Step(h, attention_maps)


def run_block(
    block: Block, h: Tensor, mask: Tensor | Packing | None, maps: bool, dropout: Dropout, mode: Mode = LIVE
) -> tuple[Tensor, Tensor | None]:
    """One layer: states (B, T, D) -> states (B, T, D) and maps (B, H, T, T) or None."""
    inner = norm(block.attention_norm, h, mode) if block.pre_norm else h
    if isinstance(mask, Packing):
        mixed, attention_maps = attend_apart(block.attention, inner, mask, dropout), None
    else:
        mixed, attention_maps = attend(block.attention, inner, mask, maps, dropout, mode)
    h = h + mixed
    if not block.pre_norm:
        h = norm(block.attention_norm, h, mode)
    inner = norm(block.feed_forward_norm, h, mode) if block.pre_norm else h
    h = h + feed_forward(block.feed_forward, inner, dropout, mode)
    if not block.pre_norm:
        h = norm(block.feed_forward_norm, h, mode)
    return h, attention_maps


def attend(
    view: Attention, x: Tensor, mask: Tensor | None, maps: bool, dropout: Dropout, mode: Mode = LIVE
) -> tuple[Tensor, Tensor | None]:
    """Self-attention: x (B, T, D) -> mixed (B, T, D) and maps (B, H, T, T) or None where fused."""
    value = heads_of(linear(view.value, x, mode), view.key_heads)
    attention_maps = None
    # Fused attention would draw its own zeros.
    drops = dropout is not no_dropout and bool(view.map_dropout)
    if maps or drops or not mode.fused:
        attention_maps = mode.hold("attention", lambda inner: attention_map(view, x, mask, inner))
        mixed = mix(dropout(attention_maps, view.map_dropout), value)
    else:
        mixed = mix_fused(view, *queries_and_keys(view, x), value, mask)
    merged = mixed.transpose(-3, -2).flatten(-2)
    return dropout(linear(view.output, merged, mode), view.output_dropout), attention_maps


def attend_apart(view: Attention, x: Tensor, packing: Packing, dropout: Dropout) -> Tensor:
    """Self-attention within each of several texts laid end to end: x (N, D) -> mixed (N, D)."""
    projected = [linear(part, x) for part in (view.query, view.key, view.value)]
    mixed = [_mix_group(view, projected, group) for group in packing.groups]
    return dropout(linear(view.output, torch.cat(mixed).index_select(0, packing.back)), view.output_dropout)


def _mix_group(view: Attention, projected: Sequence[Tensor], group: Group) -> Tensor:
    """Queries, keys and values (N, D) of all texts -> what a group's tokens see, (B * T, D)."""
    # Not by an index: index_select has the faster way back.
    query, key, value = (
        part.index_select(0, group.places.flatten()).view(*group.places.shape, -1) for part in projected
    )
    query, key = turned(view, query, key)
    value = heads_of(value, view.key_heads)
    if group.dropout is not no_dropout and view.map_dropout:
        mixed = mix(group.dropout(attention_weights(view, query, key, group.mask), view.map_dropout), value)
    else:
        mixed = mix_fused(view, query, key, value, group.mask)
    return mixed.transpose(-3, -2).flatten(-2).flatten(0, 1)


def mix_fused(view: Attention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """``mix`` without maps: queries and keys (B, H, T, W), values (B, K, T, W) -> (B, H, T, W)."""
    bias, value = attention_bias(view, query, mask), spread(value, view.heads)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=view.scale)


def mix(maps: Tensor, value: Tensor) -> Tensor:
    """Average values (..., K, T, W) by maps (..., H, T, T): -> (..., H, T, W)."""
    heads = maps.shape[-3]
    if maps.ndim < 5:
        return maps @ spread(value, heads)
    # Replayed rows (B, R, K, T, W) share their text's maps (B, 1, H, T, T): one product per head, not one per row.
    batch, rows, groups, length, width = value.shape
    side_by_side = value.permute(0, 2, 3, 1, 4).reshape(batch, groups, length, rows * width)
    mixed = maps.squeeze(1) @ spread(side_by_side, heads)
    return mixed.reshape(batch, heads, length, rows, width).permute(0, 3, 1, 2, 4)


def queries_and_keys(view: Attention, x: Tensor, mode: Mode = LIVE) -> tuple[Tensor, Tensor]:
    """x (B, T, D) -> queries and keys (B, H, T, W)."""
    return turned(view, linear(view.query, x, mode), linear(view.key, x, mode), mode)


def turned(view: Attention, query: Tensor, key: Tensor, mode: Mode = LIVE) -> tuple[Tensor, Tensor]:
    """Projected queries and keys (B, T, D) as heads (B, H, T, W), normed and rotated where the family does so."""
    query, key = heads_of(query, view.heads), heads_of(key, view.key_heads)
    if view.query_norm is not None:
        query = norm(view.query_norm, query, mode)
    if view.key_norm is not None:
        key = norm(view.key_norm, key, mode)
    if view.rotary is not None:
        cos, sin = rotation(view.rotary.frequencies, query, view.rotary.scaling)
        query, key = rotate(query, cos, sin), rotate(key, cos, sin)
    return query, spread(key, view.heads)


def attention_map(view: Attention, x: Tensor, mask: Tensor | None, mode: Mode = LIVE) -> Tensor:
    """Attention probabilities (B, H, T, T) of states x (B, T, D)."""
    return attention_weights(view, *queries_and_keys(view, x, mode), mask)


def attention_weights(view: Attention, query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
    """Queries and keys (B, H, T, W) -> how much each token takes of each other, (B, H, T, T)."""
    scores = query @ key.transpose(-1, -2) * view.scale
    bias = attention_bias(view, query, mask)
    return torch.softmax(scores if bias is None else scores + bias, dim=-1)


def feed_forward(view: FeedForward, x: Tensor, dropout: Dropout = no_dropout, mode: Mode = LIVE) -> Tensor:
    """(B, T, D) -> (B, T, D)."""
    activation = ACTIVATIONS[view.activation]
    if view.gate is None:
        inner = activate(activation, linear(view.up, x, mode), mode)
    else:
        # The activated factor is held whole, the other one stays live.
        held = mode.hold("activation", lambda within: activation(linear(view.up, x, within)))
        inner = held * linear(view.gate, x, mode)
    inner = dropout(inner, view.inner_dropout)
    return dropout(linear(view.down, inner, mode), view.output_dropout)


def activate(activation: Activation, h: Tensor, mode: Mode = LIVE) -> Tensor:
    """Apply an activation to h (..., F), as h times its held factor where the mode holds it."""
    if not mode.holds("activation"):
        return activation(h)
    product = mode.scale(h, mode.hold("activation", lambda _: activation.factor(h)))
    return mode.shift(product, product.new_tensor(activation.shift)) if activation.shift else product


def linear(view: Affine, x: Tensor, mode: Mode = LIVE) -> Tensor:
    """(..., in) -> (..., out)."""
    if mode.fused:
        return F.linear(x, view.weight, view.bias)
    return mode.shift(F.linear(x, view.weight), view.bias)


def norm(view: Norm | None, x: Tensor, mode: Mode = LIVE) -> Tensor:
    """LayerNorm or RMSNorm, (..., D) -> (..., D); None is the identity (ModernBERT's first layer)."""
    if view is None:
        return x
    if not mode.fused:
        return scaled(view, x, mode)
    if view.kind == "rms":
        return F.rms_norm(x, x.shape[-1:], view.weight, view.eps)
    return F.layer_norm(x, x.shape[-1:], view.weight, view.bias, view.eps)


def scaled(view: Norm, x: Tensor, mode: Mode) -> Tensor:
    """A norm in two steps, so that a mode can hold its scale; the mean of a LayerNorm stays live."""
    centred = x.clone() if view.kind == "rms" else x - x.mean(-1, keepdim=True)
    scale = mode.hold("norm", lambda _: torch.rsqrt(centred.square().mean(-1, keepdim=True) + view.eps))
    return mode.shift(mode.scale(centred, scale * view.weight), view.bias)


def heads_of(x: Tensor, heads: int) -> Tensor:
    """Split the width: (B, T, H * W) -> (B, H, T, W)."""
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads).transpose(-3, -2)


def spread(x: Tensor, heads: int) -> Tensor:
    """Share key or value heads between query heads: (B, K, T, W) -> (B, H, T, W)."""
    return x if x.shape[-3] == heads else x.repeat_interleave(heads // x.shape[-3], dim=-3)


def rotation(frequencies: Tensor, x: Tensor, scaling: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines (T, W) of the rotary angles at the positions of x (..., T, W)."""
    # Angles in at least float32: positions beyond 2048 are not exact in half precision.
    dtype = torch.promote_types(x.dtype, torch.float32)
    places = torch.arange(x.shape[-2], device=x.device, dtype=dtype)
    angles = (places[:, None] * frequencies.to(dtype)).repeat(1, 2)
    return (angles.cos() * scaling).to(x.dtype), (angles.sin() * scaling).to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair (x_d, x_{d + W/2}) of x (B, H, T, W) by its position's angle."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def attention_bias(view: Attention, h: Tensor, mask: Tensor | None) -> Tensor | None:
    """What is added to the scores: (B or 1, H or 1, T, T), or None where every token sees every other."""
    length = h.shape[-2]
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
