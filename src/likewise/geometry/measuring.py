"""Measures a corpus in two passes: running sums over the hidden states, then the same sums after each correction.

The measures need only sums, not the n^2 pairs of words: the mean cosine over all pairs of n vectors is
(|sum u|^2 - sum |u|^2) / (n^2 - n), where u are the unit vectors. A Poisson bootstrap resamples the sentences: in each
draw a sentence has a Poisson weight of mean 1, so each draw is a running sum too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.data import Dataset, Datasets, SkippedRows
from likewise.encoder import Encoder, takes_encoder
from likewise.encoder.postprocessing import POSTPROCESSORS, fit_from_moments
from likewise.errors import DataError, UsageError
from likewise.geometry.geometry import ConfidenceBand, Geometry, Similarities, Variances, WordMeasures
from likewise.geometry.measures import (
    VARIANTS,
    cluster_isotropy,
    debiased_cka,
    dimension_contributions,
    effective_rank,
    explained_variances,
    isoscore,
    random_explained_variances,
    ratios,
    two_nn,
)
from likewise.geometry.occurrences import (
    USUAL,
    GeometrySettings,
    Occurrences,
    OccurrenceStream,
    SamplingPlan,
    corpus_stats,
    require_layers,
    sampling_plan,
)
from likewise.metrics import Array
from likewise.progress import Progress, Ticker
from likewise.results import ResultSet

BLOCKS = 10  # Blocks of sentences for second moments; the jackknife of spectra leaves each block out once
SPLIT_BATCHES = 2 * BLOCKS
"""The first batches are split over all blocks; a later one goes to one block, which is faster."""
FLUSHED_BATCHES = 64  # Batches that are summed in their own type before the sums move into float64


@takes_encoder
def geometry_of(
    encoder: Encoder,
    texts: Iterable[str] | Callable[[], Iterable[str]],
    settings: GeometrySettings = USUAL,
    name: str = "texts",
    progress: Progress | None = None,
) -> Geometry:
    """Measure the words of a corpus in every layer of an encoder.

    ``texts`` may be a function that starts to read them again, for a corpus that does not fit into memory.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> texts = ["We rob a bank.", "A bank lends money.", "The bank of a river.", "A bench by a river."]
    >>> found = geometry_of(encoder, texts, GeometrySettings(min_contexts=2, corrections=False))
    >>> sorted(found.words.words), len(found.raw.baseline.values)
    (['a', 'bank', 'river'], 7)
    """
    require_layers(encoder)
    if isinstance(texts, str):
        raise UsageError("geometry needs several texts; give a sequence of them, not one string")
    prompt = encoder.modules_config.prompt_for(None) if settings.prompt is None else settings.prompt
    settings = replace(settings, prompt=prompt)
    read = texts if callable(texts) else (lambda held=list(texts): held)
    stats = corpus_stats(read(), encoder.tokenizer.folds_case, settings.punctuation, progress)
    if stats.texts < 2:
        raise DataError(f"{name}: geometry compares words of different texts; give at least 2, got {stats.texts}")
    sampled = sampling_plan(stats, settings)
    with tempfile.TemporaryFile(buffering=0) as file:
        stream = OccurrenceStream(encoder, read, sampled, settings, stats.texts, file)
        first = _first_round(stream, progress)
        if not first.counts.occurrences:
            raise DataError(
                f"{name}: no word reaches the model before its limit of {encoder.tokenizer.limit} tokens;"
                " give a shorter prompt or another model"
            )
        corrected = _second_round(first, progress) if settings.corrections else {}
    metadata = {"texts": stats.texts, "repeated": stats.repeated, "occurrences": first.counts.occurrences}
    return _measured((encoder.name, name), metadata, first, corrected, progress)


def compare_geometry(
    corpus: Dataset | Datasets,
    models: Sequence[str],
    settings: GeometrySettings = USUAL,
    load: Callable[[str], Encoder] = Encoder.load,
    progress: Progress | None = None,
) -> ResultSet[Geometry]:
    """Measure a corpus with each model.

    >>> corpus = Dataset("sample/pairs", limit=20)
    >>> compare_geometry(corpus, ["minilm"], GeometrySettings(min_contexts=3)).to_dict()["texts"]
    40
    """
    skipped = SkippedRows()

    def read() -> Iterable[str]:
        nonlocal skipped
        skipped = SkippedRows()  # The corpus is read more than once; each time skips the same rows.
        return corpus.sentences(skipped)

    found = [geometry_of(load(model), read, settings, corpus.name, progress) for model in dict.fromkeys(models)]
    return ResultSet(tuple(replace(one, skipped=skipped.count) for one in found))


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
    """
    # A separate random stream: texts use the same seed, and their draws must be independent.
    weights = np.random.default_rng((seed, 1)).poisson(1.0, (draws, values.shape[1]))
    weights = np.vstack([np.ones(values.shape[1]), weights])
    there = np.isfinite(values)
    means = ratios(np.where(there, values, 0.0) @ weights.T, there @ weights.T)
    means[there.sum(1) < 2, 1:] = np.nan
    return means


@dataclass(frozen=True, eq=False)
class _Round:
    """The sums and samples of the first round over the occurrences."""

    stream: OccurrenceStream
    counts: Counts
    sums: SimilaritySums
    moments: Moments
    samples: Samples


def _similarities(sums: SimilaritySums, counts: Counts, settings: GeometrySettings) -> Similarities:
    """The measures of a space from its sums, with their draws."""
    baseline, intra = sums.baseline(counts), sums.intra_similarity(counts)
    words = sums.self_similarity(counts)[:, counts.contexts >= settings.min_contexts]
    own = drawn_means(words, settings.draws, settings.seed)
    return Similarities(*map(ConfidenceBand.of_draws, (baseline, own, own - baseline, intra, intra - baseline)))


def _first_round(stream: OccurrenceStream, progress: Progress | None) -> _Round:
    settings, view, words = stream.settings, stream.encoder.model_view, len(stream.sampling_plan.words)
    shape = view.layers + 1, view.hidden_size
    dtype = torch.float64 if view.dtype == torch.float64 else torch.float32
    counts, sums = Counts(settings.draws, words), SimilaritySums(*shape, settings.draws, words)
    moments, samples = Moments(*shape), Samples(stream.sampling_plan, *shape, dtype)
    poisson = PoissonWeights(settings.draws, settings.seed)
    for batch in stream.batches("texts", progress):
        sentences = SentenceBatch.of(batch, poisson)
        counts.add(batch, sentences)
        sums.add(batch, batch.vectors, sentences)
        moments.add(batch.vectors, sentences.sizes)
        samples.add(batch)
    return _Round(stream, counts, sums, moments, samples)


def _second_round(first: _Round, progress: Progress | None) -> dict[str, Similarities]:
    """The similarities after each correction, which is fitted on all words of a layer."""
    stream, settings, layers = first.stream, first.stream.settings, len(first.sums.total)
    moments = [first.moments.of(layer) for layer in range(layers)]
    shift = torch.from_numpy(np.stack([mean for mean, _ in moments]))[:, None]
    maps = {kind: _layer_map([fit_from_moments(kind, *one).matrix for one in moments]) for kind in POSTPROCESSORS}
    words = len(stream.sampling_plan.words)
    sums = {kind: SimilaritySums(layers, shift.shape[-1], settings.draws, words) for kind in maps}
    poisson = PoissonWeights(settings.draws, settings.seed)
    for batch in stream.batches("texts, corrected", progress):
        sentences = SentenceBatch.of(batch, poisson)
        centred = batch.vectors - shift.to(batch.vectors)
        for kind, mapped in maps.items():
            sums[kind].add(batch, mapped(centred), sentences)
    return {kind: _similarities(each, first.counts, settings) for kind, each in sums.items()}


def _layer_map(matrices: Sequence[Array]) -> Callable[[Tensor], Tensor]:
    """The matrix (D, D) of each layer as a map (L, N, D) -> (L, N, D), without a product where all are diagonal."""
    stacked = torch.from_numpy(np.stack(matrices))
    diagonals = torch.diagonal(stacked, dim1=1, dim2=2)
    if torch.equal(stacked, torch.diag_embed(diagonals)):
        return lambda centred: centred * diagonals.to(centred)[:, None]
    return lambda centred: centred @ stacked.to(centred)


def _measured(
    names: tuple[str, str],
    metadata: dict[str, int],
    first: _Round,
    corrected: dict[str, Similarities],
    progress: Progress | None,
) -> Geometry:
    """All measures of both rounds; ``names`` are those of the model and of the corpus."""
    settings, contributions = first.stream.settings, first.sums.contributions(first.counts)
    layers, seed = len(contributions), settings.seed
    ticker = Ticker(progress, 2 * layers + first.stream.sampling_plan.sampled, "measures")
    words, variances = _variances(first, ticker)
    points, sentences = first.samples.points, first.samples.sentences
    scores, ranks = _spectra(first.moments, layers, ticker)
    dimension, clusters = [], []
    for layer in range(layers):
        dimension.append(two_nn(points[layer], seed))
        clusters.append(cluster_isotropy(points[layer], sentences, settings.clusters, seed))
        ticker.add()
    alignment = debiased_cka(points)
    ticker.close()
    raw = _similarities(first.sums, first.counts, settings)
    by_layer = scores, ranks, ConfidenceBand.of_intervals(dimension)
    shares = contributions / contributions.sum(-1, keepdims=True)
    about, found = metadata | {"points": points.shape[1]}, tuple(clusters)
    return Geometry(*names, about, settings, raw, corrected, variances, *by_layer, shares, alignment, found, words)


def _spectra(moments: Moments, layers: int, ticker: Ticker) -> tuple[ConfidenceBand, ...]:
    """IsoScore and effective rank of all layers, each block of texts left out once."""
    filled = moments.filled
    left_out = [None, *(filled if len(filled) > 1 else [])]
    scores, ranks = (np.empty((layers, len(left_out))) for _ in range(2))
    for layer in range(layers):
        covariances = np.stack([moments.of(layer, without=block)[1] for block in left_out])
        scores[layer], ranks[layer] = isoscore(covariances), effective_rank(covariances)
        ticker.add()
    return tuple(ConfidenceBand.of_jackknife(values[:, 0], values[:, 1:]) for values in (scores, ranks))


def _variances(first: _Round, ticker: Ticker) -> tuple[WordMeasures, Variances]:
    """Explainable variance of the sampled words, and of as many random occurrences as each has contexts."""
    points, settings, plan = first.samples.points, first.stream.settings, first.stream.sampling_plan
    own, chance = [], []
    for which in range(plan.sampled):
        vectors = first.samples.contexts(which)
        n = vectors.shape[1]
        own.append(explained_variances(vectors) if n > 1 else np.full((len(VARIANTS), len(vectors)), np.nan))
        # A new draw for each word: five random words differ too much from the next five to take only one draw.
        count = min(max(n, 1), points.shape[1])
        chance.append(random_explained_variances(points, count, (settings.seed, which)))
        ticker.add()
    measured, by_chance = np.stack(own, axis=-1), np.stack(chance, axis=-1)
    similarity, contexts = first.sums.self_similarity(first.counts), first.counts.contexts
    averaged, adjusted = contexts >= settings.min_contexts, measured - by_chance
    words = WordMeasures(list(plan.words), contexts, similarity, averaged, measured, adjusted, plan.chosen)
    part = averaged[: len(own)]

    bands = {
        name: {
            variant: ConfidenceBand.of_draws(drawn_means(each[:, part], settings.draws, settings.seed))
            for variant, each in zip(VARIANTS, values, strict=True)
        }
        for name, values in (("mev", measured), ("mev_baseline", by_chance), ("mev_adjusted", adjusted))
    }
    return words, Variances(bands, int(part.sum()))
