"""Grids of rankers: which cells there are, one pass for all of a model's, and what is kept of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.data import Dataset
from likewise.encoder import Encoder
from likewise.encoder.pooling import ModulesConfig
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.errors import Cancelled, UsageError
from likewise.search import evaluation as retrieving
from likewise.search import retrieval_grid
from likewise.search.baselines import baseline
from likewise.search.evaluation import (
    RetrievalSource,
    RetrievalTask,
    encoded_rankers,
    evaluate_ranker,
    evaluate_retrieval,
)
from likewise.search.ranker import Hybrid
from likewise.search.recall import RetrievalTable
from likewise.search.retrieval_grid import RANKERS, RetrievalGrid, compare_retrieval
from tiny_models import tiny_encoder

TASK = RetrievalSource("sample/pairs").read()
WHOLE = RetrievalGrid(
    ("tiny",), ("mean", "cls"), (-1, 0, (0, 2)), ("dense", "bow", "bm25", "input-embeddings", "random", "hybrid")
)


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "retrieval"


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of readings of each forward pass over the texts."""
    seen, encode = [], retrieving.encode_variants

    def counting(encoder: Encoder, texts: Any, variants: Any, **options: Any) -> Any:
        seen.append(len(variants))
        return encode(encoder, texts, variants, **options)

    monkeypatch.setattr(retrieving, "encode_variants", counting)
    return seen


def compared(grid: RetrievalGrid, encoder: Encoder, task: RetrievalTask = TASK, **options: Any) -> RetrievalTable:
    return compare_retrieval(task, grid, lambda _: encoder, **options)


def values(table: RetrievalTable) -> list[Any]:
    return [{**result.to_dict(), "kept": None} for result in table.results]


def test_cells_in_order(tiny: Encoder, passes: list[int]) -> None:
    table = compared(WHOLE, tiny)
    dense = [("dense", pooling, layers) for pooling in ("mean", "cls") for layers in ((2,), (0,), (0, 2))]
    rest = [("input-embeddings", None, ()), ("hybrid", "mean", (0, 2)), *((name, None, ()) for name in ("bow", "bm25"))]
    settings = [(one.setting.ranker, one.setting.pooling, one.setting.layers) for one in table.results]
    assert settings == [*dense, *rest, ("random", None, ())]
    assert [one.setting.model for one in table.results] == [tiny.name] * 8 + [None] * 3
    assert passes == [6]


def test_a_cell_is_what_a_ranker_alone_gives(tiny: Encoder) -> None:
    found = compared(WHOLE, tiny).results
    alone = evaluate_retrieval(tiny.with_pooling(pooling="cls", layer=0), TASK)
    assert found[4].positions.tolist() == alone.positions.tolist() and found[4].recall == alone.recall
    texts = TASK.corpus.texts
    words = baseline("bm25", texts)
    assert found[9].positions.tolist() == evaluate_ranker(words, TASK, found[9].setting).positions.tolist()
    [ranker], _ = encoded_rankers(tiny, [tiny.with_pooling(pooling="mean", layer=[0, 2]).pooling_config], TASK)
    fused = evaluate_ranker(Hybrid([words, ranker]), TASK, found[7].setting)
    assert found[7].positions.tolist() == fused.positions.tolist()
    inputs = baseline("input-embeddings", texts, encoder=tiny)
    assert found[6].positions.tolist() == evaluate_ranker(inputs, TASK, found[6].setting).positions.tolist()


def test_all_layers_each_by_itself(tiny: Encoder) -> None:
    table = compared(RetrievalGrid(("tiny",), layers=("all", -1, 2)), tiny)
    assert [one.setting.layers for one in table.results] == [(0,), (1,), (2,)]


def test_vectors_are_bounded(tiny: Encoder, passes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = values(compared(WHOLE, tiny))
    monkeypatch.setattr(retrieval_grid, "VECTOR_BYTES", 2 * 4 * 16 * 120)
    again = values(compared(RetrievalGrid(**(vars(WHOLE) | {"fresh": True})), tiny))
    assert again == whole and passes == [6, 2, 2, 2]


def test_a_model_is_loaded_only_where_one_is_needed() -> None:
    def load(_: str) -> Encoder:
        pytest.fail("no model is needed")

    table = compare_retrieval(TASK, RetrievalGrid(rankers=("bow", "tfidf", "random")), load)
    assert [one.setting.ranker for one in table.results] == ["bow", "tfidf", "random"]


def test_two_names_of_one_model(tiny: Encoder, passes: list[int]) -> None:
    table = compared(RetrievalGrid(("one", "two")), tiny)
    assert len(table.results) == 2 and passes == [1]


# What is kept


def test_kept_cells_are_not_computed_again(tiny: Encoder, passes: list[int]) -> None:
    first, second = compared(WHOLE, tiny), compared(WHOLE, tiny)
    assert passes == [6] and values(first) == values(second)
    assert not any(one.cached for one in first.results) and all(one.cached for one in second.results)
    for one, other in zip(first.results, second.results, strict=True):
        np.testing.assert_array_equal(one.values, other.values)


def test_fresh_computes_anew(tiny: Encoder, passes: list[int]) -> None:
    grid = RetrievalGrid(("tiny",))
    compared(grid, tiny)
    assert not compared(RetrievalGrid(("tiny",), fresh=True), tiny).results[0].cached
    assert passes == [1, 1] and compared(grid, tiny).results[0].cached


def test_new_cells_join_kept_ones(tiny: Encoder, passes: list[int]) -> None:
    compared(RetrievalGrid(("tiny",), ("mean",)), tiny)
    table = compared(RetrievalGrid(("tiny",), ("mean", "cls", "max")), tiny)
    assert passes == [1, 2] and [one.cached for one in table.results] == [True, False, False]


def test_a_cancelled_grid_goes_on(tiny: Encoder, passes: list[int], memory: Path) -> None:
    def cancel(done: int, total: int | None, note: str) -> None:
        if note == "rankers" and done == 3:
            raise Cancelled

    # The ticker speaks ten times a second at most; here it must not miss a cell.
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Cancelled):
        patch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0.0)
        compared(WHOLE, tiny, progress=cancel)
    assert len(list(memory.iterdir())) == 3
    table = compared(WHOLE, tiny)
    assert sum(one.cached for one in table.results) == 3 and passes[0] == 6 > passes[1]
    fresh = compared(RetrievalGrid(**(vars(WHOLE) | {"fresh": True})), tiny)
    assert values(table) == values(fresh)


def test_a_killed_ranking_leaves_what_came_before(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate, seen = retrieval_grid.evaluate_ranker, []

    def dying(*given: Any, **options: Any) -> Any:
        seen.append(1)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return evaluate(*given, **options)

    monkeypatch.setattr(retrieval_grid, "evaluate_ranker", dying)
    grid = RetrievalGrid(("tiny",), ("mean", "cls", "max"))
    with pytest.raises(KeyboardInterrupt):
        compared(grid, tiny)
    assert [one.cached for one in compared(grid, tiny).results] == [True, True, False]


def others(tiny: Encoder) -> Iterator[tuple[str, RetrievalGrid, Encoder, RetrievalTask]]:
    grid = RetrievalGrid(("tiny",))
    processing = fit_postprocessing("whitening", tiny.encode(list(TASK.queries)), 4)
    yield "the first k", RetrievalGrid(("tiny",), ks=(1, 3)), tiny, TASK
    yield "the texts", grid, tiny, RetrievalSource(Dataset("sample/pairs", limit=50)).read()
    yield "the queries", grid, tiny, RetrievalSource("sample/pairs", where="kind=number").read()
    yield "the weights", grid, tiny_encoder("bert"), TASK
    yield "the prompts", grid, tiny_encoder("bert", modules_config=ModulesConfig(prompts={"query": "q: "})), TASK
    yield "special tokens", grid, tiny.with_pooling(special_tokens=False), TASK
    yield "dimensions", grid, tiny.with_pooling(truncate_dim=3), TASK
    yield "post-processing", grid, tiny.with_postprocessing(processing), TASK


def test_what_a_cell_depends_on_is_in_its_key(tiny: Encoder, memory: Path) -> None:
    compared(RetrievalGrid(("tiny",)), tiny)
    for count, (what, grid, encoder, task) in enumerate(others(tiny), start=2):
        [result] = compared(grid, encoder, task).results
        assert not result.cached, what
        assert len(list(memory.iterdir())) == count, what


def test_neither_name_nor_pooling_by_default_is_in_the_key(tiny: Encoder, tmp_path: Path) -> None:
    compared(RetrievalGrid(("tiny",)), tiny)
    (tmp_path / "link").symlink_to(str(tiny.folder))
    other = Encoder.load(str(tmp_path / "link"), device="cpu")
    [result] = compared(RetrievalGrid(("other",), ("mean",), (2,)), other).results
    assert result.cached and result.setting.model == str(tmp_path / "link")


def test_seeds_and_word_vectors_are_in_the_key(tmp_path: Path) -> None:
    def kept(**options: Any) -> bool:
        return compare_retrieval(TASK, RetrievalGrid(**options)).results[0].cached

    assert [kept(rankers=("random",), seed=seed) for seed in (0, 1, 0)] == [False, False, True]
    file = tmp_path / "vectors.txt"
    found = []
    for line in ("the 1 0\na 0 1\n", "the 1 1\na 0 1\n", "the 1 0\na 0 1\n"):
        file.write_text(line)
        found.append(kept(rankers=("static",), vectors=file))
    assert found == [False, False, True]


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"places": [1], "recall": {}, "mrr": [1, 1, 1]}'])
def test_what_cannot_be_read_is_computed_again(tiny: Encoder, memory: Path, content: str) -> None:
    grid = RetrievalGrid(("tiny",))
    first = compared(grid, tiny)
    [file] = memory.iterdir()
    whole = json.loads(file.read_text())
    file.write_text(content)
    again = compared(grid, tiny)
    assert values(again) == values(first) and not again.results[0].cached
    assert json.loads(file.read_text()) == whole


def test_a_cache_that_cannot_be_written_costs_nothing_else(
    tiny: Encoder, memory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory.parent.mkdir()
    memory.write_text("a file where the folder should be")
    assert len(compared(RetrievalGrid(("tiny",)), tiny).results) == 1
    assert "cannot write to the cache" in caplog.text


# What is told before the work


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rankers": ("dense", "bm42")}, f"unknown ranker 'bm42'; choose from {', '.join(RANKERS)}"),
        ({"poolings": ("mean", "avg")}, "unknown pooling 'avg'"),
        ({"ks": (5, 0)}, "k from 1 on, not 0"),
        ({"rankers": ("static",)}, "the static ranker needs word vectors; give a file of them with --vectors"),
    ],
)
def test_wrong_grids_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        RetrievalGrid(**options)


def test_a_layer_that_one_model_lacks_is_told_before_the_work(tiny: Encoder, passes: list[int]) -> None:
    models = {"deep": tiny_encoder("bert"), "flat": tiny}
    with pytest.raises(UsageError, match="no layer 3; this model has layers 0 to 2"):
        compare_retrieval(TASK, RetrievalGrid(("deep", "flat"), layers=(3,)), models.__getitem__)
    assert passes == []


def test_comparing_fills_what_is_not_given(tmp_path: Path) -> None:
    filled = RetrievalGrid().compared
    assert filled.poolings == ("mean", "cls", "max") and filled.rankers == tuple(set_without(RANKERS, "static"))
    assert RetrievalGrid(vectors=tmp_path / "v.txt").compared.rankers == RANKERS
    given = RetrievalGrid(poolings=("last",), rankers=("bm25",)).compared
    assert (given.poolings, given.rankers) == (("last",), ("bm25",))


def set_without(names: tuple[str, ...], out: str) -> list[str]:
    return [name for name in names if name != out]
