"""Models and corpora that a client can select: models load on demand; corpora are samples, given files and uploads."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from likewise.data import holds_pairs, locate, read_pairs, read_scored_pairs, read_texts
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.server.settings import Limits, StudioSettings

T = TypeVar("T")
WEIGHTS = "model.safetensors"
PAGES = ("index.html", "report.html", "table.html")  # of a run, a measurement or a table of runs
SAMPLES = ("sample/pairs", "sample/sentences")
SUFFIXES = (".csv", ".tsv", ".txt", ".jsonl")
METADATA = "corpus.json"
STORED = ("id", "name", "rows", "pairs", "scored")
LONGEST_NAME = 80


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
        return named | {f"runs/{name}": str(folder) for name, folder in run_folders(self._settings.runs).items()}

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


def run_folders(runs: Path) -> dict[str, Path]:
    """The folders of finished training runs that hold a model, by name."""
    return _holding(runs, "likewise.json", weights=True)


def report_folders(runs: Path) -> dict[str, Path]:
    """The other folders that hold a page of results, by name."""
    return _holding(runs, *PAGES, weights=False)


def _holding(runs: Path, *names: str, weights: bool) -> dict[str, Path]:
    """The folders of the first two levels with a file of one of these names, and with or without weights."""
    found = {path.parent for level in ("*", "*/*") for name in names for path in runs.glob(f"{level}/{name}")}
    chosen = [folder for folder in sorted(found) if (folder / WEIGHTS).exists() == weights]
    return {folder.relative_to(runs).as_posix(): folder for folder in chosen}


@dataclass(frozen=True)
class Corpus:
    """A file of texts or pairs that may be chosen."""

    id: str  # its name in requests
    name: str  # its name for readers; never used as a path
    rows: int
    pairs: bool
    scored: bool
    own: bool  # whether a visitor uploaded it and may remove it


def describe(source: str | Path, data_dir: Path | None = None) -> tuple[int, bool, bool, int]:
    """Rows of a corpus, whether they are pairs, whether these have scores, and the characters of the longest text.

    All rows are read, so that a bad row is found now.

    >>> describe("sample/pairs")
    (60, True, True, 64)
    """
    if not holds_pairs(source, data_dir=data_dir):
        sizes = [len(one.text) for one in read_texts(source, data_dir=data_dir)]
        return len(sizes), False, False, max(sizes, default=0)
    sizes, scored = [max(len(one.left), len(one.right)) for one in read_pairs(source, data_dir=data_dir)], 0
    with suppress(DataError):
        scored = len(list(read_scored_pairs(source, data_dir=data_dir)))
    return len(sizes), True, scored > 0, max(sizes, default=0)


class Uploads:
    """A folder of uploaded files, each under a name made from its content."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder, self._limits = folder, limits
        self._adding = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, name: str, content: bytes) -> Corpus:
        """Check a file and store it; the same content is stored once."""
        suffix = Path(name).suffix.lower()
        if suffix not in SUFFIXES:
            raise UsageError(f"a corpus is a file that ends with {', '.join(SUFFIXES)}; got {display_name(name)!r}")
        if len(content) > self._limits.upload_bytes:
            raise UsageError(f"a corpus has at most {self._limits.upload_bytes:,} bytes; send a smaller one")
        with self._adding:
            return self._store(name, suffix, content)

    def _store(self, name: str, suffix: str, content: bytes) -> Corpus:
        key = hashlib.sha256(suffix.encode() + content).hexdigest()[:20]
        if (known := self.get(key)) is not None:
            return known
        if len(self.all()) >= self._limits.uploads:
            raise UsageError(f"{self._limits.uploads} uploaded files are kept already; take one away first")
        draft = self._folder / f".{key}.draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            file = draft / f"corpus{suffix}"
            file.write_bytes(content)
            corpus = self._described(key, name, file)
            (draft / METADATA).write_text(json.dumps(asdict(corpus) | {"file": file.name}), encoding="utf-8")
            draft.rename(self._folder / key)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return corpus

    def _described(self, key: str, name: str, file: Path) -> Corpus:
        try:
            rows, pairs, scored, longest = describe(file)
        except DataError as error:
            raise DataError(str(error).replace(str(file), display_name(name))) from None
        limits = self._limits
        if rows > limits.rows:
            raise UsageError(f"a corpus has at most {limits.rows:,} rows, and this one {rows:,}; send fewer")
        if longest > limits.row_characters:
            most = f"a text of a corpus has at most {limits.row_characters:,} characters"
            raise UsageError(f"{most}, and the longest here {longest:,}; cut it up")
        return Corpus(key, display_name(name), rows, pairs, scored, own=True)

    def all(self) -> list[Corpus]:
        """Every file, by name."""
        found = [self.get(path.parent.name) for path in self._folder.glob(f"*/{METADATA}")]
        return sorted((one for one in found if one is not None), key=lambda one: one.name)

    def get(self, key: str) -> Corpus | None:
        """A file by its id."""
        document = self._metadata(key)
        return None if document is None else Corpus(own=True, **{name: document[name] for name in STORED})

    def path(self, key: str) -> Path | None:
        """The stored file of an id."""
        document = self._metadata(key)
        return None if document is None else self._folder / key / document["file"]

    def _metadata(self, key: str) -> dict[str, Any] | None:
        if not key.isalnum():
            return None
        try:
            document: dict[str, Any] = json.loads((self._folder / key / METADATA).read_text(encoding="utf-8"))
            return document if {"file", *STORED} <= document.keys() else None
        except (OSError, ValueError, AttributeError):
            return None

    def remove(self, key: str) -> bool:
        """Delete a file."""
        if self.get(key) is None:
            return False
        shutil.rmtree(self._folder / key, ignore_errors=True)
        return True


def display_name(name: str) -> str:
    """A file's name for readers: no folders, one line, of limited length.

    >>> display_name("../../etc/passwd.csv")
    'passwd.csv'
    """
    plain = "".join(character for character in name.replace("\\", "/").split("/")[-1] if character.isprintable())
    return plain[:LONGEST_NAME] or "corpus"


class Corpora:
    """All corpora by id."""

    def __init__(self, settings: StudioSettings, uploads: Uploads) -> None:
        self._uploads, self._data_dir = uploads, settings.data_dir
        require_unique_names("--corpus", (*SAMPLES, *settings.corpora))
        self._sources = {short_name(source): source for source in (*SAMPLES, *settings.corpora)}
        self._named = [
            Corpus(name, name, *describe(source, settings.data_dir)[:3], own=False)
            for name, source in self._sources.items()
        ]

    def all(self) -> list[Corpus]:
        """Every corpus, uploads last."""
        return [*self._named, *self._uploads.all()]

    def source(self, key: str) -> str:
        """The file or the data set of a corpus."""
        if key not in self._sources:
            path = self._uploads.path(key)
            if path is None:
                raise DataError(f"no corpus {key[:40]!r}; choose one from the list, or upload it")
            return str(path)
        try:
            locate(self._sources[key], self._data_dir)
        except DataError as error:
            raise DataError(f"{key} is no longer where it was; put it back, or choose another") from error
        return self._sources[key]

    def name(self, key: str) -> str:
        """A corpus's name for readers."""
        upload = self._uploads.get(key)
        return key if upload is None else upload.name

    def fingerprint(self, key: str) -> str:
        """Changes when another file comes under the same name."""
        return f"{key} {file_fingerprint(locate(self.source(key), self._data_dir))}"
