"""The ``Index`` class: searches texts by their embeddings from one model."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from likewise.encoder import Encoder, as_encoder
from likewise.encoder.encoder import Source
from likewise.encoder.forward import steady_memory, text_windows
from likewise.encoder.pooling import PoolingConfig
from likewise.encoder.postprocessing import PostProcessing
from likewise.encoder.similarity import MEASURES, unit
from likewise.encoder.tokens import report_truncation
from likewise.encoder.weights import identity
from likewise.encoder.workers import Team, team_of
from likewise.errors import ModelError, UsageError
from likewise.progress import Progress, Ticker
from likewise.results import Column, Result, Table
from likewise.search.calibration_store import ANY, Calibrated, Least
from likewise.search.documents import (
    Document,
    Item,
    Selection,
    documents,
    hash_of,
    index_rows,
    keeps_origins,
    nearest_documents,
)
from likewise.search.engines import Vectors, check_engine, inner_products
from likewise.search.filters import Filter, described
from likewise.search.hits import Hit, Hits, check_search
from likewise.search.ledger import HitLedgers
from likewise.search.passages import PassageCutter, PassageSettings
from likewise.search.ranker import Blocks, Corpus, Scores, block_rows
from likewise.search.searcher import Searcher, encoder_ledgers
from likewise.search.stores import Store, StoredRows, Writer, open_store, server_store
from likewise.search.stores.folder import FolderStore, IndexManifest, building, has_scheme
from likewise.search.stores.segments import MemoryStore
from likewise.search.stores.store import KnownRows, closed_on_error

log = logging.getLogger("likewise")
POSTPROCESSING = "postprocessing"
PASSAGE_WINDOW = 1_000_000  # Characters that are encoded before they are stored; a killed build loses no more


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
    passages: PassageSettings | None = None  # cut documents into passages, and keep their metadata; None: as they are
    metadata: bool = False  # keep the metadata of texts that are not cut

    def __post_init__(self) -> None:
        check_engine(self.engine, self.bits)
        if self.similarity not in MEASURES:
            raise UsageError(f"unknown similarity {self.similarity!r}; choose from {', '.join(MEASURES)}")

    def with_passages(self, passages: PassageSettings | None) -> IndexSettings:
        """The same with other passages, if they are given."""
        return self if passages is None else replace(self, passages=passages)

    def stored(self, encoder: Encoder) -> dict[str, Any]:
        """Everything that the vectors and their scores depend on, as plain JSON."""
        query, document = (
            encoder.modules_config.prompt_for(role) if given is None else given
            for role, given in (("query", self.query_prompt), ("document", self.document_prompt))
        )
        # An absolute folder is found from anywhere, a short name on any machine.
        name = str(Path(encoder.name).resolve()) if Path(encoder.name).is_dir() else encoder.name
        own: dict[str, Any] = {
            "model": name,
            "similarity": self.similarity,
            "query_prompt": query,
            "document_prompt": document,
        }
        if self.passages is not None:
            own["passages"] = asdict(self.passages.within(encoder.tokenizer))
        elif self.metadata:
            own["metadata"] = True
        return identity(encoder) | own | {"dimension": encoder.dimension}


USUAL = IndexSettings()


class Index(Calibrated, Searcher):
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
    >>> found = index.search("volcano erupted", k=5, explain=True)
    >>> list(found.to_dataframe())
    ['query', 'rank', 'id', 'score', 'margin', 'text']
    """

    selecting = ("where", "aggregate", "least")
    floor = -np.inf  # a cosine of 0 does not mean that there is nothing in common

    def __init__(self, encoder: Encoder, store: Store) -> None:
        self.encoder, self.store = encoder, store

    @classmethod
    def from_texts(
        cls, encoder: Encoder | Source, texts: Iterable[Item], settings: IndexSettings = USUAL, *,
        passages: PassageSettings | None = None, progress: Progress | None = None,
    ) -> Index:  # fmt: skip
        """An index in memory, without a folder: the same engine and the same scores.

        ``passages`` cuts texts of any length into passages; then a hit is the best passage of its document.

        >>> texts = ["The volcano spat ash.", "The bank cut rates."]
        >>> index = Index.from_texts("minilm", texts)
        >>> index.search("eruption", k=1).to_dataframe()[["id", "text"]].values.tolist()
        [['1', 'The volcano spat ash.']]
        """
        encoder, settings = as_encoder(encoder), settings.with_passages(passages)
        index = cls(encoder, MemoryStore(settings.stored(encoder), (settings.engine, settings.bits)))
        index.add(texts, progress=progress)
        return index

    @classmethod
    def build(
        cls, encoder: Encoder | Source, items: Iterable[Item], where: str | Path, settings: IndexSettings = USUAL, *,
        passages: PassageSettings | None = None, source: str = "", replace: bool = False, total: int | None = None,
        progress: Progress | None = None, workers: int | Team | None = None,
    ) -> Index:  # fmt: skip
        """Encode texts, plain or as (id, text) or (id, text, metadata), into a folder or a store's address.

        ``source`` names the texts: with the same name, a build that was cut short continues. An index that is there
        already raises UsageError, or with ``replace`` stays until the new one is whole. Several ``workers``,
        processes or a cluster, make the same index as one; None is the encoder's own team.
        """
        encoder, settings = as_encoder(encoder), settings.with_passages(passages)
        stored, team = settings.stored(encoder), team_of(encoder, workers)
        rows, ticker = documents(items, 1, keeps_origins(stored)), _ticker(stored, progress, total)
        if has_scheme(str(where)):
            made = stored | {"texts": source[:16]}
            store = server_store(str(where)).create(str(where), made, encoder.dimension, replace)
            with closed_on_error(store), store.writer() as writer:
                _write(encoder, rows, writer, stored, ticker, team)
                writer.commit()
            return cls(encoder, store)
        empty = IndexManifest(stored, encoder.dimension, settings.engine, settings.bits, source)
        with building(Path(where), empty, replace) as draft:
            if encoder.postprocessing is not None:
                draft.attach(POSTPROCESSING, ".safetensors", encoder.postprocessing.to_bytes())
            _write(encoder, rows, draft, stored, ticker, team)
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
        """The number of texts or documents."""
        return self.store.documents

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
        if self.store.settings.get("passages") is None:
            return _plural(len(self), "text")
        return f"{_plural(len(self), 'document')} in {_plural(len(self.store), 'passage')}"

    def summary(self) -> str:
        """One line for the user: how it searches and, if that is approximate, how much it finds."""
        searched, recall = self.store.searched, self.store.searched.recall
        note = f" ({searched.note})" if searched.note else ""
        found = "" if recall is None else f"; finds {recall:.1%} of what an exact search does, by a sample"
        flaw = self.current_calibration().flaw
        return f"{self._size}, engine {searched.engine}{note}{found}{flaw and '; '}{flaw}"

    def corpus(self) -> Corpus:
        """All texts with their ids; of documents all passages, each with the id of its document."""
        return self.store.corpus()

    def document(self, name: str) -> str:
        """The whole text of a document; an unknown id raises DataError.

        >>> index = Index.from_texts("minilm", [("a", "Ash fell.  It was grey.")], passages=PassageSettings())
        >>> index.document("a")
        'Ash fell.  It was grey.'
        """
        return self.store.document(name)

    def ledgers(self, query: str, hits: Sequence[Hit], rows: Sequence[int] = (), **options: Any) -> list[HitLedgers]:  # noqa: ARG002
        """Why each hit has its score, with the options of ``encoder_ledgers``."""
        return encoder_ledgers(self, query, hits, **options)

    def scored(self, query: str) -> Iterator[tuple[StoredRows, Scores]]:
        """All texts and their exact scores (n,), window by window."""
        vector = self.query_vectors([query])[0]
        for rows in self.store.windows():
            yield rows, inner_products(rows.vectors, vector)

    def search_many(
        self, queries: Sequence[str], k: int = 10, progress: Progress | None = None, *,
        where: str | Filter | None = None, aggregate: str = "max", least: Least = ANY,
    ) -> list[Hits]:  # fmt: skip
        """The k best texts or documents for each of several queries.

        ``least`` leaves out hits below a percentile or a probability of a match; it needs a calibration.
        """
        check_search(queries, k)
        selection = Selection.of(where, aggregate)
        if selection.passages > 1 and least != ANY:
            raise UsageError(f"{aggregate} is the mean of several scores, which are not calibrated; use aggregate max")
        self.check_least(least)
        vectors = self.query_vectors(queries, progress)
        try:
            found = self._nearest(vectors, k, selection)
        except FileNotFoundError:
            # A writer committed and removed the old engine before its first use here.
            self.store = self.store.reopened()
            found = self._nearest(vectors, k, selection)
        every = [Hits(query, tuple(hits), self.name) for query, hits in zip(queries, found, strict=True)]
        # A mean of scores has no meaning: the calibration is of single scores.
        return every if selection.passages > 1 else [least.of(hits) for hits in self.with_meaning(every)]

    def _nearest(self, vectors: Vectors, k: int, selection: Selection) -> list[list[Hit]]:
        if self.store.settings.get("passages") is None:
            return self.store.nearest(vectors, k, selection.where)
        return nearest_documents(self.store, vectors, k, selection)

    def query_vectors(self, queries: Sequence[str], progress: Progress | None = None) -> Vectors:
        """The vectors (q, d) of queries, as this index compares them."""
        vectors = self.encoder.encode(queries, prompt=self.prompts[0], progress=progress)
        return unit(vectors) if self.similarity == "cosine" else vectors

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        """The exact scores of all texts or passages for each query, in blocks, with any engine."""
        vectors, step = self.query_vectors(queries), block_rows(len(self.store))
        # Views of files, if the index is in a folder: the vectors may be larger than the memory.
        parts = [rows.vectors for rows in self.store.windows()]
        for start in range(0, len(vectors), step):
            some = vectors[start : start + step]
            yield start, np.concatenate([np.empty((len(some), 0), np.float32), *(some @ part.T for part in parts)], 1)

    def add(
        self,
        items: Iterable[Item],
        *,
        source: str = "",
        progress: Progress | None = None,
        workers: int | Team | None = None,
    ) -> None:
        """Encode and add texts, as ``build`` takes them, all of them or none; texts that are there are skipped.

        The ids of plain texts continue the count of texts.
        """
        with self.store.writer(f"add {source}" if source else "") as writer:
            stored = self.store.settings
            rows = documents(items, len(self) + 1, keeps_origins(stored))
            if writer.at_once:
                # A row that would be rejected must be found before the first is stored.
                rows = iter(known := list(rows))
                writer.missing_documents(known)
            _write(self.encoder, rows, writer, stored, _ticker(stored, progress), team_of(self.encoder, workers))
            writer.commit()
        self.store = self.store.reopened()

    def delete(self, ids: Sequence[str]) -> None:
        """Delete texts or documents; an unknown id raises DataError, and then nothing is deleted."""
        self.store.delete(ids)
        self.store = self.store.reopened()


@dataclass(frozen=True, repr=False)
class IndexInfo(Result):
    """The size, the engine, the model and the settings of an index."""

    values: Mapping[str, Any]

    @classmethod
    def of(cls, store: Store) -> IndexInfo:
        """What a store says, without loading its model."""
        searched, settings = store.searched, store.settings
        names = (
            "dimension", "model", "model_sha256", "pooling", "layer", "postprocessing", "similarity", "query_prompt",
            "document_prompt",
        )  # fmt: skip
        found = {"index": store.address, **_sizes(store), "engine": searched.engine, "recall": searched.recall}
        return cls(found | {"note": searched.note} | {name: settings[name] for name in names})

    def to_dict(self) -> dict[str, Any]:
        """All values by name."""
        return dict(self.values)

    def tables(self) -> dict[str, Table]:
        """A row for each value."""
        address = str(self.values["index"])
        shown = dict(self.values) | (
            {"metadata": described(self.values["metadata"])} if "metadata" in self.values else {}
        )
        rows = [(name, str(value)) for name, value in shown.items() if name != "index"]
        return {"index": Table.of(["index", Column(address, address)], rows)}


def _sizes(store: Store) -> dict[str, Any]:
    """The number of texts, or of documents and passages; and the columns of the metadata."""
    cut, found = store.settings.get("passages"), dict[str, Any](texts=len(store))
    if cut is not None:
        found = {"documents": store.documents, "passages": len(store)}
        found |= {"passage_tokens": cut["tokens"], "overlap": cut["overlap"]}
    return found | ({"metadata": dict(store.columns)} if store.has_origins else {})


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _ticker(stored: Mapping[str, Any], progress: Progress | None, total: int | None = None) -> Ticker:
    """What counts the work: how many passages documents have is not known before."""
    return Ticker(progress, total, "texts") if stored.get("passages") is None else Ticker(progress, None, "passages")


@dataclass(frozen=True)
class EncodedRows:
    """The rows of a window, and how many of their texts were truncated."""

    rows: StoredRows
    truncated: int

    @property
    def amount(self) -> int:
        """How many rows there are: a document may have several."""
        return len(self.rows)


@dataclass(frozen=True)
class EncodeDocuments:
    """The task of a worker: cut a window's documents into passages, where the index has them, and encode those."""

    stored: Mapping[str, Any]

    def __call__(self, encoder: Encoder, window: Sequence[Document], progress: Progress | None) -> EncodedRows:
        """The rows of all documents of a window."""
        stored, cutter = self.stored, _cutter(encoder, self.stored)
        rows = [row for document in window for row in index_rows(document, cutter)]
        texts = [row.text for row in rows]
        encoded = encoder.encode_with_stats(texts, prompt=stored["document_prompt"], progress=progress)
        vectors = unit(encoded.vectors) if stored["similarity"] == "cosine" else encoded.vectors
        if not np.isfinite(vectors).all():
            raise ModelError(f"{encoder.name} gave vectors that are not numbers; load it with dtype float32")
        origins = [row.origin for row in rows] if keeps_origins(stored) else None
        return EncodedRows(StoredRows([row.id for row in rows], texts, vectors, origins), encoded.truncated)


def _write(
    encoder: Encoder, items: Iterator[Document], writer: Writer, stored: Mapping[str, Any], ticker: Ticker, team: Team
) -> None:
    """Encode what the writer does not have yet, window by window; a window holds all passages of its documents."""
    begun, truncated, total = KnownRows(), 0, 0  # documents that workers have and the writer does not

    def missing() -> Iterator[list[Document]]:
        for window in text_windows(items, None if stored.get("passages") is None else PASSAGE_WINDOW):
            wanted = begun.missing_documents(writer.missing_documents(window))
            ticker.add(len(window) - len(wanted))
            begun.known |= {hash_of(one.id): one.content for one in wanted}
            if wanted:
                yield wanted

    with steady_memory(), closing(team.run(encoder, EncodeDocuments(dict(stored)), missing(), ticker)) as stream:
        for window, encoded in stream:
            writer.append(encoded.rows)
            for one in window:
                del begun.known[hash_of(one.id)]
            truncated, total = truncated + encoded.truncated, total + len(encoded.rows)
    ticker.close()
    report_truncation(truncated, total, encoder.tokenizer.limit, "; --passages keeps the whole of each text")


def _cutter(encoder: Encoder, stored: Mapping[str, Any]) -> PassageCutter | None:
    if stored.get("passages") is None:
        return None
    return PassageCutter(encoder.tokenizer, PassageSettings(**stored["passages"]), stored["document_prompt"])


def _own_encoder(store: Store, load: Callable[..., Encoder], changes: Mapping[str, Any]) -> Encoder:
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


def _check_same(encoder: Encoder, store: Store) -> None:
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
