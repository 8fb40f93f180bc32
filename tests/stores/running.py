"""A running server, and the addresses of stores on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from servers import MilvusServer, PostgresServer


@dataclass(frozen=True)
class RunningServer:
    """One of the servers."""

    kind: str
    server: Any

    def address(self, name: str) -> str:
        """The address of a store."""
        if isinstance(self.server, MilvusServer):
            return f"{self.server.uri.replace('http', 'milvus')}/{name}"
        if isinstance(self.server, PostgresServer):
            return f"postgresql://127.0.0.1:{self.server.ports['sql']}/postgres/{name}"
        return f"qdrant://{','.join(node.url.removeprefix('http://') for node in self.server.nodes)}/{name}"
