"""The built-in corpus: what its users and the documents rely on."""

from __future__ import annotations

import csv
import re
from collections import Counter

import numpy as np
import pytest

from likewise.data import read_labelled_texts, read_pairs, read_scored_pairs, read_texts
from likewise.data.columns import Columns
from likewise.encoder import Encoder
from likewise.sample import SAMPLES, sample_queries, sample_sentences

WORDS = ("bank", "bat", "crane", "pitch", "seal", "spring")
HARD_KINDS = ("negation", "number", "role-swap", "idiom")


def rows(name: str) -> list[dict[str, str]]:
    with SAMPLES[name].open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_sentences_are_unique_and_numbered() -> None:
    sentences = rows("sample/sentences")
    assert [row["id"] for row in sentences] == [f"s{number:03}" for number in range(1, 301)]
    assert len({row["text"].casefold() for row in sentences}) == 300
    assert sample_sentences() == [row["text"] for row in sentences]
    assert Counter(row["topic"] for row in sentences) == {"news": 100, "technical": 100, "everyday": 100}


@pytest.mark.parametrize("name", SAMPLES)
def test_texts_are_clean(name: str) -> None:
    for row in rows(name):
        for value in row.values():
            assert value == value.strip() and value.isprintable() and value
            assert "  " not in value


def test_pairs_cover_the_scale() -> None:
    pairs = list(read_scored_pairs("sample/pairs"))
    assert len(pairs) == 60
    assert all(0 <= pair.score <= 5 for pair in pairs)
    units = Counter(min(int(pair.score), 4) for pair in pairs)
    assert min(units[unit] for unit in range(5)) >= 5
    assert len({text for pair in pairs for text in (pair.left, pair.right)}) == 120


@pytest.mark.parametrize("kind", HARD_KINDS)
def test_hard_kinds_are_there(kind: str) -> None:
    assert sum(row["kind"] == kind for row in rows("sample/pairs")) >= 6


def test_number_pairs_differ_in_a_number() -> None:
    spelled = r"\d|\b(one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|twenty|thirty|half)\b"
    for row in rows("sample/pairs"):
        if row["kind"] == "number":
            assert re.search(spelled, row["sentence1"].lower()) and re.search(spelled, row["sentence2"].lower()), row


def test_words_appear_once_in_each_of_twelve_contexts() -> None:
    contexts = rows("sample/words")
    assert Counter(row["word"] for row in contexts) == dict.fromkeys(WORDS, 12)
    assert len({row["sentence"] for row in contexts}) == 72
    for row in contexts:
        assert len(re.findall(rf"\b{row['word']}\b", row["sentence"].lower())) == 1, row


@pytest.mark.parametrize("word", WORDS)
def test_words_have_two_senses_or_more_in_equal_numbers(word: str) -> None:
    senses = Counter(row["sense"] for row in rows("sample/words") if row["word"] == word)
    assert len(senses) >= 2 and len(set(senses.values())) == 1


def test_queries_point_to_sentences() -> None:
    ids, queries = {row["id"] for row in rows("sample/sentences")}, sample_queries()
    assert len(queries) == 6
    for relevant in queries.values():
        assert len(relevant) == len(set(relevant)) >= 3
        assert set(relevant) <= ids


def test_data_room_hands_the_sample_out() -> None:
    assert [row.text for row in read_texts("sample/sentences")] == sample_sentences()
    assert next(read_texts("sample/sentences")).id == "s001"
    assert len(list(read_pairs("sample/pairs"))) == 60
    words = list(read_labelled_texts("sample/words", columns=Columns(text="sentence", label="sense")))
    assert len(words) == 72 and words[0].meta["word"] in WORDS


@pytest.mark.slow
def test_bundled_model_finds_the_relevant_sentences(minilm: Encoder) -> None:
    """Measured: 21 of the 24 are among the first ten, three or four of each query's four."""
    queries, sentences = sample_queries(), rows("sample/sentences")
    scores = minilm.similarity(list(queries), [row["text"] for row in sentences])
    found = {}
    for (query, relevant), row in zip(queries.items(), scores, strict=True):
        top = {sentences[place]["id"] for place in np.argsort(-row)[:10]}
        found[query] = len(top & set(relevant)) / len(relevant)
    assert min(found.values()) >= 0.6, found
    assert np.mean(list(found.values())) >= 0.8, found
