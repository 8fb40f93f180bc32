"""Learned pooling: modules with weights that pool hidden states (attention, BiLSTM)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from likewise.encoder.modes import LIVE, Mode, Transposed
from likewise.errors import ModelError, UsageError


class QkvPooling(nn.Module):
    """Attention with a learned query: the average of the tokens' values by softmax(<query, key> / sqrt(D))."""

    kind = "qkv"
    hidden = None

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = self.dimension = width
        self.query = nn.Parameter(torch.empty(width))
        self.key, self.value = nn.Linear(width, width), nn.Linear(width, width)
        nn.init.normal_(self.query, std=width**-0.5)

    def forward(self, states: Tensor, pooling_mask: Tensor, mode: Mode = LIVE) -> Tensor:
        """States (B, T, D), or rows (B, R, T, D) of a replay, and a mask (B, T) -> (B, D) or (B, R, D)."""
        values = mode.add_bias(F.linear(states, self.value.weight), self.value.bias)
        # The rule is attention's, not pooling's: methods with live attention need the true derivative here too.
        weights = mode.linearize("attention", lambda _: self.weights(states, pooling_mask))  # replayed (B, 1, T)
        return (weights.unsqueeze(-2) @ values).squeeze(-2)

    def transposed(self, gradient: Tensor, mode: Transposed) -> Tensor:
        """Directions (B, K, D) of the pooled vector -> (B, K, T, D) of the states."""
        weights = mode.recorded("attention")  # (B, 1, T)
        values = weights[..., None] * gradient[..., None, :]
        mode.collect(values, self.value.bias)
        return values @ self.value.weight

    def weights(self, states: Tensor, pooling_mask: Tensor) -> Tensor:
        """The weight of each token: states (B, T, D) and a mask (B, T) -> (B, T), with sum 1."""
        scores = self.key(states) @ self.query / math.sqrt(self.width)
        # Not minus infinity: a text without any pooled token would get nan.
        lowest = scores.masked_fill(pooling_mask == 0, torch.finfo(scores.dtype).min)
        return torch.softmax(lowest, dim=-1) * (pooling_mask != 0)


class BiLstmPooling(nn.Module):
    """The final states of an LSTM over the pooled tokens, in both directions."""

    kind = "bilstm"

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.width, self.hidden, self.dimension = width, hidden, 2 * hidden
        self.lstm = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)

    def forward(self, states: Tensor, pooling_mask: Tensor, mode: Mode = LIVE) -> Tensor:
        """States (B, T, D) and a mask (B, T) -> (B, 2 * hidden), forward half first; no mode linearizes an LSTM."""
        del mode
        counts = pooling_mask != 0
        # Pooled tokens first, in their order: packing cuts off all others.
        order = counts.int().argsort(dim=1, descending=True, stable=True)
        fronted = states.gather(1, order[..., None].expand_as(states))
        lengths = counts.sum(1)
        packed = pack_padded_sequence(fronted, lengths.clip(1).cpu(), batch_first=True, enforce_sorted=False)
        final = self._final(packed)  # (2, B, hidden)
        return torch.cat([final[0], final[1]], dim=-1).masked_fill(lengths[:, None] == 0, 0)

    def _final(self, packed: PackedSequence) -> Tensor:
        if packed.data.dtype != torch.bfloat16:
            final: Tensor = self.lstm(packed)[1][0]
            return final
        # In float32: torch's LSTM in bfloat16 is an illegal instruction on processors without that type.
        wide = {name: weight.float() for name, weight in self.lstm.named_parameters()}
        final = torch.func.functional_call(self.lstm, wide, (packed.float(),))[1][0]
        return final.bfloat16()


LearnedPooling = QkvPooling | BiLstmPooling
LEARNED: dict[str, type[QkvPooling] | type[BiLstmPooling]] = {"qkv": QkvPooling, "bilstm": BiLstmPooling}


def new_learned_pooling(kind: str, width: int, hidden: int | None = None, seed: int = 0) -> LearnedPooling:
    """A pooling with new weights for states of ``width``; the default ``hidden`` of an LSTM is half of it."""
    if kind not in LEARNED:
        raise UsageError(f"unknown learned pooling {kind!r}; choose from {', '.join(LEARNED)}")
    if kind == "qkv" and hidden is not None:
        raise UsageError("qkv pooling has no hidden size; leave it out, or choose bilstm")
    if width < 1 or (hidden is not None and hidden < 1):
        raise UsageError(f"a pooling's sizes start at 1, got width {width} and hidden {hidden}; raise them")
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        # Not torch.manual_seed, which seeds the generators of all devices.
        torch.default_generator.manual_seed(seed)
        return _built(kind, width, hidden)


def _built(kind: str, width: int, hidden: int | None) -> LearnedPooling:
    return QkvPooling(width) if kind == "qkv" else BiLstmPooling(width, hidden or max(1, width // 2))


def learned_settings(module: LearnedPooling) -> dict[str, Any]:
    """The settings from which, with its weights, a pooling can be rebuilt."""
    return {"kind": module.kind, "width": module.width, "hidden": module.hidden}


def learned_from(settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> LearnedPooling:
    """The pooling that ``learned_settings`` and ``state_dict`` describe."""
    kind, width, hidden = _checked(settings)
    try:
        # On meta nothing is allocated: wrong sizes cost no memory.
        with torch.device("meta"):
            module = _built(kind, width, hidden)
        if not all(tensor.is_floating_point() for tensor in tensors.values()):
            raise TypeError("weights must be floating-point numbers")
        # Copies: tensors of a file may be unaligned, and products of unaligned rows round differently.
        module.load_state_dict({name: tensor.clone() for name, tensor in tensors.items()}, assign=True)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        sizes = f"width {width}" if hidden is None else f"width {width} and hidden {hidden}"
        raise ModelError(f"these are not the weights of a {kind} pooling of {sizes}; save the model again") from error
    return module.requires_grad_()


def _checked(settings: Mapping[str, Any]) -> tuple[str, int, int | None]:
    """Kind, width and hidden size, of the right types."""
    if not isinstance(settings, Mapping):
        raise ModelError("the pooling's settings are not a JSON object; save the model again")
    kind = settings.get("kind")
    if not isinstance(kind, str) or kind not in LEARNED:
        raise ModelError(f"unknown learned pooling {kind!r}; known are {', '.join(LEARNED)}")
    for name in ("width", "hidden") if kind == "bilstm" else ("width",):
        size = settings.get(name)
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ModelError(f"the pooling's {name} must be a whole number from 1, not {size!r}; save the model again")
    return kind, settings["width"], settings["hidden"] if kind == "bilstm" else None
