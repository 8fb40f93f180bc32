"""The evidence of linting from a cross-encoder's shares: it has one for each token, not one for each pair of tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from likewise.data import Pair, ScoredPair
from likewise.explain.cross_encoder import CrossExplanation
from likewise.explain.explanation import Array
from likewise.grammar import ParsedText, Word
from likewise.grammar.contrasts import number_difference, same_word, swaps
from likewise.lint.evidence import (
    PairEvidence,
    Test,
    equal_words,
    is_stop,
    negations_of,
    share,
    unit_words,
    where,
    writes,
)


def cross_evidence(
    pair: Pair | ScoredPair, found: CrossExplanation, left: ParsedText, right: ParsedText
) -> PairEvidence:
    """Measure one explanation by token; its similarity is the logit, and a share goes to a word of one text."""
    words = unit_words(found.left, left), unit_words(found.right, right)
    shares = found.left_shares, found.right_shares
    positive = [np.maximum(values, 0) for values in shares]
    total = float(sum(values.sum() for values in positive))
    equal = equal_words(*words)
    in_both = float(positive[0][equal.any(1)].sum() + positive[1][equal.any(0)].sum())
    numbers, swapped = number_difference(left, right), tuple(swaps(left, right))
    special, bias = _special_share(found)
    return PairEvidence(
        pair, found.logit, special, bias, share(_of(words, positive, is_stop, is_stop), total), share(in_both, total),
        None, None, negations_of(words, shares, left, right), numbers,
        _of(words, shares, writes(left, numbers[0]), writes(right, numbers[1])),
        swapped, sum(_of_noun(words, shares, noun) for swap in swapped for noun in (swap.first, swap.second)),
    )  # fmt: skip


Words = tuple[Sequence[Word | None], Sequence[Word | None]]


def _special_share(found: CrossExplanation) -> tuple[float, float]:
    """The shares of all that is no text, and of the biases alone, in the absolute shares."""
    text = sum(
        float(np.abs(shares[[unit.kind == "text" for unit in side.units]]).sum())
        for side, shares in ((found.left, found.left_shares), (found.right, found.right_shares))
    )
    every = (found.left_shares, found.right_shares, found.special_shares)
    total = sum(float(np.abs(shares).sum()) for shares in every) + abs(found.bias)
    return share(total - text, total), share(abs(found.bias), total)


def _of(words: Words, shares: Sequence[Array], left: Test, right: Test) -> float:
    """What the left words of one kind and the right words of another add."""
    return float(shares[0][where(words[0], left)].sum() + shares[1][where(words[1], right)].sum())


def _of_noun(words: Words, shares: Sequence[Array], noun: str) -> float:
    def is_noun(word: Word) -> bool:
        return same_word(word.lemma, noun)

    return _of(words, shares, is_noun, is_noun)
