"""The studio's settings: address, token, available models and files, and limits."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path

from likewise.errors import UsageError
from likewise.storage import user_cache

EVERYWHERE = ("0.0.0.0", "::")  # every address of this machine
TOKEN = re.compile(r"[A-Za-z0-9_-]*")
MEGABYTE = 2**20


@dataclass(frozen=True)
class Limits:
    """Limits of one request, and of what stays in memory."""

    characters: int = 4_000  # of a text
    tokens: int = 256  # of a text that is explained by token or word while others wait
    row_characters: int = 100_000  # of a text of an uploaded file
    upload_bytes: int = 32 * MEGABYTE  # of an uploaded file
    body_bytes: int = MEGABYTE  # of any other request
    rows: int = 50_000  # of an uploaded file
    uploads: int = 100  # uploaded files
    waiting: int = 8  # jobs in the queue
    asking: int = 16  # questions that wait for an answer, including the one that is worked on
    models: int = 3  # models in memory
    rankers: int = 4  # indexes in memory, each with its model, and as many classic rankers


@dataclass(frozen=True)
class StudioSettings:
    """Everything that a studio needs to start."""

    host: str = "127.0.0.1"  # the address to listen on
    port: int = 8000
    token: str = ""  # what visitors must send; generated where other machines can reach the address
    folder: Path = field(default_factory=lambda: user_cache() / "studio")  # the folder of uploads and results
    models: tuple[str, ...] = ("minilm",)  # the models that may be loaded
    corpora: tuple[str, ...] = ()  # files and data sets that may be chosen, in addition to the samples and uploads
    runs: Path = Path("runs")  # the folder of training runs
    data_dir: Path | None = None  # the folder of data sets such as stsb/test
    grammar: str | None = None  # the spaCy pipeline for views that need one
    threads: int | None = None  # of the models
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            raise UsageError(f"--port takes a number from 0 to 65535, got {self.port}")
        if not TOKEN.fullmatch(self.token):
            raise UsageError("--token takes letters, digits, - and _")
        if not self.models:
            raise UsageError("give at least one --model")
        if not self.is_loopback and not self.token:
            object.__setattr__(self, "token", secrets.token_urlsafe(18))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the studio."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        """The studio's address without the token."""
        host = socket.gethostname() if self.host in EVERYWHERE else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    @property
    def address(self) -> str:
        """What a browser opens, with the token; only the owner of the studio sees it."""
        return self.url + (f"?token={self.token}" if self.token else "")

    def redact(self, text: str) -> str:
        """Hide local paths: the studio's folders, and the folders of models, corpora and the grammar.

        A bare name such as ``runs`` stays, since it may be an ordinary word.

        >>> StudioSettings(runs=Path("/home/me/runs")).redact("/home/me/runs/one holds files; these runs stay")
        '…/one holds files; these runs stay'
        """
        named = (*self.models, *self.corpora, *([self.grammar] if self.grammar else []))
        paths = [self.folder, self.runs, *([self.data_dir] if self.data_dir else [])]
        paths += [Path(os.path.expanduser(name)).parent for name in named]
        spelled = {path for path in paths for path in (path, path.absolute(), path.resolve()) if len(path.parts) > 1}
        for path in sorted(map(str, spelled), key=len, reverse=True):
            text = text.replace(path, "…")
        return text
