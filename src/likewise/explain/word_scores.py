"""How well each word of a text corresponds to each word of another: methods that score pairs of words.

A method is a source of word vectors (the states of a layer, or contributions to the text's embedding) and a function
of two texts' vectors. ``context``, which :func:`likewise.explain.alignment.align` uses, is the one that agreed best
with people's alignments of the train files in docs/results/alignment.md.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from likewise.encoder import Encoder
from likewise.encoder.forward import Batch, embed, exact_length_batches, layers
from likewise.encoder.tokens import report_truncation
from likewise.errors import UsageError
from likewise.explain.settings import PLAIN, Settings
from likewise.explain.texts import TextInput, TokenGroups, Unit, contribution_stream, token_groups

Array = NDArray[Any]
DEFAULT_METHOD = "context"
NEIGHBOUR = 0.3  # The weight of a neighbouring pair of words; 1 is the weight of the pair itself
ORDER = 0.1  # What a pair from opposite ends of the two texts loses
USUAL_BASELINE = 0.3  # The cosine of two words of one text, where both texts have one word; the mean of three models
NO_LINK = -1.0  # The score of a pair with a punctuation mark
ENTROPY, ROUNDS = 0.05, 100  # Of optimal transport: the weight of the entropy and the rounds of scaling
TEMPERATURE = 0.1  # Of the softmax over cosines
NEAREST = 3  # The neighbours whose mean similarity CSLS subtracts


@dataclass(frozen=True, eq=False)
class Words:
    """The n words of a text and their vectors (n, d)."""

    text: str
    units: tuple[Unit, ...]
    vectors: Array
    truncated: bool = False

    @property
    def is_punctuation(self) -> NDArray[np.bool_]:
        """Which words are punctuation marks, (n,)."""
        return np.array([is_punctuation(unit.text) for unit in self.units], dtype=np.bool_)


def is_punctuation(word: str) -> bool:
    """Whether a word has nothing but punctuation; emoji and signs such as $ are no punctuation.

    >>> is_punctuation("?!"), is_punctuation("3.5"), is_punctuation("🎉")
    (True, False, False)
    """
    return all(unicodedata.category(character).startswith("P") for character in word)


@dataclass(frozen=True)
class Ledger:
    """Contributions by an explanation method, as a source of word vectors."""

    method: str = "bilrp"
    settings: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, method: str, settings: Mapping[str, Any] = {}) -> Ledger:
        """A source that can be a key."""
        return cls(method, tuple(sorted(settings.items())))


Source = int | Ledger  # The number of a layer, or contributions
Score = Callable[[Words, Words], Array]  # Two texts' words -> scores (n, m)


@dataclass(frozen=True)
class Method:
    """Where the vectors of words come from, and how two texts' words are compared."""

    source: Source
    scores: Score = field(repr=False)

    def between(self, left: Words, right: Words) -> Array:
        """The scores of all pairs of words, (n, m); there may be none."""
        if not left.units or not right.units:
            return np.zeros((len(left.units), len(right.units)))
        return self.scores(left, right)


def cosines(left: Words, right: Words) -> Array:
    """The cosine of each pair of words, (n, m)."""
    found: Array = _unit(left.vectors) @ _unit(right.vectors).T
    return found


def products(left: Words, right: Words) -> Array:
    """The product of each pair of contributions, (n, m): the relevance of a ledger, but for its scale."""
    found: Array = left.vectors @ right.vectors.T
    return found


def squared_products(left: Words, right: Words) -> Array:
    """The square of the product of each pair, (n, m)."""
    return products(left, right) ** 2


def context(left: Words, right: Words) -> Array:
    """Cosines above their baseline, averaged with the neighbouring pairs, less for pairs of another order: (n, m).

    People align phrases: two words correspond rather if their neighbours do. 0 is the mean cosine of two words of the
    same text, 1 that of equal vectors. Punctuation marks correspond to nothing.
    """
    positions = [np.arange(len(words.units)) / max(1, len(words.units) - 1) for words in (left, right)]
    distance = np.abs(np.subtract.outer(*positions))
    return _without_punctuation(_averaged(left, right) - ORDER * distance, left, right)


def neighbours(left: Words, right: Words) -> Array:
    """``context`` without the order of the words: (n, m)."""
    return _without_punctuation(_averaged(left, right), left, right)


def _averaged(left: Words, right: Words) -> Array:
    """Cosines above the baseline, each averaged with its eight neighbours; punctuation marks are left out."""
    counts = np.outer(~left.is_punctuation, ~right.is_punctuation).astype(np.float64)
    total = _neighbourhood(above_baseline(left, right) * counts)
    weights = _neighbourhood(counts)
    return np.divide(total, weights, out=np.zeros_like(total), where=weights > 0)


def _neighbourhood(cells: Array) -> Array:
    """The weighted sum of each cell (n, m) and its eight neighbours."""
    rows, columns = cells.shape
    wide = np.pad(cells, 1)
    total = np.sum([wide[i : i + rows, j : j + columns] for i in range(3) for j in range(3)], axis=0)
    found: Array = NEIGHBOUR * total + (1 - NEIGHBOUR) * cells
    return found


def above_baseline(left: Words, right: Words) -> Array:
    """Cosines (n, m), of which 0 is the mean cosine of two words of the same text and 1 stays 1."""
    baseline = _baseline(left, right)
    return (cosines(left, right) - baseline) / (1 - baseline)


def _baseline(left: Words, right: Words) -> float:
    """The mean cosine of two words of the same text, which share a context but no meaning."""
    sums = [(float(_unit(one.vectors).sum(0) @ _unit(one.vectors).sum(0)), len(one.units)) for one in (left, right)]
    means = [(total - n) / (n * (n - 1)) for total, n in sums if n > 1]
    # A text may be one word again and again.
    return min(sum(means) / len(means), 0.99) if means else USUAL_BASELINE


def _without_punctuation(scores: Array, left: Words, right: Words) -> Array:
    return np.where(np.logical_or.outer(left.is_punctuation, right.is_punctuation), NO_LINK, scores)


def words_only(left: Words, right: Words) -> Array:
    """Cosines (n, m) in which punctuation marks correspond to nothing."""
    return _without_punctuation(cosines(left, right), left, right)


def mutual_softmax(left: Words, right: Words) -> Array:
    """The geometric mean of the softmax over rows and over columns, as AwesomeAlign has it: (n, m)."""
    cells = np.exp((cosines(left, right) - 1) / TEMPERATURE)
    return cells / np.sqrt(cells.sum(1, keepdims=True) * cells.sum(0, keepdims=True))  # type: ignore[no-any-return]


def less_hubs(left: Words, right: Words) -> Array:
    """CSLS: twice the cosine, less the mean cosine of either word with its nearest: (n, m)."""
    cells = cosines(left, right)
    means = [np.sort(cells, axis=axis).take(range(-min(NEAREST, cells.shape[axis]), 0), axis).mean(axis, keepdims=True)
             for axis in (0, 1)]  # fmt: skip
    return 2 * cells - means[0] - means[1]  # type: ignore[no-any-return]


def transport(left: Words, right: Words) -> Array:
    """Optimal transport of equal weights at cost 1 - cosine, with an entropy (Sinkhorn): (n, m), 1 for a full move."""
    kernel = np.exp((cosines(left, right).astype(np.float64) - 1) / ENTROPY)
    rows, columns = kernel.shape
    right_scale = np.ones(columns)
    for _ in range(ROUNDS):
        left_scale = 1 / rows / (kernel @ right_scale)
        right_scale = 1 / columns / (kernel.T @ left_scale)
    return left_scale[:, None] * kernel * right_scale * max(rows, columns)  # type: ignore[no-any-return]


def equal_words(left: Words, right: Words) -> Array:
    """1 for equal words, whatever their case, else 0: (n, m)."""
    names = [np.array([unit.text.casefold() for unit in words.units]) for words in (left, right)]
    found: Array = (names[0][:, None] == names[1]).astype(np.float64)
    return found


def random_scores(left: Words, right: Words) -> Array:
    """Noise that depends on both texts: (n, m)."""
    seed = [len(left.text), *left.text.encode("utf-8", "replace"), *right.text.encode("utf-8", "replace")]
    return np.random.default_rng(seed).random((len(left.units), len(right.units)))


def mutual_best(scores: Array) -> NDArray[np.bool_]:
    """Which pairs of words are the best ones of both of their words, (n, m).

    >>> mutual_best(np.array([[0.9, 0.2], [0.8, 0.1]])).tolist()
    [[True, False], [False, False]]
    """
    if not scores.size:
        return np.zeros(scores.shape, dtype=np.bool_)
    return np.asarray((scores >= scores.max(1, keepdims=True)) & (scores >= scores.max(0, keepdims=True)))


def _unit(vectors: Array) -> Array:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


LEDGERS: dict[str, Ledger] = {
    "bilrp": Ledger.of("bilrp", PLAIN),
    "bilrp-filler": Ledger.of("bilrp"),
    **{f"bilrp-{bias}": Ledger.of("bilrp", {**PLAIN, "bias": bias}) for bias in ("local", "traced", "shared")},
    "hxp": Ledger.of("hxp"),
    "integrated-jacobian": Ledger.of("integrated-jacobian"),
    "embedding": Ledger.of("embedding"),
}
"""Explanation methods by the names that ``likewise faithfulness`` has for them; bilrp is as it was published."""


def methods_of(encoder: Encoder) -> dict[str, Method]:
    """Every method by its name; layers are those of the encoder."""
    depth = encoder.model_view.layers
    middle = depth // 2
    by_state: dict[str, Score] = {
        "context": context, "neighbours": neighbours, "words": words_only, "softmax": mutual_softmax,
        "csls": less_hubs, "optimal-transport": transport, "equal-words": equal_words, "random": random_scores,
    }  # fmt: skip
    return {
        **{name: Method(middle, scores) for name, scores in by_state.items()},
        **{f"layer-{layer}": Method(layer, cosines) for layer in range(depth + 1)},
        **{name: Method(source, products) for name, source in LEDGERS.items()},
        "embedding-squared": Method(LEDGERS["embedding"], squared_products),
        "contribution-cosine": Method(LEDGERS["bilrp-filler"], cosines),
    }


def method_named(encoder: Encoder, name: str) -> Method:
    """A method by its name."""
    known = methods_of(encoder)
    if name not in known:
        raise UsageError(f"unknown method {name!r}; choose from {', '.join(known)}")
    return known[name]


def words_of(encoder: Encoder, texts: Sequence[TextInput], sources: Iterable[Source]) -> dict[Source, list[Words]]:
    """The words of each text with their vectors from each source; the layers take one forward pass together."""
    wanted = set(sources)
    numbers = sorted(source for source in wanted if isinstance(source, int))
    found: dict[Source, list[Words]] = {}
    if numbers:
        found.update(_layer_words(encoder, texts, numbers))
    for ledger in (source for source in wanted if isinstance(source, Ledger)):
        stream = contribution_stream(encoder, texts, ledger.method, Settings(**dict(ledger.settings)))
        by_index = {index: _own(one.text, one.units, one.values, one.truncated) for index, one in stream}
        found[ledger] = [by_index[index] for index in range(len(texts))]
    return found


def _own(text: str, units: tuple[Unit, ...], vectors: Array, truncated: bool) -> Words:
    """The words alone: without special tokens and without a prompt."""
    rows = [row for row, unit in enumerate(units) if unit.kind == "text"]
    return Words(text, tuple(units[row] for row in rows), np.asarray(vectors)[rows], truncated)


def _layer_words(encoder: Encoder, texts: Sequence[TextInput], numbers: Sequence[int]) -> dict[Source, list[Words]]:
    """The words with the mean states of their tokens at each layer."""
    groups = [token_groups(encoder, text, Settings()) for text in texts]
    found: dict[int, dict[int, Words]] = {number: {} for number in numbers}
    for indices in exact_length_batches([len(group.tokens) for group in groups]):
        batch = [groups[index] for index in indices]
        rows = torch.tensor([(one.tokens.ids, one.tokens.types) for one in batch], device=encoder.device)
        with torch.inference_mode():
            steps = layers(encoder.model_view, embed(encoder.model_view, Batch(rows[:, 0], rows[:, 1])))
            for number, step in enumerate(islice(steps, numbers[-1] + 1)):
                if number in found:
                    states = step.states.float().cpu().numpy()
                    found[number] |= zip(indices, map(_averaged_words, batch, states), strict=True)
    return {number: [one[index] for index in range(len(texts))] for number, one in found.items()}


def _averaged_words(group: TokenGroups, states: Array) -> Words:
    vectors = np.array([states[list(unit.tokens)].mean(0) for unit in group.units]).reshape(-1, states.shape[1])
    return _own(str(group.tokens.text), group.units, vectors, group.tokens.truncated)


def report_cut(encoder: Encoder, words: Iterable[Words]) -> None:
    """Log how many texts were cut at the model's limit."""
    cut = [one.truncated for one in words]
    report_truncation(sum(cut), len(cut), encoder.tokenizer.limit)
