"""The models that the studio offers: loaded on demand, the least recently used ones leave memory first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.server.settings import StudioSettings

T = TypeVar("T")

WEIGHTS = "model.safetensors"
PAGES = ("index.html", "report.html", "table.html")
"""Pages of a run, a measurement or a table of runs."""


class NotAllowed(UsageError):
    """A model that this studio does not offer."""


class Cache(Generic[T]):
    """A bounded least-recently-used cache for threads.

    >>> words: Cache[str] = Cache(size=2)
    >>> [words.get(word, lambda word=word: word.upper()) for word in ("a", "b", "a", "c")]
    ['A', 'B', 'A', 'C']
    >>> words.get("b", lambda: "made again")
    'made again'
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key, made once where it is missing; other threads wait for it."""
        with self._lock:
            if key not in self._values:
                self._values[key] = make()
                while len(self._values) > self._size:
                    self._values.popitem(last=False)
            self._values.move_to_end(key)
            return self._values[key]


class ModelRegistry:
    """Loaded models by name."""

    def __init__(self, settings: StudioSettings) -> None:
        self._settings = settings
        require_unique_names("--model", settings.models)
        self._loaded: Cache[Encoder] = Cache(settings.limits.models)

    def models(self) -> dict[str, str]:
        """The path of each model by its name: those of the settings, then the training runs that hold one."""
        named = {short_name(model): model for model in self._settings.models}
        return named | {self.run_name(folder): str(folder) for folder in run_folders(self._settings.runs)}

    def fingerprint(self, name: str) -> str:
        """Changes when other weights come under the same name."""
        weights = Path(self.require(name)) / WEIGHTS
        return file_fingerprint(weights) if weights.exists() else name

    def require(self, name: str) -> str:
        """The path of a model; refuses one that is not offered."""
        models = self.models()
        if name not in models:
            raise NotAllowed(f"this studio does not offer the model {name[:80]!r}; choose from {', '.join(models)}")
        return models[name]

    def encoder(self, name: str) -> Encoder:
        """A model, loaded once."""
        return self._loaded.get((name, self.fingerprint(name)), lambda: self.fresh(name))

    def fresh(self, name: str) -> Encoder:
        """A model that nobody else uses, under its offered name, which shows no local path."""
        return replace(Encoder.load(self.require(name), threads=self._settings.threads), name=name)

    def run_name(self, folder: Path) -> str:
        """The name of a run's model."""
        return f"runs/{folder.relative_to(self._settings.runs).as_posix()}"


def require_unique_names(option: str, paths: Sequence[str]) -> None:
    """Refuse two files or folders of the same name."""
    names = [short_name(path) for path in paths]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"two {option} are called {min(twice)}; rename one, or give it alone")


def short_name(path: str) -> str:
    """The name of a file or folder without its path; any other name as it is."""
    return Path(path).name if Path(path).exists() else path


def file_fingerprint(path: Path) -> str:
    """A file's size and the time of its last change."""
    known = path.stat()
    return f"{known.st_size} {known.st_mtime_ns}"


def run_folders(runs: Path) -> list[Path]:
    """The folders of finished training runs that hold a model."""
    return [folder for folder in _holding(runs, "likewise.json") if (folder / WEIGHTS).exists()]


def report_folders(runs: Path) -> list[Path]:
    """The other folders that hold a page of results."""
    return [folder for folder in _holding(runs, *PAGES) if not (folder / WEIGHTS).exists()]


def _holding(runs: Path, *names: str) -> list[Path]:
    """The folders of the first two levels that hold a file of one of these names."""
    if not runs.is_dir():
        return []
    return sorted({path.parent for level in ("*", "*/*") for name in names for path in runs.glob(f"{level}/{name}")})
