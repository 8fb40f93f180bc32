"""Unrelated pairs: texts of a corpus that are drawn at random, without its duplicates, and scored as a search scores.

A random pair of a corpus counts as unrelated, whatever it scores: a rule that left out high scores would cut the very
tail that a percentile is about. Left out are only a text with itself, texts that are equal after normalisation (of
each such group one text stays), and passages of one document.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.encoder import Encoder
from likewise.encoder.similarity import Vectors, unit
from likewise.encoder.weights import identity
from likewise.errors import DataError, ModelError, UsageError
from likewise.metrics import DRAWS, Interval
from likewise.progress import Progress, tracked
from likewise.search.cached_vectors import cached_vectors
from likewise.search.documents import hash_of
from likewise.search.stores.store import StoredRows, corpus_state
from likewise.storage import content_key

if TYPE_CHECKING:
    from likewise.search.index import Index

LEAST_TEXTS = 20  # Fewer different texts have too few pairs
MOST_QUERIES = 2000  # Texts that are encoded once more where queries have a prompt of their own
Numbers = NDArray[np.int64]
Array = NDArray[np.float64]


def normalised(text: str) -> str:
    """The words of a text without case, punctuation and spacing: duplicates are equal in it.

    >>> normalised("  A cat\\n sat!") == normalised("a CAT, sat")
    True
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", folded)) or "".join(folded.split())


@dataclass(frozen=True, eq=False)
class CorpusSample:
    """Different texts of a corpus in random order: texts, ids of their documents, vectors (n, d)."""

    texts: list[str]
    documents: list[str]
    vectors: Vectors
    duplicates: int  # texts that were left out because another one is equal

    def __len__(self) -> int:
        return len(self.texts)

    @classmethod
    def of(cls, windows: Iterable[StoredRows], rng: np.random.Generator) -> CorpusSample:
        """All texts of some rows, without duplicates."""
        seen: dict[str, tuple[str, str, NDArray[np.float32]]] = {}
        total = 0
        for rows in windows:
            total += len(rows)
            for text, name, vector in zip(rows.texts, rows.ids, rows.vectors, strict=True):
                seen.setdefault(normalised(text), (text, name, np.array(vector)))
        if len(seen) < LEAST_TEXTS:
            flaw = f"a calibration needs at least {LEAST_TEXTS} different texts, got {len(seen)}"
            raise DataError(f"{flaw}; give a larger corpus")
        found = list(seen.values())
        order = rng.permutation(len(found))
        texts, documents, vectors = zip(*(found[row] for row in order), strict=True)
        return cls(list(texts), list(documents), np.stack(vectors), total - len(found))


@dataclass(frozen=True, eq=False)
class ScoredCorpus:
    """A corpus and how a search in it scores: the texts of an index, or plain texts by a model's own settings."""

    encoder: Encoder
    settings: Mapping[str, Any]  # what scores depend on besides the texts
    name: str
    state: str  # a fingerprint of the texts
    stored: Index | None = None
    texts: Sequence[str] = ()

    @classmethod
    def of_index(cls, index: Index) -> ScoredCorpus:
        """The texts of an index, whose vectors are there already."""
        return cls(index.encoder, index.store.settings, index.store.address, index.store.state, index)

    @classmethod
    def of_texts(cls, encoder: Encoder, texts: Iterable[Any]) -> ScoredCorpus:
        """Plain texts, or rows with a text, as an index with usual settings would score them."""
        plain = [text if isinstance(text, str) else text[1] if isinstance(text, tuple) else text.text for text in texts]
        prompts = {f"{role}_prompt": encoder.modules_config.prompt_for(role) for role in ("query", "document")}
        settings = identity(encoder) | {"similarity": "cosine"} | prompts
        state = corpus_state(np.array([hash_of(text) for text in plain], np.uint64))
        return cls(encoder, settings, "texts", state, None, plain)

    def __len__(self) -> int:
        return len(self.texts) if self.stored is None else len(self.stored.store)

    @property
    def one_prompt(self) -> bool:
        """Whether a query has the same vector as the same text in the corpus."""
        return bool(self.settings["query_prompt"] == self.settings["document_prompt"])

    def vectors(self, texts: Sequence[str], role: str, progress: Progress | None = None) -> Vectors:
        """The vectors (n, d) of texts as ``query`` or ``document``."""
        return self._compared(
            self.encoder.encode(list(texts), prompt=str(self.settings[f"{role}_prompt"]), progress=progress)
        )

    def cached_vectors(self, texts: Sequence[str], role: str, progress: Progress | None = None) -> Vectors:
        """The same by way of the user's cache, where an interrupted run continues; equal texts are encoded once."""
        row = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        items = [(str(number), text) for text, number in row.items()]
        prompt = str(self.settings[f"{role}_prompt"])
        found = cached_vectors(self.encoder, content_key(items), lambda: items, len(items), prompt, progress).vectors
        return self._compared(np.asarray(found)[[row[text] for text in texts]])

    def _compared(self, found: Vectors) -> Vectors:
        """Vectors as they are compared; those that are not numbers are refused."""
        if not np.isfinite(found).all():
            raise ModelError(f"{self.encoder.name} gave vectors that are not numbers; load it with dtype float32")
        return unit(found) if self.settings["similarity"] == "cosine" else found

    def sample(self, most: int, rng: np.random.Generator, progress: Progress | None = None) -> CorpusSample:
        """At most this many random rows, without duplicates."""
        chosen = np.sort(rng.choice(len(self), min(most, len(self)), replace=False))
        if self.stored is not None:
            return CorpusSample.of(_chosen(self.stored.store.windows(), chosen, progress), rng)
        texts = [self.texts[row] for row in chosen]
        vectors = self.vectors(texts, "document", progress) if texts else np.empty((0, 1), np.float32)
        return CorpusSample.of([StoredRows([str(row) for row in chosen], texts, vectors)], rng)


def _chosen(windows: Iterable[StoredRows], chosen: Numbers, progress: Progress | None) -> Iterator[StoredRows]:
    """Only the rows with these numbers (m,), which rise."""
    before = 0
    for rows in tracked(windows, progress, note="parts of the corpus read"):
        first, last = np.searchsorted(chosen, [before, before + len(rows)])
        own = (chosen[first:last] - before).tolist()
        before += len(rows)
        if own:
            ids, texts = [rows.ids[row] for row in own], [rows.texts[row] for row in own]
            yield StoredRows(ids, texts, rows.vectors[own])


@dataclass(frozen=True, eq=False)
class UnrelatedPairs:
    """Unrelated pairs: their scores (n,), and the numbers (n, 2) of their texts, queries after the corpus's texts."""

    scores: Array
    texts: Numbers
    different: int  # different texts of the corpus among which pairs were drawn
    duplicates: int


def unrelated_pairs(
    corpus: ScoredCorpus, sizes: tuple[int, int], seed: int = 0, queries: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> UnrelatedPairs:  # fmt: skip
    """Draw and score pairs; ``sizes`` are the most texts and the most pairs.

    The left text of a pair is a query: one of ``queries``, or a text of the corpus with the prompt of a query. A corpus
    with fewer pairs gives each pair once.
    """
    rng = np.random.default_rng(seed)
    sample = corpus.sample(sizes[0], rng, progress)
    left, vectors = list(range(len(sample))), sample.vectors
    keys = [normalised(text) for text in sample.texts]
    if queries is not None:
        asked = list({normalised(query): query for query in queries if query.strip()}.values())
        if len(asked) < LEAST_TEXTS:
            flaw = f"a calibration needs at least {LEAST_TEXTS} different queries, got {len(asked)}"
            raise UsageError(f"{flaw}; give more, or leave the queries out")
        asked = [asked[row] for row in rng.permutation(len(asked))[:MOST_QUERIES]]
        left, keys = [len(sample) + row for row in range(len(asked))], keys + [normalised(query) for query in asked]
        vectors = corpus.vectors(asked, "query", progress)
    elif not corpus.one_prompt:
        left = left[:MOST_QUERIES]
        vectors = corpus.vectors(sample.texts[:MOST_QUERIES], "query", progress)
    pairs = _drawn(left, sample, keys, (sizes[1], queries is None and corpus.one_prompt), rng)
    if not len(pairs):
        raise DataError("there are no unrelated pairs: all texts belong to one document; give a larger corpus")
    scores = np.einsum("nd,nd->n", vectors[pairs[:, 0] - left[0]], sample.vectors[pairs[:, 1]]).astype(np.float64)
    if not np.isfinite(scores).all():
        raise ModelError(f"{corpus.encoder.name} gave scores that are not numbers; load it with dtype float32")
    if np.ptp(scores) == 0:
        raise DataError(f"all unrelated pairs have the same score, {scores[0]:g}: they tell nothing; check the model")
    return UnrelatedPairs(scores, pairs, len(sample), sample.duplicates)


def _drawn(
    left: list[int], sample: CorpusSample, keys: list[str], how: tuple[int, bool], rng: np.random.Generator
) -> Numbers:
    """Pairs (n, 2) of a left number and a corpus number; ``how``: the most pairs, and whether sides can be swapped."""
    most, symmetric = how
    count = len(sample)
    possible = count * (count - 1) // 2 if symmetric else len(left) * count
    if possible <= most:
        every: Numbers = np.indices((len(left), count)).reshape(2, -1).T + np.array([left[0], 0])
        return _related_left_out(every[every[:, 0] < every[:, 1]] if symmetric else every, sample.documents, keys)
    drawn = np.column_stack([rng.integers(left[0], left[0] + len(left), 2 * most), rng.integers(0, count, 2 * most)])
    return _related_left_out(drawn, sample.documents, keys)[:most]


def _related_left_out(pairs: Numbers, documents: list[str], keys: list[str]) -> Numbers:
    """Without pairs of equal texts and of one document; queries have no document."""
    texts, own = _numbered(keys), _numbered(documents)
    own = np.concatenate([own, np.arange(len(keys) - len(own)) + len(keys)])
    left, right = pairs.T
    found: Numbers = pairs[(texts[left] != texts[right]) & (own[left] != own[right])]
    return found


def _numbered(names: list[str]) -> Numbers:
    known: dict[str, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)


def percentile_ranks(unrelated: Array, scores: ArrayLike) -> Array:
    """The share of sorted unrelated scores (m,) below each score (n,); equal scores count half.

    >>> percentile_ranks(np.array([0.1, 0.2, 0.2, 0.4]), [0.2, 0.3])
    array([0.5 , 0.75])
    """
    given = np.asarray(scores, dtype=np.float64)
    below, above = (np.searchsorted(unrelated, given, side=side) for side in ("left", "right"))
    return np.asarray((below + above) / (2 * len(unrelated)))


def quantile_intervals(
    scores: Array, texts: Numbers, levels: Sequence[float], draws: int = DRAWS, seed: int = 0
) -> list[Interval]:
    """Quantiles of the scores of pairs (n,) with 95 % intervals; ``texts`` (n, 2) numbers the texts of each pair.

    Texts are drawn again, not pairs, because the pairs of one text are not independent: a pair counts as often as the
    product of how often its two texts are drawn (the pigeonhole bootstrap of Owen 2007, which errs on the wide side).
    """
    order = np.argsort(scores, kind="stable")
    values, left, right = scores[order], texts[order, 0], texts[order, 1]
    rng, count = np.random.default_rng(seed), int(texts.max()) + 1
    drawn = []
    for _ in range(draws):
        times = np.bincount(rng.integers(0, count, count), minlength=count)
        total = np.cumsum(times[left] * times[right])
        if total[-1]:
            drawn.append(values[np.searchsorted(total, np.multiply(levels, total[-1]))])
    found = np.quantile(values, levels, method="inverted_cdf")
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    return [Interval(*map(float, ends)) for ends in zip(found, low, high, strict=True)]
