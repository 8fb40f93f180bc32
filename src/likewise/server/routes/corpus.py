"""Routes of the corpus view: relevance by part of speech, and lint findings."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from likewise.lint.evidence import parsed_sides
from likewise.lint.lint import LintRules
from likewise.lint.lint import lint as lint_pairs
from likewise.lint.pos_relevance import pos_change
from likewise.lint.pos_study import corpus_relevance, setting_names
from likewise.server.jobs import Job
from likewise.server.schemas import Estimate, Limit, Matrix, Name, Number, PoolingRequest, StudioRequest, StudioResponse
from likewise.server.studio import StudioDep

router = APIRouter(prefix="/corpus", tags=["corpus"])


class PosRelevanceRequest(StudioRequest):
    """Relevance by part of speech in one setting or two."""

    corpus: Name
    first: PoolingRequest = PoolingRequest()
    second: PoolingRequest | None = None
    limit: Limit = None


class LintRequest(PoolingRequest):
    """Pairs of a corpus whose score rests on the wrong words."""

    corpus: Name
    limit: Limit = None


class PosTables(StudioResponse):
    """Relevance of class pairs by sign."""

    positive: Matrix
    negative: Matrix
    both: Matrix


class PosRelevance(StudioResponse):
    """Relevance between classes, summed and averaged."""

    classes: list[str]
    counts: list[list[int]]
    summed: PosTables
    averaged: PosTables


class StrongPair(StudioResponse):
    """Two words and their relevance."""

    id: str
    left: str
    right: str
    relevance: float
    similarity: float


class ErrorLevel(StudioResponse):
    """The error of pairs whose human score lies in a range."""

    name: str
    low: float
    high: float
    n: int
    error: Estimate | None
    human: Number
    predicted: Number


class LevelErrors(StudioResponse):
    """Errors by level of the human score."""

    levels: list[ErrorLevel]


class Disagreement(StudioResponse):
    """A pair whose human and predicted score differ."""

    id: str
    left: str
    right: str
    human: float
    predicted: float
    similarity: float
    difference: float


class PosSetting(StudioResponse):
    """A corpus by one model."""

    data: str
    model: str
    pooling: str
    n: int
    relevance: PosRelevance
    strongest: dict[str, list[StrongPair]]
    errors: LevelErrors | None
    farthest: list[Disagreement]


class PosChange(StudioResponse):
    """The relevance of a class pair in two settings."""

    first: str
    second: str
    before: float
    after: float
    change: float


class PosChanges(StudioResponse):
    """The class pairs that change most, by sign."""

    settings: tuple[str, str]
    summed: dict[str, list[PosChange]]
    averaged: dict[str, list[PosChange]]


class PosRelevanceResult(StudioResponse):
    """One or two settings, and what changes between them."""

    settings: list[PosSetting]
    change: PosChanges | None


class LintRule(StudioResponse):
    """How often a rule fires."""

    rule: str
    count: int
    candidates: int
    share: Estimate | None
    says: str


class Finding(StudioResponse):
    """A suspicious pair with its evidence."""

    rule: str
    id: str
    severity: float
    evidence: str
    similarity: float
    human: Number
    left: str
    right: str


class LintResult(StudioResponse):
    """All findings of a corpus."""

    data: str
    model: str
    n: int
    rules: list[LintRule]
    findings: list[Finding]


@router.post("/patterns", status_code=202)
def pos_relevance(request: PosRelevanceRequest, studio: StudioDep) -> Job:
    """Relevance between parts of speech and the strongest word pairs, in one setting or two, as a job."""
    studio.require_grammar()
    dataset = studio.dataset(request.corpus, request.limit)
    settings = [each for each in (request.first, request.second) if each is not None]
    depends_on = studio.dependencies(request.corpus, *(each.model for each in settings), grammar=True)

    def work(progress: Any, _: Any) -> PosRelevanceResult:
        pairs = dataset.pairs()
        parsed = parsed_sides(pairs, studio.grammar(), progress=progress)
        encoders = (studio.encoder(each.model, **each.options()) for each in settings)
        found = [corpus_relevance(one, pairs, parsed, data=request.corpus, progress=progress) for one in encoders]
        change = None
        if len(found) == 2:
            change = pos_change(setting_names(*found), found[0].classes, found[1].classes).to_dict()
        return PosRelevanceResult.model_validate({"settings": [one.to_dict() for one in found], "change": change})

    title = f"parts of speech of {studio.corpora.name(request.corpus)}"
    return studio.jobs.submit("corpus", title, request.model_dump(), work, depends_on)


@router.post("/lint", status_code=202)
def lint(request: LintRequest, studio: StudioDep) -> Job:
    """Suspicious pairs, each with its evidence, as a job."""
    studio.require_grammar()
    dataset = studio.dataset(request.corpus, request.limit)
    depends_on = studio.dependencies(request.corpus, request.model, grammar=True)

    def work(progress: Any, _: Any) -> LintResult:
        encoder = studio.encoder(request.model, **request.options())
        found = lint_pairs(encoder, dataset.pairs(), studio.grammar(), LintRules(), request.corpus, progress)
        return LintResult.model_validate(found.to_dict())

    title = f"lint of {studio.corpora.name(request.corpus)}"
    return studio.jobs.submit("lint", title, request.model_dump(), work, depends_on)
