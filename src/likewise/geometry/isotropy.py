"""Isotropy: whether corrections of anisotropy, such as whitening, improve STS and retrieval.

Corrections are fitted on texts without scores: on the texts that are measured (transductive), or on others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from likewise.data import Dataset, ScoredPair, SkippedRows
from likewise.encoder import Encoder, takes_encoder
from likewise.encoder.postprocessing import fit_from_moments, fit_postprocessing
from likewise.encoder.similarity import Vectors, paired_similarity, unit
from likewise.errors import DataError
from likewise.geometry.measures import expected_cosine, isoscore
from likewise.metrics import Array, Interval, bootstrap_draws, spearman
from likewise.plotting.scatter import Dots, dot_panels
from likewise.plotting.terminal import unique_labels
from likewise.progress import Progress
from likewise.results import Comparable, Figure, ResultSet, Table
from likewise.search.evaluation import EncodedRanker, RetrievalSource, RetrievalTask, dense_setting, evaluate_ranker
from likewise.search.recall import Setting, checked_ks

NONE = "none"
CUTS = (64, 128, 256)  # The dimensions that whitening cuts to, where the vectors have more
HIGH = 0.8  # A query's score is by default at least this part of the way from the lowest to the highest score


def isotropy_task(dataset: Dataset, fit: str | None = None, min_score: float | None = None) -> IsotropyTask:
    """Read pairs with scores, and the texts that the corrections are fitted on.

    ``fit`` is a file of pairs or texts, read in the same way; None: the texts of the pairs. Only pairs with at least
    ``min_score`` are queries; None: four fifths of the way up the scores.
    """
    pairs = dataset.scored_pairs()
    if len(pairs) < 2:
        raise DataError(f"{dataset.name}: a correlation needs at least 2 pairs, got {len(pairs)}")
    scores = [pair.score for pair in pairs]
    least = min(scores) + HIGH * (max(scores) - min(scores)) if min_score is None else min_score
    retrieval = RetrievalSource(dataset, min_score=least).read()
    skipped, fit_texts = SkippedRows(), None
    if fit is not None:
        fit_texts = list(dict.fromkeys(replace(dataset, name=fit, limit=None).sentences(skipped)))
    return IsotropyTask(dataset.name, pairs, retrieval, least, fit, fit_texts, pairs.skipped + skipped.count)


@dataclass(frozen=True, eq=False)
class IsotropyTask:
    """Pairs with scores, the pairs that are queries, and the texts that corrections are fitted on."""

    name: str
    pairs: Sequence[ScoredPair]
    retrieval: RetrievalTask
    min_score: float
    fit: str | None = None
    fit_texts: Sequence[str] | None = None  # None: those of the pairs
    skipped: int = 0  # bad rows

    @property
    def texts(self) -> list[str]:
        """The texts of the pairs, each once."""
        return list(dict.fromkeys(text for pair in self.pairs for text in (pair.left, pair.right)))

    def agreement(self, index: Mapping[str, int], vectors: Vectors) -> Array:
        """Spearman of cosines with scores, and of resampled pairs, the same for all vectors: (1 + DRAWS,)."""
        left, right = (vectors[[index[getattr(pair, side)] for pair in self.pairs]] for side in ("left", "right"))
        cosines, scores = paired_similarity(left, right), [pair.score for pair in self.pairs]
        return np.append(spearman(cosines, scores), bootstrap_draws("spearman", cosines, scores))


@dataclass(frozen=True)
class IsotropyOptions:
    """The corrections to compare, and the ranks of recall."""

    dims: tuple[int, ...] | None = None  # dimensions that whitening cuts to; None: 64, 128 and 256, if there are more
    remove: int | None = None  # directions that all-but-the-top removes; None: a hundredth of the dimensions
    ks: tuple[int, ...] = (1, 10)

    def __post_init__(self) -> None:
        checked_ks(self.ks)

    def corrections(self, width: int) -> list[tuple[str, int | None]]:
        """Kinds of post-processing with their ``dim``, for vectors of a width; rejects numbers that do not fit."""
        # A cut to all dimensions would repeat whitening in full.
        cuts = {dim for dim in CUTS if dim < width} if self.dims is None else set(self.dims) - {width}
        kinds = [("mean-removal", None), ("standardisation", None), ("all-but-the-top", self.remove)]
        kinds += [("whitening", None), *(("whitening", dim) for dim in sorted(cuts, reverse=True))]
        for kind, dim in kinds:
            # Each kind rejects what it cannot do, here and not after the encoding.
            fit_from_moments(kind, np.zeros(width), np.eye(width), dim)
        return kinds


@dataclass(frozen=True)
class CorrectedVectors:
    """The measures of vectors after a correction, or without one."""

    setting: str
    dim: int  # the width of the vectors
    baseline: float  # the expected cosine of two different texts
    isoscore: float
    spearman: Interval
    change: Interval  # how much Spearman is above that without a correction, on the same resampled pairs
    recall: dict[int, Interval]
    removed: int = 0  # directions that were removed

    @property
    def name(self) -> str:
        """A name that is unique among the settings of a model."""
        ending = f", {self.removed} removed" if self.removed else f", {self.dim}" if self.setting == "whitening" else ""
        return self.setting + ending

    def to_dict(self) -> dict[str, Any]:
        """Values by name, the 95 % intervals that there are under ``intervals``."""
        names = ("setting", "dim", "removed", "baseline", "isoscore")
        both = {"spearman": self.spearman, "change": self.change}
        return {
            **{name: getattr(self, name) for name in names},
            **{name: each.value for name, each in both.items()},
            "recall": {str(k): each.value for k, each in self.recall.items()},
            "intervals": {name: [each.low, each.high] for name, each in both.items()}
            | {"recall": {str(k): [each.low, each.high] for k, each in self.recall.items()}},
        }


@dataclass(frozen=True, repr=False)
class IsotropyStudy(Comparable):
    """One model before and after each correction."""

    data: str
    pooling_config: Setting  # the model and its pooling
    fit: str | None
    settings: tuple[CorrectedVectors, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """counts of pairs, texts, texts fitted on and queries, the lowest score of a query, cut texts, skipped rows"""

    @property
    def model(self) -> str:
        """The model's name."""
        return str(self.pooling_config.model)

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"Isotropy: {self.data}"

    @property
    def notes(self) -> list[str]:
        """What the numbers rest on."""
        counts = self.metadata
        fitted = f"{self.fit} ({counts['fit_texts']} texts)" if self.fit else "the same texts (transductive)"
        queries = f"{counts['queries']} pairs with a score of at least {counts['min_score']:g} are queries"
        return [
            f"{self.model} on {self.data}, n = {counts['n']}. Corrections fitted on {fitted}. {queries}, against"
            f" {counts['n']} left texts. Intervals: 95 %, bootstrap."
        ]

    @property
    def cautions(self) -> list[str]:
        """Skipped rows, cut texts, and too few texts for whitening."""
        found = []
        skipped, cut, texts = (self.metadata[name] for name in ("skipped", "truncated", "fit_texts"))
        if skipped or cut:
            found.append(f"{self.data}: bad rows skipped: {skipped}, texts cut at the limit: {cut}")
        width = self.settings[0].dim
        if texts <= width:
            # n points span n - 1 directions; whitened, all of them are equally far apart.
            found.append(
                f"{self.model}: {texts} texts cannot fill {width} dimensions, so full whitening makes all texts equally"
                " far apart; fit on more texts, or cut with --dim"
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Every setting, with what it rests on."""
        read = {name: value for name, value in self.pooling_config.to_dict().items() if name != "ranker"}
        about = {"data": self.data, **read, "fit": self.fit or self.data, "transductive": self.fit is None}
        return {**about, **self.metadata, "settings": [one.to_dict() for one in self.settings]}

    def tables(self) -> dict[str, Table]:
        """A row for each setting."""
        recall = [f"R@{k}" for k in self.settings[0].recall]
        header = ["model", "setting", "dim", "baseline", "IsoScore", "Spearman", "change", *recall]
        rows = [
            (self.model, one.name, one.dim, one.baseline, one.isoscore, one.spearman, one.change, *one.recall.values())
            for one in self.settings
        ]
        return {"isotropy": Table.of(header, rows)}

    @classmethod
    def figures_of(cls, results: Sequence[IsotropyStudy]) -> dict[str, Figure]:
        """Baseline, Spearman and recall at the first k: a row per setting, a colour per model."""
        names = list(dict.fromkeys(one.name for result in results for one in result.settings))
        first = next(iter(results[0].settings[0].recall))
        panels = {
            "cosine of two random texts": _dots(results, names, lambda one: one.baseline),
            "Spearman": _dots(results, names, lambda one: one.spearman),
            f"recall@{first}": _dots(results, names, lambda one: one.recall[first]),
        }
        title = f"{results[0].data}, corrections fitted on {results[0].fit or 'the same texts'}"
        draw = partial(dot_panels, names, panels, title)
        return {"isotropy": Figure(draw, "Baseline, Spearman and recall by setting")}


def _dots(
    results: Sequence[IsotropyStudy], names: Sequence[str], measure: Callable[[CorrectedVectors], float | Interval]
) -> dict[str, Dots]:
    """Each model's values in the order of the names; nan where a model lacks a setting."""
    drawn: dict[str, Dots] = {}
    for model, result in zip(unique_labels([one.model for one in results]), results, strict=True):
        found = {one.name: measure(one) for one in result.settings}
        each = [found.get(name, np.nan) for name in names]
        values, low, high = (
            [getattr(one, end) if isinstance(one, Interval) else one for one in each]
            for end in ("value", "low", "high")
        )
        drawn[model] = values, low, high
    return drawn


@takes_encoder
def study_isotropy(
    encoder: Encoder, task: IsotropyTask, options: IsotropyOptions | None = None, progress: Progress | None = None
) -> IsotropyStudy:
    """Encode each text once, then measure the vectors as they are and after each correction."""
    options = options or IsotropyOptions()
    kinds, pooling_config = options.corrections(encoder.dimension), dense_setting(encoder)
    texts = task.texts
    index = {text: row for row, text in enumerate(dict.fromkeys([*texts, *(task.fit_texts or ())]))}
    encoded = encoder.encode_with_stats(list(index), progress=progress)
    fitted_on = encoded.vectors[[index[text] for text in (texts if task.fit_texts is None else task.fit_texts)]]
    own = encoded.vectors[: len(texts)]
    plain = task.agreement(index, unit(own))

    def measured(setting: str, vectors: Vectors, removed: int = 0) -> CorrectedVectors:
        units = unit(vectors)
        ranker = EncodedRanker(units[[index[text] for text in task.retrieval.corpus.texts]], units, index)
        ranked = evaluate_ranker(ranker, task.retrieval, pooling_config, options.ks)
        covariance = np.atleast_2d(np.cov(vectors, rowvar=False, dtype=np.float64))
        isotropy, agreement = (expected_cosine(units), float(isoscore(covariance))), task.agreement(index, units)
        spearmans = _interval(agreement), _interval(agreement - plain)
        return CorrectedVectors(setting, vectors.shape[1], *isotropy, *spearmans, ranked.recall, removed)

    settings = [measured(NONE, own)]
    for kind, dim in kinds:
        fitted = fit_postprocessing(kind, fitted_on, dim)
        # The trace of a projection is the number of directions that it keeps.
        removed = len(fitted.center) - round(float(np.trace(fitted.matrix))) if kind == "all-but-the-top" else 0
        settings.append(measured(kind, fitted(own), removed))
    metadata = {
        "n": len(task.pairs), "texts": len(texts), "fit_texts": len(fitted_on), "queries": len(task.retrieval.queries),
        "min_score": task.min_score, "truncated": encoded.truncated, "skipped": task.skipped,
    }  # fmt: skip
    return IsotropyStudy(task.name, pooling_config, task.fit, tuple(settings), metadata)


def _interval(values: Array) -> Interval:
    """A value and its draws (1 + DRAWS,) -> the value with its 95 % interval."""
    known = values[1:][np.isfinite(values[1:])]
    low, high = np.percentile(known, [2.5, 97.5]) if len(known) else (np.nan, np.nan)
    return Interval(float(values[0]), float(low), float(high))


def compare_isotropy(
    task: IsotropyTask,
    models: Sequence[str],
    options: IsotropyOptions | None = None,
    load: Callable[[str], Encoder] = Encoder.load,
    progress: Progress | None = None,
) -> ResultSet[IsotropyStudy]:
    """Several models on the same pairs."""
    return ResultSet(tuple(study_isotropy(load(model), task, options, progress) for model in dict.fromkeys(models)))
