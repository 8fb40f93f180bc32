"""Averages of static vectors against plain twins, out of a file and out of a model's input."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from likewise.data.word_vectors import WordVectors
from likewise.encoder import Encoder
from likewise.errors import DataError
from likewise.search import averaged_vectors, ranker
from likewise.search.averaged_vectors import InputEmbeddings, StaticVectors, averages
from likewise.search.ranker import Ranker, Scores
from tiny_models import CONFIGS, tiny_encoder
from twins import twin_model, twin_tokenizer

VOCABULARY = [*(f"word{place}" for place in range(30)), "a", "5", "naïve", "東京"]


def scores_of(ranker: Ranker, queries: Sequence[str]) -> Scores:
    return np.concatenate([scores for _, scores in ranker.score_blocks(queries)])


def random_texts(seed: int, number: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice([*VOCABULARY, "unknown"], rng.integers(0, 12))) for _ in range(number)]


def vector_file(folder: Path, seed: int = 0) -> tuple[Path, dict[str, list[float]]]:
    matrix = np.random.default_rng(seed).normal(size=(len(VOCABULARY), 6)).round(5).tolist()
    vectors = dict(zip(VOCABULARY, matrix, strict=True))
    path = folder / "vectors.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in vectors.items()))
    return path, vectors


def plain_cosines(queries: list[list[list[float]]], texts: list[list[list[float]]]) -> list[list[float]]:
    """Each text is the list of its words' vectors."""

    def average(vectors: list[list[float]]) -> list[float]:
        return [sum(column) / len(vectors) for column in zip(*vectors, strict=True)]

    def cosine(left: list[float], right: list[float]) -> float:
        return sum(a * b for a, b in zip(left, right, strict=True)) / math.hypot(*left) / math.hypot(*right)

    return [[cosine(average(q), average(t)) if q and t else 0.0 for t in texts] for q in queries]


@pytest.mark.parametrize("seed", range(3))
def test_static_vectors_equal_the_plain_twin(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, vectors = vector_file(tmp_path, seed)
    texts, queries = random_texts(seed, 12), [*random_texts(seed + 50, 20), "", "unknown"]

    def looked_up(some: list[str]) -> list[list[list[float]]]:
        return [[vectors[word] for word in text.split() if word in vectors] for text in some]

    expected = plain_cosines(looked_up(queries), looked_up(texts))
    found = scores_of(StaticVectors(texts, path), queries)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    monkeypatch.setattr(ranker, "BLOCK_BYTES", 4 * 12 * 5)
    monkeypatch.setattr(averaged_vectors, "WINDOW", 3)
    blocks = list(StaticVectors(texts, path).score_blocks(queries))
    assert [start for start, _ in blocks] == [0, 5, 10, 15, 20]
    np.testing.assert_allclose(np.concatenate([block for _, block in blocks]), found, atol=1e-6)


def test_new_words_of_queries_cost_one_pass_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = vector_file(tmp_path)
    asked = []

    def pooling_mask(path: Path, wanted: set[str], **options: object) -> WordVectors:
        asked.append(sorted(wanted))
        return read(path, wanted)

    read = averaged_vectors.read_word_vectors
    monkeypatch.setattr(averaged_vectors, "read_word_vectors", pooling_mask)
    found = StaticVectors(["word1 word2"], path)
    first = scores_of(found, ["word3", "word1 unknown", "word3 word4"])
    again = scores_of(found, ["word3", "unknown", "word2"])
    assert asked == [["word1", "word2"], ["unknown", "word3", "word4"]]
    assert first[0, 0] == again[0, 0] != 0 == again[1, 0]


def test_case_and_unicode(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("us 1 0\nUS 0 1\ncafé 1 1\n")
    scores = scores_of(StaticVectors(["us", "US", "Café"], path), ["US", "Us", "CAFE\u0301"])
    half = pytest.approx(math.sqrt(0.5))
    assert scores.tolist() == [[0, 1, half], [1, 0, half], [half, half, pytest.approx(1)]]


def test_texts_without_known_words_score_nothing(tmp_path: Path) -> None:
    path, _ = vector_file(tmp_path)
    assert scores_of(StaticVectors(["", "unknown", "?"], path), ["word1", "", "unknown"]).tolist() == [[0.0] * 3] * 3
    assert list(StaticVectors(["word1"], path).score_blocks([])) == []


def test_equal_and_huge_texts(tmp_path: Path) -> None:
    path, _ = vector_file(tmp_path)
    scores = scores_of(StaticVectors(["word1 word2", "word2, word1!", "word1 word2 " * 100_000], path), ["word2 word1"])
    np.testing.assert_allclose(scores, 1.0, atol=1e-6)


def test_a_flawed_file_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("cat 1 2\ndog 1\n")
    with pytest.raises(DataError, match="line 2: 1 number where 2 are due"):
        StaticVectors(["cat"], tmp_path / "v.txt")


@pytest.mark.parametrize("seed", range(3))
def test_averages_equal_the_plain_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(9, 4)).astype(np.float32)
    rows = [rng.integers(0, 9, length).tolist() for length in (3, 0, 50, 1)]
    plain = [[sum(matrix[row, place] for row in text) / max(1, len(text)) for place in range(4)] for text in rows]
    np.testing.assert_allclose(averages(rows, matrix), plain, atol=1e-6)
    assert averages([[], []], matrix[:0]).shape == (2, 4)


def table_rows(encoder: Encoder, text: str) -> list[list[float]]:
    """The word embeddings of a text's tokens, by the model's own tokenizer and module."""
    ids = twin_tokenizer(encoder)(text, add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        rows: list[list[float]] = (
            twin_model(encoder).get_input_embeddings()(torch.tensor(ids, dtype=torch.long)).tolist()
        )
    return rows


def test_input_embeddings_equal_the_plain_twin(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["a cat sat.", "", "dogs ran, dogs ran", "東京", "a cat sat."]
    queries = ["cats sit", "", "the dogs", "東"]
    expected = plain_cosines([table_rows(tiny, query) for query in queries], [table_rows(tiny, text) for text in texts])
    found = scores_of(InputEmbeddings(texts, tiny), queries)
    assert found.dtype == np.float32 and not found[1].any()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    monkeypatch.setattr(ranker, "BLOCK_BYTES", 4 * 5 * 3)
    monkeypatch.setattr(averaged_vectors, "WINDOW", 2)
    np.testing.assert_allclose(scores_of(InputEmbeddings(texts, tiny), queries), found, atol=1e-6)


@pytest.mark.parametrize("name", CONFIGS)
def test_input_embeddings_of_every_family(name: str) -> None:
    encoder = tiny_encoder(name)
    texts, queries = ["a cat sat.", "dogs ran"], ["cats sit", "the dogs"]
    expected = plain_cosines([table_rows(encoder, q) for q in queries], [table_rows(encoder, t) for t in texts])
    np.testing.assert_allclose(scores_of(InputEmbeddings(texts, encoder), queries), expected, atol=1e-5)


@pytest.mark.slow
def test_input_embeddings_of_the_bundled_model(minilm: Encoder) -> None:
    texts, queries = ["A cat sat.", "Heavy rain in Tokyo"], ["the cats were sitting", "storms over Japan"]
    expected = plain_cosines([table_rows(minilm, q) for q in queries], [table_rows(minilm, t) for t in texts])
    found = scores_of(InputEmbeddings(texts, minilm), queries)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert found.argmax(1).tolist() == [0, 1]


def test_input_embeddings_leave_special_tokens_out(tiny: Encoder) -> None:
    scores = scores_of(InputEmbeddings(["cat", "[SEP]"], tiny), ["cat [SEP]"])
    assert scores[0].tolist() == [pytest.approx(1), 0]


def test_input_embeddings_tell_what_is_cut(tiny: Encoder, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "likewise"):
        found = InputEmbeddings(["a b " * 100, "a"], tiny)
    assert "cut at the model's limit of 32 tokens: 1 of 2 texts" in caplog.text
    assert list(found.score_blocks([])) == []
