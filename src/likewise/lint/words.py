"""Comparing the words of two texts: same words, different numbers, swapped roles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import permutations, takewhile

from likewise.grammar import ParsedText, Word, roles

ENDINGS = frozenset({"", "s", "es", "d", "ed", "ing", "e", "n", "en"})
"""Inflections by which two forms of a word may differ; for pipelines that know no lemmas."""
SHORTEST_STEM = 3
HYPHENS = "-‐‑"
MAGNITUDES = frozenset({"12", "100", "1000", "1000000", "1000000000"})

SUBJECTS = frozenset({"nsubj", "sb"})
PASSIVE_SUBJECTS = frozenset({"nsubj:pass", "nsubjpass"})
IN_A_PHRASE = frozenset({"pobj", "nk"})
OBLIQUES = ("obl", "nmod")

Frame = dict[str, str]
"""The role of each noun around one verb."""


@lru_cache(maxsize=100_000)
def same_word(first: str, second: str) -> bool:
    """Whether two lemmas, or two forms where there are no lemmas, are one word; a crude test of English endings.

    >>> same_word("chases", "chased"), same_word("Hugged", "hugs"), same_word("cat", "dog")
    (True, True, False)
    """
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
        if found and in_letters and _goes_on(parsed.words, found[-1].indices[-1], index):
            last = found[-1]
            value = word.number if last.value == word.number else _times(last.value, word.number)
            if value is not None:
                found[-1] = Number(value, last.in_letters, (*last.indices, index))
                continue
        found.append(Number(word.number, in_letters, (index,)))
    return found


def words_of_numbers(parsed: ParsedText, values: Collection[str]) -> list[Word]:
    """The words that write one of these values."""
    return [parsed.words[index] for number in numbers_of(parsed) if number.value in values for index in number.indices]


def _goes_on(words: tuple[Word, ...], last: int, index: int) -> bool:
    """Whether only hyphens lie between two indices."""
    return all(word.text in HYPHENS for word in words[last + 1 : index])


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
    found = [Counter((one.value, one.in_letters) for one in numbers_of(parsed)) for parsed in (left, right)]
    first, second = (_values(numbers) for numbers in found)
    lacking = first - second, second - first
    differing = [
        own if other or numbers[("1", False)] else Counter({value: own[value] for value in own if value != "1"})
        for own, other, numbers in zip(lacking, lacking[::-1], found, strict=True)
    ]
    return sorted(differing[0].elements()), sorted(differing[1].elements())


def _values(numbers: Counter[tuple[str, bool]]) -> Counter[str]:
    values: Counter[str] = Counter()
    for (value, _), count in numbers.items():
        values[value] += count
    return values


@dataclass(frozen=True)
class Swap:
    """Two nouns that have each other's role in the other text; all as lemmas."""

    verb: str
    first: str
    second: str
    roles: tuple[str, str]
    """of the two in the left text"""

    def __str__(self) -> str:
        return f"{self.first} and {self.second} swap {' and '.join(self.roles)} of {self.verb!r}"


def swaps(left: ParsedText, right: ParsedText) -> list[Swap]:
    """Pairs of nouns with swapped roles around the same verb.

    Subject and object go by ``roles``, so that a passive is no swap; others by their adposition, such as "sold to".
    """
    found = []
    others = frames(right)
    for verb, before in frames(left).items():
        for other, after in others.items():
            if same_word(verb, other):
                found += _swapped(verb, before, after)
    return found


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
    # Parsers hang "into the river" on the lake of "flows from the lake into the river".
    head = word.head
    while words[head].dep.startswith(OBLIQUES) and words[head].head != head:
        head = words[head].head
    return head, markers[0].text.lower()
