"""Running sums and samples: all that the measures need of a corpus, without its n^2 pairs of words.

A mean cosine over pairs follows from sums of unit vectors u: over all pairs of n vectors it is
(|sum u|^2 - sum |u|^2) / (n^2 - n). A Poisson bootstrap resamples the sentences: in each draw a sentence has a Poisson
weight of mean 1, so that each draw is a running sum too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.geometry.corpus import SamplingPlan
from likewise.geometry.measures import dimension_contributions, ratios
from likewise.geometry.occurrences import Occurrences
from likewise.metrics import Array

BLOCKS = 10
"""Blocks of sentences for second moments; the jackknife of spectra leaves each block out once."""
SPLIT_BATCHES = 2 * BLOCKS
"""The first batches are split over all blocks; each later one goes to one block, which is faster."""
FLUSHED_BATCHES = 64
"""Batches that are summed in their own type before the sums move into float64."""


class PoissonWeights:
    """The weight of each sentence in each draw; 0 for sentences without words."""

    def __init__(self, draws: int, seed: int) -> None:
        self.draws, self._rng = draws, np.random.default_rng(seed)

    def next(self, sizes: Tensor) -> Tensor:
        """Weights for the next sentences, whose sizes in words are (S,): (draws, S)."""
        drawn = self._rng.poisson(1.0, (self.draws, len(sizes)))
        return torch.from_numpy(drawn).to(sizes.dtype) * (sizes > 0)


@dataclass(frozen=True, eq=False)
class SentenceBatch:
    """The sentences of a batch of occurrences: their sizes in words (S,), and their weights in each draw (B, S)."""

    sizes: Tensor
    weights: Tensor

    @classmethod
    def of(cls, batch: Occurrences, poisson: PoissonWeights) -> SentenceBatch:
        """Count the words of each sentence and draw its weights."""
        sizes = torch.bincount(batch.sentences, minlength=batch.texts).to(batch.vectors.dtype)
        return cls(sizes, poisson.next(sizes))


class Counts:
    """Numbers of sentences, words and pairs of words of different sentences, in the corpus and each draw: (1 + B,)."""

    def __init__(self, draws: int, words: int) -> None:
        self.occurrences = 0
        self.contexts = np.zeros(words, np.int64)
        self.sentences, self._words, self._squares = (np.zeros(draws + 1) for _ in range(3))

    def add(self, batch: Occurrences, sentences: SentenceBatch) -> None:
        """Count one more batch."""
        self.occurrences += len(batch.sentences)
        self.contexts += np.bincount(batch.words.numpy(), minlength=len(self.contexts))
        sizes, weights = sentences.sizes.double(), sentences.weights.double()
        # The corpus itself is one more draw, in which each sentence with words counts once.
        weights = torch.cat([(sizes > 0).double()[None], weights])
        self.sentences += weights.sum(1).numpy()
        self._words += (weights @ sizes).numpy()
        self._squares += (weights**2 @ sizes**2).numpy()

    @property
    def pairs(self) -> Array:
        """Ordered pairs of words of different sentences, in the corpus and in each draw: (1 + B,)."""
        return np.asarray(self._words**2 - self._squares)


class SimilaritySums:
    """Sums of unit vectors in all layers, of one space: that of the model, or one after a correction."""

    def __init__(self, layers: int, width: int, draws: int, words: int) -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64)

        self.total, self.within = zeros(layers, width), zeros(layers, width)
        self.intra = zeros(layers)
        self.draws_total = zeros(layers, draws, width)
        self.draws_within, self.draws_intra = zeros(layers, draws), zeros(layers, draws)
        self.squares, self.words = zeros(layers, words), zeros(layers, words, width)
        # Adding each row in float64 costs more than all other sums; adding millions in float32 loses precision.
        self._recent: Tensor | None = None
        self._batches = 0

    def add(self, batch: Occurrences, vectors: Tensor, sentences: SentenceBatch) -> None:
        """Add the vectors (L, N, D) of a batch's words in this space."""
        shape = (len(vectors), batch.texts, vectors.shape[-1])
        sums, means = vectors.new_zeros(shape), vectors.new_zeros(shape)
        if self._recent is None:
            self._recent = vectors.new_zeros(self.words.shape)
        # Layer by layer: the allocator cannot reuse blocks as large as all layers at once.
        for layer, rows in enumerate(vectors):
            lengths = rows.norm(dim=-1, keepdim=True)
            units = rows / _positive(lengths)
            sums[layer].index_add_(0, batch.sentences, units)
            means[layer].index_add_(0, batch.sentences, rows)
            self._recent[layer].index_add_(0, batch.words, units[batch.contexts])
            self.squares[layer].index_add_(0, batch.words, (lengths[batch.contexts, 0] > 0).double())
        # The mean cosine of a sentence's words with the sentence's mean is one product of two sums.
        intra = (sums * means).sum(-1) / (_positive(means.norm(dim=-1)) * sentences.sizes.clamp(min=1))
        self._add_sentences(sums, intra, sentences.weights)
        self._batches += 1
        if self._batches % FLUSHED_BATCHES == 0:
            self._flush()

    def _flush(self) -> None:
        """Move the sums of the last batches into float64."""
        if self._recent is not None:
            self.words += self._recent
            self._recent.zero_()

    def _add_sentences(self, sums: Tensor, intra: Tensor, weights: Tensor) -> None:
        """Sums of unit vectors (L, S, D) and similarities (L, S) of sentences with weights (B, S)."""
        squares = sums**2
        self.total += sums.sum(1)
        self.within += squares.sum(1)
        self.intra += intra.sum(1)
        self.draws_total += weights @ sums
        self.draws_within += squares.sum(-1) @ (weights**2).T
        self.draws_intra += intra @ weights.T

    def contributions(self, counts: Counts) -> Array:
        """Each dimension's part of the baseline: (L, D)."""
        return dimension_contributions(self.total.numpy(), self.within.numpy(), float(counts.pairs[0]))

    def baseline(self, counts: Counts) -> Array:
        """The expected cosine of two words of different sentences, in the corpus and in each draw: (L, 1 + B)."""
        across = (self.draws_total**2).sum(-1) - self.draws_within
        drawn = ratios(across.numpy(), counts.pairs[1:])
        return np.column_stack([self.contributions(counts).sum(-1), drawn])

    def intra_similarity(self, counts: Counts) -> Array:
        """The mean over sentences of their words' cosine with the sentence's mean: (L, 1 + B)."""
        return ratios(np.column_stack([self.intra.numpy(), self.draws_intra.numpy()]), counts.sentences)

    def self_similarity(self, counts: Counts) -> Array:
        """The mean cosine of a word in two of its n contexts: (L, W), nan where n is below 2."""
        self._flush()
        squares = (self.words**2).sum(-1) - self.squares
        return ratios(squares.numpy(), counts.contexts**2 - counts.contexts)


class Moments:
    """Means and covariances of all words in each layer, in blocks of sentences."""

    def __init__(self, layers: int, width: int) -> None:
        self._counts = torch.zeros(BLOCKS, dtype=torch.float64)
        self._sums = torch.zeros(BLOCKS, layers, width, dtype=torch.float64)
        self._squares = torch.zeros(BLOCKS, layers, width, width, dtype=torch.float64)
        self._origin: Tensor | None = None
        self._next = 0

    def add(self, vectors: Tensor, sizes: Tensor) -> None:
        """Add the vectors (L, N, D) of a batch's words; ``sizes`` (S,) are the words of each sentence."""
        if not vectors.shape[1]:
            return
        if self._origin is None:
            # Relative to one of the words the mean is small, so that subtracting its square loses little precision.
            self._origin = vectors[:, :1].clone()
        shifted, start = vectors - self._origin, 0
        # A batch has sentences of one length, so each block gets a part of it until there are enough batches for all.
        parts = BLOCKS if self._next < SPLIT_BATCHES else 1
        for index, part in enumerate(torch.tensor_split(sizes, parts)):
            end = start + int(part.sum())
            if end > start:
                self._add_block((self._next + index) % BLOCKS, shifted[:, start:end])
            start = end
        self._next += 1

    def _add_block(self, block: int, shifted: Tensor) -> None:
        self._counts[block] += shifted.shape[1]
        self._sums[block] += shifted.sum(1)
        self._squares[block] += shifted.transpose(1, 2) @ shifted

    def of(self, layer: int, without: int | None = None) -> tuple[Array, Array]:
        """The mean (D,) and the covariance (D, D), over n, of a layer, of all blocks or all but one."""
        assert self._origin is not None
        blocks = [block for block in range(BLOCKS) if block != without]
        count = float(self._counts[blocks].sum())
        mean = self._sums[blocks, layer].sum(0) / count
        square = self._squares[blocks, layer].sum(0) / count
        covariance = square - mean[:, None] * mean
        return (mean + self._origin[layer, 0].double()).numpy(), covariance.numpy()

    @property
    def filled(self) -> list[int]:
        """The blocks that have words."""
        return torch.nonzero(self._counts)[:, 0].tolist()


class Samples:
    """Vectors of the contexts of sampled words and of random points, by the plan, without words that were cut off."""

    def __init__(self, sampling_plan: SamplingPlan, layers: int, width: int, dtype: torch.dtype) -> None:
        self._starts = sampling_plan.starts
        self._contexts = torch.zeros(layers, int(sampling_plan.starts[-1]), width, dtype=dtype)
        self._points = torch.zeros(layers, len(sampling_plan.points), width, dtype=dtype)
        self._found = np.zeros(int(sampling_plan.starts[-1]), bool)
        self._sentence_of = np.full(len(sampling_plan.points), -1, np.int64)
        self._sentences = 0

    def add(self, batch: Occurrences) -> None:
        """Store the planned vectors of a batch."""
        for store, rows in ((self._contexts, batch.sampled), (self._points, batch.points)):
            if rows:
                indices, targets = zip(*rows, strict=True)
                store[:, list(targets)] = batch.vectors[:, list(indices)]
        self._found[[row for _, row in batch.sampled]] = True
        for index, row in batch.points:
            self._sentence_of[row] = self._sentences + int(batch.sentences[index])
        self._sentences += batch.texts

    def contexts(self, which: int) -> NDArray[np.floating]:
        """The vectors (L, n, D) of a sampled word."""
        rows = slice(*map(int, self._starts[which : which + 2]))
        return np.asarray(self._contexts[:, rows][:, torch.from_numpy(self._found[rows])])

    @property
    def points(self) -> NDArray[np.floating]:
        """The random occurrences: (L, P, D)."""
        return np.asarray(self._points[:, torch.from_numpy(self._sentence_of >= 0)])

    @property
    def sentences(self) -> NDArray[np.int64]:
        """The sentence of each point: (P,)."""
        return self._sentence_of[self._sentence_of >= 0]


def _positive(lengths: Tensor) -> Tensor:
    """Lengths to divide by: a vector of length 0 stays 0."""
    return torch.where(lengths > 0, lengths, 1.0)


def drawn_means(values: Array, draws: int, seed: int) -> Array:
    """The mean of each row (L, W) and its Poisson bootstrap draws over the W words, the same in all rows: (L, 1 + B).

    A word without a value in a row (nan) is left out there; one word alone has a mean and no draws. The same seed draws
    the same words.

    >>> drawn_means(np.array([[1.0, 3.0, np.nan]]), draws=10, seed=0).shape
    (1, 11)
    """
    # A separate random stream: texts use the same seed, and their draws must be independent.
    weights = np.random.default_rng((seed, 1)).poisson(1.0, (draws, values.shape[1]))
    weights = np.vstack([np.ones(values.shape[1]), weights])
    there = np.isfinite(values)
    means = ratios(np.where(there, values, 0.0) @ weights.T, there @ weights.T)
    means[there.sum(1) < 2, 1:] = np.nan
    return means
