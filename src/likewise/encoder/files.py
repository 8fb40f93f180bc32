"""Files of texts -> vectors on disk, and post-processing fitted on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likewise.data import GUESSED, Columns, Dataset, SkippedRows, read_texts
from likewise.encoder import Encoder
from likewise.encoder.postprocessing import PostProcessing, check_kind, fit_postprocessing
from likewise.encoder.stream import Manifest, encode_stream
from likewise.errors import DataError
from likewise.progress import Progress, tracked


@dataclass(frozen=True)
class TextSource:
    """Where texts come from: a file or a name, and how it is read."""

    file: str
    columns: Columns = GUESSED
    data_dir: Path | None = None
    skip_bad: bool = False

    def read(self, on_bad: Callable[[DataError], None] | None = None) -> Iterator[tuple[str, str]]:
        """Each text with its id; bad rows raise, or go to ``on_bad`` where they are to be skipped."""
        handler = (on_bad or SkippedRows()) if self.skip_bad else None
        rows = read_texts(self.file, columns=self.columns, data_dir=self.data_dir, on_bad=handler)
        return ((row.id, row.text) for row in rows)


@dataclass(frozen=True)
class EncodedFile:
    """What ``encode_file`` made: the folder's manifest and the bad rows it passed over."""

    folder: Path
    manifest: Manifest
    skipped: SkippedRows

    def to_dict(self) -> dict[str, Any]:
        """The folder, and what it holds."""
        made = self.manifest
        found = {"folder": str(self.folder), "rows": made.rows, "dimension": made.dimension}
        return found | {"truncated": made.truncated, "skipped": self.skipped.count}


def encode_file(
    encoder: Encoder,
    dataset: Dataset,
    folder: Path,
    *,
    prompt: str | None = None,
    progress: Progress | None = None,
) -> EncodedFile:
    """Stream a file of any size into a folder; the same call again goes on where it stopped.

    The file is read through once before, so that a bad row is an error before hours of work and not after.
    """
    skipped = SkippedRows()
    total = sum(1 for _ in tracked(_rows(dataset, skipped), progress, note="rows checked"))
    manifest = encode_stream(encoder, _rows(dataset), folder, prompt=prompt, total=total, progress=progress)
    return EncodedFile(folder, manifest, skipped)


def fit_on_file(
    encoder: Encoder,
    dataset: Dataset,
    kind: str,
    dim: int | None = None,
    progress: Progress | None = None,
    on_bad: Callable[[DataError], None] | None = None,
) -> PostProcessing:
    """Fit a post-processing on a file's texts as this encoder reads them."""
    check_kind(kind)
    texts = [text for _, text in _rows(dataset, on_bad)]
    plain = encoder.with_postprocessing(None)
    return fit_postprocessing(kind, plain.encode(texts, progress=progress), dim)


def _rows(dataset: Dataset, on_bad: Callable[[DataError], None] | None = None) -> Iterator[tuple[str, str]]:
    """Each text with its id."""
    return ((row.id, row.text) for row in dataset.stream(read_texts, on_bad))
