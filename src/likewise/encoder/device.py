"""Where and with how many threads a model runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch

from likewise.errors import UsageError

DEVICES = ("auto", "cpu", "cuda", "mps")


def choose_device(name: str = "auto") -> torch.device:
    """Turn a device name into a device that is really there; ``auto`` prefers cuda, then mps, then cpu.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    kind = name.split(":")[0]
    if name == "auto":
        return torch.device(next(kind for kind, there in present.items() if there))
    if kind not in present:
        raise UsageError(f"unknown device {name!r}; choose from {', '.join(DEVICES)}")
    if not present[kind]:
        raise UsageError(f"no {kind} device here; use --device cpu")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise UsageError(
            f"unknown device {name!r}; choose from {', '.join(DEVICES)}, or one by number as cuda:1"
        ) from error


def set_threads(count: int | None) -> int:
    """Set torch's threads where a count is given; return how many there are now.

    >>> set_threads(None) >= 1
    True
    """
    if count is not None:
        if count < 1:
            raise UsageError(f"threads must be at least 1, got {count}")
        torch.set_num_threads(count)
    return torch.get_num_threads()


@contextlib.contextmanager
def steady_memory() -> Iterator[None]:
    """Run without oneDNN, which keeps a kernel per shape of batch, up to a thousand: memory would creep up for hours.

    It costs a few percent of speed, so only work without an end is done in here.
    """
    _steady.enter()
    try:
        yield
    finally:
        _steady.leave()


class _Steady:
    """oneDNN off while anybody wants it off: works may overlap, and the last one to end puts it back."""

    def __init__(self) -> None:
        self._lock, self._inside, self._before = threading.Lock(), 0, True

    def enter(self) -> None:
        backend = torch.backends.mkldnn
        with self._lock:
            if self._inside == 0:
                self._before = bool(backend.enabled)
                backend.enabled = False  # type: ignore[assignment]
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                torch.backends.mkldnn.enabled = self._before  # type: ignore[assignment]


_steady = _Steady()
