"""Checkpoints: a run's whole state in one file, written whole or not at all."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from likewise.errors import DataError

FORMAT = 1
MOMENTS = ("exp_avg", "exp_avg_sq", "step")


@dataclass(frozen=True)
class Checkpoint:
    """Named tensors and a few plain facts."""

    tensors: dict[str, Tensor]
    metadata: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write the file; a break in between leaves the one from before."""
        from safetensors.torch import save_file

        draft = path.with_suffix(".draft")
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        save_file(tensors, str(draft), metadata={"facts": json.dumps({"format": FORMAT, **self.metadata})})
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, path)

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read a file back."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(path), framework="pt") as file:
                metadata = json.loads((file.metadata() or {})["facts"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise DataError(f"{path} is no checkpoint that can be read; delete it and begin anew") from error
        if metadata.get("format") != FORMAT:
            raise DataError(f"{path} was written by another version; delete it and begin anew")
        return cls(tensors, metadata)


def weights_state(weights: dict[str, nn.Parameter], heads: nn.Module) -> dict[str, Tensor]:
    """All that a run has learnt: the weights, and what batch norm keeps beside them."""
    buffers = {f"buffers.{name}": value for name, value in heads.named_buffers()}
    return {f"weights.{name}": weight for name, weight in weights.items()} | buffers


def restore_weights(tensors: dict[str, Tensor], weights: dict[str, nn.Parameter], heads: nn.Module) -> None:
    """Put back what ``weights_state`` gave."""
    state = weights_state(weights, heads)
    if strangers := [
        name for name, value in state.items() if name not in tensors or tensors[name].shape != value.shape
    ]:
        raise DataError(
            f"the checkpoint does not fit this run: {strangers[0]} is missing or of another shape; begin anew"
        )
    with torch.no_grad():
        for name, value in state.items():
            value.copy_(tensors[name])


def moments_state(optimizer: torch.optim.Optimizer, weights: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    """What the optimizer remembers of each weight."""
    return {
        f"{moment}.{name}": optimizer.state[weight][moment]
        for name, weight in weights.items()
        if weight in optimizer.state
        for moment in MOMENTS
    }


def restore_moments(
    tensors: dict[str, Tensor], optimizer: torch.optim.Optimizer, weights: dict[str, nn.Parameter]
) -> None:
    """Put back what ``moments_state`` gave."""
    for name, weight in weights.items():
        found = {moment: tensors[f"{moment}.{name}"] for moment in MOMENTS if f"{moment}.{name}" in tensors}
        if found:
            optimizer.state[weight] = {moment: value.to(weight.device) for moment, value in found.items()}
