"""Evidence for lint rules: parsed pairs, and the shares of the ledger that their words have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from likewise.data import Pair, ScoredPair
from likewise.explain.explanation import Array, ExplainedText, Explanation
from likewise.explain.texts import Unit
from likewise.grammar import Grammar, ParsedText, Word, align
from likewise.grammar.contrasts import Swap, negating_words, number_difference, numbers_of, same_word, swaps
from likewise.progress import Progress

NO_WORD = "X"  # The part of speech of a token that belongs to no word
PROMPT = "prompt"


@dataclass(frozen=True)
class ParsedSides:
    """The parsed texts of both sides, by text: the two sides may be in different languages."""

    left: Mapping[str, ParsedText]
    right: Mapping[str, ParsedText]


def parsed_sides(
    pairs: Sequence[Pair | ScoredPair], left: Grammar, right: Grammar | None = None, progress: Progress | None = None
) -> ParsedSides:
    """Parse every distinct text once; ``right`` is the grammar of the second texts where it is another one."""
    first, second = [pair.left for pair in pairs], [pair.right for pair in pairs]
    if right is None or right is left:
        both = parsed_texts(left, [*first, *second], progress)
        return ParsedSides(both, both)
    return ParsedSides(parsed_texts(left, first, progress), parsed_texts(right, second, progress))


def parsed_texts(grammar: Grammar, texts: Iterable[str], progress: Progress | None) -> dict[str, ParsedText]:
    """Every distinct text with its grammar."""
    unique = list(dict.fromkeys(texts))
    return dict(zip(unique, grammar.parse(unique, progress=progress), strict=True))


def unit_words(side: ExplainedText, parsed: ParsedText) -> list[Word | None]:
    """The word of each of a side's n units; None for special tokens, the prompt and what belongs to no word."""
    indices = align([(unit.start, unit.end) for unit in side.units], parsed.words)
    return [
        parsed.words[index] if unit.kind == "text" and index is not None else None
        for unit, index in zip(side.units, indices, strict=True)
    ]


def unit_classes(side: ExplainedText, parsed: ParsedText) -> list[str]:
    """The class of each of a side's n units: a part of speech, a special token's own name, or the prompt."""
    words = unit_words(side, parsed)
    return [_class(unit, word) for unit, word in zip(side.units, words, strict=True)]


def _class(unit: Unit, word: Word | None) -> str:
    if unit.kind == "text":
        return NO_WORD if word is None else word.pos or NO_WORD
    return unit.text if unit.kind == "special" else PROMPT


def scores_of(pairs: Sequence[Pair | ScoredPair]) -> Array | None:
    """The human scores (n,), or None where the pairs have none."""
    scores = [pair.score for pair in pairs if isinstance(pair, ScoredPair)]
    return np.array(scores) if pairs and len(scores) == len(pairs) else None


Test = Callable[[Word], bool]
Strongest = tuple[str, str, float]  # A word of each text and their relevance


@dataclass(frozen=True)
class Negation:
    """A negating word of the only text that has one."""

    word: str
    side: str
    relevance: float  # what it makes of the similarity, with all of the other side


@dataclass(frozen=True)
class PairEvidence:
    """The evidence of one explained pair; shares lie between 0 and 1."""

    pair: Pair | ScoredPair
    similarity: float
    special: float  # share of special tokens, the prompt and the biases in the ledger's absolute relevance
    bias: float  # share of the biases alone
    stops: float  # share of stop words and punctuation in the positive relevance between words
    matches: float  # share of equal words in the positive relevance between words
    strongest_stop: Strongest | None
    strongest_match: Strongest | None
    negations: tuple[Negation, ...]  # those of the text that negates, where the other does not
    numbers: tuple[list[str], list[str]]  # each text's numbers that the other lacks
    number_relevance: float  # what the differing numbers make of the similarity together
    swaps: tuple[Swap, ...]
    swap_relevance: float  # what the swapped words make of the similarity with themselves

    @property
    def human(self) -> float | None:
        """The human score, where there is one."""
        return self.pair.score if isinstance(self.pair, ScoredPair) else None


@dataclass(frozen=True, eq=False)
class WordLedger:
    """A ledger by token with the word of each token; those of no word are None."""

    found: Explanation
    left: list[Word | None]
    right: list[Word | None]

    @property
    def positive(self) -> Array:
        """Positive relevance between text tokens, (n, m); 0 where a special token or the prompt takes part."""
        return np.asarray(np.maximum(self.found.relevance, 0) * np.outer(*_text_units(self.found)))

    def between(self, left: Test, right: Test) -> float:
        """What the left words of one kind and the right words of another make together."""
        return float(self.found.relevance[np.ix_(where(self.left, left), where(self.right, right))].sum())

    def strongest(self, chosen: NDArray[np.bool_]) -> Strongest | None:
        """The words of the strongest positive cell among the chosen (n, m)."""
        cells = np.where(chosen, self.positive, 0.0)
        row, column = np.unravel_index(int(cells.argmax()), cells.shape)
        if cells[row, column] <= 0:
            return None
        left, right = self.left[row] or self.found.left.units[row], self.right[column] or self.found.right.units[column]
        return left.text, right.text, float(cells[row, column])


def _text_units(found: Explanation) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which units of the left (n,) and of the right (m,) belong to the text itself."""
    left, right = (np.array([unit.kind == "text" for unit in side.units]) for side in (found.left, found.right))
    return left, right


def where(words: Sequence[Word | None], test: Test) -> NDArray[np.bool_]:
    """Which of n words pass a test, (n,)."""
    return np.array([word is not None and test(word) for word in words], dtype=bool)


def evidence(pair: Pair | ScoredPair, found: Explanation, left: ParsedText, right: ParsedText) -> PairEvidence:
    """Measure one explanation by token, with the biases in a separate row, by the grammar of its two texts."""
    ledger = WordLedger(found, unit_words(found.left, left), unit_words(found.right, right))
    special, bias = special_share(found)
    equal = equal_words(ledger.left, ledger.right)
    stops = (where(ledger.left, is_stop), where(ledger.right, is_stop))
    numbers = number_difference(left, right)
    swapped = tuple(swaps(left, right))
    return PairEvidence(
        pair, found.similarity, special, bias, stop_share(ledger.positive, *stops),
        share(ledger.positive[equal].sum(), ledger.positive.sum()),
        ledger.strongest(stops[0][:, None] & stops[1]), ledger.strongest(equal),
        one_sided_negations(ledger, left, right), numbers,
        ledger.between(writes(left, numbers[0]), writes(right, numbers[1])),
        swapped, sum(_with_itself(ledger, noun) for swap in swapped for noun in (swap.first, swap.second)),
    )  # fmt: skip


def writes(parsed: ParsedText, values: Collection[str]) -> Test:
    """Whether a word is part of a number of these values; by identity, since a word may occur twice in a text."""
    indices = {index for number in numbers_of(parsed) if number.value in values for index in number.indices}
    return lambda word: any(word is parsed.words[index] for index in indices)


def _with_itself(ledger: WordLedger, noun: str) -> float:
    def is_noun(word: Word) -> bool:
        return same_word(word.lemma, noun)

    return ledger.between(is_noun, is_noun)


def is_stop(word: Word) -> bool:
    """Whether a word is a stop word or punctuation."""
    return word.is_stop or word.is_punct


def share(part: float, whole: float) -> float:
    """A part of a whole; 0 if there is nothing."""
    return float(part / whole) if whole > 0 else 0.0


def special_share(found: Explanation) -> tuple[float, float]:
    """The shares of all that is no text, and of the biases alone, in the ledger's absolute relevance."""
    cells = np.abs(found.relevance)
    bias = float(np.abs(found.bias_left).sum() + np.abs(found.bias_right).sum()) + abs(found.bias_both)
    total, text = float(cells.sum()) + bias, float(cells[np.ix_(*_text_units(found))].sum())
    return share(total - text, total), share(bias, total)


def stop_share(positive: Array, left: NDArray[np.bool_], right: NDArray[np.bool_]) -> float:
    """The share of positive cells (n, m) that units marked on the left (n,) and right (m,) carry, half a cell each."""
    carried = positive[left].sum() / 2 + positive[:, right].sum() / 2
    return share(carried, positive.sum())


def equal_words(left: Sequence[Word | None], right: Sequence[Word | None]) -> NDArray[np.bool_]:
    """Which tokens (n, m) belong to equal words; different forms of one word count as equal."""
    cells = [
        [one is not None and other is not None and same_word(one.lemma, other.lemma) for other in right] for one in left
    ]
    return np.array(cells, dtype=bool).reshape(len(left), len(right))


def one_sided_negations(ledger: WordLedger, left: ParsedText, right: ParsedText) -> tuple[Negation, ...]:
    """The negating words of one text where the other has none; nothing where both or neither negate."""
    return negations_of((ledger.left, ledger.right), (ledger.found.left_shares, ledger.found.right_shares), left, right)


def negations_of(
    words: tuple[Sequence[Word | None], Sequence[Word | None]], shares: tuple[Array, Array], left: ParsedText,
    right: ParsedText,
) -> tuple[Negation, ...]:  # fmt: skip
    """The same from the words of both texts' units and their shares."""
    found = negating_words(left, right)
    side = int(not found[0])
    # By identity: the same word may occur twice.
    return tuple(
        Negation(word.text, ("left", "right")[side], float(shares[side][[each is word for each in words[side]]].sum()))
        for word in found[side]
    )
