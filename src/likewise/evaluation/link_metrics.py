"""How scores of word pairs agree with links that people made: per pair of texts, arrays -> floats.

Scores and links are (n, m) matrices: n words of one text, m words of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
Links = NDArray[np.bool_]
GRID = 80  # Thresholds that are tried


def roc_auc(scores: Scores, linked: Links) -> float:
    """The chance that a linked word pair scores above one that is not linked; ties count half. nan without either.

    >>> roc_auc(np.array([[0.9, 0.1], [0.3, 0.2]]), np.array([[True, False], [False, True]]))
    0.75
    """
    from scipy.stats import rankdata

    linked = linked.ravel()
    positive, negative = int(linked.sum()), int((~linked).sum())
    if not positive or not negative:
        return float("nan")
    above = rankdata(scores.ravel())[linked].sum() - positive * (positive + 1) / 2
    return float(above / (positive * negative))


def average_precision(scores: Scores, linked: Links) -> float:
    """The mean precision at each linked word pair, best scores first; equal scores enter together. nan without links.

    >>> average_precision(np.array([[0.9, 0.1]]), np.array([[False, True]]))
    0.5
    """
    values, found = scores.ravel(), linked.ravel()
    if not found.any():
        return float("nan")
    order = np.argsort(-values, kind="stable")
    hits = np.cumsum(found[order])
    # The last of equal scores stands for all of them.
    ends = np.flatnonzero(np.append(np.diff(values[order]) != 0, True))
    gained = np.diff(hits[ends], prepend=0)
    return float((gained * hits[ends] / (ends + 1)).sum() / hits[-1])


def strongest_linked(scores: Scores, linked: Links) -> float:
    """The share of linked words, of both texts, whose strongest partner is a linked one; nan without links.

    >>> strongest_linked(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([[True, False], [False, True]]))
    0.75
    """
    found = []
    for cells, links in ((scores, linked), (scores.T, linked.T)):
        rows = np.flatnonzero(links.any(1))
        best = cells[rows] == cells[rows].max(1, keepdims=True)
        # Of several strongest partners, the share of linked ones.
        found.append((best & links[rows]).sum(1) / best.sum(1))
    both = np.concatenate(found)
    return float(both.mean()) if len(both) else float("nan")


def f1(predicted: Links, linked: Links) -> float:
    """The F1 of predicted links; 1 if there are none and none are predicted.

    >>> f1(np.array([[True, True]]), np.array([[True, False]])) == 2 / 3
    True
    """
    total = int(predicted.sum()) + int(linked.sum())
    return 2 * int((predicted & linked).sum()) / total if total else 1.0


def every(scores: Scores) -> Links:
    """Any pair of words may be a link."""
    return np.ones(scores.shape, dtype=np.bool_)


def best_of_either(scores: Scores) -> Links:
    """The best partners of a left word, and those of a right word."""
    return np.asarray((scores >= scores.max(1, keepdims=True)) | (scores >= scores.max(0, keepdims=True)))


def best_of_both(scores: Scores) -> Links:
    """Words that are each other's best partner."""
    return np.asarray((scores >= scores.max(1, keepdims=True)) & (scores >= scores.max(0, keepdims=True)))


RULES: dict[str, Callable[[Scores], Links]] = {"all": every, "either": best_of_either, "both": best_of_both}
"""Which pairs of words may be links, if their score reaches the threshold."""


@dataclass(frozen=True)
class Discrete:
    """How scores become links: a rule and a threshold."""

    rule: str
    threshold: float

    def __call__(self, scores: Scores) -> Links:
        """The links of scores (n, m)."""
        return RULES[self.rule](scores) & (scores >= self.threshold)


def tuned(scores: Sequence[Scores], linked: Sequence[Links]) -> Discrete:
    """The rule and the threshold with the highest mean F1 over pairs of texts.

    >>> tuned([np.array([[0.9, 0.1]])], [np.array([[True, False]])]).rule
    'all'
    """
    sizes = [each.size for each in scores]
    owner = np.repeat(np.arange(len(scores)), sizes)
    values, truth = (np.concatenate([each.ravel() for each in arrays]) for arrays in (scores, linked))
    thresholds = np.unique(np.quantile(values, np.linspace(0, 1, GRID), method="nearest"))
    real = np.bincount(owner, truth, len(scores))
    best: tuple[float, Discrete] | None = None
    for rule, allowed in RULES.items():
        may = np.concatenate([allowed(each).ravel() for each in scores])
        for threshold in thresholds:
            chosen = may & (values >= threshold)
            hits, count = np.bincount(owner, chosen & truth, len(scores)), np.bincount(owner, chosen, len(scores))
            found = float(np.where(count + real > 0, 2 * hits / np.maximum(count + real, 1), 1.0).mean())
            if best is None or found > best[0]:
                best = found, Discrete(rule, float(threshold))
    assert best is not None
    return best[1]
