"""Reranking against a plain twin, and in the grid of rankers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.encoder import CrossEncoder
from likewise.errors import UsageError
from likewise.search.evaluation import RetrievalSource
from likewise.search.ranker import TIE, BlockRanker, Scores
from likewise.search.reranking import Reranked
from likewise.search.retrieval_grid import RetrievalGrid, compare_retrieval
from tiny_cross_encoders import save_cross_encoder, tiny_classifier
from tiny_models import tiny_encoder

TEXTS = ["the cat", "a dog ran", "fire", "it rains", "the sea is blue", "the cat", "a volcano"]
QUERIES = ["a cat", "water", "hot"]
TASK = RetrievalSource("sample/pairs").read()


class Table(BlockRanker):
    """A ranker with given scores."""

    name = "table"

    def __init__(self, scores: Scores) -> None:
        self.table, self.size = np.asarray(scores, np.float32), len(scores[0])

    def prepared(self, queries: Any) -> Any:
        return list(range(len(queries)))

    def scores(self, queries: Any) -> Scores:
        return self.table[queries]


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> CrossEncoder:
    folder = save_cross_encoder(tmp_path_factory.mktemp("models") / "cross", tiny_classifier("bert", 4))
    return CrossEncoder.load(folder, device="cpu")


def ranks_of(scores: Any) -> list[int]:
    return [sum(other > score + TIE for other in scores) for score in scores]


def plainly_reranked(row: list[float], query: str, model: CrossEncoder, count: int) -> list[int]:
    """The rank of each text: candidates among themselves, all others behind them by the first scores."""
    order = sorted(range(len(row)), key=lambda index: (-row[index], index))
    chosen = order[:count]
    new = ranks_of([float(model.score([(query, TEXTS[index])])[0]) for index in chosen])
    found = [max(rank, len(chosen)) for rank in ranks_of(row)]
    for index, rank in zip(chosen, new, strict=True):
        found[index] = rank
    return found


@pytest.mark.parametrize("count", [1, 3, 7, 50])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ranks_are_those_of_the_plain_twin(seed: int, count: int, reranker: CrossEncoder) -> None:
    # Rounded, so that some of the first scores tie.
    first = np.random.default_rng(seed).normal(size=(3, len(TEXTS))).round(0).astype(np.float32)
    ranker = Reranked(Table(first), reranker, TEXTS, count)
    ((start, found),) = ranker.score_blocks(QUERIES)
    assert start == 0 and found.dtype == np.float32
    for row, query, scores in zip(first.tolist(), QUERIES, found, strict=True):
        assert ranks_of(scores) == plainly_reranked(row, query, reranker, count)


def test_equal_texts_stay_ties(reranker: CrossEncoder) -> None:
    ((_, found),) = Reranked(Table(np.zeros((1, len(TEXTS)))), reranker, TEXTS).score_blocks(QUERIES[:1])
    assert found[0, 0] == found[0, 5]


def test_every_text_as_a_candidate_is_the_model_alone(reranker: CrossEncoder) -> None:
    first = np.random.default_rng(0).normal(size=(1, len(TEXTS)))
    ((_, found),) = Reranked(Table(first), reranker, TEXTS, len(TEXTS)).score_blocks(QUERIES[:1])
    alone = reranker.score([(QUERIES[0], text) for text in TEXTS])
    assert ranks_of(found[0]) == ranks_of(alone)


def test_an_encoder_reranks_too() -> None:
    encoder = tiny_encoder()
    first = np.random.default_rng(0).normal(size=(1, len(TEXTS)))
    ((_, found),) = Reranked(Table(first), encoder, TEXTS).score_blocks(QUERIES[:1])
    assert ranks_of(found[0]) == ranks_of(encoder.similarity(QUERIES[:1], TEXTS)[0])


class TestGrid:
    @pytest.fixture(autouse=True)
    def memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))

    def compared(self, grid: RetrievalGrid, reranker: CrossEncoder) -> Any:
        encoder = tiny_encoder()
        return compare_retrieval(TASK, grid, lambda _: encoder, load_reranker=lambda _: reranker)

    def test_each_ranker_has_a_reranked_row(self, reranker: CrossEncoder) -> None:
        grid = RetrievalGrid(("tiny",), rankers=("dense", "bm25", "hybrid"), rerank="cross", candidates=5)
        table = self.compared(grid, reranker)
        names = [one.setting.ranker for one in table.results]
        assert names == [name for base in ("dense", "hybrid", "bm25") for name in (base, f"{base} + {reranker.name}")]
        # What is not among the candidates cannot come in.
        for first, second in zip(table.results[::2], table.results[1::2], strict=True):
            assert second.recall[5].value <= first.recall[5].value + 1e-9
            assert (first.positions != second.positions).any()
        again = self.compared(grid, reranker)
        assert [one.cached for one in again.results] == [True] * 6
        other = self.compared(RetrievalGrid(("tiny",), rankers=("dense",), rerank="cross", candidates=6), reranker)
        assert [one.cached for one in other.results] == [True, False]

    def test_candidates_are_counted_from_one(self) -> None:
        with pytest.raises(UsageError, match="candidates must be at least 1, got 0"):
            RetrievalGrid(rerank="cross", candidates=0)
