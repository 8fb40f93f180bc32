"""Ledgers made by hand: no model, no pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import likewise.explain
from likewise.explain.explanation import ExplainedText, Explanation, Metadata
from likewise.explain.texts import Unit
from likewise.grammar import ParsedText, Word

APART: dict[str, Any] = {"bias": "separate", "reference": "none"}
"""The plain ledger of the equations: contributions relative to nothing, the biases in a row of their own."""


def contributions(*given: Any, **options: Any) -> Any:
    """``likewise.explain.contributions`` with the plain ledger by default."""
    return likewise.explain.contributions(*given, **APART | options)


def explain(*given: Any, **options: Any) -> Any:
    """``likewise.explain.explain``, the same."""
    return likewise.explain.explain(*given, **APART | options)


METADATA = Metadata("bilrp", "hand", "mean", "token")


def side(text: str) -> ExplainedText:
    """[CLS], a token per blank-separated word, [SEP]."""
    units, place = [Unit("[CLS]", 0, 0, (0,), "special")], 0
    for number, word in enumerate(text.split(), start=1):
        start = text.index(word, place)
        place = start + len(word)
        units.append(Unit(word, start, place, (number,)))
    return ExplainedText(text, (*units, Unit("[SEP]", 0, 0, (len(units),), "special")))


def ledger(
    left: ExplainedText | str,
    right: ExplainedText | str,
    relevance: ArrayLike,
    bias: tuple[ArrayLike, ArrayLike, float] | None = None,
) -> Explanation:
    """An explanation whose similarity is what its cells sum to."""
    first, second = (side(one) if isinstance(one, str) else one for one in (left, right))
    cells = np.array(relevance, dtype=float)
    zeros = (np.zeros(len(first.units)), np.zeros(len(second.units)), 0.0)
    down, across, both = zeros if bias is None else bias
    down, across = np.asarray(down, dtype=float), np.asarray(across, dtype=float)
    total = float(cells.sum() + down.sum() + across.sum() + both)
    return Explanation(first, second, cells, down, across, both, total, METADATA)


def words_only(cells: ArrayLike) -> np.ndarray:
    """Cells between words (n, m) with rows and columns of 0 for [CLS] and [SEP]."""
    return np.pad(np.array(cells, dtype=float), 1)


def parsed(text: str, **labels: Sequence[object]) -> ParsedText:
    """A text whose words have these fields, by name: a value each, as ``pos=["NOUN", "VERB"]``."""
    words, place = [], 0
    for number, word in enumerate(text.split()):
        start = text.index(word, place)
        place = start + len(word)
        fields = {"pos": "NOUN", "dep": "dep", "head": 0, "lemma": word.lower()}
        words.append(Word(word, start, place, **(fields | {name: found[number] for name, found in labels.items()})))
    return ParsedText(text, tuple(words))
