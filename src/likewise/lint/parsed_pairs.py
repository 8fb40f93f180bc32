"""Parsed pairs: the grammar of every text in a file of pairs, and which word each unit of a ledger belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from likewise.data import Pair, ScoredPair
from likewise.explain.explanation import Array, ExplainedText
from likewise.explain.texts import Unit
from likewise.grammar import Grammar, ParsedText, Word, align
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
