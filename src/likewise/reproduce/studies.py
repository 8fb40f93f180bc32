"""The five studies, by name."""

from __future__ import annotations

from likewise.errors import UsageError
from likewise.reproduce import (
    attention_clusters,
    bert_visualization,
    explaining_similarity,
    hidden_states,
    multitask_bert,
)
from likewise.reproduce.study import Study

STUDIES: tuple[Study, ...] = (
    attention_clusters.STUDY,
    explaining_similarity.STUDY,
    hidden_states.STUDY,
    bert_visualization.STUDY,
    multitask_bert.STUDY,
)


def study_named(name: str) -> Study:
    """A study by its name."""
    for study in STUDIES:
        if study.name == name:
            return study
    raise UsageError(f"unknown study {name!r}; choose from {', '.join(study.name for study in STUDIES)}")
