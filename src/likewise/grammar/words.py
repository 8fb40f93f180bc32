"""Words of a parsed text, and their analysis: numbers, negations, alignment, shared nouns, semantic roles."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a text; white space is not a word.

    >>> word = Word("dogs", start=4, end=8, pos="NOUN", dep="nsubj", head=2, lemma="dog")
    >>> "The dogs bark."[word.start : word.end], word.number
    ('dogs', None)
    """

    text: str
    start: int  # index of its first character in the text
    end: int  # one past its last character
    pos: str  # Universal part of speech, such as NOUN
    dep: str  # Dependency label in the pipeline's own scheme, lower-cased, such as nsubj; a sentence's root has root
    head: int  # Index of its head among the text's words; a root is its own head
    lemma: str  # The lower-cased text if the pipeline has no lemmas
    is_stop: bool = False  # Whether it is in the language's stop list, in any case
    is_punct: bool = False  # Whether it is a punctuation mark
    negates: bool = False  # Whether it is a negation: not, nobody, kein
    number: str | None = None
    """The value of the number it is or belongs to ("38" for both words of thirty-eight), else its lower-cased text."""


@dataclass(frozen=True, slots=True)
class ParsedText:
    """A text and its words in their order.

    >>> barks = Word("barks", start=3, end=8, pos="VERB", dep="root", head=1, lemma="bark")
    >>> parsed = ParsedText("It barks", (Word("It", 0, 2, "PRON", "nsubj", 1, "it", is_stop=True), barks))
    >>> [word.lemma for word in parsed.words if not word.is_stop]
    ['bark']
    """

    text: str
    words: tuple[Word, ...]


# With inflected forms, because many pipelines have no lemmas.
_NEGATIONS = {
    "en": "not n't nt no nope never none nobody nothing nowhere neither nor without cannot hardly scarcely barely",
    "de": "nicht nichts nie niemals nimmer nirgends nirgendwo nein niemand niemandem niemanden niemandes kein keine"
    " keinem keinen keiner keines keins keinerlei keinesfalls keineswegs weder ohne kaum",
}
NEGATIONS = {language: frozenset(words.split()) for language, words in _NEGATIONS.items()}
"""By language code; lower-cased."""

NEGATION_LABELS = frozenset({"neg", "ng"})  # Dependency labels of negating words in ClearNLP's and TIGER's schemes


def is_negation(text: str, language: str, lemma: str = "") -> bool:
    """Whether a word, by its text or its lemma, is a negation in the language."""
    known = NEGATIONS.get(language, frozenset())
    return any(form.lower().replace("’", "'") in known for form in (text, lemma))


# By language: the words for 0 to 19, the tens from 20 on, and how ten and unit are joined, as in thirty-eight.
_NUMERALS = {
    "en": (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
        " seventeen eighteen nineteen",
        "twenty thirty forty fifty sixty seventy eighty ninety",
        "{ten}-{unit}",
    ),
    "de": (
        "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn"
        " siebzehn achtzehn neunzehn",
        "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
        "{unit}und{ten}",
    ),
}
_OTHER_VALUES = {
    "en": {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9},
    "de": {"dreissig": 30, "hundert": 100, "tausend": 1000, "million": 10**6, "millionen": 10**6, "milliarde": 10**9},
}

VALUES: dict[str, dict[str, int]] = {
    language: {word: value for value, word in enumerate(small.split())}
    | {word: 10 * tenth for tenth, word in enumerate(tens.split(), start=2)}
    | {
        pattern.format(ten=ten, unit=unit).replace("einsund", "einund"): 10 * tenth + one
        for tenth, ten in enumerate(tens.split(), start=2)
        for one, unit in enumerate(small.split()[1:10], start=1)
    }
    | _OTHER_VALUES[language]
    for language, (small, tens, pattern) in _NUMERALS.items()
}
"""By language: number words and their values."""

SEPARATORS = {"en": (",", "."), "de": (".", ",")}  # By language: the thousands separator and the decimal point


def number_value(text: str, language: str) -> str:
    """A number as plain digits if its value is known, else its lower-cased text."""
    # Digits of any script become ASCII digits.
    lowered = "".join(str(unicodedata.decimal(character, character)) for character in text.lower())
    if lowered in VALUES.get(language, {}):
        return str(VALUES[language][lowered])
    thousands, point = map(re.escape, SEPARATORS.get(language, SEPARATORS["en"]))
    match = re.fullmatch(rf"(\d{{1,3}}(?:{thousands}\d{{3}})+|\d+)(?:{point}(\d+))?", lowered)
    if match is None:
        return lowered
    whole, decimals = re.sub(r"\D", "", match[1]), match[2]
    return f"{whole}.{decimals}" if decimals else whole


def with_compounds(words: Sequence[Word]) -> tuple[Word, ...]:
    """The same words; ten and unit in letters (thirty - eight) both have the whole number."""
    joined = list(words)
    values = [int(number) if word.text.isalpha() and (number := word.number or "").isdecimal() else 0 for word in words]
    for index, ten in enumerate(words):
        other = index + (2 if index + 1 < len(words) and words[index + 1].text in "-‐‑" else 1)
        if other < len(words) and values[index] in range(20, 100, 10) and values[other] in range(1, 10):
            whole = str(values[index] + values[other])
            joined[index], joined[other] = replace(ten, number=whole), replace(words[other], number=whole)
    return tuple(joined)


def align(spans: Sequence[tuple[int, int]], words: Sequence[Word]) -> list[int | None]:
    """For each token's characters (start, end), the index of the word with the largest overlap; the first on a tie.

    None if the span is empty, as for special tokens, or touches no word. Words are in text order and do not overlap;
    spans may have any order.

    >>> words = [Word("can", 0, 3, "AUX", "aux", 2, "can"), Word("not", 3, 6, "PART", "advmod", 2, "not")]
    >>> align([(0, 0), (0, 2), (2, 6), (6, 7)], words)
    [None, 0, 1, None]
    """
    ends = [word.end for word in words]
    return [_best(start, end, words, bisect_right(ends, start)) for start, end in spans]


def _best(start: int, end: int, words: Sequence[Word], first: int) -> int | None:
    """The word with the largest overlap, starting at ``first``, which ends after the span's start."""
    touched = takewhile(lambda index: words[index].start < end, range(first, len(words)))
    best = max(touched, key=lambda index: min(end, words[index].end) - max(start, words[index].start), default=None)
    return best if start < end else None


def noun_form(word: Word) -> str | None:
    """A noun in lower case; None for other words."""
    return word.text.lower() if word.pos in ("NOUN", "PROPN") else None


def shared_nouns(left: ParsedText, right: ParsedText) -> int:
    """How many nouns two texts share; a noun that occurs twice in both counts twice."""
    one, other = (Counter(form for word in text.words if (form := noun_form(word))) for text in (left, right))
    return (one & other).total()


def noun_matches(left: ParsedText, right: ParsedText) -> list[tuple[int, int]]:
    """The index pairs of words of two texts that are the same noun."""
    one, other = ([(index, noun_form(word)) for index, word in enumerate(text.words)] for text in (left, right))
    return [(row, column) for row, noun in one if noun is not None for column, form in other if form == noun]


# Universal Dependencies first, then ClearNLP (spaCy's English pipelines) and TIGER (its German ones).
SUBJECTS = frozenset({"nsubj", "csubj", "sb"})
PASSIVE_SUBJECTS = frozenset({"nsubj:pass", "csubj:pass", "nsubjpass", "csubjpass"})
PASSIVE_AUXILIARIES = frozenset({"aux:pass", "auxpass"})
AUXILIARIES = PASSIVE_AUXILIARIES | {"aux"}
OBJECTS = frozenset({"obj", "iobj", "obl:arg", "dobj", "dative", "oa", "da"})
AGENTS = frozenset({"obl:agent", "agent", "sbp"})
RELATIVE_CLAUSES = frozenset({"acl:relcl", "relcl", "rc"})
IN_A_PHRASE = frozenset({"pobj", "nk"})
AGENT_MARKERS = frozenset({"by", "von", "vom"})
RELATIVE_PRONOUNS = frozenset({
    "who", "whom", "which", "that", "der", "die", "das", "den", "dem", "welcher", "welche", "welches",
    "welchen", "welchem",
})  # fmt: skip


def roles(parsed: ParsedText) -> list[tuple[str, str, str]]:
    """The (agent, verb, patient) triples of a text, as lower-cased lemmas; passives are turned into actives.

    Verbs without an agent or a patient give none. A verb shares the subject of a verb joined by "and", joined nouns
    give a triple each, and a relative pronoun is replaced by its noun.

    >>> labels = [("Dogs", "nsubj", 1, "dog"), ("chase", "root", 1, "chase"), ("cats", "obj", 1, "cat")]
    >>> words = tuple(Word(text, 0, 0, "X", dep, head, lemma) for text, dep, head, lemma in labels)
    >>> roles(ParsedText("Dogs chase cats", words))
    [('dog', 'chase', 'cat')]
    """
    tree = _Tree(parsed.words)
    triples = []
    for verb, word in enumerate(parsed.words):
        agents, patients = tree.sides(verb)
        triples += [
            (tree.lemma(agent, verb), word.lemma.lower(), tree.lemma(patient, verb))
            for agent in agents
            for patient in patients
        ]
    return triples


class _Tree:
    """The dependency tree over a text's words, by word index."""

    def __init__(self, words: tuple[Word, ...]) -> None:
        self.words, self.children = words, [list[int]() for _ in words]
        for index, word in enumerate(words):
            # The dependents of auxiliaries move to the verb, as in Universal Dependencies.
            head = words[word.head].head if words[word.head].dep in AUXILIARIES else word.head
            if head != index:
                self.children[head].append(index)

    def sides(self, verb: int) -> tuple[list[int], list[int]]:
        """The agents and the patients."""
        subjects, objects = self.subjects(verb), self.labelled(verb, OBJECTS)
        agents = self.agents(verb, subjects)
        is_passive = agents or self.labelled(verb, PASSIVE_SUBJECTS | PASSIVE_AUXILIARIES)
        acting, acted_on = (agents, subjects + objects) if is_passive else (subjects, objects)
        return self.noun_indices(acting), self.noun_indices(acted_on)

    def labelled(self, index: int, labels: Collection[str]) -> list[int]:
        """The dependents with one of the labels."""
        return [child for child in self.children[index] if self.words[child].dep in labels]

    def subjects(self, verb: int) -> list[int]:
        """The verb's own subjects, else those of the verb it shares them with."""
        found = self.labelled(verb, SUBJECTS | PASSIVE_SUBJECTS)
        while not found and self.shares_subject(verb):
            verb = self.words[verb].head
            found = self.labelled(verb, SUBJECTS | PASSIVE_SUBJECTS)
        return found

    def shares_subject(self, verb: int) -> bool:
        """Whether it is joined to another verb; in TIGER the subject depends on the auxiliary above it."""
        word = self.words[verb]
        return word.dep == "conj" or (word.dep == "oc" and self.words[word.head].pos == "AUX")

    def agents(self, verb: int, subjects: list[int]) -> list[int]:
        """The agents of a passive; many parsers label them as plain obliques with "by"."""
        found = self.labelled(verb, AGENTS)
        auxiliaries = self.labelled(verb, PASSIVE_AUXILIARIES)
        if found or not (auxiliaries or any(self.words[index].dep in PASSIVE_SUBJECTS for index in subjects)):
            return found
        markers = ((index, case) for index in self.labelled(verb, {"obl"}) for case in self.labelled(index, {"case"}))
        return [index for index, case in markers if self.words[case].text.lower() in AGENT_MARKERS][:1]

    def noun_indices(self, indices: list[int]) -> list[int]:
        """The nouns at the indices, or in the phrases that begin there, and nouns joined by "and"."""
        found: list[int] = []
        waiting: list[int] = []
        for index in indices:
            # In ClearNLP and TIGER an adposition heads its phrase.
            waiting += self.labelled(index, IN_A_PHRASE) if self.words[index].pos == "ADP" else [index]
        while waiting:
            found.append(waiting.pop(0))
            waiting = self.labelled(found[-1], {"conj"}) + waiting
        return found

    def lemma(self, index: int, verb: int) -> str:
        """The lemma of one of the verb's nouns; for a relative pronoun, the lemma of its noun."""
        word, clause = self.words[index], self.words[verb]
        if clause.dep in RELATIVE_CLAUSES and word.text.lower() in RELATIVE_PRONOUNS:
            word = self.words[clause.head]
        return word.lemma.lower()
