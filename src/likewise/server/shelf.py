"""The shelf: models in memory, the ones used last; only those that the studio may load."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path

from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.server.settings import StudioSettings


class NotAllowed(UsageError):
    """A model that this studio does not offer."""


@dataclass(frozen=True)
class Offer:
    """A model that may be chosen."""

    name: str
    """what requests call it"""
    place: str
    """a name or a folder that ``Encoder.load`` takes"""


class Shelf:
    """Loaded models by name."""

    def __init__(self, settings: StudioSettings) -> None:
        self._settings = settings
        self._loaded: OrderedDict[str, Encoder] = OrderedDict()
        self._lock = threading.Lock()

    def offers(self) -> list[Offer]:
        """The models that were named at the start, then the training runs that hold one."""
        named = {_short(model): model for model in self._settings.models}
        runs = {f"runs/{folder.name}": str(folder) for folder in run_folders(self._settings.runs)}
        return [Offer(name, place) for name, place in {**named, **runs}.items()]

    def require(self, name: str) -> str:
        """Where a model lies; one that is not offered is refused."""
        offers = {offer.name: offer.place for offer in self.offers()}
        if name not in offers:
            raise NotAllowed(f"this studio does not offer the model {name[:80]!r}; choose from {', '.join(offers)}")
        return offers[name]

    def encoder(self, name: str) -> Encoder:
        """A model, loaded where it is not yet."""
        self.require(name)
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = self.fresh(name)
                while len(self._loaded) > self._settings.limits.models:
                    self._loaded.popitem(last=False)
            self._loaded.move_to_end(name)
            return self._loaded[name]

    def fresh(self, name: str) -> Encoder:
        """A model that nobody else uses, under the name it is offered by: a folder's path is nobody's business."""
        return replace(Encoder.load(self.require(name), threads=self._settings.threads), name=name)


def _short(model: str) -> str:
    """A folder's own name, so that no path of this machine is shown."""
    return Path(model).name if Path(model).exists() else model


MODEL, PAGE = "model.safetensors", "report.html"


def run_folders(runs: Path) -> list[Path]:
    """The folders of finished training runs that hold a model."""
    return [folder for folder in _holding(runs, "likewise.json") if (folder / MODEL).exists()]


def report_folders(runs: Path) -> list[Path]:
    """The other folders that hold a report."""
    return [folder for folder in _holding(runs, PAGE) if not (folder / MODEL).exists()]


def _holding(runs: Path, name: str) -> list[Path]:
    """The folders of the first two levels that hold a file of this name."""
    if not runs.is_dir():
        return []
    return sorted(path.parent for pattern in ("*", "*/*") for path in runs.glob(f"{pattern}/{name}"))
