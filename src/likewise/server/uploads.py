"""Uploads: files of texts or pairs that visitors bring, checked, and kept under names of the studio's own."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from likewise.errors import DataError, UsageError
from likewise.server.settings import Limits
from likewise.server.shapes import shape_of

ENDINGS = (".csv", ".tsv", ".txt", ".jsonl")
FACTS = "corpus.json"
SHOWN_NAME = 80


@dataclass(frozen=True)
class Upload:
    """A file that is kept."""

    id: str
    name: str
    """what its owner calls it; shown, and never used as a path"""
    rows: int
    pairs: bool
    scored: bool
    file: str
    """its name in its own folder"""


class Uploads:
    """A folder of uploaded files."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder, self._limits = folder, limits
        self._adding = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, name: str, content: bytes) -> Upload:
        """Check a file and keep it; the same content is kept once."""
        ending = Path(name).suffix.lower()
        if ending not in ENDINGS:
            raise UsageError(f"a corpus is a file that ends with {', '.join(ENDINGS)}; got {shown(name)!r}")
        if len(content) > self._limits.upload_bytes:
            raise UsageError(f"a corpus has at most {self._limits.upload_bytes:,} bytes; send a smaller one")
        with self._adding:
            return self._kept(name, ending, content)

    def _kept(self, name: str, ending: str, content: bytes) -> Upload:
        key = hashlib.sha256(ending.encode() + content).hexdigest()[:20]
        known = self.get(key)
        if known is not None:
            return known
        if len(self.all()) >= self._limits.uploads:
            raise UsageError(f"{self._limits.uploads} uploaded files are kept already; take one away first")
        draft = self._folder / f".{key}.draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            file = draft / f"corpus{ending}"
            file.write_bytes(content)
            found = self._described(key, name, file)
            (draft / FACTS).write_text(json.dumps(asdict(found)), encoding="utf-8")
            draft.rename(self._folder / key)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return found

    def _described(self, key: str, name: str, file: Path) -> Upload:
        try:
            shape = shape_of(file)
        except DataError as error:
            # Its place on this machine is nobody's business.
            raise DataError(str(error).replace(str(file), shown(name))) from None
        if shape.rows > self._limits.rows:
            raise UsageError(
                f"a corpus has at most {self._limits.rows:,} rows, and this one {shape.rows:,}; send fewer"
            )
        most = self._limits.row_characters
        if shape.longest > most:
            raise UsageError(
                f"a text of a corpus has at most {most:,} characters, and the longest here {shape.longest:,}; cut it up"
            )
        return Upload(key, shown(name), shape.rows, shape.pairs, shape.scored, file.name)

    def all(self) -> list[Upload]:
        """Every file, by name."""
        found = [self.get(path.parent.name) for path in self._folder.glob(f"*/{FACTS}")]
        return sorted((one for one in found if one is not None), key=lambda one: one.name)

    def get(self, key: str) -> Upload | None:
        """A file by its id."""
        if not key.isalnum():
            return None
        try:
            return Upload(**json.loads((self._folder / key / FACTS).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def path(self, upload: Upload) -> Path:
        """Where a file lies."""
        return self._folder / upload.id / upload.file

    def remove(self, key: str) -> bool:
        """Take a file away."""
        if self.get(key) is None:
            return False
        shutil.rmtree(self._folder / key, ignore_errors=True)
        return True


def shown(name: str) -> str:
    """A file's name as it is shown: no folders, one line, not too long.

    >>> shown("../../etc/passwd.csv")
    'passwd.csv'
    """
    plain = "".join(letter for letter in name.replace("\\", "/").split("/")[-1] if letter.isprintable())
    return plain[:SHOWN_NAME] or "corpus"
