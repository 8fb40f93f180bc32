"""Routes of the layers view: trajectories, and the geometry of a corpus."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from likewise.geometry import GeometrySettings, compare_geometry
from likewise.geometry.trajectories import Example, compare_layers
from likewise.plotting.terminal import unique_labels
from likewise.server.jobs import Job
from likewise.server.schemas import Limit, Matrix, Models, Name, Number, StudioRequest, StudioResponse, Text
from likewise.server.studio import StudioDep

router = APIRouter(prefix="/layers", tags=["layers"])
MOST_TEXTS = 12


class LayersRequest(StudioRequest):
    """Words or sentences to follow through the layers."""

    texts: Annotated[list[Text], Field(min_length=2, max_length=MOST_TEXTS)]
    words: list[Name] = Field([], max_length=MOST_TEXTS)
    models: Models = Field(["minilm"])


class GeometryRequest(StudioRequest):
    """The geometry of the layers on a corpus."""

    corpus: Name
    models: Models = Field(["minilm"])
    min_contexts: int = Field(5, ge=2, le=1000)
    limit: Limit = None


class Trajectory(StudioResponse):
    """The cosine of two words or texts in every layer."""

    left: int
    right: int
    words: tuple[str, str] | None
    cosine: list[Number]


class Trajectories(StudioResponse):
    """All pairs by one model."""

    model: str
    layers: list[int]
    pairs: list[Trajectory]
    texts: list[str]


class LayersResponse(StudioResponse):
    """All pairs by every model."""

    results: list[Trajectories]


class LayerGeometry(StudioResponse):
    """The measures of one layer by name, with their intervals, raw and corrected."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": True})

    layer: int
    intervals: dict[str, Any]
    corrected: dict[str, dict[str, Any]]


class Geometry(StudioResponse):
    """The geometry of one model."""

    model: str
    data: str
    texts: int
    occurrences: int
    layers: list[LayerGeometry]
    cka: Matrix


class GeometryResult(StudioResponse):
    """The geometry of every model, and short names of these."""

    results: list[Geometry]
    names: list[str]


@router.post("")
def trajectories(request: LayersRequest, studio: StudioDep) -> LayersResponse:
    """The cosine of a word of each text, or of the texts, in every layer."""
    example = Example("", tuple(studio.text(text) for text in request.texts), tuple(request.words))
    found = studio.executor.run(lambda: compare_layers(example, request.models, studio.models.encoder).results)
    return LayersResponse.model_validate({"results": [one.to_dict() for one in found]})


@router.post("/geometry", status_code=202)
def geometry(request: GeometryRequest, studio: StudioDep) -> Job:
    """Anisotropy, self-similarity and other measures, raw and corrected, as a job."""
    dataset = studio.dataset(request.corpus, request.limit)

    def work(progress: Any, _: Any) -> GeometryResult:
        settings = GeometrySettings(min_contexts=request.min_contexts)
        found = compare_geometry(dataset, request.models, settings, studio.models.encoder, progress)
        results = [one.to_dict() for one in found.results]
        names = unique_labels([one.model for one in found.results])
        return GeometryResult.model_validate({"results": results, "names": names})

    title = f"geometry of {studio.corpora.name(request.corpus)}"
    depends_on = studio.dependencies(request.corpus, *request.models)
    return studio.jobs.submit("layers", title, request.model_dump(), work, depends_on)
