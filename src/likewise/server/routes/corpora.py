"""Corpora: files of texts or pairs that a visitor brings."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Header, HTTPException, Request
from fastapi.concurrency import run_in_threadpool

from likewise.errors import UsageError
from likewise.server.corpora import brought
from likewise.server.routes.answers import ERRORS
from likewise.server.studio import StudioDep

router = APIRouter(prefix="/corpora", tags=["corpora"], responses=ERRORS)


@router.get("")
def corpora(studio: StudioDep) -> list[dict[str, Any]]:
    """Every corpus."""
    return [asdict(one) for one in studio.corpora.all()]


@router.post("", status_code=201)
async def add(
    request: Request, studio: StudioDep, x_file_name: Annotated[str, Header(min_length=1, max_length=400)]
) -> dict[str, Any]:
    """Keep an uploaded file; its name comes in a header, as in an address, and its content is the body."""
    content = await request.body()
    if not content:
        raise UsageError("the file is empty; choose one with at least one row")
    name = unquote(x_file_name)
    upload = await run_in_threadpool(studio.aside.answer, lambda: studio.uploads.add(name, content))
    return asdict(brought(upload))


@router.delete("/{corpus}", status_code=204)
def remove(corpus: str, studio: StudioDep) -> None:
    """Take an uploaded file away."""
    if not studio.uploads.remove(corpus):
        raise HTTPException(404, "no uploaded corpus of this name")
