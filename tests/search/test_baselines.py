"""The baselines by name, and chance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.search import ranker
from likewise.search.baselines import BASELINES, Chance, baseline
from likewise.search.ranker import ranked

TEXTS = ["A cat sat on the mat.", "Dogs bark.", "", "It rains in Tokyo."]


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.txt"
    path.write_text("cat 1 0\ndogs 0 1\nrains -1 1\n")
    return path


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_ranks(name: str, tiny: Encoder, vectors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranker, "BLOCK_BYTES", 4 * len(TEXTS) * 2)
    found = baseline(name, TEXTS, encoder=tiny, vectors=vectors)
    assert found.name == name
    result = ranked(found, ["Dogs bark.", "A cat sat on the mat.", "", "It rains in Tokyo.", "東京"], 1)
    assert result.scores.dtype in (np.float32, np.float64) and result.rows.shape == (5, 1)
    if name != "random":
        assert result.rows[[0, 1, 3], 0].tolist() == [1, 0, 3]
        assert result.scores[2, 0] == 0


def test_unknown_name_lists_the_choices() -> None:
    choices = "bow, tfidf, bm25, static, input-embeddings, random"
    with pytest.raises(UsageError, match=f"unknown baseline 'bm52'; choose from {choices}"):
        baseline("bm52", TEXTS)


def test_static_needs_a_file() -> None:
    with pytest.raises(UsageError, match="give --vectors FILE, or take input-embeddings, which needs no file"):
        baseline("static", TEXTS)


def test_input_embeddings_need_a_model() -> None:
    with pytest.raises(UsageError, match="input-embeddings needs a model"):
        baseline("input-embeddings", TEXTS)


@pytest.mark.parametrize("seed", range(3))
def test_chance_depends_on_seed_query_and_size_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = ["one", "two", "", "東京", "\ud800", "two"]
    [(_, scores)] = Chance(TEXTS, seed).score_blocks(queries)
    assert scores.dtype == np.float32 and (scores >= 0).all() and (scores < 1).all()
    assert np.array_equal(scores[1], scores[5]) and not np.array_equal(scores[0], scores[1])
    monkeypatch.setattr(ranker, "BLOCK_BYTES", 1)
    backwards = [block[0] for _, block in Chance(TEXTS[::-1], seed).score_blocks(queries[::-1])]
    assert np.array_equal(backwards[::-1], scores)
    others = [Chance(TEXTS, seed + 1), Chance(TEXTS * 2, seed)]
    assert not any(np.array_equal(next(other.score_blocks(["one"]))[1][0, :4], scores[0]) for other in others)


def test_chance_is_even() -> None:
    [(_, scores)] = Chance([""] * 2000).score_blocks([str(query) for query in range(20)])
    assert abs(scores.mean() - 0.5) < 0.01
    assert np.histogram(scores.argmax(1), 4, (0, 2000))[0].max() < 15


def test_chance_of_no_queries() -> None:
    assert list(Chance(TEXTS).score_blocks([])) == []
