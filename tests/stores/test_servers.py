"""The servers themselves: they start, listen on loopback only, keep their data, and end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import processes
import pytest
import store_programs
from servers import SERVERS, MilvusServer, PostgresServer, QdrantCluster, QdrantNode
from store_programs import ServerError

pytest_plugins = ("store_fixtures",)
pytestmark = pytest.mark.stores

AnyServer = MilvusServer | PostgresServer | QdrantCluster


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, store_folder: Path) -> Iterator[AnyServer]:
    with SERVERS[request.param](store_folder) as started:
        yield started


def send(method: str, url: str, body: Any) -> Any:
    data = json.dumps(body).encode()
    sent = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(sent, timeout=60) as response:
        return json.load(response)


def query(server: PostgresServer, statement: str) -> str:
    """What a statement prints in the psql of the same package."""
    command = [server.program("psql"), server.dsn, "-XAtqc", statement]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def write(server: AnyServer) -> None:
    """Two rows."""
    vectors = {1: [1.0, 0.0], 2: [0.0, 1.0]}
    if isinstance(server, PostgresServer):
        query(server, "CREATE EXTENSION vector; CREATE TABLE rows (id int, place vector(2))")
        query(server, "INSERT INTO rows VALUES (1, '[1,0]'), (2, '[0,1]')")
    elif isinstance(server, MilvusServer):
        address = f"{server.uri}/v1/vector"
        send("POST", f"{address}/collections/create", {"collectionName": "rows", "dimension": 2, "metricType": "IP"})
        rows = [{"row": number, "vector": vector} for number, vector in vectors.items()]
        assert send("POST", f"{address}/insert", {"collectionName": "rows", "data": rows})["code"] == 200
    else:
        address = f"{server.nodes[0].url}/collections/rows"
        send("PUT", address, {"vectors": {"size": 2, "distance": "Dot"}, "shard_number": 2, "replication_factor": 2})
        points = [{"id": number, "vector": vector} for number, vector in vectors.items()]
        send("PUT", f"{address}/points?wait=true", {"points": points})


def nearest(server: AnyServer) -> list[int]:
    """The rows by their inner product with (0.2, 1), the largest first."""
    if isinstance(server, PostgresServer):
        return [int(row) for row in query(server, "SELECT id FROM rows ORDER BY place <#> '[0.2,1]'").split()]
    if isinstance(server, MilvusServer):
        body = {"collectionName": "rows", "vector": [0.2, 1], "outputFields": ["row"], "limit": 2}
        found = send("POST", f"{server.uri}/v1/vector/search", body).get("data", [])
        return [row["row"] for row in found]
    body = {"query": [0.2, 1], "limit": 2}
    found = send("POST", f"{server.nodes[1].url}/collections/rows/points/query", body)["result"]["points"]
    return [row["id"] for row in found]


def finds_rows(server: AnyServer, seconds: float = 60) -> bool:
    """Whether both rows come back in time: Milvus loads them after it answers."""
    end = time.monotonic() + seconds
    while nearest(server) != [2, 1]:
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
    return True


def test_server_listens_on_loopback_only_without_privileges(server: AnyServer) -> None:
    assert server.is_answering()
    assert processes.check_loopback(server.pids) == server.addresses() != []
    owners = {Path(f"/proc/{pid}").stat().st_uid for pid in server.pids}
    assert owners.isdisjoint({0}) and len(owners) == 1


def test_server_keeps_its_rows_when_stopped_and_when_killed(server: AnyServer) -> None:
    write(server)
    assert finds_rows(server)
    for end in (server.stop, server.kill):
        before, addresses = server.pids, server.addresses()
        end()
        assert not any(processes.statistics(pid) for pid in before)
        assert server.pids == [] and not server.is_answering()
        server.start()
        assert set(server.pids).isdisjoint(before) and server.addresses() == addresses
        assert finds_rows(server)


def test_paused_server_is_silent_until_it_is_resumed(server: AnyServer) -> None:
    server.pause()
    assert server.pids != [] and not server.is_answering()
    server.resume()
    end = time.monotonic() + 30
    while not server.is_answering():
        assert time.monotonic() < end
    server.pause()
    before = server.pids
    server.stop()
    assert not any(processes.statistics(pid) for pid in before)


def test_one_node_answers_while_the_other_is_killed(store_folder: Path) -> None:
    with QdrantCluster(store_folder) as cluster:
        write(cluster)
        first, second = cluster.nodes
        first.kill()
        assert not first.is_answering() and second.is_answering()
        assert finds_rows(cluster)
        first.start()
        assert finds_rows(cluster)
        cluster.start()
        assert all(node.is_joined() for node in cluster.nodes)


def test_second_server_continues_from_the_folder_of_the_first(store_folder: Path) -> None:
    with PostgresServer(store_folder) as first:
        query(first, "CREATE TABLE kept (id int)")
    with PostgresServer(store_folder) as second:
        assert second.dsn == first.dsn
        assert query(second, "SELECT count(*) FROM kept") == "0"
        with pytest.raises(ServerError, match="already runs"):
            PostgresServer(store_folder).start()


@pytest.mark.process
@pytest.mark.parametrize("name", SERVERS)
def test_server_ends_with_the_process_that_starts_it(name: str, store_folder: Path) -> None:
    code = (
        f"import servers, time; server = servers.SERVERS[{name!r}]({str(store_folder)!r}); server.start();"
        "print(*server.pids, flush=True); time.sleep(300)"
    )
    command = [sys.executable, "-c", code]
    starter = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent)
    assert starter.stdout is not None
    pids = [int(pid) for pid in starter.stdout.readline().split()]
    assert pids and all(processes.statistics(pid) for pid in pids)
    starter.send_signal(signal.SIGKILL)
    starter.communicate(timeout=20)
    assert processes.wait_for_end(pids, 20)


@pytest.mark.process
def test_script_starts_shows_and_stops_a_server(store_folder: Path) -> None:
    def script(action: str) -> str:
        command = [sys.executable, str(Path(__file__).with_name("servers.py")), action, "qdrant", "--folder"]
        return subprocess.run([*command, str(store_folder)], capture_output=True, text=True, check=True).stdout

    assert script("status") == "stopped\n"
    started = script("start")
    try:
        assert "answers" in started and QdrantCluster(store_folder).nodes[1].url in script("status")
    finally:
        assert script("stop") == "stopped\n"


def test_server_that_ends_at_once_shows_its_log(store_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QdrantNode, "command", lambda self: ["sh", "-c", "echo no such disk; exit 3"])
    node = QdrantNode(store_folder)
    with pytest.raises(ServerError, match=r"(?s)qdrant has ended; .*no such disk"):
        node.start()
    assert node.pids == []


def test_server_on_all_interfaces_is_ended(store_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = PostgresServer.command
    monkeypatch.setattr(PostgresServer, "command", lambda self: [*usual(self), "-c", "listen_addresses=*"])
    server = PostgresServer(store_folder)
    with pytest.raises(ServerError, match="must listen on loopback only"):
        server.start()
    assert server.pids == []


def test_folder_that_the_user_cannot_reach_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "closed" / "data").mkdir(parents=True)
    (tmp_path / "closed" / "data").chmod(0o500)
    with pytest.raises(ServerError, match="take a folder that every user may enter"):
        PostgresServer(tmp_path / "closed")


def test_archive_with_another_hash_is_refused(store_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_STORES", str(store_folder))

    def fetch(folder: Path) -> None:
        (folder / "it.tgz").write_bytes(b"other")

    other = replace(store_programs.PROGRAMS["qdrant"], fetch=fetch)
    monkeypatch.setitem(store_programs.PROGRAMS, "qdrant", other)
    with pytest.raises(ServerError, match=r"it\.tgz is not the archive that was checked"):
        store_programs.set_up("qdrant")
    assert list(store_folder.iterdir()) == []
