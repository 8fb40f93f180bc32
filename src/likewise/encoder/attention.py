"""Self-attention in every mode, its transpose, and attention maps computed block by block.

Shapes: see ``forward``. K is also the number of key and value heads, which may be less than the H query heads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from likewise.encoder.model_view import (
    Attention,
    Disentangled,
    Dropout,
    RelativeBias,
    linear,
    linear_transposed,
    no_dropout,
    norm,
    norm_transposed,
)
from likewise.encoder.modes import LIVE, Mode, Transposed, normalized

BLOCK_CELLS = 2**23  # Cells of a map that are computed at a time if maps are not stored: 32 MB in float32
WINDOW_BLOCK = 256  # Queries of a block if each token sees a window of keys
EVERY = slice(None)


@dataclass(frozen=True)
class LazyMaps:
    """The attention maps of states x (B, T, D), whole or block by block."""

    view: Attention
    x: Tensor
    mask: Tensor | None = None

    def whole(self, mode: Mode = LIVE) -> Tensor:
        """(B, H, T, T)."""
        return attention_weights(self.view, *queries_and_keys(self.view, self.x, mode), self.mask)

    def blocks(self) -> Iterator[tuple[slice, slice, Tensor]]:
        """Queries, the keys that they see, and their block of the map, (B, H, queries, keys)."""
        query, key = queries_and_keys(self.view, self.x)
        cells = query.shape[0] * self.view.heads * query.shape[-2]
        for rows, columns in query_blocks(self.view, query.shape[-2], max(1, BLOCK_CELLS // cells)):
            part = query[..., rows, :], key[..., columns, :]
            yield rows, columns, attention_weights(self.view, *part, self.mask, rows, columns)


@dataclass(frozen=True)
class LazyTrace:
    """``traced`` block by block. ``query`` (B, H, T, W) is what heads give to each position's sum."""

    maps: LazyMaps
    query: Tensor
    value: Tensor
    own: Tensor

    def mixed(self, owners: Tensor) -> Tensor:
        """Owners (B, R, T) of the positions before attention -> of those after it."""
        return torch.cat([owners[..., columns] @ part.transpose(1, 2) for _, columns, part in self._blocks()], dim=-1)

    def taken(self, biases: Tensor) -> Tensor:
        """The transpose: what is at each position (B, K, T) goes back to the positions that it came from."""
        total = torch.zeros_like(biases)
        for rows, columns, part in self._blocks():
            total[..., columns] += biases[..., rows] @ part
        return total

    def _blocks(self) -> Iterator[tuple[slice, slice, Tensor]]:
        for rows, columns, part in self.maps.blocks():
            found = _shares(part, self.query[..., rows, :], self.value[..., columns, :])
            found.diagonal(rows.start - columns.start, 1, 2).add_(self.own[:, rows])
            yield rows, columns, normalized(found.abs())


def traced(lazy: LazyMaps, maps: Tensor | None, h: Tensor, mixed: Tensor) -> Tensor | LazyTrace:
    """How much of a position after attention comes from each position before: (B, T, T), rows sum to 1.

    Position t holds the sum s_t = h_t + sum_i v_ti, where v_ti is what attention brings from position i. The share of i
    is |<v_ti, s_t>|, with h_t in that of t (Ferrando et al. 2022 use distances). ``mixed`` is attention's output.
    """
    view = lazy.view
    whole = h + (mixed if view.output.bias is None else mixed - view.output.bias)
    query = heads_of(whole @ view.output.weight, view.heads)
    value = spread(values(view, linear(view.value, lazy.x)), view.heads)
    own = (h * whole).sum(-1)
    if maps is None:
        return LazyTrace(lazy, query, value, own)
    return normalized((_shares(maps, query, value) + torch.diag_embed(own)).abs())


def _shares(maps: Tensor, query: Tensor, value: Tensor) -> Tensor:
    """<v_ti, s_t> for maps (B, H, queries, keys): -> (B, queries, keys)."""
    return (maps * (query @ value.transpose(-1, -2))).sum(1)


def query_blocks(view: Attention, length: int, size: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of ``size`` queries and the range of keys that each sees."""
    if view.reach is not None:
        size = max(size, WINDOW_BLOCK)
    for start in range(0, length, size):
        stop = min(start + size, length)
        first = 0 if view.reach is None else max(0, start - view.reach)
        last = stop if view.causal else length if view.reach is None else min(length, stop + view.reach)
        yield slice(start, stop), slice(first, last)


def attend(
    view: Attention, x: Tensor, mask: Tensor | None, maps: bool, dropout: Dropout, mode: Mode = LIVE
) -> tuple[Tensor, Tensor | None]:
    """Self-attention: x (B, T, D) -> mixed (B, T, D) and maps (B, H, T, T), or None if there are no whole maps."""
    value = values(view, linear(view.value, x, mode), mode)
    whole: Tensor | None = None
    # Fused attention draws its own zeros.
    drops = dropout is not no_dropout and bool(view.map_dropout)
    if maps or drops or not mode.fused:
        found = mode.linearize_maps(LazyMaps(view, x, mask))
        whole = dropout(found, view.map_dropout) if isinstance(found, Tensor) else None
        mixed = mix(found if whole is None else whole, value)
    else:
        mixed = mix_fused(view, *queries_and_keys(view, x), value, mask)
    return dropout(linear(view.output, merged(mixed), mode), view.output_dropout), whole


def attend_transposed(view: Attention, gradient: Tensor, mode: Transposed) -> Tensor:
    """(B, K, T, D) -> (B, K, T, D), by the transposed maps."""
    mixed = heads_of(linear_transposed(view.output, gradient, mode), view.heads)
    value = norm_transposed(view.value_norm, mix_transposed(mode.recorded_maps(), mixed, view.key_heads), mode)
    return linear_transposed(view.value, merged(value), mode)


@dataclass(frozen=True)
class Group:
    """Texts of similar length, for which attention runs at once."""

    indices: Tensor  # the indices of their tokens among all tokens, (B, T); beyond a text's end its last token repeats
    mask: Tensor | None  # which of them are real tokens, (B, T); None for all
    dropout: Dropout = no_dropout  # the dropout of their attention maps


@dataclass(frozen=True)
class Packing:
    """N tokens of several texts, end to end, in groups: only attention works on padding."""

    groups: tuple[Group, ...]
    back: Tensor  # the index of each of the N tokens in the groups' rows, end to end


def packing(lengths: Sequence[Sequence[int]], dropouts: Sequence[Dropout], device: torch.device) -> Packing:
    """The packing of groups of texts with these lengths, in this order."""
    groups: list[Group] = []
    back: list[Tensor] = []
    begin, row = 0, 0
    for own, dropout in zip(lengths, dropouts, strict=True):
        sizes = torch.tensor(own)
        ends = begin + sizes.cumsum(0)
        steps = torch.arange(max(own))
        mask = steps < sizes[:, None]
        indices = (ends - sizes)[:, None] + steps.minimum(sizes[:, None] - 1)
        groups.append(Group(indices.to(device), None if mask.all() else mask.to(device), dropout))
        back.append(row + mask.flatten().nonzero()[:, 0])
        begin, row = int(ends[-1]), row + mask.numel()
    return Packing(tuple(groups), torch.cat(back).to(device))


def attend_apart(view: Attention, x: Tensor, packing: Packing, dropout: Dropout) -> Tensor:
    """Self-attention within each of several texts, end to end: x (N, D) -> mixed (N, D)."""
    projected = [linear(part, x) for part in (view.query, view.key, view.value)]
    mixed = [_mix_group(view, projected, group) for group in packing.groups]
    return dropout(linear(view.output, torch.cat(mixed).index_select(0, packing.back)), view.output_dropout)


def _mix_group(view: Attention, projected: Sequence[Tensor], group: Group) -> Tensor:
    """Queries, keys and values (N, D) of all texts -> the mixed values of a group, (B * T, D)."""
    # Not by indexing: index_select has the faster backward pass.
    query, key, value = (
        part.index_select(0, group.indices.flatten()).view(*group.indices.shape, -1) for part in projected
    )
    query, key = split_and_rotated(view, query, key)
    value = values(view, value)
    if group.dropout is not no_dropout and view.map_dropout:
        mixed = mix(group.dropout(attention_weights(view, query, key, group.mask), view.map_dropout), value)
    else:
        mixed = mix_fused(view, query, key, value, group.mask)
    return merged(mixed).flatten(0, 1)


def mix_fused(view: Attention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """``mix`` without maps: queries and keys (B, H, T, W), values (B, K, T, W) -> (B, H, T, W)."""
    value, length = spread(value, view.heads), query.shape[-2]
    # An export holds for every length, so it must not branch on the present one.
    narrow = view.reach is not None and not torch.compiler.is_exporting() and length > 2 * (view.reach + WINDOW_BLOCK)
    blocks = query_blocks(view, length, WINDOW_BLOCK) if narrow else [(EVERY, EVERY)]
    mixed = []
    for rows, columns in blocks:
        part = query[..., rows, :], key[..., columns, :]
        bias = attention_bias(view, *part, mask, rows, columns)
        mixed.append(F.scaled_dot_product_attention(*part, value[..., columns, :], attn_mask=bias, scale=view.scale))
    return mixed[0] if len(mixed) == 1 else torch.cat(mixed, dim=-2)


def mix(maps: Tensor | LazyMaps, value: Tensor) -> Tensor:
    """Average values (..., K, T, W) by maps (..., H, T, T): -> (..., H, T, W)."""
    if isinstance(maps, LazyMaps):
        blocks = ((columns, part.unsqueeze(1) if value.ndim == 5 else part) for _, columns, part in maps.blocks())
        return torch.cat([mix(part, value[..., columns, :]) for columns, part in blocks], dim=-2)
    heads = maps.shape[-3]
    if maps.ndim < 5:
        return maps @ spread(value, heads)
    # Replayed rows (B, R, K, T, W) share their text's maps (B, 1, H, T, T): one product per head, not one per row.
    return _apart(maps.squeeze(1) @ spread(_side_by_side(value), heads), value.shape[1])


def mix_transposed(maps: Tensor | LazyMaps, gradient: Tensor, key_heads: int) -> Tensor:
    """The transpose of ``mix`` for directions (B, K, H, T, W): -> (B, K, key heads, T, W)."""
    if isinstance(maps, LazyMaps):
        batch, directions, _, length, width = gradient.shape
        total = gradient.new_zeros(batch, directions, key_heads, length, width)
        for rows, columns, part in maps.blocks():
            total[..., columns, :] += mix_transposed(part.unsqueeze(1), gradient[..., rows, :], key_heads)
        return total
    back = maps.squeeze(1).transpose(-1, -2) @ _side_by_side(gradient)
    if (heads := back.shape[1]) != key_heads:
        back = back.reshape(len(back), key_heads, heads // key_heads, *back.shape[2:]).sum(2)
    return _apart(back, gradient.shape[1])


def _side_by_side(rows: Tensor) -> Tensor:
    """(B, R, H, T, W) -> (B, H, T, R * W)."""
    return rows.permute(0, 2, 3, 1, 4).flatten(-2)


def _apart(rows: Tensor, count: int) -> Tensor:
    """(B, H, T, R * W) -> (B, R, H, T, W)."""
    return rows.reshape(*rows.shape[:-1], count, -1).permute(0, 3, 1, 2, 4)


def queries_and_keys(view: Attention, x: Tensor, mode: Mode = LIVE) -> tuple[Tensor, Tensor]:
    """x (B, T, D) -> queries and keys (B, H, T, W)."""
    return split_and_rotated(view, linear(view.query, x, mode), linear(view.key, x, mode), mode)


def values(view: Attention, value: Tensor, mode: Mode = LIVE) -> Tensor:
    """Projected values (B, T, D) -> heads (B, K, T, W), normed if the family does so."""
    return norm(view.value_norm, heads_of(value, view.key_heads), mode)


def split_and_rotated(view: Attention, query: Tensor, key: Tensor, mode: Mode = LIVE) -> tuple[Tensor, Tensor]:
    """Projected queries and keys (B, T, D) -> heads (B, H, T, W), normed and rotated if the family does so."""
    query = norm(view.query_norm, heads_of(query, view.heads), mode)
    key = norm(view.key_norm, heads_of(key, view.key_heads), mode)
    if view.rotary is not None:
        cos, sin = rotation(view.rotary.frequencies, query, view.rotary.scaling)
        query, key = rotate(query, cos, sin), rotate(key, cos, sin)
    return query, spread(key, view.heads)


def attention_weights(
    view: Attention, query: Tensor, key: Tensor, mask: Tensor | None, rows: slice = EVERY, columns: slice = EVERY
) -> Tensor:
    """Some queries and keys (B, H, T, W) -> their attention map, (B, H, queries, keys)."""
    scores = query @ key.transpose(-1, -2) * view.scale
    bias = attention_bias(view, query, key, mask, rows, columns)
    return torch.softmax(scores if bias is None else scores + bias, dim=-1)


def heads_of(x: Tensor, heads: int) -> Tensor:
    """Split the width: (B, T, H * W) -> (B, H, T, W)."""
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads).transpose(-3, -2)


def merged(x: Tensor) -> Tensor:
    """The inverse of ``heads_of``."""
    return x.transpose(-3, -2).flatten(-2)


def spread(x: Tensor, heads: int) -> Tensor:
    """Share key or value heads between query heads: (B, K, T, W) -> (B, H, T, W)."""
    return x if x.shape[-3] == heads else x.repeat_interleave(heads // x.shape[-3], dim=-3)


def rotation(frequencies: Tensor, x: Tensor, scaling: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines (T, W) of the rotary angles at the positions of x (..., T, W)."""
    # Angles in at least float32: positions beyond 2048 are not exact in half precision.
    dtype = torch.promote_types(x.dtype, torch.float32)
    indices = torch.arange(x.shape[-2], device=x.device, dtype=dtype)
    angles = (indices[:, None] * frequencies.to(dtype)).repeat(1, 2)
    return (angles.cos() * scaling).to(x.dtype), (angles.sin() * scaling).to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair (x_d, x_{d + W/2}) of x (B, H, T, W) by its position's angle."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def attention_bias(
    view: Attention, query: Tensor, key: Tensor, mask: Tensor | None, rows: slice = EVERY, columns: slice = EVERY
) -> Tensor | None:
    """What is added to the scores of these queries and keys (B, H, T, W): (B or 1, H or 1, T, T); None for nothing."""
    visible = None if mask is None else mask.bool()[:, None, None, columns]
    distances = None
    if view.causal or view.reach is not None or view.relative is not None or view.disentangled is not None:
        end = query.shape[-2] if rows.stop is None else max(rows.stop, columns.stop)
        positions = torch.arange(end, device=query.device)
        ahead = positions[columns][None, :] - positions[rows][:, None]
        pairs = visible_pairs(view, ahead)
        visible = visible if pairs is None else pairs if visible is None else pairs & visible
        distances = distance_scores(view, query, key, ahead)
    if visible is None:
        return distances
    # The lowest finite number, not -inf: a padding row that sees nothing would become NaN.
    lowest = torch.finfo(query.dtype).min
    bias = torch.zeros(visible.shape, dtype=query.dtype, device=query.device).masked_fill(~visible, lowest)
    return bias if distances is None else distances + bias


def distance_scores(view: Attention, query: Tensor, key: Tensor, ahead: Tensor) -> Tensor | None:
    """What the distances (T, T) of tokens add to their scores, (B or 1, H, T, T)."""
    if view.relative is not None:
        return relative_bias(view.relative, ahead)
    return None if view.disentangled is None else disentangled_scores(view, view.disentangled, query, key, -ahead)


def visible_pairs(view: Attention, ahead: Tensor) -> Tensor | None:
    """Which token sees which, (1, 1, T, T), by how far ahead it is (T, T); None if all see all."""
    # An export holds for every length, so it must not branch on the present one.
    all_in_reach = view.reach is None or (not torch.compiler.is_exporting() and view.reach >= max(ahead.shape) - 1)
    if not view.causal and all_in_reach:
        return None
    visible = ahead <= 0 if view.causal else torch.ones_like(ahead, dtype=torch.bool)
    if view.reach is not None:
        visible = visible & (ahead.abs() <= view.reach)
    return visible[None, None]


def relative_bias(view: RelativeBias, ahead: Tensor) -> Tensor:
    """The learned bias (1, H, T, T): short distances have one bucket each, long ones share logarithmic buckets."""
    half = view.buckets // 2
    exact = half // 2
    distance = ahead.abs()
    far = torch.log(distance.clamp(min=1).float() / exact) / math.log(view.max_distance / exact)
    far_bucket = (exact + (far * (half - exact)).long()).clamp(max=half - 1)
    bucket = torch.where(distance < exact, distance, far_bucket) + (ahead > 0) * half
    values: Tensor = view.module(bucket)  # (T, T, H)
    return values.permute(2, 0, 1)[None]


def disentangled_scores(
    view: Attention, positions: Disentangled, query: Tensor, key: Tensor, distances: Tensor
) -> Tensor:
    """DeBERTa's scores of contents with distances i - j (T, T): queries and keys (B, H, T, W) -> (B, H, T, T)."""
    vectors = norm(positions.norm, positions.vectors.weight)
    index = distance_index(positions, distances).expand(*query.shape[:2], -1, -1)
    scores = query.new_zeros(())
    if positions.key is not None:
        found = query @ heads_of(linear(positions.key, vectors), view.heads).transpose(-1, -2)
        scores = scores + found.gather(-1, index)
    if positions.query is not None:
        found = key @ heads_of(linear(positions.query, vectors), view.heads).transpose(-1, -2)
        scores = scores + found.gather(-1, index.transpose(-1, -2)).transpose(-1, -2)
    return scores * view.scale


def distance_index(view: Disentangled, distances: Tensor) -> Tensor:
    """The row of each distance in the table: short distances have one each, long ones share logarithmic buckets."""
    if view.max_distance is not None:
        half = view.span // 2
        # In float32, as the model rounds it.
        far = torch.log(distances.abs().clamp(min=half).float() / half) / math.log((view.max_distance - 1) / half)
        bucket = (torch.ceil(far * (half - 1)) + half).long() * distances.sign()
        distances = torch.where(distances.abs() <= half, distances, bucket)
    return (distances + view.span).clamp(0, 2 * view.span - 1)
