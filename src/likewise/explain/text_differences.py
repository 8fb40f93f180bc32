"""Where two texts differ: spans without a counterpart, or with one of another meaning, and how much each matters.

The weight of a span is exact. For unit vectors u and v, <u - v, u> = 1 - cos. So one transposed pass along u - v gives
the share of each word in the distance 1 - cos; these shares, and what the biases add, sum to it on either side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import numpy as np
from rich.text import Text

from likewise.encoder import Encoder, takes_encoder
from likewise.encoder.similarity import unit as unit_rows
from likewise.encoder.tokens import report_truncation
from likewise.explain.explanation import TOLERANCE, Array, require_complete
from likewise.explain.pairs import TextInputs, TextPair, pair_windows
from likewise.explain.settings import Settings
from likewise.explain.texts import Shares, TextInput, check, group_shares, token_groups
from likewise.explain.word_scores import DEFAULT_METHOD, Words, equal_words, method_named, mutual_best, words_of
from likewise.plotting.html import hits_fragment
from likewise.plotting.terminal import DrawnHit, marked_words, one_line
from likewise.progress import Progress, Ticker
from likewise.results import Column, Result, Table

THRESHOLD = 0.18  # A word has a counterpart if a score of ``context`` reaches this (docs/results/alignment.md)
CHANGED_PART = 0.4  # The part of the distance that a word with a counterpart must have to count as changed
UNMATCHED, CHANGED = "unmatched", "changed"
SIDES = ("left", "right")
Kinds = tuple[list[str | None], list[str | None]]  # How each word of both texts differs


@dataclass(frozen=True)
class DifferentSpan:
    """Neighbouring words in which a text differs from the other: their characters, and their share in the distance.

    >>> DifferentSpan(0, 3, "old", 0.2, "unmatched").text
    'old'
    """

    start: int
    end: int
    text: str
    weight: float
    kind: str  # unmatched: no counterpart; changed: a counterpart of another meaning

    def to_dict(self) -> dict[str, Any]:
        """The fields."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class WordShares:
    """The words of a text with their shares (n,) in a distance, and what all else adds."""

    words: Words
    shares: Array
    rest: float
    distance: float

    def __post_init__(self) -> None:
        require_complete(self.distance, self.gap, TOLERANCE)

    @property
    def gap(self) -> float:
        """What is left unexplained of the distance."""
        return self.distance - float(self.shares.sum()) - self.rest

    @property
    def parts(self) -> Array:
        """Each share as a part of the distance, (n,); 0 for texts that the model does not tell apart."""
        return self.shares / self.distance if self.distance > TOLERANCE else np.zeros_like(self.shares)


@dataclass(frozen=True, eq=False, repr=False)
class Differences(Result):
    """The spans in which two texts differ, those that set the texts apart most first; of each side.

    The weights of a side's spans, of its other words, and of the rest (special tokens and biases) sum to ``distance``,
    which is 1 - cosine.

    >>> found = differences("minilm", "The bridge was closed.", "The old bridge was closed.")
    >>> [span.text for span in found.left], [span.text for span in found.right]
    ([], ['old'])
    """

    left_words: WordShares
    right_words: WordShares
    left: tuple[DifferentSpan, ...]
    right: tuple[DifferentSpan, ...]
    model: str

    @property
    def distance(self) -> float:
        """One minus the cosine of the two texts."""
        return self.left_words.distance

    def to_dict(self) -> dict[str, Any]:
        """The spans of both sides, the distance, and what the other words and the rest add to it."""
        found: dict[str, Any] = {side: [span.to_dict() for span in getattr(self, side)] for side in SIDES}
        found |= {"similarity": 1 - self.distance, "distance": self.distance}
        found |= {"sums": {side: self._sums(side) for side in SIDES}}
        texts = {"left": self.left_words.words.text, "right": self.right_words.words.text}
        return found | {"texts": texts, "model": self.model}

    def _sums(self, side: str) -> dict[str, float]:
        """What the distance is the sum of, on one side."""
        own: WordShares = getattr(self, f"{side}_words")
        spans = sum((span.weight for span in getattr(self, side)), 0.0)
        words = float(own.shares.sum()) - spans
        return {"spans": spans, "other_words": words, "rest": own.rest, "gap": own.gap}

    title = "Where two texts differ"

    @property
    def notes(self) -> list[str]:
        """The distance."""
        return [f"cosine {1 - self.distance:.4f}, so 1 - cosine is {self.distance:.4f}  ({self.model})"]

    @property
    def cautions(self) -> list[str]:
        """Cut texts."""
        cut = [side for side in SIDES if getattr(self, f"{side}_words").words.truncated]
        return [f"cut at the model's limit: the {' and the '.join(cut)} text"] if cut else []

    def tables(self) -> dict[str, Table]:
        """The spans of both sides by weight, and the sums."""
        columns = [*map(Column, ("side", "span", "kind")), Column("weight", format="+.4f")]
        spans = [(side, one.text, one.kind, one.weight) for side in SIDES for one in getattr(self, side)]
        spans.sort(key=lambda row: -row[3])
        sums = [(side, *self._sums(side).values(), self.distance) for side in SIDES]
        header = [*map(Column, ("side", "spans", "other_words", "rest", "gap")), Column("distance", "1 - cosine")]
        return {
            "differences": Table.of(columns, spans, "spans that set the texts apart"),
            "sums": Table.of(header, sums, "what 1 - cosine is the sum of"),
        }

    def lines(self, width: int) -> list[Text]:  # noqa: ARG002
        """Both texts; what differs is in brackets."""
        parts = [marked_words(one_line(one.text), one.words) for one in self._drawn()]
        return [Text("".join(f"[{piece}]" if share is not None else piece for piece, share in one)) for one in parts]

    def fragments(self) -> list[str]:
        """Both texts with the spans in colour, and the tables."""
        return [hits_fragment("1 - cosine, and what adds to it", self.model, self._drawn()), *self._table_fragments()]

    def _repr_html_(self) -> str:
        return "".join(self.fragments())

    def _drawn(self) -> list[DrawnHit]:
        sides = zip(SIDES, (self.left_words, self.right_words), (self.left, self.right), strict=True)
        return [
            DrawnHit(side, self.distance, own.words.text, [(one.start, one.end, one.weight) for one in spans])
            for side, own, spans in sides
        ]


@takes_encoder
def differences(
    encoder: Encoder, left: str, right: str, *, threshold: float = THRESHOLD, changed: float = CHANGED_PART
) -> Differences:
    """The spans of two texts without a counterpart, or with one of another meaning.

    A word has no counterpart if none of its scores by ``align`` reaches the ``threshold``. Another word differs too if
    the other text does not have the same word and its share is at least ``changed`` of the distance: it is changed
    if it and another word are each other's best partners, else it has no counterpart of its own.

    >>> found = differences("minilm", "He paid 38 dollars.", "He paid 45 dollars.")
    >>> [(span.text, span.kind) for span in (*found.left, *found.right)]
    [('38', 'changed'), ('45', 'changed')]
    """
    return differences_of(encoder, [(left, right)], threshold=threshold, changed=changed)[0]


@takes_encoder
def differences_of(
    encoder: Encoder,
    pairs: Sequence[tuple[str, str] | TextPair],
    progress: Progress | None = None,
    *,
    threshold: float = THRESHOLD,
    changed: float = CHANGED_PART,
) -> list[Differences]:
    """The same for many pairs; texts of one length run together.

    >>> found = differences_of("minilm", [("A cat sat.", "A cat sat."), ("A cat sat.", "A cat sat down.")])
    >>> [len(one.right) for one in found]
    [0, 1]
    """
    check(encoder, "bilrp", Settings())
    both = [pair if isinstance(pair, (tuple, list)) else (pair.left, pair.right) for pair in pairs]
    inputs = [(TextInput(left, granularity="word"), TextInput(right, granularity="word")) for left, right in both]
    ticker, found = Ticker(progress, len(inputs), "pairs"), []
    for left, right in word_shares(encoder, inputs):
        found.append(_found(encoder, left, right, threshold, changed))
        ticker.add()
    ticker.close()
    cut = sum(one.left_words.words.truncated + one.right_words.words.truncated for one in found)
    report_truncation(cut, 2 * len(found), encoder.tokenizer.limit)
    return found


def word_shares(encoder: Encoder, pairs: Sequence[TextInputs]) -> Iterator[tuple[WordShares, WordShares]]:
    """The words of each pair of texts with their shares in the distance of the two, window by window."""
    source, settings = method_named(encoder, DEFAULT_METHOD).source, Settings()
    for window in pair_windows(pairs):
        texts = [text for index in window for text in pairs[index]]
        words = words_of(encoder, texts, [source])[source]
        directions = _directions(encoder, [text.text for text in texts])
        groups = [token_groups(encoder, text, settings) for text in texts]
        found = dict(group_shares(encoder, groups, directions, settings))
        sides = [_word_shares(words[index], found[index], directions[index, 0]) for index in range(len(texts))]
        yield from zip(sides[::2], sides[1::2], strict=True)


def _directions(encoder: Encoder, texts: Sequence[str]) -> Array:
    """The unit vector of each text less that of its partner, which is next to it: (N, 1, d)."""
    unique = list(dict.fromkeys(texts))
    rows = dict(zip(unique, unit_rows(encoder.encode_with_stats(unique).vectors), strict=True))
    vectors = np.stack([rows[text] for text in texts]).astype(np.float64)
    partners = vectors.reshape(-1, 2, vectors.shape[1])[:, ::-1].reshape(vectors.shape)
    return (vectors - partners)[:, None]


def _word_shares(words: Words, shares: Shares, direction: Array) -> WordShares:
    rows = [row for row, unit in enumerate(shares.units) if unit.kind == "text"]
    values = shares.values[0] / shares.divisor
    others = float(values.sum()) - float(values[rows].sum()) + float(shares.bias[0]) / shares.divisor
    distance = float(direction @ shares.vector.astype(np.float64)) / shares.divisor
    return WordShares(words, values[rows], others, distance)


def _found(encoder: Encoder, left: WordShares, right: WordShares, threshold: float, changed: float) -> Differences:
    kinds = kinds_of_words(encoder, left, right, threshold, changed)
    spans = [_spans(own, kind) for own, kind in zip((left, right), kinds, strict=True)]
    return Differences(left, right, spans[0], spans[1], encoder.name)


def kinds_of_words(
    encoder: Encoder, left: WordShares, right: WordShares, threshold: float = THRESHOLD, changed: float = CHANGED_PART
) -> Kinds:
    """How each word of two texts differs: unmatched, changed, or None; punctuation marks never do."""
    scores = method_named(encoder, DEFAULT_METHOD).between(left.words, right.words)
    limits = (threshold, changed)
    return _kinds(left, right, scores, limits), _kinds(right, left, scores.T, limits)


def _kinds(own: WordShares, other: WordShares, scores: Array, limits: tuple[float, float]) -> list[str | None]:
    """The kinds of the words of one text by their scores (n, m) with the other's."""
    threshold, changed = limits
    if scores.size:
        best, linked = mutual_best(scores), scores.max(1) >= threshold
        # Of two words that are each other's best partners, the larger part counts for both.
        parts = np.maximum(own.parts, np.where(best, other.parts, 0.0).max(1))
        differs = ~equal_words(own.words, other.words).any(1) & (parts >= changed)
        has_counterpart = best.any(1) & linked
    else:
        linked = differs = has_counterpart = np.zeros(len(own.words.units), dtype=np.bool_)
    # A word that was put in is linked to its neighbours' partners, but it is not the best partner of any of them.
    unmatched = ~linked | (differs & ~has_counterpart)
    return [
        None if is_mark else UNMATCHED if is_unmatched else CHANGED if is_different else None
        for is_mark, is_unmatched, is_different in zip(own.words.is_punctuation, unmatched, differs, strict=True)
    ]


def _spans(own: WordShares, kinds: Sequence[str | None]) -> tuple[DifferentSpan, ...]:
    """Neighbouring words of one kind as one span, heaviest first."""
    found = []
    for kind, group in groupby(range(len(kinds)), lambda index: kinds[index]):
        indices = list(group)
        if kind is not None:
            start, end = own.words.units[indices[0]].start, own.words.units[indices[-1]].end
            weight = float(own.shares[indices].sum())
            found.append(DifferentSpan(start, end, own.words.text[start:end], weight, kind))
    return tuple(sorted(found, key=lambda span: -span.weight))
