"""Evaluation: a trainee on examples -> outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from likewise.progress import Progress, Ticker
from likewise.train.eval_result import EvalResult
from likewise.train.examples import Example
from likewise.train.losses import TOP, loss_of
from likewise.train.multitask import MultiTaskModel
from likewise.train.tasks import Task

ROWS = 1024
"""Examples whose heads run together."""
TEXTS = 64
"""Texts whose hidden tokens are looked for together: each has logits for the whole vocabulary."""


def evaluate(
    multitask: MultiTaskModel, task: Task, examples: Sequence[Example], progress: Progress | None = None
) -> EvalResult:
    """What the trainee says of a task's dev or test examples."""
    multitask.learning(False)
    way = _by_tokens if task.config.kind == "mlm" else _by_vectors
    return way(multitask, task.judged, examples, progress)


def _by_vectors(
    multitask: MultiTaskModel, task: Task, examples: Sequence[Example], progress: Progress | None
) -> EvalResult:
    """From the vectors of all texts, each read once."""
    texts = [task.texts(example) for example in examples]
    known = {text: index for index, text in enumerate(dict.fromkeys(text for each in texts for text in each))}
    vectors = multitask.readers[task.name].vectors(list(known), progress)
    said = []
    with torch.no_grad():
        for start in range(0, len(examples), ROWS):
            rows = texts[start : start + ROWS]
            sides = [vectors[[known[each[side]] for each in rows]] for side in range(len(rows[0]))]
            said.append(multitask.output_of(task, examples[start : start + ROWS], sides))
    output = torch.cat(said)
    config = task.config
    loss = _loss(multitask, task, examples, output)
    return EvalResult(task.name, config.kind, config.metric, tuple(examples), scores(config.kind, output), loss)


def _by_tokens(
    multitask: MultiTaskModel, task: Task, examples: Sequence[Example], progress: Progress | None
) -> EvalResult:
    """The share of each text's hidden tokens that is found; the same ones are hidden every time."""
    found, hidden, loss = np.zeros(len(examples)), np.zeros(len(examples)), 0.0
    ticker = Ticker(progress, len(examples), "texts")
    for start in range(0, len(examples), TEXTS):
        part = examples[start : start + TEXTS]
        with torch.no_grad():
            embedded = multitask.embedded(task, part, [(start + index,) for index in range(len(part))], dropout=False)
            said = multitask.output(task, part, embedded)
        wanted, owners = multitask.readers[task.name].hidden_tokens(embedded)
        indices = start + owners.cpu().numpy()
        np.add.at(found, indices, (said.argmax(1) == wanted).cpu().numpy())
        np.add.at(hidden, indices, 1)
        loss += float(F.cross_entropy(said, wanted, reduction="sum"))
        ticker.add(len(part))
    ticker.close()
    # A text without a token of its own has nothing to find.
    shares = np.divide(found, hidden, out=np.ones_like(found), where=hidden > 0)
    config = task.config
    return EvalResult(task.name, config.kind, config.metric, tuple(examples), shares, loss / max(1, hidden.sum()))


def scores(kind: str, output: Tensor) -> np.ndarray:
    """What a head gives -> similarities from 0 to 5, numbers, probabilities of a paraphrase, or (n, C) of classes."""
    return SCORES[kind](output).double().cpu().numpy()


SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "similarity": lambda output: output * TOP,
    "count": lambda output: output,
    "paraphrase": torch.sigmoid,
    "sentiment": lambda output: torch.softmax(output, -1),
}


def _loss(multitask: MultiTaskModel, task: Task, examples: Sequence[Example], output: Tensor) -> float:
    """The loss in batches as in training: one over pairs of examples depends on how many stand together."""
    targets, size = multitask.targets(task, examples, output), multitask.config.batch_of(task.config)
    loss = loss_of(task.config)
    parts = [
        (
            len(output[start : start + size]),
            loss(output[start : start + size], targets[start : start + size]),
        )
        for start in range(0, len(examples), size)
    ]
    return sum(count * float(value) for count, value in parts) / max(1, len(examples))
