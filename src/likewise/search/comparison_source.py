"""Where a comparison of models comes from: texts of a file or an index, queries with or without judgements, models."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from likewise.data import Columns, Dataset, SkippedRows, locate, read_pairs, read_texts
from likewise.data.annotations import JudgedFiles, Query, read_queries
from likewise.data.dataset import pair_columns
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.progress import Progress, named
from likewise.search.comparison_result import ComparisonSettings, ModelComparison
from likewise.search.evaluation import judged_rows
from likewise.search.hits import check_search
from likewise.search.index import Index, IndexSettings
from likewise.search.indexed_files import IndexedFile, cached_index
from likewise.search.model_comparison import Gains, compare_models, indexed_by
from likewise.search.ranker import Corpus
from likewise.search.stores import Store, open_store


@dataclass(frozen=True)
class ComparedModel:
    """A model of a comparison: its name for people, and how it is loaded.

    ``changes`` replace how its vectors are compared: ``similarity``, ``query_prompt``, ``document_prompt``.
    """

    name: str
    load: Callable[[], Encoder]
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ComparisonSource:
    """The texts, the queries and the judgements of a comparison.

    Queries are texts or a file. Without either, the corpus is a file of pairs: each right text is a query, and its left
    text answers it. Judgements are qrels, or a column ``relevant`` of the queries.

    >>> source = ComparisonSource(Dataset("sample/pairs"))
    >>> len(source.queries), source.queries[0].relevant
    (60, ('1',))
    """

    corpus: Dataset  # of an index only its name and its options count: data_dir, skip_bad
    is_index: bool = False  # the name is the address of an index
    file: str | None = None  # of queries
    texts: Sequence[str] = ()  # queries
    qrels: str | None = None
    limit: int | None = None  # only the first queries
    skipped: SkippedRows = field(default_factory=SkippedRows, compare=False)  # bad rows of all files

    def __post_init__(self) -> None:
        if self.file is not None and self.texts:
            raise UsageError("--query does not go with --queries; add the query to the file, or leave one of them out")
        if self.qrels is not None and self.file is None:
            raise UsageError("--qrels judges the queries of a file by their ids; give --queries too")

    @cached_property
    def queries(self) -> list[Query]:
        """All queries, in order."""
        if self.texts:
            check_search(self.texts, 1)
            return [Query(text, str(number)) for number, text in enumerate(self.texts, start=1)]
        if self.file is not None:
            found = list(replace(self.corpus, name=self.file).stream(read_queries, self.skipped))
            if not found:
                raise DataError(f"{self.file}: no queries; give a file with at least one")
            return found
        return [Query(pair.right, pair.id, (pair.id,)) for pair in self._pairs.stream(read_pairs)]

    @cached_property
    def _pairs(self) -> Dataset:
        """The corpus as pairs; the left texts are what is searched."""
        one, columns = self.corpus, None
        if not self.is_index:
            columns = pair_columns(one.name, columns=one.columns, data_dir=one.data_dir)
        if columns is None:
            flaw = "give --queries FILE or --query TEXT; only a file of pairs as --corpus needs neither"
            raise UsageError(f"{one.name} holds no queries; {flaw}")
        left, right = columns
        return replace(one, columns=Columns(text=left, left=left, right=right, id=one.columns.id))

    @property
    def dataset(self) -> Dataset:
        """The file of texts."""
        return self.corpus if self.file is not None or self.texts else self._pairs

    def ids(self, store: Store | None) -> list[str]:
        """The ids of the texts in the order of an index: those of a store, or of the file."""
        if store is not None:
            return list(dict.fromkeys(name for rows in store.windows() for name in rows.ids))
        # An index has a repeated row once.
        return list(dict.fromkeys(text.id for text in self.dataset.stream(read_texts)))

    def gains(self, ids: Sequence[str]) -> Gains | None:
        """The relevant rows of each query among texts with these ids; None without judgements."""
        if self.qrels is None and not any(query.relevant for query in self.queries):
            return None
        files = JudgedFiles(self.corpus.name, self.file or self.corpus.name, self.qrels)
        on_bad = self.skipped if self.corpus.skip_bad else None
        return judged_rows(Corpus(ids, ids), self.queries, files, self.corpus.data_dir, on_bad)


def compare_sources(
    source: ComparisonSource, models: Sequence[ComparedModel], settings: ComparisonSettings,
    load: Callable[..., Encoder] = Encoder.load, progress: Progress | None = None,
) -> ModelComparison:  # fmt: skip
    """Compare two models on a file or an index; a single model is compared with the one that made the index.

    >>> models = [ComparedModel(f"{k}", lambda k=k: Encoder.load("minilm", truncate_dim=k)) for k in (384, 64)]
    >>> source = ComparisonSource(Dataset("sample/sentences"), file="sample/queries")
    >>> found = compare_sources(source, models, ComparisonSettings())
    >>> found.names, len(found.queries), found.quality is not None
    (('384', '64'), 6, True)
    """
    _check_models(source, models)
    queries, some = source.queries, slice(source.limit)
    with ExitStack() as opened:
        own, store = _opened(source, len(models) == 1, load, opened)
        # A wrong id or depth is an error before hours of work and not after.
        ids = source.ids(store)
        settings.within(len(ids))
        gains = source.gains(ids)
        skipped = [source.skipped]
        for model in models:
            done = _indexed(source, store, model, named(progress, model.name))
            own.append(done.index if done.index.store is store else opened.enter_context(done.index))
            skipped.append(done.skipped)
        relevant = None if gains is None else gains[some]
        found = compare_models(own[0], own[1], queries[some], settings, relevant, progress)
    remarks = dict.fromkeys(str(each) for each in skipped if each.count)
    names = models[0].name if len(models) == 2 else own[0].encoder.name, models[-1].name
    return replace(found, data=source.corpus.name, names=names, remarks=(*remarks, *found.remarks))


def _check_models(source: ComparisonSource, models: Sequence[ComparedModel]) -> None:
    if len(models) not in ((1, 2) if source.is_index else (2,)):
        one = ", or with --index one, which is compared with the model that made it"
        raise UsageError(f"give two models{one}; got {len(models)}")


def _opened(
    source: ComparisonSource, with_model: bool, load: Callable[..., Encoder], opened: ExitStack
) -> tuple[list[Index], Store | None]:
    """The index of an address with its own model if that is compared, and its store; nothing for a file."""
    if not source.is_index:
        if os.path.isdir(source.corpus.name):
            raise UsageError(f"{source.corpus.name} is a folder; give an index as --index")
        locate(source.corpus.name, source.corpus.data_dir)
        return [], None
    if with_model:
        index = opened.enter_context(Index.open(source.corpus.name, load=load))
        own, store = [index], index.store
    else:
        own, store = [], open_store(source.corpus.name)
        opened.callback(store.close)
    return own, store


def _indexed(
    source: ComparisonSource, store: Store | None, model: ComparedModel, progress: Progress | None
) -> IndexedFile:
    """The texts by one model, from the cache if an earlier run made them."""
    if store is None:
        return cached_index(model.load(), source.dataset, IndexSettings(**model.changes), progress)
    return IndexedFile(indexed_by(store, model.load(), progress, **model.changes), SkippedRows())
