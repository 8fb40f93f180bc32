"""Ray clusters for tests: nodes of one core each on this machine, ended by their process ids.

A plugin, as ``command_line`` is.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

HOST = "127.0.0.2"  # the loopback too; Ray replaces 127.0.0.1 by the address of the network
SECONDS_TO_START = 60.0
PR_SET_PDEATHSIG = 1
STORE_BYTES = 100_000_000
SOURCES = Path(__file__).resolve().parents[1] / "src"


def end_with_the_tests() -> None:
    """Let the system end this process with the one that started it, which may be killed before it ends its nodes."""
    with contextlib.suppress(OSError, AttributeError):  # Linux alone has it
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as one:
        one.bind((HOST, 0))
        return int(one.getsockname()[1])


@dataclass
class Node:
    """A node of the cluster: ``ray start --block`` and the processes that it started, in a process group."""

    process: subprocess.Popen[str]
    log: IO[str]

    def end(self) -> None:
        """End all its processes at once, as a loss of power would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(20)
        self.log.close()


@dataclass
class RayNodes:
    """A head and other nodes, each with a core of its own."""

    folder: Path
    port: int = field(default_factory=free_port)
    nodes: list[Node] = field(default_factory=list)
    token: str = field(default_factory=lambda: secrets.token_hex(32))

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its nodes and of processes that connect to it."""
        own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token, "PYTHONPATH": str(SOURCES)}
        return os.environ | own

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> Node:
        """Start a node and wait until it is there; the first one is the head."""
        number = len(self.nodes)
        where = ["--address", self.address] if number else ["--head", "--port", str(self.port)]
        where += [] if number else ["--include-dashboard=false", "--temp-dir", str(self.folder)]
        size = ["--num-cpus=1", f"--object-store-memory={STORE_BYTES}", "--disable-usage-stats"]
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--node-ip-address", HOST]
        environment = self.environment | {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}
        log = (self.folder / f"node-{number}.log").open("w", encoding="utf-8")
        how = {
            "stdout": log,
            "stderr": subprocess.STDOUT,
            "text": True,
            "start_new_session": True,
            "preexec_fn": end_with_the_tests,
        }
        node = Node(subprocess.Popen([*command, *where, *size], env=environment, **how), log)  # type: ignore[call-overload]
        self.nodes.append(node)
        self._await(node, Path(log.name))
        return node

    def _await(self, node: Node, log: Path) -> None:
        end = time.monotonic() + SECONDS_TO_START
        while "This command will now block forever" not in log.read_text(encoding="utf-8"):
            if node.process.poll() is not None or time.monotonic() > end:
                pytest.fail(f"a Ray node did not start:\n{log.read_text(encoding='utf-8')[-2000:]}")
            time.sleep(0.2)

    def end(self) -> None:
        for node in reversed(self.nodes):
            node.end()


@pytest.fixture
def ray_nodes() -> Iterator[RayNodes]:
    """A Ray cluster of two nodes; its tests are marked with ``process`` and ``slow``."""
    pytest.importorskip("ray", reason="Ray is not installed (extra: cluster)")
    # Not tmp_path: the sockets in it have names of at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as place:
        nodes = RayNodes(Path(place))
        try:
            nodes.start()
            nodes.start()
            yield nodes
        finally:
            nodes.end()
