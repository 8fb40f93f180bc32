"""Claims of the calibration, in one run, with the bundled model on Quora's questions (which it saw in training):

- fitted on one half of the pairs, the probability of a match has on the other half an expected calibration error below
  0.02 over 15 bins of equal mass, and a Brier score at least 30 % below that of the base rate;
- nominal 95 % intervals of a threshold hold its true value in at least 90 of 100 resamples, with a mean width of at
  most 0.05. The true value is that of all pairs; a resample draws half as many pairs from them, with replacement;
- percentiles of 2,000 fresh unrelated pairs are uniform: the p-value of a Kolmogorov-Smirnov test is above 0.01 in at
  least 28 of 30 draws (with e5 too, if its folder is given: its queries have a prompt of their own);
- nominal 95 % intervals of the quantiles of unrelated pairs hold the quantile of the whole corpus in at least 90 of
  100 corpora of 300 texts.

The intervals of thresholds by a percentile bootstrap are measured for comparison.

    python bench/calibration.py [--pairs cs224n/quora-dev] [--data-dir ../shared/data] [--limit 20212] [--resamples 100]

"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kstest

from likewise.data import Dataset, ScoredPair
from likewise.encoder import Encoder
from likewise.encoder.similarity import Vectors
from likewise.metrics import Interval
from likewise.progress import Progress
from likewise.sample import sample_sentences
from likewise.search import Index
from likewise.search.calibration import calibrate, pair_scores
from likewise.search.probability_curves import CurveQuality, ProbabilityCurve
from likewise.search.thresholds import ScoredLabels
from likewise.search.unrelated import ScoredCorpus, quantile_intervals, unrelated_pairs

SEEDS = range(5)
DRAWS_OF_FRESH = range(30)
FRESH = 2000
TARGETS = (("precision", 0.6), ("precision", 0.7), ("precision", 0.8), ("precision", 0.9),
           ("recall", 0.8), ("recall", 0.9), ("recall", 0.95), ("probability", 0.5), ("probability", 0.7))  # fmt: skip
CLAIMS: list[tuple[str, bool]] = []


def claim(text: str, holds: bool) -> None:
    """Print a number with its claim."""
    CLAIMS.append((text, holds))
    print(f"  {'holds' if holds else 'FAILS'}  {text}", flush=True)


def halves(scores: NDArray[np.float64], labels: NDArray[np.float64]) -> None:
    """Fit on one half, test on the other, for several splits."""
    print("halves: fitted on one, tested on the other")
    for seed in SEEDS:
        order = np.random.default_rng(seed).permutation(len(scores))
        half, rest = order[: len(order) // 2], order[len(order) // 2 :]
        base = float(np.mean((labels[rest] - labels[half].mean()) ** 2))
        for kind in ("isotonic", "logistic"):
            predicted = ProbabilityCurve.fit(kind, scores[half], labels[half])(scores[rest])
            found = CurveQuality.of(predicted, labels[rest])
            gain, error = 1 - found.brier.value / base, found.calibration_error
            text = (
                f"seed {seed}, {kind}: calibration error {error:.4f} (by chance"
                f" {found.calibration_error_by_chance:.4f}), Brier {found.brier.value:.4f}, {gain:.1%} below {base:.4f}"
            )
            if kind == "isotonic":
                claim(text, error < 0.02 and gain >= 0.3)
            else:
                print(f"         {text}")


def threshold_of(data: ScoredLabels, kind: str, wanted: float) -> Interval:
    """The threshold of a target; of a probability by the isotonic curve."""
    if kind == "probability":
        return data.probability_threshold(wanted, ProbabilityCurve.fit("isotonic", data.scores, data.labels))
    return data.precision_threshold(wanted) if kind == "precision" else data.recall_threshold(wanted)


def coverage(every: ScoredLabels, resamples: int) -> None:
    """How often the interval of a resample holds the threshold of all pairs."""
    print(f"thresholds: {resamples} resamples of {len(every.scores) // 2} pairs, and of 2,000 for comparison")
    for kind, wanted in TARGETS:
        for size in (len(every.scores) // 2, 2000):
            true, rng, found = threshold_of(every, kind, wanted).value, np.random.default_rng(1), []
            for _ in range(resamples):
                rows = rng.integers(0, len(every.scores), size)
                found.append(threshold_of(ScoredLabels.of(every.scores[rows], every.labels[rows]), kind, wanted))
            held = sum(one.low <= true <= one.high for one in found) / resamples
            width = float(np.mean([one.high - one.low for one in found]))
            text = f"{kind} {wanted}, {size} pairs: {true:.4f} is covered in {held:.0%}, mean width {width:.4f}"
            if size == 2000:
                print(f"         {text}")
            else:
                claim(text, held >= 0.9 and width <= 0.05)


def bootstrap_coverage(every: ScoredLabels, resamples: int, draws: int = 100) -> None:
    """The same by a percentile bootstrap, which was not chosen."""
    print("thresholds by a percentile bootstrap")
    for kind, wanted in (("precision", 0.7), ("precision", 0.8), ("probability", 0.5)):
        true, rng, found = threshold_of(every, kind, wanted).value, np.random.default_rng(1), []
        for _ in range(resamples):
            rows = rng.integers(0, len(every.scores), len(every.scores) // 2)
            drawn = [bootstrapped(every, rng.choice(rows, len(rows)), kind, wanted) for _ in range(draws)]
            found.append(np.percentile(drawn, [2.5, 97.5]))
        held = np.mean([low <= true <= high for low, high in found])
        print(f"         {kind} {wanted}: covered in {held:.0%}, mean width {np.mean(np.diff(found)):.4f}", flush=True)


def bootstrapped(every: ScoredLabels, rows: NDArray[np.int64], kind: str, wanted: float) -> float:
    """The threshold itself on some rows."""
    data = ScoredLabels.of(every.scores[rows], every.labels[rows])
    if kind == "probability":
        return ProbabilityCurve.fit("isotonic", data.scores, data.labels).inverse(wanted)
    return data.precision_threshold(wanted).value


class CachedCorpus(ScoredCorpus):
    """A corpus that encodes each query once, however often pairs are drawn."""

    def vectors(self, texts: Sequence[str], role: str, progress: Progress | None = None) -> Vectors:
        """From the cache where they are known."""
        known: dict[tuple[str, str], Any] = vars(self).setdefault("known", {})
        missing = [text for text in dict.fromkeys(texts) if (role, text) not in known]
        if missing:
            known |= zip([(role, text) for text in missing], super().vectors(missing, role, progress), strict=True)
        return np.array([known[role, text] for text in texts])


def uniformity(name: str, encoder: Encoder, texts: list[str]) -> None:
    """Percentiles of fresh unrelated pairs against the uniform distribution, for many draws of fresh pairs."""
    index = Index.from_texts(encoder, texts)
    known, corpus = calibrate(index), CachedCorpus.of_index(index)
    fresh = [unrelated_pairs(corpus, (20_000, FRESH), seed=100 + seed).scores for seed in DRAWS_OF_FRESH]
    found = [float(kstest(known.percentiles(scores), "uniform").pvalue) for scores in fresh]
    low = sum(p <= 0.01 for p in found)
    # Exactly uniform percentiles are rejected in one of a hundred draws too.
    text = f"{name}: p > 0.01 in {len(found) - low} of {len(found)} draws of {FRESH} fresh pairs"
    claim(f"{text}, median p = {np.median(found):.2f}, least {min(found):.3f}", low <= 2)


def quantile_coverage(encoder: Encoder, texts: list[str], resamples: int) -> None:
    """How often the quantile of a small corpus has the whole corpus's in its interval."""
    vectors = encoder.encode(texts)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rng = np.random.default_rng(3)
    i, j = rng.integers(0, len(texts), (2, 2_000_000))
    every = np.einsum("nd,nd->n", vectors[i[i != j]], vectors[j[i != j]])
    levels = (0.5, 0.95, 0.99)
    true, pairs = np.quantile(every, levels), np.column_stack(np.triu_indices(300, 1))
    held = np.zeros(3)
    for _ in range(resamples):
        some = vectors[rng.choice(len(texts), 300, replace=False)]
        scores = np.einsum("nd,nd->n", some[pairs[:, 0]], some[pairs[:, 1]]).astype(float)
        found = quantile_intervals(scores, pairs, levels, draws=200)
        held += [one.low <= value <= one.high for one, value in zip(found, true, strict=True)]
    for level, share in zip(levels, held / resamples, strict=True):
        claim(f"quantile {level} of {len(texts)} texts from 300: covered in {share:.0%}", share >= 0.9)


def probabilities(encoder: Encoder, pairs: list[ScoredPair], resamples: int) -> None:
    """The claims about labelled pairs."""
    began = time.perf_counter()
    scores = pair_scores(ScoredCorpus.of_texts(encoder, []), pairs)
    labels = np.array([pair.score for pair in pairs])
    print(f"{len(pairs)} pairs, {labels.mean():.1%} match, scored in {time.perf_counter() - began:.0f} s", flush=True)
    every = ScoredLabels.of(scores, labels)
    timed(halves, scores, labels)
    timed(coverage, every, resamples)
    timed(bootstrap_coverage, every, resamples)


def timed(work: Callable[..., None], *arguments: object) -> None:
    """Run and print the seconds."""
    began = time.perf_counter()
    work(*arguments)
    print(f"  ({time.perf_counter() - began:.0f} s)", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", default="cs224n/quora-dev")
    parser.add_argument("--data-dir", type=Path, default=Path("../shared/data"))
    parser.add_argument("--limit", type=int)
    parser.add_argument("--resamples", type=int, default=100)
    parser.add_argument("--e5", type=Path, default=Path("../shared/models/e5-small"))
    parser.add_argument("--only-percentiles", action="store_true")
    options = parser.parse_args()
    encoder = Encoder.load("minilm", device="cpu", threads=1)
    pairs = Dataset(options.pairs, data_dir=options.data_dir, limit=options.limit).scored_pairs()
    if not options.only_percentiles:
        probabilities(encoder, pairs, options.resamples)
    questions = list(dict.fromkeys(pair.left for pair in pairs))[:4000]
    print("percentiles of fresh unrelated pairs")
    timed(uniformity, "sample/sentences", encoder, sample_sentences())
    timed(uniformity, "4,000 questions", encoder, questions)
    if options.e5.is_dir():
        timed(uniformity, "1,000 questions, e5", Encoder.load(str(options.e5), device="cpu"), questions[:1000])
    print("quantiles of unrelated pairs")
    timed(quantile_coverage, encoder, questions, options.resamples)
    failed = [text for text, holds in CLAIMS if not holds]
    print(f"{len(CLAIMS) - len(failed)} of {len(CLAIMS)} claims hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
