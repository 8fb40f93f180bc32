"""Corpora: what may be chosen, which is the samples, what was named at the start, and what visitors brought."""

from __future__ import annotations

from dataclasses import dataclass

from likewise.data import locate
from likewise.errors import DataError
from likewise.server.model_registry import file_stamp, require_different, short_name
from likewise.server.settings import StudioSettings
from likewise.server.shapes import shape_of
from likewise.server.uploads import Upload, Uploads

SAMPLES = ("sample/pairs", "sample/sentences")


@dataclass(frozen=True)
class Corpus:
    """A file of texts or pairs that may be chosen."""

    id: str
    """what requests call it"""
    name: str
    rows: int
    pairs: bool
    scored: bool
    own: bool
    """whether a visitor brought it, and may take it away"""


class Corpora:
    """All of them, by id."""

    def __init__(self, settings: StudioSettings, uploads: Uploads) -> None:
        self._uploads = uploads
        require_different("--corpus", (*SAMPLES, *settings.corpora))
        self._named = {short_name(source): source for source in (*SAMPLES, *settings.corpora)}
        self._data_dir = settings.data_dir
        self._shapes = {name: shape_of(source, settings.data_dir) for name, source in self._named.items()}

    def all(self) -> list[Corpus]:
        """Every corpus, those of the start first."""
        named = [Corpus(name, name, one.rows, one.pairs, one.scored, own=False) for name, one in self._shapes.items()]
        return [*named, *(brought(one) for one in self._uploads.all())]

    def source(self, name: str) -> str:
        """The file or the name of a data set behind a corpus."""
        if name in self._named:
            return self._present(name)
        upload = self._uploads.get(name)
        if upload is None:
            raise DataError(f"no corpus {name[:40]!r}; choose one from the list, or upload it")
        return str(self._uploads.path(upload))

    def _present(self, name: str) -> str:
        """The source of one that was named at the start, unless it has gone since."""
        try:
            locate(self._named[name], self._data_dir)
        except DataError as error:
            raise DataError(f"{name} is no longer where it was; put it back, or choose another") from error
        return self._named[name]

    def name(self, key: str) -> str:
        """What a corpus is called, for who reads it."""
        upload = self._uploads.get(key)
        return key if upload is None else upload.name

    def stamp(self, name: str) -> str:
        """What tells a corpus from another one that was there under the same name before."""
        return f"{name} {file_stamp(locate(self.source(name), self._data_dir))}"


def brought(upload: Upload) -> Corpus:
    """An upload as one of the corpora."""
    return Corpus(upload.id, upload.name, upload.rows, upload.pairs, upload.scored, own=True)
