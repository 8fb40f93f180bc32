"""The manifest of an index folder: which files make up the index, and what they were when they were written."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from likewise.errors import DamagedIndex

FORMAT = 1
MANIFEST, UNFINISHED = "index.json", "building.json"


@dataclass(frozen=True)
class SegmentFacts:
    """A segment's name, its number of rows and its files' checksums."""

    name: str
    rows: int
    files: dict[str, str]


@dataclass(frozen=True)
class EngineFacts:
    """A saved engine: its kind and bits, how wide it searches, its measured recall, its files' checksums."""

    kind: str
    bits: int
    width: int
    recall: float | None
    files: dict[str, str]


@dataclass(frozen=True)
class IndexManifest:
    """Everything that an index consists of."""

    settings: dict[str, Any]
    """what the vectors depend on"""
    dimension: int
    engine_kind: str = "auto"
    """as it was asked for"""
    bits: int = 32
    source: str = ""
    """which texts it was built from, where that is known"""
    segments: tuple[SegmentFacts, ...] = ()
    engine: EngineFacts | None = None
    attachments: dict[str, str] = field(default_factory=dict)
    """other files with their checksums, such as the post-processing"""
    change: str = ""
    """in a draft: the change that it belongs to"""
    number: int = 0
    """how many names of files were given out, so that none is given twice"""
    format: int = FORMAT

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(segment.rows for segment in self.segments)

    @property
    def files(self) -> dict[str, str]:
        """All files with their checksums."""
        found = dict(self.attachments)
        for segment in self.segments:
            found |= segment.files
        return found | ({} if self.engine is None else self.engine.files)

    @property
    def checksum(self) -> str:
        """A fingerprint of the manifest, and by its files' checksums of the whole index."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def write(self, folder: Path, name: str = MANIFEST) -> None:
        """Commit: written beside and renamed, so that the old or the new one is there, never half of one."""
        beside = folder / f"{name}.draft"
        with beside.open("w", encoding="utf-8") as stream:
            json.dump(asdict(self) | {"sha256": self.checksum}, stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        # Before, so that no manifest reaches the disk ahead of its files' names; after, so that the commit does.
        _sync_folder(folder)
        beside.replace(folder / name)
        _sync_folder(folder)

    @classmethod
    def read(cls, folder: Path, name: str = MANIFEST) -> IndexManifest | None:
        """The folder's manifest, or None where there is none."""
        path = folder / name
        try:
            stored = json.loads(path.read_bytes())
            checksum, version = stored.pop("sha256"), stored.get("format")
            if version != FORMAT:
                raise DamagedIndex(
                    f"{path} has format {version!r}, this version of Likewise reads {FORMAT}; build it again"
                )
            segments = tuple(SegmentFacts(**metadata) for metadata in stored.pop("segments"))
            engine = stored.pop("engine")
            found = cls(**stored, segments=segments, engine=None if engine is None else EngineFacts(**engine))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DamagedIndex(f"{path} is damaged and no manifest; build the index again") from error
        if found.checksum != checksum:
            raise DamagedIndex(f"{path} is damaged: its checksum does not fit; build the index again")
        return found


def _sync_folder(folder: Path) -> None:
    """Bring the rename itself to the disk, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
