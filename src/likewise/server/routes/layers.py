"""Layers: words and sentences followed as one types, and the geometry of a corpus."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from likewise.data import Dataset
from likewise.geometry import GeometrySettings, compare_geometry
from likewise.geometry.trajectories import Example, compare_layers
from likewise.plotting.text import unique_labels
from likewise.server.routes.answers import ERRORS
from likewise.server.routes.jobs import answer
from likewise.server.schemas import GeometryRequest, JobAnswer, LayersRequest
from likewise.server.studio import StudioDep

router = APIRouter(prefix="/layers", tags=["layers"], responses=ERRORS)


@router.post("")
def trajectories(asked: LayersRequest, studio: StudioDep) -> dict[str, Any]:
    """The cosine of a word of each text, or of the texts, in every layer."""
    example = Example("", tuple(studio.text(text) for text in asked.texts), tuple(asked.words))
    found = studio.turns.answer(lambda: compare_layers(example, asked.models, studio.model_registry.encoder))
    return {"results": [one.to_dict() for one in found.results]}


@router.post("/geometry", status_code=202)
def geometry(asked: GeometryRequest, studio: StudioDep) -> JobAnswer:
    """Anisotropy, self-similarity and the rest, raw and corrected, as a job."""
    corpus = Dataset(studio.corpus(asked.corpus), data_dir=studio.settings.data_dir, limit=asked.limit)
    given = studio.given(asked.corpus, *asked.models)

    def work(progress: Any, folder: Any) -> dict[str, Any]:
        del folder
        settings = GeometrySettings(min_contexts=asked.min_contexts)
        found = compare_geometry(corpus, asked.models, settings, studio.model_registry.encoder, progress)
        names = unique_labels([one.model for one in found.results])
        return {"results": [one.to_dict() for one in found.results], "names": names}

    title = f"geometry of {studio.corpora.name(asked.corpus)}"
    return answer(studio.jobs.ask("layers", title, asked.model_dump(), work, given))
