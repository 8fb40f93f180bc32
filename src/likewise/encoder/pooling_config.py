"""How a vector is read off the encoder: which layers, which pooling, and what comes after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from likewise.encoder.pooling import MODEL_POOLER, pooling_parts
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
    """unit vectors in the end; None leaves it to the model"""
    special_tokens: bool = True
    """whether special tokens such as [CLS] and [SEP] count in pooling"""
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
            raise UsageError("the model's own pooler reads the last layer only; drop the layer or the pooling")
        return layers

    def _layers_of(self, depth: int) -> tuple[int, ...]:
        if self.layer == "first-last":
            # SimCSE's reading: the first block's output, not the embeddings.
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


class ReadingOptions(TypedDict, total=False):
    """The fields of :class:`Reading` as keyword arguments."""

    pooling: str
    layer: Layer
    normalize: bool | None
    special_tokens: bool
    truncate_dim: int | None
    heads: bool
