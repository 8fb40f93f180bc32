"""Evaluation: a trainee on examples -> outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from likewise.progress import Progress, Ticker
from likewise.train.examples import Example
from likewise.train.losses import TOP, loss_of
from likewise.train.outcome import Outcome
from likewise.train.tasks import Task
from likewise.train.trainee import Trainee

ROWS = 1024
"""Examples whose heads run together."""
TEXTS = 64
"""Texts whose hidden tokens are looked for together: each has logits for the whole vocabulary."""


def evaluate(trainee: Trainee, task: Task, examples: Sequence[Example], progress: Progress | None = None) -> Outcome:
    """What the trainee says of a task's dev or test examples."""
    trainee.learning(False)
    way = _by_tokens if task.config.kind == "mlm" else _by_vectors
    return way(trainee, task.judged, examples, progress)


def _by_vectors(trainee: Trainee, task: Task, examples: Sequence[Example], progress: Progress | None) -> Outcome:
    """From the vectors of all texts, each read once."""
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


def _by_tokens(trainee: Trainee, task: Task, examples: Sequence[Example], progress: Progress | None) -> Outcome:
    """The share of each text's hidden tokens that is found; the same ones are hidden every time."""
    found, hidden, loss = np.zeros(len(examples)), np.zeros(len(examples)), 0.0
    ticker = Ticker(progress, len(examples), "texts")
    for start in range(0, len(examples), TEXTS):
        part = examples[start : start + TEXTS]
        with torch.no_grad():
            embedded = trainee.embedded(task, part, [(start + place,) for place in range(len(part))], dropout=False)
            said = trainee.output(task, part, embedded)
        wanted, owners = trainee.readers[task.name].hidden_tokens(embedded)
        places = start + owners.cpu().numpy()
        np.add.at(found, places, (said.argmax(1) == wanted).cpu().numpy())
        np.add.at(hidden, places, 1)
        loss += float(F.cross_entropy(said, wanted, reduction="sum"))
        ticker.add(len(part))
    ticker.close()
    # A text without a token of its own has nothing to find.
    shares = np.divide(found, hidden, out=np.ones_like(found), where=hidden > 0)
    config = task.config
    return Outcome(task.name, config.kind, config.metric, tuple(examples), shares, loss / max(1, hidden.sum()))


def scores(kind: str, output: Tensor) -> np.ndarray:
    """What a head gives -> similarities from 0 to 5, numbers, probabilities of a paraphrase, or (n, C) of classes."""
    return SCORES[kind](output).double().cpu().numpy()


SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "similarity": lambda output: output * TOP,
    "count": lambda output: output,
    "paraphrase": torch.sigmoid,
    "sentiment": lambda output: torch.softmax(output, -1),
}


def _loss(trainee: Trainee, task: Task, examples: Sequence[Example], output: Tensor) -> float:
    """The loss in batches as in training: one over pairs of examples depends on how many stand together."""
    targets, size = trainee.targets(task, examples, output), trainee.config.batch_of(task.config)
    loss = loss_of(task.config)
    parts = [
        (
            len(output[start : start + size]),
            loss(output[start : start + size], targets[start : start + size]),
        )
        for start in range(0, len(examples), size)
    ]
    return sum(count * float(value) for count, value in parts) / max(1, len(examples))
