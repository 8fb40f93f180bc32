"""Routes of the attention view: points of a study, clusterings, tests of selected pairs, and the maps of one pair."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from likewise.attention import AttentionSettings
from likewise.attention.groups import AttentionPoints
from likewise.attention.maps import pair_maps
from likewise.attention.pipeline import study_dataset
from likewise.attention.settings import ClusterSettings
from likewise.errors import DataError, LikewiseError
from likewise.progress import Progress
from likewise.server.jobs import Job
from likewise.server.schemas import Matrix, Name, Number, StudioRequest, StudioResponse
from likewise.server.studio import Studio, StudioDep

router = APIRouter(prefix="/attention", tags=["attention"])
VIEW, CLUSTERS, POINTS = "attention", "clusters", "points"
MOST_FOUND, MOST_ROWS = 50, 50_000


class AttentionRequest(StudioRequest):
    """Points of a model's attention maps on a corpus of scored pairs."""

    corpus: Name
    model: Name = "minilm"
    reducer: Literal["lstm", "pca", "umap"] = "pca"
    limit: int | None = Field(None, ge=10)


class ClustersRequest(StudioRequest):
    """Clusterings of a study's points."""

    algorithm: Literal["kmeans", "dbscan", "agglomerative", "spectral", "gaussian-mixture"] = "kmeans"
    least: int = Field(2, ge=2, le=50)
    most: int = Field(8, ge=2, le=50)
    distance: Literal["euclidean", "manhattan", "cosine"] = "euclidean"
    linkage: Literal["ward", "complete", "average", "single"] = "ward"
    covariance: Literal["full", "tied", "diag", "spherical"] = "full"
    eps: float | None = Field(None, gt=0)


class BrushRequest(StudioRequest):
    """A clustering's tests on some of the pairs."""

    layer: int = Field(ge=1, le=200)
    rows: Annotated[list[Annotated[int, Field(ge=0, lt=MOST_ROWS)]], Field(max_length=MOST_ROWS)] | None = None
    """of the pairs; the default is all of them"""


class AttentionResult(StudioResponse):
    """The points of every layer, and the variables of the pairs."""

    model: str
    corpus: str
    reducer: str
    depth: int
    view: list[list[tuple[float, float]]]
    pairs: list[tuple[str, str]]
    variables: dict[str, list[Number]]
    loss: Number
    trivial_loss: Number


class ClusterSummary(StudioResponse):
    """A cluster's size, and the least, the quartiles and the most of each variable."""

    label: int
    n: int
    quartiles: dict[str, list[float] | None]


class PairTest(StudioResponse):
    """The Mann-Whitney test of two clusters."""

    first: int
    second: int
    u: Number
    p: Number
    holm: Number
    rank_biserial: Number


class ClusterTest(StudioResponse):
    """The Kruskal-Wallis test of all clusters, and the tests of all pairs of them."""

    n: int
    k: int
    h: Number
    kruskal_p: Number
    epsilon2: Number
    eta2: Number
    pairs_significant: Number
    pairs: list[PairTest]


class BrushResponse(StudioResponse):
    """Clusters and tests of some pairs."""

    n: int
    clusters: list[ClusterSummary]
    tests: dict[str, ClusterTest | None]


class LayerClusters(BrushResponse):
    """The clustering of one layer."""

    layer: int
    algorithm: str
    k: int
    noise: float
    silhouette: Number
    davies_bouldin: Number
    calinski_harabasz: Number
    labels: list[int]


class ClustersResult(StudioResponse):
    """The clusterings of all layers."""

    study: str
    layers: list[LayerClusters]


class MapsResponse(StudioResponse):
    """The attention maps of a pair in one layer."""

    left: str
    right: str
    tokens: list[str]
    heads: list[Matrix]
    mean: Matrix


@router.post("", status_code=202)
def study(request: AttentionRequest, studio: StudioDep) -> Job:
    """Turn a corpus's attention maps into points of every layer, as a job."""
    dataset = studio.dataset(request.corpus, request.limit)
    depends_on = studio.dependencies(request.corpus, request.model, grammar=True)
    name = studio.corpora.name(request.corpus)

    def work(progress: Progress, folder: Path) -> AttentionResult:
        # Clusterings are separate requests; the study itself needs at least one.
        clusters = ClusterSettings(("kmeans",), most=3)
        settings = AttentionSettings(request.reducer, (), clusters=clusters, control_pairs=0)
        load, grammar = partial(studio.models.encoder, request.model), None
        with suppress(LikewiseError):
            grammar = studio.grammar()
        found = study_dataset(dataset, load, grammar, settings, folder / "study", progress)
        points = AttentionPoints.of(found)
        points.save(folder / POINTS)
        shutil.rmtree(folder / "study")  # only needed to resume, and larger than all else
        return AttentionResult(
            model=request.model, corpus=name, reducer=request.reducer, depth=points.depth, view=points.view.tolist(),
            pairs=list(points.pairs), loss=found.loss, trivial_loss=found.trivial_loss,
            variables={variable: values.tolist() for variable, values in points.variables.items()},
        )  # fmt: skip

    title = f"attention on {name} by {request.model}"
    return studio.jobs.submit(VIEW, title, request.model_dump(), work, depends_on)


@router.post("/{job}/clusters", status_code=202)
def clusters(job: str, request: ClustersRequest, studio: StudioDep) -> Job:
    """Cluster a study's points in every layer, as a job."""
    known = _study(studio, job)
    # DBSCAN finds the number of clusters itself; the other algorithms need it.
    counts = (2, MOST_FOUND) if request.algorithm == "dbscan" else (request.least, request.most)
    settings = ClusterSettings(
        (request.algorithm,), *counts, (request.distance,), (request.linkage,), (request.covariance,),
        eps=() if request.eps is None else (request.eps,), smallest=0.0, most_noise=0.99,
    )  # fmt: skip

    def work(progress: Progress, _: Any) -> ClustersResult:
        points = AttentionPoints.load(studio.jobs.folder(known.id) / POINTS)
        return ClustersResult.model_validate({"study": known.id, "layers": points.clustered(settings, progress)})

    range_of = "" if request.algorithm == "dbscan" else f", {request.least} to {request.most} clusters"
    document = request.model_dump() | {"study": known.id}
    return studio.jobs.submit(CLUSTERS, request.algorithm + range_of, document, work)


@router.post("/clusters/{job}/brush")
def brush(job: str, request: BrushRequest, studio: StudioDep) -> BrushResponse:
    """The clusters and tests of one layer on some of the pairs."""
    path, found = studio.jobs.result(job), studio.jobs.get(job)
    if path is None or found is None or found.view != CLUSTERS:
        raise DataError("there is no such clustering yet; start it first")
    layers = json.loads(path.read_text(encoding="utf-8"))["layers"]
    if request.layer > len(layers):
        raise DataError(f"no layer {request.layer}; there are 1 to {len(layers)}")
    points = AttentionPoints.load(studio.jobs.folder(found.request["study"]) / POINTS)
    labels = layers[request.layer - 1]["labels"]
    return BrushResponse.model_validate(studio.executor.run(lambda: points.tested(labels, request.rows)))


@router.get("/{job}/pairs/{row}")
def maps(job: str, row: int, studio: StudioDep, layer: Annotated[int, Query(ge=1)] = 1) -> MapsResponse:
    """A pair's attention maps in every head of a layer."""
    known = _study(studio, job)
    points = AttentionPoints.load(studio.jobs.folder(known.id) / POINTS)
    if not 0 <= row < len(points.pairs):
        raise DataError(f"no pair {row}; there are 0 to {len(points.pairs) - 1}")
    left, right = points.pairs[row]
    shown = studio.run(lambda encoder: pair_maps(encoder, left, right, layer), known.request["model"])
    return MapsResponse(left=left, right=right, **shown)


def _study(studio: Studio, name: str) -> Job:
    job = studio.jobs.get(name)
    if job is None or job.view != VIEW or job.state != "done":
        raise DataError("there is no such study yet; start it first")
    return job
