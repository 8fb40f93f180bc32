"""The model card: what a trained model is, in words and numbers, for whoever finds its folder."""

from __future__ import annotations

import json

from likewise.encoder import Encoder
from likewise.encoder.pooling import LEARNED
from likewise.train.report import MEASURE_COLUMNS, TrainReport


def model_card(report: TrainReport, encoder: Encoder) -> str:
    """The README.md of a saved run."""
    pooling = encoder.pooling_config.pooling
    parts = [
        "---\nlibrary_name: sentence-transformers\ntags: [sentence-similarity, likewise]\n---\n",
        f"# {report.model}, fine-tuned\n",
        f"Trained with Likewise from `{report.model}` (weights sha256 `{report.model_sha256}`); {pooling} pooling.\n",
    ]
    if pooling in LEARNED:
        parts.append(
            f"The {pooling} pooling has weights of its own, in `head.safetensors`. sentence-transformers does not know "
            "it and opens this folder with mean pooling, which gives other vectors; `likewise.Encoder.load` gives "
            "the real ones.\n"
        )
    parts += [_data(report), _scores(report), _settings(report)]
    return "\n".join(parts)


def _data(report: TrainReport) -> str:
    rows = ["## Data\n", "| task | train | examples | dev | test |", "|---|---|---|---|---|"]
    for task in report.config.tasks:
        files = [", ".join(source.file for source in part) or "none" for part in (task.train, task.dev, task.test)]
        rows.append(f"| {task.name} | {files[0]} | {report.examples[task.name]['train']} | {files[1]} | {files[2]} |")
    rows += [f"\n{overlap.words}." for overlap in report.overlaps]
    return "\n".join(rows) + "\n"


def _scores(report: TrainReport) -> str:
    rows = [
        f"## Scores (epoch {report.best_epoch}, the best on dev)\n",
        f"| {' | '.join(MEASURE_COLUMNS)} |",
        "|---|---|---|---|---|",
        *(f"| {part} | {task} | {n} | {measure} | {value:.4f} |" for part, task, n, measure, value in report.measures),
    ]
    if report.score is not None and len(report.dev) > 1:
        rows.append(f"\nScore on dev: {report.score:.4f} = {report.formula}.")
    return "\n".join(rows) + "\n"


def _settings(report: TrainReport) -> str:
    shown = {name: value for name, value in report.config.to_dict().items() if name not in ("out", "task")}
    return f"## Settings\n\n```json\n{json.dumps(shown, indent=2)}\n```\n"
