"""Public data sets: what they are, under which licence, whether the files here hold the same rows, and downloads.

A file is checked by a hash of its rows and not of its bytes: packing and the order of columns do not count.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from likewise.data.rows import SkippedRows, locate, rows
from likewise.errors import DataError, UsageError, first_line
from likewise.progress import Progress, Ticker
from likewise.results import Result, Table
from likewise.storage import atomic_write, user_cache

SECONDS = 60.0  # a server that is silent for so long is given up
LARGEST = 2**30  # bytes of a download
BLOCK = 2**20
Row = dict[str, str]


@dataclass(frozen=True)
class Download:
    """Where a data set can be downloaded, and how its files are written there."""

    format: str  # a name of READERS
    url: str  # of an archive, or with {file} of each file
    members: Mapping[str, str]  # our file -> the member of the archive, or what {file} stands for


@dataclass(frozen=True)
class PublicFile:
    """One file: the number of its rows and a hash of them."""

    rows: int
    sha256: str


@dataclass(frozen=True)
class PublicData:
    """A public data set."""

    name: str
    title: str
    licence: str
    page: str  # where people read about it
    columns: Sequence[str]  # that count in the hash
    files: Mapping[str, PublicFile]
    download: Download | None = None
    how: str = ""  # how to get it if there is no download

    @property
    def way(self) -> str:
        """How to get it: a command, or an address and what to do there."""
        return f"{self.how}: {self.page}" if self.download is None else f"likewise data {self.name} --download"


@cache
def public_data() -> dict[str, PublicData]:
    """All public data sets by name."""
    stored = json.loads((resources.files("likewise.data") / "public.json").read_text(encoding="utf-8"))
    return {name: _data(name, one) for name, one in stored.items()}


def _data(name: str, stored: dict[str, Any]) -> PublicData:
    stored["files"] = {file: PublicFile(*entry) for file, entry in stored["files"].items()}
    stored["download"] = Download(**stored["download"]) if "download" in stored else None
    return PublicData(name, **stored)


def data_named(name: str) -> PublicData:
    """A data set by its name, or by the name of one of its files."""
    found = public_data().get(name.partition("/")[0])
    if found is None:
        raise UsageError(f"unknown data set {name!r}; choose from {', '.join(public_data())}")
    return found


def downloadable(name: str) -> tuple[PublicData, Download]:
    """A data set that can be downloaded, and from where."""
    data = data_named(name)
    if data.download is None:
        raise UsageError(f"{data.name} cannot be downloaded by this command; {data.way}")
    return data, data.download


def rows_hash(path: Path, columns: Sequence[str]) -> PublicFile:
    """The number of rows of a file and a hash of their columns."""
    digest, count = hashlib.sha256(), 0
    for row in rows(path, path.name, SkippedRows()):
        values = [_canonical(row.values.get(column, "")) for column in columns]
        digest.update(json.dumps(values, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
        count += 1
    return PublicFile(count, digest.hexdigest())


def _canonical(value: Any) -> str:
    """A number in one form; 2.500 and 2.5 are the same score."""
    with suppress(TypeError, ValueError):
        return f"{float(value):g}"
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True)
class FileState:
    """A file of a data set here: where it is, and whether its rows are the published ones."""

    name: str
    state: str  # missing, same rows, other rows, or not checked
    path: str = ""


@dataclass(frozen=True, repr=False)
class DataReport(Result):
    """Public data sets, their licences, and their files here."""

    data: tuple[PublicData, ...]
    states: Mapping[str, Sequence[FileState]]

    def to_dict(self) -> dict[str, Any]:
        """Every data set with its files."""
        return {
            "data": [
                {
                    "name": one.name, "title": one.title, "licence": one.licence, "page": one.page,
                    "download": one.download is not None,
                    "files": [vars(state) for state in self.states[one.name]],
                }
                for one in self.data
            ]
        }  # fmt: skip

    def tables(self) -> dict[str, Table]:
        """A row for each data set: its files here, its licence, how to get it."""
        rows = []
        for one in self.data:
            counts: dict[str, int] = {}
            for state in self.states[one.name]:
                counts[state.state] = counts.get(state.state, 0) + 1
            files = ", ".join(f"{count} {state}" for state, count in counts.items())
            rows.append((one.name, one.title, files, one.licence, one.way))
        return {"data": Table.of(["name", "title", "files", "licence", "how to get it"], rows)}


def report(names: Sequence[str] = (), data_dir: Path | None = None, check: bool = False) -> DataReport:
    """The state of data sets here; ``check`` compares their rows with the published ones."""
    chosen = tuple(map(data_named, names)) if names else tuple(public_data().values())
    return DataReport(chosen, {one.name: [_state(one, file, data_dir, check) for file in one.files] for one in chosen})


def _state(data: PublicData, file: str, data_dir: Path | None, check: bool) -> FileState:
    name = f"{data.name}/{file}"
    try:
        path = locate(name, data_dir)
    except DataError:
        return FileState(name, "missing")
    if not check:
        return FileState(name, "not checked", str(path))
    same = rows_hash(path, data.columns) == data.files[file]
    return FileState(name, "same rows" if same else "other rows", str(path))


def download(
    name: str, data_dir: Path | None = None, progress: Progress | None = None, opener: Callable[..., Any] = urlopen
) -> list[Path]:
    """Download a data set, convert its files, check their rows, and write them to the data folder."""
    data, source = downloadable(name)
    folder = (data_dir or user_cache() / "data") / data.name
    written = []
    for file, content in _members(source, progress, opener):
        path = folder / f"{file}.csv.gz"
        _write(path, list(READERS[source.format](content, file)))
        if (found := rows_hash(path, data.columns)) != data.files[file]:
            path.unlink()
            flaw = f"{found.rows} rows, or other ones than the {data.files[file].rows} of published results"
            raise DataError(f"{source.url} now gives {flaw}; see {data.page}")
        written.append(path)
    return written


def _members(source: Download, progress: Progress | None, opener: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """The text of each file."""
    if "{file}" in source.url:
        for file, member in source.members.items():
            yield file, _fetch(source.url.format(file=member), progress, opener).decode("utf-8")
        return
    archive = _fetch(source.url, progress, opener)
    try:
        for file, member in source.members.items():
            yield file, _member(archive, member).decode("utf-8")
    except (KeyError, OSError, tarfile.TarError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise DataError(f"{source.url} is not the archive that it was ({first_line(error)}); try later") from error


def _member(archive: bytes, name: str) -> bytes:
    if archive[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            return packed.read(name)
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed_tar:
        stream = packed_tar.extractfile(name)
        if stream is None:
            raise KeyError(name)
        return stream.read()


def _fetch(url: str, progress: Progress | None, opener: Callable[..., Any]) -> bytes:
    content, ticker = bytearray(), Ticker(progress, None, "bytes")
    try:
        with opener(url, timeout=SECONDS) as stream:
            while block := stream.read(BLOCK):
                content += block
                ticker.add(len(block))
                if len(content) > LARGEST:
                    raise DataError(f"{url} sends more than {LARGEST} bytes, so it was stopped; check the address")
    except (URLError, OSError, ValueError) as error:
        raise DataError(f"{url} did not answer ({first_line(error)}); check the network, or see the page") from error
    ticker.close()
    return bytes(content)


def _write(path: Path, found: Sequence[Row]) -> None:
    def write(draft: Path) -> None:
        with gzip.open(draft, "wt", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(found[0]))
            writer.writeheader()
            writer.writerows(found)

    if not found:
        raise DataError(f"no rows for {path.name}; the source has changed")
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, write)


def _stsb(text: str, _file: str) -> Iterator[Row]:
    """Lines of genre, file, year, number, score and two sentences; later fields name licences."""
    for line in text.splitlines():
        genre, file, year, sid, score, left, right = line.split("\t")[:7]
        yield {
            "sentence1": left, "sentence2": right, "score": f"{float(score):g}",
            "genre": genre, "file": file, "year": year, "sid": sid,
        }  # fmt: skip


def _plain_pairs(text: str, _file: str) -> Iterator[Row]:
    """Comma-separated sentences and scores without a header."""
    for left, right, score in csv.reader(io.StringIO(text)):
        yield {"sentence1": left, "sentence2": right, "score": score}


def _sick(text: str, _file: str) -> Iterator[Row]:
    """Tab-separated, with SemEval's header."""
    for row in _tabbed(text):
        yield {
            "sentence1": row["sentence_A"], "sentence2": row["sentence_B"], "score": row["relatedness_score"],
            "label": row["entailment_judgment"].lower(), "pair_id": row["pair_ID"],
        }  # fmt: skip


def _snli(text: str, _file: str) -> Iterator[Row]:
    """Tab-separated; pairs on which no label has a majority are left out."""
    for row in _tabbed(text):
        if row["gold_label"] != "-":
            yield {"sentence1": row["sentence1"], "sentence2": row["sentence2"], "label": row["gold_label"]}


def _tabbed(text: str) -> Iterable[dict[str, str]]:
    return csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)


READERS: dict[str, Callable[[str, str], Iterator[Row]]] = {
    "stsb": _stsb,
    "plain-pairs": _plain_pairs,
    "sick": _sick,
    "snli": _snli,
}
