"""Trajectories: how near two words, or two sentences, are to one another at each layer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.encoder import Encoder
from likewise.encoder.encoder import report_truncation
from likewise.encoder.pooling_head import PoolingArguments
from likewise.encoder.tokens import TokenizedText
from likewise.encoder.variants import encode_variants
from likewise.errors import DataError, UsageError
from likewise.geometry.anisotropy import unit_rows
from likewise.geometry.words import Places, averaged_tokens, require_layers, spans_of_words, tokens_of_spans
from likewise.plotting.curves import Panel, curve_panels, curves
from likewise.plotting.html import paragraph, table
from likewise.plotting.text import shortened
from likewise.progress import Progress

AXES = ("layer", "cosine")
NUMBERED = re.compile(r"(.*\S)\s*:([1-9][0-9]{0,5})", re.DOTALL)
"""``bank:2``, the second bank."""
MODEL_LETTERS, TITLE_LETTERS = 36, 26
"""What a figure shows of a model's name, whose end tells the most, and of the words that are followed."""
LISTED = 40
"""The most words of a sentence that an error lists."""

States = NDArray[np.float64]


@dataclass(frozen=True)
class WordPlace:
    """Where a word, or a run of words, stands in its sentence."""

    word: str
    """as the sentence writes it"""
    first: int
    """its first word's place among the sentence's words and punctuation marks, from 1 on"""
    last: int


@dataclass(frozen=True)
class PairTrajectory:
    """The cosine of two sentences, or of a word in each, at layers 0 to L."""

    left: int
    right: int
    words: tuple[str, str] | None
    """what was followed in the left and in the right sentence; None: their pooled vectors"""
    cosine: tuple[float, ...]

    @property
    def lowest(self) -> int:
        """The layer at which the two are farthest apart."""
        return int(np.argmin(self.cosine))


@dataclass(frozen=True)
class Trajectories:
    """Every pair of some sentences in one model, layer by layer; layer 0 is the embeddings' output.

    >>> pair = PairTrajectory(0, 1, ("bank", "bank"), (1.0, 0.5))
    >>> Trajectories("mine", (0, 1), (pair,), ("a bank", "the bank")).to_dict()["pairs"][0]["cosine"]
    (1.0, 0.5)
    """

    model: str
    layers: tuple[int, ...]
    pairs: tuple[PairTrajectory, ...]
    texts: tuple[str, ...]
    indices: tuple[WordPlace, ...] = ()
    """the word that is followed in each sentence; none for pooled vectors"""
    tokens: tuple[Places, ...] = ()
    """where each word's tokens stand in what the model reads; the same places make the same embedding"""
    pooling: str | None = None
    """how sentence vectors are pooled; None for words"""

    @property
    def names(self) -> tuple[str, ...]:
        """A short name of each sentence: its word where these tell the sentences apart, else its number too."""
        words = [index.word for index in self.indices]
        if words and len(set(words)) == len(words):
            return tuple(words)
        summary = [f"{word} " for word in words] if len(set(words)) > 1 else [""] * len(self.texts)
        return tuple(f"{word}{number}" for number, word in enumerate(summary, start=1))

    @property
    def title(self) -> str:
        """What is followed."""
        words = dict.fromkeys(index.word for index in self.indices)
        return ", ".join(words) if words else f"sentence vectors, {self.pooling}"

    @property
    def heading(self) -> str:
        """The model and what is followed in it, short enough to stand above a panel."""
        model = self.model if len(self.model) <= MODEL_LETTERS else f"…{self.model[1 - MODEL_LETTERS :]}"
        return f"{model}: {shortened(self.title, TITLE_LETTERS)}"

    @property
    def header(self) -> tuple[str, ...]:
        """The columns of the table."""
        return ("pair", *map(str, self.layers))

    @property
    def rows(self) -> list[tuple[str, list[float]]]:
        """Each pair's name and its cosines."""
        names = self.names
        return [(f"{names[pair.left]} / {names[pair.right]}", list(pair.cosine)) for pair in self.pairs]

    @property
    def panel(self) -> Panel:
        """What ``curve_panels`` draws."""
        return self.layers, {name: (cosine, None, None) for name, cosine in self.rows}

    def to_dict(self) -> dict[str, Any]:
        """The model, its layers, and each pair's cosines."""
        followed = {"places": [asdict(one) for one in self.indices], "tokens": list(map(list, self.tokens))}
        metadata = {"model": self.model, "layers": list(self.layers), "pairs": [asdict(pair) for pair in self.pairs]}
        return metadata | {"texts": list(self.texts)} | (followed if self.indices else {"pooling": self.pooling})

    def _repr_html_(self) -> str:
        return table(self.header, [(name, *cosine) for name, cosine in self.rows])

    def plot(self, ax: Any = None) -> Any:
        """A curve for each pair."""
        layers, series = self.panel
        return curves(layers, series, AXES, self.heading, ax, whole=True)


@dataclass(frozen=True)
class TrajectoryTable:
    """The same sentences in several models."""

    results: tuple[Trajectories, ...]

    def to_dict(self) -> dict[str, Any]:
        """A single model as itself, several under ``results``."""
        models = [result.to_dict() for result in self.results]
        return models[0] if len(models) == 1 else {"results": models}

    def _repr_html_(self) -> str:
        return "".join(f"{paragraph(one.model)}{one._repr_html_()}" for one in self.results)

    def plot(self, sentences: bool = True) -> Any:
        """A panel per model on common axes, the sentences listed below; returns the first panel's Axes."""
        named = zip(self.results[0].names, self.results[0].texts, strict=True)
        panels = [(one.heading, one.panel) for one in self.results]
        return curve_panels(panels, AXES, [f"{name}: {text}" for name, text in named] if sentences else ())[0]


def word_trajectories(
    encoder: Encoder, texts: Sequence[str], words: str | Sequence[str], prompt: str | None = None
) -> Trajectories:
    """The cosine of a word's vectors in each pair of texts, at every layer; several tokens are averaged.

    ``words`` is one for all texts or one for each; ``bank:2`` is the second bank of a text. ``prompt`` is put before
    each text; None uses the model's own.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> found = word_trajectories(encoder, ["We rob a bank.", "We sit on a bank."], "bank")
    >>> [pair.words for pair in found.pairs], found.layers
    ([('bank', 'bank')], (0, 1, 2, 3, 4, 5, 6))
    """
    found, layers = word_places(texts, words), _layers(encoder)
    read = zip(found, encoder.tokenize(list(texts), prompt), range(1, len(texts) + 1), strict=True)
    tokens = tuple(_tokens_of(*one, encoder.tokenizer.limit) for one in read)
    vectors: dict[int, States] = {}
    for batch in encoder.state_batches(list(texts), prompt=prompt):
        groups = [(row, tokens[which]) for row, which in enumerate(batch.indices)]
        followed = averaged_tokens(batch.hidden.cpu().double(), groups).numpy()
        vectors |= {which: followed[:, row] for row, which in enumerate(batch.indices)}
    pairs = _pairs(np.stack([vectors[which] for which in range(len(texts))], 1), [index.word for index in found])
    return Trajectories(encoder.name, layers, pairs, tuple(texts), found, tokens)


def sentence_trajectories(
    encoder: Encoder, texts: Sequence[str], prompt: str | None = None, progress: Progress | None = None
) -> Trajectories:
    """The cosine of each pair of texts at every layer, their vectors read as the encoder reads its last one.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> found = sentence_trajectories(encoder, ["A cat sat.", "A dog ran."])
    >>> round(found.pairs[0].cosine[-1], 4) == round(float(encoder.similarity("A cat sat.", "A dog ran.")[0, 0]), 4)
    True
    """
    require_sentences(texts)
    layers = _layers(encoder)
    variants: list[PoolingArguments] = [{"layer": layer} for layer in layers]
    read = encode_variants(encoder, list(texts), variants, prompt=prompt, progress=progress)
    report_truncation(read[0].truncated, len(texts), encoder.tokenizer.limit)
    pairs = _pairs(np.stack([one.vectors for one in read]).astype(np.float64))
    return Trajectories(encoder.name, layers, pairs, tuple(texts), pooling=encoder.pooling_config.pooling)


def _pairs(vectors: States, words: Sequence[str] = ()) -> tuple[PairTrajectory, ...]:
    """Vectors (L + 1, n, d) of n sentences -> all pairs of them."""
    unit = unit_rows(vectors)
    cosines = np.clip(np.einsum("lnd,lmd->nml", unit, unit), -1, 1)  # rounding may lead beyond 1
    return tuple(
        PairTrajectory(
            left, right, (words[left], words[right]) if words else None, tuple(cosines[left, right].tolist())
        )
        for left, right in combinations(range(vectors.shape[1]), 2)
    )


def _layers(encoder: Encoder) -> tuple[int, ...]:
    """0 to L, of a model that shows what they hold."""
    require_layers(encoder)
    return tuple(range(encoder.model_view.layers + 1))


def require_sentences(texts: Sequence[str]) -> None:
    """Refuse what cannot be compared: a single sentence, an empty one."""
    if len(texts) < 2:
        raise UsageError(f"give at least two sentences to compare, not {len(texts)}")
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            raise DataError(f"sentence {number} is empty; give it words or leave it out")


def word_places(texts: Sequence[str], words: str | Sequence[str]) -> tuple[WordPlace, ...]:
    """Where each text has its word; what is not there, or is there more than once, is refused.

    A text is searched for the word as it is written, then without regard to case, and then, where the word ends in a
    colon and a number, for that occurrence of what stands before the colon.

    >>> word_places(["The bank by the river bank.", "In New York"], ["bank:2", "new york"])[0]
    WordPlace(word='bank', first=6, last=6)
    """
    require_sentences(texts)
    asked = [words] if isinstance(words, str) else list(words)
    if len(asked) not in (1, len(texts)):
        raise UsageError(
            f"{len(asked)} words for {len(texts)} sentences; give --word once for all or once for each, in their order"
        )
    each = asked * len(texts) if len(asked) == 1 else asked
    return tuple(_word_place(*one) for one in zip(texts, each, range(1, len(texts) + 1), strict=True))


def _word_place(text: str, asked: str, number: int) -> WordPlace:
    """The one place at which the numbered sentence has the asked word."""
    if not spans_of_words(asked, punctuation=True):
        raise UsageError(f"the word for sentence {number} is empty; give one of its words")
    numbered, found = NUMBERED.fullmatch(asked), _found(text, asked)
    word, chosen = asked, 0
    if numbered and not found:
        # Only now: in a text that has "10:30" this is a time and no thirtieth "10".
        word, chosen = numbered[1], int(numbered[2])
        found = _found(text, word)
    if not found:
        raise DataError(f"sentence {number} has no {word!r}; choose from its words: {_listed(text)}")
    if chosen > len(found) or (not chosen and len(found) > 1):
        times = f"{len(found)} times, as words" if len(found) > 1 else "once, as word"
        indices = ", ".join(str(one.first) for one in found)
        choice = " or ".join(f"{word}:{index}" for index in sorted({1, 2, len(found)}) if index <= len(found))
        raise DataError(f"sentence {number} has {word!r} {times} {indices}; choose one: {choice}")
    return found[max(chosen, 1) - 1]


def _found(text: str, asked: str) -> list[WordPlace]:
    """Every run of whole words that is the asked one: in the same case, else in any."""
    forms: tuple[Callable[[str], str], ...] = (str, _without_case)
    spans = spans_of_words(text, punctuation=True)
    for form in forms:
        words, run = list(map(form, _words(text))), list(map(form, _words(asked)))
        starts = [start for start in range(len(words)) if words[start : start + len(run)] == run]
        if starts:
            runs = [spans[start : start + len(run)] for start in starts]
            return [
                WordPlace(text[characters[0][0] : characters[-1][1]], start + 1, start + len(run))
                for start, characters in zip(starts, runs, strict=True)
            ]
    return []


def _words(text: str) -> list[str]:
    return [text[slice(*span)] for span in spans_of_words(text, punctuation=True)]


def _without_case(word: str) -> str:
    """Composed too: an accent may be a letter of its own in the text and not in what was typed."""
    return unicodedata.normalize("NFC", word.casefold())


def _listed(text: str) -> str:
    words = _words(text)
    more = f" and {len(words) - LISTED} more" if len(words) > LISTED else ""
    return " ".join(f"{index} {word}" for index, word in enumerate(words[:LISTED], start=1)) + more


def _tokens_of(index: WordPlace, tokens: TokenizedText, number: int, limit: int) -> Places:
    """The places of the tokens of a word that the model sees whole."""
    spans = spans_of_words(str(tokens.text), punctuation=True)
    chosen = slice(index.first - 1, index.last)
    start, end = spans[chosen][0][0], spans[chosen][-1][1]
    if tokens.truncated and not _is_kept(tokens, start, end):
        raise DataError(
            f"{index.word!r} of sentence {number} lies beyond the model's limit of {limit} tokens; shorten the sentence"
        )
    found = tuple(token for group in tokens_of_spans(tokens, spans)[chosen] for token in group)
    if not found:
        raise DataError(
            f"the model has no token of its own for {index.word!r} of sentence {number}; add the word beside"
        )
    return found


def _is_kept(tokens: TokenizedText, start: int, end: int) -> bool:
    """Whether characters lie between the first and the last ones that have tokens."""
    described = zip(tokens.offsets, tokens.special, tokens.prompt, strict=True)
    inside = [offset for offset, special, prompt in described if not special and not prompt]
    return bool(inside) and inside[0][0] <= start and end <= inside[-1][1]
