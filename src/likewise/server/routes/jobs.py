"""Routes of jobs: progress events, results, cancellation and deletion."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import FileResponse, StreamingResponse

from likewise.server.guards import disconnected
from likewise.server.jobs import Job, Jobs
from likewise.server.routes.attention import AttentionResult, ClustersResult
from likewise.server.routes.corpus import LintResult, PosRelevanceResult
from likewise.server.routes.layers import GeometryResult
from likewise.server.routes.search import IndexResult, RecallResult
from likewise.server.routes.training import TrainResult
from likewise.server.studio import Studio, StudioDep

router = APIRouter(prefix="/jobs", tags=["jobs"])
SECONDS_BETWEEN_EVENTS, SECONDS_BETWEEN_SIGNS = 0.1, 10.0
JobResult = (
    AttentionResult | ClustersResult | LintResult | PosRelevanceResult | GeometryResult | IndexResult | RecallResult
    | TrainResult
)  # fmt: skip


@router.get("")
def all_jobs(studio: StudioDep, view: Annotated[str | None, Query(alias="room")] = None) -> list[Job]:
    """Every job, the newest first."""
    return studio.jobs.all(view)


@router.get("/events", response_class=StreamingResponse)
def events(studio: StudioDep) -> StreamingResponse:
    """Server-sent events: every job, then each one when it changes, and ``forgotten`` with the id of a deleted one."""
    stream = changes(studio.jobs, disconnected.get() or Future())
    return StreamingResponse(stream, media_type="text/event-stream", headers={"cache-control": "no-store"})


async def changes(jobs: Jobs, gone: Future[None]) -> AsyncIterator[str]:
    """Jobs as events until the client is gone; the jobs wake this stream, which bundles fast changes."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def wake(*_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            if not changed.is_set():
                loop.call_soon_threadsafe(changed.set)

    unsubscribe = jobs.subscribe(wake)
    gone.add_done_callback(wake)
    sent: dict[str, Job] = {}
    try:
        while not gone.done():
            changed.clear()
            current = {job.id: job for job in jobs.all()}
            for job in current.values():
                if sent.get(job.id) != job:
                    yield f"data: {job.to_json()}\n\n"
            for name in sent.keys() - current.keys():
                yield f"event: forgotten\ndata: {json.dumps(name)}\n\n"
            sent = current
            try:
                await asyncio.wait_for(changed.wait(), SECONDS_BETWEEN_SIGNS)
                await asyncio.sleep(SECONDS_BETWEEN_EVENTS)
            except TimeoutError:
                yield ": still here\n\n"
    finally:
        unsubscribe()


@router.get("/{job}")
def one_job(job: str, studio: StudioDep) -> Job:
    """A job and its progress."""
    return _known(studio, job)


@router.get("/{job}/result", response_model=JobResult)
def result(job: str, studio: StudioDep) -> FileResponse:
    """The result of a job."""
    path = studio.jobs.result(_known(studio, job).id)
    if path is None:
        raise HTTPException(409, "the job has no result yet")
    return FileResponse(path, media_type="application/json")


@router.post("/{job}/cancel")
def cancel(job: str, studio: StudioDep) -> Job:
    """Stop a job."""
    found = studio.jobs.cancel(_known(studio, job).id)
    assert found is not None
    return found


@router.delete("/{job}", status_code=204)
def forget(job: str, studio: StudioDep) -> None:
    """Delete a finished job with its result."""
    if not studio.jobs.forget(_known(studio, job).id):
        raise HTTPException(409, "the job is not over; cancel it first")


def _known(studio: Studio, name: str) -> Job:
    job = studio.jobs.get(name)
    if job is None:
        raise HTTPException(404, "no such job")
    return job
