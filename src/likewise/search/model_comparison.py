"""What another model changes in a search: two indexes of the same texts, by two models, and the same queries."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data.annotations import Query
from likewise.encoder import Encoder
from likewise.errors import DataError, ModelError, UsageError
from likewise.progress import Progress, Ticker, named
from likewise.search.comparison_result import ComparedRanking, ComparisonSettings, ModelComparison, RetrievalQuality
from likewise.search.engines import Vectors
from likewise.search.folder import IndexManifest
from likewise.search.index import AnyStore, Index, IndexSettings, different_settings
from likewise.search.indexed_files import cached
from likewise.search.order_changes import OrderChange, StoredText, margin
from likewise.search.rank_overlap import first_texts
from likewise.search.ranker import Blocks, Rows
from likewise.search.recall import Relevant, Setting, positions, ranks, retrieval_result

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
    """Compare what two indexes of the same texts find for the same queries, always by an exact search.

    ``gains`` are the relevant rows of each query; with them the result has recall, MRR, nDCG and paired tests.

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
    for one in (first, second):
        _check_texts(one.store)
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
    documents = {row: (name, text) for row, (name, text, _) in rows.items()}
    explained, remarks = _explained((first, second), bare, progress)
    return replace(bare, documents=documents, explained=explained, quality=quality, remarks=remarks)


def _labels(first: Index, second: Index) -> tuple[str, str]:
    one, other = first.encoder.name, second.encoder.name
    return one, other if other != one else f"{other} (2)"


def _searched(
    index: Index, queries: Sequence[str], depth: int, relevant: Relevant, progress: Progress | None
) -> tuple[ComparedRanking, Rows]:
    """The first texts of each query, the spread of its scores, and the ranks of its relevant texts, in one pass."""
    rows: list[Rows] = []
    spreads: list[Any] = []

    def observed(blocks: Blocks) -> Iterator[tuple[int, Vectors]]:
        for start, scores in blocks:
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
    vectors = [_stored(one.store, {row for _, *rows in turned for row in rows}) for one in indexes]
    ticker, changes = Ticker(progress, len(turned), "explained queries"), []
    try:
        for query, came, went in turned:
            text = found.queries[query].text
            margins = [
                margin(index, text, stored[came], stored[went], float(ranking.spread[query]))
                for index, stored, ranking in zip(indexes, vectors, found.rankings, strict=True)
            ]
            names = [vectors[0][row][:2] for row in (came, went)]
            changes.append(OrderChange(query, came, went, names[0], names[1], margins[0], margins[1]))
            ticker.add()
    except (ModelError, UsageError) as error:
        # The comparison of ranks stands without words.
        return (), (f"the words behind the changes are left out: {error}",)
    ticker.close()
    return tuple(changes), ()


# Indexes


def _check_texts(store: AnyStore) -> None:
    """Reject documents in passages: each model cuts them at its own limit, so rows are not the same texts."""
    if store.settings.get("passages") is not None:
        raise UsageError(f"{store.address} holds documents in passages; compare models on their texts with --corpus")


def texts_key(store: AnyStore) -> str:
    """The sha256 of all ids and texts of a store, in their order."""
    digest = hashlib.sha256()
    for rows in store.windows():
        for row in zip(rows.ids, rows.texts, strict=True):
            for word in row:
                content = word.encode("utf-8", "surrogatepass")
                digest.update(f"{len(content)}:".encode() + content)
    return digest.hexdigest()


def _stored(store: AnyStore, rows: Iterable[int]) -> dict[int, StoredText]:
    """The given rows of a store, read in one pass."""
    wanted, found, start = sorted(rows), dict[int, StoredText](), 0
    if not wanted:
        return found
    for window in store.windows():
        for row in wanted[np.searchsorted(wanted, start) : np.searchsorted(wanted, start + len(window))]:
            here = row - start
            found[row] = window.ids[here], window.texts[here], np.array(window.vectors[here])
        start += len(window)
    return found


def indexed_by(store: AnyStore, encoder: Encoder, progress: Progress | None = None, **changes: Any) -> Index:
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
    _check_texts(store)
    made, different = store.settings, different_settings(store.settings, encoder)
    usual = {name: made[name] for name in ("similarity", *PROMPTS)}
    if "model_sha256" in different:
        usual = {"similarity": made["similarity"]}
    settings = IndexSettings(**usual | changes)
    given = settings.stored(encoder)
    if not different and all(made[key] == given[key] for key in ("similarity", *PROMPTS)):
        return Index(encoder, store)
    name = texts_key(store)

    def build(folder: Path, replaces: bool) -> Index:
        if not replaces and IndexManifest.read(folder) is not None:
            return Index.open(folder, encoder)
        items = (row for rows in store.windows() for row in zip(rows.ids, rows.texts, strict=True))
        how: dict[str, Any] = {"source": name, "replace": replaces, "total": len(store), "progress": progress}
        return Index.build(encoder, items, folder, settings, **how)

    return cached(name, encoder, settings, build)
