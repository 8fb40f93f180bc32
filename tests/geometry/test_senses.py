"""Senses by sums and blocks, against plain double loops in float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from likewise.errors import DataError, UsageError
from likewise.geometry import senses
from likewise.geometry.senses import NEAREST, SenseVectors, nearest_rows, sense_cosines, sense_geometry

SEEDS = [0, 1, 2]
WORDS = {"bank": 3, "crane": 2, "apple": 2}


def made(seed: int, count: int = 40, layers: int = 3, width: int = 6) -> SenseVectors:
    """Occurrences of three words, each around the centre of its sense, far from the origin."""
    random = np.random.default_rng(seed)
    words = random.choice(list(WORDS), count).tolist()
    given = [f"{word}_{random.integers(WORDS[word])}" for word in words]
    centres = {name: random.normal(size=(layers, 1, width)) for name in sorted(set(given))}
    vectors = [centres[name] + 0.8 * random.normal(size=(layers, 1, width)) + 0.5 for name in given]
    return SenseVectors(np.concatenate(vectors, axis=1).astype(np.float32), words, given)


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    one, other = one.astype(np.float64), other.astype(np.float64)
    return float(one @ other / np.sqrt(one @ one) / np.sqrt(other @ other))


def occurrences(found: SenseVectors, word: str) -> list[int]:
    return [row for row, each in enumerate(found.words) if each == word]


@pytest.mark.parametrize("seed", SEEDS)
def test_within_and_between_are_means_over_all_pairs(seed: int) -> None:
    found = made(seed)
    within, between = sense_cosines(found)
    for layer, (place, word) in itertools.product(range(3), enumerate(sorted(WORDS))):
        same, other = [], []
        for one, two in itertools.combinations(occurrences(found, word), 2):
            value = cosine(found.vectors[layer, one], found.vectors[layer, two])
            (same if found.senses[one] == found.senses[two] else other).append(value)
        assert within[layer, place] == pytest.approx(np.mean(same), abs=1e-10)
        assert between[layer, place] == pytest.approx(np.mean(other), abs=1e-10)


def plain_neighbour(examples: SenseVectors, references: SenseVectors | None, layer: int, row: int) -> str:
    others = examples if references is None else references
    candidates = [each for each in occurrences(others, examples.words[row]) if references is not None or each != row]
    return others.senses[
        max(candidates, key=lambda each: cosine(examples.vectors[layer, row], others.vectors[layer, each]))
    ]


def plain_centroid(examples: SenseVectors, references: SenseVectors | None, layer: int, row: int) -> str:
    others = examples if references is None else references
    candidates = [each for each in occurrences(others, examples.words[row]) if references is not None or each != row]

    def mean(sense: str) -> np.ndarray:
        rows = others.vectors[layer, [each for each in candidates if others.senses[each] == sense]].astype(float)
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).mean(0)

    names = sorted({others.senses[each] for each in candidates})
    return max(names, key=lambda sense: cosine(examples.vectors[layer, row], mean(sense)))


PLAIN = {"neighbour": plain_neighbour, "centroid": plain_centroid}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("split", [False, True], ids=["leave-one-out", "train-test"])
@pytest.mark.parametrize("nearest", NEAREST)
def test_the_nearest_is_found_among_the_same_word(nearest: str, split: bool, seed: int) -> None:
    examples, references = made(seed), made(seed + 10, 60) if split else None
    others = examples if references is None else references
    rows = nearest_rows(examples, references, nearest)
    for layer, row in itertools.product(range(3), range(len(examples.words))):
        assert others.words[rows[layer, row]] == examples.words[row]
        assert others.senses[rows[layer, row]] == PLAIN[nearest](examples, references, layer, row)


def test_small_blocks_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    examples, references = made(3), made(4)
    whole = [nearest_rows(examples), nearest_rows(examples, references)]
    blocks = senses.similarity_blocks
    monkeypatch.setattr(senses, "similarity_blocks", lambda left, right: blocks(left, right, block_bytes=100))
    assert np.array_equal(whole[0], nearest_rows(examples)) and np.array_equal(
        whole[1], nearest_rows(examples, references)
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("split", [False, True], ids=["leave-one-out", "train-test"])
def test_averages(seed: int, split: bool) -> None:
    examples, references = made(seed), made(seed + 10, 60) if split else None
    others = examples if references is None else references
    found = sense_geometry(examples, references)
    within, between = sense_cosines(examples)
    for number, layer in enumerate(found.layers):
        right = [
            plain_neighbour(examples, references, number, row) == examples.senses[row]
            for row in range(len(examples.words))
        ]
        by_word = [np.mean([right[row] for row in occurrences(examples, word)]) for word in sorted(WORDS)]
        assert layer.layer == number
        assert layer.accuracy.value == pytest.approx(np.mean(right), abs=1e-12)
        assert layer.macro_accuracy.value == pytest.approx(np.mean(by_word), abs=1e-12)
        assert layer.within.value == pytest.approx(within[number].mean(), abs=1e-12)
        assert layer.difference.value == pytest.approx((within[number] - between[number]).mean(), abs=1e-12)
        assert all(each.low <= each.value <= each.high for each in layer.intervals.values())
    frequent = []
    for row, word in enumerate(examples.words):
        given = [others.senses[each] for each in occurrences(others, word)]
        frequent.append(examples.senses[row] == max(sorted(set(given)), key=given.count))
    assert found.baseline.value == pytest.approx(np.mean(frequent), abs=1e-12)
    assert [word.word for word in found.words] == sorted(WORDS) and found.n == 40 and found.unanswered == 0


def test_references_do_not_touch_the_cosines() -> None:
    """Train and test are not mixed: only the accuracy and the most frequent sense come from the other file."""
    examples = made(5)
    alone, split = sense_geometry(examples), sense_geometry(examples, made(6))
    assert [layer.within for layer in alone.layers] == [layer.within for layer in split.layers]
    assert [layer.between for layer in alone.layers] == [layer.between for layer in split.layers]
    # The same file twice: each occurrence finds itself, which leaving one out forbids.
    same = sense_geometry(examples, examples)
    assert all(layer.accuracy.value == 1 for layer in same.layers) and alone.best.accuracy.value < 1


def test_what_cannot_be_compared_is_left_out_and_counted() -> None:
    vectors = np.random.default_rng(7).normal(size=(2, 5, 4)).astype(np.float32)
    words, given = ["bank", "bank", "bank", "alone", "bank"], ["a", "a", "b", "x", "b"]
    found = sense_geometry(SenseVectors(vectors, words, given))
    assert (found.n, found.unanswered) == (4, 1)
    alone, bank = found.words
    assert (alone.word, alone.n, alone.senses, bank.n, bank.senses) == ("alone", 0, 1, 4, 2)
    assert np.isnan(alone.accuracy).all() and np.isnan(alone.within).all()
    assert np.isfinite([value.value for layer in found.layers for value in layer.intervals.values()]).all()


def test_a_word_with_one_sense_has_no_difference() -> None:
    vectors = np.random.default_rng(8).normal(size=(1, 3, 4)).astype(np.float32)
    [layer] = sense_geometry(SenseVectors(vectors, ["bank"] * 3, ["a"] * 3)).layers
    assert layer.accuracy.value == 1 and np.isnan(layer.between.value) and np.isnan(layer.difference.value)


def test_a_sense_seen_once_cannot_find_itself() -> None:
    vectors = np.array([[[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]], np.float32)
    examples = SenseVectors(vectors, ["bank"] * 3, ["a", "a", "b"])
    for nearest in NEAREST:
        assert sense_geometry(examples, nearest=nearest).layers[0].accuracy.value == pytest.approx(2 / 3)


def test_equal_zero_vectors_give_numbers() -> None:
    vectors = np.zeros((1, 4, 3), np.float32)
    [layer] = sense_geometry(SenseVectors(vectors, ["bank"] * 4, ["a", "a", "b", "b"])).layers
    assert (layer.within.value, layer.between.value) == (0, 0) and np.isfinite(layer.accuracy.value)


def test_what_is_refused() -> None:
    vectors = np.zeros((1, 2, 3), np.float32)
    with pytest.raises(DataError, match="need n words and n senses, got shape"):
        SenseVectors(vectors, ["bank"], ["a"])
    with pytest.raises(UsageError, match="unknown way 'far' to find the nearest; choose from centroid, neighbour"):
        nearest_rows(SenseVectors(vectors, ["bank"] * 2, ["a", "b"]), nearest="far")
    with pytest.raises(DataError, match="no word has another occurrence"):
        sense_geometry(SenseVectors(vectors, ["bank", "crane"], ["a", "b"]))


def test_progress_is_told() -> None:
    seen: list[tuple[int, int | None, str]] = []
    nearest_rows(made(9), progress=lambda *call: seen.append(call))
    assert seen[-1] == (9, 9, "words in layers compared")


def test_one_word_alone_has_no_interval_over_words() -> None:
    vectors = np.random.default_rng(0).normal(size=(2, 6, 4)).astype(np.float32)
    found = sense_geometry(SenseVectors(vectors, ["bank"] * 6, ["money", "river"] * 3)).layers[1]
    for name in ("within", "between", "difference", "macro_accuracy"):
        one = found.intervals[name]
        assert np.isfinite(one.value) and np.isnan([one.low, one.high]).all(), name
    assert found.accuracy.low < found.accuracy.high  # that one is over occurrences
