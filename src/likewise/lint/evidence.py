"""The evidence of linting: what one ledger and the grammar of its texts say, in a few numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from likewise.data import Pair, ScoredPair
from likewise.explain.explanation import Array, Explanation
from likewise.grammar import ParsedText, Word
from likewise.lint.parsed_pairs import unit_words
from likewise.lint.words import Swap, number_difference, same_word, swaps, words_of_numbers

Test = Callable[[Word], bool]
Strongest = tuple[str, str, float]


@dataclass(frozen=True)
class Negation:
    """A negating word of the only text that has one."""

    word: str
    side: str
    relevance: float
    """what it makes of the similarity, with all of the other side"""


@dataclass(frozen=True)
class PairEvidence:
    """The evidence of one explained pair; shares lie between 0 and 1."""

    pair: Pair | ScoredPair
    similarity: float
    special: float
    """share of special tokens, the prompt and the biases in the ledger's absolute relevance"""
    bias: float
    """share of the biases alone"""
    stops: float
    """share of stop words and punctuation in the positive relevance between words"""
    matches: float
    """share of equal words in the positive relevance between words"""
    strongest_stop: Strongest | None
    strongest_match: Strongest | None
    negations: tuple[Negation, ...]
    """those of the text that negates, where the other does not"""
    numbers: tuple[list[str], list[str]]
    """each text's numbers that the other lacks"""
    number_relevance: float
    """what the differing numbers make of the similarity together"""
    swaps: tuple[Swap, ...]
    swap_relevance: float
    """what the swapped words make of the similarity with themselves"""

    @property
    def human(self) -> float | None:
        """The human score, where there is one."""
        return self.pair.score if isinstance(self.pair, ScoredPair) else None

    @property
    def has_number(self) -> bool:
        """Whether the texts' numbers differ."""
        return any(self.numbers)


@dataclass(frozen=True, eq=False)
class WordLedger:
    """A ledger by token with the word of each token; those of no word are None."""

    found: Explanation
    left: list[Word | None]
    right: list[Word | None]

    @property
    def positive(self) -> Array:
        """Positive relevance between text tokens, (n, m); 0 where a special token or the prompt takes part."""
        down, across = (
            np.array([unit.kind == "text" for unit in side.units]) for side in (self.found.left, self.found.right)
        )
        cells: Array = np.maximum(self.found.relevance, 0) * np.outer(down, across)
        return cells

    def between(self, left: Test, right: Test) -> float:
        """What the left words of one kind and the right words of another make together."""
        where = np.ix_(_where(self.left, left), _where(self.right, right))
        return float(self.found.relevance[where].sum())

    def strongest(self, chosen: NDArray[np.bool_]) -> Strongest | None:
        """The words of the strongest positive cell among the chosen (n, m)."""
        cells = np.where(chosen, self.positive, 0.0)
        row, column = np.unravel_index(int(cells.argmax()), cells.shape)
        if cells[row, column] <= 0:
            return None
        names = self.found.left.units[row].text, self.found.right.units[column].text
        words = self.left[row], self.right[column]
        shown = [name if word is None else word.text for name, word in zip(names, words, strict=True)]
        return shown[0], shown[1], float(cells[row, column])


def _where(words: Sequence[Word | None], test: Test) -> NDArray[np.bool_]:
    return np.array([word is not None and test(word) for word in words], dtype=bool)


def evidence(pair: Pair | ScoredPair, found: Explanation, left: ParsedText, right: ParsedText) -> PairEvidence:
    """Weigh one explanation by token, with biases apart, by the grammar of its two texts."""
    ledger = WordLedger(found, unit_words(found.left, left), unit_words(found.right, right))
    special, bias = special_share(found)
    equal = equal_words(ledger.left, ledger.right)
    stops = (_where(ledger.left, _is_stop), _where(ledger.right, _is_stop))
    numbers = number_difference(left, right)
    swapped = tuple(swaps(left, right))
    return PairEvidence(
        pair, found.similarity, special, bias, stop_share(ledger.positive, *stops),
        _share(ledger.positive[equal].sum(), ledger.positive.sum()),
        ledger.strongest(stops[0][:, None] & stops[1]), ledger.strongest(equal),
        one_sided_negations(ledger, left, right), numbers,
        ledger.between(_is_one_of(words_of_numbers(left, numbers[0])), _is_one_of(words_of_numbers(right, numbers[1]))),
        swapped, sum(_with_itself(ledger, noun) for swap in swapped for noun in (swap.first, swap.second)),
    )  # fmt: skip


def _is_one_of(words: Sequence[Word]) -> Test:
    """By identity: the same word may occur twice in a text."""
    return lambda word: any(word is one for one in words)


def _is_stop(word: Word) -> bool:
    return word.is_stop or word.is_punct


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else 0.0


def special_share(found: Explanation) -> tuple[float, float]:
    """The shares of all that is no text, and of the biases alone, in the ledger's absolute relevance."""
    cells = np.abs(found.relevance)
    bias = float(np.abs(found.bias_left).sum() + np.abs(found.bias_right).sum()) + abs(found.bias_both)
    down, across = (np.array([unit.kind == "text" for unit in side.units]) for side in (found.left, found.right))
    total, text = float(cells.sum()) + bias, float(cells[np.ix_(down, across)].sum())
    return _share(total - text, total), _share(bias, total)


def stop_share(positive: Array, left: NDArray[np.bool_], right: NDArray[np.bool_]) -> float:
    """The share of positive cells (n, m) that units marked on the left (n,) and right (m,) carry, half a cell each."""
    carried = positive[left].sum() / 2 + positive[:, right].sum() / 2
    return _share(carried, positive.sum())


def equal_words(left: Sequence[Word | None], right: Sequence[Word | None]) -> NDArray[np.bool_]:
    """Which tokens (n, m) belong to equal words; different forms of one word count as equal."""
    cells = [
        [one is not None and other is not None and same_word(one.lemma, other.lemma) for other in right] for one in left
    ]
    return np.array(cells, dtype=bool).reshape(len(left), len(right))


def one_sided_negations(ledger: WordLedger, left: ParsedText, right: ParsedText) -> tuple[Negation, ...]:
    """The negating words of one text where the other has none; nothing where both or neither negate."""
    found = [[word for word in parsed.words if word.negates] for parsed in (left, right)]
    if bool(found[0]) == bool(found[1]):
        return ()
    side = "left" if found[0] else "right"
    words, shares = (ledger.left, ledger.found.left_shares) if found[0] else (ledger.right, ledger.found.right_shares)
    # By identity: the same word may occur twice.
    return tuple(
        Negation(word.text, side, float(shares[[each is word for each in words]].sum()))
        for word in found[0] or found[1]
    )


def _with_itself(ledger: WordLedger, noun: str) -> float:
    def is_noun(word: Word) -> bool:
        return same_word(word.lemma, noun)

    return ledger.between(is_noun, is_noun)
