"""The study "The geometry of BERT's layers", item by item."""

from __future__ import annotations

from likewise.reproduce.study import Study

STUDY = Study("bert-visualization", "The geometry of BERT's layers", ())
