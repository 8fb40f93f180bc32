"""Routes of the pair view: the similarity of two texts, its explanation, and a comparison of two models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field

from likewise.encoder import Encoder
from likewise.explain import Comparison, compare, explain
from likewise.explain.linear_map import METHODS
from likewise.server.schemas import Matrix, PoolingRequest, StudioResponse, Text
from likewise.server.studio import StudioDep

router = APIRouter(prefix="/pair", tags=["pair"])


class PairRequest(PoolingRequest):
    """Why two texts are similar."""

    left: Text
    right: Text
    method: Annotated[str, Field(json_schema_extra={"enum": list(METHODS)})] = "bilrp"
    granularity: Literal["token", "word", "sentence"] = "word"
    bias: Literal["separate", "local", "traced", "shared"] | None = None
    reference: Literal["none", "filler"] | None = None
    similarity: Literal["cosine", "dot"] = "cosine"


class CompareRequest(PoolingRequest):
    """A pair through two models or poolings."""

    left: Text
    right: Text
    other: PoolingRequest


class ExplainedSide(StudioResponse):
    """A text and its units."""

    text: str
    units: list[str]
    spans: list[tuple[int, int]]
    kinds: list[str]
    truncated: bool


class SideValues(StudioResponse):
    """A value for each unit of both texts."""

    left: list[float]
    right: list[float]


class BiasTerms(SideValues):
    """The bias terms of a ledger."""

    both: float


class Explanation(StudioResponse):
    """A ledger that sums to the similarity."""

    left: ExplainedSide
    right: ExplainedSide
    relevance: Matrix
    bias: BiasTerms
    similarity: float
    gap: float
    method: str
    model: str
    pooling: str
    by: str
    measure: str
    bias_mode: str
    relative_to: str
    complete: bool
    layer: str


class PairResponse(Explanation):
    """An explained pair, the sums of its ledger, and each unit's share."""

    ledger: dict[str, float]
    shares: SideValues


class UnitNames(StudioResponse):
    """The units of both texts."""

    left: list[str]
    right: list[str]


class CompareResponse(StudioResponse):
    """Two explanations of a pair, and what changes from the first to the second."""

    units: UnitNames
    difference: Matrix
    change: float
    gap: float
    first: Explanation
    second: Explanation


@router.post("")
def pair(request: PairRequest, studio: StudioDep) -> PairResponse:
    """The ledger of a pair, which sums to the similarity."""
    texts = studio.text(request.left), studio.text(request.right)

    def work(encoder: Encoder) -> PairResponse:
        studio.require_brief(encoder, texts, request.granularity, request.method, request.bias)
        settings = {"bias": request.bias, "reference": request.reference}
        given: Any = {name: value for name, value in settings.items() if value is not None}
        found = explain(encoder, *texts, request.method, request.granularity, request.similarity, **given)
        shares = {"left": found.left_shares.tolist(), "right": found.right_shares.tolist()}
        return PairResponse.model_validate(found.to_dict() | {"ledger": found.ledger, "shares": shares})

    return studio.run(work, request.model, **request.options())


@router.post("/compare")
def compare_models(request: CompareRequest, studio: StudioDep) -> CompareResponse:
    """The same pair through two models or poolings, and what changes from the first to the second."""
    left, right = studio.text(request.left), studio.text(request.right)

    def work() -> Comparison:
        first = studio.encoder(request.model, **request.options())
        second = studio.encoder(request.other.model, **request.other.options())
        for encoder in (first, second):
            studio.require_brief(encoder, (left, right), "word")
        return compare(first, second, left, right)

    return CompareResponse.model_validate(studio.executor.run(work).to_dict())
