"""``likewise search``, ``explain-hits`` and ``index``: build an index of texts, search it, and explain hits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Context, Option

from likewise.cli.output import Output, notice, progress_bar
from likewise.cli.settings import (
    DOCUMENTS_HELP,
    EncoderSettings,
    FileSettings,
    IndexOptions,
    Json,
    Label,
    ModelSettings,
    PoolingOptions,
    RunSettings,
    TeamSettings,
    command,
    option_names,
    refuse_given,
)
from likewise.errors import UsageError
from likewise.progress import Progress

if TYPE_CHECKING:
    from likewise.encoder import Encoder
    from likewise.encoder.workers import Team
    from likewise.results import Result
    from likewise.search import Index
    from likewise.search.calibration_store import Least
    from likewise.search.documents import Selection
    from likewise.search.hits import SearchResult
    from likewise.search.index import IndexInfo
    from likewise.search.returned_hits import ReturnedHit
    from likewise.search.searcher import Searcher
    from likewise.search.why_not import WhyNot

MADE_WITH = option_names(IndexOptions)  # Options that are fixed when an index is made
RERANKING = ("rerank", "rerank_depth", "label")
MODEL_OPTIONS = option_names(EncoderSettings, PoolingOptions)  # For an existing index they must be its own


@dataclass(frozen=True)
class RerankOptions:
    """Which model puts the first hits into order."""

    rerank: Annotated[
        str | None, Option(help="A cross-encoder, or another encoder, that puts the first hits into order.")
    ] = None
    rerank_depth: Annotated[int | None, Option(help="How many first hits --rerank scores. Default: 100.", min=1)] = None
    label: Label = None

    def applied(self, searcher: Searcher, k: int, run: RunSettings) -> Searcher:
        """The search with the reranker, where one is given."""
        if self.rerank is None:
            return searcher
        from likewise.search.searcher import RerankedSearcher

        scoring = run.scoring_loader(PoolingOptions(), label=self.label)(self.rerank)
        return RerankedSearcher.of(searcher, scoring, k, self.rerank_depth)


@command
def search(
    context: Context,
    where: Annotated[
        str, Argument(help="An index folder, a store's address, or a file of texts, whose index is cached.")
    ],
    queries: Annotated[
        list[str], Argument(metavar="QUERY...", help="What to look for; put -- before one that begins with a dash.")
    ],
    model: ModelSettings,
    files: FileSettings,
    options: IndexOptions,
    rerank: RerankOptions,
    k: Annotated[int, Option("-k", "--top", help="How many hits.", min=1)] = 10,
    explain: Annotated[
        bool, Option("--explain", help="Colour the words that carry each score; say why above the next.")
    ] = False,
    granularity: Annotated[str, Option(help="With --explain: word, token or sentence.")] = "word",
    pairs_per_hit: Annotated[
        int | None, Option(help="With --explain: word pairs of every hit. Default: 5 of the first hits.", min=0)
    ] = None,
    ranker: Annotated[
        str, Option(help="dense, bm25, tfidf, bow, static, input-embeddings, random, or hybrid: bm25 and dense.")
    ] = "dense",
    where_filter: Annotated[
        str | None, Option("--where", help="Only texts whose metadata match, such as: year >= 2020 and lang == 'de'.")
    ] = None,
    aggregate: Annotated[str, Option(help="A document's score: max, its best passage, or mean-top-3.")] = "max",
    vectors: Annotated[Path | None, Option(help="A GloVe or fastText text file for the ranker static.")] = None,
    why_not: Annotated[
        str | None, Option(metavar="ID", help="Say why the text with this id is not among the hits, for one QUERY.")
    ] = None,
    full: Annotated[bool, Option("--full", help="Show whole texts, and not snippets.")] = False,
    min_percentile: Annotated[
        float | None, Option(help="Only hits above this share of unrelated pairs, such as 0.99; see: calibrate.")
    ] = None,
    min_probability: Annotated[
        float | None, Option(help="Only hits that match with this probability, such as 0.5; see: calibrate.")
    ] = None,
    out: Annotated[Path | None, Option(help="A folder for run.json, tables and a page.")] = None,
    html: Annotated[Path | None, Option(help="Write a page of explained hits.")] = None,
    as_json: Json = False,
) -> None:
    """Search an index or a file: the best texts for each query, best first."""
    from likewise.explain.texts import check_granularity
    from likewise.search.calibration_store import Least
    from likewise.search.documents import Selection
    from likewise.search.hits import check_search
    from likewise.search.stores.folder import address_of

    selection = Selection.of(where_filter, aggregate)
    explained = explain or (html is not None and ranker != "random")
    _check(context, ranker, explained or why_not is not None)
    check_search(queries, k)
    check_granularity(granularity)
    least = Least(min_percentile, min_probability)
    output = Output(out, html, None, as_json)
    source = SearchSource(address_of(where), model, files, options, context, where_filter is not None)
    how: dict[str, Any] = {} if granularity == "word" else {"granularity": granularity}
    how |= {} if pairs_per_hit is None else {"pairs_per_hit": pairs_per_hit}
    asked = _Question(queries, k, selection, explained, how, full, least, where)
    with progress_bar() as progress, source.searcher(ranker, vectors, progress) as searcher:
        if why_not is None:
            found: Result = asked.hits(rerank.applied(searcher, k, model.run), progress)
        else:
            found = asked.why_not(searcher, why_not, progress)
    output.show(found, run=vars(model.run))


def _check(context: Context, ranker: str, explained: bool) -> None:
    """Rejects options that have no effect."""
    if ranker != "dense":
        from likewise.search.baselines import check_ranker

        check_ranker(ranker)
    if context.params["why_not"] is not None:
        refuse_given(context, (*RERANKING, "aggregate"), "--why-not")
        if len(context.params["queries"]) > 1:
            raise UsageError("--why-not goes with one QUERY; ask about each on its own")
    if explained and ranker == "random":
        option = "--why-not" if context.params["why_not"] is not None else "--explain"
        raise UsageError(f"random scores have no ledger; leave --ranker or {option} out")
    if not explained:
        refuse_given(context, ("granularity", "pairs_per_hit"), "a search without --explain")
    if context.params["rerank"] is None:
        refuse_given(context, RERANKING[1:], "a search without --rerank")
        if ranker not in ("dense", "hybrid"):
            refuse_given(context, ("granularity", "pairs_per_hit"), f"the ranker {ranker}, which counts words")
    if ranker != "static":
        refuse_given(context, ("vectors",), f"the ranker {ranker}; it is for static")
    is_plain = ranker == "dense" and context.params["rerank"] is None and context.params["why_not"] is None
    if not is_plain:
        what = f"the ranker {ranker}: a calibration is of vectors" if ranker != "dense" else "--rerank or --why-not"
        refuse_given(context, ("min_percentile", "min_probability"), what)
    if ranker not in ("dense", "hybrid"):
        refuse_given(context, MADE_WITH, f"the ranker {ranker}, which needs no index")


HITS_HELP = "A jsonl, csv, tsv or txt file with a hit on each line, a json file with an answer, or - for stdin."


@dataclass(frozen=True)
class HitColumns:
    """Which fields of a hit hold what; the usual names are found without them."""

    text_column: Annotated[str | None, Option(help="The field of texts.")] = None
    score_column: Annotated[str | None, Option(help="The field of scores.")] = None
    id_column: Annotated[str | None, Option(help="The field of ids.")] = None

    def read(self, file: str) -> list[ReturnedHit]:
        """The hits of a file or of stdin."""
        from likewise.data import Columns
        from likewise.search.returned_hits import read_hits

        return read_hits(file, Columns(text=self.text_column, score=self.score_column, id=self.id_column))


@command
def explain_hits(
    query: Annotated[str, Argument(help="What was asked; put -- before one that begins with a dash.")],
    file: Annotated[str, Argument(help=HITS_HELP)],
    model: ModelSettings,
    columns: HitColumns,
    similarity: Annotated[str, Option(help="cosine or dot.")] = "cosine",
    query_prompt: Annotated[str | None, Option(help="Put before the query; default: the model's own.")] = None,
    document_prompt: Annotated[str | None, Option(help="Put before each text; default: the model's own.")] = None,
    granularity: Annotated[str, Option(help="word, token or sentence.")] = "word",
    pairs_per_hit: Annotated[
        int | None, Option(help="Word pairs of every hit. Default: 5 of the first hits.", min=0)
    ] = None,
    full: Annotated[bool, Option("--full", help="Show whole texts, and not snippets.")] = False,
    out: Annotated[Path | None, Option(help="A folder for run.json, tables and a page.")] = None,
    html: Annotated[Path | None, Option(help="Write a page of explained hits.")] = None,
    as_json: Json = False,
) -> None:
    """Explain hits that any system returned, and check their scores: which words carry them, why above the next."""
    from likewise.explain.texts import check_granularity
    from likewise.search.explained_hits import explain_hits as explained
    from likewise.search.hits import check_search

    check_search([query], 1)
    check_granularity(granularity)
    output, hits = Output(out, html, None, as_json), columns.read(file)
    with progress_bar() as progress:
        found = explained(
            model.load(), query, hits, similarity=similarity, query_prompt=query_prompt,
            document_prompt=document_prompt, granularity=granularity, pairs_per_hit=pairs_per_hit, progress=progress,
        )  # fmt: skip
    output.show(replace(found, full=full), **model.documented())


@dataclass(frozen=True)
class _Question:
    """What is asked of a search."""

    queries: Sequence[str]
    k: int
    selection: Selection
    explained: bool
    options: Mapping[str, Any]  # of explained hits
    full: bool
    least: Least
    name: str  # what is searched, as the user wrote it

    def hits(self, searcher: Searcher, progress: Progress) -> SearchResult:
        """The hits of all queries."""
        from likewise.search.calibration_store import Calibrated
        from likewise.search.hits import SearchResult
        from likewise.search.searcher import explained_search

        chosen: dict[str, Any] = {"where": self.selection.where, "aggregate": self.selection.aggregate}
        if isinstance(searcher, Calibrated):
            searcher.check_least(self.least, self.name)
            chosen["least"] = self.least
        if self.explained:
            how = {"progress": progress, **chosen, **self.options}
            hits = [explained_search(searcher, query, self.k, **how) for query in self.queries]
        else:
            hits = searcher.search_many(self.queries, self.k, progress, **chosen)
        return SearchResult(tuple(replace(one, full=self.full) for one in hits), searcher.engine, searcher.summary())

    def why_not(self, searcher: Searcher, name: str, progress: Progress) -> WhyNot:
        """Why a text is not among the hits of the one query."""
        how = {"where": self.selection.where, "progress": progress, **self.options}
        found = searcher.why_not(self.queries[0], name, self.k, **how)
        return replace(found, full=self.full)


@dataclass(frozen=True)
class SearchSource:
    """What is searched, opened only as far as a ranker needs it."""

    where: str
    model: ModelSettings
    files: FileSettings
    options: IndexOptions
    context: Context
    with_metadata: bool = False

    @property
    def is_index(self) -> bool:
        """Whether it is an index, and not a file of texts."""
        from likewise.search.stores.folder import has_scheme

        return has_scheme(self.where) or Path(self.where).is_dir()

    def index(self, progress: Progress) -> Index:
        """The index itself, or the cached one of a file."""
        from likewise.data import locate
        from likewise.search.indexed_files import cached_index

        if self.is_index:
            refuse_given(self.context, MADE_WITH, "an index: it keeps the settings it was made with")
            return self.model.opened(self.where, self.context)
        locate(self.where, self.files.data_dir)  # a missing file is an error before the model is loaded
        model = self.model.load()
        # A filter needs the metadata.
        plain = self.with_metadata and not self.options.passages
        options = replace(self.options, metadata=True) if plain else self.options
        done = cached_index(model, self.files.dataset(self.where), options.settings(), progress)
        if done.skipped.count:
            notice(str(done.skipped))
        return done.index

    @contextmanager
    def searcher(self, ranker: str, vectors: Path | None, progress: Progress) -> Iterator[Searcher]:
        """The index, a baseline, which needs no index, or BM25 and the model together."""
        from likewise.search.baselines import RankedCorpus, baseline, stored_corpus, text_corpus

        if ranker in ("dense", "hybrid"):
            with self.index(progress) as index:
                yield index if ranker == "dense" else RankedCorpus.hybrid(index)
            return
        model = self._model() if ranker == "input-embeddings" else None
        if self.is_index:
            corpus = stored_corpus(self.where)
        else:
            corpus, skipped = text_corpus(self.files.dataset(self.where), self.with_metadata)
            if skipped.count:
                notice(str(skipped))
        yield RankedCorpus(baseline(ranker, corpus.texts, encoder=model, vectors=vectors), corpus)

    def _model(self) -> Encoder:
        if not self.is_index:
            return self.model.load()
        with self.model.opened(self.where, self.context) as index:
            return index.encoder


@command
def index(
    context: Context,
    model: ModelSettings,
    files: FileSettings,
    options: IndexOptions,
    team: TeamSettings,
    file: Annotated[str | None, Argument(help=DOCUMENTS_HELP)] = None,
    out: Annotated[Path | None, Option(help="The index's folder.")] = None,
    store: Annotated[
        str | None,
        Option(help="Store the vectors elsewhere: milvus://HOST:PORT/COLLECTION, milvus:FILE.db,"
                     " qdrant://HOST:PORT/COLLECTION or postgresql://HOST:PORT/DATABASE/TABLE."
                     " With it, --out is a folder that points there."),
    ] = None,
    add: Annotated[bool, Option("--add", help="Add the file's texts to the index.")] = False,
    replaces: Annotated[
        bool, Option("--replace", help="Build anew; readers see the old index until then.")
    ] = False,
    delete: Annotated[list[str] | None, Option(help="Delete the text of this id; repeat.")] = None,
    prefix: Annotated[str, Option(help="With --add: put before each new id.")] = "",
    parquet: Annotated[
        str | None, Option(help="Also write all rows as Parquet files for other engines: a new folder or a URI.")
    ] = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Build an index of a file or folder of any size, add to it, delete from it, or show what it is.

    The same command again continues where it stopped. A folder never holds half an index: readers see the old one
    until the new one is whole.
    """
    from likewise.search.stores.folder import address_of, check_pointer, has_scheme

    _check_modes(
        file, out, store, {"--add": add, "--replace": replaces, "--delete": bool(delete), "--prefix": bool(prefix)}
    )
    where = address_of(out, store)
    if has_scheme(where):
        refuse_given(context, ("engine", "bits"), "a server, which has its own index")
    if store is not None and out is not None:
        check_pointer(out)
    if file is not None and not add:
        with team.opened(model) as (settings, workers):
            info = _build(settings.load(), workers, files, (file, where, replaces), options, out)
    else:
        refuse_given(context, MADE_WITH, "an existing index: it keeps the settings it was made with")
        if file is None:
            what = "--delete or a look at the index, which load no model"
            refuse_given(context, (*MODEL_OPTIONS, *option_names(TeamSettings)), what)
        else:
            from likewise.search.indexed_files import add_file

            with (
                team.opened(model) as (settings, workers),
                settings.opened(where, context) as index,
                progress_bar() as progress,
            ):
                skipped = add_file(index, files.dataset(file), prefix, progress, workers)
            if skipped.count:
                notice(str(skipped))
        info = _deleted(where, delete or [])
    if parquet is not None:
        _export(where, parquet)
    Output(as_json=as_json).show(info)


def _check_modes(file: str | None, out: Path | None, store: str | None, modes: dict[str, bool]) -> None:
    if out is None and store is None:
        raise UsageError("say where the index is: --out FOLDER, or --store ADDRESS")
    if modes["--add"] and modes["--replace"]:
        raise UsageError("--add does not go with --replace; leave one of them out")
    if modes["--delete"] and file is not None:
        raise UsageError("--delete goes without a FILE; delete first, then add")
    if file is None and (modes["--add"] or modes["--replace"]):
        raise UsageError("--add and --replace need the FILE of texts")
    if modes["--prefix"] and not modes["--add"]:
        raise UsageError("--prefix goes with --add")


def _export(where: str, parquet: str) -> None:
    from likewise.data.remote import path_of
    from likewise.search.export import export_parquet
    from likewise.search.stores import open_store

    with open_store(where) as store, progress_bar() as progress:
        done = export_parquet(store, path_of(parquet), progress)
    notice(f"{done.rows} rows as Parquet in {parquet}")


def _build(
    model: Encoder,
    workers: Team,
    files: FileSettings,
    target: tuple[str, str, bool],
    options: IndexOptions,
    out: Path | None,
) -> IndexInfo:
    from likewise.search.indexed_files import index_file
    from likewise.search.stores.address import write_pointer

    file, where, replaces = target
    with progress_bar() as progress:
        how: dict[str, Any] = {"replace": replaces, "progress": progress, "workers": workers}
        done = index_file(model, files.dataset(file), where, options.settings(), **how)
    if done.skipped.count:
        notice(str(done.skipped))
    if done.cached:
        notice(f"{where} already holds this index; nothing to do")
    if out is not None and str(out) != where:
        write_pointer(out, where)
    with done.index as index:
        return index.info


def _deleted(where: str, ids: list[str]) -> IndexInfo:
    """Delete texts without loading a model; returns what the index is then."""
    from likewise.search.index import IndexInfo
    from likewise.search.stores import open_store

    with open_store(where) as store:
        if ids:
            store.delete(ids)
        return IndexInfo.of(store.reopened())
