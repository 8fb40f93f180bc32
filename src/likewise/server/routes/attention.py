"""Attention: a study's points, clusterings of them, tests on what is brushed, and a pair's maps."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query

from likewise.attention import AttentionSettings
from likewise.attention.groups import AttentionPoints
from likewise.attention.maps import pair_maps
from likewise.attention.pipeline import study_dataset
from likewise.attention.settings import ClusterSettings
from likewise.data import Dataset
from likewise.errors import DataError
from likewise.server.jobs import Job
from likewise.server.routes.answers import ERRORS
from likewise.server.routes.jobs import answer
from likewise.server.schemas import AttentionRequest, BrushRequest, ClustersRequest, JobAnswer
from likewise.server.studio import Studio, StudioDep

router = APIRouter(prefix="/attention", tags=["attention"], responses=ERRORS)

ROOM, CLUSTERS = "attention", "clusters"
POINTS, STUDY = "points", "study"
MOST_FOUND = 50


@router.post("", status_code=202)
def study(asked: AttentionRequest, studio: StudioDep) -> JobAnswer:
    """Turn a corpus's attention maps into points of every layer, as a job."""
    file = Dataset(studio.corpus(asked.corpus), data_dir=studio.settings.data_dir, limit=asked.limit)
    studio.model_registry.require(asked.model)
    given = studio.given(asked.corpus, asked.model, grammar=True)

    def work(progress: Any, folder: Any) -> dict[str, Any]:
        # Clusterings are asked for one by one; the study itself needs no more than one.
        settings = AttentionSettings(asked.reducer, (), clusters=ClusterSettings(("kmeans",), most=3), control_pairs=0)
        grammar = studio.grammar_or_none()
        found = study_dataset(
            file, lambda: studio.model_registry.encoder(asked.model), grammar, settings, folder / STUDY, progress
        )
        points = AttentionPoints.of(replace(found, data=asked.corpus))
        points.save(folder / POINTS)
        shutil.rmtree(folder / STUDY)  # what the study kept to go on from, larger than all else
        return {
            "model": asked.model, "corpus": studio.corpora.name(asked.corpus), "reducer": asked.reducer,
            "depth": points.depth,
            "view": points.view.tolist(), "pairs": points.pairs,
            "variables": {name: values.tolist() for name, values in points.variables.items()},
            "loss": found.loss, "trivial_loss": found.trivial_loss,
        }  # fmt: skip

    title = f"attention on {studio.corpora.name(asked.corpus)} by {asked.model}"
    return answer(studio.jobs.ask(ROOM, title, asked.model_dump(), work, given))


@router.post("/{job}/clusters", status_code=202)
def clusters(job: str, asked: ClustersRequest, studio: StudioDep) -> JobAnswer:
    """Cluster a study's points in every layer, as a job."""
    known = _study(studio, job)
    # The others are told how many clusters to make; this one finds as many as there are.
    least, most = (2, MOST_FOUND) if asked.algorithm == "dbscan" else (asked.least, asked.most)
    settings = ClusterSettings(
        (asked.algorithm,), least, most, (asked.distance,), (asked.linkage,), (asked.covariance,),
        eps=() if asked.eps is None else (asked.eps,), smallest=0.0, most_noise=0.99,
    )  # fmt: skip

    def work(progress: Any, folder: Any) -> dict[str, Any]:
        del folder
        points = AttentionPoints.load(studio.jobs.folder(known.id) / POINTS)
        return {"study": known.id, "layers": points.clustered(settings, progress)}

    title = asked.algorithm + ("" if asked.algorithm == "dbscan" else f", {asked.least} to {asked.most} clusters")
    return answer(studio.jobs.ask(CLUSTERS, title, asked.model_dump() | {"study": known.id}, work))


@router.post("/clusters/{job}/brush")
def brushed(job: str, asked: BrushRequest, studio: StudioDep) -> dict[str, Any]:
    """The clusters and tests of one layer on some of the pairs."""
    path = studio.jobs.result(job)
    found = studio.jobs.get(job)
    if path is None or found is None or found.room != CLUSTERS:
        raise DataError("there is no such clustering yet; start it first")
    layers = json.loads(path.read_text(encoding="utf-8"))["layers"]
    if asked.layer > len(layers):
        raise DataError(f"no layer {asked.layer}; there are 1 to {len(layers)}")
    points = AttentionPoints.load(studio.jobs.folder(found.asked["study"]) / POINTS)
    return studio.turns.answer(lambda: points.tested(layers[asked.layer - 1]["labels"], asked.rows))


@router.get("/{job}/pairs/{row}")
def maps(job: str, row: int, studio: StudioDep, layer: Annotated[int, Query(ge=1)] = 1) -> dict[str, Any]:
    """A pair's own maps in every head of a layer."""
    known = _study(studio, job)
    points = AttentionPoints.load(studio.jobs.folder(known.id) / POINTS)
    if not 0 <= row < len(points.pairs):
        raise DataError(f"no pair {row}; there are 0 to {len(points.pairs) - 1}")
    left, right = points.pairs[row]
    shown = studio.answer(lambda encoder: pair_maps(encoder, left, right, layer), known.asked["model"])
    return {"left": left, "right": right, **shown}


def _study(studio: Studio, name: str) -> Job:
    job = studio.jobs.get(name)
    if job is None or job.room != ROOM or job.state != "done":
        raise DataError("there is no such study yet; start it first")
    return job
