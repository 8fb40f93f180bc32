"""The study "Hidden states of BERT and retrieval", item by item."""

from __future__ import annotations

from likewise.reproduce.study import Study

STUDY = Study("hidden-states", "Hidden states of BERT and retrieval", ())
