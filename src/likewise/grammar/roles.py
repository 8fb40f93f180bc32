"""Roles: who does what to whom, by dependency labels."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from likewise.grammar.words import ParsedText, Word

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
    """The (agent, verb, patient) triples of a text, as lower-cased lemmas; a passive gives those of its active.

    Verbs without an agent or a patient give none. A verb shares the subject of the verb it is joined to by "and",
    joined nouns give a triple each, and a relative pronoun stands for its noun.

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
    """For each word the places of those that depend on it.

    A parser may hang a subject on the auxiliary; Universal Dependencies lets nothing depend on one.
    """
    children: list[list[int]] = [[] for _ in words]
    for index, word in enumerate(words):
        head = words[word.head].head if words[word.head].dep in AUXILIARIES else word.head
        if head != index:
            children[head].append(index)
    return children


@dataclass(frozen=True, slots=True)
class _Tree:
    """The dependency tree over a text's words; every word is known by its place."""

    words: tuple[Word, ...]
    children: list[list[int]]

    def sides(self, verb: int) -> tuple[list[int], list[int]]:
        """Who acts, and who is acted on."""
        subjects, objects = self.subjects(verb), self.labelled(verb, OBJECTS)
        agents = self.agents(verb, subjects)
        is_passive = agents or self.labelled(verb, PASSIVE_SUBJECTS | PASSIVE_AUXILIARIES)
        acting, acted_on = (agents, subjects + objects) if is_passive else (subjects, objects)
        return self.nouns(acting), self.nouns(acted_on)

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
        """Whether it is joined to another verb; in TIGER the subject hangs on the auxiliary above it."""
        word = self.words[verb]
        return word.dep == "conj" or (word.dep == "oc" and self.words[word.head].pos == "AUX")

    def agents(self, verb: int, subjects: list[int]) -> list[int]:
        """Who acts in a passive; parsers often leave the agent a plain oblique, told by its "by"."""
        found = self.labelled(verb, AGENTS)
        auxiliaries = self.labelled(verb, PASSIVE_AUXILIARIES)
        if found or not (auxiliaries or any(self.words[index].dep in PASSIVE_SUBJECTS for index in subjects)):
            return found
        return [index for index in self.labelled(verb, {"obl"}) if self.has_marker(index)][:1]

    def has_marker(self, index: int) -> bool:
        """Whether a "by" or "von" stands before it."""
        return any(self.words[child].text.lower() in AGENT_MARKERS for child in self.labelled(index, {"case"}))

    def nouns(self, indices: list[int]) -> list[int]:
        """The nouns at the places, or in the phrases that begin there, and those joined to them by "and"."""
        found: list[int] = []
        waiting = [noun for index in indices for noun in self.in_phrase(index)]
        while waiting:
            found.append(waiting.pop(0))
            waiting = self.labelled(found[-1], {"conj"}) + waiting
        return found

    def in_phrase(self, index: int) -> list[int]:
        """What follows an adposition that is the phrase's head, as in ClearNLP and TIGER; any other word itself."""
        return self.labelled(index, IN_A_PHRASE) if self.words[index].pos == "ADP" else [index]

    def lemma(self, index: int, verb: int) -> str:
        """The lemma of one of the verb's nouns, that of the noun meant where it is a relative pronoun."""
        word, clause = self.words[index], self.words[verb]
        if clause.dep in RELATIVE_CLAUSES and word.text.lower() in RELATIVE_PRONOUNS:
            word = self.words[clause.head]
        return word.lemma.lower()
