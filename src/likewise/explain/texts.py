"""Texts -> contributions, by token budget, no text twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.encoder import Encoder
from likewise.encoder.batches import windows
from likewise.encoder.encoder import report_truncation
from likewise.encoder.forward import Batch, embed, embedding_parts
from likewise.encoder.pooling import pooling_parts
from likewise.encoder.tokens import TokenizedText
from likewise.errors import DataError, UsageError
from likewise.explain.contributions import Contributions
from likewise.explain.methods import is_complete, method_named, start_layer
from likewise.explain.replaying import ROW_TOKENS, Inputs, Replayed, map_bytes, why_not_shared
from likewise.explain.settings import DRAWN_BIAS, GIGABYTE, SettingOptions, Settings
from likewise.explain.units import By, Unit, units_of
from likewise.progress import Progress, Ticker

MOST_TOKENS = 512
"""The longest text that is explained by token."""


@dataclass(frozen=True)
class Prompted:
    """A text, the prompt in front of it (None is the model's own) and how it is grouped."""

    text: str
    prompt: str | None = None
    by: By = "token"


@dataclass(frozen=True)
class Grouped:
    """A tokenised text and its units."""

    tokens: TokenizedText
    units: tuple[Unit, ...]
    prompt: str


def contributions(
    encoder: Encoder,
    texts: Sequence[str],
    *,
    method: str = "bilrp",
    by: By = "token",
    prompt: str | None = None,
    progress: Progress | None = None,
    **settings: Unpack[SettingOptions],
) -> list[Contributions]:
    """What each unit adds to each text's vector; a repeated text is computed once.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> contributions(encoder, ["A cat sat."])[0].values.shape
    (6, 384)
    """
    texts = [texts] if isinstance(texts, str) else texts
    unique = list(dict.fromkeys(texts))
    chosen = Settings(**settings)
    ticker = Ticker(progress, len(unique), "texts")
    found: dict[str, Contributions] = {}
    for place, one in contribution_stream(encoder, [Prompted(text, prompt, by) for text in unique], method, chosen):
        found[unique[place]] = one
        ticker.add()
    ticker.close()
    report_truncation(sum(one.truncated for one in found.values()), len(unique), encoder.tokenizer.limit)
    return [found[text] for text in texts]


def contribution_stream(
    encoder: Encoder, texts: Sequence[Prompted], method: str, settings: Settings
) -> Iterator[tuple[int, Contributions]]:
    """The same text by text, longest first, each with its place; several short ones run together."""
    check(encoder, method, settings)
    chosen = method_named(method)
    grouped = [_grouped(encoder, text, settings) for text in texts]
    for places in _batches(grouped, settings):
        batch = [grouped[place] for place in places]
        ids = _tensor(encoder, [one.tokens.ids for one in batch])
        types = _tensor(encoder, [one.tokens.types for one in batch])
        with torch.no_grad():
            replayed = chosen.values(encoder, _inputs(encoder, batch, Batch(ids, types), settings), settings)
        for row, place in enumerate(places):
            yield place, _one(batch[row], replayed, row, chosen.own_length, _part_names(encoder, settings))


def check(encoder: Encoder, method: str, settings: Settings) -> None:
    """Refuse what cannot be computed before any of it is."""
    method_named(method)
    if settings.split and method != "bilrp":
        raise UsageError("only bilrp can split its shares; leave split out")
    if settings.bias == "shared" and not is_complete(method, settings):
        raise UsageError("bias='shared' goes with bilrp and all its rules; keep the biases separate")
    if settings.bias == "drawn":
        raise UsageError("bias='drawn' is chosen for one pair at a time; give separate or shared here")
    if method == "jacobian":
        start_layer(encoder, settings)
    # Baselines look at the embeddings alone.
    if "bilstm" in pooling_parts(encoder.reading.pooling) and not method_named(method).own_length:
        raise UsageError(
            "bilstm pooling cannot be explained, since an LSTM is no sum over tokens; explain with --pooling mean"
        )
    if encoder.backend is not None:
        raise UsageError("explanations look inside the model, which only the backend torch allows; load it with that")


def drawn_bias(encoder: Encoder, texts: Sequence[Prompted], settings: Settings) -> str:
    """Where drawings of these texts put the biases: the more faithful way where it can be had.

    >>> drawn_bias(Encoder.load("minilm", device="cpu"), [Prompted("A cat sat.")], Settings())
    'shared'
    """
    lengths = [len(encoder.tokenize([text.text], text.prompt)[0]) for text in texts]
    if DRAWN_BIAS == "shared" and any(why_not_shared(encoder, length, settings) for length in lengths):
        return "separate"
    return DRAWN_BIAS


def _grouped(encoder: Encoder, text: Prompted, settings: Settings) -> Grouped:
    prompt = encoder.recipe.prompt_for(None) if text.prompt is None else text.prompt
    (tokens,) = encoder.tokenize([text.text], prompt)
    if not len(tokens):
        raise DataError("a text without a single token cannot be explained; give at least one word")
    if text.by == "token" and len(tokens) > MOST_TOKENS:
        needed = map_bytes(encoder, 1, len(tokens)) / GIGABYTE
        raise UsageError(
            f"by token goes up to {MOST_TOKENS} tokens, this text has {len(tokens)} (attention maps of"
            f" {needed:.1f} GB); use by='word' or by='sentence'"
        )
    return Grouped(tokens, units_of(tokens, text.by, settings.fold_special), prompt)


def _batches(texts: Sequence[Grouped], settings: Settings) -> Iterator[list[int]]:
    """Texts of one length, prompt and number of units together, as many as fit the budget of row tokens."""
    by_shape: dict[tuple[int, int, str], list[int]] = {}
    for place, text in enumerate(texts):
        by_shape.setdefault((len(text.tokens), len(text.units), text.prompt), []).append(place)
    # Longest first, so that a text too large for the memory fails at once and not in the end.
    for (length, units, _), places in sorted(by_shape.items(), reverse=True):
        rows = length if settings.bias == "shared" else units + 1
        yield from windows(places, max(1, ROW_TOKENS // (length * rows)))


def _inputs(encoder: Encoder, texts: Sequence[Grouped], batch: Batch, settings: Settings) -> Inputs:
    x = embed(encoder.anatomy, batch)
    masks = torch.zeros(len(texts), len(texts[0].units), x.shape[1], dtype=x.dtype)
    for row, text in enumerate(texts):
        for place, unit in enumerate(text.units):
            masks[row, place, list(unit.tokens)] = 1
    sources = x[None]
    if settings.split:
        sources = torch.stack(list(embedding_parts(encoder.anatomy, batch).values()))
    return Inputs(batch, x, encoder.counted_tokens(batch.ids, texts[0].prompt), masks.to(x.device), sources)


def _part_names(encoder: Encoder, settings: Settings) -> list[str]:
    if not settings.split:
        return []
    empty = torch.zeros(1, 1, dtype=torch.long, device=encoder.device)
    return list(embedding_parts(encoder.anatomy, Batch(empty)))


def _one(text: Grouped, replayed: Replayed, row: int, own_length: bool, parts: list[str]) -> Contributions:
    values = _array(replayed.values[row])
    split: dict[str, NDArray[np.floating]] = {}
    if parts:
        by_part = values.reshape(len(text.units), len(parts), -1)
        split = {name: by_part[:, place] for place, name in enumerate(parts)}
        values = by_part.sum(1)
    elif len(values) != len(text.units):
        values = np.stack([values[list(unit.tokens)].sum(0) for unit in text.units])
    length = float(np.linalg.norm(values.sum(0, dtype=np.float64))) if own_length else None
    vector, bias = _array(replayed.vectors[row]), _array(replayed.bias[row])
    written = str(text.tokens.text)
    return Contributions(
        written, text.units, values, bias, vector, text.tokens.truncated, split, text.tokens.ids, length
    )


def _tensor(encoder: Encoder, rows: list[tuple[int, ...]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.long, device=encoder.device)


def _array(tensor: Tensor) -> NDArray[np.floating]:
    wide = tensor if tensor.dtype == torch.float64 else tensor.float()
    return wide.cpu().numpy()
