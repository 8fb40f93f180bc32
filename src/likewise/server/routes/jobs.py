"""Jobs: how far long work has come, its results, and a way to stop it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import FileResponse, StreamingResponse

from likewise.server.jobs import OVER, Job
from likewise.server.routes.answers import ERRORS
from likewise.server.schemas import JobAnswer
from likewise.server.studio import Here, Studio

router = APIRouter(prefix="/jobs", tags=["jobs"], responses=ERRORS)

SECONDS_BETWEEN_LOOKS, SECONDS_BETWEEN_SIGNS = 0.2, 10.0
NO_JOB = "no such job"


def answer(job: Job) -> JobAnswer:
    """A job as it is told."""
    return JobAnswer(**asdict(job))


@router.get("")
def all_jobs(studio: Here, room: str | None = None) -> list[JobAnswer]:
    """Every job, the newest first."""
    return [answer(job) for job in studio.jobs.all(room)]


@router.get("/{job}")
def one(job: str, studio: Here) -> JobAnswer:
    """How far a job has come."""
    return answer(_known(studio, job))


@router.get("/{job}/result")
def result(job: str, studio: Here) -> FileResponse:
    """What came of a job."""
    path = studio.jobs.result(_known(studio, job).id)
    if path is None:
        raise HTTPException(409, "the job has no result yet")
    return FileResponse(path, media_type="application/json")


@router.post("/{job}/cancel")
def cancel(job: str, studio: Here) -> JobAnswer:
    """Stop a job."""
    found = studio.jobs.cancel(_known(studio, job).id)
    assert found is not None
    return answer(found)


@router.delete("/{job}", status_code=204)
def forget(job: str, studio: Here) -> None:
    """Take a job that is over away, with its result."""
    if not studio.jobs.forget(_known(studio, job).id):
        raise HTTPException(409, "the job is not over; cancel it first")


@router.get("/{job}/events", response_class=StreamingResponse)
def events(job: str, studio: Here, request: Request) -> StreamingResponse:
    """Server-sent events: the job whenever it changes, until it is over."""
    _known(studio, job)
    return StreamingResponse(
        _changes(studio, job, request), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


async def _changes(studio: Studio, name: str, request: Request) -> AsyncIterator[str]:
    last, quiet = None, 0.0
    while not await request.is_disconnected():
        job = studio.jobs.get(name)
        if job is None:
            return
        if job != last:
            last, quiet = job, 0.0
            yield f"data: {json.dumps(answer(job).model_dump())}\n\n"
        elif quiet >= SECONDS_BETWEEN_SIGNS:
            quiet = 0.0
            yield ": still here\n\n"
        if job.state in OVER:
            return
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        quiet += SECONDS_BETWEEN_LOOKS


def _known(studio: Studio, name: str) -> Job:
    job = studio.jobs.get(name)
    if job is None:
        raise HTTPException(404, NO_JOB)
    return job
