"""Words of a parsed text, and what follows from them: token alignment, shared nouns, semantic roles."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a text; white space is not a word.

    >>> word = Word("dogs", start=4, end=8, pos="NOUN", dep="nsubj", head=2, lemma="dog")
    >>> "The dogs bark."[word.start : word.end], word.is_number
    ('dogs', False)
    """

    text: str
    start: int
    """index of its first character in the text"""
    end: int
    """one past its last character"""
    pos: str
    """Universal part of speech, such as NOUN."""
    dep: str
    """Dependency label in the pipeline's own scheme, lower-cased, such as nsubj; a sentence's root has root."""
    head: int
    """Index of its head among the text's words; a root is its own head."""
    lemma: str
    """The lower-cased text if the pipeline has no lemmas."""
    is_stop: bool = False
    """Whether it is in the language's stop list, in any case."""
    is_punct: bool = False
    """Whether it is a punctuation mark."""
    negates: bool = False
    """Whether it is a negation: not, nobody, kein."""
    number: str | None = None
    """The value of the number it is or belongs to ("38" for both words of thirty-eight), else its lower-cased text."""

    @property
    def is_number(self) -> bool:
        """Whether the word is a number, in digits or letters.

        >>> Word("38", 0, 2, "NUM", "root", 0, "38", number="38").is_number
        True
        """
        return self.number is not None


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
    best, most = None, 0
    for index in range(first, len(words)):
        if words[index].start >= end:
            break
        overlap = min(end, words[index].end) - max(start, words[index].start)
        if overlap > most:
            best, most = index, overlap
    return best


NOUNS = frozenset({"NOUN", "PROPN"})


def noun_form(word: Word) -> str | None:
    """A noun in lower case; None for other words.

    >>> noun_form(Word("Dogs", start=0, end=4, pos="NOUN", dep="nsubj", head=1, lemma="dog"))
    'dogs'
    """
    return word.text.lower() if word.pos in NOUNS else None


def shared_nouns(left: ParsedText, right: ParsedText) -> int:
    """How many nouns two texts share; a noun that occurs twice in both counts twice.

    >>> dog = Word("dog", start=0, end=3, pos="NOUN", dep="root", head=0, lemma="dog")
    >>> shared_nouns(ParsedText("dog", (dog,)), ParsedText("dog dog", (dog, dog)))
    1
    """
    one, other = (Counter(form for word in text.words if (form := noun_form(word))) for text in (left, right))
    return (one & other).total()


def noun_matches(left: ParsedText, right: ParsedText) -> list[tuple[int, int]]:
    """The index pairs of words of two texts that are the same noun.

    >>> dog = Word("dog", start=0, end=3, pos="NOUN", dep="root", head=0, lemma="dog")
    >>> noun_matches(ParsedText("dog", (dog,)), ParsedText("dog dog", (dog, dog)))
    [(0, 0), (0, 1)]
    """
    forms = [[noun_form(word) for word in text.words] for text in (left, right)]
    return [
        (row, column)
        for row, one in enumerate(forms[0])
        for column, other in enumerate(forms[1])
        if one is not None and one == other
    ]


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
    tree = _Tree(parsed.words, _children(parsed.words))
    triples = []
    for verb, word in enumerate(parsed.words):
        agents, patients = tree.sides(verb)
        triples += [
            (tree.lemma(agent, verb), word.lemma.lower(), tree.lemma(patient, verb))
            for agent in agents
            for patient in patients
        ]
    return triples


def _children(words: tuple[Word, ...]) -> list[list[int]]:
    """The indices of each word's dependents; those of auxiliaries move to the verb, as in Universal Dependencies."""
    children: list[list[int]] = [[] for _ in words]
    for index, word in enumerate(words):
        head = words[word.head].head if words[word.head].dep in AUXILIARIES else word.head
        if head != index:
            children[head].append(index)
    return children


@dataclass(frozen=True, slots=True)
class _Tree:
    """The dependency tree over a text's words, by word index."""

    words: tuple[Word, ...]
    children: list[list[int]]

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
        return [index for index in self.labelled(verb, {"obl"}) if self.has_marker(index)][:1]

    def has_marker(self, index: int) -> bool:
        """Whether "by" or "von" precedes it."""
        return any(self.words[child].text.lower() in AGENT_MARKERS for child in self.labelled(index, {"case"}))

    def noun_indices(self, indices: list[int]) -> list[int]:
        """The nouns at the indices, or in the phrases that begin there, and nouns joined by "and"."""
        found: list[int] = []
        waiting = [noun for index in indices for noun in self.in_phrase(index)]
        while waiting:
            found.append(waiting.pop(0))
            waiting = self.labelled(found[-1], {"conj"}) + waiting
        return found

    def in_phrase(self, index: int) -> list[int]:
        """The objects of an adposition that heads its phrase, as in ClearNLP and TIGER; any other word itself."""
        return self.labelled(index, IN_A_PHRASE) if self.words[index].pos == "ADP" else [index]

    def lemma(self, index: int, verb: int) -> str:
        """The lemma of one of the verb's nouns; for a relative pronoun, the lemma of its noun."""
        word, clause = self.words[index], self.words[verb]
        if clause.dep in RELATIVE_CLAUSES and word.text.lower() in RELATIVE_PRONOUNS:
            word = self.words[clause.head]
        return word.lemma.lower()
