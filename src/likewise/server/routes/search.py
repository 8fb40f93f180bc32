"""Routes of the search view: index, explained hits, baselines and recall."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field

from likewise.data import Columns, Dataset, pair_columns
from likewise.encoder import Encoder
from likewise.errors import DataError
from likewise.search.baselines import baseline, ranked_hits, text_corpus
from likewise.search.evaluation import RetrievalSource
from likewise.search.index import Index, IndexSettings
from likewise.search.indexed_files import index_file
from likewise.search.retrieval_grid import RetrievalGrid, compare_retrieval
from likewise.server.jobs import Job
from likewise.server.schemas import Limit, Models, Name, PoolingRequest, StudioRequest, StudioResponse, Text
from likewise.server.studio import RankedTexts, Studio, StudioDep

router = APIRouter(prefix="/search", tags=["search"])
FOLDER = "index"
Count = Annotated[int, Field(ge=1, le=50)]
RankerName = Literal["dense", "bm25", "tfidf", "bow", "random"]


class IndexRequest(PoolingRequest):
    """An index of a corpus."""

    corpus: Name
    engine: Literal["exact", "hnsw"] = "exact"


class SearchRequest(StudioRequest):
    """The best texts of an indexed corpus for a query."""

    index: Name
    query: Text
    k: Count = 10
    explain: bool = True


class BaselineRequest(StudioRequest):
    """The same query by a classic ranker."""

    corpus: Name
    query: Text
    ranker: Literal["bm25", "tfidf", "bow"] = "bm25"
    k: Count = 10


class RecallRequest(StudioRequest):
    """How often the second text of a pair finds the first."""

    corpus: Name
    models: Models
    rankers: list[RankerName] = Field(["dense", "bm25", "tfidf"], min_length=1)
    limit: Limit = None


class IndexResult(StudioResponse):
    """An index that is built."""

    texts: int
    corpus: str
    model: str


class HitWord(StudioResponse):
    """A unit of a hit and its share of the score."""

    text: str
    start: int
    end: int
    kind: str
    share: float


class QueryTerm(StudioResponse):
    """What a unit of the query adds to a margin."""

    query: str
    difference: float


class Margin(StudioResponse):
    """What puts a hit above the next."""

    difference: float
    by: list[QueryTerm]
    bias: float
    gap: float


class WordPair(StudioResponse):
    """A unit of the query with one of the hit."""

    query: str
    text: str
    relevance: float


class HitExplanation(StudioResponse):
    """Why a text is a hit."""

    words: list[HitWord]
    bias: float
    relative_to: str
    pairs: list[WordPair]
    gap: float
    above_next: Margin | None = None


class Hit(StudioResponse):
    """A text that is found."""

    rank: int
    id: str
    score: float
    text: str
    explanation: HitExplanation | None = None


class SearchResponse(StudioResponse):
    """The best texts for a query."""

    query: str
    ranker: str
    hits: list[Hit]


class RecallIntervals(StudioResponse):
    """The 95 % intervals of a ranker's measures."""

    recall: dict[str, tuple[float, float]]
    mrr: tuple[float, float]
    ndcg: tuple[float, float]


class Recall(StudioResponse):
    """How well one ranker finds the right texts."""

    model: str | None
    ranker: str
    n: int
    texts: int
    recall: dict[str, float]
    mrr: float
    ndcg: float
    intervals: RecallIntervals


class RecallTable(StudioResponse):
    """One row for each ranker."""

    results: list[Recall]


class RecallResult(StudioResponse):
    """Recall curves."""

    table: RecallTable


def _source(studio: Studio, corpus: str) -> Dataset:
    """The texts of a corpus; of pairs the first ones, which the second ones search where recall is measured."""
    dataset = studio.dataset(corpus)
    pairs = pair_columns(dataset.name, data_dir=dataset.data_dir)
    return dataset if pairs is None else replace(dataset, columns=Columns(text=pairs[0]))


@router.post("/index", status_code=202)
def build(request: IndexRequest, studio: StudioDep) -> Job:
    """Build the index of a corpus as a job; the job's id names the index."""
    source = _source(studio, request.corpus)

    def work(progress: Any, folder: Any) -> IndexResult:
        encoder = studio.encoder(request.model, **request.options())
        made = index_file(encoder, source, folder / FOLDER, IndexSettings(engine=request.engine), progress=progress)
        return IndexResult(texts=len(made.index), corpus=request.corpus, model=request.model)

    title = f"index of {studio.corpora.name(request.corpus)} by {request.model}"
    depends_on = studio.dependencies(request.corpus, request.model)
    return studio.jobs.submit("search", title, request.model_dump(), work, depends_on)


@router.post("", response_model_exclude_unset=True)
def search(request: SearchRequest, studio: StudioDep) -> SearchResponse:
    """The best texts for a query, with the words that carry each score and what puts each above the next."""
    query = studio.text(request.query)
    job = studio.jobs.get(request.index)
    if job is None or job.view != "search" or job.state != "done":
        raise DataError("there is no such index yet; build it first")
    built = IndexRequest(**job.request)
    path = studio.jobs.folder(job.id) / FOLDER
    key = (job.id, job.began, studio.models.fingerprint(built.model))

    def work(encoder: Encoder) -> dict[str, Any]:
        index = studio.indexes.get(key, lambda: Index.open(path, encoder))
        return index.search(query, request.k, explain=request.explain).to_dict()

    return SearchResponse.model_validate(studio.run(work, built.model, **built.options()))


@router.post("/baseline", response_model_exclude_unset=True)
def search_baseline(request: BaselineRequest, studio: StudioDep) -> SearchResponse:
    """The best texts for a query by a classic ranker."""
    query = studio.text(request.query)
    key = (request.ranker, studio.corpora.fingerprint(request.corpus))

    def make() -> RankedTexts:
        corpus, _ = text_corpus(_source(studio, request.corpus))
        return baseline(request.ranker, corpus.texts), corpus

    def work() -> dict[str, Any]:
        [hits] = ranked_hits(*studio.rankers.get(key, make), [query], request.k)
        return hits.to_dict()

    return SearchResponse.model_validate(studio.side_executor.run(work))


@router.post("/recall", status_code=202)
def recall(request: RecallRequest, studio: StudioDep) -> Job:
    """Recall curves of a corpus of pairs as a job."""
    dataset = studio.dataset(request.corpus, request.limit)

    def work(progress: Any, _: Any) -> RecallResult:
        task = RetrievalSource(dataset).read()
        grid = RetrievalGrid(models=tuple(request.models), rankers=tuple(request.rankers))
        found = compare_retrieval(task, grid, studio.models.encoder, progress)
        table = found.to_dict() | {"results": [one.to_dict() for one in found.results]}
        return RecallResult.model_validate({"table": table})

    title = f"recall on {studio.corpora.name(request.corpus)}"
    depends_on = studio.dependencies(request.corpus, *request.models)
    return studio.jobs.submit("recall", title, request.model_dump(), work, depends_on)
