"""The study "Multitask BERT: sentiment, paraphrase, similarity", item by item."""

from __future__ import annotations

from likewise.reproduce.study import Study

STUDY = Study("multitask-bert", "Multitask BERT: sentiment, paraphrase, similarity", ())
