"""A corpus of pairs: what its similarities rest on, and pairs whose score rests on the wrong things."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from likewise.data import Dataset
from likewise.lint.lint import LintRules, lint
from likewise.lint.parsed_pairs import parsed_sides
from likewise.lint.pos_relevance import pos_change
from likewise.lint.pos_study import corpus_relevance, setting_names
from likewise.server.routes.answers import ERRORS
from likewise.server.routes.jobs import answer
from likewise.server.schemas import JobAnswer, LintRequest, PosRelevanceRequest
from likewise.server.studio import Studio, StudioDep

router = APIRouter(prefix="/corpus", tags=["corpus"], responses=ERRORS)


def _file(studio: Studio, corpus: str, limit: int | None) -> Dataset:
    return Dataset(studio.corpus(corpus), data_dir=studio.settings.data_dir, limit=limit)


@router.post("/patterns", status_code=202)
def parts_of_speech(asked: PosRelevanceRequest, studio: StudioDep) -> JobAnswer:
    """Relevance between parts of speech and the strongest word pairs, by one setting or two, as a job."""
    studio.require_grammar()
    file = _file(studio, asked.corpus, asked.limit)
    variants = [each for each in (asked.first, asked.second) if each is not None]
    given = studio.given(asked.corpus, *(pooling_config.model for pooling_config in variants), grammar=True)

    def work(progress: Any, folder: Any) -> dict[str, Any]:
        del folder
        pairs = file.pairs()
        parsed = parsed_sides(pairs, studio.grammar(), progress=progress)
        found = [
            corpus_relevance(
                studio.read(each.model, **each.options()), pairs, parsed, data=asked.corpus, progress=progress
            )
            for each in variants
        ]
        change = None
        if len(found) == 2:
            change = pos_change(setting_names(*found), found[0].classes, found[1].classes).to_dict()
        return {"settings": [one.to_dict() for one in found], "change": change}

    title = f"parts of speech of {studio.corpora.name(asked.corpus)}"
    return answer(studio.jobs.ask("corpus", title, asked.model_dump(), work, given))


@router.post("/lint", status_code=202)
def linted(asked: LintRequest, studio: StudioDep) -> JobAnswer:
    """Suspicious pairs, each with its evidence, as a job."""
    studio.require_grammar()
    file = _file(studio, asked.corpus, asked.limit)
    given = studio.given(asked.corpus, asked.model, grammar=True)

    def work(progress: Any, folder: Any) -> dict[str, Any]:
        del folder
        encoder = studio.read(asked.model, **asked.options())
        found = lint(encoder, file.pairs(), studio.grammar(), LintRules(), asked.corpus, progress)
        return found.to_dict()

    title = f"lint of {studio.corpora.name(asked.corpus)}"
    return answer(studio.jobs.ask("lint", title, asked.model_dump(), work, given))
