"""Trajectories: the cosine of two words, or of two sentences, at each layer of one or several models."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from math import isfinite
from typing import Any

import numpy as np

from likewise.encoder import Encoder, takes_encoder
from likewise.encoder.encoder import encode_variants
from likewise.encoder.pooling import PoolingArguments
from likewise.encoder.tokens import TokenizedText, report_truncation
from likewise.errors import DataError, UsageError
from likewise.geometry.measures import unit_rows
from likewise.geometry.occurrences import (
    TokenIndices,
    averaged_tokens,
    require_layers,
    spans_of_words,
    tokens_of_spans,
    word_key,
)
from likewise.metrics import Array
from likewise.plotting.curves import Panel, curve_panels, curves
from likewise.plotting.terminal import BARS, shortened, sparkline
from likewise.progress import Progress, tracked
from likewise.results import Column, Comparable, Figure, Result, ResultSet, Table

AXES = ("layer", "cosine")
NUMBERED = re.compile(r"(.*\S)\s*:([1-9][0-9]{0,5})", re.DOTALL)  # `bank:2`, the second bank
MODEL_CHARACTERS, TITLE_CHARACTERS = 36, 26  # The most characters of a model's name and of a panel's words
LISTED = 40  # The most words of a sentence that an error lists
LAYERS_NOTE = "Layer 0 is the embedding output: word, position and type, normalised."
WORDS_NOTE = "The same word is close to 1 there: only its position differs between sentences."
CURVE_COLUMNS = (
    "model", "pair", "curve", Column("layer_0", "layer 0", ".3f"), Column("lowest", "", ".3f"),
    Column("lowest_layer", "at layer"), Column("last", "", ".3f"), "scale",
)  # fmt: skip


@dataclass(frozen=True)
class WordLocation:
    """The location of a word, or of a run of words, in its sentence."""

    word: str  # as the sentence writes it
    first: int  # the index of its first word among the sentence's words and punctuation marks, from 1 on
    last: int


@dataclass(frozen=True)
class PairTrajectory:
    """The cosine of two sentences, or of a word in each, at layers 0 to L."""

    left: int
    right: int
    words: tuple[str, str] | None  # the words that are followed, left and right; None: the sentences' vectors
    cosine: tuple[float, ...]

    @property
    def lowest(self) -> int:
        """The layer at which the two are farthest apart."""
        return int(np.argmin(self.cosine))


@dataclass(frozen=True, repr=False)
class Trajectories(Comparable):
    """The cosine of each pair of sentences, or of a word in each, at every layer; 0 is the embedding layer's output.

    >>> pair = PairTrajectory(0, 1, ("bank", "bank"), (1.0, 0.5))
    >>> Trajectories("mine", (0, 1), (pair,), ("a bank", "the bank")).to_dict()["pairs"][0]["cosine"]
    (1.0, 0.5)
    """

    model: str
    layers: tuple[int, ...]
    pairs: tuple[PairTrajectory, ...]
    texts: tuple[str, ...]
    locations: tuple[WordLocation, ...] = ()  # the word that is followed in each sentence; none for sentence vectors
    tokens: tuple[TokenIndices, ...] = ()  # the indices of each word's tokens in the model's input
    pooling: str | None = None  # the pooling of sentence vectors; None for words
    look_for: str = ""  # what an example shows

    @property
    def names(self) -> tuple[str, ...]:
        """A short, unique name of each sentence: its word, its number, or both."""
        words = [one.word for one in self.locations]
        if words and len(set(words)) == len(words):
            return tuple(words)
        prefixes = [f"{word} " for word in words] if len(set(words)) > 1 else [""] * len(self.texts)
        return tuple(f"{prefix}{number}" for number, prefix in enumerate(prefixes, start=1))

    @property
    def pair_names(self) -> list[str]:
        """A name of each pair."""
        names = self.names
        return [f"{names[pair.left]} / {names[pair.right]}" for pair in self.pairs]

    @property
    def followed(self) -> str:
        """The words, or the kind of sentence vectors."""
        words = dict.fromkeys(one.word for one in self.locations)
        return ", ".join(words) if words else f"sentence vectors, {self.pooling}"

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"Layers: {self.followed}"

    @property
    def notes(self) -> list[str]:
        """What an example shows, and the sentences."""
        sentences = [f"{name}: {text}" for name, text in zip(self.names, self.texts, strict=True)]
        return [*([self.look_for] if self.look_for else []), *sentences]

    @property
    def heading(self) -> str:
        """The model and what is followed in it, short enough for a panel."""
        model = self.model if len(self.model) <= MODEL_CHARACTERS else f"…{self.model[1 - MODEL_CHARACTERS :]}"
        return f"{model}: {shortened(self.followed, TITLE_CHARACTERS)}"

    @property
    def panel(self) -> Panel:
        """What ``curve_panels`` draws."""
        named = zip(self.pair_names, self.pairs, strict=True)
        return self.layers, {name: (pair.cosine, None, None) for name, pair in named}

    def to_dict(self) -> dict[str, Any]:
        """The model, its layers, and each pair's cosines."""
        words = {"places": [asdict(one) for one in self.locations], "tokens": list(map(list, self.tokens))}
        found = {"model": self.model, "layers": list(self.layers), "pairs": [asdict(pair) for pair in self.pairs]}
        return found | {"texts": list(self.texts)} | (words if self.locations else {"pooling": self.pooling})

    def tables(self) -> dict[str, Table]:
        """The cosines of each pair at each layer, and their course as bars on a common scale."""
        named = list(zip(self.pair_names, self.pairs, strict=True))
        layers = [Column(f"layer_{layer}", str(layer), ".3f") for layer in self.layers]
        note = f"{LAYERS_NOTE} {WORDS_NOTE}" if self.locations else LAYERS_NOTE
        rows = [(self.model, name, *pair.cosine) for name, pair in named]
        values = [value for pair in self.pairs for value in pair.cosine if isfinite(value)] or [0.0]
        low, high = min(values), max(values)
        scale = f"{BARS[0]} {low:.2f} to {BARS[-1]} {high:.2f}"
        curve_rows = []
        for name, pair in named:
            cosine, lowest = pair.cosine, pair.lowest
            bars = sparkline(cosine, low, high)
            curve_rows.append((self.model, name, bars, cosine[0], cosine[lowest], lowest, cosine[-1], scale))
        return {
            "cosines": Table.of(["model", "pair", *layers], rows, "Cosines by layer", note),
            "curves": Table.of(CURVE_COLUMNS, curve_rows, "Cosines as curves"),
        }

    @classmethod
    def figures_of(cls, results: Sequence[Trajectories]) -> dict[str, Figure]:
        """A panel per model on common axes, with the sentences below."""
        panels = [(one.heading, one.panel) for one in results]
        sentences = [f"{name}: {text}" for name, text in zip(results[0].names, results[0].texts, strict=True)]
        return {"layers": Figure(lambda: curve_panels(panels, AXES, sentences)[0], "Cosine by layer")}

    def plot(self, ax: Any = None) -> Any:
        """A curve for each pair."""
        layers, series = self.panel
        return curves(layers, series, AXES, self.heading, ax, whole=True)


@takes_encoder
def word_trajectories(
    encoder: Encoder, texts: Sequence[str], words: str | Sequence[str], prompt: str | None = None
) -> Trajectories:
    """The cosine of a word's vectors in each pair of texts, at every layer; several tokens are averaged.

    ``words`` is one word for all texts or one for each; ``bank:2`` is the second bank of a text. ``prompt`` is put
    before each text; None uses the model's own.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> found = word_trajectories(encoder, ["We rob a bank.", "We sit on a bank."], "bank")
    >>> [pair.words for pair in found.pairs], found.layers
    ([('bank', 'bank')], (0, 1, 2, 3, 4, 5, 6))
    """
    found, layers = word_locations(texts, words), _layers(encoder)
    read = zip(found, encoder.tokenize(list(texts), prompt), range(1, len(texts) + 1), strict=True)
    tokens = tuple(_tokens_of(*one, encoder.tokenizer.limit) for one in read)
    vectors: dict[int, Array] = {}
    for batch in encoder.state_batches(list(texts), prompt=prompt):
        groups = [(row, tokens[which]) for row, which in enumerate(batch.indices)]
        followed = averaged_tokens(batch.hidden.cpu().double(), groups).numpy()
        vectors |= {which: followed[:, row] for row, which in enumerate(batch.indices)}
    pairs = _pairs(np.stack([vectors[which] for which in range(len(texts))], 1), [one.word for one in found])
    return Trajectories(encoder.name, layers, pairs, tuple(texts), found, tokens)


@takes_encoder
def sentence_trajectories(
    encoder: Encoder, texts: Sequence[str], prompt: str | None = None, progress: Progress | None = None
) -> Trajectories:
    """The cosine of each pair of texts at every layer, pooled like the last layer.

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


def _pairs(vectors: Array, words: Sequence[str] = ()) -> tuple[PairTrajectory, ...]:
    """Vectors (L + 1, n, d) of n sentences -> all pairs of them."""
    unit = unit_rows(vectors)
    cosines = np.clip(np.einsum("lnd,lmd->nml", unit, unit), -1, 1)  # rounding may lead beyond 1
    found = []
    for left, right in combinations(range(vectors.shape[1]), 2):
        both = (words[left], words[right]) if words else None
        found.append(PairTrajectory(left, right, both, tuple(cosines[left, right].tolist())))
    return tuple(found)


def _layers(encoder: Encoder) -> tuple[int, ...]:
    """0 to L; rejects a model whose layers are not accessible."""
    require_layers(encoder)
    return tuple(range(encoder.model_view.layers + 1))


def require_sentences(texts: Sequence[str]) -> None:
    """Rejects a single sentence and an empty one."""
    if len(texts) < 2:
        raise UsageError(f"give at least two sentences to compare, not {len(texts)}")
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            raise DataError(f"sentence {number} is empty; give it words or leave it out")


def word_locations(texts: Sequence[str], words: str | Sequence[str]) -> tuple[WordLocation, ...]:
    """The location of its word in each text; rejects a word that is missing or occurs more than once.

    The search is for the word as written, then without regard to case, and then, for a word that ends in a colon and a
    number, for that occurrence of the part before the colon.
    """
    require_sentences(texts)
    given = [words] if isinstance(words, str) else list(words)
    if len(given) not in (1, len(texts)):
        raise UsageError(
            f"{len(given)} words for {len(texts)} sentences; give --word once for all or once for each, in their order"
        )
    each = given * len(texts) if len(given) == 1 else given
    return tuple(_word_location(*one) for one in zip(texts, each, range(1, len(texts) + 1), strict=True))


def _word_location(text: str, query: str, number: int) -> WordLocation:
    """The only location of a word in the numbered sentence."""
    if not spans_of_words(query, punctuation=True):
        raise UsageError(f"the word for sentence {number} is empty; give one of its words")
    numbered, found = NUMBERED.fullmatch(query), _found(text, query)
    word, chosen = query, 0
    if numbered and not found:
        # Only now: in a text with "10:30" this is a time, not the thirtieth "10".
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


def _found(text: str, query: str) -> list[WordLocation]:
    """Every run of whole words that equals the query: in the same case, else in any."""
    spans = spans_of_words(text, punctuation=True)
    forms: tuple[Callable[[str], str], ...] = (str, lambda word: word_key(word, folds_case=True))
    for form in forms:
        words, run = list(map(form, _words(text))), list(map(form, _words(query)))
        starts = [start for start in range(len(words)) if words[start : start + len(run)] == run]
        if starts:
            runs = [(start, start + len(run)) for start in starts]
            return [WordLocation(text[spans[first][0] : spans[end - 1][1]], first + 1, end) for first, end in runs]
    return []


def _words(text: str) -> list[str]:
    return [text[slice(*span)] for span in spans_of_words(text, punctuation=True)]


def _listed(text: str) -> str:
    words = _words(text)
    more = f" and {len(words) - LISTED} more" if len(words) > LISTED else ""
    return " ".join(f"{index} {word}" for index, word in enumerate(words[:LISTED], start=1)) + more


def _tokens_of(location: WordLocation, tokens: TokenizedText, number: int, limit: int) -> TokenIndices:
    """The token indices of a word that the model sees whole."""
    spans = spans_of_words(str(tokens.text), punctuation=True)
    chosen = slice(location.first - 1, location.last)
    start, end = spans[chosen][0][0], spans[chosen][-1][1]
    outside = zip(tokens.special, tokens.prompt, strict=True)
    seen = [offset for offset, out in zip(tokens.offsets, outside, strict=True) if not any(out)]
    if tokens.truncated and not (seen and seen[0][0] <= start and end <= seen[-1][1]):
        beyond = f"lies beyond the model's limit of {limit} tokens; shorten the sentence"
        raise DataError(f"{location.word!r} of sentence {number} {beyond}")
    found = tuple(token for group in tokens_of_spans(tokens, spans)[chosen] for token in group)
    if not found:
        raise DataError(
            f"the model has no token of its own for {location.word!r} of sentence {number}; add the word next to it"
        )
    return found


@dataclass(frozen=True)
class Example:
    """Sentences, the word that is followed in each (none: sentence vectors), and what there is to see."""

    look_for: str
    texts: tuple[str, ...]
    words: tuple[str, ...] = ()


BANKS = (
    "We will rob a bank next week!",
    "The children skipped stones by the bank of the river.",
    "I put money in the bank.",
)
WEATHER, VEHICLES = ("nice", "bad", "lovely"), ("car", "bike", "plane")
IDIOM = ("bite the bullet", "chew the cartridge", "accept the hardship")
CERTAINTY = ("definitely repaired", "might have repaired", "failed to repair")
EXAMPLES = {
    "bank": Example(
        "One word in two senses: near 1 at layer 0, then the contexts pull it apart.", BANKS[:2], ("bank",)
    ),
    "banks": Example("Two banks of money and one of a river: which pair stays together?", BANKS, ("bank",)),
    "weather": Example(
        "Synonyms and antonyms in one frame: does the model keep nice from bad as it brings lovely near?",
        tuple(f"What {word} weather we are having today." for word in WEATHER),
        WEATHER,
    ),
    "vehicles": Example(
        "Three vehicles in one place: the same context brings different words together.",
        tuple(f"My neighbour takes a {word} to work." for word in VEHICLES),
        VEHICLES,
    ),
    "idiom": Example(
        "1 an idiom, 2 its literal reading, 3 its paraphrase: whose side is the idiom on, and from which layer?",
        tuple(f"The manager had to {phrase}." for phrase in IDIOM),
    ),
    "certainty": Example(
        "1 certain, 2 possible, 3 not so: whether a thing happened, in sentences that share most words.",
        tuple(f"The crew {phrase} the engine." for phrase in CERTAINTY),
    ),
}


@dataclass(frozen=True, repr=False)
class ExampleList(Result):
    """All ready examples."""

    def to_dict(self) -> dict[str, Any]:
        """The examples by name."""
        return {"examples": {name: vars(one) for name, one in EXAMPLES.items()}}

    def tables(self) -> dict[str, Table]:
        """A row for each example."""
        rows = [
            (name, ", ".join(one.words) or "(sentences)", "\n".join([one.look_for, *one.texts]))
            for name, one in sorted(EXAMPLES.items())
        ]
        return {"examples": Table.of(["example", "words", "what to look for"], rows)}


def example(name: str) -> Example:
    """A ready example by its name."""
    if name not in EXAMPLES:
        raise UsageError(f"unknown example {name!r}; choose from {', '.join(sorted(EXAMPLES))}")
    return EXAMPLES[name]


def compare_layers(
    example: Example,
    models: Sequence[str],
    load: Callable[[str], Encoder] = Encoder.load,
    prompt: str | None = None,
    progress: Progress | None = None,
) -> ResultSet[Trajectories]:
    """Follow a word of each text, or without words the texts themselves, through every model."""
    texts, words = example.texts, example.words
    require_sentences(texts)
    if words:
        word_locations(texts, words)  # Rejects a wrong word before a model is loaded.
    results = []
    for model in tracked(dict.fromkeys(models), progress, len(dict.fromkeys(models)), "models"):
        given = (load(model), texts)
        found = word_trajectories(*given, words, prompt) if words else sentence_trajectories(*given, prompt)
        results.append(replace(found, look_for=example.look_for))
    return ResultSet(tuple(results))
