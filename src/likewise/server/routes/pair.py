"""Two texts: their similarity, why, and how a second model sees them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from likewise.encoder import Encoder
from likewise.explain import Comparison, Explanation, compare, explain
from likewise.server.routes.answers import ERRORS
from likewise.server.schemas import CompareRequest, PairRequest
from likewise.server.studio import StudioDep

router = APIRouter(prefix="/pair", tags=["pair"], responses=ERRORS)


@router.post("")
def pair(asked: PairRequest, studio: StudioDep) -> dict[str, Any]:
    """The ledger of a pair, which sums to the similarity."""
    texts = studio.text(asked.left), studio.text(asked.right)

    def work(encoder: Encoder) -> Explanation:
        studio.require_brief(encoder, texts, asked.granularity, asked.method, asked.bias)
        settings = {"bias": asked.bias, "reference": asked.reference}
        given: Any = {name: value for name, value in settings.items() if value is not None}
        found: Explanation = explain(encoder, *texts, asked.method, asked.granularity, asked.similarity, **given)
        return found

    found = studio.answer(work, asked.model, **asked.options())
    shares = {"left": found.left_shares.tolist(), "right": found.right_shares.tolist()}
    return found.to_dict() | {"ledger": found.ledger, "shares": shares}


@router.post("/compare")
def compared(asked: CompareRequest, studio: StudioDep) -> dict[str, Any]:
    """The same pair through two models or readings, and what changes from the first to the second."""
    left, right = studio.text(asked.left), studio.text(asked.right)

    def work() -> Comparison:
        first = studio.read(asked.model, **asked.options())
        second = studio.read(asked.other.model, **asked.other.options())
        for encoder in (first, second):
            studio.require_brief(encoder, (left, right), "word")
        return compare(first, second, left, right)

    return studio.turns.answer(work).to_dict()
