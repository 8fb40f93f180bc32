"""Claim: ``likewise train`` takes at least as many steps per second as sentence-transformers' trainer; with the lower
half of the layers frozen and their output cached, at least 1.5 times as many.

    python bench/train.py [--pairs 640] [--batch 32] [--threads 1] [--model minilm]

All ways train the same model on the same pairs of stsb/train with the same loss (CoSENT), batch, learning rate,
warm-up, dropout and threads, one epoch, by processor time. Neither trainer shows progress, writes checkpoints or
evaluates. What the cache costs, once in a run, stands beside.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from likewise.data import read_scored_pairs
from likewise.encoder import Encoder
from likewise.encoder.weights import locate
from likewise.errors import DataError
from likewise.train import Example, Source, Task, TaskConfig, TrainConfig
from likewise.train.loop import Run
from likewise.train.multitask import new_multitask_model
from likewise.train.processes import Processes

SHARED = Path("../shared/data")
ROUNDS = 3
RATE, WARMUP = 2e-5, 0.1


def task_at_hand(count: int) -> Task:
    """Pairs of stsb/train drawn at random, else the sample's own."""
    try:
        found = list(read_scored_pairs("stsb/train", data_dir=SHARED))
    except DataError:
        found = list(read_scored_pairs("sample/pairs"))
    indices = np.random.default_rng(0).permutation(len(found))[:count]
    chosen = [found[index] for index in indices]
    examples = tuple(Example((each.left, each.right), each.score, each.id, "stsb/train") for each in chosen)
    return Task(TaskConfig("similarity", (Source("stsb/train"),), pooling="mean", loss="cosent"), examples)


def ours(task: Task, given: argparse.Namespace, freeze: str = "none") -> tuple[int, float, float]:
    """Steps, their seconds, and those of what came before them: tokens and the cache of frozen layers."""
    encoder = Encoder.load(given.model, threads=given.threads)
    config = TrainConfig(
        (task.config,), epochs=1, batch=given.batch, learning_rate=RATE, warmup=WARMUP, weight_decay=0.0, freeze=freeze
    )
    began = time.process_time()
    run = Run(new_multitask_model(encoder, [task], config, Processes()), [task], Processes(), folder=None)
    prepared = time.process_time()
    run.run("bench")
    return run.train_state.step, time.process_time() - prepared, prepared - began


def theirs(task: Task, given: argparse.Namespace) -> tuple[int, float, float]:
    """The same with sentence-transformers' trainer."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import CoSENTLoss

    model = SentenceTransformer(str(locate(given.model)), device="cpu")
    rows = Dataset.from_dict({
        "sentence1": [example.texts[0] for example in task.train],
        "sentence2": [example.texts[1] for example in task.train],
        "score": [example.target / 5 for example in task.train],
    })  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        settings = SentenceTransformerTrainingArguments(
            folder, num_train_epochs=1, per_device_train_batch_size=given.batch, learning_rate=RATE,
            warmup_steps=round(WARMUP * len(task.train) / given.batch), report_to=[], save_strategy="no",
            logging_strategy="no", disable_tqdm=True, use_cpu=True,
        )  # fmt: skip
        trainer = SentenceTransformerTrainer(model, settings, train_dataset=rows, loss=CoSENTLoss(model))
        began = time.process_time()
        trainer.train()
    return trainer.state.global_step, time.process_time() - began, 0.0


Way = Callable[[], tuple[int, float, float]]


def rates(ways: Sequence[Way]) -> list[tuple[float, float]]:
    """Steps per second of each way and its seconds before, taken in turns so that a busy machine is fair to all."""
    found: list[list[tuple[float, float]]] = [[] for _ in ways]
    for _ in range(ROUNDS):
        for index, way in enumerate(ways):
            steps, seconds, before = way()
            found[index].append((steps / seconds, before))
    return [max(each) for each in found]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=640)
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--model", default="minilm")
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    task = task_at_hand(given.pairs)
    (peer, _), (whole, _), (half, cache) = rates(
        [lambda: theirs(task, given), lambda: ours(task, given), lambda: ours(task, given, "lower")]
    )
    print(f"{given.model}, {len(task.train)} pairs, batch {given.batch}, {given.threads} thread(s); steps per second:")
    print(f"sentence-transformers' trainer {peer:6.2f}")
    print(f"likewise train                 {whole:6.2f}  ratio {whole / peer:.2f} (claim: at least 1)")
    print(f"lower half frozen, cached      {half:6.2f}  ratio {half / peer:.2f} (claim: at least 1.5)")
    print(f"the cache, once: {cache:.1f} s, {cache / len(task.train) * 1000:.1f} ms a pair")


if __name__ == "__main__":
    main()
