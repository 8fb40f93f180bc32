"""A Qdrant cluster of two nodes: replicas on both, a node killed while rows are added and while they are searched."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance import PLAIN, ServerTarget, add, check_twin, fill, pairs, part, rows_of, stored, write
from running import RunningServer
from servers import QdrantCluster

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


def wait_for_replicas(cluster: QdrantCluster, target: ServerTarget) -> None:
    """Until both nodes have every shard, and all of it."""
    from qdrant_client import QdrantClient

    def is_whole(url: str) -> bool:
        client = QdrantClient(url=url, check_compatibility=False)
        name = next(alias.collection_name for alias in client.get_aliases().aliases if alias.alias_name == "news")
        found = client.http.distributed_api.collection_cluster_info(name).result
        states = [str(shard.state.value) for shard in [*found.local_shards, *found.remote_shards]]
        return len(found.local_shards) == found.shard_count and set(states) == {"Active"}

    until = time.monotonic() + 120
    while not all(is_whole(node.url) for node in cluster.nodes):
        assert time.monotonic() < until, "the replicas do not become whole"
        time.sleep(0.5)


def test_both_nodes_have_every_row(cluster: QdrantCluster, target: ServerTarget) -> None:
    rows = rows_of(1500)
    fill(target, rows)
    wait_for_replicas(cluster, target)
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
        wait_for_replicas(cluster, target)


@pytest.mark.parametrize("node", [0, 1])
def test_a_node_killed_while_searching(cluster: QdrantCluster, target: ServerTarget, node: int) -> None:
    rows = rows_of(500)
    fill(target, rows)
    wait_for_replicas(cluster, target)
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

    def fail() -> None:
        time.sleep(0.5)
        cluster.nodes[node].kill()
        time.sleep(3)
        cluster.start()

    failing = threading.Thread(target=fail)
    with target.open() as store, store.writer() as writer:
        failing.start()
        for start in range(0, 3000, 250):
            write(writer, part(more, slice(start, start + 250)))
        failing.join()
        writer.commit()
    wait_for_replicas(cluster, target)
    for each in (0, 1):
        with only(target, each).open() as store:
            assert stored(store) == [*pairs(rows), *pairs(more)]
            check_twin(store, more, 5, more.vectors[:3] * 100)
    with target.open() as store:
        assert len(add(store, rows_of(10, 2, "late"))) == 3210


def test_replaced_in_a_cluster(cluster: QdrantCluster, target: ServerTarget) -> None:
    rows, other = rows_of(300), rows_of(200, 1, "new")
    fill(target, rows)
    with only(target, 0).open() as one, only(target, 1).open() as two:
        fill(target, other, {**PLAIN, "texts": "b"}, replace=True)
        for store in (one, two):
            check_twin(store, other)
