"""Alignments against those of people: which methods find the words that correspond, and the words that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.data import AlignedPair, Dataset, read_alignments
from likewise.encoder import Encoder, takes_encoder
from likewise.encoder.forward import windows
from likewise.encoder.weights import identity
from likewise.encoder.workers import done_by_team
from likewise.errors import DataError, UsageError
from likewise.evaluation.link_metrics import (
    Discrete,
    Links,
    Scores,
    average_precision,
    f1,
    roc_auc,
    strongest_linked,
    tuned,
)
from likewise.explain.text_differences import CHANGED, UNMATCHED, Kinds, WordShares, kinds_of_words, word_shares
from likewise.explain.texts import TextInput
from likewise.explain.word_scores import DEFAULT_METHOD, Ledger, Method, Words, is_punctuation, methods_of, words_of
from likewise.metrics import Interval, bootstrap_means
from likewise.plotting.scatter import dot_panels
from likewise.progress import Progress, Ticker
from likewise.results import Column, Comparable, Figure, ResultSet, Table
from likewise.storage import FileCache, content_key, user_cache

Array = NDArray[np.float64]
METRICS = {"auc": roc_auc, "ap": average_precision, "top1": strongest_linked}
KINDS = ("EQUI", "SPE1", "SPE2", "SIMI", "REL", "OPPO")
SLOW = ("integrated-jacobian",)  # Methods that are left out unless they are named
WINDOW = 128  # Pairs of texts that are computed together; bounds the memory
CACHE_FORMAT = 1  # To be raised when the numbers of an explanation method change
MOST_CACHED_BYTES = 2**28  # The size of all cached scores
UNALIGNED = {"NOALI", "OPPO"}  # The links of words without a counterpart, or with one of the opposite meaning


@dataclass(frozen=True)
class PairedTest:
    """The chosen method minus another one, pair by pair: the mean difference of AUC and Wilcoxon's p."""

    difference: Interval
    wilcoxon: float


@dataclass(frozen=True)
class Detection:
    """How well flagged words are the words that differ."""

    precision: float
    recall: float
    f1: float
    words: int


@dataclass(frozen=True, eq=False, repr=False)
class AlignmentResult(Comparable):
    """Methods on one file of alignments: for each the AUC, AP, top1 and F1 of each pair of texts, (n,)."""

    name: str
    model: str
    n: int
    chosen: str
    values: Mapping[str, Mapping[str, Array]]
    kinds: Mapping[str, Mapping[str, Array]]  # AUC of the links of one type, by method
    discrete: Mapping[str, Discrete | None]  # how F1's links were made; None: by halves
    detections: Mapping[str, Detection]
    changed: Mapping[str, int]  # how many changed words have a link of each type
    train: tuple[str, ...] = ()
    skipped: int = 0

    @property
    def label(self) -> str:
        """The name of the file without its folder and its suffixes."""
        return Path(self.name).name.partition(".")[0] or self.name

    @property
    def best_layer(self) -> str | None:
        """The single layer of token cosines with the highest AUC on this very file."""
        layers = [name for name in self.values if name.startswith("layer-")]
        return max(layers, key=lambda name: float(np.nanmean(self.values[name]["auc"])), default=None)

    def means(self, name: str) -> dict[str, Interval]:
        """The mean of each metric with its bootstrap interval."""
        return {metric: _mean(values) for metric, values in self.values[name].items()}

    def tests(self) -> dict[str, PairedTest]:
        """The chosen method against each other one by AUC."""
        own = self.values[self.chosen]["auc"]
        return {name: _paired(own - found["auc"]) for name, found in self.values.items() if name != self.chosen}

    def to_dict(self) -> dict[str, Any]:
        """The mean of each metric by method, intervals, tests, and the words that differ."""
        methods, tests = {}, self.tests()
        for name in self.values:
            means, rule = self.means(name), self.discrete[name]
            found: dict[str, Any] = {metric: one.value for metric, one in means.items()}
            found |= {"intervals": {metric: [one.low, one.high] for metric, one in means.items()}}
            found |= {"links": None if rule is None else vars(rule)}
            found |= {"types": {kind: _value(values) for kind, values in self.kinds[name].items()}}
            if name in tests:
                one = tests[name].difference
                difference = {"difference": one.value, "interval": [one.low, one.high]}
                found |= {"chosen_minus_it": difference | {"wilcoxon": tests[name].wilcoxon}}
            methods[name] = found
        head = {"n": self.n, "chosen": self.chosen, "methods": methods, "best_layer": self.best_layer}
        differences = {name: vars(one) for name, one in self.detections.items()}
        origin = {"data": self.name, "train": list(self.train), "model": self.model, "skipped": self.skipped}
        return head | {"differences": differences, "changed_words": dict(self.changed)} | origin

    @property
    def title(self) -> str:
        """The heading of the page."""
        return "Which words correspond: methods against people"

    @property
    def notes(self) -> list[str]:
        """What the numbers are."""
        tuning = ", ".join(Path(name).name for name in self.train) or "the other half of the pairs"
        return [
            f"{self.label}, {self.model}: {self.n} pairs of texts; links for F1 are tuned on {tuning}."
            f" Chosen: {self.chosen}. Best single layer: {self.best_layer or 'not among the methods'}."
        ]

    @property
    def cautions(self) -> list[str]:
        """Skipped rows and pairs without an AUC."""
        without = int(np.isnan(self.values[self.chosen]["auc"]).sum())
        found = [f"{self.name}: bad rows skipped: {self.skipped}"] if self.skipped else []
        return [*found, *([f"{self.name}: pairs without links, which have no AUC: {without}"] if without else [])]

    def tables(self) -> dict[str, Table]:
        """Methods, best first; the AUC by type of link; and the words that differ."""
        order = sorted(self.values, key=lambda name: -_value(self.values[name]["auc"]))
        tests = self.tests()
        rows = [
            (self.label, name, *self.means(name).values(),
             *((tests[name].difference, tests[name].wilcoxon) if name in tests else (None, None)))
            for name in order
        ]  # fmt: skip
        metrics = [Column(name, heading, ".3f") for name, heading in HEADINGS.items()]
        compared = [Column("chosen_minus_it", f"{self.chosen} minus it", "+.3f"), Column("p", "p", ".1g")]
        present = [kind for kind in KINDS if any(kind in self.kinds[name] for name in order)]
        by_kind = [(self.label, name, *(_value(self.kinds[name][kind]) for kind in present)) for name in order]
        words = [(self.label, name, *vars(one).values()) for name, one in self.detections.items()]
        first = [Column("data"), Column("method")]
        return {
            "methods": Table.of([*first, *metrics, *compared], rows, "Methods by AUC, with 95 % intervals"),
            "types": Table.of(
                [*first, *(Column(kind, format=".3f") for kind in present)], by_kind, "AUC by type of link"
            ),
            "differences": Table.of(
                ["data", "flagged", *(Column(name, format=".3f") for name in ("precision", "recall", "F1")), "words"],
                words, "Words without a counterpart, or with one of the opposite meaning",
            ),
            "changed": Table.of(["data", "type", "words"], [(self.label, *row) for row in self.changed.items()],
                                "Links of the words that are called changed"),
        }  # fmt: skip

    @classmethod
    def figures_of(cls, results: Sequence[AlignmentResult]) -> dict[str, Figure]:
        """The AUC of every method on every file."""

        def draw() -> Any:
            rows = sorted(results[0].values, key=lambda name: -_value(results[0].values[name]["auc"]))
            panels = {one.label: {one.label: _dots([one.means(name)["auc"] for name in rows])} for one in results}
            return dot_panels(rows, panels, "ROC AUC of linked against other word pairs")

        return {"alignment": Figure(draw, "Agreement with people's alignments")}


HEADINGS = {"auc": "AUC", "ap": "AP", "top1": "top1", "f1": "F1"}


def _dots(found: Sequence[Interval]) -> tuple[list[float], list[float], list[float]]:
    return [one.value for one in found], [one.low for one in found], [one.high for one in found]


def _value(values: Array) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def _mean(values: Array) -> Interval:
    known = values[np.isfinite(values)]
    return bootstrap_means(known[None])[0] if len(known) else Interval(*[float("nan")] * 3)


def _paired(differences: Array) -> PairedTest:
    from scipy.stats import wilcoxon

    known = differences[np.isfinite(differences)]
    p = float(wilcoxon(known).pvalue) if len(known) > 1 and known.any() else 1.0
    return PairedTest(_mean(differences), p)


@takes_encoder
def evaluate_alignment(
    encoder: Encoder,
    pairs: Sequence[AlignedPair],
    name: str = "pairs",
    train: Mapping[str, Sequence[AlignedPair]] | None = None,
    methods: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> AlignmentResult:
    """Compare the scores of every method with the links that people made.

    The method is chosen, and links are tuned, on the ``train`` files. Without any, the method is that of ``align``, and
    each half of the pairs is tuned on the other half.

    >>> from likewise.data import WordLink
    >>> pairs = [AlignedPair(("A", "cat"), ("One", "cat"), (WordLink((1,), (1,), "EQUI"),), "1")] * 2
    >>> evaluate_alignment("minilm", pairs, methods=["equal-words"]).means("equal-words")["auc"].value
    1.0
    """
    return _Study(encoder, _chosen_methods(encoder, methods), progress).results({name: pairs}, train or {})[0]


def compare_alignments(
    encoder: Encoder,
    datasets: Sequence[Dataset],
    train: Sequence[Dataset] = (),
    methods: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> ResultSet[AlignmentResult]:
    """The same for several files; train files must be others."""
    again = {one.name for one in datasets} & {one.name for one in train}
    if again:
        raise UsageError(f"{min(again)} is a train file and a test file; give different files")
    names = _chosen_methods(encoder, methods)
    files, tuning = ({one.name: one.rows(read_alignments) for one in some} for some in (datasets, train))
    found = _Study(encoder, names, progress).results(files, tuning)
    return ResultSet(tuple(replace(one, skipped=files[one.name].skipped) for one in found))


def _chosen_methods(encoder: Encoder, names: Sequence[str] | None) -> tuple[str, ...]:
    known = methods_of(encoder)
    for name in names or ():
        if name not in known:
            raise UsageError(f"unknown method {name!r}; choose from {', '.join(known)}")
    return tuple(dict.fromkeys(names)) if names else tuple(name for name in known if name not in SLOW)


@dataclass(frozen=True)
class ScorePairs:
    """The task of a worker: the scores of every method for a window of pairs.

    Those of ledgers, which take minutes, are cached so that a stopped run goes on.
    """

    methods: tuple[str, ...]

    def __call__(
        self, encoder: Encoder, window: Sequence[AlignedPair], progress: Progress | None
    ) -> dict[str, list[Scores]]:
        """The scores by method."""
        cache = FileCache(user_cache() / "alignments", ".npz", MOST_CACHED_BYTES)
        methods = {name: method for name, method in methods_of(encoder).items() if name in self.methods}
        given = [identity(encoder), CACHE_FORMAT, [(pair.left, pair.right) for pair in window]]
        keys = {
            name: content_key(name, repr(method.source), *given)
            for name, method in methods.items() if isinstance(method.source, Ledger)
        }  # fmt: skip
        read = {name: cache.read(key, _stored_scores) for name, key in keys.items()}
        found = {name: scores for name, scores in read.items() if scores is not None}
        for name, scores in _scored(encoder, window, {one: methods[one] for one in methods if one not in found}):
            found[name] = scores
            if name in keys:
                cache.write(keys[name], partial(_store_scores, scores))
        cache.prune()
        Ticker(progress).add(len(window))
        return found


def _scored(
    encoder: Encoder, window: Sequence[AlignedPair], methods: Mapping[str, Method]
) -> Iterator[tuple[str, list[Scores]]]:
    words = words_of(
        encoder, [text for pair in window for text in text_inputs(pair)], {one.source for one in methods.values()}
    )
    for name, method in methods.items():
        own = words[method.source]
        sides = zip(own[::2], own[1::2], strict=True)
        yield name, [_on_words(method.between(*both), pair, *both) for both, pair in zip(sides, window, strict=True)]


@dataclass(frozen=True)
class _Study:
    """An encoder, the methods to compare, and where progress goes."""

    encoder: Encoder
    methods: tuple[str, ...]
    progress: Progress | None

    def results(
        self, files: Mapping[str, Sequence[AlignedPair]], train: Mapping[str, Sequence[AlignedPair]]
    ) -> list[AlignmentResult]:
        """A result for each file."""
        pairs = {**files, **train}
        for name, rows in pairs.items():
            if len(rows) < 2:
                raise DataError(f"{name}: an evaluation needs at least 2 pairs, got {len(rows)}")
        ticker = Ticker(self.progress, sum(map(len, pairs.values())), "pairs")
        scores = {name: self._scores(rows, ticker) for name, rows in pairs.items()}
        ticker.close()
        linked = {name: [pair.linked() for pair in rows] for name, rows in pairs.items()}
        chosen, rules = self._tuned({name: scores[name] for name in train}, linked)
        return [
            AlignmentResult(
                name, self.encoder.name, len(rows), chosen,
                {method: _measured(found, linked[name], rules.get(method)) for method, found in scores[name].items()},
                {method: _by_kind(found, rows) for method, found in scores[name].items()},
                {method: rules.get(method) for method in self.methods}, *self._detections(rows), tuple(train),
            )
            for name, rows in files.items()
        ]  # fmt: skip

    def _scores(self, pairs: Sequence[AlignedPair], ticker: Ticker) -> dict[str, list[Scores]]:
        """The scores of every method for every pair of texts."""
        found: dict[str, list[Scores]] = {name: [] for name in self.methods}
        for _, scored in done_by_team(self.encoder, ScorePairs(self.methods), windows(pairs, WINDOW), ticker):
            for name, scores in scored.items():
                found[name] += scores
        return found

    def _tuned(
        self, scores: Mapping[str, Mapping[str, list[Scores]]], linked: Mapping[str, list[Links]]
    ) -> tuple[str, dict[str, Discrete]]:
        """The method with the highest mean AUC over the train files, and the links of every method."""
        if not scores:
            return DEFAULT_METHOD if DEFAULT_METHOD in self.methods else self.methods[0], {}
        means = {
            method: np.mean([_value(_aucs(scores[name][method], linked[name])) for name in scores])
            for method in self.methods
        }
        truth = [cells for name in scores for cells in linked[name]]
        rules = {method: tuned([cells for name in scores for cells in scores[name][method]], truth) for method in means}
        return max(means, key=lambda method: means[method]), rules

    def _detections(self, pairs: Sequence[AlignedPair]) -> tuple[dict[str, Detection], Counter[str]]:
        """Words that differ, by ``differences`` and by having no equal word; and the types of changed words' links."""
        truth: list[bool] = []
        changed: Counter[str] = Counter()
        flagged: dict[str, list[bool]] = {name: [] for name in FLAGS}
        shares = word_shares(self.encoder, [text_inputs(pair) for pair in pairs])
        for pair, both in zip(pairs, shares, strict=True):
            kinds = kinds_of_words(self.encoder, *both)
            for side, rows in enumerate(_word_rows(pair, both, kinds)):
                for word, kind, equal in rows:
                    types = _types(pair, side, word)
                    truth.append(bool(types & UNALIGNED))
                    changed.update(types if kind == CHANGED else ())
                    for name, flag in FLAGS.items():
                        flagged[name].append(flag(kind, equal))
        found = {name: _detection(np.array(some), np.array(truth)) for name, some in flagged.items()}
        return found, changed


def _stored_scores(path: Path) -> list[Scores]:
    with np.load(path) as found:
        return [found[str(index)] for index in range(len(found.files))]


def _store_scores(scores: Sequence[Scores], path: Path) -> None:
    with path.open("wb") as stream:
        np.savez(stream, **{str(index): cells for index, cells in enumerate(scores)})  # type: ignore[arg-type]


FLAGS: dict[str, Callable[[str | None, bool], bool]] = {
    "unmatched": lambda kind, _: kind == UNMATCHED,
    "unmatched or changed": lambda kind, _: kind is not None,
    "no equal word": lambda _, equal: not equal,
}
"""Which words are taken to differ, by their kind and by whether the other text has the same word."""


def text_inputs(pair: AlignedPair) -> tuple[TextInput, TextInput]:
    """Both texts, grouped into the words of the file."""
    (left, right), (left_spans, right_spans) = pair.texts, pair.spans
    return TextInput(left, granularity=left_spans), TextInput(right, granularity=right_spans)


def _on_words(scores: Scores, pair: AlignedPair, left: Words, right: Words) -> Scores:
    """Scores (n, m) of the words of the file; a word that the tokenizer drops has the lowest one."""
    cells = np.full((len(pair.left), len(pair.right)), scores.min(initial=0.0) - 1)
    rows, columns = (
        [_word_index(spans, unit.start) for unit in words.units]
        for spans, words in zip(pair.spans, (left, right), strict=True)
    )
    cells[np.ix_(rows, columns)] = scores
    return cells


def _word_index(spans: Sequence[tuple[int, int]], start: int) -> int:
    """The word that a unit begins in."""
    return int(np.searchsorted([first for first, _ in spans], start, side="right")) - 1


def _word_rows(
    pair: AlignedPair, both: tuple[WordShares, WordShares], kinds: Kinds
) -> list[list[tuple[int, str | None, bool]]]:
    """The words of both texts, but for punctuation: index, kind, and whether the other text has the same word."""
    names = [{word.casefold() for word in words} for words in (pair.right, pair.left)]
    return [
        [(_word_index(spans, unit.start), kind, unit.text.casefold() in others)
         for unit, kind in zip(own.words.units, found, strict=True) if not is_punctuation(unit.text)]
        for spans, own, found, others in zip(pair.spans, both, kinds, names, strict=True)
    ]  # fmt: skip


def _types(pair: AlignedPair, side: int, word: int) -> set[str]:
    """The types of a word's links."""
    return {link.kind for link in pair.links if word in (link.right if side else link.left)}


def _detection(flagged: NDArray[np.bool_], truth: NDArray[np.bool_]) -> Detection:
    hits = int((flagged & truth).sum())
    precision, recall = hits / max(1, int(flagged.sum())), hits / max(1, int(truth.sum()))
    return Detection(precision, recall, 2 * hits / max(1, int(flagged.sum()) + int(truth.sum())), len(truth))


def _aucs(scores: Sequence[Scores], linked: Sequence[Links]) -> Array:
    return np.array([roc_auc(*pair) for pair in zip(scores, linked, strict=True)])


def _measured(scores: Sequence[Scores], linked: Sequence[Links], rule: Discrete | None) -> dict[str, Array]:
    """Every metric of every pair of texts, (n,) each."""
    found = {
        name: np.array([metric(*pair) for pair in zip(scores, linked, strict=True)]) for name, metric in METRICS.items()
    }
    rules = [rule] * 2 if rule is not None else [tuned(scores[1::2], linked[1::2]), tuned(scores[::2], linked[::2])]
    return found | {"f1": np.array([f1(rules[index % 2](cells), linked[index]) for index, cells in enumerate(scores)])}


def _by_kind(scores: Sequence[Scores], pairs: Sequence[AlignedPair]) -> dict[str, Array]:
    """The AUC of the links of one type against word pairs without a link, (n,) for each type that occurs."""
    found: dict[str, Array] = {}
    for kind in KINDS:
        values = []
        for cells, pair in zip(scores, pairs, strict=True):
            own, linked = pair.linked(kind), pair.linked()
            counts = own | ~linked
            values.append(roc_auc(cells[counts], own[counts]))
        found[kind] = np.array(values)
    return found
