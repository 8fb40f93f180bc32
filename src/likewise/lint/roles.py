"""Swapped roles: two nouns that change places around a verb from one text to the other."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

from likewise.grammar import ParsedText, Word, roles
from likewise.lint.words import same_word

SUBJECTS = frozenset({"nsubj", "sb"})
PASSIVE_SUBJECTS = frozenset({"nsubj:pass", "nsubjpass"})
IN_A_PHRASE = frozenset({"pobj", "nk"})
OBLIQUES = ("obl", "nmod")

Frame = dict[str, str]
"""The role of each noun around one verb."""


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
                found += _crossed(verb, before, after)
    return found


def _crossed(verb: str, before: Frame, after: Frame) -> list[Swap]:
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
    """The verb's place and the role of a word that ``roles`` may have left out: a lone subject, an oblique."""
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
