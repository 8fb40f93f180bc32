"""Prediction: a saved run on new texts or pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.errors import UsageError
from likewise.progress import Progress
from likewise.train.config import SINGLE, TaskConfig
from likewise.train.eval_result import NUMERIC
from likewise.train.evaluation import evaluate
from likewise.train.examples import Example
from likewise.train.saving import SavedRun
from likewise.train.tasks import Task


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a task's head says of texts or pairs, in order."""

    task: str
    kind: str
    predicted: NDArray[np.float64]
    """similarities from 0 to 5, numbers, or classes"""
    scores: NDArray[np.float64]
    """the same numbers, probabilities of a paraphrase, or of each class"""

    def to_dict(self, ids: Sequence[str]) -> dict[str, Any]:
        """One entry per row."""
        whole = self.kind not in NUMERIC
        rows = [
            {"id": name, "predicted": int(said) if whole else float(said), "scores": np.atleast_1d(score).tolist()}
            for name, said, score in zip(ids, self.predicted, self.scores, strict=True)
        ]
        return {"task": self.task, "kind": self.kind, "n": len(rows), "predictions": rows}


def task_of(run: SavedRun, name: str = "") -> TaskConfig:
    """The task of this name, or of this kind where no other is; the only one where none is named."""
    known = run.config.tasks
    found = [task for task in known if name in ("", task.name)] or [task for task in known if task.kind == name]
    if len(found) != 1:
        raise UsageError(f"choose one of this model's tasks, {', '.join(task.name for task in known)}; got {name!r}")
    return found[0]


def predict(
    run: SavedRun, texts: Sequence[tuple[str, ...]], task: str = "", progress: Progress | None = None
) -> Prediction:
    """Judge single texts (sentiment) or pairs by a task's head; the only one's where none is named."""
    config = task_of(run, task)
    if config.kind == "mlm":
        raise UsageError(f"task {config.name} finds hidden tokens and judges no text; choose another task or model")
    wanted = 1 if config.kind in SINGLE else 2
    if any(len(each) != wanted for each in texts):
        raise UsageError(f"task {config.name} judges {'single texts' if wanted == 1 else 'pairs'}; give a file of them")
    examples = [Example(tuple(each), 0.0, str(index), "") for index, each in enumerate(texts)]
    eval_result = evaluate(run.multitask, Task(config, tuple(examples)), examples, progress)
    return Prediction(config.name, eval_result.kind, eval_result.predicted, eval_result.scores)
