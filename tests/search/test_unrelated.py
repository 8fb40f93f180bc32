"""Unrelated pairs: which pairs are drawn, how they are scored, their percentiles and the intervals of quantiles."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kstest

from likewise.encoder import Encoder
from likewise.errors import DataError, ModelError, UsageError
from likewise.sample import sample_sentences
from likewise.search import Index, IndexSettings, calibrate
from likewise.search.stores import StoredRows
from likewise.search.unrelated import (
    CorpusSample,
    ScoredCorpus,
    normalised,
    percentile_ranks,
    quantile_intervals,
    unrelated_pairs,
)

TEXTS = sample_sentences()[:40]
SIZES = (1000, 50_000)


def cosine(encoder: Encoder, left: str, right: str, prompts: tuple[str, str] = ("", "")) -> float:
    one, other = (
        encoder.encode(text, prompt=prompt).astype(float) for text, prompt in zip((left, right), prompts, strict=True)
    )
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.parametrize(
    "twin", ["A cat, sat.", "a CAT sat", " a\tcat\n sat ", "A ｃａｔ sat!", "“A cat sat”"]
)  # fmt: skip
def test_normalised_twins_are_equal(twin: str) -> None:
    assert normalised(twin) == normalised("A cat sat")


def test_normalised_keeps_what_differs() -> None:
    texts = ["A cat sat", "A cat sat not", "A cat sat 2", "🦊", "🐻", "猫が座った", ""]
    assert len({normalised(text) for text in texts}) == len(texts)


@pytest.mark.slow
def test_a_small_corpus_gives_every_pair_once(tiny: Encoder) -> None:
    found = unrelated_pairs(ScoredCorpus.of_texts(tiny, TEXTS), SIZES)
    expected = [cosine(tiny, *pair) for pair in combinations(TEXTS, 2)]
    np.testing.assert_allclose(np.sort(found.scores), np.sort(expected), atol=1e-6)
    assert found.different == 40


def test_duplicates_are_left_out_once(tiny: Encoder) -> None:
    doubled = [*TEXTS, *(text.upper() + " !" for text in TEXTS)]
    found = unrelated_pairs(ScoredCorpus.of_texts(tiny, doubled), SIZES)
    assert (found.different, found.duplicates, len(found.scores)) == (40, 40, 40 * 39 // 2)


def test_passages_of_one_document_are_related(tiny: Encoder) -> None:
    vectors, rng = tiny.encode(TEXTS), np.random.default_rng(0)
    rows = StoredRows([str(place // 4) for place in range(40)], TEXTS, vectors)
    corpus = ScoredCorpus.of_texts(tiny, TEXTS)
    sample = CorpusSample.of([rows], rng)
    fixed = type("Fixed", (ScoredCorpus,), {"sample": lambda *_: sample})(**vars(corpus))
    found = unrelated_pairs(fixed, SIZES)
    assert len(found.scores) == 40 * 39 // 2 - 10 * 6
    assert all(sample.documents[one] != sample.documents[other] for one, other in found.texts)


def test_high_scores_stay(tiny: Encoder) -> None:
    """A near-duplicate is a pair like any other: no rule cuts the tail."""
    near = [*TEXTS, TEXTS[0] + " indeed"]
    found = unrelated_pairs(ScoredCorpus.of_texts(tiny, near), SIZES)
    assert np.abs(found.scores - cosine(tiny, near[0], near[-1])).min() < 1e-6
    assert len(found.scores) == 41 * 40 // 2


def test_a_large_corpus_is_sampled_by_its_seed(tiny: Encoder) -> None:
    corpus = ScoredCorpus.of_texts(tiny, sample_sentences())
    one, again, other = (unrelated_pairs(corpus, (200, 1000), seed) for seed in (1, 1, 2))
    assert len(one.scores) == 1000
    assert one.different == 200
    np.testing.assert_array_equal(one.scores, again.scores)
    assert not np.array_equal(one.scores, other.scores)
    assert (one.texts[:, 0] != one.texts[:, 1]).all()


def test_an_index_gives_the_same_pairs_as_its_texts(tiny: Encoder) -> None:
    of_index = ScoredCorpus.of_index(Index.from_texts(tiny, TEXTS))
    of_texts = ScoredCorpus.of_texts(tiny, TEXTS)
    assert of_index.state == of_texts.state
    one, other = (unrelated_pairs(corpus, SIZES) for corpus in (of_index, of_texts))
    np.testing.assert_allclose(np.sort(one.scores), np.sort(other.scores), atol=1e-6)


@pytest.mark.slow
def test_queries_have_the_prompt_of_queries(tiny: Encoder) -> None:
    prompts = ("find ", "text ")
    index = Index.from_texts(tiny, TEXTS, IndexSettings(query_prompt=prompts[0], document_prompt=prompts[1]))
    found = unrelated_pairs(ScoredCorpus.of_index(index), SIZES)
    expected = [cosine(tiny, left, right, prompts) for left in TEXTS for right in TEXTS if left != right]
    np.testing.assert_allclose(np.sort(found.scores), np.sort(expected), atol=1e-6)


@pytest.mark.slow
def test_given_queries_are_the_left_texts(tiny: Encoder) -> None:
    queries = [*(f"who saw number {one}" for one in range(20)), TEXTS[0], TEXTS[0].upper()]
    found = unrelated_pairs(ScoredCorpus.of_texts(tiny, TEXTS), SIZES, queries=queries)
    expected = [cosine(tiny, left, right) for left in queries[:21] for right in TEXTS if left != right]
    np.testing.assert_allclose(np.sort(found.scores), np.sort(expected), atol=1e-6)


def test_dot_products_are_scored_as_such(tiny: Encoder) -> None:
    index = Index.from_texts(tiny, TEXTS, IndexSettings(similarity="dot"))
    found = unrelated_pairs(ScoredCorpus.of_index(index), SIZES)
    vectors = tiny.encode(TEXTS).astype(float)
    expected = (vectors @ vectors.T)[np.triu_indices(40, 1)]
    np.testing.assert_allclose(np.sort(found.scores), np.sort(expected), rtol=1e-5)


def test_bad_corpora_are_rejected(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="at least 20 different texts, got 1; give a larger corpus"):
        unrelated_pairs(ScoredCorpus.of_texts(tiny, ["a cat"] * 50), SIZES)
    with pytest.raises(DataError, match="got 0"):
        unrelated_pairs(ScoredCorpus.of_texts(tiny, []), SIZES)
    with pytest.raises(UsageError, match="at least 20 different queries, got 1"):
        unrelated_pairs(ScoredCorpus.of_texts(tiny, TEXTS), SIZES, queries=["a", "A"])
    corpus = ScoredCorpus.of_texts(tiny, TEXTS)
    same = CorpusSample(TEXTS, [str(row) for row in range(40)], np.ones((40, 16), np.float32), 0)
    monkeypatch.setattr(ScoredCorpus, "sample", lambda *_: same)
    with pytest.raises(DataError, match="all unrelated pairs have the same score, 16"):
        unrelated_pairs(corpus, SIZES)
    monkeypatch.setattr(ScoredCorpus, "sample", lambda *_: replace(same, vectors=np.full((40, 16), np.nan, np.float32)))
    with pytest.raises(ModelError, match="not numbers"):
        unrelated_pairs(corpus, SIZES)
    monkeypatch.setattr(ScoredCorpus, "sample", lambda *_: replace(same, documents=["one"] * 40))
    with pytest.raises(DataError, match="all texts belong to one document"):
        unrelated_pairs(corpus, SIZES)


def test_percentile_is_the_share_below_and_half_of_the_equal() -> None:
    rng = np.random.default_rng(0)
    unrelated, scores = np.sort(rng.normal(size=500).round(1)), rng.normal(size=50).round(1)
    expected = [((unrelated < score).sum() + (unrelated == score).sum() / 2) / 500 for score in scores]
    np.testing.assert_allclose(percentile_ranks(unrelated, scores), expected)


def test_percentiles_of_fresh_pairs_are_uniform(tiny: Encoder) -> None:
    """Of 2,000 pairs each; the p-values of exactly uniform percentiles are uniform themselves."""
    index = Index.from_texts(tiny, sample_sentences())
    known, corpus = calibrate(index), ScoredCorpus.of_index(index)
    fresh = [unrelated_pairs(corpus, (20_000, 2000), seed=100 + seed).scores for seed in range(30)]
    found = [float(kstest(known.percentiles(scores), "uniform").pvalue) for scores in fresh]
    assert kstest(found, "uniform").pvalue > 0.01
    assert sum(p <= 0.01 for p in found) <= 2


@pytest.mark.slow
def test_percentiles_are_uniform_with_prompts(e5: Encoder) -> None:
    texts = sample_sentences()
    known = calibrate(e5, texts)
    assert known.depends["query_prompt"] != known.depends["document_prompt"]
    fresh = unrelated_pairs(ScoredCorpus.of_texts(e5, texts), (20_000, 2000), seed=7)
    assert kstest(known.percentiles(fresh.scores), "uniform").pvalue > 0.01


def test_quantiles_by_drawing_texts() -> None:
    """Each draw written out: a pair as often as the product of how often its texts were drawn."""
    rng = np.random.default_rng(1)
    pairs = np.array(list(combinations(range(12), 2)))
    scores = rng.normal(size=len(pairs))
    [found] = quantile_intervals(scores, pairs, [0.9], draws=300, seed=5)
    draws, values = np.random.default_rng(5), []
    for _ in range(300):
        times = np.bincount(draws.integers(0, 12, 12), minlength=12)
        every = [
            score for score, (one, other) in zip(scores, pairs, strict=True) for _ in range(times[one] * times[other])
        ]
        values.append(np.quantile(every, 0.9, method="inverted_cdf"))
    assert found.value == np.quantile(scores, 0.9, method="inverted_cdf")
    np.testing.assert_allclose([found.low, found.high], np.percentile(values, [2.5, 97.5]))


def test_intervals_of_quantiles_cover() -> None:
    """Texts with an effect of their own, so that pairs of one text are alike."""
    rng = np.random.default_rng(2)
    pairs = np.column_stack(np.triu_indices(60, 1))
    true, held = np.sqrt(1.5), 0
    for _ in range(100):
        texts = rng.normal(scale=0.5, size=60)
        scores = texts[pairs].sum(1) + rng.normal(size=len(pairs))
        [one] = quantile_intervals(scores, pairs, [0.9], draws=200)
        held += one.low <= 1.2815515 * true <= one.high
    assert held >= 90
