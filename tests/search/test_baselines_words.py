"""Bag of words and TF-IDF against plain twins."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from likewise.search import ranker
from likewise.search.ranker import Ranker, Scores
from likewise.search.word_rankers import BagOfWords, TfIdf, WordCosine
from likewise.search.words import cased_words, words

Weights = Callable[[str], dict[str, float]]


def scores_of(ranker: Ranker, queries: Sequence[str]) -> Scores:
    return np.concatenate([scores for _, scores in ranker.score_blocks(queries)])


def random_texts(seed: int, number: int) -> list[str]:
    rng = np.random.default_rng(seed)
    vocabulary = [f"word{place}" for place in range(30)] + ["a", "5", "naïve", "東京"]
    return [" ".join(rng.choice(vocabulary, rng.integers(0, 12))) for _ in range(number)]


def plain_cosines(queries: list[str], texts: list[str], weights: Weights) -> list[list[float]]:
    def cosine(left: dict[str, float], right: dict[str, float]) -> float:
        lengths = [math.sqrt(sum(value**2 for value in side.values())) for side in (left, right)]
        dot = sum(value * right.get(word, 0.0) for word, value in left.items())
        return dot / (lengths[0] * lengths[1]) if all(lengths) else 0.0

    return [[cosine(weights(query), weights(text)) for text in texts] for query in queries]


def plain_counts(texts: list[str]) -> Weights:
    known = {word for text in texts for word in text.split()}
    return lambda text: {word: count for word, count in Counter(text.split()).items() if word in known}


def plain_tfidf(texts: list[str]) -> Weights:
    counts = plain_counts(texts)
    number = Counter(word for text in texts for word in set(text.split()))
    idf = {word: 1 + math.log((1 + len(texts)) / (1 + held)) for word, held in number.items()}
    return lambda text: {word: count * idf[word] for word, count in counts(text).items()}


KINDS: list[tuple[type[WordCosine], Callable[[list[str]], Weights]]] = [
    (BagOfWords, plain_counts),
    (TfIdf, plain_tfidf),
]
RANKERS = [kind for kind, _ in KINDS]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("kind", "twin"), KINDS)
def test_equals_the_plain_twin(
    kind: type[WordCosine], twin: Callable[[list[str]], Weights], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, queries = random_texts(seed, 40), [*random_texts(seed + 100, 15), "", "word1 unknown word1"]
    found = kind(texts)
    scores = scores_of(found, queries)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, plain_cosines(queries, texts, twin(texts)), atol=1e-6)
    monkeypatch.setattr(ranker, "BLOCK_BYTES", 4 * 40 * 3)
    blocks = list(found.score_blocks(queries))
    assert [start for start, _ in blocks] == [0, 3, 6, 9, 12, 15]
    assert np.array_equal(np.concatenate([block for _, block in blocks]), scores)


@pytest.mark.parametrize("kind", RANKERS)
def test_texts_and_queries_without_words_score_nothing(kind: type[WordCosine]) -> None:
    assert scores_of(kind(["cat", "", "..."]), ["cat", "", "?!", "dog"]).tolist() == [
        [1, 0, 0],
        [0] * 3,
        [0] * 3,
        [0] * 3,
    ]
    assert scores_of(kind(["", " ", "!"]), ["cat", ""]).tolist() == [[0.0] * 3] * 2
    assert scores_of(kind(["cat"]), ["Cat!"]).tolist() == [[1.0]]
    assert list(kind(["cat"]).score_blocks([])) == []


@pytest.mark.parametrize("kind", RANKERS)
def test_texts_of_stop_words_only(kind: type[WordCosine]) -> None:
    assert scores_of(kind(["the", "of it"], stop_words="english"), ["the"]).tolist() == [[0.0, 0.0]]
    assert scores_of(kind(["the cat", "the"], stop_words="english"), ["the cat"]).tolist() == [[1.0, 0.0]]


def test_stop_words_are_kept() -> None:
    assert scores_of(BagOfWords(["the cat", "the the"]), ["the"])[0, 1] == 1


@pytest.mark.parametrize("kind", RANKERS)
def test_equal_texts_score_equally(kind: type[WordCosine]) -> None:
    scores = scores_of(kind(["the cat sat", "a dog", "The cat SAT.", "the cat sat"]), ["a cat sat"])[0]
    assert scores[0] == scores[2] == scores[3]


@pytest.mark.parametrize("kind", RANKERS)
def test_a_huge_text(kind: type[WordCosine]) -> None:
    scores = scores_of(kind(["cat dog " * 200_000, "cat dog"]), ["dog cat"])
    np.testing.assert_allclose(scores, 1.0, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("U.S. troops: 5 killed", ["u", "s", "troops", "5", "killed"]),
        ("Don't re-use it", ["don", "t", "re", "use", "it"]),
        ("Ärger in ΣΊΣΥΦΟΣ, 東京", ["ärger", "in", "σίσυφος", "東京"]),
        ("cafe\u0301 na\u0131ve", ["café", "naıve"]),
        ("", []),
        ("🙂 …", []),
        ("broken \ud800 half", ["broken", "half"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_cased_words_keep_their_case() -> None:
    assert cased_words("U.S. Cafe\u0301") == ["U", "S", "Café"]
