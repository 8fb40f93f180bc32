"""The baselines by name: what a model's ranking is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.search.bm25 import Bm25
from likewise.search.chance import Chance
from likewise.search.lexical import BagOfWords, TfIdf
from likewise.search.ranker import Ranker
from likewise.search.static_vectors import InputEmbeddings, StaticVectors


@dataclass(frozen=True)
class Ingredients:
    """What a baseline may need beside the texts.

    >>> Ingredients(seed=1).vectors is None
    True
    """

    encoder: Encoder | None = None
    """the model whose word embeddings ``input-embeddings`` averages"""
    vectors: Path | None = None
    """the file of word vectors that ``static`` reads"""
    seed: int = 0
    """what ``random`` draws from"""


Builder = Callable[[Sequence[str], Ingredients], Ranker]


def _static(texts: Sequence[str], given: Ingredients) -> Ranker:
    if given.vectors is None:
        raise UsageError(
            "the baseline static needs word vectors; give --vectors FILE, or take input-embeddings, which needs no file"
        )
    return StaticVectors(texts, given.vectors)


def _input_embeddings(texts: Sequence[str], given: Ingredients) -> Ranker:
    if given.encoder is None:
        raise UsageError("the baseline input-embeddings needs a model; give one with --model NAME")
    return InputEmbeddings(texts, given.encoder)


BASELINES: dict[str, Builder] = {
    "bow": lambda texts, _: BagOfWords(texts),
    "tfidf": lambda texts, _: TfIdf(texts),
    "bm25": lambda texts, _: Bm25(texts),
    "static": _static,
    "input-embeddings": _input_embeddings,
    "random": lambda texts, given: Chance(texts, given.seed),
}


RANKERS = ("dense", *BASELINES, "hybrid")
"""All ways to rank: a model's vectors, the baselines, and BM25 with a model."""


def check_ranker(name: str) -> None:
    """Refuse an unknown ranker before any work."""
    if name not in RANKERS:
        raise UsageError(f"unknown ranker {name!r}; choose from {', '.join(RANKERS)}")


def baseline(
    name: str,
    texts: Sequence[str],
    *,
    encoder: Encoder | None = None,
    vectors: Path | None = None,
    seed: int = 0,
) -> Ranker:
    """The baseline of a name over a corpus's texts.

    >>> baseline("bm25", ["A cat sat.", "A dog ran."]).name
    'bm25'
    """
    builder = BASELINES.get(name)
    if builder is None:
        raise UsageError(f"unknown baseline {name!r}; choose from {', '.join(BASELINES)}")
    return builder(texts, Ingredients(encoder, vectors, seed))
