"""Made-up training runs, for tests of what is written about them."""

from __future__ import annotations

from typing import Any

import numpy as np

from likewise.train import EvalResult, Example, Source, TaskConfig, TrainConfig, TrainReport
from likewise.train.runs_table import TableRow
from likewise.train.tasks import Overlap

ATTACK = "<img src=x onerror=alert(1)>"
KINDS = ("sentiment", "paraphrase", "similarity")
METRICS = {"sentiment": "accuracy", "paraphrase": "accuracy", "similarity": "pearson"}


def made_outcome(kind: str, n: int = 60, seed: int = 0, name: str = "") -> EvalResult:
    """Predictions that are mostly right; the texts of the first example attack."""
    rng = np.random.default_rng(seed)
    truth = {
        "sentiment": rng.integers(0, 5, n).astype(float),
        "paraphrase": rng.integers(0, 2, n).astype(float),
        "similarity": np.round(rng.uniform(0, 5, n) * 5) / 5,
    }[kind]
    if kind == "similarity":
        scores = np.clip(0.7 * truth + 0.9 + rng.normal(0, 0.6, n), 0, 5)
    elif kind == "paraphrase":
        scores = 1 / (1 + np.exp(-(3 * (truth - 0.5) + rng.normal(0, 1.2, n))))
    else:
        distance = np.abs(np.arange(5)[None] - truth[:, None] + rng.normal(0, 0.8, (n, 1)))
        scores = np.exp(-1.5 * distance)
        scores /= scores.sum(1, keepdims=True)
    words = ["the", "plot", "is", "thin", "but", "cast", "carries", "a", "story", "that", "stays", "for", "days"]
    texts = [" ".join(rng.choice(words, 40 if place % 9 == 3 else 7)) for place in range(2 * n)]
    texts[:2] = [f"{ATTACK} first", f"{ATTACK} second"]
    examples = tuple(
        Example(
            tuple(texts[2 * place : 2 * place + (1 if kind == "sentiment" else 2)]), float(truth[place]),
            f"{place + 1}", f"made-up/{kind}",
        )
        for place in range(n)
    )  # fmt: skip
    return EvalResult(name or kind, kind, METRICS[kind], examples, scores, 0.4 + 0.01 * seed)


def made_config(kinds: tuple[str, ...] = KINDS, dev: bool = True, test: bool = True, **changes: Any) -> TrainConfig:
    tasks = tuple(
        TaskConfig(
            kind,  # type: ignore[arg-type]
            (Source(f"made-up/{kind}-train"),),
            (Source(f"made-up/{kind}-dev"),) if dev else (),
            (Source(f"made-up/{kind}-test"),) if test else (),
            head="feed-forward",
            metric=METRICS[kind],
        )
        for kind in kinds
    )
    return TrainConfig(tasks, **changes)


def made_report(
    kinds: tuple[str, ...] = KINDS, dev: bool = True, test: bool = True, n: int = 60, **changes: Any
) -> TrainReport:
    """A run of six epochs of ten steps, the fourth of which is the best."""
    config = made_config(kinds, dev, test, epochs=6, **changes)
    found = {part: {kind: made_outcome(kind, n, seed) for kind in kinds} for seed, part in enumerate(("dev", "test"))}
    epochs = tuple(_epoch(kinds, epoch, dev) for epoch in range(1, 7))
    curve = tuple(
        {"step": step, **{kind: _loss(place, step / 10) for place, kind in enumerate(kinds)}} for step in range(1, 61)
    )
    overlap = Overlap("made-up/similarity-train", "made-up/similarity-dev", 2, n, 3, (f"{ATTACK} | b",))
    return TrainReport(
        config=config, model="tiny", model_sha256="ab" * 32, weights=1_234_567,
        examples={kind: {"train": 5000, "dev": n if dev else 0, "test": n if test else 0} for kind in kinds},
        overlaps=(overlap,) if dev else (), truncated=7, epochs=epochs, curve=curve,
        best_epoch=4 if dev else 6, steps=60, seconds=754.2,
        dev=found["dev"] if dev else {}, test=found["test"] if test else {},
    )  # fmt: skip


def _loss(place: int, epoch: float) -> float:
    return (1.5, 0.7, 0.12)[place] * (0.35 + 0.65 * float(np.exp(-0.6 * epoch)) + 0.03 * float(np.sin(17 * epoch)))


def _epoch(kinds: tuple[str, ...], epoch: int, dev: bool) -> dict[str, Any]:
    measured = {
        kind: {"loss": 1.1 * _loss(place, min(epoch, 4) - 0.3 * max(0, epoch - 4)),
               METRICS[kind]: 0.5 + 0.12 * place + 0.06 * min(epoch, 4) - 0.01 * max(0, epoch - 4)}
        for place, kind in enumerate(kinds)
    }  # fmt: skip
    score = float(np.mean([found[METRICS[kind]] for kind, found in measured.items()]))
    return {
        "epoch": epoch, "step": 10 * epoch, "score": score if dev else None,
        "train": {kind: _loss(place, epoch) for place, kind in enumerate(kinds)}, "dev": measured if dev else {},
    }  # fmt: skip


def made_rows(names: tuple[str, ...] = ("mean", f"max {ATTACK}", "cls | a_b"), seeds: int = 3) -> list[TableRow]:
    """Rows of a table; the first was published, the last has no test."""
    rows = []
    for place, name in enumerate(names):
        for seed in range(1, seeds + 1):
            report = made_report(test=place != len(names) - 1, seed=seed).to_dict()
            for task, eval_result in report["dev"].items():
                eval_result[METRICS[task]] = 0.5 + 0.1 * place + 0.01 * seed
            report |= {"score": 0.5 + 0.1 * place + 0.01 * seed, "seconds": 100.0 + 10 * place + seed}
            rows.append(TableRow(name, seed, (0.4, 0.5, 0.6, 0.5) if place == 0 else (), report))
    return rows
