"""Calibration: what a score means in a corpus, as a percentile of unrelated pairs and as a probability of a match."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from likewise.data import ScoredPair
from likewise.encoder import Encoder, as_encoder
from likewise.encoder.encoder import Source
from likewise.errors import DataError, UsageError
from likewise.metrics import Interval
from likewise.plotting.distributions import histograms
from likewise.progress import Progress
from likewise.results import Column, Figure, Result, Table
from likewise.search.hits import ScoreMeaning
from likewise.search.match_probability import MatchFit, document_of, interval_of, single_array, single_document
from likewise.search.thresholds import ScoredLabels
from likewise.search.unrelated import Array, ScoredCorpus, percentile_ranks, quantile_intervals, unrelated_pairs
from likewise.storage import write_text

if TYPE_CHECKING:
    from likewise.search.index import Index

FORMAT = 1
LEVELS = (0.5, 0.9, 0.95, 0.99, 0.999)
KINDS = ("precision", "recall", "probability", "percentile")  # of thresholds
TARGETS = (("precision", 0.9), ("recall", 0.9))


def _check_share(kind: str, value: float) -> None:
    if not 0 < value < 1:
        raise UsageError(f"a {kind} is between 0 and 1, got {value:g}")


@dataclass(frozen=True)
class CalibrationSettings:
    """How a calibration is made.

    >>> CalibrationSettings(match_from=4).seed
    0
    """

    match_from: float | None = None  # pairs with at least this score are a match; None: scores are 0 and 1
    texts: int = 20_000  # the most texts of the corpus that are drawn
    pairs: int = 50_000  # the most unrelated pairs
    seed: int = 0
    targets: tuple[tuple[str, float], ...] = TARGETS  # thresholds in the tables, such as ("precision", 0.9)

    def __post_init__(self) -> None:
        if self.texts < 1 or self.pairs < 1000:
            raise UsageError(f"a calibration draws 1,000 unrelated pairs or more, got {self.pairs}")
        for kind, value in self.targets:
            _check_share(kind, value)


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Result):
    """What scores mean in one corpus by one model.

    >>> from likewise.sample import sample_sentences
    >>> print(calibrate("minilm", sample_sentences()).meaning(0.43))
    above 99.8 % of unrelated pairs
    """

    depends: Mapping[str, Any]  # everything that a score depends on; ``corpus`` is a fingerprint of the texts
    corpus: str  # a name
    unrelated: Array  # the scores (n,) of unrelated pairs, rising
    quantiles: Mapping[float, Interval]
    texts: int  # the different texts that pairs were drawn from
    duplicates: int  # texts that were left out as duplicates
    queries: int | None = None  # how many queries were the left texts; None: texts of the corpus
    match: MatchFit | None = None
    seed: int = 0
    targets: tuple[tuple[str, float], ...] = TARGETS
    skipped: int = field(default=0, compare=False)  # bad rows of the file of pairs

    def percentile(self, score: float) -> float:
        """The share of unrelated pairs with a lower score, from 0 to 1."""
        return float(self.percentiles([score])[0])

    def percentiles(self, scores: ArrayLike) -> Array:
        """The same for scores (n,)."""
        return percentile_ranks(self.unrelated, _numbers(scores))

    def probability(self, score: float) -> float | None:
        """The probability of a match; None if the calibration had no labelled pairs."""
        return None if self.match is None else float(self.match.curve(_numbers([score]))[0])

    def probabilities(self, scores: ArrayLike) -> Array:
        """The same for scores (n,); without labelled pairs this is a UsageError."""
        return self.required_match().curve(_numbers(scores))

    def meaning(self, score: float) -> ScoreMeaning:
        """What a score means: its percentile, and the probability of a match where it is known."""
        return self.meanings([score])[0]

    def meanings(self, scores: ArrayLike) -> list[ScoreMeaning]:
        """The same for scores (n,)."""
        percentiles = self.percentiles(scores).tolist()
        if self.match is None:
            return [ScoreMeaning(one) for one in percentiles]
        return [ScoreMeaning(*both) for both in zip(percentiles, self.probabilities(scores).tolist(), strict=True)]

    def threshold(self, **wanted: float) -> Interval:
        """The score for one of ``precision``, ``recall``, ``probability`` or ``percentile``, with its 95 % interval.

        The first three need labelled pairs.
        """
        if len(wanted) != 1 or not wanted.keys() <= set(KINDS):
            raise UsageError(f"give one of {', '.join(KINDS)}, such as precision=0.9")
        [(kind, value)] = wanted.items()
        _check_share(kind, value)
        if kind == "percentile":
            return self._quantile(value)
        match = self.required_match()
        if kind == "precision":
            return match.data.precision_threshold(value)
        if kind == "recall":
            return match.data.recall_threshold(value)
        return match.data.probability_threshold(value, match.curve)

    def _quantile(self, level: float) -> Interval:
        """A quantile of unrelated scores; between the measured levels the widths of their intervals are interpolated.

        It is never narrower than the interval of independent pairs, which alone counts beyond the last level.
        """
        if level in self.quantiles:
            return self.quantiles[level]
        from scipy.stats import binom

        count, known = len(self.unrelated), self.quantiles.values()
        found = float(np.quantile(self.unrelated, level, method="inverted_cdf"))
        widths = ([one.value - one.low for one in known], [one.high - one.value for one in known])
        under, over = (float(np.interp(level, list(self.quantiles), each)) for each in widths)
        low, high = (int(np.clip(end, 0, count - 1)) for end in binom.ppf([0.025, 0.975], count, level))
        return Interval(found, min(found - under, self.unrelated[low]), max(found + over, self.unrelated[high]))

    def required_match(self) -> MatchFit:
        """The fit to labelled pairs; a UsageError if there were none."""
        if self.match is None:
            cure = f"likewise calibrate {self.corpus} --pairs FILE"
            raise UsageError(f"the calibration has no labelled pairs; calibrate with some: {cure}")
        return self.match

    def save(self, folder: Path | str, run: Mapping[str, Any] | None = None) -> Path:
        """Write the calibration to a file that ends with .json; to a folder, write its tables, figures and page."""
        path = Path(folder)
        if path.suffix != ".json":
            return super().save(path, run)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(self._stored()))
        return path

    def _stored(self) -> dict[str, Any]:
        return {
            "format": FORMAT, "depends": dict(self.depends), "corpus": self.corpus, "texts": self.texts,
            "duplicates": self.duplicates, "queries": self.queries, "seed": self.seed, "targets": self.targets,
            "quantiles": [[level, *document_of(one)] for level, one in self.quantiles.items()],
            "unrelated": single_document(self.unrelated), "match": None if self.match is None else self.match.stored(),
        }  # fmt: skip

    @classmethod
    def load(cls, path: Path | str) -> Calibration:
        """Read what ``save`` wrote."""
        try:
            stored = json.loads(Path(path).read_bytes())
            version = stored["format"]
            found = cls._read(stored) if version == FORMAT else None
        except FileNotFoundError:
            raise DataError(f"{path}: no such file; make a calibration with: likewise calibrate") from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, DataError) as error:
            raise DataError(f"{path} is damaged or no calibration; make one with: likewise calibrate") from error
        if found is None:
            raise DataError(f"{path} has format {version!r}, this version reads {FORMAT}; calibrate again")
        return found

    @classmethod
    def _read(cls, stored: Mapping[str, Any]) -> Calibration:
        unrelated = single_array(stored["unrelated"])
        targets = tuple((str(kind), float(value)) for kind, value in stored["targets"])
        is_rising = unrelated.ndim == 1 and len(unrelated) > 0 and (np.diff(unrelated) >= 0).all()
        if not is_rising or not np.isfinite(unrelated).all() or not {kind for kind, _ in targets} <= set(KINDS):
            raise ValueError
        return cls(
            dict(stored["depends"]), str(stored["corpus"]), unrelated,
            {float(level): interval_of(ends) for level, *ends in stored["quantiles"]}, int(stored["texts"]),
            int(stored["duplicates"]), stored["queries"],
            None if stored["match"] is None else MatchFit.read(stored["match"]), int(stored["seed"]), targets,
        )  # fmt: skip

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"What scores mean in {self.corpus}"

    @property
    def notes(self) -> list[str]:
        """What was measured on what."""
        asked = "" if self.queries is None else f" with {self.queries:,} queries"
        found = [
            f"{len(self.unrelated):,} unrelated pairs of {self.texts:,} different texts{asked}, by"
            f" {self.depends['model']} ({self.depends['similarity']}), seed {self.seed}."
        ]
        if self.duplicates:
            found.append(f"{self.duplicates:,} texts are left out because another one is equal but for case and marks.")
        if self.match is not None:
            count, rate = len(self.match.data.scores), self.match.data.base_rate
            found.append(
                f"{count:,} labelled pairs, {rate:.1%} of them matches. Probabilities and precisions hold for pairs"
                " like these: where matches are rarer, both are lower."
            )
        return found

    @property
    def cautions(self) -> list[str]:
        """Skipped rows, and wanted thresholds that do not exist."""
        found = [f"bad rows of pairs skipped: {self.skipped}"] if self.skipped else []
        return found + [flaw for *_, flaw in self._targets() if flaw]

    def _targets(self) -> list[tuple[str, float, Interval | None, str]]:
        """Each wanted threshold: its kind, the wanted value, the threshold or None, and why there is none."""
        found: list[tuple[str, float, Interval | None, str]] = []
        for kind, value in self.targets if self.match is not None else ():
            try:
                found.append((kind, value, self.threshold(**{kind: value}), ""))
            except UsageError as error:
                found.append((kind, value, None, str(error)))
        return found

    def to_dict(self) -> dict[str, Any]:
        """The quantiles, the quality of probabilities, and the wanted thresholds."""
        names = ("model", "model_sha256", "similarity", "query_prompt", "document_prompt")
        quantiles = [{"level": level, "score": document_of(one)} for level, one in self.quantiles.items()]
        thresholds = [
            {"wanted": {kind: value}, "threshold": None if one is None else document_of(one)}
            for kind, value, one, _ in self._targets()
        ]
        return {
            "corpus": self.corpus, **{name: self.depends[name] for name in names}, "texts": self.texts,
            "duplicates": self.duplicates, "queries": self.queries, "seed": self.seed,
            "unrelated": {"pairs": len(self.unrelated), "mean": float(self.unrelated.mean()), "quantiles": quantiles},
            "match": None if self.match is None else self.match.to_dict() | {"thresholds": thresholds},
        }  # fmt: skip

    def tables(self) -> dict[str, Table]:
        """Quantiles of unrelated scores; with labelled pairs the methods, the thresholds and the bins."""
        rows = [(f"{100 * level:g} %", one) for level, one in self.quantiles.items()]
        title = "Scores of unrelated pairs, with bootstrap 95 % intervals"
        found = {"unrelated": Table.of([Column("level", "above"), Column("score")], rows, title)}
        if self.match is None:
            return found
        return found | {"methods": self.match.method_table(), "thresholds": self._threshold_table(self.match),
                        "reliability": self.match.bin_table()}  # fmt: skip

    def _threshold_table(self, match: MatchFit) -> Table:
        rows = [
            (f"{kind} {value:g}", one, match.data.precision(one.value), match.data.recall(one.value),
             match.data.above(one.value)[0])
            for kind, value, one, _ in self._targets() if one is not None
        ]  # fmt: skip
        columns = ("wanted", Column("threshold"), Column("precision", format=".3f"), Column("recall", format=".3f"),
                   "pairs_above")  # fmt: skip
        return Table.of(columns, rows, "Thresholds, with 95 % intervals")

    def figures(self) -> dict[str, Figure]:
        """The distribution of unrelated scores; with labelled pairs the reliability diagram and the probability."""
        note = "Dashed: the scores above 50, 95 and 99 % of unrelated pairs, with their 95 % intervals."
        found = {"unrelated": Figure(self._draw_scores, "Scores of unrelated pairs", note)}
        if self.match is not None:
            match, kind = self.match, self.match.curve.kind
            reliability = f"The {kind} curve, cross-validated, in {len(match.bins)} bins of equal mass."
            found["reliability"] = Figure(match.draw_reliability, "Reliability diagram", reliability)
            curve = "The probability holds for pairs like the labelled ones."
            found["probability"] = Figure(match.draw_probability, "Probability of a match", curve)
        return found

    def _draw_scores(self) -> Any:
        samples = {"unrelated pairs": self.unrelated}
        if self.match is not None:
            data = self.match.data
            samples |= {"labelled, no match": data.scores[data.labels == 0], "match": data.scores[data.labels == 1]}
        marks = {
            f"{100 * level:g} %": (one.value, one.low, one.high)
            for level, one in self.quantiles.items() if level in (0.5, 0.95, 0.99)
        }  # fmt: skip
        return histograms(samples, marks, (str(self.depends["similarity"]), "density"))


def calibrate(
    source: Encoder | Source | Index, texts: Iterable[Any] | None = None,
    pairs: Sequence[ScoredPair] | None = None, settings: CalibrationSettings | None = None, *,
    queries: Sequence[str] | None = None, progress: Progress | None = None,
) -> Calibration:  # fmt: skip
    """Measure what scores mean: in an index, or among texts by a model with its own prompts and cosines.

    ``pairs`` have labels 0 and 1 as scores, or other scores with ``settings.match_from``; the left text is the query.
    ``queries`` stand in for texts of the corpus as the left texts of unrelated pairs.

    >>> from likewise.sample import sample_sentences
    >>> found = calibrate("minilm", sample_sentences())
    >>> found.percentile(0.9) > 0.999, found.probability(0.9)
    (True, None)
    """
    corpus, settings = _corpus(source, texts), settings or CalibrationSettings()
    # Before anything is encoded, so that a wrong file costs no time.
    labels = None if pairs is None else _labels(pairs, settings.match_from)
    drawn = unrelated_pairs(corpus, (settings.texts, settings.pairs), settings.seed, queries, progress)
    levels = quantile_intervals(drawn.scores, drawn.texts, LEVELS, seed=settings.seed)
    match = None
    if pairs is not None and labels is not None:
        data = ScoredLabels.of(pair_scores(corpus, pairs, progress), labels)
        match = MatchFit.of(data, settings.seed, settings.match_from)
    asked = None if queries is None else len(np.unique(drawn.texts[:, 0]))
    return Calibration(
        {**corpus.settings, "corpus": corpus.state}, corpus.name, np.sort(drawn.scores),
        dict(zip(LEVELS, levels, strict=True)), drawn.different, drawn.duplicates, asked, match, settings.seed,
        settings.targets, getattr(pairs, "skipped", 0),
    )  # fmt: skip


def _corpus(source: Any, texts: Iterable[Any] | None) -> ScoredCorpus:
    if hasattr(source, "store"):
        if texts is not None:
            raise UsageError("an index has its own texts; leave the texts out")
        return ScoredCorpus.of_index(source)
    if texts is None:
        raise UsageError("a model needs texts to be calibrated on; give some, or an index")
    return ScoredCorpus.of_texts(as_encoder(source), texts)


def _labels(pairs: Sequence[ScoredPair], match_from: float | None) -> Array:
    """1 for each match."""
    scores = np.array([pair.score for pair in pairs], dtype=np.float64)
    if match_from is not None:
        scores = (scores >= match_from).astype(np.float64)
    elif not np.isin(scores, (0, 1)).all():
        other = scores[~np.isin(scores, (0, 1))][0]
        cure = "say from which score on a pair is a match, for example --match-from 4"
        raise DataError(f"labels are 0 and 1, but there is a pair with {other:g}; {cure}")
    ScoredLabels.of(np.arange(len(scores)), scores)  # rejects a file with one class only
    return scores


def pair_scores(corpus: ScoredCorpus, pairs: Sequence[ScoredPair], progress: Progress | None = None) -> Array:
    """The score of each pair (n,) as a search scores it: the left text is the query."""
    queries, texts = [pair.left for pair in pairs], [pair.right for pair in pairs]
    if corpus.one_prompt:
        both = corpus.cached_vectors([*queries, *texts], "document", progress)
        sides = [both[: len(pairs)], both[len(pairs) :]]
    else:
        sides = [corpus.cached_vectors(*side, progress) for side in ((queries, "query"), (texts, "document"))]
    scores: Array = np.einsum("nd,nd->n", *sides).astype(np.float64)
    return scores


def _numbers(scores: ArrayLike) -> Array:
    found = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(found).all():
        raise DataError("a score is not a number; check the model's vectors")
    return found
