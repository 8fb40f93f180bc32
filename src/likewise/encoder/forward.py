"""The only forward pass of the project: a transformer as pure functions over views of weights; batches and dropout.

Shapes: B texts, T tokens, D hidden width, H heads, W head width, F feed-forward width. A replay has R rows per text,
each a part of its input: (B, R, T, D) instead of (B, T, D). The transpose maps K directions per text back to the
input, (B, K, T, D).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.encoder import model_view as views
from likewise.encoder.attention import LazyMaps, Packing, attend, attend_apart, attend_transposed, traced
from likewise.encoder.model_view import Block, Dropout, ModelView, linear, no_dropout, norm, scaled
from likewise.encoder.modes import LIVE, Mode, Recorder, Replay, Transposed
from likewise.encoder.tokens import TokenizedText
from likewise.errors import ModelError

Item = TypeVar("Item")
TOKEN_BUDGET = 4096  # Tokens per batch; the best or close to it on one and two threads (bench/encode.py)
WINDOW_TEXTS = 4096
WINDOW_CHARACTERS = 16_000_000
IdAndText = tuple[str, str]
Entry = TypeVar("Entry", bound=Sequence[Any])
STEPS = 2**16  # A rate is a multiple of 1 / STEPS
DRAWN = 4  # Numbers of 16 bits in one draw of 64 bits


@dataclass(frozen=True)
class Batch:
    """Token ids (B, T); type ids (B, T) or None for zeros; mask (B, T), 1 for real tokens, or None for all."""

    ids: Tensor
    types: Tensor | None = None
    mask: Tensor | None = None


@dataclass(frozen=True)
class TextStates:
    """One text's tokens, hidden states (L + 1, T, D) and attention maps (L, H, T, T) or None."""

    tokens: TokenizedText
    hidden: NDArray[np.float32]
    attention: NDArray[np.float32] | None


@dataclass(frozen=True)
class StateBatch:
    """Texts of equal length: indices in the input, tokens, hidden (L + 1, B, T, D), maps (L, B, H, T, T) or None."""

    indices: Sequence[int]
    tokens: Sequence[TokenizedText]
    hidden: Tensor
    attention: Tensor | None

    def texts(self) -> list[TextStates]:
        """Split the batch into its texts."""
        hidden = self.hidden.float().cpu().numpy()
        attention = None if self.attention is None else self.attention.float().cpu().numpy()
        return [
            TextStates(tokens, hidden[:, row], None if attention is None else attention[:, row])
            for row, tokens in enumerate(self.tokens)
        ]


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
    return dropout(norm(view.norm, sum(others, first)), view.dropout)


def _embedding_terms(model_view: ModelView, batch: Batch, words: Tensor | None = None) -> dict[str, Tensor]:
    """The summands before the norm: (B, T, E) or (1, T, E) each."""
    view = model_view.embeddings
    word = view.word(batch.ids) if words is None else words
    # A tensor: in half precision the models round the factor too.
    terms = {"word": word if view.scale == 1 else word * word.new_tensor(view.scale)}
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
    if start > 0 and any(block.input_gate for block in model_view.blocks[start:]):
        raise ModelError(f"layers of a {model_view.family} model read its embeddings, so a pass cannot start at one")
    h = x if model_view.projection is None or start > 0 else linear(model_view.projection, x, mode)
    yield Step(h, None)
    for index, block in enumerate(model_view.blocks[start:], start=start + 1):
        run = partial(run_block, block, h, mask, maps, dropout, inputs=x)
        h, attention_maps = mode.run_layer(run)
        if index == model_view.layers:
            h = dropout(norm(model_view.final_norm, h, mode), model_view.final_dropout)
        h = mode.settle(h)
        yield Step(h, attention_maps)


def run_block(
    block: Block,
    h: Tensor,
    mask: Tensor | Packing | None,
    maps: bool,
    dropout: Dropout,
    mode: Mode = LIVE,
    *,
    inputs: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """One layer: states (B, T, D) -> states (B, T, D) and maps (B, H, T, T) or None.

    ``inputs`` (B, T, E) are the embeddings, which an input gate reads.
    """
    inner = norm(block.attention_norm, h, mode) if block.pre_norm else h
    if isinstance(mask, Packing):
        mixed, attention_maps = attend_apart(block.attention, inner, mask, dropout), None
    else:
        mixed, attention_maps = attend(block.attention, inner, mask, maps, dropout, mode)
        mode.trace(partial(traced, LazyMaps(block.attention, inner, mask), attention_maps, h, mixed))
    h = h + norm(block.attention_output_norm, mixed, mode)
    if not block.pre_norm:
        h = norm(block.attention_norm, h, mode)
    inner = norm(block.feed_forward_norm, h, mode) if block.pre_norm else h
    added = views.feed_forward(block.feed_forward, inner, dropout, mode)
    h = h + norm(block.feed_forward_output_norm, added, mode)
    if not block.pre_norm:
        h = norm(block.feed_forward_norm, h, mode)
    if block.input_gate is not None:
        h = h + views.input_gate(block.input_gate, h, inputs, mode)
    return _scaled(block, h), attention_maps


def _scaled(block: Block, h: Tensor) -> Tensor:
    factor: Any = block.scaled_by
    return h if factor is None else h * factor.layer_scalar


def layers_transposed(model_view: ModelView, gradient: Tensor, wanted: Collection[int], mode: Transposed) -> Tensor:
    """A gradient (B, K, T, D) of the states of each wanted layer -> of the embeddings (B, K, T, E)."""
    back: Tensor | None = None
    gated: Tensor | float = 0.0  # what the input gates read from the embeddings
    for layer in range(max(wanted), -1, -1):
        if layer in wanted:
            back = gradient if back is None else back + gradient
        assert back is not None
        if layer == model_view.layers:
            back = views.norm_transposed(model_view.final_norm, back, mode)
        if layer > 0:
            block = model_view.blocks[layer - 1]
            back = _scaled(block, back)
            if block.input_gate is not None:
                gated = gated + views.input_gate_transposed(block.input_gate, back, mode)
            back = block_transposed(block, back, mode)
    assert back is not None
    back = back if model_view.projection is None else views.linear_transposed(model_view.projection, back, mode)
    return back if isinstance(gated, float) else back + gated


def block_transposed(block: Block, gradient: Tensor, mode: Transposed) -> Tensor:
    """One layer backwards, without its input gate: (B, K, T, D) -> (B, K, T, D)."""
    if block.pre_norm:
        inner = views.norm_transposed(block.feed_forward_output_norm, gradient, mode)
        inner = views.feed_forward_transposed(block.feed_forward, inner, mode)
        gradient = gradient + views.norm_transposed(block.feed_forward_norm, inner, mode)
        inner = views.norm_transposed(block.attention_output_norm, gradient, mode)
        inner = attend_transposed(block.attention, inner, mode)
        return gradient + views.norm_transposed(block.attention_norm, inner, mode)
    gradient = views.norm_transposed(block.feed_forward_norm, gradient, mode)
    gradient = gradient + views.feed_forward_transposed(block.feed_forward, gradient, mode)
    gradient = views.norm_transposed(block.attention_norm, gradient, mode)
    return gradient + attend_transposed(block.attention, gradient, mode)


def exact_length_batches(
    lengths: Sequence[int], budget: int = TOKEN_BUDGET, size: int | None = None
) -> Iterator[list[int]]:
    """Indices of texts of equal length, at most ``budget`` tokens and ``size`` texts a batch, longest first.

    Longest first: a text that is too large for the memory fails at once.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    for length, group in groupby(order, key=lambda index: lengths[index]):
        fitting = max(1, budget // max(1, length))
        yield from windows(group, fitting if size is None else min(fitting, size))


def windows(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Split a stream into lists of ``size``; the last one may be shorter."""
    stream = iter(items)
    while window := list(islice(stream, size)):
        yield window


def text_windows(items: Iterable[Entry], most: int | None = None) -> Iterator[list[Entry]]:
    """Cut by number of texts, or earlier by number of characters, which bounds the memory of huge texts.

    An item is a tuple: an id, a text and perhaps more.
    """
    window: list[Entry] = []
    characters = 0
    for item in items:
        window.append(item)
        characters += len(item[1])
        if len(window) == WINDOW_TEXTS or characters >= (most or WINDOW_CHARACTERS):
            yield window
            window, characters = [], 0
    if window:
        yield window


class TextDropout:
    """Dropout for a batch of texts: a key of whole numbers and a length each."""

    def __init__(self, keys: Sequence[Sequence[int]], lengths: Sequence[int]) -> None:
        self._streams = [np.random.SFC64(list(key)) for key in keys]
        self._lengths = list(lengths)

    def of(self, texts: slice) -> TextDropout:
        """The dropout of some of the texts; the streams are shared and continue."""
        part = TextDropout((), ())
        part._streams, part._lengths = self._streams[texts], self._lengths[texts]
        return part

    def __call__(self, x: Tensor, rate: float | None) -> Tensor:
        """Drop from states (B, T, D), or (N, D) of texts end to end, or from maps (B, H, T, T)."""
        if not rate:
            return x
        stays = np.zeros(x.shape, dtype=np.bool_)
        rows = np.split(stays, np.cumsum(self._lengths[:-1])) if x.ndim == 2 else stays
        for row, length, stream in zip(rows, self._lengths, self._streams, strict=True):
            part = row[:length] if row.ndim == 2 else row[:, :length, :length]
            part[...] = _drawn(stream, part.shape) >= round(rate * STEPS)
        return x * torch.from_numpy(stays).to(x.device, x.dtype).mul_(1 / (1 - rate))


def _drawn(stream: np.random.SFC64, shape: tuple[int, ...]) -> NDArray[np.uint16]:
    """Whole numbers from 0 to STEPS - 1."""
    count = int(np.prod(shape))
    raw: NDArray[np.uint64] = stream.random_raw(-(-count // DRAWN))
    return raw.view(np.uint16)[:count].reshape(shape)


@dataclass
class _Steady:
    """How many users keep oneDNN off, and whether it was on before the first of them."""

    lock = threading.Lock()
    users: int = 0
    before: bool = True


_steady = _Steady()


@contextlib.contextmanager
def steady_memory() -> Iterator[None]:
    """Run without oneDNN, which caches a kernel per shape of batch, up to a thousand: memory would grow for hours.

    It costs a few percent of speed, so it is meant for streams of unknown length. The last user to leave restores it.
    """
    backend: Any = torch.backends.mkldnn
    with _steady.lock:
        if _steady.users == 0:
            _steady.before, backend.enabled = backend.enabled, False
        _steady.users += 1
    try:
        yield
    finally:
        with _steady.lock:
            _steady.users -= 1
            if _steady.users == 0:
                backend.enabled = _steady.before
