"""Similarities equal a plain double loop, in blocks or whole."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from likewise.encoder import Encoder
from likewise.encoder.similarity import paired_similarity, similarity, similarity_blocks, unit
from likewise.errors import DataError, UsageError

MEASURES = ["cosine", "dot"]


def plain(left: np.ndarray, right: np.ndarray, measure: str) -> np.ndarray:
    """A double loop in float64."""
    result = np.zeros((len(left), len(right)))
    for i, a in enumerate(left.tolist()):
        for j, b in enumerate(right.tolist()):
            dot = math.fsum(x * y for x, y in zip(a, b, strict=True))
            lengths = math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(y * y for y in b))
            result[i, j] = dot if measure == "dot" else dot / lengths if lengths else 0.0
    return result


def random_rows(seed: int, count: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, 8)).astype(np.float32)
    rows[1] = 0
    return rows


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("measure", MEASURES)
def test_equals_a_double_loop(measure: str, seed: int) -> None:
    left, right = random_rows(seed, 7), random_rows(seed + 10, 5)
    scores = similarity(left, right, measure)
    assert scores.dtype == np.float32 and scores.shape == (7, 5)
    assert np.abs(scores - plain(left, right, measure)).max() < 1e-5


@pytest.mark.parametrize("measure", MEASURES)
def test_blocks_equal_the_whole(measure: str) -> None:
    left, right = random_rows(3, 10), random_rows(4, 6)
    blocks = list(similarity_blocks(left, right, measure, block_bytes=4 * 4 * 6))
    assert [(start, block.shape) for start, block in blocks] == [(0, (4, 6)), (4, (4, 6)), (8, (2, 6))]
    whole = similarity(left, right, measure)
    assert np.allclose(np.concatenate([block for _, block in blocks]), whole, atol=1e-6)


@pytest.mark.parametrize("measure", MEASURES)
def test_pairs_are_the_diagonal(measure: str) -> None:
    left, right = random_rows(5, 6), random_rows(6, 6)
    expected = np.diag(plain(left, right, measure))
    assert np.abs(paired_similarity(left, right, measure) - expected).max() < 1e-5


def test_a_zero_vector_is_similar_to_nothing() -> None:
    assert similarity([0.0, 0.0], [[1.0, 2.0], [0.0, 0.0]]).tolist() == [[0.0, 0.0]]
    assert paired_similarity([[0.0, 0.0]], [[1.0, 2.0]]).tolist() == [0.0]
    assert unit(np.zeros((2, 3), np.float32)).tolist() == [[0.0] * 3] * 2


def test_one_to_many() -> None:
    many = random_rows(7, 4)
    assert similarity(many[0], many).shape == (1, 4)
    assert similarity(many[0], many)[0, 0] == pytest.approx(1)
    assert similarity(many, many[0]).shape == (4, 1)
    assert similarity(np.empty((0, 8)), many).shape == (0, 4)


def test_the_arguments_stay_as_they_are() -> None:
    rows = random_rows(8, 4)
    before = rows.copy()
    similarity(rows, rows)
    assert np.array_equal(rows, before)


def test_different_widths_are_refused() -> None:
    with pytest.raises(DataError, match="vectors of 3 and of 2 dimensions; were they made by the same model"):
        similarity([[1.0, 2.0, 3.0]], [[1.0, 2.0]])
    with pytest.raises(DataError, match="2 left and 1 right vectors of widths 1 and 1"):
        paired_similarity([[1.0], [2.0]], [[1.0]])
    with pytest.raises(DataError, match="got 3 dimensions"):
        similarity(np.ones((1, 1, 1)), [[1.0]])


@pytest.mark.parametrize("function", [similarity, paired_similarity])
def test_an_unknown_measure_names_the_known(function: object) -> None:
    with pytest.raises(UsageError, match="unknown similarity 'euclid'; choose from cosine, dot"):
        function([[1.0]], [[1.0]], "euclid")  # type: ignore[operator]


numbers = st.floats(-1e6, 1e6, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6)


@given(arrays(np.float32, st.tuples(st.integers(1, 5), st.just(6)), elements=numbers))
def test_cosines_stay_within_one(rows: np.ndarray) -> None:
    scores = similarity(rows, rows)
    assert np.abs(scores).max() <= 1 + 1e-6
    filled = (rows != 0).any(1)
    assert np.allclose(np.diag(scores)[filled], 1, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-22, 1e-30, 1e25])
def test_the_cosine_does_not_depend_on_length(scale: float) -> None:
    left, right = np.array([[1.0, 2.0, 0.5]]), np.array([[2.0, 1.0, 0.3]])
    assert similarity(left * scale, right) == pytest.approx(similarity(left, right), abs=1e-5)


def test_an_encoder_compares_texts_and_vectors(tiny: Encoder) -> None:
    texts = ["A man is playing a flute.", "Two dogs run."]
    vectors = tiny.encode(texts)
    scores = tiny.similarity(texts, vectors)
    assert np.allclose(scores, plain(vectors, vectors, "cosine"), atol=1e-5)
    assert tiny.similarity(texts[0], texts).shape == (1, 2)


def test_the_right_side_is_not_copied_whole() -> None:
    right = np.ones((100_000, 384), dtype=np.float32)
    tracemalloc.start()
    blocks = list(similarity_blocks(right[:1], right, block_bytes=2**22))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert blocks[0][1].shape == (1, 100_000)
    assert peak < right.nbytes / 5


def test_blocks_keep_to_their_bytes() -> None:
    right = random_rows(5, 3000)
    assert next(similarity_blocks(right, right, block_bytes=2**16))[1].nbytes <= 2**16
