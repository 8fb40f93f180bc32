"""Running sums over the hidden states of words: those of a window, and those of a corpus, which are merged windows.

The measures need only sums, not the n^2 pairs of words: the mean cosine over all pairs of n vectors is
(|sum u|^2 - sum |u|^2) / (n^2 - n), where u are the unit vectors. A Poisson bootstrap resamples the sentences: in each
draw a sentence has a Poisson weight of mean 1, so each draw is a running sum too.

The sums of a window do not depend on other windows, and windows are merged in order. So the numbers are the same to the
last bit whoever sums a window.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.geometry.measures import dimension_contributions, ratios
from likewise.geometry.occurrences import Occurrences, PlannedWindow
from likewise.geometry.rounds import WindowTask
from likewise.metrics import Array

BLOCKS = 10  # Blocks of sentences for second moments; the jackknife of spectra leaves each block out once
SPLIT_BATCHES = 2 * BLOCKS
"""The first batches of the first window are split over all blocks; a later one goes to one block, which is faster."""
SPREAD_WINDOWS = 2 * BLOCKS
"""The batches of the first windows go to all blocks in turn; a later window goes to one, which is less to transfer."""
BLOCK_STEP = 3  # From a window's first block to that of the next: small windows fill all blocks soon, and as often
SAMPLING_STREAMS = 3  # The random streams that the sampling plan takes from a seed


@dataclass(frozen=True)
class Space:
    """The sizes of the space that is measured, and of what is drawn."""

    layers: int
    width: int
    words: int  # whose self-similarity is measured
    draws: int
    seed: int
    dtype: torch.dtype  # of the vectors


class SentAsArrays:
    """Travels to other processes with arrays instead of tensors.

    torch would send tensors through shared memory, of which many machines have little. What arrives is copied into
    tensors of torch's own alignment, because the last bit of a product can depend on it.
    """

    def __getstate__(self) -> tuple[dict[str, Any], dict[str, Any]]:
        own = vars(self)
        tensors = {name: value.numpy() for name, value in own.items() if isinstance(value, Tensor)}
        return tensors, {name: value for name, value in own.items() if name not in tensors}

    def __setstate__(self, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
        tensors, others = state
        vars(self).update(others)
        vars(self).update({name: torch.tensor(value) for name, value in tensors.items()})


class PoissonWeights:
    """The weight of each sentence of a window in each draw; 0 for sentences without words.

    They come from the seed and the number of the window alone, so that whoever has the window draws them.
    """

    def __init__(self, draws: int, seed: int, window: int) -> None:
        own = np.random.SeedSequence(seed, spawn_key=(SAMPLING_STREAMS, window))
        self.draws, self._rng = draws, np.random.default_rng(own)

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
        self.occurrences = self.truncated = 0
        self.contexts = np.zeros(words, np.int64)
        self.sentences, self._words, self._squares = (np.zeros(draws + 1) for _ in range(3))

    def add(self, batch: Occurrences, sentences: SentenceBatch) -> None:
        """Count one more batch."""
        self.occurrences += len(batch.sentences)
        self.truncated += batch.truncated
        self.contexts += np.bincount(batch.words.numpy(), minlength=len(self.contexts))
        sizes, weights = sentences.sizes.double(), sentences.weights.double()
        # The corpus itself is one more draw, in which each sentence with words counts once.
        weights = torch.cat([(sizes > 0).double()[None], weights])
        self.sentences += weights.sum(1).numpy()
        self._words += (weights @ sizes).numpy()
        self._squares += (weights**2 @ sizes**2).numpy()

    def merge(self, other: Counts) -> None:
        """Add the counts of the next window; they are whole numbers, so the sums are exact."""
        self.occurrences += other.occurrences
        self.truncated += other.truncated
        self.contexts += other.contexts
        self.sentences += other.sentences
        self._words += other._words
        self._squares += other._squares

    @property
    def pairs(self) -> Array:
        """Ordered pairs of words of different sentences, in the corpus and in each draw: (1 + B,)."""
        return np.asarray(self._words**2 - self._squares)


class SimilaritySums(SentAsArrays):
    """Sums of unit vectors in all layers, of one space: that of the model, or one after a correction.

    Those of a window hold the words that are in it; those of a corpus, which are made by merging, hold all.
    """

    def __init__(self, space: Space, window: PlannedWindow | None = None) -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64)

        layers, width, draws = space.layers, space.width, space.draws
        self.numbers = torch.arange(space.words) if window is None else torch.tensor(window.measured)
        self.total, self.within = zeros(layers, width), zeros(layers, width)
        self.intra = zeros(layers)
        self.draws_total = zeros(layers, draws, width)
        self.draws_within, self.draws_intra = zeros(layers, draws), zeros(layers, draws)
        self.squares, self.words = zeros(layers, len(self.numbers)), zeros(layers, len(self.numbers), width)
        if window is not None:
            # Adding each row in float64 costs more than all other sums; adding millions in float32 loses precision.
            self.words = self.words.to(space.dtype)

    def add(self, batch: Occurrences, vectors: Tensor, sentences: SentenceBatch) -> None:
        """Add the vectors (L, N, D) of a batch's words in this space."""
        shape = (len(vectors), batch.texts, vectors.shape[-1])
        sums, means = vectors.new_zeros(shape), vectors.new_zeros(shape)
        words = torch.searchsorted(self.numbers, batch.words)
        # Layer by layer: the allocator cannot reuse blocks as large as all layers at once.
        for layer, rows in enumerate(vectors):
            lengths = rows.norm(dim=-1, keepdim=True)
            units = rows / _positive(lengths)
            sums[layer].index_add_(0, batch.sentences, units)
            means[layer].index_add_(0, batch.sentences, rows)
            self.words[layer].index_add_(0, words, units[batch.contexts])
            self.squares[layer].index_add_(0, words, (lengths[batch.contexts, 0] > 0).double())
        # The mean cosine of a sentence's words with the sentence's mean is one product of two sums.
        intra = (sums * means).sum(-1) / (_positive(means.norm(dim=-1)) * sentences.sizes.clamp(min=1))
        self._add_sentences(sums, intra, sentences.weights)

    def _add_sentences(self, sums: Tensor, intra: Tensor, weights: Tensor) -> None:
        """Sums of unit vectors (L, S, D) and similarities (L, S) of sentences with weights (B, S)."""
        squares = sums**2
        self.total += sums.sum(1)
        self.within += squares.sum(1)
        self.intra += intra.sum(1)
        self.draws_total += weights @ sums
        self.draws_within += squares.sum(-1) @ (weights**2).T
        self.draws_intra += intra @ weights.T

    def merge(self, other: SimilaritySums) -> None:
        """Add the sums of the next window."""
        for name in ("total", "within", "intra", "draws_total", "draws_within", "draws_intra"):
            own: Tensor = getattr(self, name)
            own += getattr(other, name)
        for layer in range(len(self.total)):
            self.words[layer].index_add_(0, other.numbers, other.words[layer].double())
            self.squares[layer].index_add_(0, other.numbers, other.squares[layer])

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
        squares = (self.words**2).sum(-1) - self.squares
        return ratios(squares.numpy(), counts.contexts**2 - counts.contexts)


class MomentBlock(SentAsArrays):
    """Sums of the words of a block relative to an origin: their number, vectors (L, D) and products (L, D, D)."""

    def __init__(self, layers: int, width: int) -> None:
        self.count = 0
        self.vectors = torch.zeros(layers, width, dtype=torch.float64)
        self.products = torch.zeros(layers, width, width, dtype=torch.float64)

    def add(self, shifted: Tensor) -> None:
        """Add vectors (L, N, D) relative to the origin."""
        self.count += shifted.shape[1]
        self.vectors += shifted.sum(1)
        self.products += shifted.transpose(1, 2) @ shifted

    def merge(self, other: MomentBlock, offset: Tensor) -> None:
        """Add a block whose origin is the own one plus ``offset`` (L, D)."""
        # (x + o)(x + o)^T summed over n words x is P + h o^T + o h^T, where h = sum x + n o / 2.
        half = other.vectors + other.count / 2 * offset
        self.products += other.products
        self.products.baddbmm_(torch.stack([half, offset], -1), torch.stack([offset, half], 1))
        self.vectors += other.vectors + other.count * offset
        self.count += other.count


class Moments(SentAsArrays):
    """Means and covariances of all words in each layer, in blocks of sentences; of a window, or merged."""

    def __init__(self, window: int = 0) -> None:
        self._window, self._batches = window, 0
        self._blocks: dict[int, MomentBlock] = {}
        self._origin: Tensor | None = None

    def add(self, vectors: Tensor, sizes: Tensor) -> None:
        """Add the vectors (L, N, D) of a batch's words; ``sizes`` (S,) are the words of each sentence."""
        if not vectors.shape[1]:
            return
        if self._origin is None:
            # Relative to one of the words the mean is small, so that subtracting its square loses little precision.
            # Each window has its own: a common one would be known only when the first window is done.
            self._origin = vectors[:, :1].clone()
        shifted, start = vectors - self._origin, 0
        # A batch has sentences of one length, so each block gets a part of it until there are enough batches for all.
        parts = BLOCKS if self._window == 0 and self._batches < SPLIT_BATCHES else 1
        first = BLOCK_STEP * self._window + (self._batches if self._window < SPREAD_WINDOWS else 0)
        for index, part in enumerate(torch.tensor_split(sizes, parts), first):
            end = start + int(part.sum())
            if end > start:
                self._block(index % BLOCKS, shifted).add(shifted[:, start:end])
            start = end
        self._batches += 1

    def _block(self, index: int, vectors: Tensor) -> MomentBlock:
        if index not in self._blocks:
            self._blocks[index] = MomentBlock(len(vectors), vectors.shape[-1])
        return self._blocks[index]

    def merge(self, other: Moments) -> None:
        """Add the moments of the next window, and leave nothing in them: twice the memory would be too much."""
        if other._origin is None:
            return
        origin = other._origin.double()
        if self._origin is None:
            self._origin = origin
        # In float64 a new origin costs nothing: the origins are words, as near to one another as words are to the mean.
        offset = (origin - self._origin)[:, 0]
        for index in sorted(other._blocks):
            self._block(index, origin).merge(other._blocks.pop(index), offset)

    def of(self, layer: int, without: int | None = None) -> tuple[Array, Array]:
        """The mean (D,) and the covariance (D, D), over n, of a layer, of all blocks or all but one."""
        assert self._origin is not None
        blocks = [self._blocks[index] for index in self.filled if index != without]
        count = sum(block.count for block in blocks)
        mean = torch.stack([block.vectors[layer] for block in blocks]).sum(0) / count
        square = torch.stack([block.products[layer] for block in blocks]).sum(0) / count
        covariance = square - mean[:, None] * mean
        return (mean + self._origin[layer, 0].double()).numpy(), covariance.numpy()

    @property
    def filled(self) -> list[int]:
        """The blocks that have words."""
        return sorted(self._blocks)


class SampledVectors:
    """Vectors of words by their row in a sample, in the parts that they come in, with their sentences."""

    def __init__(self, space: Space) -> None:
        self._parts = [np.empty((space.layers, 0, space.width))]
        self._found: dict[int, tuple[int, int, int]] = {}  # row -> part, column in it, sentence

    def add(self, planned: Sequence[tuple[int, int]], batch: Occurrences, first: int) -> None:
        """Store words of a batch, each (word, row), whose first sentence is number ``first``."""
        if planned:
            columns = [word for word, _ in planned]
            for column, (word, row) in enumerate(planned):
                self._found[row] = len(self._parts), column, first + int(batch.sentences[word])
            self._parts.append(batch.vectors[:, columns].numpy())

    def merge(self, other: SampledVectors, first: int) -> None:
        """Add the vectors of the next window, whose first sentence is number ``first``."""
        before = len(self._parts)
        self._parts += other._parts
        for row, (part, column, sentence) in other._found.items():
            self._found[row] = before + part, column, first + sentence

    def of(self, rows: Iterable[int] | None = None) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
        """Those vectors (L, n, D) of the rows that were found, and their sentences (n,); of all rows in order."""
        found = [self._found[row] for row in (sorted(self._found) if rows is None else rows) if row in self._found]
        if not found:
            return self._parts[0], np.empty(0, np.int64)
        vectors = np.stack([self._parts[part][:, column] for part, column, _ in found], axis=1)
        return vectors, np.array([sentence for *_, sentence in found], np.int64)


class Samples:
    """Vectors of the contexts of sampled words and of random points, by the plan, without words that were cut off."""

    def __init__(self, space: Space) -> None:
        self.contexts, self.points = SampledVectors(space), SampledVectors(space)
        self._sentences = 0

    def add(self, batch: Occurrences) -> None:
        """Store the planned vectors of a batch."""
        self.contexts.add(batch.sampled, batch, self._sentences)
        self.points.add(batch.points, batch, self._sentences)
        self._sentences += batch.texts

    def merge(self, other: Samples) -> None:
        """Add the vectors of the next window."""
        self.contexts.merge(other.contexts, self._sentences)
        self.points.merge(other.points, self._sentences)
        self._sentences += other._sentences


def _positive(lengths: Tensor) -> Tensor:
    """Lengths to divide by: a vector of length 0 stays 0."""
    return torch.where(lengths > 0, lengths, 1.0)


class CorpusSums:
    """All that the first round sums, of a window or of the windows before."""

    def __init__(self, space: Space, window: PlannedWindow | None = None) -> None:
        self.counts, self.similarities = Counts(space.draws, space.words), SimilaritySums(space, window)
        self.moments, self.samples = Moments(0 if window is None else window.number), Samples(space)

    def add(self, batch: Occurrences, sentences: SentenceBatch) -> None:
        """Add one more batch."""
        self.counts.add(batch, sentences)
        self.similarities.add(batch, batch.vectors, sentences)
        self.moments.add(batch.vectors, sentences.sizes)
        self.samples.add(batch)

    def merge(self, other: CorpusSums) -> None:
        """Add the sums of the next window, which loses its moments."""
        self.counts.merge(other.counts)
        self.similarities.merge(other.similarities)
        self.moments.merge(other.moments)
        self.samples.merge(other.samples)


@dataclass(frozen=True, eq=False)
class SumWindow(WindowTask[CorpusSums]):
    """The task of the first round.

    What a worker returns has a size that the window bounds: for L layers of width D, 4 L D bytes for each measured word
    in the window and for each sampled occurrence, 8 L D for each draw, and 8 L D^2 for each block of moments, of which
    there are ten in the first windows and one in later ones.
    """

    space: Space

    def summed(self, window: PlannedWindow, batches: Iterable[Occurrences]) -> CorpusSums:
        """The sums of a window."""
        found = CorpusSums(self.space, window)
        poisson = PoissonWeights(self.space.draws, self.space.seed, window.number)
        for batch in batches:
            found.add(batch, SentenceBatch.of(batch, poisson))
        return found


class LayerMap(SentAsArrays):
    """A matrix (D, D) for each layer, as a map (L, N, D) -> (L, N, D), without a product where all are diagonal."""

    def __init__(self, matrices: Sequence[Array], dtype: torch.dtype) -> None:
        stacked = np.stack(matrices)
        diagonals = np.diagonal(stacked, axis1=1, axis2=2)
        self.is_diagonal = bool((stacked == diagonals[:, None] * np.eye(stacked.shape[-1])).all())
        self.factors = torch.tensor(diagonals[:, None] if self.is_diagonal else stacked, dtype=dtype)

    def __call__(self, centred: Tensor) -> Tensor:
        """Map centred vectors (L, N, D)."""
        return centred * self.factors if self.is_diagonal else centred @ self.factors


@dataclass(frozen=True, eq=False)
class SumCorrectedWindow(SentAsArrays, WindowTask[dict[str, SimilaritySums]]):
    """The task of the second round: the similarities after each correction.

    A worker returns no more than in the first round for each correction, without samples and moments.
    """

    space: Space
    center: Tensor  # the mean of each layer: (L, 1, D)
    maps: dict[str, LayerMap]  # of each correction

    def summed(self, window: PlannedWindow, batches: Iterable[Occurrences]) -> dict[str, SimilaritySums]:
        """The sums of a window in each corrected space."""
        sums = {kind: SimilaritySums(self.space, window) for kind in self.maps}
        poisson = PoissonWeights(self.space.draws, self.space.seed, window.number)
        for batch in batches:
            sentences, centred = SentenceBatch.of(batch, poisson), batch.vectors - self.center
            for kind, mapped in self.maps.items():
                sums[kind].add(batch, mapped(centred), sentences)
        return sums
