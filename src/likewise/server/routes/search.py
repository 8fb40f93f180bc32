"""Search: an index of a corpus, explained hits, classic rankers beside it, and recall."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from likewise.data import GUESSED, Columns, pair_columns
from likewise.encoder import Encoder
from likewise.encoder.stream import TextSource
from likewise.errors import DataError
from likewise.search.baselines import baseline
from likewise.search.evaluation import RetrievalSource
from likewise.search.explained import explained_search
from likewise.search.index import Index, IndexSettings
from likewise.search.indexing import index_file, ranked_hits, text_corpus
from likewise.search.retrieval_grid import RetrievalGrid, compare_retrieval
from likewise.server.routes.answers import ERRORS
from likewise.server.routes.jobs import answer
from likewise.server.schemas import BaselineRequest, IndexRequest, JobAnswer, RecallRequest, SearchRequest
from likewise.server.studio import RankedTexts, Studio, StudioDep

router = APIRouter(prefix="/search", tags=["search"], responses=ERRORS)

FOLDER = "index"


def _source(studio: Studio, corpus: str) -> TextSource:
    """The texts of a corpus; of pairs the second ones, which the first ones are to find where recall is measured."""
    file, data_dir = studio.corpus(corpus), studio.settings.data_dir
    pairs = pair_columns(file, data_dir=data_dir)
    return TextSource(file, GUESSED if pairs is None else Columns(text=pairs[1]), data_dir)


@router.post("/index", status_code=202)
def build(asked: IndexRequest, studio: StudioDep) -> JobAnswer:
    """Build the index of a corpus as a job; its name is the index's."""
    source = _source(studio, asked.corpus)
    given = studio.given(asked.corpus, asked.model)

    def work(progress: Any, folder: Any) -> dict[str, Any]:
        encoder = studio.read(asked.model, **asked.options())
        made = index_file(encoder, source, folder / FOLDER, IndexSettings(engine=asked.engine), progress=progress)
        return {"texts": len(made.index), "corpus": asked.corpus, "model": asked.model}

    title = f"index of {studio.corpora.name(asked.corpus)} by {asked.model}"
    return answer(studio.jobs.ask("search", title, asked.model_dump(), work, given))


@router.post("")
def search(asked: SearchRequest, studio: StudioDep) -> dict[str, Any]:
    """The best texts for a query, each with the words that carry its score and what puts it above the next."""
    query = studio.text(asked.query)
    job = studio.jobs.get(asked.index)
    if job is None or job.room != "search" or job.state != "done":
        raise DataError("there is no such index yet; build it first")
    how = IndexRequest(**job.asked)
    path = studio.jobs.folder(job.id) / FOLDER
    made = (job.id, job.began, studio.model_registry.stamp(how.model))

    def work(encoder: Encoder) -> dict[str, Any]:
        index = studio.indexes.get(made, lambda: Index.open(path, encoder))
        if not asked.explain:
            return index.search(query, asked.k).to_dict()
        return explained_search(index, query, asked.k).to_dict()

    return studio.answer(work, how.model, **how.options())


@router.post("/baseline")
def by_baseline(asked: BaselineRequest, studio: StudioDep) -> dict[str, Any]:
    """The best texts for a query by a classic ranker."""
    query = studio.text(asked.query)
    made = (asked.ranker, studio.corpora.stamp(asked.corpus))

    def make() -> RankedTexts:
        corpus, _ = text_corpus(_source(studio, asked.corpus))
        return baseline(asked.ranker, corpus.texts), corpus

    def work() -> dict[str, Any]:
        [hits] = ranked_hits(*studio.rankers.get(made, make), [query], asked.k)
        return hits.to_dict()

    return studio.aside.answer(work)


@router.post("/recall", status_code=202)
def recall(asked: RecallRequest, studio: StudioDep) -> JobAnswer:
    """Recall curves of a corpus of pairs as a job."""
    file = studio.corpus(asked.corpus)
    given = studio.given(asked.corpus, *asked.models)

    def work(progress: Any, folder: Any) -> dict[str, Any]:
        del folder
        task = RetrievalSource(file, limit=asked.limit, data_dir=studio.settings.data_dir).read()
        grid = RetrievalGrid(models=tuple(asked.models), rankers=tuple(asked.rankers))
        return {"table": compare_retrieval(task, grid, studio.model_registry.encoder, progress).to_dict()}

    title = f"recall on {studio.corpora.name(asked.corpus)}"
    return answer(studio.jobs.ask("recall", title, asked.model_dump(), work, given))
