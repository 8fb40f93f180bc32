from __future__ import annotations

import pytest

from likewise.grammar import Grammar, ParsedText, Word, roles


def sentence(*words: str) -> ParsedText:
    """Words written as text/lemma/pos/label/head."""
    parts = [word.split("/") for word in words]
    found = [Word(text, 0, 0, pos, dep, int(head), lemma) for text, lemma, pos, dep, head in parts]
    return ParsedText(" ".join(word.text for word in found), tuple(found))


ACTIVE = sentence(
    "The/the/DET/det/1", "dog/dog/NOUN/nsubj/2", "bit/bite/VERB/root/2", "the/the/DET/det/4", "man/man/NOUN/obj/2"
)
SWAPPED = sentence(
    "The/the/DET/det/1", "man/man/NOUN/nsubj/2", "bit/bite/VERB/root/2", "the/the/DET/det/4", "dog/dog/NOUN/obj/2"
)


def passive(agent_label: str) -> ParsedText:
    return sentence(
        "The/the/DET/det/1",
        "man/man/NOUN/nsubj:pass/3",
        "was/be/AUX/aux:pass/3",
        "bitten/bite/VERB/root/3",
        "by/by/ADP/case/6",
        "the/the/DET/det/6",
        f"dog/dog/NOUN/{agent_label}/3",
    )


@pytest.mark.parametrize("label", ["obl:agent", "obl"])
def test_a_passive_has_the_roles_of_its_active(label: str) -> None:
    assert roles(ACTIVE) == roles(passive(label)) == [("dog", "bite", "man")]


def test_a_swap_shows() -> None:
    assert roles(SWAPPED) == [("man", "bite", "dog")]


def test_clear_labels_of_the_english_pipelines() -> None:
    parsed = sentence(
        "Man/man/NOUN/nsubjpass/2",
        "was/be/AUX/auxpass/2",
        "bitten/bite/VERB/root/2",
        "by/by/ADP/agent/2",
        "the/the/DET/det/5",
        "dog/dog/NOUN/pobj/3",
    )
    assert roles(parsed) == [("dog", "bite", "man")]
    given = sentence(
        "She/she/PRON/nsubj/1", "gave/give/VERB/root/1", "books/book/NOUN/dobj/1", "to/to/ADP/dative/1",
        "Tom/Tom/PROPN/pobj/3",
    )  # fmt: skip
    assert roles(given) == [("she", "give", "book"), ("she", "give", "tom")]


def test_tiger_labels_of_the_german_pipelines() -> None:
    active = sentence(
        "Der/der/DET/nk/1", "Hund/Hund/NOUN/sb/2", "hat/haben/AUX/root/2", "den/der/DET/nk/4", "Mann/Mann/NOUN/oa/5",
        "gebissen/beißen/VERB/oc/2",
    )  # fmt: skip
    passive = sentence(
        "Der/der/DET/nk/1", "Mann/Mann/NOUN/sb/2", "wurde/werden/AUX/root/2", "von/von/ADP/sbp/6", "dem/der/DET/nk/5",
        "Hund/Hund/NOUN/nk/3", "gebissen/beißen/VERB/oc/2",
    )  # fmt: skip
    assert roles(active) == roles(passive) == [("hund", "beißen", "mann")]


def test_joined_verbs_and_nouns() -> None:
    parsed = sentence(
        "Dogs/dog/NOUN/nsubj/3", "and/and/CCONJ/cc/2", "wolves/wolf/NOUN/conj/0", "chase/chase/VERB/root/3",
        "cats/cat/NOUN/obj/3", "and/and/CCONJ/cc/6", "eat/eat/VERB/conj/3", "mice/mouse/NOUN/obj/6",
    )  # fmt: skip
    assert roles(parsed) == [
        ("dog", "chase", "cat"), ("wolf", "chase", "cat"), ("dog", "eat", "mouse"), ("wolf", "eat", "mouse"),
    ]  # fmt: skip


def test_an_active_verb_joined_to_a_passive_one_has_its_subject_act() -> None:
    parsed = sentence(
        "Men/man/NOUN/nsubj:pass/2", "were/be/AUX/aux:pass/2", "bitten/bite/VERB/root/2", "and/and/CCONJ/cc/4",
        "shot/shoot/VERB/conj/2", "dogs/dog/NOUN/obj/4",
    )  # fmt: skip
    assert roles(parsed) == [("man", "shoot", "dog")]


def test_a_relative_pronoun_stands_for_its_noun() -> None:
    parsed = sentence(
        "dog/dog/NOUN/nsubj/4", "that/that/PRON/nsubj/2", "bit/bite/VERB/acl:relcl/0", "men/man/NOUN/obj/2",
        "ran/run/VERB/root/4",
    )  # fmt: skip
    assert roles(parsed) == [("dog", "bite", "man")]


def test_a_pronoun_outside_a_relative_clause_stands_for_itself() -> None:
    parsed = sentence("He/he/PRON/nsubj/1", "said/say/VERB/root/1", "that/that/PRON/nsubj/3", "hurt/hurt/VERB/ccomp/1",
                      "him/he/PRON/obj/3")  # fmt: skip
    assert roles(parsed) == [("that", "hurt", "he")]


def test_by_is_no_agent_of_an_active() -> None:
    parsed = sentence(
        "He/he/PRON/nsubj/1", "saw/see/VERB/root/1", "it/it/PRON/obj/1", "by/by/ADP/case/4", "day/day/NOUN/obl/1"
    )
    assert roles(parsed) == [("he", "see", "it")]


@pytest.mark.parametrize(
    "parsed",
    [
        ParsedText("", ()),
        sentence("Dogs/dog/NOUN/nsubj/1", "bark/bark/VERB/root/1"),
        sentence("Men/man/NOUN/nsubj:pass/2", "were/be/AUX/aux:pass/2", "bitten/bite/VERB/root/2"),
        sentence("She/she/PRON/nsubj:pass/1", "given/give/VERB/root/1", "books/book/NOUN/obj/1"),
        sentence("Eat/eat/VERB/root/0", "apples/apple/NOUN/obj/0"),
    ],
    ids=["empty", "no object", "no agent", "no agent but an object", "no subject"],
)
def test_incomplete_clauses_give_none(parsed: ParsedText) -> None:
    assert roles(parsed) == []


# The test pipelines know no lemmas, so the verb has one form in active and passive here.
@pytest.mark.data
@pytest.mark.parametrize(
    ("text", "triples"),
    [
        ("The dog chased the man.", [("dog", "chased", "man")]),
        ("The man was chased by the dog.", [("dog", "chased", "man")]),
        ("The man chased the dog.", [("man", "chased", "dog")]),
        ("The man was bitten by the dog.", [("dog", "bitten", "man")]),
        ("The dog that chased the cat ran away.", [("dog", "chased", "cat")]),
        ("The man was attacked and killed by the dog.", [("dog", "killed", "man")]),
        ("Peter gave Mary a book.", [("peter", "gave", "mary"), ("peter", "gave", "book")]),
        ("The  dog\n\nchased   the cat. ", [("dog", "chased", "cat")]),
    ],
)
def test_english_roles(english: Grammar, text: str, triples: list[tuple[str, str, str]]) -> None:
    assert roles(english.parse([text])[0]) == triples


@pytest.mark.data
@pytest.mark.parametrize(
    ("text", "triples"),
    [
        ("Der Hund hat den Mann gebissen.", [("hund", "gebissen", "mann")]),
        ("Der Mann wurde von dem Hund gebissen.", [("hund", "gebissen", "mann")]),
        ("Die Katze wurde vom Hund gejagt.", [("hund", "gejagt", "katze")]),
        ("Die Katze hat den Hund gejagt.", [("katze", "gejagt", "hund")]),
        ("Peter und Paul haben das Haus gekauft.", [("peter", "gekauft", "haus"), ("paul", "gekauft", "haus")]),
    ],
)
def test_german_roles(german: Grammar, text: str, triples: list[tuple[str, str, str]]) -> None:
    assert roles(german.parse([text])[0]) == triples
