"""What each server's graph finds of what brute force finds, and how long it takes; ``-s`` shows the numbers."""

from __future__ import annotations

import time

import numpy as np
import pytest
from conformance import PLAIN, ServerTarget, best, rows_of, write
from running import RunningServer

pytest_plugins = ("store_fixtures",)
pytestmark = pytest.mark.stores
ROWS, DIMENSION, QUERIES, K = 10_000, 128, 100, 10


def test_recall_against_brute_force(running: RunningServer, target: ServerTarget) -> None:
    rows = rows_of(ROWS, dimension=DIMENSION)
    # Sums of two rows: near the rows, as queries are; a row itself is too easy to find.
    first, second = np.random.default_rng(1).integers(0, ROWS, (2, QUERIES))
    queries = rows.vectors[first] + rows.vectors[second]
    start = time.perf_counter()
    with target.building(PLAIN, DIMENSION) as writer:
        write(writer, rows)
        writer.commit()
    built = time.perf_counter() - start
    with target.open() as store:
        start = time.perf_counter()
        hits = [store.nearest(query[None], K)[0] for query in queries]
        each = (time.perf_counter() - start) / QUERIES
        measured = store.searched.recall
    shares = []
    for query, found in zip(queries, hits, strict=True):
        true = {name: score for name, _, score in best(rows, query, K)}
        shares.append(sum(hit.id in true for hit in found) / K)
        assert all(hit.score == true[hit.id] for hit in found if hit.id in true), "a shown score is exact"
    recall = float(np.mean(shares))
    times = f"built in {built:.1f} s, {1000 * each:.0f} ms a query"
    print(f"\n{running.kind}: recall {recall:.3f}, by its own sample {measured}, {times}")
    assert recall > 0.9 and measured is not None and abs(measured - recall) < 0.05
