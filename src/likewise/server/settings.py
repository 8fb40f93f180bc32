"""The studio's settings: where it listens, what it may load, and how much it takes."""

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

LOOPBACK_NAMES = ("localhost",)
EVERYWHERE = ("0.0.0.0", "::")
"""Every address of this machine."""
TOKEN = re.compile(r"[A-Za-z0-9_-]*")
MEGABYTE = 2**20


@dataclass(frozen=True)
class Limits:
    """How much one request may ask for.

    >>> Limits().characters
    4000
    """

    characters: int = 4_000
    """of a text"""
    tokens: int = 256
    """of a text that is explained by token or word while others wait"""
    row_characters: int = 100_000
    """of a text of an uploaded file"""
    upload_bytes: int = 32 * MEGABYTE
    """of an uploaded file"""
    body_bytes: int = MEGABYTE
    """of any other request"""
    rows: int = 50_000
    """of an uploaded file"""
    uploads: int = 100
    """files that are kept"""
    waiting: int = 8
    """jobs that wait for their turn"""
    asking: int = 16
    """questions that wait for an answer, the one that is worked on included"""
    models: int = 3
    """models in memory"""
    rankers: int = 4
    """indexes in memory, each with its model, and as many classic rankers"""


@dataclass(frozen=True)
class StudioSettings:
    """Everything that a studio is told when it starts.

    >>> StudioSettings().is_loopback
    True
    """

    host: str = "127.0.0.1"
    """the address to listen on"""
    port: int = 8000
    """the port"""
    token: str = ""
    """what a visitor must know; made up where the address is not of this machine alone"""
    folder: Path = field(default_factory=lambda: user_cache() / "studio")
    """where uploads and results are kept"""
    models: tuple[str, ...] = ("minilm",)
    """the models that may be loaded"""
    corpora: tuple[str, ...] = ()
    """files and names of data that may be chosen beside the samples and uploads"""
    runs: Path = Path("runs")
    """the folder of training runs"""
    data_dir: Path | None = None
    """where names such as stsb/test are looked up"""
    grammar: str | None = None
    """the spaCy pipeline for views that need one"""
    threads: int | None = None
    """of the models"""
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
        if self.host in LOOPBACK_NAMES:
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def paths(self) -> tuple[Path, ...]:
        """Folders of this machine that no answer tells; of what was named at the start, the folder that it lies in."""
        named = (*self.models, *self.corpora, *([self.grammar] if self.grammar else []))
        data = [self.data_dir] if self.data_dir else []
        return (self.folder, self.runs, *data, *(Path(os.path.expanduser(name)).parent for name in named))

    @property
    def path(self) -> str:
        """Where the studio is, for everybody to know."""
        host = socket.gethostname() if self.host in EVERYWHERE else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    @property
    def address(self) -> str:
        """What a browser opens, the token with it; for who started the studio alone."""
        return self.path + (f"?token={self.token}" if self.token else "")
