"""What each server's graph finds of what brute force finds, and how long it takes; ``-s`` shows the numbers."""

from __future__ import annotations

import time

import numpy as np
import pytest
from conformance import PLAIN, ServerTarget, best, rows_of, write
from qdrant_client import models
from running import RunningServer

from likewise.search.hits import Hit
from likewise.search.stores import milvus, pgvector, qdrant

pytest_plugins = ("store_fixtures",)
pytestmark = pytest.mark.stores
ROWS, DIMENSION, QUERIES, K = 10_000, 128, 100, 10


def share(hits: list[list[Hit]], true: list[dict[str, float]]) -> float:
    """The share of the true hits that were found."""
    return float(np.mean([sum(hit.id in known for hit in found) / K for known, found in zip(true, hits, strict=True)]))


def test_recall_against_brute_force(
    running: RunningServer, target: ServerTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(ROWS, dimension=DIMENSION)
    # Sums of two rows: near the rows, as queries are; a row itself is too easy to find.
    first, second = np.random.default_rng(1).integers(0, ROWS, (2, QUERIES))
    queries = rows.vectors[first] + rows.vectors[second]
    start = time.perf_counter()
    with target.building(PLAIN, DIMENSION) as writer:
        if running.kind == "qdrant":  # by itself it neither builds nor searches a graph of so few rows
            how = {"optimizers_config": models.OptimizersConfigDiff(indexing_threshold=100)}
            how |= {"hnsw_config": models.HnswConfigDiff(full_scan_threshold=10)}
            connection = writer._store._connection
            connection.ask("update_collection", collection_name=connection.collection, **how)
        write(writer, rows)
        writer.commit()
    built = time.perf_counter() - start
    with target.open() as store:
        start = time.perf_counter()
        hits = [store.nearest(query[None], K)[0] for query in queries]
        each = (time.perf_counter() - start) / QUERIES
        measured = store.searched.recall
        for module in (milvus, pgvector, qdrant):
            monkeypatch.setattr(module, "SEARCH_WIDTH", 1)
        narrow = [store.nearest(query[None], K)[0] for query in queries]
    true = [{name: score for name, _, score in best(rows, query, K)} for query in queries]
    for known, found in zip(true, hits, strict=True):
        assert all(hit.score == known[hit.id] for hit in found if hit.id in known), "a shown score is exact"
    recall = share(hits, true)
    times = f"built in {built:.1f} s, {1000 * each:.0f} ms a query"
    print(f"\n{running.kind}: recall {recall:.3f}, by its own sample {measured}, {times}")
    assert share(narrow, true) < recall - 0.05, "else brute force is measured against itself"
    assert recall > 0.9 and measured is not None and abs(measured - recall) < 0.03
