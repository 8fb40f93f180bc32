"""The tensor side of the encoder: texts -> ids -> states -> vectors, in any mode, and the transpose; autograd works."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.encoder import forward, similarity
from likewise.encoder.batches import TOKEN_BUDGET, exact_length_batches
from likewise.encoder.dropout import Dropout, no_dropout
from likewise.encoder.forward import Batch, Step
from likewise.encoder.model_view import ModelView
from likewise.encoder.modes import LIVE, Mode, Transposed
from likewise.encoder.modules_config import ModulesConfig
from likewise.encoder.pooling_head import (
    PoolingConfig,
    PoolingHead,
    post_processed,
    post_processed_transposed,
    unit,
)
from likewise.encoder.postprocessing import PostProcessing
from likewise.encoder.tokens import TextOrPair, TokenizedText, Tokenizer
from likewise.progress import Progress, Ticker

log = logging.getLogger("likewise")


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


Vectors = NDArray[np.float32]


class TensorEncoder:
    """Texts or ids -> tensors. A subclass holds the weights and the settings."""

    model_view: ModelView
    tokenizer: Tokenizer
    modules_config: ModulesConfig
    pooling_config: PoolingConfig
    postprocessing: PostProcessing | None

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.model_view.device

    @property
    def pooling_head(self) -> PoolingHead:
        """What turns states into vectors."""
        return PoolingHead(self.model_view, self.modules_config, self.pooling_config)

    @cached_property
    def _special_ids(self) -> Tensor:
        return torch.tensor(self.tokenizer.special_ids(), device=self.device)

    def layer_states(self, batch: Batch, dropout: Dropout = no_dropout) -> Tensor:
        """The states (B, T, D) that are pooled: of one layer, or the average of several."""
        x = forward.embed(self.model_view, batch, dropout)
        return self.averaged(forward.layers(self.model_view, x, batch.mask, dropout=dropout))

    def averaged(self, steps: Iterator[Step], start: int = 0) -> Tensor:
        """Average the states (B, T, D) that are pooled; the first step is that of layer ``start``."""
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
        return self.pooling_head.pool(states, pooling_mask)

    def finish(self, pooled: Tensor) -> Tensor:
        """Dense heads, the model's own Normalize and the dimension cut: (B, P) -> (B, d)."""
        return self.pooling_head.finish(pooled)

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
        vectors = self.pooling_head.finish(self.pooling_head.pool(states, pooling_mask, mode), mode)
        if self.postprocessing is not None:
            vectors = post_processed(self.postprocessing, vectors, mode)
        return unit(vectors, mode) if self.pooling_config.normalize else vectors

    def directions_from(self, directions: Tensor, pooling_mask: Tensor, mode: Transposed) -> Tensor:
        """The transpose: directions (B, K, d) -> (B, K, T, E), so that <J x, u> = <x, J^T u>."""
        gradient = directions
        if self.pooling_config.normalize:
            gradient = gradient * mode.recorded("unit")
        if self.postprocessing is not None:
            gradient = post_processed_transposed(self.postprocessing, gradient, mode)
        gradient = gradient.to(self.model_view.dtype)
        gradient = self.pooling_head.finish_transposed(gradient, mode)
        gradient = self.pooling_head.pool_transposed(gradient, pooling_mask, mode)
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

    def tokenize(self, texts: Sequence[TextOrPair], prompt: str | None = None) -> list[TokenizedText]:
        """Tokens of texts, or of pairs as one sequence each."""
        return self.tokenizer.tokenize(texts, self.modules_config.prompt_for(None) if prompt is None else prompt)

    def states(
        self,
        texts: Sequence[TextOrPair],
        *,
        prompt: str | None = None,
        attention: bool = True,
        progress: Progress | None = None,
    ) -> list[TextStates]:
        """Hidden states (L + 1, T, D), and attention maps (L, H, T, T), of each text, in order."""
        texts = [texts] if isinstance(texts, str) else texts
        found: dict[int, TextStates] = {}
        ticker = Ticker(progress, len(texts), "texts")
        for batch in self.state_batches(texts, prompt=prompt, attention=attention):
            found.update(zip(batch.indices, batch.texts(), strict=True))
            ticker.add(len(batch.indices))
        ticker.close()
        return [found[index] for index in range(len(texts))]

    def state_batches(
        self,
        texts: Sequence[TextOrPair],
        *,
        prompt: str | None = None,
        attention: bool = False,
        budget: int = TOKEN_BUDGET,
        report: bool = True,
        skip: int = 0,
    ) -> Iterator[StateBatch]:
        """Hidden states (L + 1, B, T, D) and maps (L, B, H, T, T), in batches of texts of equal length.

        The batches come longest texts first, always in the same order. Without ``report`` the caller reports truncated
        texts; ``skip`` is the number of first batches to leave out.
        """
        tokens = self.tokenize(texts, prompt)
        if report:
            report_truncation(sum(text.truncated for text in tokens), len(texts), self.tokenizer.limit)
        for indices in islice(exact_length_batches([len(text) for text in tokens], budget), skip, None):
            chosen = [tokens[index] for index in indices]
            batch = Batch(
                torch.tensor([text.ids for text in chosen], dtype=torch.long, device=self.device),
                torch.tensor([text.types for text in chosen], dtype=torch.long, device=self.device),
            )
            with torch.inference_mode():
                x = forward.embed(self.model_view, batch)
                steps = list(forward.layers(self.model_view, x, maps=attention))
                hidden = torch.stack([step.states for step in steps])
                maps = torch.stack([step.maps for step in steps[1:]]) if attention else None  # type: ignore[misc]
            yield StateBatch(indices, chosen, hidden, maps)


def report_truncation(count: int, total: int, limit: int) -> None:
    """Log how many texts were truncated, if any."""
    if count:
        log.warning("cut at the model's limit of %d tokens: %d of %d texts", limit, count, total)
