"""``likewise search``: the best texts for a query, and why they were found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likewise.cli.screen import notice, progress_bar, show_json, show_lines
from likewise.cli.settings import (
    EncoderSettings,
    FileSettings,
    IndexOptions,
    Json,
    PoolingOptions,
    RunSettings,
    given_encoder,
    refuse_given,
    with_settings,
)
from likewise.errors import UsageError
from likewise.progress import Progress

if TYPE_CHECKING:
    from likewise.encoder import Encoder
    from likewise.search import Hits, Index
    from likewise.search.explained import ExplainedHits

MADE_BY = ("engine", "bits", "similarity", "query_prompt", "document_prompt")


@with_settings
def search(
    context: typer.Context,
    where: Annotated[
        str, typer.Argument(help="An index folder, a Milvus address, or a file of texts, which is indexed in passing.")
    ],
    queries: Annotated[
        list[str],
        typer.Argument(metavar="QUERY...", help="What to look for; one that begins with a dash goes behind --."),
    ],
    encoder: EncoderSettings,
    pooling_config: PoolingOptions,
    run: RunSettings,
    files: FileSettings,
    options: IndexOptions,
    k: Annotated[int, typer.Option("-k", "--top", help="How many hits.", min=1)] = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="Colour the words that carry each score; say why above the next.")
    ] = False,
    granularity: Annotated[str, typer.Option(help="With --explain: word, token or sentence.")] = "word",
    pairs_per_hit: Annotated[
        int | None, typer.Option(help="With --explain: word pairs of every hit. Default: 5 of the first hits.", min=0)
    ] = None,
    ranker: Annotated[
        str, typer.Option(help="dense, bm25, tfidf, bow, static, input-embeddings, random, or hybrid: bm25 and dense.")
    ] = "dense",
    vectors: Annotated[Path | None, typer.Option(help="A GloVe or fastText text file for the ranker static.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page of explained hits.")] = None,
    as_json: Json = False,
) -> None:
    """Search an index or a file: the best texts for each query, best first."""
    from likewise.explain.units import check_granularity
    from likewise.search.baselines import check_ranker
    from likewise.search.explained import explained_search
    from likewise.search.index import check_search
    from likewise.search.pointers import place_of

    explained = explain or html is not None
    _check(context, ranker, explained, html is not None and len(queries) > 1)
    check_ranker(ranker)
    check_search(queries, k)
    check_granularity(granularity)
    position = _Place(place_of(where), encoder, pooling_config, run, files, options, context)
    found: Sequence[Hits | ExplainedHits]
    with progress_bar() as progress:
        if ranker != "dense":
            return _show(position.ranked(ranker, queries, k, vectors, progress), None, as_json)
        with position.index(progress) as index:
            if explained:
                how: dict[str, Any] = {"granularity": granularity, "pairs_per_hit": pairs_per_hit, "progress": progress}
                found = [explained_search(index, query, k, **how) for query in queries]
            else:
                found = index.search_many(queries, k, progress)
            if html is not None:
                notice(f"written: {found[0].save_html(html)}")  # type: ignore[union-attr]
            _show(found, index, as_json)


def _check(context: typer.Context, ranker: str, explained: bool, crowded: bool) -> None:
    """Refuse what would go unheard."""
    if explained and ranker != "dense":
        raise UsageError("only the model's own scores can be explained; leave --ranker or --explain out")
    if crowded:
        raise UsageError("--html shows one query; give one, or leave --html out")
    if not explained:
        refuse_given(context, ("granularity", "pairs_per_hit"), "a search without --explain")
    if ranker != "static":
        refuse_given(context, ("vectors",), f"the ranker {ranker}; it is for static")
    if ranker not in ("dense", "hybrid"):
        refuse_given(context, MADE_BY, f"the ranker {ranker}, which needs no index")


@dataclass(frozen=True)
class _Place:
    """What is searched, opened only as far as a ranker needs it."""

    where: str
    encoder: EncoderSettings
    pooling_config: PoolingOptions
    run: RunSettings
    files: FileSettings
    options: IndexOptions
    context: typer.Context

    @property
    def is_index(self) -> bool:
        """Whether it is an index, and not a file of texts."""
        from likewise.search.milvus import is_milvus

        return is_milvus(self.where) or Path(self.where).is_dir()

    def index(self, progress: Progress) -> Index:
        """The index itself, or the kept one of a file."""
        from likewise.data import locate
        from likewise.search import Index
        from likewise.search.indexing import cached_index

        if self.is_index:
            refuse_given(self.context, MADE_BY, "an index: it keeps the settings it was made with")
            return Index.open(self.where, load=self.run.load, **self._changes())
        locate(self.where, self.files.data_dir)  # a missing file is told before the model is loaded
        model = self.encoder.load(self.run, self.pooling_config)
        done = cached_index(model, self.files.texts(self.where), self.options.settings(), progress)
        if done.skipped.count:
            notice(str(done.skipped))
        return done.index

    def ranked(
        self, ranker: str, queries: Sequence[str], k: int, vectors: Path | None, progress: Progress
    ) -> list[Hits]:
        """Hits by a baseline, for which no vector is needed, or by baseline and model together."""
        from likewise.search.indexing import baseline_hits, hybrid_hits, stored_corpus, text_corpus

        if ranker == "hybrid":
            with self.index(progress) as index:
                return hybrid_hits(index, queries, k, progress)
        model = None
        if ranker == "input-embeddings":
            model = self._own_model() if self.is_index else self.encoder.load(self.run, self.pooling_config)
        if self.is_index:
            corpus = stored_corpus(self.where)
        else:
            corpus, skipped = text_corpus(self.files.texts(self.where))
            if skipped.count:
                notice(str(skipped))
        return baseline_hits(ranker, corpus, queries, k, (model, vectors), progress)

    def _own_model(self) -> Encoder:
        from likewise.search import Index

        with Index.open(self.where, load=self.run.load, **self._changes()) as index:
            return index.encoder

    def _changes(self) -> dict[str, Any]:
        return given_encoder(self.context, self.encoder, self.pooling_config)


def _show(found: Sequence[Hits | ExplainedHits], index: Index | None, as_json: bool) -> None:
    if index is not None:
        notice(index.summary())
    if as_json:
        engine = {} if index is None else {"engine": index.metadata()["engine"], "recall": index.store.searched.recall}
        results = [one.to_dict() | engine for one in found]
        return show_json(results[0] if len(results) == 1 else {"results": results})
    for one in found:
        show_lines(one.lines())
