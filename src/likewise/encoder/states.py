"""What the layers hold for a text: all hidden states and attention maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from likewise.encoder.tokens import TokenizedText


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
