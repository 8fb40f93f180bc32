"""The pooling head: the states of layers -> one vector, in any mode of the forward pass; and its settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor

from likewise.encoder.model_view import ModelView
from likewise.encoder.modes import LIVE, Mode, Transposed
from likewise.encoder.modules_config import Dense, ModulesConfig
from likewise.encoder.pooling import LEARNED, MODEL_POOLER, POOLERS, POOLING_WEIGHTS, QkvPooling, pooling_parts
from likewise.encoder.postprocessing import PostProcessing
from likewise.encoder.primitives import TANH, activate, activate_transposed, linear, linear_transposed
from likewise.errors import UsageError

Layer = int | str | Sequence[int]


@dataclass(frozen=True)
class PoolingConfig:
    """The settings of ``encode`` that shape a vector."""

    pooling: str = "mean"
    """cls, last, max, mean, mean-sqrt-len, weighted, pooler, or what the model learned (qkv, bilstm); several joined by
    + are concatenated"""
    layer: Layer = -1
    """a layer (0 is the embedding output, -1 the last), several to average, or first-last"""
    normalize: bool | None = None
    """unit vectors as the last step; None leaves it to the model"""
    special_tokens: bool = True
    """whether special tokens such as [CLS] and [SEP] are pooled"""
    truncate_dim: int | None = None
    """keep only the first dimensions"""
    heads: bool = True
    """apply the model's own dense heads after pooling"""

    def __post_init__(self) -> None:
        pooling_parts(self.pooling)
        if self.truncate_dim is not None and self.truncate_dim < 1:
            raise UsageError(f"truncate_dim must be at least 1, got {self.truncate_dim}")

    def layers_of(self, depth: int) -> tuple[int, ...]:
        """The layers to average, each in 0..depth, for a model of ``depth`` blocks.

        >>> PoolingConfig(layer=[0, -1]).layers_of(6)
        (0, 6)
        """
        layers = self._layers_of(depth)
        if MODEL_POOLER in pooling_parts(self.pooling) and set(layers) != {depth}:
            raise UsageError("the model's own pooler takes the last layer only; drop the layer or the pooling")
        return layers

    def _layers_of(self, depth: int) -> tuple[int, ...]:
        if self.layer == "first-last":
            # As in SimCSE: the first block's output, not the embeddings.
            return (1, depth) if depth > 1 else (depth,)
        if isinstance(self.layer, str):
            raise UsageError(f"unknown layer {self.layer!r}; give a number, several, or first-last")
        wanted = (self.layer,) if isinstance(self.layer, int) else tuple(self.layer)
        if not wanted:
            raise UsageError("no layer given; give a number, several, or first-last")
        for layer in wanted:
            if not -depth - 1 <= layer <= depth:
                raise UsageError(f"no layer {layer}; this model has layers 0 to {depth} (or -1 for the last)")
        return tuple(layer % (depth + 1) for layer in wanted)


class PoolingArguments(TypedDict, total=False):
    """The fields of :class:`PoolingConfig` as keyword arguments."""

    pooling: str
    layer: Layer
    normalize: bool | None
    special_tokens: bool
    truncate_dim: int | None
    heads: bool


SMALLEST_LENGTH = 1e-12
"""The smallest length that a vector is divided by, as in torch."""


@dataclass(frozen=True)
class PoolingHead:
    """Pooling, dense heads, Normalize and the dimension cut, each with its transpose."""

    model_view: ModelView
    modules_config: ModulesConfig
    config: PoolingConfig

    def pool(self, states: Tensor, mask: Tensor, mode: Mode = LIVE) -> Tensor:
        """States (B, T, D), or rows (B, R, T, D), and a mask (B, T) -> (B, P) or (B, R, P)."""
        parts = [self._pooled(part, states, mask, mode) for part in pooling_parts(self.config.pooling)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def _pooled(self, part: str, states: Tensor, mask: Tensor, mode: Mode) -> Tensor:
        if part == MODEL_POOLER:
            assert self.model_view.pooler is not None
            return activate(TANH, linear(self.model_view.pooler, states[..., 0, :], mode), mode)
        if part in LEARNED:
            learned = self.modules_config.learned
            assert learned is not None and learned.kind == part
            pooled: Tensor = learned(states, mask, mode)
            return pooled
        if part == "max" and not mode.fused:
            return _winners(states, mask, mode)
        if states.ndim == 3:
            return POOLERS[part](states, mask)
        rows = mask[:, None].expand(states.shape[:-1])
        return POOLERS[part](states.flatten(0, 1), rows.flatten(0, 1)).reshape(*states.shape[:2], -1)

    def pool_transposed(self, gradient: Tensor, mask: Tensor, mode: Transposed) -> Tensor:
        """Directions (B, K, P) of the pooled vector -> (B, K, T, D) of the states."""
        parts = pooling_parts(self.config.pooling)
        # From the last part to the first: the order of the constants.
        pieces = zip(reversed(parts), reversed(gradient.chunk(len(parts), dim=-1)), strict=True)
        found = [self._pooled_transposed(part, piece, mask, mode) for part, piece in pieces]
        return sum(found[1:], found[0])

    def _pooled_transposed(self, part: str, gradient: Tensor, mask: Tensor, mode: Transposed) -> Tensor:
        if part == MODEL_POOLER:
            assert self.model_view.pooler is not None
            first = linear_transposed(self.model_view.pooler, activate_transposed(TANH, gradient, mode), mode)
            # Zero except for the first token.
            return torch.nn.functional.pad(first[..., None, :], (0, 0, 0, mask.shape[1] - 1))
        if part in LEARNED:
            assert isinstance(self.modules_config.learned, QkvPooling)
            return self.modules_config.learned.transposed(gradient, mode)
        if part == "max":
            winning = mode.recorded("pooling").expand(*gradient.shape[:2], 1, -1)
            any_pooled = mask.any(1).to(gradient.dtype)[:, None, None]
            empty = gradient.new_zeros(*gradient.shape[:2], mask.shape[1], gradient.shape[-1])
            return empty.scatter_(-2, winning, (gradient * any_pooled)[..., None, :])
        weights = _weights(part, mask).to(gradient)
        return weights[:, None, :, None] * gradient[..., None, :]

    def finish(self, pooled: Tensor, mode: Mode = LIVE) -> Tensor:
        """Dense heads, the model's own Normalize and the dimension cut: (..., P) -> (..., d)."""
        for head in self._dense():
            if pooled.shape[-1] != head.weight.shape[1]:
                raise UsageError(
                    f"the model's dense head takes {head.weight.shape[1]} dimensions, pooling"
                    f" {self.config.pooling!r} gives {pooled.shape[-1]}; use heads=False (--no-heads)"
                )
            pooled = head(pooled, mode)
        if self._normalizes():
            pooled = unit(pooled, mode)
        cut = self.config.truncate_dim
        if cut is not None and cut > pooled.shape[-1]:
            raise UsageError(f"cannot cut vectors of {pooled.shape[-1]} dimensions to {cut}; lower truncate_dim")
        return pooled[..., :cut]

    def finish_transposed(self, gradient: Tensor, mode: Transposed) -> Tensor:
        """(B, K, d) -> (B, K, P)."""
        heads, parts = self._dense(), pooling_parts(self.config.pooling)
        width = heads[-1].weight.shape[0] if heads else self.model_view.hidden_size * len(parts)
        gradient = torch.nn.functional.pad(gradient, (0, width - gradient.shape[-1]))
        if self._normalizes():
            gradient = gradient * mode.recorded("unit")
        for head in reversed(heads):
            gradient = head.transposed(gradient, mode)
        return gradient

    def _dense(self) -> tuple[Dense, ...]:
        return self.modules_config.heads if self.config.heads else ()

    def _normalizes(self) -> bool:
        return self.modules_config.normalizes and self.config.normalize is not False


def _winners(states: Tensor, mask: Tensor, mode: Mode) -> Tensor:
    """Max pooling by the recorded winning position of each dimension."""

    def indices(_: Mode) -> Tensor:
        return states.masked_fill(mask[..., None] == 0, -torch.inf).argmax(-2, keepdim=True)

    winning = mode.linearize("pooling", indices)  # (B, 1, D), replayed (B, 1, 1, D)
    winners = states.gather(-2, winning.expand(*states.shape[:-2], 1, states.shape[-1])).squeeze(-2)
    any_pooled = mask.any(1).to(states.dtype)
    return winners * any_pooled.reshape(-1, *(1,) * (winners.ndim - 1))


def bias_weights(pooling: str, mask: Tensor) -> Tensor:
    """The shares (B, T) of tokens in a bias of the pooled vector, by their pooling weights: sum 1, on the CPU."""
    kinds = [part if part in POOLING_WEIGHTS else "cls" if part == MODEL_POOLER else "mean"
             for part in pooling_parts(pooling)]  # fmt: skip
    weights = torch.stack([_weights(kind, mask) for kind in kinds]).mean(0)
    # Without any pooled token, all tokens get equal shares.
    weights = torch.where(mask.cpu().any(1)[:, None], weights, torch.ones_like(weights))
    return weights / weights.sum(1, keepdim=True)


def _weights(part: str, mask: Tensor) -> Tensor:
    """The weight of each token (B, T), on the CPU, since not every device has double precision."""
    return POOLING_WEIGHTS[part](mask.cpu().double())


def unit(vectors: Tensor, mode: Mode = LIVE) -> Tensor:
    """Divide vectors (..., d) by their length, which explanations freeze."""
    if mode.fused:
        return torch.nn.functional.normalize(vectors, dim=-1)
    return vectors * mode.linearize("unit", lambda _: 1 / vectors.norm(dim=-1, keepdim=True).clip(SMALLEST_LENGTH))


def post_processed(processing: PostProcessing, vectors: Tensor, mode: Mode) -> Tensor:
    """(x - center) @ matrix in double precision, with the bias added by the mode: (..., d) -> (..., k)."""
    matrix, bias = _affine(processing, vectors.device)
    return mode.add_bias(vectors.double() @ matrix, bias)


def post_processed_transposed(processing: PostProcessing, gradient: Tensor, mode: Transposed) -> Tensor:
    """(B, K, k) -> (B, K, d), in double precision."""
    matrix, bias = _affine(processing, gradient.device)
    mode.collect(gradient.double(), bias)
    return gradient.double() @ matrix.T


def _affine(processing: PostProcessing, device: torch.device) -> tuple[Tensor, Tensor]:
    """The matrix (d, k) and the bias (k,)."""
    matrix, center = (
        torch.as_tensor(array, dtype=torch.float64, device=device) for array in (processing.matrix, processing.center)
    )
    return matrix, -center @ matrix
