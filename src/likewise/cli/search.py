"""``likewise search``: the best texts for a query, and why they were found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likewise.cli.output import Output
from likewise.cli.screen import notice, progress_bar
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

MADE_WITH = ("engine", "bits", "similarity", "query_prompt", "document_prompt")
"""Options that are fixed when an index is made."""


@with_settings
def search(
    context: typer.Context,
    where: Annotated[
        str, typer.Argument(help="An index folder, a Milvus address, or a file of texts, whose index is cached.")
    ],
    queries: Annotated[
        list[str],
        typer.Argument(metavar="QUERY...", help="What to look for; put -- before one that begins with a dash."),
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
    out: Annotated[Path | None, typer.Option(help="A folder for run.json, tables and a page.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page of explained hits.")] = None,
    as_json: Json = False,
) -> None:
    """Search an index or a file: the best texts for each query, best first."""
    from likewise.explain.units import check_granularity
    from likewise.search.folder import address_of
    from likewise.search.hits import SearchResult, check_search

    explained = explain or html is not None
    _check(context, ranker, explained)
    check_search(queries, k)
    check_granularity(granularity)
    output = Output(out, html, None, as_json)
    source = _Source(address_of(where), encoder, pooling_config, run, files, options, context)
    with progress_bar() as progress:
        if ranker != "dense":
            found = SearchResult(tuple(source.ranked(ranker, queries, k, vectors, progress)))
        else:
            how = {"granularity": granularity, "pairs_per_hit": pairs_per_hit, "progress": progress}
            with source.index(progress) as index:
                hits = (
                    [index.search(query, k, explain=True, **how) for query in queries]
                    if explained
                    else index.search_many(queries, k, progress)
                )
                found = SearchResult(tuple(hits), index.engine, index.summary())
    output.show(found, run=vars(run))


def _check(context: typer.Context, ranker: str, explained: bool) -> None:
    """Rejects options that have no effect."""
    if ranker != "dense":
        from likewise.search.baselines import check_ranker

        check_ranker(ranker)
    if explained and ranker != "dense":
        raise UsageError("only the model's own scores can be explained; leave --ranker or --explain out")
    if not explained:
        refuse_given(context, ("granularity", "pairs_per_hit"), "a search without --explain")
    if ranker != "static":
        refuse_given(context, ("vectors",), f"the ranker {ranker}; it is for static")
    if ranker not in ("dense", "hybrid"):
        refuse_given(context, MADE_WITH, f"the ranker {ranker}, which needs no index")


@dataclass(frozen=True)
class _Source:
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
        from likewise.search.folder import is_milvus

        return is_milvus(self.where) or Path(self.where).is_dir()

    def index(self, progress: Progress) -> Index:
        """The index itself, or the cached one of a file."""
        from likewise.data import locate
        from likewise.search.index import cached_index

        if self.is_index:
            refuse_given(self.context, MADE_WITH, "an index: it keeps the settings it was made with")
            return self._opened()
        locate(self.where, self.files.data_dir)  # a missing file is an error before the model is loaded
        model = self.encoder.load(self.run, self.pooling_config)
        done = cached_index(model, self.files.dataset(self.where), self.options.settings(), progress)
        if done.skipped.count:
            notice(str(done.skipped))
        return done.index

    def ranked(
        self, ranker: str, queries: Sequence[str], k: int, vectors: Path | None, progress: Progress
    ) -> list[Hits]:
        """Hits by a baseline, which needs no index, or by BM25 and the model together."""
        from likewise.search.baselines import baseline, hybrid_hits, ranked_hits, stored_corpus, text_corpus

        if ranker == "hybrid":
            with self.index(progress) as index:
                return hybrid_hits(index, queries, k, progress)
        model = self._model() if ranker == "input-embeddings" else None
        if self.is_index:
            corpus = stored_corpus(self.where)
        else:
            corpus, skipped = text_corpus(self.files.dataset(self.where))
            if skipped.count:
                notice(str(skipped))
        found = baseline(ranker, corpus.texts, encoder=model, vectors=vectors)
        return ranked_hits(found, corpus, queries, k, progress)

    def _model(self) -> Encoder:
        if not self.is_index:
            return self.encoder.load(self.run, self.pooling_config)
        with self._opened() as index:
            return index.encoder

    def _opened(self) -> Index:
        from likewise.search import Index

        changes: dict[str, Any] = given_encoder(self.context, self.encoder, self.pooling_config)
        return Index.open(self.where, load=self.run.load, **changes)
