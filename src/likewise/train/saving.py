"""Saved runs: a sentence-transformers folder with the heads of the tasks, and predictions by these heads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from likewise.data import Dataset, SkippedRows, read_pairs, read_texts
from likewise.encoder import Encoder
from likewise.encoder.config import OWN_SETTINGS, OWN_WEIGHTS
from likewise.encoder.learned_pooling import LEARNED, learned_from, learned_settings
from likewise.encoder.pooling import Dense, pooling_parts
from likewise.encoder.saving import ExtraFiles, save_encoder
from likewise.errors import ModelError, UsageError
from likewise.progress import Progress
from likewise.results import Result, Table
from likewise.train.config import ROLES, SINGLE, TaskConfig, config_from
from likewise.train.examples import Example
from likewise.train.heads import TOP
from likewise.train.multitask import MultiTaskModel, evaluate, main_task, new_heads, require_torch, variants
from likewise.train.packed_encoder import PackedEncoder, TokenTable
from likewise.train.processes import Processes
from likewise.train.report import MEASURE_COLUMNS, TrainReport
from likewise.train.results import NUMERIC
from likewise.train.tasks import Task

HEADS_PREFIX, OTHERS_PREFIX = "heads.", "poolings."
"""Prefixes of the names of weights: heads, and learned poolings of tasks other than the main one."""


def save_run(multitask: MultiTaskModel, report: TrainReport, folder: Path) -> None:
    """Write the trained encoder, its heads and its model card."""
    # The model's own Normalize stays: it was off for the heads alone.
    encoder = multitask.encoder(main_task(multitask.config)).with_pooling(normalize=None)
    weights = {f"{HEADS_PREFIX}{name}": tensor for name, tensor in multitask.heads.state_dict().items()}
    others = {
        learned.kind: learned
        for each in multitask.encoders.values()
        if (learned := each.encoder.modules_config.learned) is not None
        and encoder.pooling_config.pooling != learned.kind == each.encoder.pooling_config.pooling
    }
    for kind, learned in others.items():
        weights |= {f"{OTHERS_PREFIX}{kind}.{name}": tensor for name, tensor in learned.state_dict().items()}
    settings = {
        "train": multitask.config.to_dict(),
        "poolings": {name: each.encoder.pooling_config.pooling for name, each in multitask.encoders.items()},
        "other_poolings": {kind: learned_settings(learned) for kind, learned in others.items()},
    }
    scores = cross_encoder_head(multitask)
    activation = "Sigmoid" if main_task(multitask.config).kind == "paraphrase" else "Identity"
    extra = ExtraFiles(settings, weights, scores, activation)
    save_encoder(encoder, folder, model_card(report, encoder, scores is not None), extra)


def cross_encoder_head(multitask: MultiTaskModel) -> Dense | None:
    """The head of a main task that reads pairs as one sequence, if sentence-transformers can express it.

    Its scores are those of ``predict``: similarities from 0 to 5, or logits of a paraphrase.
    """
    task = main_task(multitask.config)
    head, chosen = multitask.head(task), multitask.encoder(task).pooling_config
    plain = not set(pooling_parts(chosen.pooling)) & set(LEARNED) and chosen.truncate_dim is None
    if not task.cross_encoder or not plain or not isinstance(head, nn.Linear):
        return None
    top = TOP if task.kind == "similarity" else 1.0
    return Dense(top * head.weight.detach(), None if head.bias is None else top * head.bias.detach(), "Identity")


def load_run(folder: Path, **options: Any) -> MultiTaskModel:
    """The trained encoder of a saved run with its heads; ``options`` are those of ``Encoder.load``."""
    settings, weights = _settings(folder), _weights(folder)
    encoder = Encoder.load(str(folder), **options)
    require_torch(encoder)
    config = config_from(settings["train"], str(folder / OWN_SETTINGS))
    if missing := [task.name for task in config.tasks if task.name not in settings["poolings"]]:
        raise ModelError(f"{folder / OWN_SETTINGS} has no pooling of task {missing[0]}; train again")
    learned = {
        kind: learned_from(own, _under(f"{OTHERS_PREFIX}{kind}.", weights))
        for kind, own in settings["other_poolings"].items()
    }
    if encoder.modules_config.learned is not None:
        learned[encoder.modules_config.learned.kind] = encoder.modules_config.learned
    made = variants(encoder, settings["poolings"], learned)
    heads = new_heads(config, made)
    try:
        heads.load_state_dict(_under(HEADS_PREFIX, weights))
    except RuntimeError as error:
        raise ModelError(f"{folder / OWN_WEIGHTS} does not hold this run's heads; train again") from error
    tokens = TokenTable(encoder.tokenizer, encoder.modules_config.prompt_for(None))
    encoders = {name: PackedEncoder(each, tokens, Processes()) for name, each in made.items()}
    return MultiTaskModel(config, encoders, heads, frozenset())


def _settings(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / OWN_SETTINGS).read_text(encoding="utf-8"))
        settings: dict[str, Any] = {name: found[name] for name in ("train", "poolings", "other_poolings")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{folder} is no folder of a trained model with heads; give the out of: likewise train"
        ) from error
    if not all(isinstance(part, dict) for part in settings.values()):
        raise ModelError(f"{folder / OWN_SETTINGS} does not say how the model was trained; train again")
    return settings


def _weights(folder: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        # A cosine has no weights.
        return load_file(str(folder / OWN_WEIGHTS)) if (folder / OWN_WEIGHTS).exists() else {}
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{folder / OWN_WEIGHTS} cannot be read; train again") from error


def _under(prefix: str, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): each for name, each in weights.items() if name.startswith(prefix)}


# The model card


def model_card(report: TrainReport, encoder: Encoder, is_cross_encoder: bool = False) -> str:
    """The README.md of a saved run."""
    pooling = encoder.pooling_config.pooling
    kind = "cross-encoder" if is_cross_encoder else "sentence-similarity"
    parts = [
        f"---\nlibrary_name: sentence-transformers\ntags: [{kind}, likewise]\n---\n",
        f"# {report.model}, fine-tuned\n",
        f"Trained with Likewise from `{report.model}` (weights sha256 `{report.model_sha256}`); {pooling} pooling.\n",
    ]
    if pooling in LEARNED:
        parts.append(
            f"The {pooling} pooling has its own weights, in `head.safetensors`. sentence-transformers does not know "
            "it and opens this folder with mean pooling, which gives other vectors; `likewise.Encoder.load` gives "
            "the real ones.\n"
        )
    if is_cross_encoder:
        parts.append("It reads a pair as one sequence: `sentence_transformers.CrossEncoder(folder).predict(pairs)`.\n")
    settings = {name: value for name, value in report.config.to_dict().items() if name not in ("out", "task")}
    parts += [_data(report), _scores(report), f"## Settings\n\n```json\n{json.dumps(settings, indent=2)}\n```\n"]
    return "\n".join(parts)


def _data(report: TrainReport) -> str:
    rows = []
    for task in report.config.tasks:
        train, dev, test = (", ".join(source.file for source in getattr(task, role)) or "none" for role in ROLES)
        rows.append((task.name, train, report.examples[task.name]["train"], dev, test))
    table = _markdown(("task", "train", "examples", "dev", "test"), rows)
    return "\n".join(["## Data\n", *table, *(f"\n{overlap.words}." for overlap in report.overlaps)]) + "\n"


def _scores(report: TrainReport) -> str:
    table = _markdown(MEASURE_COLUMNS, [(*row, f"{value:.4f}") for *row, value in report.measures])
    formula = [f"\nScore on dev: {report.score:.4f} = {report.formula}."] if len(report.dev) > 1 else []
    return "\n".join([f"## Scores (epoch {report.best_epoch}, the best on dev)\n", *table, *formula]) + "\n"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    return [f"| {' | '.join(map(str, row))} |" for row in (header, ["---"] * len(header), *rows)]


# Predictions


@dataclass(frozen=True, eq=False)
class Prediction:
    """The predictions of a task's head for texts or pairs, in order."""

    task: str
    kind: str
    predicted: NDArray[np.float64]  # similarities from 0 to 5, numbers, or classes
    scores: NDArray[np.float64]  # the numbers behind them: similarities, or probabilities of a paraphrase or a class

    def to_dict(self, ids: Sequence[str]) -> dict[str, Any]:
        """One entry per row."""
        predicted = self.predicted.astype(float if self.kind in NUMERIC else int).tolist()
        scores = self.scores.reshape(len(predicted), -1).tolist()
        rows = [
            {"id": name, "predicted": value, "scores": own}
            for name, value, own in zip(ids, predicted, scores, strict=True)
        ]
        return {"task": self.task, "kind": self.kind, "n": len(rows), "predictions": rows}


def task_of(run: MultiTaskModel, name: str = "") -> TaskConfig:
    """The task of this name, or the only one of this kind; without a name the only one."""
    known = run.config.tasks
    found = [task for task in known if name in ("", task.name)] or [task for task in known if task.kind == name]
    if len(found) != 1:
        raise UsageError(f"choose one of this model's tasks, {', '.join(task.name for task in known)}; got {name!r}")
    return found[0]


def predict(
    run: MultiTaskModel, texts: Sequence[tuple[str, ...]], task: str = "", progress: Progress | None = None
) -> Prediction:
    """Predict single texts (sentiment) or pairs with a task's head; without a name, with the only one."""
    config = task_of(run, task)
    if config.kind == "mlm":
        raise UsageError(f"task {config.name} predicts masked tokens, not texts; choose another task or model")
    wanted = 1 if config.kind in SINGLE else 2
    if any(len(each) != wanted for each in texts):
        raise UsageError(f"task {config.name} judges {'single texts' if wanted == 1 else 'pairs'}; give a file of them")
    examples = [Example(tuple(each), 0.0, str(index), "") for index, each in enumerate(texts)]
    found = evaluate(run, Task(config, tuple(examples)), examples, progress)
    return Prediction(config.name, found.kind, found.predicted, found.scores)


@dataclass(frozen=True, repr=False, eq=False)
class FilePrediction(Result):
    """The rows of a file and their predictions."""

    file: str
    ids: list[str]
    texts: list[tuple[str, ...]]
    prediction: Prediction
    skipped: SkippedRows

    @property
    def title(self) -> str:
        """The task and the file."""
        return f"{self.prediction.task} of {self.file}"

    @property
    def cautions(self) -> list[str]:
        """Bad rows that were skipped."""
        return [f"{self.file}: {self.skipped}"] if self.skipped.count else []

    def to_dict(self) -> dict[str, Any]:
        """One entry per row, with its id and texts."""
        found = self.prediction.to_dict(self.ids)
        for row, texts in zip(found["predictions"], self.texts, strict=True):
            row["texts"] = list(texts)
        return found | {"skipped": self.skipped.count}

    def tables(self) -> dict[str, Table]:
        """A row for each row of the file."""
        rows = [(row["id"], row["predicted"], " | ".join(row["texts"])) for row in self.to_dict()["predictions"]]
        return {"predictions": Table.of(["id", self.prediction.task, "texts"], rows)}


def predict_file(
    run: MultiTaskModel, dataset: Dataset, task: str = "", progress: Progress | None = None
) -> FilePrediction:
    """The predictions of a saved run for a file's rows."""
    pairs, skipped = task_of(run, task).kind not in SINGLE, SkippedRows()
    rows: list[Any] = list(dataset.stream(read_pairs if pairs else read_texts, skipped))
    texts: list[tuple[str, ...]] = [(row.left, row.right) if pairs else (row.text,) for row in rows]
    return FilePrediction(dataset.name, [row.id for row in rows], texts, predict(run, texts, task, progress), skipped)
