"""Pooling in every mode, its settings, and ``TensorEncoder``, the base class of ``Encoder``.

Every pooler takes hidden states (B, T, D) and a mask (B, T), 1 for the tokens that are pooled, and returns (B, P). A
text without any pooled token gets the zero vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.encoder import forward
from likewise.encoder import model_view as views
from likewise.encoder.forward import TOKEN_BUDGET, Batch, StateBatch, Step, TextStates, exact_length_batches
from likewise.encoder.learned_pooling import LEARNED, LearnedPooling, QkvPooling
from likewise.encoder.model_view import Activation, Affine, Dropout, ModelView, activate, linear, no_dropout
from likewise.encoder.modes import LIVE, Mode, Transposed
from likewise.encoder.postprocessing import PostProcessing
from likewise.encoder.tokens import TextOrPair, TokenizedText, Tokenizer, report_truncation
from likewise.errors import ModelError, UsageError
from likewise.progress import Progress, Ticker

Pooler = Callable[[Tensor, Tensor], Tensor]


def _max_pool(states: Tensor, mask: Tensor) -> Tensor:
    largest = states.masked_fill(mask[..., None] == 0, -torch.inf).amax(1)
    return torch.where(mask.any(1)[:, None], largest, torch.zeros_like(largest))


def _mean_pool_by(states: Tensor, weights: Tensor) -> Tensor:
    # Shares first: a sum of 500 tokens overflows half precision.
    wide = weights.to(torch.promote_types(states.dtype, torch.float32))
    return _weighted_sum(states, wide / _counts(wide))


def _weighted_sum(states: Tensor, weights: Tensor) -> Tensor:
    return (states * weights[..., None].to(states.dtype)).sum(1)


def _at(states: Tensor, mask: Tensor, indices: Tensor) -> Tensor:
    chosen = states[torch.arange(len(states), device=states.device), indices]
    return chosen * mask.any(1)[:, None].to(states.dtype)


def _last(mask: Tensor) -> Tensor:
    return mask.shape[1] - 1 - mask.flip(1).argmax(1)


def _counts(mask: Tensor) -> Tensor:
    return mask.sum(1)[:, None].clip(1)


def _one_hot(mask: Tensor, positions: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(positions, mask.shape[1]) * mask


def _by_position(mask: Tensor) -> Tensor:
    return mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)


POOLERS: dict[str, Pooler] = {
    "cls": lambda states, mask: _at(states, mask, mask.argmax(1)),
    "last": lambda states, mask: _at(states, mask, _last(mask)),
    "max": _max_pool,
    "mean": lambda states, mask: _weighted_sum(states, mask) / _counts(mask),
    "mean-sqrt-len": lambda states, mask: _weighted_sum(states, mask) / _counts(mask).to(states.dtype).sqrt(),
    # By position, 1, 2, 3, ..., as in SGPT: later tokens have seen more.
    "weighted": lambda states, mask: _mean_pool_by(states, _by_position(mask)),
}

POOLING_WEIGHTS: dict[str, Callable[[Tensor], Tensor]] = {
    "cls": lambda mask: _one_hot(mask, mask.argmax(1)),
    "last": lambda mask: _one_hot(mask, _last(mask)),
    "mean": lambda mask: mask / _counts(mask),
    "mean-sqrt-len": lambda mask: mask / _counts(mask).sqrt(),
    "weighted": lambda mask: _by_position(mask) / _counts(_by_position(mask)),
}
"""The weight of each token (B, T) in poolings that are a weighted sum of tokens."""

MODEL_POOLER = "pooler"  # The model's own pooler (a dense layer and tanh over the first token)


HEAD_ACTIVATIONS: dict[str, Activation] = {
    "Identity": views.IDENTITY, "Tanh": views.TANH, "ReLU": views.RELU, "GELU": views.GELU, "SiLU": views.SILU,
    "Sigmoid": views.SIGMOID,
}  # fmt: skip
"""Activations of dense heads, by the names of torch's modules."""


def model_pooler(view: Affine, states: Tensor, mode: Mode = LIVE) -> Tensor:
    """A model's own pooler, a linear map and tanh of the first token: (..., T, D) -> (..., D)."""
    return activate(views.TANH, linear(view, states[..., 0, :], mode), mode)


def model_pooler_transposed(view: Affine, gradient: Tensor, length: int, mode: Transposed) -> Tensor:
    """(B, K, D) -> (B, K, T, D), zero except for the first token."""
    first = views.linear_transposed(view, views.activate_transposed(views.TANH, gradient, mode), mode)
    return torch.nn.functional.pad(first[..., None, :], (0, 0, 0, length - 1))


@dataclass(frozen=True, eq=False)
class Dense:
    """activation(weight x + bias): weight (out, in), bias (out,) or None."""

    weight: Tensor
    bias: Tensor | None
    activation: str

    def __call__(self, x: Tensor, mode: Mode = LIVE) -> Tensor:
        """(..., in) -> (..., out)."""
        return activate(
            HEAD_ACTIVATIONS[self.activation],
            mode.add_bias(torch.nn.functional.linear(x, self.weight), self.bias),
            mode,
        )

    def transposed(self, gradient: Tensor, mode: Transposed) -> Tensor:
        """(B, K, out) -> (B, K, in)."""
        gradient = views.activate_transposed(HEAD_ACTIVATIONS[self.activation], gradient, mode)
        mode.collect(gradient, self.bias)
        return gradient @ self.weight

    def to(self, device: torch.device, dtype: torch.dtype) -> Dense:
        """The same head on a device, in a dtype."""
        bias = None if self.bias is None else self.bias.to(device, dtype)
        return Dense(self.weight.to(device, dtype), bias, self.activation)


def pooling_parts(pooling: str) -> tuple[str, ...]:
    """Check a pooling and split it at +; several poolings are concatenated."""
    parts = tuple(pooling.split("+"))
    known = [*sorted([*POOLERS, MODEL_POOLER]), *LEARNED]
    for part in parts:
        if part not in known:
            raise UsageError(f"unknown pooling {part!r}; choose from {', '.join(known)}, or join several with +")
    return parts


Layer = int | str | Sequence[int]


@dataclass(frozen=True)
class PoolingConfig:
    """The settings of ``encode`` that shape a vector."""

    pooling: str = "mean"
    """cls, last, max, mean, mean-sqrt-len, weighted, pooler, or what the model learned (qkv, bilstm); several joined by
    + are concatenated"""
    layer: Layer = -1  # a layer (0 is the embedding output, -1 the last), several to average, or first-last
    normalize: bool | None = None  # unit vectors as the last step; None leaves it to the model
    special_tokens: bool = True  # whether special tokens such as [CLS] and [SEP] are pooled
    truncate_dim: int | None = None  # keep only the first dimensions
    heads: bool = True  # apply the model's own dense heads after pooling

    def __post_init__(self) -> None:
        pooling_parts(self.pooling)
        if self.truncate_dim is not None and self.truncate_dim < 1:
            raise UsageError(f"truncate_dim must be at least 1, got {self.truncate_dim}")

    def layers_of(self, depth: int) -> tuple[int, ...]:
        """The layers to average, each in 0..depth, for a model of ``depth`` blocks."""
        layers = self._wanted_layers(depth)
        if MODEL_POOLER in pooling_parts(self.pooling) and set(layers) != {depth}:
            raise UsageError("the model's own pooler takes the last layer only; drop the layer or the pooling")
        return layers

    def _wanted_layers(self, depth: int) -> tuple[int, ...]:
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


@dataclass(frozen=True)
class ModulesConfig:
    """What happens before and after the transformer."""

    pooling: str = "mean"
    include_prompt: bool = True  # whether the prompt's tokens are pooled
    heads: tuple[Dense, ...] = ()
    normalizes: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None  # the name of the prompt that `encode` uses
    max_length: int | None = None
    lower: bool = False
    truncate_dim: int | None = None
    transformer: str = ""  # the subfolder of the transformer, or of the table of a static model
    is_static: bool = False  # a table of token vectors in place of the transformer
    note: str = ""  # a message for the user about the folder
    learned: LearnedPooling | None = None  # a pooling with its own weights

    def __post_init__(self) -> None:
        for name, number in (("max_seq_length", self.max_length), ("truncate_dim", self.truncate_dim)):
            if number is not None and (not isinstance(number, int) or number < 1):
                raise ModelError(f"{name} must be a whole number from 1, not {number!r}; fix the model's settings")
        texts = self.prompts.items() if isinstance(self.prompts, Mapping) else [(None, None)]
        if not all(isinstance(part, str) for item in texts for part in item):
            raise ModelError("prompts must map names to texts; fix config_sentence_transformers.json")

    def tensors(self) -> dict[str, torch.Tensor]:
        """The weights of the dense heads and of a learned pooling, by name."""
        heads = {f"{index}.{head.activation}": head for index, head in enumerate(self.heads)}
        found = {f"{name}.{key}": weight for name, head in heads.items() for key, weight in vars(head).items()
                 if isinstance(weight, Tensor)}  # fmt: skip
        if self.learned is not None:
            # Not state_dict, which detaches: these are the weights themselves.
            weights = self.learned.named_parameters()
            found |= {f"pooling.{self.learned.kind}.{name}": weight for name, weight in weights}
        return found

    def to(self, device: torch.device, dtype: torch.dtype) -> ModulesConfig:
        """With the heads on a device, in a dtype; a learned pooling is moved in place."""
        heads = tuple(head.to(device, dtype) for head in self.heads)
        return replace(self, heads=heads, learned=None if self.learned is None else self.learned.to(device, dtype))

    def prompt_for(self, role: str | None) -> str:
        """The prompt text for ``query``, ``document`` or None, the default."""
        names = {None: (self.default_prompt or "",), "query": ("query",)}.get(role, ("document", "passage", "corpus"))
        # The first that is not empty: version 6 writes an empty "document" next to a "passage".
        return next((self.prompts[name] for name in names if self.prompts.get(name)), "")


SMALLEST_LENGTH = 1e-12  # The smallest length that a vector is divided by, as in torch


class TensorEncoder:
    """Texts -> states -> vectors, in any mode, and the transpose. A subclass holds the weights and the settings."""

    model_view: ModelView
    tokenizer: Tokenizer
    modules_config: ModulesConfig
    pooling_config: PoolingConfig
    postprocessing: PostProcessing | None

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.model_view.device

    @cached_property
    def _special_ids(self) -> Tensor:
        return torch.tensor(self.tokenizer.special_ids(), device=self.device)

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
        if attention:
            self.model_view.require_attention()
        tokens = self.tokenize(texts, prompt)
        if report:
            report_truncation(sum(text.truncated for text in tokens), len(texts), self.tokenizer.limit)
        for indices in islice(exact_length_batches([len(text) for text in tokens], budget), skip, None):
            chosen = [tokens[index] for index in indices]
            rows = torch.tensor([(text.ids, text.types) for text in chosen], dtype=torch.long, device=self.device)
            with torch.inference_mode():
                x = forward.embed(self.model_view, Batch(rows[:, 0], rows[:, 1]))
                steps = list(forward.layers(self.model_view, x, maps=attention))
                hidden = torch.stack([step.states for step in steps])
                maps = torch.stack([step.maps for step in steps[1:]]) if attention else None  # type: ignore[misc]
            yield StateBatch(indices, chosen, hidden, maps)

    def layer_states(self, batch: Batch, dropout: Dropout = no_dropout) -> Tensor:
        """The states (B, T, D) that are pooled: of one layer, or the average of several."""
        x = forward.embed(self.model_view, batch, dropout)
        return self.averaged(forward.layers(self.model_view, x, batch.mask, dropout=dropout))

    def averaged(self, steps: Iterator[Step], start: int = 0, mode: Mode = LIVE) -> Tensor:
        """Average the states (B, T, D) that are pooled; the first step is that of layer ``start``."""
        wanted = self.pooling_config.layers_of(self.model_view.layers)
        total: Tensor | None = None
        for layer, step in enumerate(steps, start=start):
            if layer in wanted:
                total = step.states if total is None else total + step.states
            if layer == max(wanted):
                break
        assert total is not None
        return self.projected(total / len(set(wanted)) if len(set(wanted)) > 1 else total, mode)

    def vectors_from(self, x: Tensor, pooling_mask: Tensor, mode: Mode = LIVE, start: int = 0) -> Tensor:
        """From embeddings (B, T, E) to vectors (B, d), in any mode; rows (B, R, T, E) -> (B, R, d).

        ``pooling_mask`` (B, T) marks the tokens that are pooled. With ``start`` x holds the states of that layer.
        """
        states = self.averaged(forward.layers(self.model_view, x, mode=mode, start=start), start, mode)
        vectors = self.finish(self.pool(states, pooling_mask, mode), mode)
        if self.postprocessing is not None:
            vectors = self.postprocessing.forward(vectors, mode)
        return unit(vectors, mode) if self.pooling_config.normalize else vectors

    def directions_from(self, directions: Tensor, pooling_mask: Tensor, mode: Transposed) -> Tensor:
        """The transpose: directions (B, K, d) -> (B, K, T, E), so that <J x, u> = <x, J^T u>."""
        gradient = directions
        if self.pooling_config.normalize:
            gradient = gradient * mode.recorded("unit")
        if self.postprocessing is not None:
            gradient = self.postprocessing.transposed(gradient, mode)
        gradient = self.finish_transposed(gradient.to(self.model_view.dtype), mode)
        gradient = self.pool_transposed(gradient, pooling_mask, mode)
        if self.pooling_config.heads and self.model_view.output is not None:
            gradient = views.linear_transposed(self.model_view.output, gradient, mode)
        wanted = set(self.pooling_config.layers_of(self.model_view.layers))
        return forward.layers_transposed(self.model_view, gradient / len(wanted), wanted, mode)

    @torch.inference_mode()
    def without_tokens(self) -> NDArray[np.float32] | float:
        """The vector (d,) of a text without any token: zero, or what the heads of a static model make of zeros."""
        if not (self.modules_config.is_static and self._dense()):
            return 0.0
        nothing = torch.zeros(1, 1, self.model_view.hidden_size, dtype=self.model_view.dtype, device=self.device)
        return self.vectors_from(nothing, torch.ones(1, 1, device=self.device))[0].float().cpu().numpy()

    def pool(self, states: Tensor, mask: Tensor, mode: Mode = LIVE) -> Tensor:
        """States (B, T, D), or rows (B, R, T, D), and a mask (B, T) -> (B, P) or (B, R, P)."""
        parts = [self._pooled(part, states, mask, mode) for part in pooling_parts(self.pooling_config.pooling)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def _pooled(self, part: str, states: Tensor, mask: Tensor, mode: Mode) -> Tensor:
        if part == MODEL_POOLER:
            assert self.model_view.pooler is not None
            return model_pooler(self.model_view.pooler, states, mode)
        if part in LEARNED:
            learned = self.modules_config.learned
            assert learned is not None and learned.kind == part
            return learned(states, mask, mode)  # type: ignore[no-any-return]
        if part == "max" and not mode.fused:
            return _winners(states, mask, mode)
        if states.ndim == 3:
            return POOLERS[part](states, mask)
        rows = mask[:, None].expand(states.shape[:-1])
        return POOLERS[part](states.flatten(0, 1), rows.flatten(0, 1)).reshape(*states.shape[:2], -1)

    def pool_transposed(self, gradient: Tensor, mask: Tensor, mode: Transposed) -> Tensor:
        """Directions (B, K, P) of the pooled vector -> (B, K, T, D) of the states."""
        parts = pooling_parts(self.pooling_config.pooling)
        # From the last part to the first: the order of the constants.
        pieces = zip(reversed(parts), reversed(gradient.chunk(len(parts), dim=-1)), strict=True)
        found = [self._pooled_transposed(part, piece, mask, mode) for part, piece in pieces]
        return sum(found[1:], found[0])

    def _pooled_transposed(self, part: str, gradient: Tensor, mask: Tensor, mode: Transposed) -> Tensor:
        if part == MODEL_POOLER:
            assert self.model_view.pooler is not None
            return model_pooler_transposed(self.model_view.pooler, gradient, mask.shape[1], mode)
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
            if pooled.shape[-1] != (takes := head.weight.shape[1]):
                said = f"the model's dense head takes {takes} dimensions, pooling {self.pooling_config.pooling!r} gives"
                raise UsageError(f"{said} {pooled.shape[-1]}; use heads=False (--no-heads)")
            pooled = head(pooled, mode)
        if self._normalizes():
            pooled = unit(pooled, mode)
        cut = self.pooling_config.truncate_dim
        if cut is not None and cut > pooled.shape[-1]:
            raise UsageError(f"cannot cut vectors of {pooled.shape[-1]} dimensions to {cut}; lower truncate_dim")
        return pooled[..., :cut]

    def finish_transposed(self, gradient: Tensor, mode: Transposed) -> Tensor:
        """(B, K, d) -> (B, K, P)."""
        heads, parts = self._dense(), pooling_parts(self.pooling_config.pooling)
        width = heads[-1].weight.shape[0] if heads else self.state_size * len(parts)
        gradient = torch.nn.functional.pad(gradient, (0, width - gradient.shape[-1]))
        if self._normalizes():
            gradient = gradient * mode.recorded("unit")
        for head in reversed(heads):
            gradient = head.transposed(gradient, mode)
        return gradient

    def _dense(self) -> tuple[Dense, ...]:
        return self.modules_config.heads if self.pooling_config.heads else ()

    @property
    def state_size(self) -> int:
        """The width of a token's vector that is pooled."""
        return self.model_view.output_size if self.pooling_config.heads else self.model_view.hidden_size

    def projected(self, states: Tensor, mode: Mode = LIVE) -> Tensor:
        """States (..., T, D) -> those that are pooled: a model's own projection of tokens counts as a head."""
        own = self.model_view.output if self.pooling_config.heads else None
        return states if own is None else linear(own, states, mode)

    def _normalizes(self) -> bool:
        return self.modules_config.normalizes and self.pooling_config.normalize is not False


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
