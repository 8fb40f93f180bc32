"""The shelf: models in memory, the ones used last; only those that the studio may load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.server.cache import Kept
from likewise.server.settings import StudioSettings

MODEL = "model.safetensors"
PAGES = ("index.html", "report.html", "table.html")
"""Of a run or a measurement, and of a table of runs."""


class NotAllowed(UsageError):
    """A model that this studio does not offer."""


@dataclass(frozen=True)
class Offer:
    """A model that may be chosen."""

    name: str
    """what requests call it"""
    path: str
    """a name or a folder that ``Encoder.load`` takes"""


def require_different(option: str, paths: Sequence[str]) -> None:
    """Refuse two files or folders that would go by the same name."""
    names = [short_name(path) for path in paths]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"two {option} are called {min(twice)}; rename one, or give it alone")


class ModelRegistry:
    """Loaded models by name."""

    def __init__(self, settings: StudioSettings) -> None:
        self._settings = settings
        require_different("--model", settings.models)
        self._loaded: Kept[Encoder] = Kept(settings.limits.models)

    def offers(self) -> list[Offer]:
        """The models that were named at the start, then the training runs that hold one."""
        named = {short_name(model): model for model in self._settings.models}
        runs = {run_name(folder, self._settings.runs): str(folder) for folder in run_folders(self._settings.runs)}
        return [Offer(name, path) for name, path in {**named, **runs}.items()]

    def stamp(self, name: str) -> str:
        """What tells a model's weights from those that were there under the same name before."""
        weights = Path(self.require(name)) / MODEL
        return file_stamp(weights) if weights.exists() else name

    def require(self, name: str) -> str:
        """Where a model lies; one that is not offered is refused."""
        offers = {offer.name: offer.path for offer in self.offers()}
        if name not in offers:
            raise NotAllowed(f"this studio does not offer the model {name[:80]!r}; choose from {', '.join(offers)}")
        return offers[name]

    def encoder(self, name: str) -> Encoder:
        """A model, loaded where it is not yet."""
        return self._loaded.get((name, self.stamp(name)), lambda: self.fresh(name))

    def fresh(self, name: str) -> Encoder:
        """A model that nobody else uses, under the name it is offered by: a folder's path is nobody's business."""
        return replace(Encoder.load(self.require(name), threads=self._settings.threads), name=name)


def short_name(path: str) -> str:
    """A file's or folder's own name, so that no path of this machine is shown; any other name as it is."""
    return Path(path).name if Path(path).exists() else path


def run_name(folder: Path, runs: Path) -> str:
    """What a run's model is called."""
    return f"runs/{folder.relative_to(runs).as_posix()}"


def file_stamp(path: Path) -> str:
    """A file's size and the time of its last change."""
    known = path.stat()
    return f"{known.st_size} {known.st_mtime_ns}"


def run_folders(runs: Path) -> list[Path]:
    """The folders of finished training runs that hold a model."""
    return [folder for folder in _holding(runs, "likewise.json") if (folder / MODEL).exists()]


def report_folders(runs: Path) -> list[Path]:
    """The other folders that hold a report."""
    return [folder for folder in _holding(runs, *PAGES) if not (folder / MODEL).exists()]


def _holding(runs: Path, *names: str) -> list[Path]:
    """The folders of the first two levels that hold a file of one of these names."""
    if not runs.is_dir():
        return []
    return sorted({path.parent for level in ("*", "*/*") for name in names for path in runs.glob(f"{level}/{name}")})
