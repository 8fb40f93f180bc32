"""Saved engines: a faiss index on disk with a label for each of its places, by which rows are found again.

Rows move when others are deleted; labels do not. So an engine outlives additions and deletions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from likewise.progress import Progress
from likewise.search.engines import Engine, Plan, built, loaded
from likewise.search.manifest import EngineFacts
from likewise.search.ranker import Rows
from likewise.search.segments import Segment, check_files, synced_checksum
from likewise.search.stacked import StackedVectors

Labels = NDArray[np.uint64]

STALE_SHARE = 0.2
"""When more of an engine's places than this are deleted rows, it is built anew."""


def stacked(segments: Sequence[Segment]) -> StackedVectors:
    """All vectors (n, d) of the segments."""
    return StackedVectors([segment.vectors for segment in segments])


def load_engine(folder: Path, metadata: EngineFacts, segments: Sequence[Segment]) -> Engine:
    """Read a saved engine for the present rows."""
    rows = rows_of_labels(_labels(folder, metadata), labels_of(segments))
    plan = Plan(metadata.kind, metadata.bits)
    return loaded(_path(folder, metadata, ".faiss"), plan, stacked(segments), rows, metadata.width, metadata.recall)


def new_engine(
    folder: Path, old: EngineFacts | None, plan: Plan, segments: Sequence[Segment], progress: Progress | None
) -> tuple[Engine, Labels]:
    """The engine of a new state and its labels: the old one with what is new, or one built from the ground."""
    labels = labels_of(segments)
    if old is not None and (old.kind, old.bits) == (plan.kind, plan.bits):
        check_files(folder, old.files)
        engine, before = load_engine(folder, old, segments), _labels(folder, old)
        assert engine.rows is not None
        alive = engine.rows[engine.rows >= 0]
        # Only what comes behind the rows that it knows can be added.
        if len(alive) >= (1 - STALE_SHARE) * len(before) and (alive == np.arange(len(alive))).all():
            extended = engine.extended(engine.vectors, engine.rows, progress)
            return extended, np.concatenate([before, labels[len(alive) :]])
    return built(stacked(segments), plan, progress), labels


def save_engine(folder: Path, name: str, engine: Engine, labels: Labels) -> EngineFacts:
    """Write an engine and its labels, down to the disk."""
    paths = folder / f"{name}.faiss", folder / f"{name}.npy"
    engine.save(paths[0])
    np.save(paths[1], labels)
    files = {path.name: synced_checksum(path) for path in paths}
    return EngineFacts(engine.plan.kind, engine.plan.bits, engine.width, engine.recall, files)


def labels_of(segments: Sequence[Segment]) -> Labels:
    """One number for each row's id and text."""
    parts = [segment.keys["id"] * np.uint64(0x9E3779B97F4A7C15) ^ segment.keys["text"] for segment in segments]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def rows_of_labels(labels: Labels, present: Labels) -> Rows:
    """The present row of each label (m,), -1 where there is none any more."""
    if not len(present):
        return np.full(len(labels), -1, np.int64)
    order = np.argsort(present)
    indices = np.minimum(np.searchsorted(present, labels, sorter=order), len(present) - 1)
    rows = order[indices]
    return np.where(present[rows] == labels, rows, -1).astype(np.int64)


def _labels(folder: Path, metadata: EngineFacts) -> Labels:
    labels: Labels = np.load(_path(folder, metadata, ".npy"))
    return labels


def _path(folder: Path, metadata: EngineFacts, ending: str) -> Path:
    return folder / next(name for name in metadata.files if name.endswith(ending))
