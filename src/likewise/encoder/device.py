"""The device and the number of threads that a model runs on."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

import torch

from likewise.errors import UsageError

DEVICES = ("auto", "cpu", "cuda", "mps")

Parts = TypeVar("Parts")


def choose_device(name: str = "auto") -> torch.device:
    """The device of a name, if the machine has it; ``auto`` prefers cuda, then mps, then cpu.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    kind = name.split(":")[0]
    if name == "auto":
        return torch.device(next(kind for kind, exists in present.items() if exists))
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


def copied_to(device: torch.device, parts: Parts, tensors: Iterable[torch.Tensor]) -> Parts:
    """Deep copies of objects, with their ``tensors`` on a device; shared tensors stay shared.

    >>> tensor = torch.ones(2)
    >>> [copied] = copied_to(torch.device("meta"), [tensor], [tensor])
    >>> copied.device, tensor.device
    (device(type='meta'), device(type='cpu'))
    """
    memo: dict[int, torch.Tensor] = {}
    for tensor in tensors:
        there = tensor.detach().to(device)
        is_weight = isinstance(tensor, torch.nn.Parameter)
        memo[id(tensor)] = torch.nn.Parameter(there, tensor.requires_grad) if is_weight else there
    return copy.deepcopy(parts, memo)


def set_threads(count: int | None) -> int:
    """Set the number of torch's threads if a count is given; return the present number.

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
    """Run without oneDNN, which caches a kernel per shape of batch, up to a thousand: memory would grow for hours.

    It costs a few percent of speed, so it is meant for streams of unknown length.
    """
    _steady.enter()
    try:
        yield
    finally:
        _steady.leave()


class _Steady:
    """Keeps oneDNN off while at least one user is inside; the last one to leave restores it."""

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
