"""Variants: one forward pass, several poolings of its layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor

from likewise.encoder import forward
from likewise.encoder.batches import TOKEN_BUDGET, exact_length_batches, windows
from likewise.encoder.encoder import SORTED_TEXTS, Encoded, Encoder, Vectors
from likewise.encoder.forward import Batch
from likewise.encoder.pooling_head import PoolingArguments, PoolingConfig
from likewise.progress import Progress, Ticker


def encode_variants(
    encoder: Encoder,
    texts: Sequence[str],
    variants: Sequence[PoolingConfig | PoolingArguments],
    *,
    prompt: str | None = None,
    progress: Progress | None = None,
) -> list[Encoded]:
    """``encoder.with_pooling(...).encode_with_stats(texts)`` of each variant, from a single forward pass.

    The pass ends at the deepest layer that is pooled. A backend other than torch takes a pass for each variant.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> both = encode_variants(encoder, ["A cat sat."], [{"pooling": "mean"}, {"pooling": "cls", "layer": 3}])
    >>> [each.vectors.shape for each in both]
    [(1, 384), (1, 384)]
    """
    encoders = [encoder.with_pooling(**_options(pooling_config)) for pooling_config in variants]
    prompt = encoder.modules_config.prompt_for(None) if prompt is None else prompt
    if encoder.backend is not None:
        return _pass_each(encoders, texts, prompt, progress)
    ticker, truncated = Ticker(progress, len(texts), "texts"), 0
    vectors = [np.zeros((len(texts), one.dimension), np.float32) for one in encoders]
    for start, window in enumerate(windows(texts, SORTED_TEXTS)):
        ids, cut = encoder.tokenizer.ids([encoder.tokenizer.text_inputs(text, prompt) for text in window])
        truncated += cut
        # Texts without any token stay zero; they occur if a tokenizer adds no special tokens.
        for indices in exact_length_batches([len(row) for row in ids], TOKEN_BUDGET):
            if ids[indices[0]]:
                rows = torch.tensor([ids[index] for index in indices], dtype=torch.long, device=encoder.device)
                targets = np.array(indices) + start * SORTED_TEXTS
                for which, values in _read(encoder, encoders, rows, prompt):
                    vectors[which][targets] = values
            ticker.add(len(indices))
    ticker.close()
    return [Encoded(each, truncated) for each in vectors]


def _options(pooling_config: PoolingConfig | PoolingArguments) -> PoolingArguments:
    return cast(PoolingArguments, vars(pooling_config)) if isinstance(pooling_config, PoolingConfig) else pooling_config


def _pass_each(
    encoders: Sequence[Encoder], texts: Sequence[str], prompt: str, progress: Progress | None
) -> list[Encoded]:
    ticker = Ticker(progress, len(texts) * len(encoders), "texts")
    found = [one.encode_with_stats(texts, prompt=prompt, progress=ticker.part()) for one in encoders]
    ticker.close()
    return found


@torch.inference_mode()
def _read(encoder: Encoder, encoders: Sequence[Encoder], ids: Tensor, prompt: str) -> Iterator[tuple[int, Vectors]]:
    """One batch of ids (B, T): each variant's index and its vectors (B, d), as soon as its layers are computed."""
    waiting: dict[frozenset[int], list[int]] = {}
    for which, one in enumerate(encoders):
        waiting.setdefault(frozenset(one.pooling_config.layers_of(encoder.model_view.layers)), []).append(which)
    totals: dict[frozenset[int], Tensor] = {}
    x = forward.embed(encoder.model_view, Batch(ids))
    for layer, step in enumerate(forward.layers(encoder.model_view, x)):
        for layers in [each for each in waiting if layer in each]:
            totals[layers] = totals[layers] + step.states if layers in totals else step.states
            if layer == max(layers):
                states = totals.pop(layers) / len(layers) if len(layers) > 1 else totals.pop(layers)
                for which in waiting.pop(layers):
                    one = encoders[which]
                    yield which, one.read(states, one.pooling_mask_of(ids, prompt))
        if not waiting:
            return
