"""Sums of windows, merged in order, against plain definitions in float64."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from likewise.geometry.measures import expected_cosine
from likewise.geometry.occurrences import Occurrences, PlannedWindow
from likewise.geometry.sums import BLOCKS, CorpusSums, LayerMap, Moments, PoissonWeights, Space, SumWindow

SPACE = Space(layers=2, width=5, words=6, draws=7, seed=3, dtype=torch.float64)
Corpus = list[tuple[PlannedWindow, list[Occurrences]]]


def corpus(seed: int, windows: int = 4, mean: float = 100.0) -> Corpus:
    """Windows of batches of sentences with random words, far from 0; the second window has no word."""
    rng = np.random.default_rng(seed)
    return [window_of(rng, number, mean, 0 if number == 1 else 3) for number in range(windows)]


def window_of(rng: np.random.Generator, number: int, mean: float, most: int) -> tuple[PlannedWindow, list[Occurrences]]:
    batches = []
    for _ in range(3):
        sizes = rng.integers(0, most + 1, 4)
        sentences = torch.arange(4).repeat_interleave(torch.tensor(sizes))
        vectors = torch.tensor(mean + rng.normal(size=(SPACE.layers, len(sentences), SPACE.width)))
        # The first word of each sentence is a context of a measured word.
        contexts = torch.tensor([int(sizes[:one].sum()) for one in range(4) if sizes[one]], dtype=torch.long)
        words = torch.tensor(rng.integers(0, SPACE.words, len(contexts)), dtype=torch.long)
        points = [(word, 100 * number + 10 * len(batches) + word) for word in range(0, len(sentences), 2)]
        batches.append(Occurrences(vectors, sentences, 4, contexts, words, [], points, truncated=1))
    measured = np.unique(np.concatenate([batch.words.numpy() for batch in batches]))
    return PlannedWindow(number, measured, (), ()), batches


def merged(windows: Corpus, travel: bool = False) -> CorpusSums:
    whole, task = CorpusSums(SPACE), SumWindow(None, SPACE)
    for window, batches in windows:
        found = task.summed(window, batches)
        whole.merge(pickle.loads(pickle.dumps(found)) if travel else found)
    return whole


def all_batches(windows: Corpus) -> Iterator[Occurrences]:
    return (batch for _, batches in windows for batch in batches)


def all_vectors(windows: Corpus) -> tuple[np.ndarray, np.ndarray]:
    """The vectors (L, N, D) of all words, and the sentence of each in the corpus (N,)."""
    vectors, sentences = [], []
    for number, batch in enumerate(all_batches(windows)):
        vectors.append(batch.vectors.numpy())
        sentences.append(batch.sentences.numpy() + 4 * number)
    return np.concatenate(vectors, axis=1), np.concatenate(sentences)


@pytest.mark.parametrize("seed", [0, 1, 2])
class TestMergedWindows:
    def test_baseline_is_that_of_all_pairs(self, seed: int) -> None:
        windows = corpus(seed, mean=1.0)
        vectors, sentences = all_vectors(windows)
        found = merged(windows)
        plain = [expected_cosine(rows, sentences) for rows in vectors]
        assert found.similarities.baseline(found.counts)[:, 0] == pytest.approx(plain, abs=1e-12)
        assert found.counts.truncated == 12 and found.counts.occurrences == len(sentences)

    def test_a_draw_counts_sentences_by_their_weights(self, seed: int) -> None:
        windows = corpus(seed, mean=1.0)
        found, weights = merged(windows), []
        for window, batches in windows:
            poisson = PoissonWeights(SPACE.draws, SPACE.seed, window.number)
            for batch in batches:
                weights.append(poisson.next(torch.bincount(batch.sentences, minlength=4).double()).numpy())
        weight = np.concatenate(weights, axis=1)
        vectors, sentences = all_vectors(windows)
        unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
        apart = sentences[:, None] != sentences
        for draw in range(SPACE.draws):
            own = weight[draw][sentences]
            pairs = apart * own[:, None] * own
            plain = [(pairs * (rows @ rows.T)).sum() / pairs.sum() for rows in unit]
            assert found.similarities.baseline(found.counts)[:, 1 + draw] == pytest.approx(plain, abs=1e-12)

    def test_self_similarity_is_the_mean_over_pairs_of_contexts(self, seed: int) -> None:
        windows = corpus(seed, mean=1.0)
        found = merged(windows)
        rows = np.concatenate([batch.vectors[:, batch.contexts].numpy() for batch in all_batches(windows)], axis=1)
        words = np.concatenate([batch.words.numpy() for batch in all_batches(windows)])
        values = found.similarities.self_similarity(found.counts)
        for word in range(SPACE.words):
            own = rows[:, words == word]
            assert found.counts.contexts[word] == own.shape[1]
            plain = [expected_cosine(each) if len(each) > 1 else np.nan for each in own]
            assert values[:, word] == pytest.approx(plain, abs=1e-12, nan_ok=True)

    def test_moments_are_those_of_all_words(self, seed: int) -> None:
        """Far from 0: a covariance from sums about 0 would have lost half of its digits."""
        windows = corpus(seed, mean=1e6)
        vectors, _ = all_vectors(windows)
        moments = merged(windows).moments
        for layer, rows in enumerate(vectors):
            mean, covariance = moments.of(layer)
            assert mean == pytest.approx(rows.mean(0), rel=1e-15)
            assert covariance == pytest.approx(np.cov(rows.T, bias=True), abs=1e-9)

    def test_each_word_is_in_one_block(self, seed: int) -> None:
        """The blocks together are the whole: what is left without each of them, added up, is all but one times it."""
        moments = merged(corpus(seed, windows=25)).moments
        assert moments.filled == list(range(BLOCKS))
        counts = {block: moments._blocks[block].count for block in moments.filled}
        whole = sum(counts.values())
        mean, _ = moments.of(0)
        left = sum((whole - counts[block]) * moments.of(0, without=block)[0] for block in counts)
        assert left == pytest.approx((BLOCKS - 1) * whole * mean, rel=1e-12)
        assert max(counts.values()) < 2.5 * min(counts.values())

    def test_points_keep_their_rows_and_sentences(self, seed: int) -> None:
        windows = corpus(seed)
        vectors, sentences = merged(windows).samples.points.of()
        batches = list(all_batches(windows))
        plain = sorted((row, which, word) for which, batch in enumerate(batches) for word, row in batch.points)
        assert len(plain) == len(sentences) > 4
        for column, (_, which, word) in enumerate(plain):
            assert np.array_equal(vectors[:, column], batches[which].vectors[:, word])
            assert sentences[column] == 4 * which + int(batches[which].sentences[word])


def test_what_travels_is_the_same_to_the_last_bit() -> None:
    here, there = (merged(corpus(0), travel) for travel in (False, True))
    for name, value in vars(here.similarities).items():
        assert torch.equal(value, getattr(there.similarities, name)), name
    assert all(np.array_equal(*both) for both in zip(here.moments.of(1), there.moments.of(1), strict=True))
    assert np.array_equal(here.samples.points.of()[0], there.samples.points.of()[0])


def test_a_late_window_returns_one_block_and_its_own_words() -> None:
    task, found = SumWindow(None, SPACE), []
    for number in (0, 25):
        window, batches = window_of(np.random.default_rng(number), number, 1.0, 3)
        batches = [replace(batch, words=torch.full_like(batch.words, 4)) for batch in batches]
        found.append(task.summed(replace(window, measured=np.array([4])), batches))
    assert [len(one.moments.filled) > 1 for one in found] == [True, False]
    assert all(one.similarities.words.shape == (SPACE.layers, 1, SPACE.width) for one in found)


def test_draws_of_two_windows_are_others() -> None:
    sizes = torch.ones(50)
    first, second = (PoissonWeights(4, 0, window).next(sizes) for window in (0, 1))
    assert not torch.equal(first, second)


def test_moments_without_words_change_nothing() -> None:
    moments = Moments()
    moments.merge(Moments(1))
    assert moments.filled == []


@pytest.mark.parametrize("is_diagonal", [True, False])
def test_a_layer_map_is_a_product_with_each_matrix(is_diagonal: bool) -> None:
    rng = np.random.default_rng(0)
    matrices = [np.diag(rng.normal(size=3)) if is_diagonal else rng.normal(size=(3, 3)) for _ in range(2)]
    vectors, mapped = torch.tensor(rng.normal(size=(2, 4, 3))), LayerMap(matrices, torch.float64)
    assert mapped.is_diagonal == is_diagonal
    plain = np.stack([rows @ matrix for rows, matrix in zip(vectors.numpy(), matrices, strict=True)])
    for each in (mapped, pickle.loads(pickle.dumps(mapped))):
        assert each(vectors).numpy() == pytest.approx(plain, abs=1e-12)
