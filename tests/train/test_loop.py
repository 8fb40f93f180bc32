"""SMART and PCGrad beside plain versions of their papers' equations, through a real encoder."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from likewise.encoder import Encoder
from likewise.train import Example, Source, Task, TaskConfig, TrainConfig, train_tasks
from likewise.train import heads as smart_module
from likewise.train import loop as loop_module
from likewise.train.heads import FIRST_NOISE, STEP, smoothness
from likewise.train.loop import Run, pcgrad
from likewise.train.multitask import MultiTaskModel, new_multitask_model
from likewise.train.processes import Processes
from tiny_models import tiny_encoder
from twins import twin_tokenizer

PAIRS = (("a b c", "b c d e f"), ("e f", "e f"), ("g h i j", "k l"), ("m n", "n o p q r"), ("s", "t u v"))
KEY = (3, 1, 4, 2)
ROUNDING = 1e-9
"""Measured: 7e-11, of divergences that are differences of nearly equal numbers."""
SETTINGS: dict[str, dict[str, Any]] = {
    "similarity": {"kind": "similarity"},
    "similarity, feed-forward": {"kind": "similarity", "head": "feed-forward"},
    "paraphrase": {"kind": "paraphrase"},
    "paraphrase, cross-encoder": {"kind": "paraphrase", "pairs": "cross-encoder", "pooling": "cls"},
    "sentiment": {"kind": "sentiment"},
    "sentiment, feed-forward": {"kind": "sentiment", "head": "feed-forward"},
}
"""Of tasks."""


def task_of(kind: str, **settings: Any) -> Task:
    targets = {"similarity": (4.2, 5.0, 0.2, 1.4, 3.0), "paraphrase": (1, 1, 0, 0, 1), "sentiment": (0, 3, 4, 1, 2)}
    texts = [pair[: 1 if kind == "sentiment" else 2] for pair in PAIRS]
    rows = zip(texts, targets[kind], strict=True)
    examples = tuple(Example(text, float(target), str(place), "mine") for place, (text, target) in enumerate(rows))
    config = TaskConfig(kind, (Source("mine"),), **settings)  # type: ignore[arg-type]
    return Task(config, examples, examples)


def trainee_of(encoder: Encoder, *tasks: Task, **settings: Any) -> MultiTaskModel:
    given = {"hidden": 6, "head_dropout": 0.0, "dropout": 0.0} | settings
    config = TrainConfig(tuple(task.config for task in tasks), **given)
    return new_multitask_model(encoder, tasks, config, Processes())


def smooth(multitask: MultiTaskModel, task: Task) -> Tensor:
    keys = [(*KEY, place) for place in range(len(task.train))]
    embedded = multitask.embedded(task, task.train, keys)
    plain = multitask.output(task, task.train, embedded)
    return smoothness(
        task.config.kind, lambda packed: multitask.output(task, task.train, packed), embedded, plain, (*KEY, 2)
    )


# The twin: text by text, without padding, through Hugging Face's own modules


def embeddings(encoder: Encoder, task: Task) -> list[Tensor]:
    """The embeddings (1, T, D) of every text, in the order in which they are read."""
    found = []
    for example in task.train:
        for text in task.texts(example):
            parts = text if isinstance(text, tuple) else (text,)
            tokens = twin_tokenizer(encoder)(*parts, return_tensors="pt", return_token_type_ids=True)
            found.append(encoder.model.embeddings(tokens["input_ids"], tokens["token_type_ids"]))
    return found


def output_twin(multitask: MultiTaskModel, task: Task, rows: Sequence[Tensor]) -> Tensor:
    """Embeddings -> encoder -> one vector per text -> what the head says."""
    encoder, config = multitask.encoder(task.config), task.config
    states = [encoder.model.encoder(row).last_hidden_state[0] for row in rows]
    vectors = torch.stack([each[0] if config.pooling == "cls" else each.mean(0) for each in states])
    head = multitask.head(config)
    if config.kind == "sentiment":
        return head(vectors)  # type: ignore[no-any-return]
    if config.cross_encoder:
        return head(vectors)[:, 0]  # type: ignore[no-any-return]
    left, right = vectors[0::2], vectors[1::2]
    if config.head == "feed-forward":
        sets = [(set(one.split()), set(other.split())) for one, other in PAIRS]
        shares = torch.tensor([[len(one & other) / len(one | other)] for one, other in sets], dtype=left.dtype)
        return torch.sigmoid(head(torch.cat([left - right, shares], 1))[:, 0])
    if config.kind == "similarity":
        return (left * right).sum(1) / (left.norm(dim=1) * right.norm(dim=1))
    return head(left - right)[:, 0]  # type: ignore[no-any-return]


def divergence_twin(kind: str, one: Tensor, other: Tensor) -> Tensor:
    """Squares of similarities from 0 to 5, else KL(p|q) + KL(q|p) = sum (p - q)(log p - log q); means over examples."""
    if kind == "similarity":
        return ((5 * one - 5 * other) ** 2).mean()
    if kind == "paraphrase":
        p, q = torch.sigmoid(one), torch.sigmoid(other)
        p, q = torch.stack([p, 1 - p], 1), torch.stack([q, 1 - q], 1)
    else:
        p, q = one.exp() / one.exp().sum(1, keepdim=True), other.exp() / other.exp().sum(1, keepdim=True)
    return ((p - q) * (p.log() - q.log())).sum(1).mean()


def smoothness_twin(multitask: MultiTaskModel, task: Task) -> Tensor:
    rows = embeddings(multitask.encoder(task.config), task)
    plain = output_twin(multitask, task, rows)
    noise = [
        torch.tensor(np.random.default_rng([*KEY, 2, place]).standard_normal(row.shape[1:]) * FIRST_NOISE)[None]
        for place, row in enumerate(rows)
    ]
    moves = [each.requires_grad_() for each in noise]
    moved = output_twin(multitask, task, [row.detach() + move for row, move in zip(rows, moves, strict=True)])
    risen = divergence_twin(task.config.kind, moved, plain.detach())
    worst = []
    for move, slope in zip(moves, torch.autograd.grad(risen, moves), strict=True):
        ascended = move.detach().clone()
        for token in range(move.shape[1]):
            ascended[0, token] += STEP * slope[0, token] / slope[0, token].abs().max()
        worst.append(ascended)
    last = output_twin(multitask, task, [row + move for row, move in zip(rows, worst, strict=True)])
    return divergence_twin(task.config.kind, last, plain)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return tiny_encoder("bert", seed=3)


def slopes(multitask: MultiTaskModel, value: Tensor) -> dict[str, Tensor]:
    encoder = next(iter(multitask.encoders.values())).encoder
    named = dict(encoder.model.named_parameters()) | dict(multitask.heads.named_parameters())
    found = torch.autograd.grad(value, list(named.values()), allow_unused=True)
    return {name: each for name, each in zip(named, found, strict=True) if each is not None}


@pytest.mark.parametrize("name", SETTINGS)
def test_smoothness_is_the_papers(encoder: Encoder, name: str) -> None:
    task = task_of(**SETTINGS[name])
    multitask = trainee_of(encoder, task)
    found, expected = smooth(multitask, task), smoothness_twin(multitask, task)
    assert (
        float(found.detach()) == pytest.approx(float(expected.detach()), rel=ROUNDING) and float(expected.detach()) > 0
    )
    # The gradient too: it runs through the plain pass as well as through the moved one.
    ours, theirs = slopes(multitask, found), slopes(multitask, expected)
    assert ours.keys() == theirs.keys() and any(name.startswith("encoder.layer.0") for name in ours)
    largest = max(float(each.abs().max()) for each in theirs.values())
    for weight, slope in theirs.items():
        assert float((ours[weight] - slope).abs().max()) < ROUNDING * largest, weight


def test_the_move_goes_uphill(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of("sentiment")
    multitask = trainee_of(encoder, task)
    worst = float(smooth(multitask, task).detach())
    rng = torch.Generator().manual_seed(0)

    def anywhere(move: Tensor, slope: Tensor) -> Tensor:
        return STEP * (torch.randint(0, 2, slope.shape, generator=rng) * 2 - 1).to(slope.dtype)

    monkeypatch.setattr(smart_module, "_uphill", anywhere)
    assert all(worst > float(smooth(multitask, task).detach()) for _ in range(10))


def test_a_token_without_a_slope_stays_where_it_is() -> None:
    move, slope = torch.ones(1, 2, 3), torch.tensor([[[0.0, 0.0, 0.0], [1.0, -4.0, 2.0]]])
    found = smart_module._uphill(move, slope)
    assert torch.equal(found[0, 0], move[0, 0])
    assert torch.allclose(found[0, 1], 1 + STEP * torch.tensor([0.25, -1.0, 0.5]))
    assert torch.equal(smart_module._uphill(move, None), move)


def test_noise_is_a_texts_own_in_whatever_order_texts_lie(encoder: Encoder) -> None:
    task = task_of("similarity")
    packed = trainee_of(encoder, task).embedded(task, task.train, [(*KEY, place) for place in range(5)])
    lengths = [length for group in packed.lengths for length in group]
    noise = smart_module._noise(packed, KEY)
    assert sorted(packed.order) == list(range(10)) and packed.order != tuple(range(10))
    for part, place, length in zip(noise.split(lengths), packed.order, lengths, strict=True):
        expected = np.random.default_rng([*KEY, place]).standard_normal((length, noise.shape[1])) * FIRST_NOISE
        assert np.allclose(part.numpy(), expected, rtol=1e-12, atol=0)


# The loop


@pytest.fixture
def unmoved(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What smoothness gives in a run in which nothing is moved: that the passes differ by anything else."""
    monkeypatch.setattr(smart_module, "FIRST_NOISE", 0.0)
    monkeypatch.setattr(smart_module, "STEP", 0.0)
    heard: list[float] = []

    def spy(*given: Any) -> Tensor:
        value = smoothness(*given)
        heard.append(float(value.detach()))
        return value

    monkeypatch.setattr(loop_module, "smoothness", spy)
    return heard


def run_of(encoder: Encoder, tasks: Sequence[Task], **settings: Any) -> TrainConfig:
    given = {"batch": 3, "epochs": 1, "hidden": 6, "smart": 1.0} | settings
    return TrainConfig(tuple(task.config for task in tasks), **given)


def test_dropout_of_the_encoder_is_the_same_in_every_pass(unmoved: list[float]) -> None:
    tasks = [task_of("similarity"), task_of("paraphrase", pairs="cross-encoder"), task_of("sentiment")]
    encoder = tiny_encoder("bert", seed=3)
    train_tasks(encoder, tasks, run_of(encoder, tasks, dropout=0.3))
    assert len(unmoved) == 6 and set(unmoved) == {0.0}


def test_dropout_of_a_head_is_the_same_in_every_pass(unmoved: list[float]) -> None:
    tasks = [task_of(kind, head="feed-forward") for kind in ("similarity", "paraphrase", "sentiment")]
    encoder = tiny_encoder("bert", seed=3)
    train_tasks(encoder, tasks, run_of(encoder, tasks, dropout=0.0, head_dropout=0.3))
    assert len(unmoved) == 6 and set(unmoved) == {0.0}


@pytest.mark.slow
def test_a_smart_run_that_breaks_ends_the_same_and_learns(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that could disturb it: frozen layers, dropout and batch norm."""
    tasks = [task_of(kind, head="feed-forward") for kind in ("similarity", "paraphrase", "sentiment")]
    settings = {"smart": 5.0, "freeze": "lower", "epochs": 12, "learning_rate": 1e-3, "head_learning_rate": 1e-2}
    whole, other = (Encoder.load(str(tiny_folder), device="cpu") for _ in range(2))
    config = run_of(whole, tasks, **settings)
    report = train_tasks(whole, tasks, replace(config, out=str(tmp_path / "whole")))
    first, last = (sum(report.epochs[place]["train"].values()) for place in (0, -1))
    assert last < first
    monkeypatch.setattr(loop_module, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    again = replace(config, out=str(tmp_path / "broken"))
    with pytest.raises(KeyboardInterrupt):
        train_tasks(Encoder.load(str(tiny_folder), device="cpu"), tasks, again, progress=stopping_at(3))
    assert train_tasks(other, tasks, again, resume=True).epochs == report.epochs
    files = [(tmp_path / part / "head.safetensors").read_bytes() for part in ("whole", "broken")]
    assert files[0] == files[1]


def stopping_at(step: int) -> Callable[[int, int | None, str], None]:
    def progress(done: int, total: int | None, note: str) -> None:
        if note.startswith("steps") and done >= step:
            raise KeyboardInterrupt

    return progress


def test_batch_norm_counts_the_plain_pass_alone() -> None:
    task = task_of("sentiment", head="feed-forward")
    found = []
    for weight in (0.0, 1.0):
        run = new_run(task, smart=weight)
        run.multitask.heads.train()
        run._backward(0, task, 0)
        found.append(dict(run.multitask.heads.named_buffers()))
    assert found[0]["sentiment_head.norms.0.num_batches_tracked"] == 1
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_the_weight_of_smart_scales_its_gradient() -> None:
    """g(w) = g(0) + w * s, so that g(2) - g(0) is twice g(1) - g(0)."""
    task = task_of("similarity")
    found = []
    for weight in (0.0, 1.0, 2.0):
        run = new_run(task, smart=weight * 1e4)
        run._backward(0, task, 0)
        found.append(run.weights["encoder.encoder.layer.0.output.dense.weight"].grad)
    plain, once, twice = found
    assert plain is not None and once is not None and twice is not None
    assert float((once - plain).abs().max()) > 1e-6
    assert torch.allclose(twice - plain, 2 * (once - plain), rtol=1e-9, atol=1e-12)


def new_run(*tasks: Task, **settings: Any) -> Run:
    given = {"batch": 3, "seed": 2, "clip": 1e9} | settings
    return Run(trainee_of(tiny_encoder("bert", seed=3), *tasks, **given), tasks, Processes(), None)


# PCGrad


class Order(random.Random):
    """Shuffles into an order that is known beforehand."""

    def __init__(self, orders: Iterator[tuple[int, ...]]) -> None:
        super().__init__(0)
        self._orders = orders

    def shuffle(self, x: Any) -> None:
        x[:] = [x[place] for place in next(self._orders)]


def all_orders(gradients: Sequence[Tensor]) -> list[Tensor]:
    """What surgery gives for each order that the paper's random choice could take, of three tasks."""
    both = list(permutations(range(2)))
    return [
        pcgrad(gradients, Order(iter((one, two, three)))) for one in both for two in both for three in both
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_without_conflict_three_gradients_are_summed_in_any_order(seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    gradients = [torch.rand(6, generator=rng, dtype=torch.float64) for _ in range(3)]
    assert all(torch.equal(found, gradients[0] + gradients[1] + gradients[2]) for found in all_orders(gradients))


def test_the_order_matters_where_gradients_conflict() -> None:
    gradients = [torch.tensor(each, dtype=torch.float64) for each in ([1.0, 0.2], [-1.0, 0.5], [0.3, -1.0])]
    found = all_orders(gradients)
    assert any(not torch.allclose(found[0], other) for other in found[1:])


@pytest.mark.parametrize("seed", range(3))
def test_two_gradients_end_up_against_neither(seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    one, other = (torch.randn(6, generator=rng, dtype=torch.float64) for _ in range(2))
    other = other - 2 * torch.dot(one, other).clamp_min(0) / torch.dot(one, one) * one - 0.1 * one
    assert torch.dot(one, other) < 0
    total = pcgrad([one, other], random.Random(seed))
    assert min(torch.dot(total, one), torch.dot(total, other)) > -1e-12
    assert torch.allclose(total, pcgrad([other, one], random.Random(seed + 1)))


def test_the_gradients_given_are_not_changed() -> None:
    gradients = [torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 1.0]), torch.tensor([0.0, -1.0])]
    before = [each.clone() for each in gradients]
    pcgrad(gradients, random.Random(0))
    assert all(torch.equal(one, other) for one, other in zip(before, gradients, strict=True))


def test_a_gradient_of_zeros_does_no_harm() -> None:
    total = pcgrad([torch.zeros(2), torch.tensor([1.0, -1.0]), torch.tensor([-1.0, 0.0])], random.Random(0))
    assert torch.isfinite(total).all()


def test_a_step_projects_the_encoders_gradients_and_adds_those_of_heads() -> None:
    tasks = [task_of("similarity", head="linear"), task_of("paraphrase", weight=0.5), task_of("sentiment")]
    apart = new_run(*tasks, pcgrad=True, seed=7)
    parts, expected = [], {}
    for number, task in enumerate(tasks):
        apart._backward(number, task, 0)
        named = {name: weight.grad for name, weight in apart.weights.items() if weight.grad is not None}
        parts.append({name: named[name].clone() for name in named if name.startswith("encoder.")})
        expected |= {name: named[name].clone() for name in named if name.startswith("heads.")}
        apart.optimizer.zero_grad()
    flat = [torch.cat([part[name].flatten() for name in parts[0]]) for part in parts]
    assert torch.dot(flat[0], flat[1]) < 0 and torch.dot(flat[0], flat[2]) < 0
    total = pcgrad(flat, random.Random(7 * 1_000_003))
    start = 0
    for name, part in parts[0].items():
        expected[name] = total[start : start + part.numel()].view_as(part)
        start += part.numel()
    whole, seen = new_run(*tasks, pcgrad=True, seed=7), {}
    whole.optimizer.register_step_pre_hook(lambda *_: seen.update({n: w.grad for n, w in whole.weights.items()}))
    whole._step()
    assert seen.keys() == expected.keys()
    assert all(torch.allclose(seen[name], expected[name], rtol=1e-12, atol=1e-15) for name in seen)
