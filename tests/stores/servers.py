"""Real vector stores for tests: Milvus, PostgreSQL with pgvector, and a Qdrant cluster of two nodes.

    with MilvusServer(folder) as server:
        client = MilvusClient(server.uri)

Servers listen on loopback only and run without privileges. They end with the thread that starts them. As a script:

    python tests/stores/servers.py setup|start|stop|status milvus|postgres|qdrant [--folder FOLDER]

A server that the script starts runs until the script stops it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

import processes
from store_programs import PROGRAMS, ServerError, need, set_up

START_SECONDS, KILL_SECONDS, ANSWER_SECONDS = 90.0, 20.0, 2.0


class Server:
    """One server and its folder, which holds its data, its ports and its log; a second server continues from it."""

    name: ClassVar[str]
    port_names: ClassVar[tuple[str, ...]]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    stop_seconds: ClassVar[float] = 20.0

    def __init__(self, folder: Path | str, is_detached: bool = False) -> None:
        self.folder, self.is_detached = Path(folder).resolve(), is_detached
        self.log, self.data, self._state_file = (self.folder / name for name in ("log.txt", "data", "server.json"))
        self._child: subprocess.Popen[bytes] | None = None
        need("setpriv", "ss")
        self.programs = self._prepare(set_up(self.name))
        if not self._state_file.exists():
            ports = dict(zip(self.port_names, processes.free_ports(len(self.port_names)), strict=True))
            self._save({"ports": ports, "password": secrets.token_hex(8)})
        self.ports: dict[str, int] = self._state()["ports"]

    def command(self) -> list[str]:
        """The command that runs the server in the foreground."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """The variables of the command."""
        return {}

    def configure(self) -> None:
        """Write the settings before each start."""

    def is_answering(self) -> bool:
        """Whether the server answers a small request at once."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """The number of the main process; None while the server does not run."""
        if self._child is not None:
            self._child.poll()  # ends a zombie
        pid, born = self._state().get("process", (0, None))
        return pid if born is not None and processes.birth(pid) == born else None

    @property
    def pids(self) -> list[int]:
        """The numbers of all processes of the server."""
        return [] if self.pid is None else processes.family(self.pid)

    def start(self) -> None:
        """Start the server and wait until it answers; it keeps its data and its ports."""
        if self.pid is not None:
            raise ServerError(f"{self.name} already runs as process {self.pid}")
        self.configure()
        self._launch()
        try:
            self.wait(self.is_answering)
            processes.check_loopback(self.pids)
        except BaseException:
            self.kill()
            raise

    def _launch(self) -> None:
        command = [*processes.as_user(*([] if self.is_detached else ["--pdeathsig", "KILL"])), *self.command()]
        variables = {"PATH": os.defpath, "LANG": "C", "HOME": str(self.data), **self.environment()}
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                command, cwd=self.data, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._save({**self._state(), "process": (self._child.pid, processes.birth(self._child.pid))})

    def wait(self, holds: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        """Wait until a condition holds; an error shows the end of the log."""
        end = time.monotonic() + seconds
        while not holds():
            is_late = time.monotonic() > end
            if is_late or self.pid is None:
                problem = f"is not ready after {seconds:.0f} s" if is_late else "has ended"
                raise ServerError(f"{self.name} {problem}; the end of {self.log}:\n{self.log_end()}")
            time.sleep(0.1)

    def log_end(self, lines: int = 20) -> str:
        """The last lines of the log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(line[:500] for line in text.splitlines()[-lines:])

    def stop(self) -> None:
        """End the server in order; it is killed where that takes too long."""
        pid, pids = self.pid, self.pids
        if pid is not None:
            processes.send(pids, signal.SIGCONT)
            processes.send([pid], self.stop_signal)
            processes.wait_for_end(pids, self.stop_seconds)
        self._end(pids)

    def kill(self) -> None:
        """End all processes of the server at once, without any order."""
        self._end(self.pids)

    def pause(self) -> None:
        """Halt all processes: connections are accepted, and nothing answers."""
        processes.send(self.pids, signal.SIGSTOP)

    def resume(self) -> None:
        """Let halted processes run on."""
        processes.send(self.pids, signal.SIGCONT)

    def addresses(self) -> list[str]:
        """The addresses that the server listens on."""
        return processes.listening(self.pids)

    def clean(self, pid: int) -> None:
        """Remove what an ended process leaves outside the folder."""

    def _end(self, pids: list[int]) -> None:
        processes.send([pid for pid in pids if processes.statistics(pid)], signal.SIGKILL)
        if not processes.wait_for_end(pids, KILL_SECONDS):
            raise ServerError(f"{self.name} does not end: processes {pids}")
        if self._child is not None:
            self._child.wait(timeout=KILL_SECONDS)
            self._child = None
        for pid in pids:
            self.clean(pid)

    def _prepare(self, programs: Path) -> Path:
        """Make the folder, and bring the programs where the user of the server reaches them."""
        self.data.mkdir(parents=True, exist_ok=True)
        for path in (self.folder, self.data):
            processes.give(path)
        if not processes.may("-w", self.data):
            raise ServerError(
                f"the user {processes.USER} cannot reach {self.folder}; take a folder that every user may enter, "
                f"for example one of tempfile.mkdtemp()"
            )
        if processes.may("-x", programs / PROGRAMS[self.name].executable):
            return programs
        # The home of root is closed to other users.
        near = self.folder / "programs"
        if not near.exists():
            shutil.copytree(programs, near, copy_function=link_or_copy)
        return near

    def _state(self) -> dict[str, Any]:
        return dict(json.loads(self._state_file.read_text()))

    def _save(self, state: dict[str, Any]) -> None:
        self._state_file.write_text(json.dumps(state))
        self._state_file.chmod(0o600)


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def get(port: int, path: str) -> Any:
    """The JSON that an HTTP server answers with, or its text; None where it answers with an error or not at all."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read().decode()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    if response.status != 200:
        return None
    return json.loads(text) if text.startswith("{") else text


class MilvusServer(Server):
    """Milvus 2.3.5, all parts in one process."""

    name = "milvus"
    parts = ("rootCoord", "proxy", "queryCoord", "queryNode", "indexNode", "dataCoord", "dataNode")
    port_names = (*parts, "internal", "etcd", "peer")
    stop_seconds = 1.0  # its parts wait for each other and never end; its own Python package waits as long

    @property
    def uri(self) -> str:
        """The address for pymilvus."""
        return f"http://127.0.0.1:{self.ports['proxy']}"

    def command(self) -> list[str]:
        # The alias names the lock file in /tmp/milvus, so that several servers may run.
        return [str(self.programs / "milvus"), "run", "standalone", "-alias", str(self.ports["proxy"])]

    def environment(self) -> dict[str, str]:
        # No such port: Milvus logs an error and runs without its metrics, which every interface would show.
        hidden = {"DEPLOY_MODE": "STANDALONE", "METRICS_PORT": "99999"}
        return {**hidden, "MILVUSCONF": str(self.folder / "settings"), "LD_LIBRARY_PATH": str(self.programs)}

    def configure(self) -> None:
        folder, client, peer = (
            self.folder / "settings",
            f"127.0.0.1:{self.ports['etcd']}",
            f"127.0.0.1:{self.ports['peer']}",
        )
        settings: dict[str, Any] = {part: {"ip": "127.0.0.1", "port": self.ports[part]} for part in self.parts}
        settings["proxy"] |= {"internalPort": self.ports["internal"], "http": {"enabled": True}}
        settings |= {
            "etcd": {
                "endpoints": client,
                "use": {"embed": True},
                "data": {"dir": str(self.data / "etcd")},
                "config": {"path": str(folder / "etcd.yaml")},
            },
            "metastore": {"type": "etcd"},
            "localStorage": {"path": str(self.data / "files")},
            "mq": {"type": "rocksmq"},
            "rocksmq": {"path": str(self.data / "rocksmq")},
            "log": {"level": "warn"},
            "common": {"storageType": "local", "gracefulStopTimeout": 10, "session": {"ttl": 10}},
        }
        etcd = {
            "name": "default",
            "data-dir": str(self.data / "etcd"),
            "listen-client-urls": f"http://{client}",
            "advertise-client-urls": f"http://{client}",
            "listen-peer-urls": f"http://{peer}",
            "initial-advertise-peer-urls": f"http://{peer}",
            "initial-cluster": f"default=http://{peer}",
            "log-level": "warn",
        }
        folder.mkdir(exist_ok=True)
        (folder / "milvus.yaml").write_text(json.dumps(settings, indent=1))  # JSON is YAML
        (folder / "etcd.yaml").write_text(json.dumps(etcd, indent=1))
        (folder / "glog.conf").write_text(f"--log_dir={self.data}\n--minloglevel=1\n")

    def clean(self, pid: int) -> None:
        for name in (f"server_id_{pid}", f"standalone-{self.ports['proxy']}.pid"):
            for folder in ("/run/milvus", "/tmp/milvus"):
                Path(folder, name).unlink(missing_ok=True)

    def is_answering(self) -> bool:
        answer = get(self.ports["proxy"], "/v1/vector/collections")
        return isinstance(answer, dict) and answer.get("code") == 200


class PostgresServer(Server):
    """PostgreSQL 18 with pgvector; CREATE EXTENSION vector is left to the client."""

    name = "postgres"
    port_names = ("sql",)
    stop_signal = signal.SIGINT  # ends open sessions

    @property
    def dsn(self) -> str:
        """The address for psycopg, of a superuser."""
        return f"postgresql://postgres:{self._state()['password']}@127.0.0.1:{self.ports['sql']}/postgres"

    def program(self, name: str) -> str:
        """The path of a program of PostgreSQL."""
        return str((self.programs / PROGRAMS[self.name].executable).with_name(name))

    def configure(self) -> None:
        if (self.data / "cluster" / "PG_VERSION").exists():
            return
        password = self.data / "password.txt"
        password.write_text(self._state()["password"])
        password.chmod(0o600)
        processes.give(password)
        options = [
            "--username",
            "postgres",
            "--auth",
            "scram-sha-256",
            "--pwfile",
            str(password),
            "--no-locale",
            "--no-sync",
        ]
        command = [self.program("initdb"), "-D", str(self.data / "cluster"), *options, "--encoding", "UTF8"]
        done = subprocess.run(
            [*processes.as_user(), *command], cwd=self.data, env={"PATH": os.defpath}, capture_output=True, text=True,
            timeout=START_SECONDS,
        )  # fmt: skip
        password.unlink()
        if done.returncode:
            raise ServerError(f"initdb failed:\n{done.stdout}{done.stderr}")

    def command(self) -> list[str]:
        settings = {"listen_addresses": "127.0.0.1", "port": self.ports["sql"], "unix_socket_directories": ""}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [self.program("postgres"), "-D", str(self.data / "cluster"), *options]

    def is_answering(self) -> bool:
        """Whether the server asks for the password; one that still recovers answers with an error."""
        fields = struct.pack("!i", 3 << 16) + b"user\0postgres\0database\0postgres\0\0"
        try:
            with socket.create_connection(("127.0.0.1", self.ports["sql"]), timeout=ANSWER_SECONDS) as connection:
                connection.sendall(struct.pack("!i", 4 + len(fields)) + fields)
                return connection.recv(1) == b"R"
        except OSError:
            return False


class QdrantNode(Server):
    """One node of a Qdrant 1.16.3 cluster; all but the first name another to join."""

    name = "qdrant"
    port_names = ("http", "grpc", "peer")

    def __init__(self, folder: Path | str, is_detached: bool = False, first: QdrantNode | None = None) -> None:
        super().__init__(folder, is_detached)
        self.first = first

    @property
    def url(self) -> str:
        """The address for HTTP clients."""
        return f"http://127.0.0.1:{self.ports['http']}"

    @property
    def peer_url(self) -> str:
        """The address for other nodes."""
        return f"http://127.0.0.1:{self.ports['peer']}"

    def command(self) -> list[str]:
        join = ["--bootstrap", self.first.peer_url] if self.first else []
        return [str(self.programs / "qdrant"), "--uri", self.peer_url, *join]

    def environment(self) -> dict[str, str]:
        settings = {
            "CLUSTER__ENABLED": "true",
            "CLUSTER__P2P__PORT": self.ports["peer"],
            "SERVICE__HOST": "127.0.0.1",
            "SERVICE__HTTP_PORT": self.ports["http"],
            "SERVICE__GRPC_PORT": self.ports["grpc"],
            "STORAGE__STORAGE_PATH": self.data / "storage",
            "STORAGE__SNAPSHOTS_PATH": self.data / "snapshots",
            "TELEMETRY_DISABLED": "true",
        }
        return {f"QDRANT__{name}": str(value) for name, value in settings.items()}

    def is_answering(self) -> bool:
        return get(self.ports["http"], "/healthz") is not None

    def is_joined(self) -> bool:
        """Whether this node knows a second one and their leader."""
        result = (get(self.ports["http"], "/cluster") or {}).get("result", {})
        return len(result.get("peers", {})) == 2 and bool(result.get("raft_info", {}).get("leader"))


class QdrantCluster:
    """Two Qdrant nodes that know each other."""

    def __init__(self, folder: Path | str, is_detached: bool = False) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        processes.give(Path(folder))
        first = QdrantNode(Path(folder) / "node-1", is_detached)
        self.nodes = [first, QdrantNode(Path(folder) / "node-2", is_detached, first)]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes of all nodes."""
        return [pid for node in self.nodes for pid in node.pids]

    def start(self) -> None:
        """Start the nodes that do not run, and wait until all know each other and have a leader."""
        try:
            for node in self.nodes:
                if node.pid is None:
                    node.start()
            for node in self.nodes:
                node.wait(node.is_joined)
        except BaseException:
            self.kill()
            raise

    def is_answering(self) -> bool:
        """Whether every node answers."""
        return all(node.is_answering() for node in self.nodes)

    def stop(self) -> None:
        """End all nodes in order; each waits for the others, so none may be halted."""
        self.resume()
        for node in self.nodes:
            node.stop()

    def kill(self) -> None:
        """End all nodes at once."""
        for node in self.nodes:
            node.kill()

    def pause(self) -> None:
        """Halt all nodes."""
        for node in self.nodes:
            node.pause()

    def resume(self) -> None:
        """Let all nodes run on."""
        for node in self.nodes:
            node.resume()

    def addresses(self) -> list[str]:
        """The addresses that the nodes listen on."""
        return processes.listening(self.pids)


SERVERS: dict[str, type[MilvusServer] | type[PostgresServer] | type[QdrantCluster]] = {
    "milvus": MilvusServer,
    "postgres": PostgresServer,
    "qdrant": QdrantCluster,
}


def describe(server: MilvusServer | PostgresServer | QdrantCluster) -> str:
    """One line: the processes, the memory, and the addresses for clients."""
    if not server.pids:
        return "stopped"
    if isinstance(server, MilvusServer):
        clients = server.uri
    else:
        clients = server.dsn if isinstance(server, PostgresServer) else " ".join(node.url for node in server.nodes)
    state = "answers" if server.is_answering() else "does not answer"
    size = processes.memory(server.pids) / 1e6
    return f"{clients}  {state}, {size:.0f} MB, processes {', '.join(map(str, server.pids))}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["setup", "start", "stop", "status"])
    parser.add_argument("name", choices=SERVERS)
    parser.add_argument(
        "--folder", type=Path, help="the server's data, log and ports; default: in the temporary folder"
    )
    chosen = parser.parse_args()
    folder = chosen.folder or Path(tempfile.gettempdir()) / f"likewise-{chosen.name}"
    try:
        if chosen.action == "setup":
            print(set_up(chosen.name))
            return
        server = SERVERS[chosen.name](folder, is_detached=True)
        if chosen.action != "status":
            server.start() if chosen.action == "start" else server.stop()
        print(describe(server))
    except ServerError as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
