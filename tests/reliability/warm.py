"""The command line in a process of its own that starts warm: imports are done, so a kill or a limit hits the work."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

# A fork of the test run itself would hang wherever an earlier test has started a library's threads.
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(
    ["faiss", "pandas", "matplotlib.pyplot", "likewise.cli.app", "likewise.search", "likewise.train", "pytest"]
)
SECONDS_TO_END = 240.0
SMALL_WINDOW = 64  # texts or pairs, so that a short run has many commits
PERMISSION_CHECKS = 1 << 1 | 1 << 2  # The capabilities by which root passes them: DAC_OVERRIDE, DAC_READ_SEARCH


@dataclass(frozen=True)
class Setting:
    """What a command runs under."""

    cache: Path
    largest_file: int | None = None  # bytes
    ordinary: bool = False  # without root's way past permissions
    environment: Mapping[str, str | None] = field(default_factory=dict)  # None removes a variable


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, None if it was killed, its output, and how long it ran."""

    code: int | None
    out: str
    err: str
    seconds: float

    @property
    def error(self) -> str:
        """The last line of stderr, if it is an error in one line."""
        *_, last = self.err.strip().splitlines()
        assert self.code == 2 and last.startswith("likewise: ") and "Traceback" not in self.err, (self.code, self.err)
        return last


def run(command: Sequence[object], setting: Setting, wait: float = SECONDS_TO_END) -> Ended:
    """Run ``likewise`` with arguments, and kill it after ``wait`` seconds."""
    began, child = time.monotonic(), start(command, setting)
    child.join(wait)
    was_running = child.is_alive()
    child.kill()
    return ended(child, setting, time.monotonic() - began, was_running)


def start(command: Sequence[object], setting: Setting) -> BaseProcess:
    """Start ``likewise`` with arguments; its output goes to files next to the cache."""
    setting.cache.parent.mkdir(parents=True, exist_ok=True)
    child = CHILDREN.Process(target=_work, args=(list(map(str, command)), setting), daemon=True)
    child.start()
    return child


def ended(child: BaseProcess, setting: Setting, seconds: float = 0.0, was_killed: bool = False) -> Ended:
    """Wait for a command to end."""
    child.join(SECONDS_TO_END)
    out, err = (path.read_text() if path.exists() else "" for path in _logs(setting, child.pid))
    return Ended(None if was_killed else child.exitcode, out, err, seconds)


def index_rows(folder: Path) -> dict[str, bytes]:
    """The rows of an index, however many files they are in."""
    from likewise.search.stores.folder import FolderStore

    with FolderStore.open(folder, verify=True) as store:
        windows = list(store.windows())
    ids = [name for rows in windows for name in rows.ids]
    return {"ids": "\n".join(ids).encode(), "vectors": b"".join(rows.vectors.tobytes() for rows in windows)}


def _logs(setting: Setting, pid: int | None) -> list[Path]:
    return [setting.cache.with_name(f"{setting.cache.name}-{pid}.{kind}") for kind in ("out", "err")]


def _work(command: list[str], setting: Setting) -> None:
    from likewise.cli.app import main
    from likewise.encoder import forward
    from likewise.explain import pairs

    torch.set_num_threads(1)
    forward.WINDOW_TEXTS = pairs.WINDOW_PAIRS = SMALL_WINDOW
    for name, value in {"LIKEWISE_CACHE": str(setting.cache), **setting.environment}.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    sys.argv = ["likewise", *command]
    out, err = _logs(setting, os.getpid())
    # Never closed here: a traceback is written after this function has ended.
    sys.stdout, sys.stderr = out.open("w", buffering=1), err.open("w", buffering=1)
    if setting.largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (setting.largest_file, setting.largest_file))
    if setting.ordinary and os.getuid() == 0:
        _check_permissions()
    main()


def _check_permissions() -> None:
    """Give up root's way past permissions: of its own files it may do what their modes say, as any user."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this process
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice
    if libc.capget(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    for each in range(3):
        sets[each] &= ~PERMISSION_CHECKS & 0xFFFFFFFF
    if libc.capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")
