"""The study "Clusters of attention maps of BERT on STS-B", item by item."""

from __future__ import annotations

from likewise.reproduce.study import Study

STUDY = Study("attention-clusters", "Clusters of attention maps of BERT on STS-B", ())
