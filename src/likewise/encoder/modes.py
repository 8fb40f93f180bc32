"""Modes of the forward pass: which factors are computed, recorded, held or replayed, and whose the biases are.

With three factors held as one forward pass found them (attention probabilities, the scale of each norm, the gate
of each activation) an encoder is affine in its input embeddings (Ali et al. 2022). The forward pass asks its mode
for each such factor, in an order that never changes, so constants are kept by call and not by module: ALBERT's
layers share their modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor

RULES = ("attention", "norm", "activation")
"""The factors that an explanation may hold."""

ALWAYS_HELD = ("pooling", "unit")
"""Max pooling's winners and the length that a vector is divided by: held by every method."""


class Mode:
    """The model itself: every factor is computed, every bias added, and kernels may be fused."""

    fused = True

    def hold(self, rule: str, compute: Callable[[Mode], Tensor]) -> Tensor:
        """A factor of the forward pass; ``compute`` gives it from the present states, in the mode it is handed."""
        del rule
        return compute(self)

    def holds(self, rule: str) -> bool:
        """Whether a factor is held as a constant."""
        del rule
        return False

    def scale(self, y: Tensor, factor: Tensor) -> Tensor:
        """Multiply y, which is this forward pass's own tensor, by a factor."""
        return y * factor

    def shift(self, y: Tensor, bias: Tensor | None) -> Tensor:
        """Add a bias to y (..., D)."""
        return y if bias is None else y + bias


LIVE = Mode()


class Detached(Mode):
    """Derivatives do not flow through the factors of the given rules; without rules they are the true ones."""

    fused = False

    def __init__(self, rules: Iterable[str] = RULES) -> None:
        self.rules = frozenset(rules) | set(ALWAYS_HELD)

    def hold(self, rule: str, compute: Callable[[Mode], Tensor]) -> Tensor:
        """The present factor, cut off from the derivative where its rule is held."""
        return compute(LIVE).detach() if rule in self.rules else compute(self)

    def holds(self, rule: str) -> bool:
        """Whether a factor is held as a constant."""
        return rule in self.rules


Constant = Tensor | Callable[[], Tensor]


class Recorder(Mode):
    """The model itself, writing down each factor. Without ``keep_maps`` attention is only noted how to compute."""

    fused = False

    def __init__(self, keep_maps: bool = True) -> None:
        self.keep_maps = keep_maps
        self.constants: list[tuple[str, Constant]] = []

    def hold(self, rule: str, compute: Callable[[Mode], Tensor]) -> Tensor:
        """Compute a factor and keep it."""
        value = compute(LIVE)
        lazy = rule == "attention" and not self.keep_maps
        self.constants.append((rule, partial(compute, LIVE) if lazy else value))
        return value

    def holds(self, rule: str) -> bool:
        """Every factor is recorded."""
        del rule
        return True


class DetachedAt(Detached):
    """The true derivatives along a path, with the lengths that vectors are divided by held as at its end."""

    def __init__(self, end: Recorder) -> None:
        super().__init__(())
        self._lengths = iter([constant for rule, constant in end.constants if rule == "unit"])

    def hold(self, rule: str, compute: Callable[[Mode], Tensor]) -> Tensor:
        """A length as at the end of the path, any other factor as it is."""
        if rule != "unit":
            return super().hold(rule, compute)
        length = next(self._lengths)
        assert isinstance(length, Tensor)
        return length


class Replay(Mode):
    """Recorded constants of B texts, for rows (B, R, T, D) of parts of their inputs; biases as a subclass says."""

    fused = False

    def __init__(self, recorder: Recorder) -> None:
        self._constants = iter(recorder.constants)

    def hold(self, rule: str, compute: Callable[[Mode], Tensor]) -> Tensor:
        """The next recorded factor, with a dimension for the rows: (B, ...) -> (B, 1, ...)."""
        del compute
        recorded, constant = next(self._constants)
        assert recorded == rule, f"replay went another way than its record: {rule} for {recorded}"
        return (constant if isinstance(constant, Tensor) else constant()).unsqueeze(1)

    def holds(self, rule: str) -> bool:
        """Every factor is replayed."""
        del rule
        return True

    def scale(self, y: Tensor, factor: Tensor) -> Tensor:
        """In place: rows are many, and the factor was not computed from them."""
        return y.mul_(factor)

    def shift(self, y: Tensor, bias: Tensor | None) -> Tensor:
        """No row gets a bias."""
        del bias
        return y


class ReplayWithBiasRow(Replay):
    """The last row is the bias's own: it alone gets the biases."""

    def shift(self, y: Tensor, bias: Tensor | None) -> Tensor:
        """Add a bias to the last row of y (B, R, ..., D), which is this forward pass's own tensor."""
        if bias is not None:
            y[:, -1] += bias
        return y


class ReplayWithSharedBias(Replay):
    """Each bias is dealt out to the rows by how much each one makes of the sum that it is added to (as DecompX)."""

    def shift(self, y: Tensor, bias: Tensor | None) -> Tensor:
        """At each place row i gets the share |<v_i, v>| / sum_j |<v_j, v>| of a bias; v_i in y (B, R, ..., D)."""
        if bias is None:
            return y
        weights = torch.einsum("br...d,b...d->br...", y, y.sum(1)).abs()[..., None]
        total = weights.sum(1, keepdim=True)
        shares = torch.where(total > 0, weights / torch.where(total > 0, total, 1), 1 / y.shape[1])
        return torch.addcmul(y, shares, bias)
