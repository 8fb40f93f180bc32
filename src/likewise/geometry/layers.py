"""Layers: the same sentences followed through several models, and ready examples of what to follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.geometry.trajectories import (
    TrajectoryTable,
    require_sentences,
    sentence_trajectories,
    word_places,
    word_trajectories,
)
from likewise.progress import Progress, Ticker


@dataclass(frozen=True)
class Example:
    """Sentences, the word that is followed in each (none: their pooled vectors), and what there is to see."""

    look_for: str
    texts: tuple[str, ...]
    words: tuple[str, ...] = ()


BANKS = (
    "We will rob a bank next week!",
    "The children skipped stones by the bank of the river.",
    "I put money in the bank.",
)
EXAMPLES = {
    "bank": Example(
        "One word in two senses: near 1 at layer 0, then the contexts pull it apart.", BANKS[:2], ("bank",)
    ),
    "banks": Example("Two banks of money and one of a river: which pair stays together?", BANKS, ("bank",)),
    "weather": Example(
        "Synonyms and antonyms in one frame: does the model keep nice from bad as it brings lovely near?",
        tuple(f"What {word} weather we are having today." for word in ("nice", "bad", "lovely")),
        ("nice", "bad", "lovely"),
    ),
    "vehicles": Example(
        "Three vehicles in one place: the same context brings different words together.",
        tuple(f"My neighbour takes a {word} to work." for word in ("car", "bike", "plane")),
        ("car", "bike", "plane"),
    ),
    "idiom": Example(
        "1 an idiom, 2 its literal reading, 3 its paraphrase: whose side is the idiom on, and from which layer?",
        (
            "The manager had to bite the bullet.",
            "The manager had to chew the cartridge.",
            "The manager had to accept the hardship.",
        ),
    ),
    "certainty": Example(
        "1 certain, 2 possible, 3 not so: whether a thing happened, in sentences that share most words.",
        (
            "The crew definitely repaired the engine.",
            "The crew might have repaired the engine.",
            "The crew failed to repair the engine.",
        ),
    ),
}


def example(name: str) -> Example:
    """A ready example by its name.

    >>> example("bank").words
    ('bank',)
    """
    if name not in EXAMPLES:
        raise UsageError(f"unknown example {name!r}; choose from {', '.join(sorted(EXAMPLES))}")
    return EXAMPLES[name]


def compare_layers(
    texts: Sequence[str],
    words: Sequence[str],
    models: Sequence[str],
    load: Callable[[str], Encoder] = Encoder.load,
    prompt: str | None = None,
    progress: Progress | None = None,
) -> TrajectoryTable:
    """Follow a word of each text, or without words the texts themselves, through every model."""
    if words:
        word_places(texts, words)  # a wrong word is told before a model is loaded
    else:
        require_sentences(texts)
    ticker, results = Ticker(progress, len(dict.fromkeys(models)), "models"), []
    for model in dict.fromkeys(models):
        encoder = load(model)
        followed = (
            word_trajectories(encoder, texts, words, prompt) if words else sentence_trajectories(encoder, texts, prompt)
        )
        results.append(followed)
        ticker.add(1)
    ticker.close()
    return TrajectoryTable(tuple(results))
