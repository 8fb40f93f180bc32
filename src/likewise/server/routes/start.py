"""What a page needs to begin with: models, corpora, choices and limits."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from likewise.encoder.pooling import POOLERS
from likewise.explain.methods import METHODS
from likewise.geometry.trajectories import EXAMPLES
from likewise.results.folder import versions
from likewise.server.routes.answers import ERRORS
from likewise.server.studio import StudioDep

router = APIRouter(tags=["start"], responses=ERRORS)

PAIRS = (
    ("Fire in hospital kills 38", "38 feared dead in hospital fire"),
    ("A man is playing a guitar.", "Somebody makes music on stage."),
    ("The cat sat on the mat.", "The mat was under the cat."),
    ("He did not buy the house.", "He bought the house."),
    ("Three boats left the harbour.", "Five boats left the harbour."),
)
"""Pairs to click on."""


@router.get("/start")
def start(studio: StudioDep) -> dict[str, Any]:
    """Everything that the views offer."""
    return {
        "version": versions()["likewise"],
        "models": [offer.name for offer in studio.model_registry.offers()],
        "poolings": sorted(POOLERS),
        "methods": list(METHODS),
        "corpora": [asdict(one) for one in studio.corpora.all()],
        "examples": {
            "pairs": [list(pair) for pair in PAIRS],
            "layers": {name: asdict(one) for name, one in EXAMPLES.items()},
        },
        "grammar": bool(studio.grammar_name()),
        "limits": asdict(studio.settings.limits),
    }
