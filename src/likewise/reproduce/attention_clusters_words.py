"""What the study of attention clusters leaves to future work: more dimensions, and homonyms and synonyms by cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from likewise.attention.clustering import NOISE
from likewise.attention.maps import write_maps
from likewise.attention.pipeline import trained_stages
from likewise.attention.significance import eta_squared, length_strata, residual_ranks
from likewise.data import Dataset
from likewise.errors import UsageError
from likewise.reproduce.attention_clusters_maps import (
    LEAST,
    RANDOM,
    about,
    beyond,
    contrast,
    folder_of,
    labels_of,
    maps_study,
    once_learned,
    saved_share,
)
from likewise.reproduce.attention_clusters_training import tuned_encoder
from likewise.reproduce.study import Context, Finding
from likewise.reproduce.verdicts import Control, above
from likewise.results import Column, Table
from likewise.storage import content_key

Kinds = NDArray[np.float64]
SYNONYMS = (
    ("They bought a {} house near the lake.", "big", "large", "new"),
    ("She gave a {} answer.", "quick", "fast", "strange"),
    ("The {} waited outside the door.", "boy", "lad", "dog"),
    ("The show will {} at noon.", "begin", "start", "continue"),
    ("The {} talked to the old man.", "doctor", "physician", "teacher"),
    ("We took the {} road home.", "wrong", "incorrect", "narrow"),
    ("The soup was very {}.", "tasty", "delicious", "cold"),
    ("He is a {} man.", "rich", "wealthy", "tall"),
    ("The {} was full of people.", "street", "road", "church"),
    ("My {} lives in the city.", "mother", "mum", "neighbour"),
    ("The film was {}.", "funny", "amusing", "long"),
    ("They wanted to {} the engine.", "fix", "repair", "sell"),
    ("She felt {} after the news.", "sad", "unhappy", "calm"),
    ("He was {} when he heard it.", "angry", "furious", "asleep"),
    ("The {} flew over the field.", "plane", "aircraft", "bird"),
    ("I want to {} a new coat.", "buy", "purchase", "wear"),
    ("The room was {}.", "silent", "quiet", "dark"),
    ("It was a {} idea.", "smart", "clever", "new"),
    ("The {} of the song is simple.", "tune", "melody", "title"),
    ("The task was {}.", "hard", "difficult", "short"),
    ("They walked through the {}.", "forest", "woods", "market"),
    ("The {} slept on the sofa.", "kid", "child", "cat"),
    ("He looked at the {} picture.", "pretty", "beautiful", "small"),
    ("The thief tried to {}.", "escape", "flee", "sing"),
)
"""A sentence, a word, a synonym of it and another word that fits."""


# More dimensions


def dimension_item(context: Context) -> Finding:
    """Points of more than two numbers: what they keep of the maps, and what their clusters show."""
    sizes = {"tiny": (2, 3), "quick": (2, 8), "standard": (2, 3, 8), "full": (2, 3, 8, 16)}[context.budget]
    studies = {size: maps_study(context, size) for size in sizes}
    many = studies[sizes[-1]]
    gain, random = saved_share(context, sizes[-1], 2), [_random_share(context, size) for size in (2, sizes[-1])]
    kept = above(
        f"{sizes[-1]} numbers describe a map better than 2.",
        f"share of the squared error of 1/n everywhere that {sizes[-1]} numbers save beyond 2",
        gain,
        control=Control(f"{RANDOM} ({random[1] - random[0]:.3f})", None, random[1] - random[0] >= gain.low),
    )
    every = range(1, many.depth + 1)
    effects = {
        size: contrast(one, "similarity", labels_of(one, every), given_length=True) for size, one in studies.items()
    }
    shown = above(
        f"Clusters of {sizes[-1]} numbers show similarity beyond length.",
        "eta² of similarity given length, mean over all layers",
        effects[sizes[-1]],
        control=Control("2 numbers", effects[2], effects[2].low > 0),
    )
    rows = [
        (size, one.loss, one.trivial_loss, ", ".join(str(group.clusters.chosen.k) for group in one.main.groups),
         np.mean([group.tests["length"].eta2 for group in one.main.groups]), effects[size])
        for size, one in studies.items()
    ]  # fmt: skip
    columns = (
        "numbers", Column("loss", format=".4f"), Column("1/n everywhere", format=".4f"), "K by layer",
        Column("eta² of length", format=".3f"), Column("eta² of similarity given length", format=".3f"),
    )  # fmt: skip
    verdicts = (once_learned(kept, many), shown)
    return Finding({"dimensions": Table.of(columns, rows, "Dimensions")}, {}, verdicts, (about(context),))


def _random_share(context: Context, latent: int) -> float:
    """The share of the error of 1/n everywhere that the autoencoder of random attention saves."""
    found = maps_study(context, latent).random_losses
    return float("nan") if found is None else 1 - found[0] / found[1]


# Homonyms and synonyms


@dataclass(frozen=True, eq=False)
class WordPairs:
    """Pairs of sentences of two kinds, and how kinds are drawn if nothing but chance connects them with clusters."""

    pairs: tuple[tuple[str, str], ...]
    kinds: Kinds  # (m,): 1 for the kind in question, 0 for the other
    shuffled: Callable[[np.random.Generator], Kinds]
    names: tuple[str, str]  # of kinds 0 and 1


def homonym_pairs(words: int) -> WordPairs:
    """Any two sentences with one word in the same sense or in two senses; senses are shuffled within a word."""
    rows = Dataset("sample/words").texts()
    known = list(dict.fromkeys(str(row.meta["word"]) for row in rows))[:words]
    some = [row for row in rows if row.meta["word"] in known]
    word, sense = ([str(row.meta[name]) for row in some] for name in ("word", "sense"))
    places = [two for two in combinations(range(len(some)), 2) if word[two[0]] == word[two[1]]]

    def kinds(order: NDArray[np.int64]) -> Kinds:
        return np.array([float(sense[order[first]] != sense[order[second]]) for first, second in places])

    def shuffled(rng: np.random.Generator) -> Kinds:
        order = np.arange(len(some))
        for one in known:
            own = np.array([index for index, name in enumerate(word) if name == one])
            order[own] = rng.permutation(own)
        return kinds(order)

    pairs = tuple((some[first].text, some[second].text) for first, second in places)
    return WordPairs(pairs, kinds(np.arange(len(some))), shuffled, ("the same sense", "two senses"))


def synonym_pairs() -> WordPairs:
    """A sentence with a word and with its synonym, or with another word; the two are swapped within a sentence."""
    pairs = tuple(
        (text.format(word), text.format(second)) for text, word, same, other in SYNONYMS for second in (other, same)
    )
    kinds = np.tile([0.0, 1.0], len(SYNONYMS))

    def shuffled(rng: np.random.Generator) -> Kinds:
        swapped = np.repeat(rng.integers(0, 2, len(SYNONYMS)), 2)
        return np.where(swapped, 1 - kinds, kinds)

    return WordPairs(pairs, kinds, shuffled, ("another word", "a synonym"))


def homonym_item(context: Context) -> Finding:
    """Whether a word in two senses changes the cluster of a pair."""
    _require_english(context)
    found = homonym_pairs(context.size(tiny=2, quick=6) or 6)
    return _placed_item(context, found, "Pairs with a word in two senses fall into other clusters than in one sense.")


def synonym_item(context: Context) -> Finding:
    """Whether a synonym changes the cluster of a pair less than another word does."""
    _require_english(context)
    return _placed_item(
        context, synonym_pairs(), "Pairs with a synonym fall into other clusters than with another word."
    )


def _require_english(context: Context) -> None:
    if context.language != "en":
        raise UsageError("the homonyms and synonyms are English; leave --language out, or choose other items")


def _placed_item(context: Context, words: WordPairs, claim: str) -> Finding:
    labels, lengths = placed(context, words.pairs)
    alone = [length_strata(lengths, len(np.unique(one)), LEAST) for one in labels]
    draws = context.size(tiny=100, quick=500, standard=2000) or 2000
    effect, control = (beyond(*_shuffles(words, lengths, some, draws)) for some in (labels, alone))
    verdict = above(
        claim,
        "eta² of the kind of pair given length, mean over the layers, above that of shuffled kinds",
        effect,
        control=Control("as many groups by length alone", control, control.low > 0),
    )
    left = residual_ranks(words.kinds, lengths)
    rows = [
        (layer, len(np.unique(one)), eta_squared(words.kinds, one), eta_squared(left, one))
        for layer, one in enumerate(labels, start=1)
    ]
    columns = ("layer", "clusters", Column("eta²", format=".3f"), Column("eta² given length", format=".3f"))
    counts = [int((words.kinds == kind).sum()) for kind in (0, 1)]
    title = f"{counts[1]} pairs with {words.names[1]}, {counts[0]} with {words.names[0]}"
    note = "New: the study names it as future work. A pair of built-in sentences joins the cluster of the nearest pair."
    return Finding({"layers": Table.of(columns, rows, title)}, {}, (verdict,), (about(context), note))


def placed(context: Context, pairs: tuple[tuple[str, str], ...]) -> tuple[list[NDArray[np.int64]], NDArray[np.float64]]:
    """The cluster of each pair in each layer, (m,) each, by the nearest pair of the study; and the lengths (m,)."""
    from scipy.spatial import KDTree

    study, encoder = maps_study(context), tuned_encoder(context)
    _, autoencoder = trained_stages(encoder, study, folder_of(context))
    folder = context.work / "words" / content_key(encoder.hash, pairs)[:16]
    maps = write_maps(encoder, pairs, folder, progress=context.progress)
    points, _ = autoencoder.points(maps, context.progress)
    found = []
    for index, group in enumerate(study.main.groups):
        labels = group.clusters.chosen.labels
        kept = labels != NOISE
        nearest = KDTree(study.main.points[kept, index]).query(points[:, index])[1]
        found.append(labels[kept][nearest])
    return found, maps.lengths.astype(np.float64)


def _shuffles(
    words: WordPairs, lengths: NDArray[np.float64], labels: list[NDArray[np.int64]], draws: int
) -> tuple[float, NDArray[np.float64]]:
    """The mean effect over the layers, and that of shuffled kinds (draws,)."""
    several = [one for one in labels if len(np.unique(one)) > 1]

    def effect(kinds: Kinds) -> float:
        left = residual_ranks(kinds, lengths)
        return float(np.mean([eta_squared(left, one) for one in several])) if several else float("nan")

    rng = np.random.default_rng(0)
    return effect(words.kinds), np.array([effect(words.shuffled(rng)) for _ in range(draws)])
