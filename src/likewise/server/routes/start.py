"""Routes that every view needs: available models, corpora, options and limits; and the upload of corpora."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Header, HTTPException, Request
from fastapi.concurrency import run_in_threadpool

from likewise.encoder.pooling import POOLERS
from likewise.errors import UsageError
from likewise.explain.linear_map import METHODS
from likewise.geometry.trajectories import EXAMPLES
from likewise.results.result import versions
from likewise.server.offers import Corpus
from likewise.server.schemas import StudioResponse
from likewise.server.studio import StudioDep

router = APIRouter(tags=["start"])

PAIRS = (
    ("Fire in hospital kills 38", "38 feared dead in hospital fire"),
    ("He did not buy the house.", "He bought the house."),
    ("A man is playing a guitar.", "Somebody makes music on stage."),
    ("The cat sat on the mat.", "The mat was under the cat."),
    ("Three boats left the harbour.", "Five boats left the harbour."),
)
"""Pairs to click on. The studio opens with the first one; the second one is what to try next."""


class LayerExample(StudioResponse):
    """Sentences, the word to follow in each, and what there is to see."""

    look_for: str
    texts: list[str]
    words: list[str]


class Examples(StudioResponse):
    """Texts to click on."""

    pairs: list[tuple[str, str]]
    layers: dict[str, LayerExample]


class StartResponse(StudioResponse):
    """Everything that the views offer."""

    version: str
    models: list[str]
    poolings: list[str]
    methods: list[str]
    corpora: list[Corpus]
    examples: Examples
    grammar: bool
    limits: dict[str, int]


@router.get("/start")
def start(studio: StudioDep) -> StartResponse:
    """Everything that the views offer."""
    layers = {name: LayerExample.model_validate(asdict(one)) for name, one in EXAMPLES.items()}
    return StartResponse(
        version=versions()["likewise"],
        models=list(studio.models.models()),
        poolings=sorted(POOLERS),
        methods=list(METHODS),
        corpora=studio.corpora.all(),
        examples=Examples(pairs=list(PAIRS), layers=layers),
        grammar=bool(studio.grammar_name()),
        limits=asdict(studio.settings.limits),
    )


@router.get("/corpora")
def corpora(studio: StudioDep) -> list[Corpus]:
    """Every corpus."""
    return studio.corpora.all()


@router.post("/corpora", status_code=201)
async def upload(
    request: Request, studio: StudioDep, x_file_name: Annotated[str, Header(min_length=1, max_length=400)]
) -> Corpus:
    """Store a file; its percent-encoded name is a header, its content is the body."""
    content = await request.body()
    if not content:
        raise UsageError("the file is empty; choose one with at least one row")
    name = unquote(x_file_name)
    return await run_in_threadpool(studio.side_executor.run, lambda: studio.uploads.add(name, content))


@router.delete("/corpora/{corpus}", status_code=204)
def remove(corpus: str, studio: StudioDep) -> None:
    """Delete an uploaded file."""
    if not studio.uploads.remove(corpus):
        raise HTTPException(404, "no uploaded corpus of this name")
