"""The tensor side of the encoder: ids -> states -> vectors, in any mode, and the way back; with autograd or without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.encoder import forward, pooling_head, similarity
from likewise.encoder.dropout import Dropout, no_dropout
from likewise.encoder.forward import Batch, Step
from likewise.encoder.model_view import ModelView
from likewise.encoder.modes import LIVE, Mode, Transposed
from likewise.encoder.modules_config import ModulesConfig
from likewise.encoder.pooling_head import PoolingConfig
from likewise.encoder.postprocessing import PostProcessing
from likewise.encoder.tokens import TokenizedText, Tokenizer


@dataclass(frozen=True)
class TextStates:
    """One text's tokens, hidden states (L + 1, T, D) and attention maps (L, H, T, T) or None."""

    tokens: TokenizedText
    hidden: NDArray[np.float32]
    attention: NDArray[np.float32] | None


@dataclass(frozen=True)
class StateBatch:
    """Texts of one length: their places in the input, tokens, hidden (L + 1, B, T, D), maps (L, B, H, T, T)."""

    indices: Sequence[int]
    tokens: Sequence[TokenizedText]
    hidden: Tensor
    attention: Tensor | None

    def texts(self) -> list[TextStates]:
        """Take the batch apart, text by text."""
        hidden = self.hidden.float().cpu().numpy()
        attention = None if self.attention is None else self.attention.float().cpu().numpy()
        return [
            TextStates(tokens, hidden[:, row], None if attention is None else attention[:, row])
            for row, tokens in enumerate(self.tokens)
        ]


Vectors = NDArray[np.float32]


class TensorEncoder:
    """Tensors -> tensors. A subclass holds the weights and the settings."""

    model_view: ModelView
    tokenizer: Tokenizer
    modules_config: ModulesConfig
    pooling_config: PoolingConfig
    postprocessing: PostProcessing | None

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model_view.device

    @cached_property
    def _special_ids(self) -> Tensor:
        return torch.tensor(self.tokenizer.special_ids(), device=self.device)

    def layer_states(self, batch: Batch, dropout: Dropout = no_dropout) -> Tensor:
        """The states (B, T, D) that are pooled: one layer's, or the average of several layers."""
        x = forward.embed(self.model_view, batch, dropout)
        return self.averaged(forward.layers(self.model_view, x, batch.mask, dropout=dropout))

    def averaged(self, steps: Iterator[Step], start: int = 0) -> Tensor:
        """Average the states (B, T, D) that are pooled, from steps that begin at a layer."""
        wanted = self.pooling_config.layers_of(self.model_view.layers)
        total: Tensor | None = None
        for layer, step in enumerate(steps, start=start):
            if layer in wanted:
                total = step.states if total is None else total + step.states
            if layer == max(wanted):
                break
        assert total is not None
        return total / len(set(wanted)) if len(set(wanted)) > 1 else total

    def pool(self, states: Tensor, pooling_mask: Tensor) -> Tensor:
        """Pool states (B, T, D) under a mask (B, T) -> (B, P)."""
        return pooling_head.pool(self.model_view, self.modules_config, self.pooling_config, states, pooling_mask)

    def finish(self, pooled: Tensor) -> Tensor:
        """Dense heads, the model's own Normalize and the dimension cut: (B, P) -> (B, d)."""
        return pooling_head.finish(self.modules_config, self.pooling_config, pooled)

    def read(self, states: Tensor, pooling_mask: Tensor) -> Vectors:
        """States (B, T, D) and a pooling mask (B, T) -> the vectors (B, d) of ``encode``."""
        rows: Vectors = self.finish(self.pool(states, pooling_mask)).float().cpu().numpy()
        if self.postprocessing is not None:
            rows = self.postprocessing(rows)
        return similarity.unit(rows) if self.pooling_config.normalize else rows

    def vectors_from(self, x: Tensor, pooling_mask: Tensor, mode: Mode = LIVE, start: int = 0) -> Tensor:
        """From embeddings (B, T, E) to vectors (B, d), in any mode; rows (B, R, T, E) -> (B, R, d).

        ``pooling_mask`` (B, T) marks the tokens that are pooled. With ``start`` x holds the states of that layer.
        """
        states = self.averaged(forward.layers(self.model_view, x, mode=mode, start=start), start)
        pooled = pooling_head.pool(
            self.model_view, self.modules_config, self.pooling_config, states, pooling_mask, mode
        )
        vectors = pooling_head.finish(self.modules_config, self.pooling_config, pooled, mode)
        if self.postprocessing is not None:
            vectors = pooling_head.post_processed(self.postprocessing, vectors, mode)
        return pooling_head.unit(vectors, mode) if self.pooling_config.normalize else vectors

    def directions_from(self, directions: Tensor, pooling_mask: Tensor, mode: Transposed) -> Tensor:
        """The transpose: directions (B, K, d) -> (B, K, T, E), so that <J x, u> = <x, J^T u>."""
        gradient = directions
        if self.pooling_config.normalize:
            gradient = gradient * mode.held("unit")
        if self.postprocessing is not None:
            gradient = pooling_head.post_processed_transposed(self.postprocessing, gradient, mode)
        gradient = gradient.to(self.model_view.dtype)
        gradient = pooling_head.finish_transposed(
            self.model_view, self.modules_config, self.pooling_config, gradient, mode
        )
        gradient = pooling_head.pool_transposed(
            self.model_view, self.modules_config, self.pooling_config, gradient, pooling_mask, mode
        )
        wanted = set(self.pooling_config.layers_of(self.model_view.layers))
        return forward.layers_transposed(self.model_view, gradient / len(wanted), wanted, mode)

    def pooling_mask_of(self, ids: Tensor, prompt: str = "") -> Tensor:
        """Which tokens of ids (B, T) are pooled: (B, T), 1 or 0."""
        pooling_mask = torch.ones_like(ids)
        if not self.pooling_config.special_tokens:
            pooling_mask = pooling_mask * ~torch.isin(ids, self._special_ids)
        if not self.modules_config.include_prompt:
            pooling_mask[:, : self.tokenizer.prompt_length(prompt)] = 0
        return pooling_mask
