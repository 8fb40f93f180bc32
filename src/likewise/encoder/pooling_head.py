"""The pooling head: the states of layers -> one vector, in any mode of the forward pass; and its settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor

from likewise.encoder.model_view import ModelView
from likewise.encoder.modes import LIVE, Mode, Transposed
from likewise.encoder.modules_config import ModulesConfig
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


def pool(
    model_view: ModelView,
    modules_config: ModulesConfig,
    pooling_config: PoolingConfig,
    states: Tensor,
    pooling_mask: Tensor,
    mode: Mode = LIVE,
) -> Tensor:
    """States (B, T, D), or rows (B, R, T, D), and a mask (B, T) -> (B, P) or (B, R, P)."""
    parts = [
        _pooled(model_view, modules_config, part, states, pooling_mask, mode)
        for part in pooling_parts(pooling_config.pooling)
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def _pooled(
    model_view: ModelView, modules_config: ModulesConfig, part: str, states: Tensor, pooling_mask: Tensor, mode: Mode
) -> Tensor:
    if part == MODEL_POOLER:
        assert model_view.pooler is not None
        return activate(TANH, linear(model_view.pooler, states[..., 0, :], mode), mode)
    if part in LEARNED:
        assert modules_config.learned is not None and modules_config.learned.kind == part
        pooled: Tensor = modules_config.learned(states, pooling_mask, mode)
        return pooled
    if part == "max" and not mode.fused:
        return _winners(states, pooling_mask, mode)
    if states.ndim == 3:
        return POOLERS[part](states, pooling_mask)
    rows = pooling_mask[:, None].expand(states.shape[:-1])
    return POOLERS[part](states.flatten(0, 1), rows.flatten(0, 1)).reshape(*states.shape[:2], -1)


def _winners(states: Tensor, pooling_mask: Tensor, mode: Mode) -> Tensor:
    """Max pooling by the recorded winning position of each dimension."""

    def indices(_: Mode) -> Tensor:
        return states.masked_fill(pooling_mask[..., None] == 0, -torch.inf).argmax(-2, keepdim=True)

    winning = mode.linearize("pooling", indices)  # (B, 1, D), replayed (B, 1, 1, D)
    winners = states.gather(-2, winning.expand(*states.shape[:-2], 1, states.shape[-1])).squeeze(-2)
    any_counts = pooling_mask.any(1).to(states.dtype)
    return winners * any_counts.reshape(-1, *(1,) * (winners.ndim - 1))


def pool_transposed(
    model_view: ModelView,
    modules_config: ModulesConfig,
    pooling_config: PoolingConfig,
    gradient: Tensor,
    pooling_mask: Tensor,
    mode: Transposed,
) -> Tensor:
    """Directions (B, K, P) of the pooled vector -> (B, K, T, D) of the states."""
    parts = pooling_parts(pooling_config.pooling)
    # From the last part to the first: the order of the constants.
    pieces = zip(reversed(parts), reversed(gradient.chunk(len(parts), dim=-1)), strict=True)
    found = [_pooled_transposed(model_view, modules_config, part, piece, pooling_mask, mode) for part, piece in pieces]
    return sum(found[1:], found[0])


def _pooled_transposed(
    model_view: ModelView,
    modules_config: ModulesConfig,
    part: str,
    gradient: Tensor,
    pooling_mask: Tensor,
    mode: Transposed,
) -> Tensor:
    if part == MODEL_POOLER:
        assert model_view.pooler is not None
        first = linear_transposed(model_view.pooler, activate_transposed(TANH, gradient, mode), mode)
        return _at_first(first, pooling_mask.shape[1])
    if part in LEARNED:
        assert isinstance(modules_config.learned, QkvPooling)
        return modules_config.learned.transposed(gradient, mode)
    if part == "max":
        winning = mode.held("pooling").expand(*gradient.shape[:2], 1, -1)
        any_counts = pooling_mask.any(1).to(gradient.dtype)[:, None, None]
        empty = gradient.new_zeros(*gradient.shape[:2], pooling_mask.shape[1], gradient.shape[-1])
        return empty.scatter_(-2, winning, (gradient * any_counts)[..., None, :])
    weights = _weights(part, pooling_mask).to(gradient)
    return weights[:, None, :, None] * gradient[..., None, :]


def _at_first(gradient: Tensor, length: int) -> Tensor:
    """(B, K, D) -> (B, K, T, D), zero except for the first token."""
    return torch.nn.functional.pad(gradient[..., None, :], (0, 0, 0, length - 1))


def bias_weights(pooling: str, pooling_mask: Tensor) -> Tensor:
    """The shares (B, T) of tokens in a bias of the pooled vector, by their pooling weights: sum 1, on the CPU."""
    kinds = [part if part in POOLING_WEIGHTS else "cls" if part == MODEL_POOLER else "mean"
             for part in pooling_parts(pooling)]  # fmt: skip
    weights = torch.stack([_weights(kind, pooling_mask) for kind in kinds]).mean(0)
    # Without any pooled token, all tokens get equal shares.
    weights = torch.where(pooling_mask.cpu().any(1)[:, None], weights, torch.ones_like(weights))
    return weights / weights.sum(1, keepdim=True)


def _weights(part: str, pooling_mask: Tensor) -> Tensor:
    """The weight of each token (B, T), on the CPU, since not every device has double precision."""
    return POOLING_WEIGHTS[part](pooling_mask.cpu().double())


def finish(modules_config: ModulesConfig, pooling_config: PoolingConfig, pooled: Tensor, mode: Mode = LIVE) -> Tensor:
    """Dense heads, the model's own Normalize and the dimension cut: (..., P) -> (..., d)."""
    if pooling_config.heads:
        for head in modules_config.heads:
            if pooled.shape[-1] != head.weight.shape[1]:
                raise UsageError(
                    f"the model's dense head takes {head.weight.shape[1]} dimensions, pooling"
                    f" {pooling_config.pooling!r} gives {pooled.shape[-1]}; use heads=False (--no-heads)"
                )
            pooled = head(pooled, mode)
    if modules_config.normalizes and pooling_config.normalize is not False:
        pooled = unit(pooled, mode)
    cut = pooling_config.truncate_dim
    if cut is not None and cut > pooled.shape[-1]:
        raise UsageError(f"cannot cut vectors of {pooled.shape[-1]} dimensions to {cut}; lower truncate_dim")
    return pooled[..., :cut]


def finish_transposed(
    model_view: ModelView,
    modules_config: ModulesConfig,
    pooling_config: PoolingConfig,
    gradient: Tensor,
    mode: Transposed,
) -> Tensor:
    """(B, K, d) -> (B, K, P)."""
    heads = modules_config.heads if pooling_config.heads else ()
    width = heads[-1].weight.shape[0] if heads else model_view.hidden_size * len(pooling_parts(pooling_config.pooling))
    gradient = torch.nn.functional.pad(gradient, (0, width - gradient.shape[-1]))
    if modules_config.normalizes and pooling_config.normalize is not False:
        gradient = gradient * mode.held("unit")
    for head in reversed(heads):
        gradient = head.transposed(gradient, mode)
    return gradient


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
