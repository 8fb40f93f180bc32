"""Measuring: texts through an encoder, once for the running sums and once more for the corrected ones."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.encoder import Encoder
from likewise.encoder.postprocessing import POSTPROCESSORS, fit_from_moments
from likewise.errors import DataError
from likewise.geometry.bands import Band, drawn_means
from likewise.geometry.census import Plan, census, plan
from likewise.geometry.cluster_isotropy import cluster_isotropy
from likewise.geometry.explained_variance import READINGS, explained_variances, random_explained_variances
from likewise.geometry.geometry import Geometry, Similarities, Variances, WordMeasures
from likewise.geometry.intrinsic_dimension import two_nn
from likewise.geometry.layer_alignment import debiased_cka
from likewise.geometry.occurrences import OccurrenceStream
from likewise.geometry.samples import Samples
from likewise.geometry.settings import USUAL, GeometrySettings
from likewise.geometry.spectrum import effective_ranks, isoscores
from likewise.geometry.sums import Counts, Moments, PoissonWeights, SentenceBatch, SimilaritySums
from likewise.geometry.words import require_layers
from likewise.progress import Progress, Ticker

Array = NDArray[np.float64]

SPECTRUM_DRAWS = 40
"""An effective rank takes all eigenvalues of a covariance, so there are few draws of it."""


def geometry_of(
    encoder: Encoder,
    texts: Iterable[str] | Callable[[], Iterable[str]],
    settings: GeometrySettings = USUAL,
    name: str = "texts",
    progress: Progress | None = None,
) -> Geometry:
    """How an encoder's layers see the words of a corpus.

    ``texts`` may be a function that begins to read them anew, for a corpus that does not fit into memory.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> texts = ["We rob a bank.", "A bank lends money.", "The bank of a river.", "A bench by a river."]
    >>> found = geometry_of(encoder, texts, GeometrySettings(min_contexts=2, corrections=False))
    >>> found.words.words, len(found.raw.baseline.values)
    (['river', 'a', 'bank'], 7)
    """
    require_layers(encoder)
    read = texts if callable(texts) else (lambda held=list(texts): held)
    counted = census(read(), encoder.tokenizer.folds_case, settings.punctuation, progress)
    if counted.texts < 2:
        raise DataError(f"{name}: geometry compares words of different texts; give at least 2, got {counted.texts}")
    chosen = plan(counted, settings)
    with tempfile.TemporaryFile() as file:
        stream = OccurrenceStream(encoder, read, chosen, settings, counted.texts, file)
        first = _first_round(stream, progress)
        corrected = _second_round(stream, first, progress) if settings.corrections else {}
    facts = {"texts": counted.texts, "repeated": counted.repeated, "occurrences": first.counts.occurrences}
    return _measured(encoder.name, name, facts, first, corrected, progress)


@dataclass(frozen=True, eq=False)
class _Round:
    """What the first round over the occurrences leaves behind."""

    plan: Plan
    settings: GeometrySettings
    counts: Counts
    sums: SimilaritySums
    moments: Moments
    samples: Samples

    @property
    def averaged(self) -> NDArray[np.bool_]:
        """Which words have contexts enough to be part of averages: (W,)."""
        return self.counts.contexts >= self.settings.min_contexts

    def similarities(self, sums: SimilaritySums) -> Similarities:
        """The measures of a space from its sums, with their draws."""
        baseline, intra = sums.baseline(self.counts), sums.intra_similarity(self.counts)
        words = sums.self_similarity(self.counts)[:, self.averaged]
        own = drawn_means(words, self.settings.draws, self.settings.seed)
        return Similarities(*map(Band.of_draws, (baseline, own, own - baseline, intra, intra - baseline)))


def _first_round(stream: OccurrenceStream, progress: Progress | None) -> _Round:
    settings, views = stream.settings, stream.encoder.anatomy
    shape = views.layers + 1, views.hidden_size
    dtype = torch.float64 if views.dtype == torch.float64 else torch.float32
    counts = Counts(settings.draws, len(stream.plan.words))
    sums = SimilaritySums(*shape, settings.draws, len(stream.plan.words))
    moments, samples = Moments(*shape, dtype), Samples(stream.plan, *shape, dtype)
    poisson = PoissonWeights(settings.draws, settings.seed)
    for batch in stream.batches("texts", progress):
        sentences = SentenceBatch.of(batch, poisson)
        counts.add(batch, sentences)
        sums.add(batch, batch.vectors, sentences)
        moments.add(batch.vectors)
        samples.add(batch)
    return _Round(stream.plan, settings, counts, sums, moments, samples)


def _second_round(stream: OccurrenceStream, first: _Round, progress: Progress | None) -> dict[str, Similarities]:
    """The similarities after each correction, which is fitted on all words of a layer."""
    settings, layers = stream.settings, len(first.sums.total)
    moments = [first.moments.of(layer) for layer in range(layers)]
    shift = torch.from_numpy(np.stack([mean for mean, _ in moments]))[:, None]
    matrices = {
        kind: torch.from_numpy(np.stack([fit_from_moments(kind, *one).matrix for one in moments]))
        for kind in POSTPROCESSORS
    }
    words = len(stream.plan.words)
    sums = {kind: SimilaritySums(layers, shift.shape[-1], settings.draws, words) for kind in matrices}
    poisson = PoissonWeights(settings.draws, settings.seed)
    for batch in stream.batches("texts, corrected", progress):
        sentences = SentenceBatch.of(batch, poisson)
        centred = batch.vectors - shift.to(batch.vectors)
        for kind, matrix in matrices.items():
            sums[kind].add(batch, _mapped(centred, matrix.to(centred)), sentences)
    return {kind: first.similarities(each) for kind, each in sums.items()}


def _mapped(centred: Tensor, matrix: Tensor) -> Tensor:
    """centred (L, N, D) @ matrix (L, D, D), without a product where the matrix has a diagonal alone."""
    diagonal = torch.diagonal(matrix, dim1=1, dim2=2)
    if torch.equal(matrix, torch.diag_embed(diagonal)):
        return centred * diagonal[:, None]
    return centred @ matrix


def _measured(
    model: str,
    name: str,
    facts: dict[str, int],
    first: _Round,
    corrected: dict[str, Similarities],
    progress: Progress | None,
) -> Geometry:
    layers, seed = len(first.sums.total), first.settings.seed
    ticker = Ticker(progress, 2 * layers + len(first.plan.sampled), "measures")
    words, variances = _variances(first, ticker)
    points = first.samples.points
    spectra = []
    for layer in range(layers):
        spectra.append(_spectrum(first, layer))
        ticker.add()
    dimension, clusters = [], []
    for layer in range(layers):
        dimension.append(two_nn(points[layer], seed))
        clusters.append(cluster_isotropy(points[layer], first.samples.sentences, first.settings.clusters, seed))
        ticker.add()
    contributions = first.sums.contributions(first.counts)
    found = Geometry(
        model=model,
        data=name,
        facts=facts,
        settings=first.settings,
        raw=first.similarities(first.sums),
        corrected=corrected,
        variances=variances,
        isoscore=Band.of_spread(np.stack([scores for scores, _ in spectra])),
        effective_rank=Band.of_spread(np.stack([ranks for _, ranks in spectra])),
        intrinsic_dimension=Band.of_intervals(dimension),
        shares=contributions / contributions.sum(-1, keepdims=True),
        alignment=debiased_cka(points),
        clusters=tuple(clusters),
        words=words,
    )
    ticker.close()
    return found


def _spectrum(first: _Round, layer: int) -> tuple[Array, Array]:
    """IsoScore and effective rank of a layer, each with its draws: (1 + draws,)."""
    drawn = first.moments.drawn_blocks(SPECTRUM_DRAWS, first.settings.seed)
    scores, ranks = [], []
    for weights in [None, *drawn]:
        _, covariance = first.moments.of(layer, weights)
        scores.append(float(isoscores(covariance)))
        ranks.append(float(effective_ranks(covariance)))
    return np.array(scores), np.array(ranks)


def _variances(first: _Round, ticker: Ticker) -> tuple[WordMeasures, Variances]:
    """Explainable variance of the sampled words, and of as many random occurrences as each has contexts."""
    points, settings = first.samples.points, first.settings
    random: dict[int, Array] = {}
    own, chance = [], []
    for which in first.plan.sampled:
        vectors = first.samples.contexts(which)
        n = vectors.shape[1]
        own.append(explained_variances(vectors) if n > 1 else np.full((len(READINGS), len(vectors)), np.nan))
        count = min(max(n, 1), points.shape[1])
        if count not in random:
            random[count] = random_explained_variances(points, count, settings.seed)
        chance.append(random[count])
        ticker.add()
    measured, by_chance = np.stack(own, axis=-1), np.stack(chance, axis=-1)
    words = WordMeasures(
        list(first.plan.words), first.counts.contexts, first.sums.self_similarity(first.counts),
        first.averaged, measured, measured - by_chance, first.plan.chosen,
    )  # fmt: skip
    part = first.averaged[: len(own)]

    def averaged(values: Array) -> dict[str, Band]:
        means = [drawn_means(each[:, part], settings.draws, settings.seed) for each in values]
        return {reading: Band.of_draws(each) for reading, each in zip(READINGS, means, strict=True)}

    variances = Variances(averaged(measured), averaged(by_chance), averaged(measured - by_chance), int(part.sum()))
    return words, variances
