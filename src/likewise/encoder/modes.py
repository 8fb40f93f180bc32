"""Modes of the forward pass: which factors are computed, recorded, frozen or replayed, and which row gets a bias.

An encoder is affine in its input embeddings if three factors are frozen at the values of one forward pass: attention
probabilities, the scale of each norm, and the gate of each activation (Ali et al. 2022). The forward pass requests the
factors from its mode in a fixed order. They are stored by call and not by module, since ALBERT's layers share their
modules. The transpose reads them in reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

if TYPE_CHECKING:
    from likewise.encoder.attention import LazyMaps, LazyTrace

Result = TypeVar("Result")
RULES = ("attention", "norm", "activation")  # The factors that an explanation may freeze
ALWAYS_FROZEN = ("pooling", "unit")  # Max pooling's winners and a vector's length: every method freezes them
EVERY_RULE = frozenset((*RULES, *ALWAYS_FROZEN))


class Mode:
    """The model itself: every factor is computed, every bias added, and kernels may be fused."""

    fused = True
    rules: frozenset[str] = frozenset()  # the factors that are frozen

    def linearize(self, _: str, compute: Callable[[Mode], Tensor], /) -> Tensor:
        """A factor of the forward pass by its rule; ``compute(mode)`` computes it from the present states."""
        return compute(self)

    def linearize_maps(self, maps: LazyMaps) -> Tensor | LazyMaps:
        """The attention maps, whole or block by block."""
        return self.linearize("attention", maps.whole)

    def linearizes(self, rule: str) -> bool:
        """Whether a factor is frozen."""
        return rule in self.rules

    def run_layer(self, run: Callable[[Mode], Result]) -> Result:
        """Run a layer in this mode."""
        return run(self)

    def trace(self, _: Callable[[], Tensor | LazyTrace]) -> None:
        """Record from which positions attention takes its output; see ``attention.traced``."""

    def settle(self, h: Tensor) -> Tensor:
        """The states of a layer, after its biases went to their rows."""
        return h

    def scale(self, y: Tensor, factor: Tensor) -> Tensor:
        """Multiply y by a factor; y may be overwritten."""
        return y * factor

    def add_bias(self, y: Tensor, bias: Tensor | None) -> Tensor:
        """Add a bias to y (..., D); y may be overwritten."""
        return y if bias is None else self._added(y, bias)

    def _added(self, y: Tensor, bias: Tensor) -> Tensor:
        return y + bias


LIVE = Mode()


class Detached(Mode):
    """No derivatives flow through the factors of the given rules; without rules the derivatives are the true ones."""

    fused = False

    def __init__(self, rules: Iterable[str] = RULES) -> None:
        self.rules = frozenset((*rules, *ALWAYS_FROZEN))

    def linearize(self, rule: str, compute: Callable[[Mode], Tensor], /) -> Tensor:
        """The present factor, detached if its rule is frozen."""
        return compute(LIVE).detach() if rule in self.rules else compute(self)


Constant = tuple[str, Any]  # A rule and its factor: a tensor, or maps or a trace that are computed block by block


class Recorder(Mode):
    """The model itself, with a record of each factor.

    Without ``keep`` it stores only each layer's input, and records the layer again when its factors are needed; then
    ``lazy_maps`` computes attention maps block by block. ``traced`` also records from which positions attention takes
    its output.
    """

    fused = False
    rules = EVERY_RULE

    def __init__(self, keep: bool = True, lazy_maps: bool = False, traced: bool = False) -> None:
        self.keep, self.lazy_maps, self.traced = keep, lazy_maps, traced
        self.constants: list[Constant | Callable[[], list[Constant]]] = []

    def run_layer(self, run: Callable[[Mode], Result]) -> Result:
        """Run a layer, and store its factors or how to record them again."""
        if self.keep:
            return run(self)

        def recorded() -> tuple[Result, list[Any]]:
            one = Recorder(lazy_maps=self.lazy_maps, traced=self.traced)
            return run(one), one.constants

        self.constants.append(lambda: recorded()[1])
        return recorded()[0]

    def linearize(self, rule: str, compute: Callable[[Mode], Tensor], /) -> Tensor:
        """Compute a factor and store it."""
        value = compute(LIVE)
        self.constants.append((rule, value))
        return value

    def linearize_maps(self, maps: LazyMaps) -> Tensor | LazyMaps:
        """Store the maps, or how to compute them."""
        if not self.lazy_maps:
            return super().linearize_maps(maps)
        self.constants.append(("attention", maps))
        return maps

    def trace(self, compute: Callable[[], Tensor | LazyTrace]) -> None:
        """Store from which positions attention takes its output, if biases are traced."""
        if self.traced:
            self.constants.append(("trace", compute()))

    def forwards(self) -> Iterator[Constant]:
        """The constants in the order of the forward pass."""
        for item in self.constants:
            yield from [item] if isinstance(item, tuple) else item()

    def backwards(self) -> Iterator[Constant]:
        """The constants, last first."""
        for item in reversed(self.constants):
            yield from [item] if isinstance(item, tuple) else reversed(item())


class DetachedAt(Detached):
    """The true derivatives along a path, with the lengths that vectors are divided by frozen as at its end."""

    def __init__(self, end: Recorder) -> None:
        super().__init__(())
        self._lengths = iter([constant for rule, constant in end.forwards() if rule == "unit"])

    def linearize(self, rule: str, compute: Callable[[Mode], Tensor], /) -> Tensor:
        """A length as at the end of the path, any other factor live."""
        return next(self._lengths) if rule == "unit" else super().linearize(rule, compute)


def _next(constants: Iterator[Constant], rule: str) -> Any:
    recorded, constant = next(constants)
    assert recorded == rule, f"the replay differs from its record: {rule} for {recorded}"
    return constant


def _next_for_rows(constants: Iterator[Constant], rule: str) -> Any:
    """The next factor, with a dimension for rows or directions: (B, ...) -> (B, 1, ...); lazy maps as they are."""
    constant = _next(constants, rule)
    return constant.unsqueeze(1) if isinstance(constant, Tensor) else constant


class Replay(Mode):
    """Recorded constants of B texts, for rows (B, R, T, D) of parts of their inputs; subclasses add biases."""

    fused = False
    rules = EVERY_RULE

    def __init__(self, recorder: Recorder) -> None:
        self._constants = recorder.forwards()

    def linearize(self, rule: str, _: Callable[[Mode], Tensor], /) -> Tensor:
        """The next recorded factor or maps, with a dimension for the rows."""
        return _next_for_rows(self._constants, rule)  # type: ignore[no-any-return]

    def scale(self, y: Tensor, factor: Tensor) -> Tensor:
        """In place: there are many rows, and the factor does not depend on them."""
        return y.mul_(factor)

    def _added(self, y: Tensor, _: Tensor) -> Tensor:
        return y


class ReplayWithBiasRow(Replay):
    """The last row gets all biases."""

    def _added(self, y: Tensor, bias: Tensor) -> Tensor:
        y[:, -1] += bias
        return y


class ReplayWithLocalBias(Replay):
    """A bias that is added at a position goes to the row that holds this position's token.

    ``masks`` (B, R, T) are the tokens of each row. After pooling, a row's share of a bias is the pooling weight of its
    tokens: ``weights`` (B, T).
    """

    def __init__(self, recorder: Recorder, masks: Tensor, weights: Tensor) -> None:
        super().__init__(recorder)
        self._held = masks.nonzero(as_tuple=True)
        self._pooled = torch.einsum("brt,bt->br", masks, weights.to(masks.dtype))[..., None]

    def _added(self, y: Tensor, bias: Tensor) -> Tensor:
        """To y (B, R, T, D), or to pooled y (B, R, D)."""
        if y.ndim == 3:
            return y + self._pooled.to(y.dtype) * bias
        y[self._held] += bias
        return y


class ReplayWithTracedBias(Replay):
    """A bias goes to the tokens that its position consists of, traced back through the attention of each layer.

    ``owners`` (B, R, T) is how much of a position belongs to each row: at first the tokens of the row. The last row of
    the input is empty. It collects a layer's biases at each position, and is distributed when the layer ends. After
    pooling, positions have their pooling ``weights`` (B, T).
    """

    def __init__(self, recorder: Recorder, masks: Tensor, weights: Tensor) -> None:
        super().__init__(recorder)
        self._owners, self._weights = masks, weights.to(masks.dtype)
        self._mixed = False

    def linearize_maps(self, maps: LazyMaps) -> Tensor | LazyMaps:
        """From here on the layer's biases are added to what attention has mixed."""
        self._mixed = True
        return super().linearize_maps(maps)

    def trace(self, _: Callable[[], Tensor | LazyTrace]) -> None:
        """Follow the positions through this layer's attention."""
        trace, owners = _next(self._constants, "trace"), self._owners
        self._owners = owners @ trace.transpose(1, 2) if isinstance(trace, Tensor) else trace.mixed(owners)

    def settle(self, h: Tensor) -> Tensor:
        """Distribute the collected biases: h (B, R + 1, T, D)."""
        self._mixed = False
        h[:, :-1].addcmul_(self._owners[..., None], h[:, -1:])
        h[:, -1] = 0
        return h

    def _added(self, y: Tensor, bias: Tensor) -> Tensor:
        """To y (B, R + 1, T, D), or to pooled y (B, R + 1, D)."""
        if y.ndim == 3:
            share = torch.einsum("brt,bt->br", self._owners, self._weights)[..., None]
            return torch.cat([y[:, :-1] + share.to(y.dtype) * bias, y[:, -1:]], dim=1)
        if self._mixed:
            y[:, -1] += bias
        else:
            y[:, :-1].addcmul_(self._owners[..., None], bias)
        return y


class ReplayWithSharedBias(Replay):
    """Each bias is distributed to the rows by their shares in the sum that it is added to (as in DecompX)."""

    def _added(self, y: Tensor, bias: Tensor) -> Tensor:
        """At each position row i gets the share |<v_i, v>| / sum_j |<v_j, v>| of a bias; v_i in y (B, R, ..., D)."""
        weights = torch.einsum("br...d,b...d->br...", y, y.sum(1)).abs()[..., None]
        return torch.addcmul(y, normalized(weights, 1), bias)


def normalized(weights: Tensor, dim: int = -1) -> Tensor:
    """Weights scaled to sum 1 along a dimension; zeros get equal shares."""
    total = weights.sum(dim, keepdim=True)
    return torch.where(total > 0, weights / torch.where(total > 0, total, 1), 1 / weights.shape[dim])


class Transposed:
    """The transpose of a replay: the recorded constants, last first, and what each bias adds to a direction.

    For K directions, gradients (B, K, T, D): ``biases`` (B, K, T) sums <gradient, bias> at each position; biases of
    pooled vectors go to positions by their ``weights`` (B, T). With a traced record, each layer passes the biases from
    above to the positions that its attention took from.
    """

    def __init__(self, recorder: Recorder, weights: Tensor) -> None:
        self._constants, self._traced = recorder.backwards(), recorder.traced
        self._weights = weights
        self.biases: Tensor | float = 0.0

    def recorded(self, rule: str) -> Tensor:
        """The next factor, last first, with a dimension for the directions."""
        return _next_for_rows(self._constants, rule)  # type: ignore[no-any-return]

    def recorded_maps(self) -> Tensor | LazyMaps:
        """The same for attention maps; collected biases go back to the positions that they came from."""
        if self._traced:
            trace: Tensor | LazyTrace = _next(self._constants, "trace")
            if isinstance(self.biases, Tensor):
                self.biases = self.biases @ trace if isinstance(trace, Tensor) else trace.taken(self.biases)
        return self.recorded("attention")

    def collect(self, gradient: Tensor, bias: Tensor | None) -> None:
        """Sum <gradient, bias> of a bias that is added at each position, or by weight to a pooled vector."""
        if bias is None:
            return
        found = gradient @ bias
        if gradient.ndim == 3:
            found = found[..., None] * self._weights[:, None].to(found.dtype)
        self.biases = self.biases + found.to(self._weights.dtype)
