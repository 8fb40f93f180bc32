"""The one forward pass of the project: a short transformer over views, in pure functions.

Shapes: B texts, T tokens, D hidden width, H heads, W head width, F feed-forward width. A replay has R rows per text,
each a part of its input: (B, R, T, D) instead of (B, T, D). The transpose takes K directions per text back to the
input, (B, K, T, D).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from likewise.encoder.attention import LazyMaps, attend, attend_apart, attend_transposed, traced
from likewise.encoder.batches import Packing
from likewise.encoder.dropout import Dropout, no_dropout
from likewise.encoder.model_view import Block, ModelView
from likewise.encoder.modes import LIVE, Mode, Recorder, Replay, Transposed
from likewise.encoder.primitives import (
    feed_forward,
    feed_forward_transposed,
    linear,
    linear_transposed,
    norm,
    norm_transposed,
    scaled,
)


@dataclass(frozen=True)
class Batch:
    """Token ids (B, T); type ids (B, T) or None for zeros; mask (B, T), 1 for real tokens, or None for all."""

    ids: Tensor
    types: Tensor | None = None
    mask: Tensor | None = None


@dataclass(frozen=True)
class Step:
    """One layer's result: hidden states (B, T, D) and, on request, attention maps (B, H, T, T)."""

    states: Tensor
    maps: Tensor | None


def embed(model_view: ModelView, batch: Batch, dropout: Dropout = no_dropout, words: Tensor | None = None) -> Tensor:
    """Sum word, position and type vectors and norm them: -> (B, T, E), before any projection.

    ``words`` (B, T, E) replace the word vectors of the ids.
    """
    view = model_view.embeddings
    first, *others = _embedding_terms(model_view, batch, words).values()
    x = sum(others, first)
    if view.norm is not None:
        x = norm(view.norm, x)
    return dropout(x, view.dropout)


def _embedding_terms(model_view: ModelView, batch: Batch, words: Tensor | None = None) -> dict[str, Tensor]:
    """The summands before the norm: (B, T, E) or (1, T, E) each."""
    view = model_view.embeddings
    terms = {"word": view.word(batch.ids) if words is None else words}
    if view.type is not None:
        terms["type"] = view.type(torch.zeros_like(batch.ids) if batch.types is None else batch.types)
    if view.position is not None:
        indices = torch.arange(batch.ids.shape[1], device=batch.ids.device)[None]
        terms["position"] = view.position(indices + view.first_position)
    return terms


def embedding_parts(model_view: ModelView, batch: Batch, words: Tensor | None = None) -> dict[str, Tensor]:
    """``embed`` as the sum of its parts, with the norm's scale frozen: word, type, position, bias, (B, T, E) each."""
    view = model_view.embeddings
    terms = _embedding_terms(model_view, batch, words)
    whole = sum(terms.values(), torch.zeros_like(terms["word"]))
    parts = {name: term.expand_as(whole) for name, term in terms.items()}
    if view.norm is None:
        return parts
    recorder = Recorder()
    scaled(view.norm, whole, recorder)
    parts = {name: scaled(view.norm, part[:, None], Replay(recorder)).squeeze(1) for name, part in parts.items()}
    return parts if view.norm.bias is None else parts | {"bias": view.norm.bias.expand_as(whole)}


def layers(
    model_view: ModelView,
    x: Tensor,
    mask: Tensor | Packing | None = None,
    *,
    maps: bool = False,
    dropout: Dropout = no_dropout,
    mode: Mode = LIVE,
    start: int = 0,
) -> Iterator[Step]:
    """Run the blocks on embeddings x (B, T, E), yielding L + 1 steps; the last one has passed the final norm.

    With ``maps`` attention is plain and the steps hold its maps; otherwise it is fused if the mode allows it. With
    ``start`` x holds the states of that layer, and the steps begin there. With a packing instead of a mask, x and the
    steps hold texts end to end, (N, E).
    """
    h = x if model_view.projection is None or start > 0 else linear(model_view.projection, x, mode)
    yield Step(h, None)
    for index, block in enumerate(model_view.blocks[start:], start=start + 1):
        run = partial(run_block, block, h, mask, maps, dropout)
        h, attention_maps = mode.run_layer(run)
        if index == model_view.layers and model_view.final_norm is not None:
            h = norm(model_view.final_norm, h, mode)
        h = mode.settle(h)
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
        mode.trace(partial(traced, LazyMaps(block.attention, inner, mask), attention_maps, h, mixed))
    h = h + mixed
    if not block.pre_norm:
        h = norm(block.attention_norm, h, mode)
    inner = norm(block.feed_forward_norm, h, mode) if block.pre_norm else h
    h = h + feed_forward(block.feed_forward, inner, dropout, mode)
    if not block.pre_norm:
        h = norm(block.feed_forward_norm, h, mode)
    return h, attention_maps


def layers_transposed(model_view: ModelView, gradient: Tensor, wanted: Collection[int], mode: Transposed) -> Tensor:
    """A gradient (B, K, T, D) of the states of each wanted layer -> of the embeddings (B, K, T, E)."""
    back: Tensor | None = None
    for layer in range(max(wanted), -1, -1):
        if layer in wanted:
            back = gradient if back is None else back + gradient
        assert back is not None
        if layer == model_view.layers and model_view.final_norm is not None:
            back = norm_transposed(model_view.final_norm, back, mode)
        if layer > 0:
            back = block_transposed(model_view.blocks[layer - 1], back, mode)
    assert back is not None
    return back if model_view.projection is None else linear_transposed(model_view.projection, back, mode)


def block_transposed(block: Block, gradient: Tensor, mode: Transposed) -> Tensor:
    """One layer backwards: (B, K, T, D) -> (B, K, T, D)."""
    if block.pre_norm:
        inner = feed_forward_transposed(block.feed_forward, gradient, mode)
        gradient = gradient + norm_transposed(block.feed_forward_norm, inner, mode)
        inner = attend_transposed(block.attention, gradient, mode)
        return gradient + norm_transposed(block.attention_norm, inner, mode)
    gradient = norm_transposed(block.feed_forward_norm, gradient, mode)
    gradient = gradient + feed_forward_transposed(block.feed_forward, gradient, mode)
    gradient = norm_transposed(block.attention_norm, gradient, mode)
    return gradient + attend_transposed(block.attention, gradient, mode)
