from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from likewise.errors import Cancelled, DataError
from likewise.grammar import Grammar, ParsedText
from likewise.grammar.grammar import BATCH_CHARACTERS, BATCH_TEXTS, parsed_text, readable

spacy = pytest.importorskip("spacy", reason="spaCy is not installed (extra: grammar)")


def constant_grammar(language: str = "en", **labels: str) -> Grammar:
    """A grammar that gives every token the same labels."""
    nlp = spacy.blank(language)
    nlp.add_pipe("attribute_ruler").add([[{}]], {"POS": "NOUN", "DEP": "dep", **labels})
    return Grammar("constant", nlp)


CONSTANT = constant_grammar()


class CountingPipeline:
    """Notes the batches that reach the pipeline."""

    def __init__(self, nlp: Any) -> None:
        self.nlp, self.max_length, self.batches = nlp, nlp.max_length, []

    def pipe(self, texts: Iterable[str], batch_size: int) -> Iterator[Any]:
        self.batches.append(list(texts))
        return self.nlp.pipe(self.batches[-1], batch_size=batch_size)


def counting() -> tuple[Grammar, list[list[str]]]:
    pipeline = CountingPipeline(CONSTANT.nlp)
    return Grammar("counting", pipeline), pipeline.batches


def texts_of(parsed: ParsedText) -> list[str]:
    return [word.text for word in parsed.words]


@settings(deadline=None)
@given(st.text(st.characters() | st.sampled_from(" \n\t\u00a0ab.'-"), max_size=60))
def test_words_cover_the_text_in_order(text: str) -> None:
    (parsed,) = CONSTANT.parse([text])
    assert parsed.text == text
    assert "".join(texts_of(parsed)) == "".join(text.split())
    for place, word in enumerate(parsed.words):
        assert text[word.start : word.end] == word.text
        assert 0 <= word.head < len(parsed.words)
        assert place == 0 or parsed.words[place - 1].end <= word.start


@given(st.text(st.characters() | st.sampled_from(" \n\t"), max_size=40))
def test_readable_texts_keep_their_places(text: str) -> None:
    plain, places = readable(text)
    assert plain.split() == "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in text).split()
    assert len(plain) == len(places)
    assert "  " not in plain
    assert all(text[place].isspace() if letter == " " else True for letter, place in zip(plain, places, strict=True))


@pytest.mark.parametrize("text", ["", " ", "\n\t \u00a0\u2003"])
def test_texts_without_words(text: str) -> None:
    assert CONSTANT.parse([text]) == [ParsedText(text, ())]


def test_no_texts() -> None:
    assert CONSTANT.parse([]) == []


def test_a_single_text_may_stand_alone() -> None:
    assert CONSTANT.parse("Dogs bark") == CONSTANT.parse(["Dogs bark"])


def test_emoji_and_right_to_left_offsets() -> None:
    emoji, hebrew = CONSTANT.parse(["I ♥ 👩‍👩‍👧 x", "שלום עולם ، مرحبا"])
    assert [(word.start, word.end) for word in emoji.words if word.text in "I♥x"] == [(0, 1), (2, 3), (10, 11)]
    assert texts_of(hebrew) == ["שלום", "עולם", "،", "مرحبا"]
    assert (hebrew.words[1].start, hebrew.words[1].end) == (5, 9)


def test_bytes_that_are_no_utf8_keep_their_place() -> None:
    (parsed,) = CONSTANT.parse(["caf\udce9 noir"])
    assert "".join(texts_of(parsed)) == "caf\udce9noir"
    assert (parsed.words[-1].start, parsed.words[-1].end) == (5, 9)


def test_heads_skip_white_space() -> None:
    heads = [1, 3, 1, 3]
    doc = spacy.tokens.Doc(
        CONSTANT.nlp.vocab, ["a", " ", "b", "c"], [False] * 4, pos=["X"] * 4, deps=["dep"] * 4, heads=heads
    )
    assert [word.head for word in parsed_text("a bc", doc, [0, 1, 2, 3]).words] == [2, 2, 2]
    rooted = spacy.tokens.Doc(
        CONSTANT.nlp.vocab, ["a", " ", "b"], [False] * 3, pos=["X"] * 3, deps=["dep"] * 3, heads=[1, 1, 0]
    )
    assert [word.head for word in parsed_text("a b", rooted, [0, 1, 2]).words] == [0, 0]


def test_repeated_texts_are_parsed_once_and_answered_in_order() -> None:
    grammar, batches = counting()
    parsed = grammar.parse(["b", "a", "b", "b"])
    assert [one.text for one in parsed] == ["b", "a", "b", "b"]
    assert batches == [["b", "a"]]


def test_batches_are_small_in_texts_and_in_characters() -> None:
    grammar, batches = counting()
    short = [str(number) for number in range(BATCH_TEXTS + 1)]
    long = ["x " * (BATCH_CHARACTERS // 3) + str(number) for number in range(3)]
    assert [one.text for one in grammar.parse([*short, *long])] == [*short, *long]
    assert [len(batch) for batch in batches] == [BATCH_TEXTS, 2, 1, 1]


def test_progress_counts_every_text() -> None:
    seen: list[tuple[int, int | None, str]] = []
    CONSTANT.parse(["a", "a", "b"], progress=lambda *state: seen.append(state))
    assert seen[-1] == (3, 3, "texts")
    assert all(0 < done <= 3 for done, _, _ in seen)


def test_cancelling_stops_the_work() -> None:
    def cancel(done: int, total: int | None, note: str) -> None:
        raise Cancelled("enough")

    grammar, batches = counting()
    with pytest.raises(Cancelled):
        grammar.parse([str(number) for number in range(10 * BATCH_TEXTS)], progress=cancel)
    assert len(batches) == 1


def test_too_long_a_text_is_named() -> None:
    grammar = constant_grammar()
    grammar.nlp.max_length = 10
    with pytest.raises(DataError) as caught:
        grammar.parse(["short", "x" * 11])
    assert str(caught.value) == (
        "text 2 has 11 characters and the grammar constant takes 10; split it into shorter texts"
    )
    assert len(grammar.parse(["x" * 10])[0].words) == 1


@pytest.mark.parametrize(("text", "is_stop"), [("The", True), ("THE", True), ("the", True), ("dog", False)])
def test_stop_words_in_any_case(text: str, is_stop: bool) -> None:
    assert CONSTANT.parse(text)[0].words[0].is_stop is is_stop
    assert (text.lower() in CONSTANT.stop_words) is is_stop


def test_what_the_pipeline_says_is_kept() -> None:
    grammar = constant_grammar(LEMMA="Hund", DEP="ROOT", MORPH="Case=Nom|Polarity=Neg")
    (word,) = grammar.parse("Xyz")[0].words
    assert (word.lemma, word.dep, word.negates, grammar.has_lemmas) == ("Hund", "root", True, True)
    (word,) = CONSTANT.parse("Xyz")[0].words
    assert (word.lemma, word.negates) == ("xyz", False)


@pytest.mark.parametrize("label", ["neg", "ng"])
def test_negating_labels(label: str) -> None:
    assert constant_grammar("xx", DEP=label).parse("zonder")[0].words[0].negates


def test_numbers_are_told_from_pronouns() -> None:
    assert [word.number for word in CONSTANT.parse("Thirty-eight of 1,000 dogs")[0].words] == [
        "38", None, "38", None, "1000", None,
    ]  # fmt: skip
    assert constant_grammar(POS="PRON").parse("one")[0].words[0].number is None
    assert constant_grammar(POS="NUM").parse("🍕 zillion")[0].words[1].number == "zillion"
    assert constant_grammar(POS="NUM").parse("🍕")[0].words[0].number is None


def labels(parsed: ParsedText) -> list[tuple[str, str, str, int]]:
    return [(word.text, word.pos, word.dep, word.head) for word in parsed.words]


@pytest.mark.data
def test_an_english_sentence(english: Grammar) -> None:
    (parsed,) = english.parse(["The cat was chased by the dog."])
    assert labels(parsed) == [
        ("The", "DET", "det", 1),
        ("cat", "NOUN", "nsubj:pass", 3),
        ("was", "AUX", "aux:pass", 3),
        ("chased", "VERB", "root", 3),
        ("by", "ADP", "case", 6),
        ("the", "DET", "det", 6),
        ("dog", "NOUN", "obl:agent", 3),
        (".", "PUNCT", "punct", 3),
    ]
    assert [word.text for word in parsed.words if word.is_stop] == ["The", "was", "by", "the"]
    assert [word.text for word in parsed.words if word.is_punct] == ["."]
    assert (english.name, english.language, english.has_lemmas) == ("en_ud", "en", False)


@pytest.mark.data
def test_a_german_sentence(german: Grammar) -> None:
    (parsed,) = german.parse(["Der Hund biss den Mann."])
    assert labels(parsed) == [
        ("Der", "DET", "det", 1),
        ("Hund", "NOUN", "nsubj", 2),
        ("biss", "VERB", "root", 2),
        ("den", "DET", "det", 4),
        ("Mann", "NOUN", "obj", 2),
        (".", "PUNCT", "punct", 2),
    ]
    assert [word.text for word in parsed.words if word.is_stop] == ["Der", "den"]
    assert (german.name, german.language) == ("de_ud", "de")


@pytest.mark.data
def test_english_negations_and_numbers(english: Grammar) -> None:
    first, second = english.parse(["Nobody said I can’t see them without 38 eyes.", "Thirty-eight people died."])
    assert [word.text for word in first.words if word.negates] == ["Nobody", "n’t", "without"]
    assert [word.number for word in first.words if word.number is not None] == ["38"]
    assert {word.number for word in second.words if word.number is not None} == {"38"}


@pytest.mark.data
def test_german_negations_and_numbers(german: Grammar) -> None:
    first, second = german.parse(
        ["Er gab dem Kind kein Buch, NICHT ohne Grund.", "Achtunddreißig Menschen, 1.000 Euro."]
    )
    assert [word.text for word in first.words if word.negates] == ["kein", "NICHT", "ohne"]
    assert [word.number for word in second.words if word.number is not None] == ["38", "1000"]


@pytest.mark.data
def test_white_space_changes_no_label(english: Grammar) -> None:
    plain, spaced = english.parse(["The dog chased the cat.", "  The   dog\n\nchased\u00a0the\tcat. "])
    assert labels(plain) == labels(spaced)
    assert [word.start for word in spaced.words] == [2, 8, 13, 20, 24, 27]


@pytest.mark.data
def test_a_text_does_not_depend_on_its_neighbours(english: Grammar) -> None:
    texts = ["The dog chased the cat.", "😀 🍕", "שלום עולם", "", "Two sentences. Each has a root.", "x" * 3000]
    assert english.parse(texts) == [english.parse([text])[0] for text in texts]
    two = english.parse(texts)[4].words
    assert [word.text for place, word in enumerate(two) if word.head == place] == ["sentences", "has"]
