"""The index: texts, their vectors by one model, and a search among them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from likewise.encoder import Encoder
from likewise.encoder.device import steady_memory
from likewise.encoder.encoder import identity, report_truncation
from likewise.encoder.pooling_head import PoolingConfig
from likewise.encoder.postprocessing import PostProcessing
from likewise.encoder.similarity import MEASURES, similarity_blocks, unit
from likewise.encoder.stream import text_windows
from likewise.errors import DataError, ModelError, UsageError
from likewise.progress import Progress, Ticker
from likewise.search.corpus import Corpus
from likewise.search.engines import check_engine
from likewise.search.folder import FolderStore, building
from likewise.search.hits import Hits
from likewise.search.manifest import IndexManifest
from likewise.search.milvus import MilvusStore, is_milvus
from likewise.search.pointers import place_of
from likewise.search.ranker import Blocks
from likewise.search.stacked import Vectors
from likewise.search.store import Store, StoredRows, Writer, closed_on_error, corpus_of

IdAndText = tuple[str, str]
READING_FIELDS = tuple(PoolingConfig.__dataclass_fields__)
POSTPROCESSING = "postprocessing"


@dataclass(frozen=True)
class IndexSettings:
    """How an index is made, beside the model.

    >>> IndexSettings(engine="hnsw", bits=8).similarity
    'cosine'
    """

    engine: str = "auto"
    """exact, hnsw, ivf, or auto, which goes by the number of vectors"""
    bits: int = 32
    """of a number in the engine; 8 takes a quarter of the memory"""
    similarity: str = "cosine"
    """cosine or dot"""
    query_prompt: str | None = None
    """put before each query; None is the model's own"""
    document_prompt: str | None = None
    """put before each text; None is the model's own"""

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
        # A folder is found again from anywhere, a short name on any machine.
        name = str(Path(encoder.name).resolve()) if Path(encoder.name).is_dir() else encoder.name
        own = {"model": name, "similarity": self.similarity, "query_prompt": query, "document_prompt": document}
        return identity(encoder) | own | {"dimension": encoder.dimension}


USUAL = IndexSettings()


class Index:
    """Texts, their vectors by one model, and a search among them.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> texts = [("1", "The volcano spat ash."), ("2", "The bank cut rates.")]
    >>> index = Index.build(encoder, texts, Path("news"))
    >>> index.search("eruption", k=1)[0].id
    '1'
    >>> index.add([("3", "An eruption closed the airport.")])
    >>> [hit.id for hit in Index.open("news", encoder).search("eruption", k=2)]
    ['1', '3']
    """

    floor = -np.inf
    """a cosine of 0 does not mean that there is nothing in common"""

    def __init__(self, encoder: Encoder, store: Store) -> None:
        self.encoder, self.store = encoder, store

    @classmethod
    def build(
        cls,
        encoder: Encoder,
        items: Iterable[IdAndText],
        where: str | Path,
        settings: IndexSettings = USUAL,
        *,
        source: str = "",
        replace: bool = False,
        total: int | None = None,
        progress: Progress | None = None,
    ) -> Index:
        """Encode (id, text) items into a folder or a Milvus address.

        ``source`` names the texts: a build that was cut short goes on where the same name is given. An index that is
        there already is refused, or with ``replace`` stays in place until the new one is whole; in Milvus it is
        dropped first.
        """
        stored = settings.stored(encoder)
        if is_milvus(str(where)):
            store = _milvus(str(where), stored | {"texts": source[:16]}, encoder.dimension, replace)
            with closed_on_error(store), store.writer() as writer:
                _write(encoder, items, writer, stored, Ticker(progress, total, "texts"))
                writer.commit()
            return cls(encoder, store)
        folder = Path(where)
        empty = IndexManifest(stored, encoder.dimension, settings.engine, settings.bits, source)
        with building(folder, empty, replace) as draft:
            if encoder.postprocessing is not None:
                draft.attach(POSTPROCESSING, ".safetensors", encoder.postprocessing.to_bytes())
            _write(encoder, items, draft, stored, Ticker(progress, total, "texts"))
            draft.commit(progress)
        return cls(encoder, FolderStore.open(folder, verify=False))

    @classmethod
    def open(
        cls,
        where: str | Path,
        encoder: Encoder | None = None,
        *,
        load: Callable[..., Encoder] = Encoder.load,
        verify: bool = True,
        **changes: Any,
    ) -> Index:
        """Open an index; without an encoder, the one that made it is loaded with ``load``.

        ``changes`` are what is to be loaded instead: another place of the model (``model``), its post-processing
        (``post``) or its reading. What then does not give the same vectors is refused.
        """
        store = open_store(where, verify)
        with closed_on_error(store):
            if encoder is None:
                encoder = _own_encoder(store, load, changes)
            _check_same(encoder, store)
        return cls(encoder, store)

    def close(self) -> None:
        """Let go of the store; Milvus Lite lets no other process in before."""
        self.store.close()

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What it is

    def __len__(self) -> int:
        return len(self.store)

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.encoder.name}, {self.store.searched.engine}"

    @property
    def similarity(self) -> str:
        """How vectors are compared."""
        return str(self.store.settings["similarity"])

    @property
    def prompts(self) -> tuple[str, str]:
        """What is put before a query, and before a text."""
        return str(self.store.settings["query_prompt"]), str(self.store.settings["document_prompt"])

    def metadata(self) -> dict[str, Any]:
        """What it is, as plain JSON."""
        return metadata_of(self.store)

    def summary(self) -> str:
        """One line for the user: how it searches and, where that is approximate, how much it finds."""
        searched = self.store.searched
        line = f"{len(self):,} text{'' if len(self) == 1 else 's'}, engine {searched.engine}"
        if searched.note:
            line += f" ({searched.note})"
        if searched.recall is not None:
            line += f"; finds {searched.recall:.1%} of what an exact search does, by a sample"
        return line

    def corpus(self) -> Corpus:
        """All texts with their ids."""
        return corpus_of(self.store)

    # Searching

    def search(self, query: str, k: int = 10) -> Hits:
        """The k best texts for a query."""
        return self.search_many([query], k)[0]

    def search_many(self, queries: Sequence[str], k: int = 10, progress: Progress | None = None) -> list[Hits]:
        """The k best texts for each of several queries."""
        check_search(queries, k)
        vectors = self.query_vectors(queries, progress)
        try:
            found = self.store.nearest(vectors, k)
        except FileNotFoundError:
            # A writer committed, and cleared the old engine away, before it was first needed here.
            self.store = self.store.reopened()
            found = self.store.nearest(vectors, k)
        return [Hits(query, tuple(hits), self.name) for query, hits in zip(queries, found, strict=True)]

    def query_vectors(self, queries: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Queries as this index compares them, (q, d)."""
        vectors = self.encoder.encode(queries, prompt=self.prompts[0], progress=progress)
        return unit(vectors) if self.similarity == "cosine" else vectors

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        """The exact scores of all texts for each query, in blocks, whatever the engine."""
        empty = np.empty((0, self.encoder.dimension), np.float32)
        everything = np.concatenate([empty, *(rows.vectors for rows in self.store.windows())])
        yield from similarity_blocks(self.query_vectors(queries), everything, "dot")

    # Changing

    def add(self, items: Iterable[IdAndText], *, source: str = "", progress: Progress | None = None) -> None:
        """Encode and add (id, text) items, all of them or none; those that are there already are passed over."""
        with self.store.writer(f"add {source}" if source else "") as writer:
            if writer.at_once:
                # A row that would be refused must be found before the first is stored.
                items = list(items)
                writer.missing([name for name, _ in items], [text for _, text in items])
            _write(self.encoder, items, writer, self.store.settings, Ticker(progress, None, "texts"))
            writer.commit()
        self.store = self.store.reopened()

    def delete(self, ids: Sequence[str]) -> None:
        """Take texts out; an id that is not there is refused, and then nothing is taken out."""
        delete_from(self.store, ids)
        self.store = self.store.reopened()


def delete_from(store: Store, ids: Sequence[str]) -> None:
    """Take texts out of a store, for which no model is needed."""
    with store.writer() as writer:
        writer.delete([ids] if isinstance(ids, str) else ids)
        writer.commit()


def metadata_of(store: Store) -> dict[str, Any]:
    """What an index is, as plain JSON."""
    searched, settings = store.searched, store.settings
    names = (
        "dimension", "model", "model_sha256", "pooling", "layer", "postprocessing", "similarity", "query_prompt",
        "document_prompt",
    )  # fmt: skip
    metadata = {"index": store.address, "texts": len(store), "engine": searched.engine, "recall": searched.recall}
    return metadata | {"note": searched.note} | {name: settings[name] for name in names}


def _strings(items: Iterable[IdAndText]) -> Iterator[IdAndText]:
    for name, text in items:
        if not isinstance(name, str) or not isinstance(text, str):
            raise DataError(
                f"an id and a text are strings, got {name!r} and {type(text).__name__}; make them so with str()"
            )
        yield name, text


def open_store(where: str | Path, verify: bool = True) -> Store:
    """What keeps an index, by its address: a folder, a folder that points to Milvus, or Milvus itself."""
    address = place_of(where)
    return MilvusStore.open(address) if is_milvus(address) else FolderStore.open(Path(address), verify)


def _milvus(address: str, stored: dict[str, Any], dimension: int, replace: bool) -> MilvusStore:
    if replace:
        with suppress(DataError):  # there is nothing to replace
            MilvusStore.drop(address)
    return MilvusStore.create(address, stored, dimension)


def check_search(queries: Sequence[str], k: int) -> None:
    """Refuse a search that cannot find anything."""
    if k < 1:
        raise UsageError(f"a search brings 1 hit or more, got k = {k}")
    if any(not query.strip() for query in queries):
        raise UsageError("an empty query finds nothing; give at least one word")


def _write(
    encoder: Encoder, items: Iterable[IdAndText], writer: Writer, stored: Mapping[str, Any], ticker: Ticker
) -> None:
    """Encode what the writer does not have yet, window by window."""
    truncated = total = 0
    with steady_memory():
        for window in text_windows(_strings(items)):
            wanted = [window[index] for index in writer.missing(*map(list, zip(*window, strict=True)))]
            ticker.add(len(window) - len(wanted))
            texts = [text for _, text in wanted]
            encoded = encoder.encode_with_stats(texts, prompt=stored["document_prompt"], progress=ticker.part())
            vectors = unit(encoded.vectors) if stored["similarity"] == "cosine" else encoded.vectors
            if not np.isfinite(vectors).all():
                raise ModelError(f"{encoder.name} gave vectors that are no numbers; load it with dtype float32")
            writer.append(StoredRows([name for name, _ in wanted], texts, vectors))
            truncated, total = truncated + encoded.truncated, total + len(texts)
    ticker.close()
    report_truncation(truncated, total, encoder.tokenizer.limit)


def _own_encoder(store: Store, load: Callable[..., Encoder], changes: Mapping[str, Any]) -> Encoder:
    """The encoder that made the index, with the changes that are asked for."""
    wanted = {**store.settings, **changes}
    pooling_config = {name: wanted[name] for name in READING_FIELDS}
    if isinstance(pooling_config["layer"], list):
        pooling_config["layer"] = tuple(pooling_config["layer"])  # JSON knows no tuples
    encoder = load(wanted["model"], **pooling_config)
    if wanted.get("post") is not None:
        return encoder.with_postprocessing(PostProcessing.load(wanted["post"]))
    if wanted["postprocessing"] is None:
        return encoder
    found = [data for name, data in store.attachments.items() if name.startswith(POSTPROCESSING)]
    if not found:
        raise UsageError(f"{store.address} was made with a post-processing; give its file with --post")
    return encoder.with_postprocessing(PostProcessing.from_bytes(found[0], store.address))


def _check_same(encoder: Encoder, store: Store) -> None:
    """Refuse an encoder that would compare other vectors than those in the index."""
    own, settings = identity(encoder), store.settings
    for key, value in own.items():
        made = settings.get(key)
        if key == "model" or made == value:
            continue
        if key == "model_sha256":
            names = f"{settings['model']} ({str(made)[:12]}), not by {encoder.name} ({str(value)[:12]})"
            raise ModelError(f"{store.address} was made by {names}; use that model or build the index again")
        raise ModelError(
            f"{store.address} was made with {key} {json.dumps(made)}, not {json.dumps(value)};"
            " use the same settings or build the index again"
        )
