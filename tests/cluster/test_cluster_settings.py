"""What is asked of Ray, and what is refused; no cluster is started."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

import pytest

from command_line import Run
from likewise.cluster import Cluster
from likewise.data.remote import path_of
from likewise.errors import MissingExtra, UsageError

pytest_plugins = ("command_line",)
pytest.importorskip("ray", reason="Ray is not installed (extra: cluster)")


def node(cores: float, gpus: float = 0.0, alive: bool = True) -> dict[str, object]:
    """A node as ``ray.nodes`` describes it; without GPUs it has no such entry."""
    return {"Alive": alive, "Resources": {"CPU": cores} | ({"GPU": gpus} if gpus else {})}


def test_a_worker_asks_for_its_cores_and_its_share_of_a_gpu() -> None:
    asked = Cluster("10.0.0.1:6379", gpus_per_worker=0.5, threads=4).options()
    assert asked["num_cpus"] == 4 and asked["num_gpus"] == 0.5
    # Windows of a lost worker go to others, so Ray neither restarts it nor repeats its task.
    assert asked["max_restarts"] == 0 and asked["max_task_retries"] == 0
    assert Cluster(gpus_per_worker=0.5).device == "cuda" and Cluster().device is None


def test_as_many_workers_as_fit() -> None:
    nodes = [node(8, 2), node(3), node(16, 1, alive=False)]
    assert Cluster(threads=1).capacity(nodes) == 11
    assert Cluster(threads=2).capacity(nodes) == 5
    assert Cluster(threads=1, gpus_per_worker=1).capacity(nodes) == 2
    assert Cluster(threads=1, gpus_per_worker=0.5).capacity(nodes) == 4  # several models on one GPU
    assert Cluster(threads=4, gpus_per_worker=0.5).capacity(nodes) == 2


def test_workers_of_another_machine_reach_uris_only() -> None:
    for address, paths in (("local", True), ("10.0.0.1:6379", False)):
        cluster = Cluster(address)
        assert cluster.reaches(Path("a.csv")) == paths
        assert cluster.reaches(path_of("s3://bucket/a.csv"))


def test_a_wrong_address_is_one_line(run: Run, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"  # nothing listens there
    start = time.monotonic()
    done = run("encode", "sample/sentences", "--out", str(tmp_path / "out"), "--cluster", address)
    assert done.code == 2 and time.monotonic() - start < 30
    assert done.err.startswith(f"likewise: no Ray cluster at {address} (") and done.err.count("\n") == 1
    with (
        pytest.raises(UsageError, match="--cluster takes local or HOST:PORT, not 'nowhere'"),
        Cluster("nowhere").connected(),
    ):
        pass


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r'pip install "likewise\[cluster\]"'), Cluster().connected():
        pass


def test_gpus_without_a_cluster_are_refused(run: Run, tmp_path: Path) -> None:
    done = run("encode", "sample/sentences", "--out", str(tmp_path / "out"), "--gpus-per-worker", "1")
    assert done.code == 2 and "--gpus-per-worker has no effect without --cluster" in done.err


def test_a_uri_needs_parquet(run: Run, tmp_path: Path) -> None:
    done = run("encode", "sample/sentences", "--out", f"file://{tmp_path}/out")
    assert done.code == 2 and "give --format parquet, or a path as --out" in done.err
