"""What another model changes in a search: two indexes of the same texts, by two models, and the same queries."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data.annotations import Query
from likewise.encoder import Encoder
from likewise.errors import DataError, ModelError, UsageError
from likewise.progress import Progress, Ticker, named
from likewise.search.comparison_result import ComparedRanking, ComparisonSettings, ModelComparison, RetrievalQuality
from likewise.search.documents import Groups, Origin, joined_text
from likewise.search.engines import Vectors
from likewise.search.index import Index, IndexSettings, different_settings
from likewise.search.indexed_files import cached
from likewise.search.order_changes import OrderChange, StoredText, margin
from likewise.search.passages import PassageSettings
from likewise.search.rank_overlap import first_texts
from likewise.search.ranker import Blocks, Rows
from likewise.search.recall import Relevant, Setting, positions, ranks, retrieval_result
from likewise.search.stores import Store
from likewise.search.stores.folder import IndexManifest

PROMPTS = ("query_prompt", "document_prompt")
USUAL = ComparisonSettings()
Gains = Sequence[Mapping[int, float]]  # The gain of each relevant row, query by query


def compare_models(
    first: Index,
    second: Index,
    queries: Sequence[Query | str],
    settings: ComparisonSettings = USUAL,
    gains: Gains | None = None,
    progress: Progress | None = None,
) -> ModelComparison:
    """Compare what two indexes of the same texts or documents find for the same queries, always by an exact search.

    ``gains`` are the relevant rows of each query; with them the result has recall, MRR, nDCG and paired tests. Each
    model may cut documents into passages of its own: a document counts by its best passage.

    >>> texts = ["The volcano spat ash.", "The bank cut rates.", "An eruption closed the airport."]
    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> indexes = [Index.from_texts(one, texts) for one in (encoder, encoder.with_pooling(truncate_dim=64))]
    >>> found = compare_models(*indexes, ["eruption", "money"])
    >>> found.rbo.shape, found.names
    ((2,), ('minilm', 'minilm (2)'))
    """
    wanted = [Query(each, str(number)) if isinstance(each, str) else each for number, each in enumerate(queries, 1)]
    if not wanted:
        raise DataError("a comparison of models needs at least one query; give some")
    chosen = settings.within(len(first))
    if texts_key(first.store) != texts_key(second.store):
        raise DataError("the two indexes do not hold the same texts in the same order; build both from one corpus")
    relevant = Relevant.of([{}] * len(wanted) if gains is None else gains)
    texts = [query.text for query in wanted]
    both = [_searched(one, texts, chosen.depth, relevant, progress) for one in (first, second)]
    rankings = both[0][0], both[1][0]
    labels = _labels(first, second)
    quality = None if gains is None else _quality(labels, [found for _, found in both], gains, chosen.ks)
    bare = ModelComparison(first.store.address, labels, len(first), tuple(wanted), rankings, chosen)
    rows = _stored(first.store, {row for change in bare.changes for row in (*change.came, *change.went)})
    documents = {row: (one.id, one.texts[0]) for row, one in rows.items()}
    explained, remarks = _explained((first, second), bare, progress)
    return replace(bare, documents=documents, explained=explained, quality=quality, remarks=remarks)


def _labels(first: Index, second: Index) -> tuple[str, str]:
    one, other = first.encoder.name, second.encoder.name
    return one, other if other != one else f"{other} (2)"


def _searched(
    index: Index, queries: Sequence[str], depth: int, relevant: Relevant, progress: Progress | None
) -> tuple[ComparedRanking, Rows]:
    """The first documents of each query, the spread of its scores, and the ranks of its relevant ones, in one pass."""
    rows: list[Rows] = []
    spreads: list[Any] = []
    groups = None
    if index.store.settings.get("passages") is not None:
        groups = Groups.of([name for window in index.store.windows() for name in window.ids])

    def observed(blocks: Blocks) -> Iterator[tuple[int, Vectors]]:
        for start, passages in blocks:
            scores = passages if groups is None else groups.aggregated(passages, 1)
            rows.append(first_texts(scores, depth))
            spreads.append(scores.std(axis=1, dtype=np.float64))
            yield start, scores

    found = ranks(observed(index.score_blocks(queries)), relevant, named(progress, index.encoder.name))
    return ComparedRanking(np.concatenate(rows), np.concatenate(spreads)), found


def _quality(names: tuple[str, str], found: Sequence[Rows], gains: Gains, ks: tuple[int, ...]) -> RetrievalQuality:
    """Recall, MRR and nDCG of both models on the queries that have a relevant text."""
    everything, relevant = Relevant.of(gains), Relevant.of(each for each in gains if each)
    if not len(relevant):
        raise DataError("no query has a relevant text; check the ids of the judgements, or leave them out")
    results = [
        retrieval_result("", Setting(model=name), positions(each, everything), relevant, ks)
        for name, each in zip(names, found, strict=True)
    ]
    return RetrievalQuality(results[0], results[1], left_out=len(everything) - len(relevant))


# Words


def _explained(
    indexes: tuple[Index, Index], found: ModelComparison, progress: Progress | None
) -> tuple[tuple[OrderChange, ...], tuple[str, ...]]:
    """Why the order changed, of the queries that change most; and why there is no answer, if there is none."""
    turned = [(query, *found.turned_pair(query)) for query in found.most_changed]
    documents = [_stored(one.store, {row for _, *rows in turned for row in rows}) for one in indexes]
    ticker, changes = Ticker(progress, len(turned), "explained queries"), []
    try:
        for query, came, went in turned:
            text, margins, best = found.queries[query].text, [], []
            for index, stored, ranking in zip(indexes, documents, found.rankings, strict=True):
                vector = index.query_vectors([text])[0]
                both = stored[came].best(vector), stored[went].best(vector)
                best.append(both)
                margins.append(margin(index, text, *both, float(ranking.spread[query])))
            # Of passages, those of the model that has the document higher.
            changes.append(OrderChange(query, came, went, best[1][0][:2], best[0][1][:2], margins[0], margins[1]))
            ticker.add()
    except (ModelError, UsageError) as error:
        # The comparison of ranks stands without words.
        return (), (f"the words behind the changes are left out: {error}",)
    ticker.close()
    return tuple(changes), ()


# Indexes


@dataclass(frozen=True, eq=False)
class StoredDocument:
    """A text, or a document with all its passages and their vectors."""

    id: str
    texts: list[str]
    vectors: list[Vectors]
    origins: list[Origin]  # empty in an index of plain texts

    @property
    def text(self) -> str:
        """The whole text."""
        return joined_text(zip(self.texts, self.origins, strict=True)) if self.origins else self.texts[0]

    @property
    def item(self) -> tuple[str, str, Mapping[str, Any]]:
        """What ``Index.build`` takes."""
        return self.id, self.text, self.origins[0].metadata if self.origins else {}

    def best(self, query: Vectors) -> StoredText:
        """The passage that scores highest for the vector (d,) of a query."""
        row = int(np.argmax([float(vector @ query) for vector in self.vectors]))
        return self.id, self.texts[row], self.vectors[row]


def stored_documents(store: Store) -> Iterator[StoredDocument]:
    """All documents of a store, in order: the passages of one are neighbours."""
    rows = (
        (name, text, vector, () if window.origins is None else (window.origins[row],))
        for window in store.windows()
        for row, (name, text, vector) in enumerate(zip(window.ids, window.texts, window.vectors, strict=True))
    )
    for name, group in groupby(rows, key=lambda row: row[0]):
        own = list(group)
        texts, vectors = [text for _, text, _, _ in own], [vector for _, _, vector, _ in own]
        yield StoredDocument(name, texts, vectors, [one for *_, origin in own for one in origin])


def texts_key(store: Store) -> str:
    """The sha256 of all ids and texts of a store, in their order; of documents in passages, their whole texts."""
    digest = hashlib.sha256()
    for document in stored_documents(store):
        for word in (document.id, document.text):
            content = word.encode("utf-8", "surrogatepass")
            digest.update(f"{len(content)}:".encode() + content)
    return digest.hexdigest()


def _stored(store: Store, rows: Collection[int]) -> dict[int, StoredDocument]:
    """The documents with the given numbers, read in one pass."""
    found: dict[int, StoredDocument] = {}
    for number, document in enumerate(stored_documents(store)) if rows else ():
        if number in rows:
            found[number] = replace(document, vectors=[np.array(vector) for vector in document.vectors])
    return found


def indexed_by(store: Store, encoder: Encoder, progress: Progress | None = None, **changes: Any) -> Index:
    """The texts of a store by an encoder: an index of the store itself if that made it, else one in the cache.

    Vectors are compared as in the store; a model with the same weights also gets the store's prompts. ``changes``
    replace these (``similarity``, ``query_prompt``, ``document_prompt``). A call that was cut short continues.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> store = Index.from_texts(encoder, ["A cat sat.", "A dog ran."]).store
    >>> indexed_by(store, encoder).store is store
    True
    >>> indexed_by(store, encoder.with_pooling(truncate_dim=64)).corpus() == store.corpus()
    True
    """
    made, different = store.settings, different_settings(store.settings, encoder)
    usual = {name: made[name] for name in ("similarity", *PROMPTS)}
    if "model_sha256" in different:
        usual = {"similarity": made["similarity"]}
    if made.get("passages") is not None:
        own = PassageSettings(**made["passages"])
        usual["passages"] = replace(own, tokens=min(own.tokens or encoder.tokenizer.limit, encoder.tokenizer.limit))
    settings = IndexSettings(**usual | changes)
    given = settings.stored(encoder)
    if not different and all(made[key] == given[key] for key in ("similarity", *PROMPTS)):
        return Index(encoder, store)
    name = texts_key(store)

    def build(folder: Path, replaces: bool) -> Index:
        if not replaces and IndexManifest.read(folder) is not None:
            return Index.open(folder, encoder)
        items = (document.item for document in stored_documents(store))
        how: dict[str, Any] = {"source": name, "replace": replaces, "total": len(store), "progress": progress}
        return Index.build(encoder, items, folder, settings, **how)

    return cached(name, encoder, settings, build)
