"""Faithfulness: does the model need the tokens that a method calls relevant? Perturbation test and conservation."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.encoder import Encoder
from likewise.encoder.batches import windows
from likewise.encoder.encoder import report_truncation
from likewise.errors import DataError, UsageError
from likewise.evaluation.conservation import Conservation, conservation
from likewise.evaluation.perturbation import FRACTIONS, area, pair_curves, token_curves
from likewise.explain.explanation import Explanation
from likewise.explain.linear_map import METHODS
from likewise.explain.pairs import TextPair, explain_many
from likewise.explain.settings import PLAIN
from likewise.plotting.curves import curves
from likewise.progress import Progress, Ticker
from likewise.results import Column, Figure, Result, Table

Array = NDArray[np.float64]

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in METHODS},
    "bilrp": ("bilrp", PLAIN),
    "bilrp-filler": ("bilrp", {"bias": "separate", "reference": "filler"}),
    **{
        f"bilrp-{bias}{end}": ("bilrp", {"bias": bias, "reference": reference})
        for bias in ("local", "traced", "shared")
        for end, reference in (("", "none"), ("-filler", "filler"))
    },
    "bilrp-attention-norm": ("bilrp", {"rules": ("attention", "norm")}),
}
"""The variants to compare: a method and its settings. ``bilrp`` is as published, ``bilrp-filler`` the default."""

DEFAULT_VARIANTS = ("bilrp-filler", "bilrp", "bilrp-shared", "hxp", "embedding", "embedding-squared", "random")
DEFAULT, PUBLISHED = "bilrp-filler", "bilrp"
SLOW = "integrated-jacobian"
"""The slow method: it runs on fewer pairs, together with the baselines."""
FILLERS = ("mask", "pad")
WINDOW = 64
"""Pairs whose perturbed texts are encoded together."""


@dataclass(frozen=True)
class PerturbationSettings:
    """The settings of the perturbation test."""

    variants: tuple[str, ...] = DEFAULT_VARIANTS
    """the methods to compare"""
    rank_special: bool = False
    """special tokens are masked and ranked like the rest; otherwise they stay in place"""
    filler: str = "mask"
    """the token that masks others: mask or pad, or a blank where the tokenizer has no such token"""
    second_order: bool = False
    """also insert and delete pairs of tokens, the strongest pairs first"""
    steps: int = 10
    """points on the path of integrated Jacobians"""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.variants:
            if name not in VARIANTS:
                raise UsageError(f"unknown method {name!r}; choose from {', '.join(VARIANTS)}")
        if self.filler not in FILLERS:
            raise UsageError(f"unknown filler {self.filler!r}; choose from {', '.join(FILLERS)}")


@dataclass(frozen=True)
class PairedTests:
    """The main method and another one on the same pairs: the mean difference and two paired tests of it."""

    difference: float
    wilcoxon: float
    t_test: float


@dataclass(frozen=True, eq=False, repr=False)
class Faithfulness(Result):
    """Curves (pairs, fractions) of each method and their areas (pairs,), averaged over both sides of a pair.

    ``insertion`` and ``deletion`` hold the curves of the second-order test, where it was run.
    """

    model: str
    pooling: str
    curves: Mapping[str, Array]
    insertion: Mapping[str, Array] = field(default_factory=dict)
    deletion: Mapping[str, Array] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    """processor time of each method's explanations"""

    @property
    def main(self) -> str:
        """The method that the others are tested against: the default one, else BiLRP as published."""
        return DEFAULT if DEFAULT in self.curves else PUBLISHED

    @property
    def areas(self) -> dict[str, Array]:
        """AUPC of each pair by method; lower is better."""
        return {name: area(found) for name, found in self.curves.items()}

    @property
    def n(self) -> int:
        """The number of pairs."""
        return len(next(iter(self.curves.values())))

    def comparisons(self, main: str | None = None) -> dict[str, PairedTests]:
        """The main method against each other one, pair by pair; a negative difference is in its favour."""
        from scipy.stats import ttest_rel, wilcoxon

        areas, chosen = self.areas, main or self.main
        found = {}
        for name, others in areas.items():
            if name == chosen or chosen not in areas:
                continue
            own = areas[chosen]
            difference = own - others
            tests = (1.0, 1.0)
            if len(own) > 1 and np.any(difference != 0):
                tests = float(wilcoxon(own, others).pvalue), float(ttest_rel(own, others).pvalue)
            found[name] = PairedTests(float(difference.mean()), *tests)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Means, deviations, tests and mean curves."""
        methods = {
            name: {"aupc": float(found.mean()), "deviation": _deviation(found),
                   "curve": self.curves[name].mean(0).tolist(), "seconds": self.seconds.get(name)}
            for name, found in self.areas.items()
        }  # fmt: skip
        tests = {
            key: {name: vars(one) for name, one in self.comparisons(main).items()}
            for key, main in (("bilrp_against", PUBLISHED), ("default_against", DEFAULT))
        }
        second = {name: {"insertion": first, "deletion": then} for name, first, then in self._second_order_rows()}
        head = {"model": self.model, "pooling": self.pooling, "n": self.n, "fractions": FRACTIONS.tolist()}
        return head | {"methods": methods} | tests | ({"second_order": second} if second else {})

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"Faithfulness: {self.model}"

    @property
    def notes(self) -> list[str]:
        """What the numbers are."""
        return [
            f"{self.model}, pooling {self.pooling}, {self.n} pairs. AUPC is the area under the distance to the full"
            " text while tokens enter by relevance; lower is better."
        ]

    def tables(self) -> dict[str, Table]:
        """Methods, and where it was run the second-order test; every pair's area and the mean curves for files."""
        tests = [Column("p (Wilcoxon)", format=".2g"), Column("p (t-test)", format=".2g")]
        header: tuple[str | Column, ...] = (
            "method", "pairs", "AUPC", "deviation", f"{self.main} minus it", *tests, Column("seconds", format=".1f")
        )  # fmt: skip
        areas = [(name, pair, float(value)) for name, found in self.areas.items() for pair, value in enumerate(found)]
        steps = [
            (name, float(fraction), float(value))
            for name, curve in self.curves.items()
            for fraction, value in zip(FRACTIONS, curve.mean(0), strict=True)
        ]
        columns = [
            Column("method"), Column("insertion", "insertion, lower is better"),
            Column("deletion", "deletion, higher is better"),
        ]  # fmt: skip
        pairs = {"second_order": Table.of(columns, self._second_order_rows(), "Pairs of tokens, the strongest first")}
        return {
            "methods": Table.of(header, self._method_rows(), "Methods, lowest area first"),
            **(pairs if self.insertion else {}),
            "areas": Table.of(["method", "pair", "aupc"], areas, detail=True),
            "curves": Table.of(["method", "fraction", "distance"], steps, detail=True),
        }

    def _method_rows(self) -> list[tuple[object, ...]]:
        against = self.comparisons()
        rows: list[tuple[object, ...]] = []
        for name, areas in sorted(self.areas.items(), key=lambda item: item[1].mean()):
            tests = vars(against[name]).values() if name in against else (None, None, None)
            seconds = round(self.seconds.get(name, 0.0), 1)
            rows.append((name, len(areas), float(areas.mean()), _deviation(areas), *tests, seconds))
        return rows

    def _second_order_rows(self) -> list[tuple[str, float, float]]:
        """Method and areas while pairs enter (lower is better) and leave (higher is better); best first."""
        return [
            (name, float(area(found).mean()), float(area(self.deletion[name]).mean()))
            for name, found in sorted(self.insertion.items(), key=lambda item: area(item[1]).mean())
        ]

    def figures(self) -> dict[str, Figure]:
        """Mean curves of all methods."""
        found = {"curves": Figure(self.plot, "Distance while tokens enter")}
        if self.insertion:
            found["insertion"] = Figure(lambda: self.plot_second_order("insertion"), "Distance while pairs enter")
            found["deletion"] = Figure(lambda: self.plot_second_order("deletion"), "Distance while pairs leave")
        return found

    def plot(self, ax: Any = None) -> Any:
        """The mean distance by the share of tokens shown."""
        return _drawn(self.curves, "shown", f"{self.model}, {self.pooling}", ax)

    def plot_second_order(self, which: str = "insertion", ax: Any = None) -> Any:
        """The mean distance while pairs of tokens enter or leave."""
        is_insertion = which == "insertion"
        found = self.insertion if is_insertion else self.deletion
        return _drawn(found, "shown" if is_insertion else "masked", f"{which}, {self.model}", ax)


def _deviation(areas: Array) -> float:
    return float(areas.std(ddof=1)) if len(areas) > 1 else 0.0


def _drawn(found: Mapping[str, Array], verb: str, title: str, ax: Any) -> Any:
    """The mean curve of each method, its 95 % interval over pairs, and its area in the legend."""
    series = {}
    for name, each in found.items():
        mean, error = each.mean(0), 1.96 * each.std(0) / np.sqrt(len(each))
        series[f"{name} {area(each).mean():.2f}"] = (mean, mean - error, mean + error)
    return curves(FRACTIONS, series, (f"share of tokens {verb}", "distance to the full text"), title, ax)


@dataclass(frozen=True, eq=False, repr=False)
class FaithfulnessStudy(Result):
    """The perturbation test on all pairs, that of the slow method on fewer, and conservation."""

    faithfulness: Faithfulness
    slow: Faithfulness | None = None
    conservation: Conservation | None = None

    @property
    def title(self) -> str:
        """The heading of the page."""
        return self.faithfulness.title

    @property
    def notes(self) -> list[str]:
        """What the numbers are."""
        return self.faithfulness.notes

    @property
    def _parts(self) -> list[tuple[str, Result]]:
        """All parts, each with the prefix of its tables and figures."""
        parts = (("", self.faithfulness), ("slow_", self.slow), ("", self.conservation))
        return [(prefix, part) for prefix, part in parts if part is not None]

    def to_dict(self) -> dict[str, Any]:
        """The test on all pairs, the others under ``slow`` and ``conservation``."""
        parts = {"slow": self.slow, "conservation": self.conservation}
        return self.faithfulness.to_dict() | {name: part.to_dict() for name, part in parts.items() if part is not None}

    def tables(self) -> dict[str, Table]:
        """The tables of all parts."""
        return {f"{prefix}{name}": one for prefix, part in self._parts for name, one in part.tables().items()}

    def figures(self) -> dict[str, Figure]:
        """The figures of all parts."""
        return {f"{prefix}{name}": one for prefix, part in self._parts for name, one in part.figures().items()}


def faithfulness(
    encoder: Encoder,
    pairs: Sequence[TextPair],
    settings: PerturbationSettings | None = None,
    progress: Progress | None = None,
) -> Faithfulness:
    """Run the perturbation test on pairs of texts, for several methods.

    >>> from likewise.data import Pair
    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> settings = PerturbationSettings(("bilrp", "random"))
    >>> sorted(faithfulness(encoder, [Pair("A cat sat.", "A dog ran.", "1")], settings).areas)
    ['bilrp', 'random']
    """
    chosen = settings or PerturbationSettings()
    if not pairs:
        raise DataError("the perturbation test needs at least one pair")
    ticker = Ticker(progress, len(pairs), "pairs")
    kinds = ("first", "insertion", "deletion") if chosen.second_order else ("first",)
    found: dict[str, dict[str, list[Array]]] = {kind: {name: [] for name in chosen.variants} for kind in kinds}
    seconds = dict.fromkeys(chosen.variants, 0.0)
    truncated: dict[str, bool] = {}
    for explained in explained_windows(encoder, pairs, chosen, ticker, seconds):
        first = next(iter(explained.values()))
        truncated |= {side.text: side.truncated for one in first for side in (one.left, one.right)}
        for kind in kinds:
            how = (chosen.rank_special, chosen.filler, ticker)
            curves_of = (
                token_curves(encoder, explained, *how)
                if kind == "first"
                else pair_curves(encoder, explained, kind == "deletion", *how)
            )
            for name, curve in curves_of.items():
                found[kind][name].append(curve)
        ticker.add(len(first))
    ticker.close()
    report_truncation(sum(truncated.values()), len(truncated), encoder.tokenizer.limit)
    joined = {kind: {name: np.concatenate(parts) for name, parts in found[kind].items()} for kind in kinds}
    second = joined.get("insertion", {}), joined.get("deletion", {})
    return Faithfulness(encoder.name, encoder.pooling_config.pooling, joined["first"], *second, seconds)


def explained_windows(
    encoder: Encoder,
    pairs: Sequence[TextPair],
    settings: PerturbationSettings,
    ticker: Ticker,
    seconds: dict[str, float],
) -> Iterator[dict[str, list[Explanation]]]:
    """Explanations by variant, for one window of pairs after the other; adds the processor time to ``seconds``."""

    def alive(done: int, total: int | None, note: str) -> None:  # noqa: ARG001
        ticker.add(0)

    streams = {}
    for name in settings.variants:
        method, options = VARIANTS[name]
        chosen: dict[str, Any] = {"steps": settings.steps, "seed": settings.seed, **options}
        streams[name] = explain_many(encoder, pairs, method, progress=alive, **chosen)
    for window in windows(pairs, WINDOW):
        explained = {}
        for name, stream in streams.items():
            start = time.process_time()
            explained[name] = list(islice(stream, len(window)))
            seconds[name] += time.process_time() - start
        yield explained


def study_faithfulness(
    encoder: Encoder,
    pairs: Sequence[TextPair],
    settings: PerturbationSettings,
    slow_pairs: int = 300,
    sentences: int = 300,
    progress: Progress | None = None,
) -> FaithfulnessStudy:
    """Run all tests; ``slow_pairs`` is the number of pairs for the slow method, ``sentences`` that of conservation."""
    texts = list(dict.fromkeys(text for pair in pairs for text in (pair.left, pair.right)))[:sentences]
    if sentences and len(texts) < 2:
        raise DataError(f"conservation needs at least 2 texts, got {len(texts)}; leave it out with --sentences 0")
    fast = tuple(name for name in settings.variants if name != SLOW)
    found = [faithfulness(encoder, pairs, replace(settings, variants=fast), progress)] if fast else []
    if SLOW in settings.variants:
        with_baselines = replace(settings, variants=("bilrp", "random", SLOW))
        found.append(faithfulness(encoder, pairs[:slow_pairs], with_baselines, progress))
    conserved = conservation(encoder, texts, progress) if sentences else None
    return FaithfulnessStudy(found[0], found[1] if len(found) > 1 else None, conserved)
