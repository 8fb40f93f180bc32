"""BM25 against bm25s's own scores and against a plain twin from Lucene's formula."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from likewise.errors import MissingExtra, UsageError
from likewise.search import ranker
from likewise.search.ranker import Scores
from likewise.search.word_rankers import Bm25

bm25s = pytest.importorskip("bm25s", reason="bm25s is not installed (extra: search)")


def scores_of(bm25: Bm25, queries: Sequence[str]) -> Scores:
    return np.concatenate([scores for _, scores in bm25.score_blocks(queries)])


def random_texts(seed: int, number: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{rank}" for rank in rng.zipf(1.5, rng.integers(0, 15)) if rank < 40) for _ in range(number)]


def plain_bm25(queries: list[str], texts: list[str], k1: float = 1.5, b: float = 0.75) -> list[list[float]]:
    tokens = [text.split() for text in texts]
    average = sum(map(len, tokens)) / len(tokens)
    held = Counter(word for text in tokens for word in set(text))

    def score(query: str, text: list[str]) -> float:
        total = 0.0
        for word in query.split():
            if word in text:
                rarity = math.log(1 + (len(texts) - held[word] + 0.5) / (held[word] + 0.5))
                often = text.count(word)
                total += rarity * often / (often + k1 * (1 - b + b * len(text) / average))
        return total

    return [[score(query, text) for text in tokens] for query in queries]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4), (0.0, 0.0), (2.0, 1.0)])
def test_equals_the_plain_twin(seed: int, k1: float, b: float) -> None:
    texts, queries = random_texts(seed, 50), [*random_texts(seed + 100, 20), "", "w1 unknown w1 w2"]
    scores = scores_of(Bm25(texts, k1, b), queries)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, plain_bm25(queries, texts, k1, b), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_equals_bm25s_to_the_bit_in_blocks_of_any_size(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, queries = random_texts(seed, 50), ["w1 w1", *(text + " w1 unknown" for text in random_texts(seed + 50, 9))]
    peer = bm25s.BM25(k1=1.5, b=0.75, method="lucene", dtype="float64")
    peer.index([text.split() for text in texts], show_progress=False)
    expected = np.stack([peer.get_scores(query.split()) for query in queries])
    found = Bm25(texts)
    assert np.array_equal(scores_of(found, queries), expected)
    monkeypatch.setattr(ranker, "BLOCK_BYTES", 4 * 50 * 3)
    blocks = list(found.score_blocks(queries))
    assert [start for start, _ in blocks] == [0, 3, 6, 9]
    assert np.array_equal(np.concatenate([block for _, block in blocks]), expected)


def test_texts_and_queries_without_words_score_nothing() -> None:
    scores = scores_of(Bm25(["a cat", "", "..."]), ["cat", "", "?!", "dog"])
    assert scores[0, 0] > 0
    scores[0, 0] = 0
    assert scores.tolist() == [[0.0] * 3] * 4
    assert scores_of(Bm25(["", " ", "!"]), ["cat", ""]).tolist() == [[0.0] * 3] * 2
    assert list(Bm25(["cat"]).score_blocks([])) == []


def test_one_text() -> None:
    assert scores_of(Bm25(["cat"]), ["CAT"])[0, 0] == pytest.approx(math.log(4 / 3) / 2.5)


def test_a_word_of_every_text_still_counts() -> None:
    assert (scores_of(Bm25(["the cat"] * 5), ["the"]) > 0).all()


def test_equal_texts_and_unicode() -> None:
    scores = scores_of(Bm25(["東京 Ärger", "cafe\u0301", "ÄRGER, 東京!", "x"]), ["ärger", "Café"])
    assert scores[0, 0] == scores[0, 2] > 0 == scores[0, 1]
    assert scores[1].argmax() == 1


def test_a_huge_text() -> None:
    texts = ["cat dog " * 100_000, "cat dog", "bird"]
    assert np.isfinite(scores_of(Bm25(texts), ["dog"])).all()


def test_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    scores_of(Bm25(["a cat", "a dog"]), ["cat"])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("k1", "b"), [(-0.1, 0.5), (1.5, 1.1), (math.nan, 0.5), (1.5, math.nan), (math.inf, 0.5)])
def test_refuses_constants_that_make_no_sense(k1: float, b: float) -> None:
    with pytest.raises(UsageError, match="choose k1 of at least 0, and b from 0 to 1"):
        Bm25(["cat"], k1, b)


def test_names_the_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(MissingExtra, match=r"bm25s is not installed; run: pip install \"likewise\[search\]\""):
        Bm25(["cat"])
