"""Contrasts: differences that change the meaning of two parsed texts: numbers, negations, swapped roles, names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import permutations, takewhile

from likewise.grammar.spans import sentence_spans, word_spans
from likewise.grammar.words import VALUES, ParsedText, Word, is_negation, number_value, roles, with_compounds

ENDINGS = frozenset({"", "s", "es", "d", "ed", "ing", "e", "n", "en"})
"""Inflections by which two forms of a word may differ; for pipelines that know no lemmas."""
SHORTEST_STEM = 3
LONGEST_ENDING = 4  # With a doubled letter, as in "running"
HYPHENS = "-‐‑"
MAGNITUDES = frozenset({"12", "100", "1000", "1000000", "1000000000"})
SUBJECTS = frozenset({"nsubj", "sb"})
PASSIVE_SUBJECTS = frozenset({"nsubj:pass", "nsubjpass"})
IN_A_PHRASE = frozenset({"pobj", "nk"})
OBLIQUES = ("obl", "nmod")
Frame = dict[str, str]  # The role of each noun around one verb


@lru_cache(maxsize=100_000)
def same_word(first: str, second: str) -> bool:
    """Whether two lemmas, or two forms where there are no lemmas, are one word; a crude test of English endings."""
    one, other = first.lower(), second.lower()
    if one == other:
        return True
    stem = "".join(a for a, _ in takewhile(lambda both: both[0] == both[1], zip(one, other, strict=False)))
    return len(stem) >= SHORTEST_STEM and all(_is_ending(form[len(stem) :], stem) for form in (one, other))


def _is_ending(tail: str, stem: str) -> bool:
    doubled = len(tail) > 1 and tail[0] == stem[-1] and tail[1:] in ENDINGS
    return tail in ENDINGS or doubled


@dataclass(frozen=True)
class Number:
    """A number in a text: its value, whether its first word is written in letters, and the indices of its words."""

    value: str
    in_letters: bool
    indices: tuple[int, ...]


def numbers_of(parsed: ParsedText) -> list[Number]:
    """A text's numbers in order; thirty-eight and 2 million are one number each."""
    found: list[Number] = []
    for index, word in enumerate(parsed.words):
        if word.number is None:
            continue
        in_letters = word.text.isalpha()
        # Only hyphens may lie between the words of one number.
        if found and in_letters and all(one.text in HYPHENS for one in parsed.words[found[-1].indices[-1] + 1 : index]):
            last = found[-1]
            value = word.number if last.value == word.number else _times(last.value, word.number)
            if value is not None:
                found[-1] = Number(value, last.in_letters, (*last.indices, index))
                continue
        found.append(Number(word.number, in_letters, (index,)))
    return found


def _times(value: str, magnitude: str) -> str | None:
    """2.5 million as one number; None where the second is no magnitude."""
    if magnitude not in MAGNITUDES:
        return None
    try:
        return f"{(Decimal(value) * Decimal(magnitude)).normalize():f}"
    except ArithmeticError:
        return None


def number_difference(left: ParsedText, right: ParsedText) -> tuple[list[str], list[str]]:
    """The numbers of each text that the other lacks, as multisets.

    A "one" in letters counts only against another number: it may be no more than an article.
    """
    found = [numbers_of(parsed) for parsed in (left, right)]
    first, second = (Counter(one.value for one in numbers) for numbers in found)
    lacking = first - second, second - first
    differing = []
    for own, other, numbers in zip(lacking, lacking[::-1], found, strict=True):
        counts = other or any(one.value == "1" and not one.in_letters for one in numbers)
        differing.append(sorted(value for value in own.elements() if counts or value != "1"))
    return differing[0], differing[1]


@dataclass(frozen=True)
class Swap:
    """Two nouns that have each other's role in the other text; all as lemmas."""

    verb: str
    first: str
    second: str
    roles: tuple[str, str]  # of the two in the left text

    def __str__(self) -> str:
        return f"{self.first} and {self.second} swap {' and '.join(self.roles)} of {self.verb!r}"


def swaps(left: ParsedText, right: ParsedText) -> list[Swap]:
    """Pairs of nouns with swapped roles around the same verb.

    Subject and object go by ``roles``, so that a passive is no swap; others by their adposition, such as "sold to".
    """
    others = frames(right)
    return [
        swap
        for verb, before in frames(left).items()
        for other, after in others.items()
        if same_word(verb, other)
        for swap in _swapped(verb, before, after)
    ]


def _swapped(verb: str, before: Frame, after: Frame) -> list[Swap]:
    known = {noun: next((role for other, role in after.items() if same_word(noun, other)), None) for noun in before}
    return [
        Swap(verb, one, other, (before[one], before[other]))
        for one, other in permutations(before, 2)
        if before[one] < before[other] and known[one] == before[other] and known[other] == before[one]
    ]


def frames(parsed: ParsedText) -> dict[str, Frame]:
    """For each verb what its nouns are to it: agent, patient, or the adposition that joins them."""
    found: dict[str, Frame] = {}
    for agent, verb, patient in roles(parsed):
        frame = found.setdefault(verb, {})
        frame.setdefault(agent, "agent")
        frame.setdefault(patient, "patient")
    for index, word in enumerate(parsed.words):
        head, role = _role(parsed.words, index)
        if role is not None and parsed.words[head].pos in ("VERB", "AUX"):
            found.setdefault(parsed.words[head].lemma.lower(), {}).setdefault(word.lemma.lower(), role)
    return found


def _role(words: tuple[Word, ...], index: int) -> tuple[int, str | None]:
    """The verb's index and the role of a word that ``roles`` may have left out: a lone subject, an oblique."""
    word = words[index]
    if word.dep in SUBJECTS:
        return word.head, "agent"
    if word.dep in PASSIVE_SUBJECTS:
        return word.head, "patient"
    if word.dep in IN_A_PHRASE and words[word.head].pos == "ADP":
        return words[word.head].head, words[word.head].text.lower()
    markers = [other for other in words if words[other.head] is word and other.dep == "case"]
    if not markers or not word.dep.startswith(OBLIQUES):
        return word.head, None
    # Parsers attach "into the river" to the lake of "flows from the lake into the river".
    head = word.head
    while words[head].dep.startswith(OBLIQUES) and words[head].head != head:
        head = words[head].head
    return head, markers[0].text.lower()


def negating_words(left: ParsedText, right: ParsedText) -> tuple[list[Word], list[Word]]:
    """The negating words of the only text that has any; nothing where both or neither negate."""
    first, second = ([word for word in parsed.words if word.negates] for parsed in (left, right))
    return ([], []) if bool(first) == bool(second) else (first, second)


def name_difference(left: ParsedText, right: ParsedText) -> tuple[list[str], list[str]]:
    """The names of each text that the other does not mention.

    Nothing if both texts have names and only one of them has another: "Ada Lovelace" and "Lovelace" are one person.
    """
    names = [[word.text for word in parsed.words if word.pos == "PROPN"] for parsed in (left, right)]
    first, second = (
        [name for name in dict.fromkeys(own) if not is_mentioned(name)]
        for own, is_mentioned in zip(names, (_mentions(right), _mentions(left)), strict=True)
    )
    is_replaced, is_one_sided = bool(first) and bool(second), not all(names)
    return (first, second) if is_replaced or is_one_sided else ([], [])


def _mentions(parsed: ParsedText) -> Callable[[str], bool]:
    """Whether a text has a form of a word; the words are looked up by their stems, since a text may have many."""
    forms: dict[str, set[str]] = {}
    for word in {word.text for word in parsed.words}:
        for stem in _stems(word):
            forms.setdefault(stem, set()).add(word)
    return lambda name: any(same_word(name, form) for stem in _stems(name) for form in forms.get(stem, ()))


def _stems(form: str) -> set[str]:
    """A word in lower case without each of the endings that it may have."""
    lowered = form.lower()
    cuts = range(max(SHORTEST_STEM, len(lowered) - LONGEST_ENDING), len(lowered))
    return {lowered, *(lowered[:cut] for cut in cuts if _is_ending(lowered[cut:], lowered[:cut]))}


def lightly_parsed(text: str, language: str = "en") -> ParsedText:
    """A text's words without a parser: numbers and negations by word lists, names by capitals inside a sentence.

    Every other word has the part of speech X and no dependency. German writes all nouns with capitals, so it has no
    names here.

    >>> [(word.text, word.number, word.negates) for word in lightly_parsed("I don't own 2 cats").words][1:4]
    [("don't", None, True), ('own', None, False), ('2', '2', False)]
    """
    starts = {start for start, _ in sentence_spans(text)}
    found: list[Word] = []
    is_first = False
    for index, (start, end) in enumerate(word_spans(text)):
        is_first = start in starts or (is_first and not found[-1].text[-1].isalnum())
        found.append(_light_word(text, (start, end), index, language, is_first))
    return ParsedText(text, with_compounds(found))


def _light_word(text: str, span: tuple[int, int], index: int, language: str, is_first: bool) -> Word:
    form = text[slice(*span)]
    lowered = form.lower().replace("’", "'")
    has_number = lowered in VALUES.get(language, {}) or any(letter.isdigit() for letter in form)
    is_pronoun = PRONOUN.match(form) is not None
    is_name = not is_pronoun and language == "en" and len(form) > 1 and form[0].isupper() and not is_first
    negates = is_negation(form, language) or (language == "en" and lowered.endswith("n't"))
    number = number_value(form, language) if has_number else None
    pos = "NUM" if has_number else "PROPN" if is_name else "X"
    return Word(form, *span, pos, "", index, lowered, negates=negates, number=number)


PRONOUN = re.compile(r"I(?:['’]\w+)?$")
LIGHT_LANGUAGES = tuple(VALUES)  # Languages whose numbers and negations are known without a parser
LIGHT_RULES = {"en": ("negation", "number", "name"), "de": ("negation", "number")}  # Rules that need no parser


def _against(sides: tuple[Iterable[str], Iterable[str]]) -> str | None:
    """Both sides' words as evidence; None if there are none."""
    left, right = (" ".join(side) for side in sides)
    if left and right:
        return f"{left} against {right}"
    return f"left only: {left}" if left else f"right only: {right}" if right else None


def _negation(left: ParsedText, right: ParsedText) -> str | None:
    first, second = negating_words(left, right)
    return _against(([word.text for word in first], [word.text for word in second]))


MEANING_RULES: dict[str, Callable[[ParsedText, ParsedText], str | None]] = {
    "negation": _negation,
    "number": lambda left, right: _against(number_difference(left, right)),
    "role": lambda left, right: "; ".join(map(str, swaps(left, right))) or None,
    "name": lambda left, right: _against(name_difference(left, right)),
}
"""Rules that find a difference in meaning between two parsed texts: the evidence, or None."""


def meaning_flags(left: ParsedText, right: ParsedText, rules: Iterable[str] = tuple(MEANING_RULES)) -> dict[str, str]:
    """The rules that find a difference in meaning, each with its evidence.

    >>> meaning_flags(lightly_parsed("Two boats left."), lightly_parsed("Five boats left."))
    {'number': '2 against 5'}
    """
    found = {rule: MEANING_RULES[rule](left, right) for rule in rules}
    return {rule: evidence for rule, evidence in found.items() if evidence is not None}
