"""Evaluation: a trainee on examples -> outcomes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from likewise.progress import Progress
from likewise.train.losses import LOSSES
from likewise.train.outcome import Outcome
from likewise.train.sources import Example
from likewise.train.tasks import TOP, Task
from likewise.train.trainee import Trainee

ROWS = 1024
"""Examples whose heads run together."""


def evaluate(trainee: Trainee, task: Task, examples: Sequence[Example], progress: Progress | None = None) -> Outcome:
    """What the trainee says of a task's examples, each text read once."""
    trainee.learning(False)
    texts = [task.texts(example) for example in examples]
    known = {text: place for place, text in enumerate(dict.fromkeys(text for each in texts for text in each))}
    vectors = trainee.readers[task.name].vectors(list(known), progress)
    said = []
    with torch.no_grad():
        for start in range(0, len(examples), ROWS):
            rows = texts[start : start + ROWS]
            sides = [vectors[[known[each[side]] for each in rows]] for side in range(len(rows[0]))]
            said.append(trainee.output_of(task, examples[start : start + ROWS], sides))
    output = torch.cat(said)
    config = task.config
    loss = _loss(trainee, task, examples, output)
    return Outcome(task.name, config.kind, config.metric, tuple(examples), scores(config.kind, output), loss)


def scores(kind: str, output: Tensor) -> np.ndarray:
    """What a head gives -> similarities from 0 to 5, probabilities of a paraphrase, or (n, C) of classes."""
    if kind == "similarity":
        output = output * TOP[kind]
    elif kind == "paraphrase":
        output = torch.sigmoid(output)
    else:
        output = torch.softmax(output, -1)
    return output.double().cpu().numpy()


def _loss(trainee: Trainee, task: Task, examples: Sequence[Example], output: Tensor) -> float:
    """The loss in batches as in training: one over pairs of examples depends on how many stand together."""
    targets, size = trainee.targets(task, examples, output), trainee.config.batch
    parts = [
        (
            len(output[start : start + size]),
            LOSSES[task.config.loss](output[start : start + size], targets[start : start + size]),
        )
        for start in range(0, len(examples), size)
    ]
    return sum(count * float(loss) for count, loss in parts) / max(1, len(examples))
