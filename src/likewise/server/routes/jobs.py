"""Jobs: how far long work has come, its results, and a way to stop it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import FileResponse, StreamingResponse

from likewise.server.jobs import Job
from likewise.server.routes.answers import ERRORS
from likewise.server.schemas import JobAnswer
from likewise.server.studio import Studio, StudioDep

router = APIRouter(prefix="/jobs", tags=["jobs"], responses=ERRORS)

SECONDS_BETWEEN_LOOKS, SECONDS_BETWEEN_SIGNS = 0.2, 10.0
NO_JOB = "no such job"


def answer(job: Job) -> JobAnswer:
    """A job as it is told."""
    return JobAnswer(**asdict(job))


@router.get("")
def all_jobs(studio: StudioDep, room: str | None = None) -> list[JobAnswer]:
    """Every job, the newest first."""
    return [answer(job) for job in studio.jobs.all(room)]


@router.get("/events", response_class=StreamingResponse)
def events(studio: StudioDep, request: Request) -> StreamingResponse:
    """Server-sent events: every job, then each one whenever it changes; one stream for all that a page follows."""
    return StreamingResponse(
        changes(studio, request), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


async def changes(studio: Studio, request: Request) -> AsyncIterator[str]:
    """Jobs as events, until nobody listens any more."""
    summary: dict[str, Job] = {}
    quiet = 0.0
    while not await request.is_disconnected():
        changed = [job for job in studio.jobs.all() if summary.get(job.id) != job]
        for job in changed:
            summary[job.id] = job
            yield f"data: {json.dumps(answer(job).model_dump())}\n\n"
        quiet = 0.0 if changed else quiet + SECONDS_BETWEEN_LOOKS
        if quiet >= SECONDS_BETWEEN_SIGNS:
            quiet = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)


@router.get("/{job}")
def one(job: str, studio: StudioDep) -> JobAnswer:
    """How far a job has come."""
    return answer(_known(studio, job))


@router.get("/{job}/result")
def result(job: str, studio: StudioDep) -> FileResponse:
    """What came of a job."""
    path = studio.jobs.result(_known(studio, job).id)
    if path is None:
        raise HTTPException(409, "the job has no result yet")
    return FileResponse(path, media_type="application/json")


@router.post("/{job}/cancel")
def cancel(job: str, studio: StudioDep) -> JobAnswer:
    """Stop a job."""
    found = studio.jobs.cancel(_known(studio, job).id)
    assert found is not None
    return answer(found)


@router.delete("/{job}", status_code=204)
def forget(job: str, studio: StudioDep) -> None:
    """Take a job that is over away, with its result."""
    if not studio.jobs.forget(_known(studio, job).id):
        raise HTTPException(409, "the job is not over; cancel it first")


def _known(studio: Studio, name: str) -> Job:
    job = studio.jobs.get(name)
    if job is None:
        raise HTTPException(404, NO_JOB)
    return job
