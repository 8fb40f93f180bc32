"""Faithfulness of explanations: the perturbation test and conservation.

Perturbation: does the model need the tokens that a method calls relevant? Conservation: does the summed relevance of a
text's tokens equal the sum of its vector's components?
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch

from likewise.encoder import Encoder, takes_encoder
from likewise.encoder.forward import windows
from likewise.encoder.pooling import Dense
from likewise.encoder.tokens import report_truncation
from likewise.errors import DataError, UsageError
from likewise.evaluation.perturbation import FRACTIONS, area, distance_curves
from likewise.explain.explanation import Explanation
from likewise.explain.linear_map import METHODS
from likewise.explain.pairs import TextPair, explain_many
from likewise.explain.settings import PLAIN
from likewise.explain.texts import contributions
from likewise.metrics import Array
from likewise.plotting.axes import grid_of_axes
from likewise.plotting.curves import curves
from likewise.plotting.scatter import identity_scatter
from likewise.progress import Progress, Ticker
from likewise.results import Column, Figure, Result, Table

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
SLOW = "integrated-jacobian"  # The slow method: it runs on fewer pairs, together with the baselines
FILLERS = ("mask", "pad")
WINDOW = 64  # Pairs whose perturbed texts are encoded together


@dataclass(frozen=True)
class PerturbationSettings:
    """The settings of the perturbation test."""

    variants: tuple[str, ...] = DEFAULT_VARIANTS  # the methods to compare
    rank_special: bool = False  # special tokens are masked and ranked like the rest; otherwise they stay in place
    filler: str = "mask"  # the token that masks others: mask or pad, or a blank where the tokenizer has no such token
    second_order: bool = False  # also insert and delete pairs of tokens, the strongest pairs first
    steps: int = 10  # points on the path of integrated Jacobians
    seed: int = 0

    def __post_init__(self) -> None:
        for what, given, known in (("method", self.variants, VARIANTS), ("filler", (self.filler,), FILLERS)):
            for name in given:
                if name not in known:
                    raise UsageError(f"unknown {what} {name!r}; choose from {', '.join(known)}")


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
    seconds: Mapping[str, float] = field(default_factory=dict)  # processor time of each method's explanations

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

        areas, found = self.areas, {}
        own = areas.pop(main or self.main, None)
        if own is None:
            return {}
        for name, others in areas.items():
            difference = own - others
            tests = [1.0, 1.0]
            if len(difference) > 1 and np.any(difference != 0):
                tests = [float(test(own, others).pvalue) for test in (wilcoxon, ttest_rel)]
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
        formats = {"p (Wilcoxon)": ".2g", "p (t-test)": ".2g", "seconds": ".1f"}
        tests = [Column(name, format=form) for name, form in formats.items()]
        names = ("method", "pairs", "AUPC", "deviation", f"{self.main} minus it")
        areas = [(name, pair, float(value)) for name, found in self.areas.items() for pair, value in enumerate(found)]
        steps = [
            (name, float(fraction), float(value))
            for name, curve in self.curves.items()
            for fraction, value in zip(FRACTIONS, curve.mean(0), strict=True)
        ]
        both = [Column("insertion", "insertion, lower is better"), Column("deletion", "deletion, higher is better")]
        second = Table.of(["method", *both], self._second_order_rows(), "Pairs of tokens, the strongest first")
        return {
            "methods": Table.of((*names, *tests), self._method_rows(), "Methods, lowest area first"),
            **({"second_order": second} if self.insertion else {}),
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
        for which, verb in (("insertion", "enter"), ("deletion", "leave")) if self.insertion else ():
            found[which] = Figure(partial(self.plot_second_order, which), f"Distance while pairs {verb}")
        return found

    def plot(self, ax: Any = None) -> Any:
        """The mean distance by the share of tokens shown."""
        return _drawn(self.curves, "shown", f"{self.model}, {self.pooling}", ax)

    def plot_second_order(self, which: str = "insertion", ax: Any = None) -> Any:
        """The mean distance while pairs of tokens enter or leave."""
        found, verb = (self.insertion, "shown") if which == "insertion" else (self.deletion, "masked")
        return _drawn(found, verb, f"{which}, {self.model}", ax)


def _deviation(areas: Array) -> float:
    return float(areas.std(ddof=1)) if len(areas) > 1 else 0.0


def _drawn(found: Mapping[str, Array], verb: str, title: str, ax: Any) -> Any:
    """The mean curve of each method, its 95 % interval over pairs, and its area in the legend."""
    series = {}
    for name, each in found.items():
        mean, error = each.mean(0), 1.96 * each.std(0) / np.sqrt(len(each))
        series[f"{name} {area(each).mean():.2f}"] = (mean, mean - error, mean + error)
    return curves(FRACTIONS, series, (f"share of tokens {verb}", "distance to the full text"), title, ax)


@dataclass(frozen=True, eq=False)
class ConservationPanel:
    """Sums of vectors' components (n,) and what a method's contributions sum to (n,)."""

    name: str
    components: Array
    relevance: Array

    @property
    def r2(self) -> float:
        """1 minus the squared distance from the identity line over the components' own spread."""
        spread = float(((self.components - self.components.mean()) ** 2).sum())
        missed = float(((self.components - self.relevance) ** 2).sum())
        return 1 - missed / spread if spread > 0 else float("nan")


@dataclass(frozen=True, eq=False, repr=False)
class Conservation(Result):
    """Four panels: HxP; BiLRP; BiLRP in the model with every bias set to zero; BiLRP with the bias row."""

    model: str
    panels: tuple[ConservationPanel, ...]

    def to_dict(self) -> dict[str, Any]:
        """R^2 of each panel against the identity line."""
        r2 = {one.name: one.r2 for one in self.panels}
        return {"model": self.model, "n": len(self.panels[0].components), "r2": r2}

    def plot(self) -> Any:
        """The four panels in one figure; returns the first Axes."""
        axes = grid_of_axes(len(self.panels))
        labels = ("sum of the vector's components", "summed relevance")
        for panel, ax in zip(self.panels, axes, strict=True):
            identity_scatter(panel.components, panel.relevance, labels, panel.name, f"R² = {panel.r2:.4f}", ax)
        return axes[0]

    def tables(self) -> dict[str, Table]:
        """R² of each panel; every text's point for files."""
        r2 = [(one.name, one.r2) for one in self.panels]
        points = [
            (one.name, float(across), float(up))
            for one in self.panels
            for across, up in zip(one.components, one.relevance, strict=True)
        ]
        return {
            "conservation_r2": Table.of(["panel", Column("r2", "R² to the identity")], r2, "Conservation"),
            "conservation": Table.of(["panel", "components", "relevance"], points, detail=True),
        }

    def figures(self) -> dict[str, Figure]:
        """The four panels."""
        return {"conservation": Figure(self.plot, "Summed relevance against the vector's components")}


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


@takes_encoder
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
    kinds = ("tokens", "insertion", "deletion") if chosen.second_order else ("tokens",)
    found: dict[str, dict[str, list[Array]]] = {kind: {name: [] for name in chosen.variants} for kind in kinds}
    seconds = dict.fromkeys(chosen.variants, 0.0)
    truncated: dict[str, bool] = {}
    for explained in explained_windows(encoder, pairs, chosen, ticker, seconds):
        first = next(iter(explained.values()))
        truncated |= {side.text: side.truncated for one in first for side in (one.left, one.right)}
        for kind in kinds:
            drawn = distance_curves(encoder, explained, kind, chosen.rank_special, chosen.filler, ticker)
            for name, curve in drawn.items():
                found[kind][name].append(curve)
        ticker.add(len(first))
    ticker.close()
    report_truncation(sum(truncated.values()), len(truncated), encoder.tokenizer.limit)
    joined = {kind: {name: np.concatenate(parts) for name, parts in found[kind].items()} for kind in kinds}
    second = joined.get("insertion", {}), joined.get("deletion", {})
    return Faithfulness(encoder.name, encoder.pooling_config.pooling, joined["tokens"], *second, seconds)


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


@takes_encoder
def conservation(encoder: Encoder, texts: Sequence[str], progress: Progress | None = None) -> Conservation:
    """Sum the relevance of each text's tokens and compare with its pooled vector, before any Normalize.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> [panel.name for panel in conservation(encoder, ["A cat sat.", "It rains."]).panels]
    ['HxP', 'BiLRP', 'BiLRP, biases set to zero', 'BiLRP with the bias row']
    """
    if len(texts) < 2:
        raise DataError(f"conservation needs at least 2 texts, got {len(texts)}")
    plain = encoder.with_pooling(normalize=False)
    ticker = Ticker(progress, 3 * len(texts), "texts")
    hxp = contributions(plain, texts, method="hxp", progress=ticker.part(), **PLAIN)
    bilrp = contributions(plain, texts, progress=ticker.part(), **PLAIN)
    zero = contributions(without_biases(plain), texts, progress=ticker.part(), **PLAIN)
    ticker.close()
    named = {"HxP": hxp, "BiLRP": bilrp, "BiLRP, biases set to zero": zero, "BiLRP with the bias row": bilrp}
    panels = []
    for name, found in named.items():
        parts = ("vector", "values", "bias") if name.endswith("bias row") else ("vector", "values")
        vector, *relevance = (np.array([getattr(one, part).sum(dtype=np.float64) for one in found]) for part in parts)
        panels.append(ConservationPanel(name, vector, np.add.reduce(relevance)))
    return Conservation(encoder.name, tuple(panels))


def without_biases(encoder: Encoder) -> Encoder:
    """A copy of the encoder in which every bias is zero, of linear maps, norms and heads."""
    # Together, so that the views look at the copied weights.
    model, view = copy.deepcopy((encoder.model, encoder.model_view))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                weight.zero_()
    heads = tuple(Dense(head.weight, None, head.activation) for head in encoder.modules_config.heads)
    config = replace(encoder.modules_config, heads=heads)
    return replace(encoder, model=model, model_view=view, modules_config=config, postprocessing=None)


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
