"""Explanation of attention: a query-key score before the softmax as an exact sum over pairs of input tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from rich.text import Text
from torch import Tensor

from likewise.encoder import Encoder, takes_encoder
from likewise.encoder.attention import attention_bias, queries_and_keys
from likewise.encoder.forward import Batch, embed, embedding_parts, layers
from likewise.encoder.model_view import Block, norm
from likewise.encoder.modes import Mode, Replay, ReplayWithBiasRow
from likewise.errors import UsageError
from likewise.explain.explanation import (
    STRONGEST_PAIRS,
    TOLERANCE,
    Array,
    ExplainedText,
    require_complete,
    strongest_pairs,
    with_biases,
)
from likewise.explain.linear_map import Inputs, new_recorder, rows_at_once
from likewise.explain.settings import Settings
from likewise.explain.texts import TextInput, Unit, check, token_groups, unit_masks
from likewise.grammar.spans import word_spans
from likewise.plotting.heatmap import heatmap
from likewise.plotting.terminal import matrix_lines
from likewise.results import Figure, Result, Table


@dataclass(frozen=True, eq=False, repr=False)
class AttentionScore(Result):
    """The explanation of a query-key score of one head: relevance (n, n) of unit pairs, and the bias terms.

    The rows are what each unit adds to the query, the columns what it adds to the key. With the biases' parts and
    ``distance``, what the model adds for how far apart the positions are (MPNet), they sum to ``score``.

    >>> found = explain_attention(Encoder.load("minilm", device="cpu"), "The cat sat.", 2, 1, 2, 3)
    >>> found.relevance.shape, sorted(found.by_part)
    ((6, 6), ['bias', "layers' biases", 'position', 'type', 'word'])
    """

    text: ExplainedText
    layer: int
    head: int
    query: int
    key: int
    relevance: Array
    bias_query: Array  # each unit's part of the query with the key's bias, (n,)
    bias_key: Array  # the query's bias with each unit's part of the key, (n,)
    bias_both: float
    distance: float
    score: float
    weight: float  # the attention that the softmax makes of it
    by_part: dict[str, dict[str, float]]
    """the same score by what the input embeddings are made of: word, position, type, bias, and the layers' biases"""
    model: str

    def __post_init__(self) -> None:
        require_complete(self.score, self.gap, TOLERANCE * max(1.0, float(np.abs(self.relevance).sum())))

    @property
    def gap(self) -> float:
        """What is left unexplained."""
        whole = self.relevance.sum() + self.bias_query.sum() + self.bias_key.sum() + self.bias_both + self.distance
        return self.score - float(whole)

    def strongest(self, count: int = 10) -> list[tuple[Unit, Unit, float]]:
        """The pairs of a query unit and a key unit of largest absolute relevance, strongest first."""
        return strongest_pairs(self.relevance, self.text.units, self.text.units, count)

    @property
    def ledger(self) -> dict[str, float]:
        """The score's parts."""
        return {
            "units": float(self.relevance.sum()),
            "query units with the key's bias": float(self.bias_query.sum()),
            "key units with the query's bias": float(self.bias_key.sum()),
            "bias with bias": self.bias_both,
            "distance": self.distance,
            "gap": self.gap,
        }

    @property
    def title(self) -> str:
        """The tokens, the score, the layer and the head in one line."""
        query, key = (
            next(unit.text for unit in self.text.units if index in unit.tokens) for index in (self.query, self.key)
        )
        return f"{query} to {key}: {self.score:.3f}, layer {self.layer}, head {self.head}"

    def to_dict(self) -> dict[str, Any]:
        """Everything, on the scale of the score."""
        where = {"layer": self.layer, "head": self.head, "query": self.query, "key": self.key, "model": self.model}
        bias = {"query": self.bias_query.tolist(), "key": self.bias_key.tolist(), "both": self.bias_both}
        numbers = {"relevance": self.relevance.tolist(), "bias": bias, "distance": self.distance, "score": self.score}
        rest = {"weight": self.weight, "gap": self.gap, "by_part": self.by_part, "ledger": self.ledger}
        return self.text.to_dict() | where | numbers | rest

    def plot(self, ax: Any = None) -> Any:
        """The ledger as a heat map: rows for what the query is made of, columns for the key."""
        return heatmap(*self.matrix, self.title, ax)

    @property
    def matrix(self) -> tuple[Array, list[str], list[str]]:
        """The unit pairs with a row and a column for the biases, and their names."""
        names = [*self.text.labels, "(bias)"]
        return with_biases(self.relevance, self.bias_query, self.bias_key, self.bias_both), names, names

    def tables(self) -> dict[str, Table]:
        """The strongest pairs, the parts of the input embedding, and the ledger."""
        pairs = [(left.text, right.text, value) for left, right, value in self.strongest(STRONGEST_PAIRS)]
        parts = [(name, *row.values()) for name, row in self.by_part.items()]
        ledger = [*self.ledger.items(), ("score", self.score)]
        return {
            "strongest": Table.of(["query from", "key from", "relevance"], pairs, "strongest pairs"),
            "by_part": Table.of(["query part", *self.by_part], parts, "by part of the input embedding"),
            "ledger": Table.of(["ledger", "score"], ledger),
        }

    def figures(self) -> dict[str, Figure]:
        """The ledger."""
        return {"ledger": Figure(self.plot, "What query and key are made of")}

    def lines(self, width: int) -> list[Text]:
        """The score, and the ledger as a matrix."""
        headline = f"{self.title}, attention {self.weight:.4f}  ({self.model})"
        return [Text(headline), *matrix_lines(*self.matrix, width)]


@takes_encoder
def explain_attention(
    encoder: Encoder,
    text: str,
    layer: int,
    head: int,
    i: int,
    j: int,
    granularity: str = "token",
    prompt: str | None = None,
) -> AttentionScore:
    """Why the token at position i attends to the one at position j, in a layer (from 1) and a head (from 1).

    The score is that of i's query and j's key before the softmax, scaled as the model scales it. Rows up to the layer
    give both as sums over the text's units, exactly.

    >>> found = explain_attention(Encoder.load("minilm", device="cpu"), "The cat sat.", 1, 1, 2, 3)
    >>> abs(found.gap) < 1e-4
    True
    """
    check(encoder, "bilrp", Settings())
    one = token_groups(encoder, TextInput(text, prompt, granularity), Settings())
    _check(encoder, layer, head, (i, j), len(one.tokens))
    batch = Batch(*(torch.tensor([each], device=encoder.device) for each in (one.tokens.ids, one.tokens.types)))
    with torch.no_grad():
        x = embed(encoder.model_view, batch)
        scores = _Scores(encoder, x, layer)
        inputs = Inputs(batch, x, torch.ones_like(batch.ids), unit_masks([one], x), x[None])
        units = scores.products(inputs, head, i, j)
        parts = embedding_parts(encoder.model_view, batch)
        whole = torch.ones_like(inputs.masks[:, :1])
        by_part = scores.products(replace(inputs, masks=whole, sources=torch.stack(list(parts.values()))), head, i, j)
        score, weight, distance = scores.whole(head, i, j)
    names = [*parts, "layers' biases"]
    return AttentionScore(
        ExplainedText(str(one.tokens.text), one.units, one.tokens.truncated, one.tokens.ids), layer, head, i, j,
        units[:-1, :-1], units[:-1, -1], units[-1, :-1], float(units[-1, -1]), distance, score, weight,
        {name: dict(zip(names, row.tolist(), strict=True)) for name, row in zip(names, by_part, strict=True)},
        encoder.name,
    )  # fmt: skip


def _check(encoder: Encoder, layer: int, head: int, indices: tuple[int, int], length: int) -> None:
    views = encoder.model_view
    views.require_attention()
    if not 1 <= layer <= views.layers:
        raise UsageError(f"no layer {layer}; {encoder.name} has layers 1 to {views.layers}")
    if not 1 <= head <= views.blocks[layer - 1].attention.heads:
        raise UsageError(f"no head {head}; {encoder.name} has heads 1 to {views.blocks[layer - 1].attention.heads}")
    for index in indices:
        if not 0 <= index < length:
            raise UsageError(f"no token {index}; the text has tokens 0 to {length - 1}")


class _Scores:
    """The query-key scores of one layer over a recorded text, x (1, T, E)."""

    def __init__(self, encoder: Encoder, x: Tensor, layer: int) -> None:
        self.encoder, self.x, self.layer = encoder, x, layer
        self.record = new_recorder(encoder, x, Settings())
        self.query, self.key = self._queries_and_keys(x, self.record)

    @property
    def block(self) -> Block:
        """The layer."""
        return self.encoder.model_view.blocks[self.layer - 1]

    def _queries_and_keys(self, x: Tensor, mode: Mode) -> tuple[Tensor, Tensor]:
        steps = islice(layers(self.encoder.model_view, x, mode=mode), self.layer)
        *_, before = steps
        inner = norm(self.block.attention_norm, before.states, mode) if self.block.pre_norm else before.states
        return queries_and_keys(self.block.attention, inner, mode)

    def products(self, inputs: Inputs, head: int, i: int, j: int) -> Array:
        """Scaled products of the parts of a query and a key: R rows -> (R + 1, R + 1), biases last."""
        queries, keys, size = [], [], rows_at_once(inputs.pooling_mask)
        for first in range(0, inputs.rows + 1, size):
            last = min(first + size, inputs.rows + 1)
            rows, mode = inputs.part(first, min(last, inputs.rows)), Replay(self.record)
            if last > inputs.rows:
                rows, mode = torch.cat([rows, inputs.base[:, None]], dim=1), ReplayWithBiasRow(self.record)
            query, key = self._queries_and_keys(rows, mode)
            queries.append(query[0, :, head - 1, i].cpu().double())
            keys.append(key[0, :, head - 1, j].cpu().double())
        found: Array = (torch.cat(queries) @ torch.cat(keys).T * self.block.attention.scale).numpy()
        return found

    def whole(self, head: int, i: int, j: int) -> tuple[float, float, float]:
        """The model's own score, the attention weight that it becomes, and what the distance adds to it."""
        view = self.block.attention
        scores = self.query[:, head - 1 : head] @ self.key[:, head - 1 : head].transpose(-1, -2) * view.scale
        added = attention_bias(view, self.query, self.key, None)
        if added is not None:
            scores = scores + (added if added.shape[1] == 1 else added[:, head - 1 : head])
        if float(scores[0, 0, i, j]) <= torch.finfo(scores.dtype).min / 2:
            raise UsageError(f"token {i} does not see token {j} in this layer; choose another pair")
        by_distance = view.relative is not None or view.disentangled is not None
        distance = float(added[0, head - 1, i, j]) if by_distance and added is not None else 0.0
        weights = torch.softmax(scores, dim=-1)
        return float(scores[0, 0, i, j]), float(weights[0, 0, i, j]), distance


def token_index(encoder: Encoder, text: str, name: str, prompt: str | None = None) -> int:
    """The position of a token by its number or its text, or of the first token of a word; the first of several."""
    if name.isdecimal():
        return int(name)
    (tokens,) = encoder.tokenize([text], prompt)
    spans = word_spans(text)
    for index, (token, (start, end)) in enumerate(zip(tokens.tokens, tokens.offsets, strict=True)):
        words = [text[start:end], *(text[slice(*span)] for span in spans if span[0] == start)] if end > start else []
        if name == token or name.lower() in (word.lower() for word in words):
            return index
    raise UsageError(f"no token {name!r}; the text has {', '.join(tokens.tokens)}")
