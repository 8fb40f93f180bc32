"""Words and sentences through the layers: the ready-made examples, and further sentences that make intervals possible.

An example has two or three sentences, from which nothing follows. The claim of each is tested on more sentences of the
same form, in our own wording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from likewise.encoder import Encoder
from likewise.errors import DataError
from likewise.geometry.trajectories import (
    BANKS,
    EXAMPLES,
    IDIOM,
    VEHICLES,
    WEATHER,
    Trajectories,
    compare_layers,
    sentence_trajectories,
    word_trajectories,
)
from likewise.metrics import Array, bootstrap_means
from likewise.reproduce.controls import same_effect, untrained
from likewise.reproduce.published import side_by_side
from likewise.reproduce.study import Context, Finding
from likewise.reproduce.verdicts import Control, Verdict, above
from likewise.results import Figure, Table

MONEY = (
    BANKS[0],
    BANKS[2],
    "The bank refused to lend her any money.",
    "He opened an account at the bank.",
    "The bank closed its branch in our town.",
    "She works as a cashier at a bank.",
    "The bank raised the interest on his loan.",
    "Thieves broke into the bank at night.",
)
RIVER = (
    BANKS[1],
    "We had a picnic on the bank of the stream.",
    "The boat hit the muddy bank.",
    "Willows grow along the bank of the canal.",
    "The river rose over its bank after the rain.",
    "An otter slept on the grassy bank.",
    "He cast his line from the bank and caught a trout.",
    "The path follows the bank down to the lake.",
)
ADJECTIVE_FRAMES = (
    "What {} weather we are having today.",
    "It was a {} day at the beach.",
    "She had a {} time with her cousins.",
    "They served us a {} meal last night.",
    "He gave me a {} answer.",
    "We found a {} hotel near the station.",
    "That is a {} picture of the garden.",
    "My aunt lives in a {} house.",
)
VEHICLE_FRAMES = (
    "My neighbour takes a {} to work.",
    "She painted a red {} for the museum.",
    "The boy dreamed of a {} of his own.",
    "They repaired the {} before the trip.",
    "We saw a {} in the distance.",
    "He sold his {} to a friend.",
    "The {} was too expensive for them.",
    "There is a {} on the stamp.",
)
IDIOMS = (  # the idiom, its literal reading, its meaning
    IDIOM,
    ("spill the beans", "drop the lentils", "reveal the secret"),
    ("hit the sack", "punch the bag", "go to bed"),
    ("break the ice", "crack the snow", "start the conversation"),
    ("call it a day", "name it a week", "stop the work"),
    ("pull some strings", "tug some ropes", "use some influence"),
    ("face the music", "watch the orchestra", "accept the punishment"),
    ("cut some corners", "trim some edges", "save some effort"),
)
EVENTS = (  # who, participle, infinitive, what
    ("crew", "repaired", "repair", "engine"),
    ("team", "won", "win", "match"),
    ("nurse", "found", "find", "key"),
    ("student", "solved", "solve", "puzzle"),
    ("officer", "caught", "catch", "thief"),
    ("company", "sold", "sell", "factory"),
    ("farmer", "saved", "save", "harvest"),
    ("pilot", "landed", "land", "plane"),
)
SYNONYMS, ANTONYMS = ((0, 2),), ((0, 1), (1, 2))  # pairs of WEATHER
EVERY_PAIR = ((0, 1), (0, 2), (1, 2))
ENGLISH_ONLY = "the built-in sentences are English; run it with an English model"
SENTENCES_NOTE = (
    "The published sentences are not known, except for those with a bank. The verdicts rest on eight frames or sixteen"
    " sentences each, in our own wording and written before the first run. Their intervals are over these."
)
Pairs = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class SentenceSet:
    """Sentences of one form, and the word that is followed in each; without words, sentence vectors are compared."""

    name: str
    texts: tuple[str, ...]
    words: tuple[str, ...] = ()

    def cosines(self, encoder: Encoder) -> Array:
        """The cosine of every sentence, or its word, with every other one: (layers, n, n)."""
        return matrix(
            word_trajectories(encoder, self.texts, self.words)
            if self.words
            else sentence_trajectories(encoder, self.texts)
        )


def _frames(name: str, frames: Sequence[str], words: Sequence[str]) -> SentenceSet:
    """Each word in each frame; the words of a frame stand together."""
    texts = tuple(frame.format(word) for frame in frames for word in words)
    return SentenceSet(name, texts, tuple(words) * len(frames))


BANK_SET = SentenceSet("bank", (*MONEY, *RIVER), ("bank",))
ADJECTIVE_SET = _frames("adjectives", ADJECTIVE_FRAMES, WEATHER)
VEHICLE_SET = _frames("vehicles", VEHICLE_FRAMES, VEHICLES)
IDIOM_SET = SentenceSet("idioms", tuple(f"The manager had to {one}." for three in IDIOMS for one in three))
CERTAINTY_SET = SentenceSet(
    "certainty",
    tuple(
        f"The {who} {phrase} the {what}."
        for who, done, do, what in EVENTS
        for phrase in (f"definitely {done}", f"might have {done}", f"failed to {do}")
    ),
)


def matrix(found: Trajectories) -> Array:
    """The cosine of every sentence with every other one, at each layer: (layers, n, n)."""
    n = len(found.texts)
    cosines = np.ones((len(found.layers), n, n))
    for pair in found.pairs:
        cosines[:, pair.left, pair.right] = cosines[:, pair.right, pair.left] = pair.cosine
    return cosines


def by_sense(cosines: Array) -> tuple[Array, Array]:
    """Cosines (layers, n, n) -> each sentence's mean cosine with its own sense and with the other: two (layers, n)."""
    half = cosines.shape[-1] // 2
    blocks = cosines.reshape(len(cosines), 2 * half, 2, half).sum(-1)
    own, other = blocks[:, np.arange(2 * half), [0] * half + [1] * half], blocks[:, :, ::-1]
    return (own - 1) / (half - 1), other[:, np.arange(2 * half), [0] * half + [1] * half] / half


def in_frames(cosines: Array, pairs: Pairs) -> Array:
    """Cosines (layers, 3 f, 3 f) of f frames -> the mean over some pairs of words in the same frame: (layers, f)."""
    split = _split(cosines)
    each = np.arange(split.shape[1])
    return np.asarray(np.mean([split[:, each, left, each, right] for left, right in pairs], axis=0))


def across_frames(cosines: Array, pairs: Pairs) -> Array:
    """The same for one word in a frame and the other word in all other frames: (layers, f)."""
    split = _split(cosines)
    sums: Array = np.mean([split[:, :, left, :, right].sum(-1) for left, right in pairs], axis=0)
    return np.asarray((sums - in_frames(cosines, pairs)) / (split.shape[1] - 1))


def _split(cosines: Array) -> Array:
    layers, frames = len(cosines), cosines.shape[-1] // 3
    return cosines.reshape(layers, frames, 3, frames, 3)


def sense_gap(cosines: Array) -> Array:
    """How much nearer each sentence is to its own sense at the last layer: (n,)."""
    own, other = by_sense(cosines)
    return np.asarray(own[-1] - other[-1])


def rebound(cosines: Array, same: bool = False) -> Array:
    """The rise from the middle to the last layer, of each sentence with the other sense or with the same one: (n,)."""
    found = by_sense(cosines)[0 if same else 1]
    return np.asarray(found[-1] - found[(len(found) - 1) // 2])


def context_rise(cosines: Array, pairs: Pairs, layer: int) -> Array:
    """The rise from layer 0 in a shared frame, minus that of the same words in other frames: (f,)."""
    one, other = in_frames(cosines, pairs), across_frames(cosines, pairs)
    return np.asarray((one[layer] - one[0]) - (other[layer] - other[0]))


def pair_gap(cosines: Array, nearer: Pairs, farther: Pairs) -> Array:
    """How much nearer some pairs are than others at the last layer, frame by frame: (f,)."""
    return np.asarray(in_frames(cosines, nearer)[-1] - in_frames(cosines, farther)[-1])


@dataclass(frozen=True)
class TestedClaim:
    """A claim, the sentences that test it, and its effect in their cosines."""

    claim: str
    effect: str
    sentences: SentenceSet
    values: Callable[[Array], Array]  # cosines (layers, n, n) -> a value of each sentence or frame (m,)
    control: tuple[str, Callable[[Array], Array]] | None = None  # None: the same with random weights

    def verdict(self, encoder: Encoder) -> Verdict:
        """The mean effect over the sentences or frames, against its control."""
        cosines = self.sentences.cosines(encoder)
        if self.control is None:
            name, control = "random weights", self.values(self.sentences.cosines(untrained(encoder)))
        else:
            name, control = self.control[0], self.control[1](cosines)
        measured, without = (bootstrap_means(values[None])[0] for values in (self.values(cosines), control))
        return above(self.claim, self.effect, measured, control=Control(name, without, same_effect(measured, without)))


WORD_TESTS = (
    TestedClaim(
        "Contexts pull the two senses of a word apart.",
        "cosine of bank with its own sense minus that with the other sense, last layer",
        BANK_SET, sense_gap,
    ),
    TestedClaim(
        "After the middle layers the two senses partly come together again.",
        "cosine of the two senses at the last layer minus that at the middle layer",
        BANK_SET, rebound, ("the same sense", partial(rebound, same=True)),
    ),
    TestedClaim(
        "A shared context brings antonyms together.",
        "rise from layer 0 to the last layer in one frame minus that across frames, nice or lovely / bad",
        ADJECTIVE_SET, partial(context_rise, pairs=ANTONYMS, layer=-1),
    ),
    TestedClaim(
        "Synonyms end nearer to each other than antonyms.",
        "cosine of nice / lovely minus that of the antonyms, last layer",
        ADJECTIVE_SET, partial(pair_gap, nearer=SYNONYMS, farther=ANTONYMS),
    ),
    TestedClaim(
        "A shared context brings different vehicles together.",
        "rise from layer 0 to the last layer but one in one frame minus that across frames",
        VEHICLE_SET, partial(context_rise, pairs=EVERY_PAIR, layer=-2),
    ),
)  # fmt: skip
SENTENCE_TESTS = (
    TestedClaim(
        "An idiom is nearer to its meaning than to its literal reading.",
        "cosine of idiom / paraphrase minus that of idiom / literal reading, last layer",
        IDIOM_SET, partial(pair_gap, nearer=[(0, 2)], farther=[(0, 1)]),
    ),
    TestedClaim(
        "Certain is nearer to possible than possible is to failed.",
        "cosine of definitely / might minus that of might / failed, last layer",
        CERTAINTY_SET, partial(pair_gap, nearer=[(0, 1)], farther=[(1, 2)]),
    ),
    TestedClaim(
        "Possible is nearer to failed than certain is.",
        "cosine of might / failed minus that of definitely / failed, last layer",
        CERTAINTY_SET, partial(pair_gap, nearer=[(1, 2)], farther=[(0, 2)]),
    ),
)  # fmt: skip


def word_trajectory_finding(context: Context) -> Finding:
    """The examples that follow words, and tests of their claims."""
    found = _examples(context, "bank", "banks", "weather", "vehicles")
    synonyms, antonyms = (_pair_cosines(found["weather"], pairs) for pairs in (SYNONYMS, ANTONYMS))
    vehicles = _pair_cosines(found["vehicles"], EVERY_PAIR)
    measured: dict[tuple[str, str], object] = {}
    for column, layer in (("layer 0", 0), ("last layer", -1)):
        measured["nice / lovely", column] = float(synonyms[0, layer])
        measured["antonyms, lowest", column] = float(antonyms[:, layer].min())
        measured["antonyms, highest", column] = float(antonyms[:, layer].max())
        measured["antonyms, mean", column] = float(antonyms[:, layer].mean())
    for column, layer in (("layer 0", 0), ("last layer but one", -2)):
        measured["vehicles, lowest", column] = float(vehicles[:, layer].min())
        measured["vehicles, highest", column] = float(vehicles[:, layer].max())
    return _finding(context, "word-trajectories", found, measured, WORD_TESTS)


def sentence_trajectory_finding(context: Context) -> Finding:
    """The examples that follow sentences, and tests of their claims."""
    found = _examples(context, "idiom", "certainty")
    names = dict(zip(("definitely / might", "definitely / failed", "might / failed"), EVERY_PAIR, strict=True))
    measured: dict[tuple[str, str], object] = {
        (name, "last layer"): float(_pair_cosines(found["certainty"], [pair])[0, -1]) for name, pair in names.items()
    }
    return _finding(context, "sentence-trajectories", found, measured, SENTENCE_TESTS)


def _examples(context: Context, *names: str) -> dict[str, Trajectories]:
    if context.language != "en":
        raise DataError(ENGLISH_ONLY)
    mean = replace(context.encoder.with_pooling(pooling="mean"), name=context.short)
    return {name: compare_layers(EXAMPLES[name], [context.short], lambda _: mean).results[0] for name in names}


def _pair_cosines(found: Trajectories, pairs: Pairs) -> Array:
    """The cosines of some pairs at each layer: (pairs, layers)."""
    cosines = matrix(found)
    return np.array([cosines[:, left, right] for left, right in pairs])


def _finding(
    context: Context, item: str, found: Mapping[str, Trajectories], measured: Mapping[tuple[str, str], object],
    tests: Sequence[TestedClaim],
) -> Finding:  # fmt: skip
    title = "Ends of the examples' curves"
    tables = {"ends": side_by_side(context.published.of(item).values(), measured, context.short, title)}
    figures: dict[str, Figure] = {}
    for name, one in found.items():
        tables[name] = one.tables()["cosines"]
        figures[name] = Figure(one.figures_of([one])["layers"].draw, f"{name}: {EXAMPLES[name].look_for}")
    sets = dict.fromkeys(test.sentences for test in tests)
    rows = [(one.name, text) for one in sets for text in one.texts]
    tables["sentences"] = Table.of(["test", "sentence"], rows, "Sentences of the tests")
    encoder = context.encoder.with_pooling(pooling="mean")
    return Finding(tables, figures, tuple(test.verdict(encoder) for test in tests), (SENTENCES_NOTE,))
