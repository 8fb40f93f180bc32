"""The probability of a match, fitted to labelled pairs: the chosen curve, how good it is, and its document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.metrics import Interval
from likewise.plotting.curves import curves
from likewise.plotting.distributions import reliability_diagram
from likewise.results import Column, Table
from likewise.search.probability_curves import (
    Array,
    CurveQuality,
    ProbabilityCurve,
    ReliabilityBin,
    cross_validated,
    reliability_bins,
)
from likewise.search.thresholds import ScoredLabels

METHODS = ("isotonic", "logistic")
SHOWN_POINTS = 200


@dataclass(frozen=True, eq=False)
class MatchFit:
    """The probability of a match, fitted to labelled pairs, and how good it is on pairs that it was not fitted to."""

    data: ScoredLabels
    curve: ProbabilityCurve
    quality: Mapping[str, CurveQuality]  # of each method, cross-validated
    bins: tuple[ReliabilityBin, ...]  # of the chosen method, cross-validated
    match_from: float | None = None

    @classmethod
    def of(cls, data: ScoredLabels, seed: int = 0, match_from: float | None = None) -> MatchFit:
        """Fit every method; the one with the lowest cross-validated Brier score is chosen."""
        predicted = {kind: cross_validated(kind, data.scores, data.labels, seed) for kind in METHODS}
        quality = {kind: CurveQuality.of(found, data.labels, seed) for kind, found in predicted.items()}
        best = min(METHODS, key=lambda kind: quality[kind].brier.value)
        bins = tuple(reliability_bins(predicted[best], data.labels))
        return cls(data, ProbabilityCurve.fit(best, data.scores, data.labels), quality, bins, match_from)

    @property
    def base_brier(self) -> float:
        """The Brier score of the base rate."""
        return self.data.base_rate * (1 - self.data.base_rate)

    def gain(self, method: str) -> float:
        """How far the Brier score is below that of the base rate, as a share of it."""
        return 1 - self.quality[method].brier.value / self.base_brier

    def to_dict(self) -> dict[str, Any]:
        """The numbers, without the pairs."""
        methods = {
            kind: {
                "brier": document_of(one.brier), "log_loss": one.log_loss, "ece": one.calibration_error,
                "ece_by_chance": one.calibration_error_by_chance,
            }
            for kind, one in self.quality.items()
        }  # fmt: skip
        bins = [{"pairs": one.pairs, "predicted": one.predicted, "observed": document_of(one.observed)}
                for one in self.bins]  # fmt: skip
        return {
            "pairs": len(self.data.scores), "base_rate": self.data.base_rate, "match_from": self.match_from,
            "base_brier": self.base_brier, "chosen": self.curve.kind, "methods": methods, "reliability": bins,
        }  # fmt: skip

    def stored(self) -> dict[str, Any]:
        """Everything, the pairs included."""
        curve = {"knots": single_document(self.curve.knots), "values": self.curve.values.tolist()}
        data = {"scores": single_document(self.data.scores), "labels": "".join(map(str, self.data.labels.tolist()))}
        return self.to_dict() | {"curve": curve, "data": data}

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> MatchFit:
        """From its document."""
        labels = [int(one) for one in stored["data"]["labels"]]
        data = ScoredLabels.of(single_array(stored["data"]["scores"]), labels)
        numbers = ("log_loss", "ece", "ece_by_chance")
        quality = {
            kind: CurveQuality(interval_of(one["brier"]), *(float(one[name]) for name in numbers))
            for kind, one in stored["methods"].items()
        }
        bins = [
            ReliabilityBin(int(one["pairs"]), float(one["predicted"]), interval_of(one["observed"]))
            for one in stored["reliability"]
        ]
        knots = single_array(stored["curve"]["knots"])
        curve = ProbabilityCurve(stored["chosen"], knots, np.array(stored["curve"]["values"], dtype=np.float64))
        if curve.kind not in METHODS or curve.values.shape != (2 if curve.kind == "logistic" else len(knots),):
            raise ValueError
        if not (np.isfinite(knots).all() and np.isfinite(curve.values).all()):
            raise ValueError
        return cls(data, curve, {kind: quality[kind] for kind in METHODS}, tuple(bins), stored["match_from"])

    def method_table(self) -> Table:
        """Every method next to the base rate."""
        rows: list[tuple[object, ...]] = [("base rate", self.base_brier, None, None, None, None, "")]
        rows += [
            (kind, one.brier, self.gain(kind), one.log_loss, one.calibration_error, one.calibration_error_by_chance,
             "yes" if kind == self.curve.kind else "")
            for kind, one in self.quality.items()
        ]  # fmt: skip
        columns = (
            "method", Column("brier", "Brier score"), Column("below_base_rate", "below base rate", ".1%"),
            Column("log_loss"), Column("ece", "calibration error"), Column("ece_by_chance", "by chance"), "chosen",
        )  # fmt: skip
        note = "Each pair by a curve that was fitted without it. By chance: the error of exact probabilities."
        return Table.of(columns, rows, "Probability of a match, cross-validated", note)

    def bin_table(self) -> Table:
        """The bins of the reliability diagram."""
        rows = [(one.pairs, one.predicted, one.observed) for one in self.bins]
        return Table.of(("pairs", Column("predicted"), Column("observed")), rows, "Reliability", detail=True)

    def draw_reliability(self) -> Any:
        """The reliability diagram."""
        quality = self.quality[self.curve.kind]
        note = f"Brier score {quality.brier.value:.4f}\ncalibration error {quality.calibration_error:.4f}"
        observed = [(one.observed.value, one.observed.low, one.observed.high) for one in self.bins]
        predicted = [one.predicted for one in self.bins]
        return reliability_diagram(predicted, observed, ("predicted probability", "share of matches"), note)

    def draw_probability(self) -> Any:
        """The probability at every score."""
        across = np.linspace(self.data.scores[0], self.data.scores[-1], SHOWN_POINTS)
        ax = curves(across, {self.curve.kind: (self.curve(across), None, None)}, ("score", "probability of a match"))
        ax.set_ylim(0, 1)
        return ax


def interval_of(document: Any) -> Interval:
    """An interval from its document ``[value, low, high]``."""
    value, low, high = map(float, document)
    return Interval(value, low, high)


def document_of(interval: Interval) -> list[float]:
    """An interval as ``[value, low, high]``."""
    return [interval.value, interval.low, interval.high]


def single_document(values: Array) -> list[float]:
    """Single-precision numbers, which nine digits hold."""
    return [float(f"{value:.9g}") for value in values.tolist()]


def single_array(numbers: Any) -> Array:
    """What ``single_document`` wrote, to the last bit."""
    return np.array(numbers, dtype=np.float32).astype(np.float64)
