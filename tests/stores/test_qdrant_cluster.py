"""A Qdrant cluster of two nodes: replicas on both, a node killed while rows are added and while they are searched."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conformance import PLAIN, ServerTarget, check_twin, fill, pairs, part, rows_of, stored, write
from running import RunningServer
from servers import QdrantCluster

from likewise.errors import DataError
from likewise.search.stores import StoredRows, qdrant

pytest_plugins = ("store_fixtures",)
pytestmark = pytest.mark.stores


@pytest.fixture
def cluster(store_folder: Path) -> Iterator[QdrantCluster]:
    with QdrantCluster(store_folder) as made:
        yield made


@pytest.fixture
def target(cluster: QdrantCluster) -> ServerTarget:
    return ServerTarget(RunningServer("qdrant", cluster).address("news"))


def only(target: ServerTarget, node: int) -> ServerTarget:
    """The same index, by one of the nodes."""
    nodes = target.address.split("/")[2].split(",")
    return ServerTarget(f"qdrant://{nodes[node]}/news")


def wait_for_replicas(cluster: QdrantCluster) -> None:
    """Until both nodes have every shard, and all of it.

    The states alone do not say so: a node that comes back is listed as active until both have agreed that it missed
    rows. Each node counts its own.
    """
    from qdrant_client import QdrantClient

    def rows_if_whole(url: str) -> int | None:
        client = QdrantClient(url=url, check_compatibility=False)
        name = next(alias.collection_name for alias in client.get_aliases().aliases if alias.alias_name == "news")
        found = client.http.distributed_api.collection_cluster_info(name).result
        states = [str(shard.state.value) for shard in [*found.local_shards, *found.remote_shards]]
        is_whole = len(found.local_shards) == found.shard_count and set(states) == {"Active"}
        return client.count(name, exact=True).count if is_whole else None

    until = time.monotonic() + 120
    while len(counts := {rows_if_whole(node.url) for node in cluster.nodes}) != 1 or None in counts:
        assert time.monotonic() < until, "the replicas do not become whole"
        time.sleep(0.5)


def test_both_nodes_have_every_row(cluster: QdrantCluster, target: ServerTarget) -> None:
    rows = rows_of(1500)
    fill(target, rows)
    wait_for_replicas(cluster)
    for node in (0, 1):
        with only(target, node).open() as store:
            assert stored(store) == pairs(rows)
            check_twin(store, rows)
    for node in (0, 1):  # one alone answers for both
        cluster.nodes[node].kill()
        with only(target, 1 - node).open() as store:
            assert stored(store) == pairs(rows)
            check_twin(store, rows)
        cluster.start()
        wait_for_replicas(cluster)


@pytest.mark.parametrize("node", [0, 1])
def test_a_node_killed_while_searching(cluster: QdrantCluster, target: ServerTarget, node: int) -> None:
    rows = rows_of(500)
    fill(target, rows)
    wait_for_replicas(cluster)
    with target.open() as store:
        check_twin(store, rows)
        killer = threading.Thread(target=lambda: (time.sleep(0.5), cluster.nodes[node].kill()))
        killer.start()
        until, count = time.monotonic() + 6, 0
        while time.monotonic() < until:
            check_twin(store, rows)
            count += 1
        killer.join()
        assert count >= 3
        cluster.start()
        check_twin(store, rows)


@pytest.mark.parametrize("node", [0, 1])
def test_a_node_killed_while_adding(cluster: QdrantCluster, target: ServerTarget, node: int) -> None:
    rows, more = rows_of(200), rows_of(3000, 1, "m")
    fill(target, rows)
    killer = threading.Thread(target=lambda: (time.sleep(0.2), cluster.nodes[node].kill()))
    with target.open() as store, store.writer() as writer:
        killer.start()
        for start in range(0, 3000, 250):
            if start == 1500:
                killer.join()
            if start == 2250:  # a third of the rows was written while one node was away
                cluster.start()
            write(writer, part(more, slice(start, start + 250)))
        writer.commit()
    wait_for_replicas(cluster)
    whole = StoredRows([*rows.ids, *more.ids], [*rows.texts, *more.texts], np.concatenate([rows.vectors, more.vectors]))
    for each in (0, 1):
        with only(target, each).open() as store:
            assert stored(store) == pairs(whole)
            check_twin(store, whole)


def test_a_commit_without_a_majority_is_repeated(
    cluster: QdrantCluster, target: ServerTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two nodes one is no majority: it stores rows, but changes neither settings nor aliases."""
    rows, other = rows_of(200), rows_of(300, 1, "new")
    fill(target, rows)
    with target.building({**PLAIN, "texts": "b"}, replace=True) as writer:
        write(writer, part(other, slice(0, 100)))
        cluster.nodes[1].kill()
        write(writer, other)
        monkeypatch.setattr(qdrant, "PATIENCE_SECONDS", 3.0)
        with pytest.raises(DataError, match="check Qdrant and run the same command again") as caught:
            writer.commit()
        assert "\n" not in str(caught.value)
    with only(target, 0).open() as store:
        check_twin(store, rows)
    cluster.start()
    monkeypatch.undo()
    with target.building({**PLAIN, "texts": "b"}, replace=True) as writer:
        assert write(writer, other) == 0, "nothing was lost"
        writer.commit()
    with target.open() as store:
        assert stored(store) == pairs(other)


def test_replaced_in_a_cluster(cluster: QdrantCluster, target: ServerTarget) -> None:
    rows, other = rows_of(300), rows_of(200, 1, "new")
    fill(target, rows)
    with only(target, 0).open() as one, only(target, 1).open() as two:
        fill(target, other, {**PLAIN, "texts": "b"}, replace=True)
        for store in (one, two):
            check_twin(store, other)
