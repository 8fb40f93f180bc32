"""Faithfulness: does the model need the tokens that a method calls relevant?

Tokens enter an all-mask sequence from most to least relevant; the area under the distance of its pooled vector to
the full text's (AUPC) is small where the important ones come first (Vasileiou & Eberle 2024).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.encoder import Encoder
from likewise.encoder.batches import windows
from likewise.errors import DataError, UsageError
from likewise.evaluation.perturbation import FRACTIONS, Shown, shown_steps, shown_vectors
from likewise.explain.explanation import Explanation
from likewise.explain.methods import METHODS
from likewise.explain.pairs import TextPair, explain_many
from likewise.explain.settings import PLAIN
from likewise.plotting.curves import curves
from likewise.plotting.html import table
from likewise.progress import Progress, Ticker

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
"""What is compared: a method and its settings, by name. ``bilrp`` is as published, ``bilrp-filler`` the default."""

DEFAULT_VARIANTS = ("bilrp-filler", "bilrp", "bilrp-shared", "hxp", "embedding", "embedding-squared", "random")
DEFAULT, PUBLISHED = "bilrp-filler", "bilrp"
FILLERS = ("mask", "pad")
WINDOW = 64
"""Pairs whose perturbed texts are encoded together."""


@dataclass(frozen=True)
class PerturbationSettings:
    """How the perturbation test is run."""

    variants: tuple[str, ...] = DEFAULT_VARIANTS
    """the methods to compare"""
    rank_special: bool = False
    """special tokens are masked and ranked like the rest, instead of staying in place"""
    filler: str = "mask"
    """the token that hides others: mask or pad, or a blank where the tokenizer has no such token"""
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


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """Curves (pairs, fractions) of each method, and their areas (pairs,), both sides of a pair averaged.

    ``insertion`` and ``deletion`` hold the curves of the second-order test, where it was run.
    """

    model: str
    pooling: str
    curves: Mapping[str, Array]
    insertion: Mapping[str, Array] = field(default_factory=dict)
    deletion: Mapping[str, Array] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    """processor time that each method's explanations took"""

    @property
    def main(self) -> str:
        """The method that the others are tested against: the default one, else BiLRP as published."""
        return DEFAULT if DEFAULT in self.curves else PUBLISHED

    @property
    def areas(self) -> dict[str, Array]:
        """AUPC of each pair by method; lower is better."""
        return {name: area(found) for name, found in self.curves.items()}

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

    def rows(self) -> list[tuple[object, ...]]:
        """Method, pairs, mean AUPC, its deviation, what the main method has less, p by Wilcoxon and by t-test, time."""
        against = self.comparisons()
        rows = []
        for name, areas in sorted(self.areas.items(), key=lambda item: item[1].mean()):
            one = against.get(name)
            tests = ("", "", "") if one is None else (one.difference, f"{one.wilcoxon:.2g}", f"{one.t_test:.2g}")
            deviation = float(areas.std(ddof=1)) if len(areas) > 1 else 0.0
            rows.append(
                (name, len(areas), float(areas.mean()), deviation, *tests, round(self.seconds.get(name, 0.0), 1))
            )
        return rows

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns of ``rows``."""
        return (
            "method",
            "pairs",
            "AUPC",
            "deviation",
            f"{self.main} minus it",
            "p (Wilcoxon)",
            "p (t-test)",
            "seconds",
        )

    def second_order_rows(self) -> list[tuple[object, ...]]:
        """Method, area while pairs enter (lower is better) and while they leave (higher is better); best first."""
        return [
            (name, float(area(found).mean()), float(area(self.deletion[name]).mean()))
            for name, found in sorted(self.insertion.items(), key=lambda item: area(item[1]).mean())
        ]

    def to_dict(self) -> dict[str, Any]:
        """Means, deviations, tests and mean curves."""
        methods = {
            name: {"aupc": float(found.mean()), "deviation": float(found.std(ddof=1)) if len(found) > 1 else 0.0,
                   "curve": self.curves[name].mean(0).tolist(), "seconds": self.seconds.get(name)}
            for name, found in self.areas.items()
        }  # fmt: skip
        tests = {
            key: {name: vars(one) for name, one in self.comparisons(main).items()}
            for key, main in (("bilrp_against", PUBLISHED), ("default_against", DEFAULT))
        }
        second = {name: {"insertion": first, "deletion": then} for name, first, then in self.second_order_rows()}
        n = len(next(iter(self.curves.values())))
        metadata = {"model": self.model, "pooling": self.pooling, "n": n, "fractions": FRACTIONS.tolist()}
        return metadata | {"methods": methods} | tests | ({"second_order": second} if second else {})

    def plot(self, ax: Any = None) -> Any:
        """The mean distance by the share of tokens shown."""
        series = {f"{name} {area(found).mean():.2f}": _band(found) for name, found in self.curves.items()}
        labels = ("share of tokens shown", "distance to the full text")
        return curves(FRACTIONS, series, labels, f"{self.model}, {self.pooling}", ax)

    def plot_second_order(self, which: str = "insertion", ax: Any = None) -> Any:
        """The mean distance while pairs of tokens enter or leave."""
        found = self.insertion if which == "insertion" else self.deletion
        series = {f"{name} {area(each).mean():.2f}": _band(each) for name, each in found.items()}
        labels = ("share of tokens " + ("shown" if which == "insertion" else "masked"), "distance to the full text")
        return curves(FRACTIONS, series, labels, f"{which}, {self.model}", ax)

    def _repr_html_(self) -> str:
        return table(self.header, self.rows())


def _band(found: Array) -> tuple[Array, Array, Array]:
    """The mean curve and its 95 % interval over pairs."""
    mean, error = found.mean(0), 1.96 * found.std(0) / np.sqrt(len(found))
    return mean, mean - error, mean + error


def area(found: Array) -> Array:
    """Trapezoid area over the fractions: (pairs, fractions) -> (pairs,)."""
    return np.asarray(np.trapezoid(found, FRACTIONS, axis=-1))


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
    for window, explained in _explained(encoder, pairs, chosen, ticker, seconds):
        orders = {name: [_orders(one, chosen.rank_special) for one in rows] for name, rows in explained.items()}
        for name, curve in _distances(encoder, orders, ticker, chosen.filler).items():
            found["first"][name].append(curve)
        if chosen.second_order:
            for kind, deleting in (("insertion", False), ("deletion", True)):
                steps = {name: [pair_steps(one, deleting, chosen.rank_special) for one in rows]
                         for name, rows in explained.items()}  # fmt: skip
                for name, curve in _pair_distances(encoder, explained, steps, deleting, ticker, chosen.filler).items():
                    found[kind][name].append(curve)
        ticker.add(len(window))
    ticker.close()
    joined = {kind: {name: np.concatenate(parts) for name, parts in found[kind].items()} for kind in kinds}
    return Faithfulness(
        encoder.name, encoder.pooling_config.pooling, joined["first"], joined.get("insertion", {}), joined.get("deletion", {}),
        seconds,
    )  # fmt: skip


def _explained(
    encoder: Encoder,
    pairs: Sequence[TextPair],
    settings: PerturbationSettings,
    ticker: Ticker,
    seconds: dict[str, float],
) -> Iterator[tuple[list[TextPair], dict[str, list[Explanation]]]]:
    """Windows of pairs, each with its explanations by every variant, whose time is added to ``seconds``."""

    def heard(done: int, total: int | None, note: str) -> None:  # noqa: ARG001
        ticker.add(0)

    streams = {}
    for name in settings.variants:
        method, options = VARIANTS[name]
        chosen: dict[str, Any] = {"steps": settings.steps, "seed": settings.seed, **options}
        streams[name] = explain_many(encoder, pairs, method, progress=heard, **chosen)
    for window in windows(pairs, WINDOW):
        explained = {}
        for name, stream in streams.items():
            start = time.process_time()
            explained[name] = list(islice(stream, len(window)))
            seconds[name] += time.process_time() - start
        yield window, explained
    # One of them to its end, where it says how many texts were cut.
    next(next(iter(streams.values())), None)


@dataclass(frozen=True)
class _Order:
    """One side of a pair: its ids, the places that stay shown, and the others from most to least relevant."""

    ids: tuple[int, ...]
    kept: tuple[int, ...]
    order: tuple[int, ...]


def _orders(explanation: Explanation, rank_special: bool) -> tuple[_Order, _Order]:
    """Tokens of both sides by the sum of their row or column, signed, highest first."""
    sides = []
    for side, sums in (
        (explanation.left, explanation.relevance.sum(1)),
        (explanation.right, explanation.relevance.sum(0)),
    ):
        kept = () if rank_special else tuple(i for i, unit in enumerate(side.units) if unit.kind == "special")
        ranked = [int(index) for index in np.argsort(-sums, kind="stable") if int(index) not in kept]
        sides.append(_Order(side.ids, kept, tuple(ranked)))
    return sides[0], sides[1]


def _distances(
    encoder: Encoder, orders: Mapping[str, list[tuple[_Order, _Order]]], ticker: Ticker, filler: str
) -> dict[str, Array]:
    """Each variant's curves (pairs, fractions) while single tokens enter."""
    texts = {
        name: [Shown(one.ids, step) for pair in pairs for one in pair for step in shown_steps(one.order, one.kept)]
        for name, pairs in orders.items()
    }
    return _curves(encoder, texts, ticker, filler)


def _pair_distances(
    encoder: Encoder,
    explained: Mapping[str, list[Explanation]],
    steps: Mapping[str, list[list[tuple[frozenset[int], frozenset[int]]]]],
    deleting: bool,
    ticker: Ticker,
    filler: str,
) -> dict[str, Array]:
    """Each variant's curves (pairs, fractions) while the most relevant pairs of tokens enter or leave."""
    texts: dict[str, list[Shown]] = {name: [] for name in explained}
    for name, rows in explained.items():
        for one, shown in zip(rows, steps[name], strict=True):
            left, right = zip(*shown, strict=True)
            texts[name] += [Shown(one.left.ids, step) for step in left]
            texts[name] += [Shown(one.right.ids, step) for step in right]
    return _curves(encoder, texts, ticker, filler, full=0 if deleting else -1)


def _curves(
    encoder: Encoder, texts: Mapping[str, list[Shown]], ticker: Ticker, filler: str, full: int = -1
) -> dict[str, Array]:
    """The distance of each step's pooled vector to the full text's, both sides of a pair averaged.

    ``texts`` holds, by variant, the steps of the left text and of the right one for each pair; ``full`` is the step
    that shows everything. -> (pairs, fractions) by variant.
    """
    vectors = shown_vectors(encoder, [text for steps in texts.values() for text in steps], ticker, filler)
    steps = vectors.reshape(len(texts), -1, 2, len(FRACTIONS), vectors.shape[-1]).astype(np.float64)
    distances = np.linalg.norm(steps - steps[:, :, :, full][:, :, :, None], axis=-1).mean(2)
    return dict(zip(texts, distances, strict=True))


def pair_steps(
    explanation: Explanation, deleting: bool = False, rank_special: bool = False
) -> list[tuple[frozenset[int], frozenset[int]]]:
    """What is shown of both texts at each fraction, when token pairs enter (or leave) by relevance, strongest first.

    A pair brings both of its tokens; the fraction counts the tokens of both texts that have come.
    """
    free = [
        [index for index, unit in enumerate(side.units) if rank_special or unit.kind != "special"]
        for side in (explanation.left, explanation.right)
    ]
    kept = [frozenset(range(len(side.units))) - frozenset(own)
            for side, own in zip((explanation.left, explanation.right), free, strict=True)]  # fmt: skip
    arrivals = _arrivals(explanation.relevance[np.ix_(*free)])
    counts = np.floor(FRACTIONS * len(arrivals) + 0.5).astype(int)
    steps = []
    for count in counts:
        come = [frozenset(free[side][index] for at, index in arrivals[:count] if at == side) for side in (0, 1)]
        shown = [own | (frozenset(frees) - new if deleting else new)
                 for own, frees, new in zip(kept, free, come, strict=True)]  # fmt: skip
        steps.append((shown[0], shown[1]))
    return steps


def _arrivals(relevance: Array) -> list[tuple[int, int]]:
    """(side, token) in the order in which the strongest pairs bring them."""
    order = np.argsort(-relevance, axis=None, kind="stable")
    rows, columns = np.unravel_index(order, relevance.shape)
    met = dict.fromkeys(
        item for row, column in zip(rows, columns, strict=True) for item in ((0, int(row)), (1, int(column)))
    )
    # A side without free tokens leaves the other one to its own order.
    rest = [(side, index) for side in (0, 1) for index in range(relevance.shape[side])]
    return list(dict.fromkeys([*met, *rest]))
