"""Layers: words and sentences followed as one types, and the geometry of a corpus."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from likewise.data.corpora import CorpusSource
from likewise.geometry.comparison import compare_geometry
from likewise.geometry.layers import compare_layers
from likewise.geometry.settings import GeometrySettings
from likewise.server.routes.answers import ERRORS
from likewise.server.routes.jobs import answer
from likewise.server.schemas import GeometryRequest, JobAnswer, LayersRequest
from likewise.server.studio import StudioDep

router = APIRouter(prefix="/layers", tags=["layers"], responses=ERRORS)


@router.post("")
def trajectories(asked: LayersRequest, studio: StudioDep) -> dict[str, Any]:
    """The cosine of a word of each text, or of the texts, in every layer."""
    texts = [studio.text(text) for text in asked.texts]
    found = studio.turns.answer(lambda: compare_layers(texts, asked.words, asked.models, studio.model_registry.encoder))
    return {"results": [one.to_dict() for one in found.results]}


@router.post("/geometry", status_code=202)
def geometry(asked: GeometryRequest, studio: StudioDep) -> JobAnswer:
    """Anisotropy, self-similarity and the rest, raw and corrected, as a job."""
    source = CorpusSource((studio.corpus(asked.corpus),), data_dir=studio.settings.data_dir, limit=asked.limit)
    given = studio.given(asked.corpus, *asked.models)

    def work(progress: Any, folder: Any) -> dict[str, Any]:
        del folder
        settings = GeometrySettings(min_contexts=asked.min_contexts)
        found = compare_geometry(source, asked.models, settings, studio.model_registry.encoder, progress)
        return {"results": [one.to_dict() for one in found.results], "names": found.names}

    title = f"geometry of {studio.corpora.name(asked.corpus)}"
    return answer(studio.jobs.ask("layers", title, asked.model_dump(), work, given))
