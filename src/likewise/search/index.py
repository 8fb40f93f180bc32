"""The ``Index`` class: searches texts by their embeddings from one model."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from likewise.data import Dataset, SkippedRows, Text, locate, read_texts
from likewise.encoder import Encoder, as_encoder
from likewise.encoder.encoder import Source
from likewise.encoder.forward import steady_memory, text_windows
from likewise.encoder.pooling import PoolingConfig
from likewise.encoder.postprocessing import PostProcessing
from likewise.encoder.similarity import MEASURES, unit
from likewise.encoder.tokens import report_truncation
from likewise.encoder.weights import identity
from likewise.errors import DamagedIndex, DataError, ModelError, UsageError
from likewise.progress import Progress, Ticker, tracked
from likewise.results import Column, Result, Table
from likewise.search.engines import Vectors, check_engine
from likewise.search.folder import (
    FORMAT,
    MANIFEST,
    FolderStore,
    FolderWriter,
    IndexManifest,
    address_of,
    building,
    is_milvus,
)
from likewise.search.hits import Hits, check_search, explained_search
from likewise.search.milvus import MilvusStore, MilvusWriter
from likewise.search.ranker import Blocks, Corpus, block_rows
from likewise.search.segments import MemoryStore, MemoryWriter, StoredRows, closed_on_error, hash_of
from likewise.storage import file_hash, user_cache

Item = str | tuple[str, str] | Text  # A plain text, whose id is its number from 1 on, or a text with an id
POSTPROCESSING = "postprocessing"
MOST_CACHED_BYTES = 2**33  # The size of all cached indexes of files, without the one in use
AnyStore = FolderStore | MemoryStore | MilvusStore  # Vectors of one model with texts and ids, by inner product
Built = TypeVar("Built")
Writer = FolderWriter | MemoryWriter | MilvusWriter
"""One change of a store; nothing that it appends is lost once ``commit`` has returned."""


@dataclass(frozen=True)
class IndexSettings:
    """How an index is made, apart from the model.

    >>> IndexSettings(engine="hnsw", bits=8).similarity
    'cosine'
    """

    engine: str = "auto"  # exact, hnsw, ivf, or auto, which depends on the number of vectors
    bits: int = 32  # per vector component; 8 takes a quarter of the memory
    similarity: str = "cosine"  # cosine or dot
    query_prompt: str | None = None  # put before each query; None is the model's own
    document_prompt: str | None = None  # put before each text; None is the model's own

    def __post_init__(self) -> None:
        check_engine(self.engine, self.bits)
        if self.similarity not in MEASURES:
            raise UsageError(f"unknown similarity {self.similarity!r}; choose from {', '.join(MEASURES)}")

    def stored(self, encoder: Encoder) -> dict[str, Any]:
        """Everything that the vectors and their scores depend on, as plain JSON."""
        query, document = (
            encoder.modules_config.prompt_for(role) if given is None else given
            for role, given in (("query", self.query_prompt), ("document", self.document_prompt))
        )
        # An absolute folder is found from anywhere, a short name on any machine.
        name = str(Path(encoder.name).resolve()) if Path(encoder.name).is_dir() else encoder.name
        own = {"model": name, "similarity": self.similarity, "query_prompt": query, "document_prompt": document}
        return identity(encoder) | own | {"dimension": encoder.dimension}


USUAL = IndexSettings()


class Index:
    """A searchable index: texts and their vectors by one model.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> texts = [("1", "The volcano spat ash."), ("2", "The bank cut rates.")]
    >>> index = Index.build(encoder, texts, Path("news"))
    >>> index.search("eruption", k=1)[0].id
    '1'
    >>> index.add([("3", "An eruption closed the airport.")])
    >>> [hit.id for hit in Index.open("news", encoder).search("eruption", k=2)]
    ['1', '3']
    >>> index
    <Index news: 3 texts, minilm, exact>
    """

    floor = -np.inf  # a cosine of 0 does not mean that there is nothing in common

    def __init__(self, encoder: Encoder, store: AnyStore) -> None:
        self.encoder, self.store = encoder, store

    @classmethod
    def from_texts(
        cls, encoder: Encoder | Source, texts: Iterable[Item], settings: IndexSettings = USUAL, *,
        progress: Progress | None = None,
    ) -> Index:  # fmt: skip
        """An index in memory, without a folder: the same engine and the same scores.

        >>> texts = ["The volcano spat ash.", "The bank cut rates."]
        >>> index = Index.from_texts("minilm", texts)
        >>> index.search("eruption", k=1).to_dataframe()[["id", "text"]].values.tolist()
        [['1', 'The volcano spat ash.']]
        """
        encoder = as_encoder(encoder)
        index = cls(encoder, MemoryStore(settings.stored(encoder), (settings.engine, settings.bits)))
        index.add(texts, progress=progress)
        return index

    @classmethod
    def build(
        cls, encoder: Encoder | Source, items: Iterable[Item], where: str | Path, settings: IndexSettings = USUAL, *,
        source: str = "", replace: bool = False, total: int | None = None, progress: Progress | None = None,
    ) -> Index:  # fmt: skip
        """Encode texts, plain or as (id, text), into a folder or a Milvus address.

        ``source`` names the texts: with the same name, a build that was cut short continues. An index that is there
        already raises UsageError, or with ``replace`` stays until the new one is whole; in Milvus it is dropped first.
        """
        encoder = as_encoder(encoder)
        stored = settings.stored(encoder)
        rows, ticker = _rows(items), Ticker(progress, total, "texts")
        if is_milvus(str(where)):
            if replace:
                with suppress(DataError):  # there is nothing to replace
                    MilvusStore.drop(str(where))
            store = MilvusStore.create(str(where), stored | {"texts": source[:16]}, encoder.dimension)
            with closed_on_error(store), store.writer() as writer:
                _write(encoder, rows, writer, stored, ticker)
                writer.commit()
            return cls(encoder, store)
        empty = IndexManifest(stored, encoder.dimension, settings.engine, settings.bits, source)
        with building(Path(where), empty, replace) as draft:
            if encoder.postprocessing is not None:
                draft.attach(POSTPROCESSING, ".safetensors", encoder.postprocessing.to_bytes())
            _write(encoder, rows, draft, stored, ticker)
            draft.commit(progress)
        return cls(encoder, FolderStore.open(Path(where), verify=False))

    @classmethod
    def open(
        cls, where: str | Path, encoder: Encoder | Source | None = None, *, load: Callable[..., Encoder] = Encoder.load,
        verify: bool = True, **changes: Any,
    ) -> Index:  # fmt: skip
        """Open an index; without an encoder, ``load`` loads the one that made it.

        ``changes`` replace what is loaded: another path of the model (``model``), its post-processing (``post``) or
        its pooling. A model that does not give the same vectors raises ModelError.
        """
        store = open_store(where, verify)
        with closed_on_error(store):
            used = _own_encoder(store, load, changes) if encoder is None else as_encoder(encoder)
            _check_same(used, store)
        return cls(used, store)

    def close(self) -> None:
        """Release the store; until then Milvus Lite lets no other process in."""
        self.store.close()

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.store)

    def __repr__(self) -> str:
        return f"<Index {self.store.address}: {self._size}, {self.name}>"

    @property
    def name(self) -> str:
        """The name in tables."""
        return f"{self.encoder.name}, {self.store.searched.engine}"

    @property
    def similarity(self) -> str:
        """How vectors are compared."""
        return str(self.store.settings["similarity"])

    @property
    def prompts(self) -> tuple[str, str]:
        """The prompts of a query and of a text."""
        return str(self.store.settings["query_prompt"]), str(self.store.settings["document_prompt"])

    @property
    def info(self) -> IndexInfo:
        """The size, the engine, the model and the settings."""
        return IndexInfo.of(self.store)

    @property
    def engine(self) -> dict[str, Any]:
        """The name and the recall of the engine."""
        return {"engine": self.store.searched.engine, "recall": self.store.searched.recall}

    @property
    def _size(self) -> str:
        return f"{len(self):,} text{'' if len(self) == 1 else 's'}"

    def summary(self) -> str:
        """One line for the user: how it searches and, if that is approximate, how much it finds."""
        searched, recall = self.store.searched, self.store.searched.recall
        note = f" ({searched.note})" if searched.note else ""
        found = "" if recall is None else f"; finds {recall:.1%} of what an exact search does, by a sample"
        return f"{self._size}, engine {searched.engine}{note}{found}"

    def corpus(self) -> Corpus:
        """All texts with their ids."""
        return self.store.corpus()

    def search(self, query: str, k: int = 10, *, explain: bool = False, **options: Any) -> Hits:
        """The k best texts for a query; ``explain`` says why, with the options of ``explained_search``.

        >>> texts = ["The volcano spat ash.", "The bank cut rates."]
        >>> index = Index.from_texts(Encoder.load("minilm", device="cpu"), texts)
        >>> found = index.search("volcano erupted", k=5, explain=True)
        >>> found
        <Hits 'volcano erupted': 2 hits, minilm, exact>
        >>> list(found.to_dataframe())
        ['query', 'rank', 'id', 'score', 'margin', 'text']
        """
        if explain:
            return explained_search(self, query, k, **options)
        if options:
            raise UsageError(f"{next(iter(options))} has no effect without explain=True; leave it out")
        return self.search_many([query], k)[0]

    def search_many(self, queries: Sequence[str], k: int = 10, progress: Progress | None = None) -> list[Hits]:
        """The k best texts for each of several queries."""
        check_search(queries, k)
        vectors = self.query_vectors(queries, progress)
        try:
            found = self.store.nearest(vectors, k)
        except FileNotFoundError:
            # A writer committed and removed the old engine before its first use here.
            self.store = self.store.reopened()
            found = self.store.nearest(vectors, k)
        return [Hits(query, tuple(hits), self.name) for query, hits in zip(queries, found, strict=True)]

    def query_vectors(self, queries: Sequence[str], progress: Progress | None = None) -> Vectors:
        """The vectors (q, d) of queries, as this index compares them."""
        vectors = self.encoder.encode(queries, prompt=self.prompts[0], progress=progress)
        return unit(vectors) if self.similarity == "cosine" else vectors

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        """The exact scores of all texts for each query, in blocks, with any engine."""
        vectors, step = self.query_vectors(queries), block_rows(len(self))
        # Views of files, if the index is in a folder: the vectors may be larger than the memory.
        parts = [rows.vectors for rows in self.store.windows()]
        for start in range(0, len(vectors), step):
            some = vectors[start : start + step]
            yield start, np.concatenate([np.empty((len(some), 0), np.float32), *(some @ part.T for part in parts)], 1)

    def add(self, items: Iterable[Item], *, source: str = "", progress: Progress | None = None) -> None:
        """Encode and add texts, plain or as (id, text), all of them or none; texts that are there are skipped.

        The ids of plain texts continue the count of texts.
        """
        with self.store.writer(f"add {source}" if source else "") as writer:
            rows = _rows(items, len(self) + 1)
            if writer.at_once:
                # A row that would be rejected must be found before the first is stored.
                rows = iter(known := list(rows))
                writer.missing([name for name, _ in known], [text for _, text in known])
            _write(self.encoder, rows, writer, self.store.settings, Ticker(progress, None, "texts"))
            writer.commit()
        self.store = self.store.reopened()

    def delete(self, ids: Sequence[str]) -> None:
        """Delete texts; an unknown id raises DataError, and then nothing is deleted."""
        self.store.delete(ids)
        self.store = self.store.reopened()


@dataclass(frozen=True, repr=False)
class IndexInfo(Result):
    """The size, the engine, the model and the settings of an index."""

    values: Mapping[str, Any]

    @classmethod
    def of(cls, store: AnyStore) -> IndexInfo:
        """What a store says, without loading its model."""
        searched, settings = store.searched, store.settings
        names = (
            "dimension", "model", "model_sha256", "pooling", "layer", "postprocessing", "similarity", "query_prompt",
            "document_prompt",
        )  # fmt: skip
        found = {"index": store.address, "texts": len(store), "engine": searched.engine, "recall": searched.recall}
        return cls(found | {"note": searched.note} | {name: settings[name] for name in names})

    def to_dict(self) -> dict[str, Any]:
        """All values by name."""
        return dict(self.values)

    def tables(self) -> dict[str, Table]:
        """A row for each value."""
        address = str(self.values["index"])
        rows = [(name, str(value)) for name, value in self.values.items() if name != "index"]
        return {"index": Table.of(["index", Column(address, address)], rows)}


def _rows(items: Iterable[Any], first: int = 1) -> Iterator[tuple[str, str]]:
    """Ids and texts; a plain text has its number as its id, ``first`` for the first item."""
    for number, item in enumerate(items, start=first):
        row = (str(number), item) if isinstance(item, str) else (item.id, item.text) if isinstance(item, Text) else item
        if not isinstance(row, tuple) or len(row) != 2:
            kind = f"{type(item).__name__} {str(item)[:60]!r}"
            raise DataError(f"an item is a text or a tuple (id, text), got {kind}; convert it")
        if not all(isinstance(value, str) for value in row):
            kind = f"{row[0]!r} and {type(row[1]).__name__}"
            raise DataError(f"an id and a text are strings, got {kind}; convert them with str()")
        yield row


def open_store(where: str | Path, verify: bool = True) -> AnyStore:
    """The store of an address: a folder, a folder that points to Milvus, or Milvus itself."""
    address = address_of(where)
    return MilvusStore.open(address) if is_milvus(address) else FolderStore.open(Path(address), verify)


def _write(
    encoder: Encoder, rows: Iterator[tuple[str, str]], writer: Writer, stored: Mapping[str, Any], ticker: Ticker
) -> None:
    """Encode what the writer does not have yet, window by window."""
    truncated = total = 0
    with steady_memory():
        for window in text_windows(rows):
            wanted = [window[index] for index in writer.missing(*map(list, zip(*window, strict=True)))]
            ticker.add(len(window) - len(wanted))
            texts = [text for _, text in wanted]
            encoded = encoder.encode_with_stats(texts, prompt=stored["document_prompt"], progress=ticker.part())
            vectors = unit(encoded.vectors) if stored["similarity"] == "cosine" else encoded.vectors
            if not np.isfinite(vectors).all():
                raise ModelError(f"{encoder.name} gave vectors that are not numbers; load it with dtype float32")
            writer.append(StoredRows([name for name, _ in wanted], texts, vectors))
            truncated, total = truncated + encoded.truncated, total + len(texts)
    ticker.close()
    report_truncation(truncated, total, encoder.tokenizer.limit)


def _own_encoder(store: AnyStore, load: Callable[..., Encoder], changes: Mapping[str, Any]) -> Encoder:
    """The encoder that made the index, with the given changes."""
    wanted = {**store.settings, **changes}
    pooling_config = {name: wanted[name] for name in PoolingConfig.__dataclass_fields__}
    if isinstance(pooling_config["layer"], list):
        pooling_config["layer"] = tuple(pooling_config["layer"])  # JSON has no tuples
    encoder = load(wanted["model"], **pooling_config)
    if wanted.get("post") is not None:
        return encoder.with_postprocessing(PostProcessing.load(wanted["post"]))
    if wanted["postprocessing"] is None:
        return encoder
    found = [data for name, data in store.attachments.items() if name.startswith(POSTPROCESSING)]
    if not found:
        raise UsageError(f"{store.address} was made with a post-processing; give its file with --post")
    return encoder.with_postprocessing(PostProcessing.from_bytes(found[0], store.address))


def _check_same(encoder: Encoder, store: AnyStore) -> None:
    """Rejects an encoder whose vectors differ from those in the index."""
    settings = store.settings
    for key, value in different_settings(settings, encoder).items():
        made = settings.get(key)
        flaw = f"with {key} {json.dumps(made)}, not {json.dumps(value)}; use the same settings"
        if key == "model_sha256":
            names = f"{settings['model']} ({str(made)[:12]}), not by {encoder.name} ({str(value)[:12]})"
            flaw = f"by {names}; use that model"
        raise ModelError(f"{store.address} was made {flaw} or build the index again")


def different_settings(made: Mapping[str, Any], encoder: Encoder) -> dict[str, Any]:
    """What vectors depend on and an index was made otherwise; empty if the encoder gives the same vectors."""
    found = identity(encoder).items()
    return {key: value for key, value in found if key != "model" and made.get(key) != value}


@dataclass(frozen=True)
class IndexedFile:
    """A file's index, its skipped bad rows, and whether the index was there already."""

    index: Index
    skipped: SkippedRows
    cached: bool = False


def index_file(
    encoder: Encoder | Source, source: Dataset, where: str | Path, settings: IndexSettings, *, replace: bool = False,
    progress: Progress | None = None,
) -> IndexedFile:  # fmt: skip
    """Build the index of a file; the same call again continues where it stopped, or finds it done.

    The file is read through once before, so that a bad row is an error before hours of work and not after.
    """
    encoder, name = as_encoder(encoder), fingerprint(source)
    present = None if is_milvus(str(where)) or replace else IndexManifest.read(Path(where))
    if present is not None:
        made = present.source, present.settings, present.engine_kind, present.bits
        if made == (name, settings.stored(encoder), settings.engine, settings.bits):
            skipped = checked(source, progress)[0] if source.skip_bad else SkippedRows()
            return IndexedFile(Index.open(where, encoder), skipped, cached=True)
        raise UsageError(
            f"{where} already holds an index of other texts or settings; use --add, --replace or another --out"
        )
    skipped, total = checked(source, progress)
    how: dict[str, Any] = {"source": name, "replace": replace, "total": total, "progress": progress}
    return IndexedFile(Index.build(encoder, source.stream(read_texts), where, settings, **how), skipped)


def add_file(index: Index, source: Dataset, prefix: str = "", progress: Progress | None = None) -> SkippedRows:
    """Add a file's texts to an index, all of them or none; the same call again continues where it stopped."""
    skipped, _ = checked(source, progress)
    items = ((prefix + row.id, row.text) for row in source.stream(read_texts))
    index.add(items, source=f"{prefix} {fingerprint(source)}", progress=progress)
    return skipped


def cached_index(
    encoder: Encoder | Source, source: Dataset, settings: IndexSettings, progress: Progress | None = None
) -> IndexedFile:
    """The index of a file, built at the first search; its key is the file's content and all settings."""
    encoder, name = as_encoder(encoder), fingerprint(source)

    def build(folder: Path, replace: bool) -> IndexedFile:
        return index_file(encoder, source, folder, settings, replace=replace, progress=progress)

    return cached(name, encoder, settings, build)


def cached(name: str, encoder: Encoder, settings: IndexSettings, build: Callable[[Path, bool], Built]) -> Built:
    """What ``build`` makes in the cache's folder for the texts that ``name`` identifies and all settings.

    Its second argument is whether a damaged index must be replaced.
    """
    made_of = json.dumps([FORMAT, name, settings.stored(encoder), asdict(settings)], sort_keys=True)
    folder = user_cache() / "indexes" / hashlib.sha256(made_of.encode()).hexdigest()[:32]
    try:
        done = build(folder, False)
    except DamagedIndex:
        # The user does not know of this index and cannot build it again.
        done = build(folder, True)
    with suppress(OSError):  # another process may be pruning too
        (folder / MANIFEST).touch()
        _prune(folder)
    return done


def _prune(latest: Path) -> None:
    """Remove the least recently used indexes beyond the limit; the latest stays."""
    others = []
    for folder in latest.parent.iterdir():
        files = [path.stat() for path in folder.iterdir()]
        if folder != latest and files:
            others.append((max(file.st_mtime for file in files), sum(file.st_size for file in files), folder))
    excess = sum(size for _, size, _ in others) - MOST_CACHED_BYTES
    for _, size, folder in sorted(others):
        if excess > 0:
            shutil.rmtree(folder, ignore_errors=True)
            excess -= size


def checked(source: Dataset, progress: Progress | None = None) -> tuple[SkippedRows, int]:
    """Read a file through: the bad rows that are skipped, and the number of good ones."""
    skipped, total = SkippedRows(), 0
    text_of: dict[int, int] = {}
    for row in tracked(source.stream(read_texts, skipped), progress, note="rows checked"):
        total += 1
        if text_of.setdefault(hash_of(row.id), hash_of(row.text)) != hash_of(row.text):
            raise DataError(f"{source.name}: the id {row.id!r} names two texts; give each text an id of its own")
    return skipped, total


def fingerprint(source: Dataset) -> str:
    """A hash of a file's bytes and of how they are read."""
    path = locate(source.name, source.data_dir)
    # With the suffixes: the same bytes are other texts in a .csv than in a .txt.
    how = [file_hash(path), path.suffixes, asdict(source.columns), source.skip_bad]
    if source.limit is not None:
        how.append(source.limit)
    return hashlib.sha256(json.dumps(how).encode()).hexdigest()
