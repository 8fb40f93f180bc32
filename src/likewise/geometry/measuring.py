"""Measures a corpus in two rounds: running sums over the hidden states, then the same sums after each correction.

This process merges the sums of the windows in their order, whoever has summed them.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from likewise.data import Dataset, Datasets, SkippedRows
from likewise.encoder import Encoder, takes_encoder
from likewise.encoder.postprocessing import POSTPROCESSORS, fit_from_moments
from likewise.encoder.tokens import report_truncation
from likewise.errors import DataError, UsageError
from likewise.geometry.geometry import ConfidenceBand, Geometry, Similarities, Variances, WordMeasures
from likewise.geometry.measures import (
    VARIANTS,
    cluster_isotropy,
    debiased_cka,
    effective_rank,
    explained_variances,
    isoscore,
    random_explained_variances,
    ratios,
    two_nn,
)
from likewise.geometry.occurrences import USUAL, GeometrySettings, corpus_stats, require_layers, sampling_plan
from likewise.geometry.rounds import OccurrenceStream
from likewise.geometry.sums import (
    CorpusSums,
    Counts,
    LayerMap,
    Moments,
    SimilaritySums,
    Space,
    SumCorrectedWindow,
    SumWindow,
)
from likewise.metrics import Array
from likewise.progress import Progress, Ticker
from likewise.results import ResultSet


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
        if not first.sums.counts.occurrences:
            raise DataError(
                f"{name}: no word reaches the model before its limit of {encoder.tokenizer.limit} tokens;"
                " give a shorter prompt or another model"
            )
        corrected = _second_round(first, progress) if settings.corrections else {}
    metadata = {"texts": stats.texts, "repeated": stats.repeated, "occurrences": first.sums.counts.occurrences}
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
    """The first round over the occurrences: what it measured, and its sums."""

    stream: OccurrenceStream
    space: Space
    sums: CorpusSums


def _similarities(sums: SimilaritySums, counts: Counts, settings: GeometrySettings) -> Similarities:
    """The measures of a space from its sums, with their draws."""
    baseline, intra = sums.baseline(counts), sums.intra_similarity(counts)
    words = sums.self_similarity(counts)[:, counts.contexts >= settings.min_contexts]
    own = drawn_means(words, settings.draws, settings.seed)
    return Similarities(*map(ConfidenceBand.of_draws, (baseline, own, own - baseline, intra, intra - baseline)))


def _first_round(stream: OccurrenceStream, progress: Progress | None) -> _Round:
    settings, view = stream.settings, stream.encoder.model_view
    dtype = torch.float64 if view.dtype == torch.float64 else torch.float32
    sizes = view.layers + 1, view.hidden_size, len(stream.sampling_plan.words)
    space = Space(*sizes, settings.draws, settings.seed, dtype)
    sums = CorpusSums(space)
    # map and not a loop: a variable would keep the last window in memory while the next one is summed.
    deque(map(sums.merge, stream.results(SumWindow(settings.prompt, space), "texts", progress)), maxlen=0)
    report_truncation(sums.counts.truncated, stream.total, stream.encoder.tokenizer.limit)
    return _Round(stream, space, sums)


def _second_round(first: _Round, progress: Progress | None) -> dict[str, Similarities]:
    """The similarities after each correction, which is fitted on all words of a layer."""
    stream, space = first.stream, first.space
    moments = [first.sums.moments.of(layer) for layer in range(space.layers)]
    center = torch.tensor(np.stack([mean for mean, _ in moments])[:, None], dtype=space.dtype)
    maps = {
        kind: LayerMap([fit_from_moments(kind, *one).matrix for one in moments], space.dtype) for kind in POSTPROCESSORS
    }
    task = SumCorrectedWindow(stream.settings.prompt, space, center, maps)
    sums = {kind: SimilaritySums(space) for kind in maps}

    def merge(window: dict[str, SimilaritySums]) -> None:
        for kind, each in window.items():
            sums[kind].merge(each)

    deque(map(merge, stream.results(task, "texts, corrected", progress)), maxlen=0)
    return {kind: _similarities(each, first.sums.counts, stream.settings) for kind, each in sums.items()}


def _measured(
    names: tuple[str, str],
    metadata: dict[str, int],
    first: _Round,
    corrected: dict[str, Similarities],
    progress: Progress | None,
) -> Geometry:
    """All measures of both rounds; ``names`` are those of the model and of the corpus."""
    settings, contributions = first.stream.settings, first.sums.similarities.contributions(first.sums.counts)
    layers, seed = len(contributions), settings.seed
    ticker = Ticker(progress, 2 * layers + first.stream.sampling_plan.sampled, "measures")
    words, variances = _variances(first, ticker)
    points, sentences = first.sums.samples.points.of()
    scores, ranks = _spectra(first.sums.moments, layers, ticker)
    dimension, clusters = [], []
    for layer in range(layers):
        dimension.append(two_nn(points[layer], seed))
        clusters.append(cluster_isotropy(points[layer], sentences, settings.clusters, seed))
        ticker.add()
    alignment = debiased_cka(points)
    ticker.close()
    raw = _similarities(first.sums.similarities, first.sums.counts, settings)
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
    sums, settings, plan = first.sums, first.stream.settings, first.stream.sampling_plan
    points, _ = sums.samples.points.of()
    own, chance = [], []
    for which in range(plan.sampled):
        vectors, _ = sums.samples.contexts.of(range(*map(int, plan.starts[which : which + 2])))
        n = vectors.shape[1]
        own.append(explained_variances(vectors) if n > 1 else np.full((len(VARIANTS), len(vectors)), np.nan))
        # A new draw for each word: five random words differ too much from the next five to take only one draw.
        count = min(max(n, 1), points.shape[1])
        chance.append(random_explained_variances(points, count, (settings.seed, which)))
        ticker.add()
    measured, by_chance = np.stack(own, axis=-1), np.stack(chance, axis=-1)
    similarity, contexts = sums.similarities.self_similarity(sums.counts), sums.counts.contexts
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
