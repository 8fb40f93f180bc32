"""Negations: the words that deny, per language."""

from __future__ import annotations

# Inflected forms stand here too: many pipelines know no lemmas.
NEGATIONS: dict[str, frozenset[str]] = {
    "en": frozenset({
        "not", "n't", "nt", "no", "nope", "never", "none", "nobody", "nothing", "nowhere", "neither", "nor",
        "without", "cannot", "hardly", "scarcely", "barely",
    }),
    "de": frozenset({
        "nicht", "nichts", "nie", "niemals", "nimmer", "nirgends", "nirgendwo", "nein", "niemand", "niemandem",
        "niemanden", "niemandes", "kein", "keine", "keinem", "keinen", "keiner", "keines", "keins",
        "keinerlei", "keinesfalls", "keineswegs", "weder", "ohne", "kaum",
    }),
}  # fmt: skip
"""By language code; lower-cased."""

NEGATION_LABELS = frozenset({"neg", "ng"})
"""Dependency labels of negating words in ClearNLP's and TIGER's schemes."""


def is_negation(text: str, language: str, lemma: str = "") -> bool:
    """Whether a word, by its text or its lemma, denies something in the language.

    >>> is_negation("Keine", "de"), is_negation("n’t", "en"), is_negation("knot", "en")
    (True, True, False)
    """
    known = NEGATIONS.get(language, frozenset())
    return any(form.lower().replace("’", "'") in known for form in (text, lemma))
