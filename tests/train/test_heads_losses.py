"""Losses, features, schedules and gradients beside plain versions of their equations."""

from __future__ import annotations

import math
import random
from itertools import combinations, pairwise

import pytest
import torch
from torch import nn

from likewise.encoder import Encoder
from likewise.train.config import TaskConfig, parse_config
from likewise.train.examples import Source
from likewise.train.heads import LOSSES, FeedForward, cosent, divergence, features, loss_of
from likewise.train.loop import lr_scale, pcgrad
from likewise.train.multitask import layer_weights
from likewise.train.packed_encoder import jaccard, length_groups
from likewise.train.tasks import Schedule, epoch_order, fixed_sample

SEEDS = (0, 1, 2)


@pytest.mark.parametrize("temperature", [0.05, 0.2])
@pytest.mark.parametrize("seed", SEEDS)
def test_cosent_is_its_equation(seed: int, temperature: float) -> None:
    rng = random.Random(seed)
    scores = [rng.uniform(-1, 1) for _ in range(9)]
    truth = [rng.choice([0.0, 0.2, 0.5, 1.0]) for _ in range(9)]
    total = 1.0
    for i in range(9):
        for j in range(9):
            if truth[i] < truth[j]:
                total += math.exp((scores[i] - scores[j]) / temperature)
    task = TaskConfig("similarity", (Source("mine"),), loss="cosent", temperature=temperature)
    found = loss_of(task)(torch.tensor(scores, dtype=torch.float64), torch.tensor(truth, dtype=torch.float64))
    assert float(found) == pytest.approx(math.log(total), rel=1e-12)


def test_cosent_of_equal_targets_is_zero_and_has_a_gradient() -> None:
    scores = torch.tensor([0.1, 0.9], requires_grad=True)
    loss = cosent(scores, torch.tensor([0.5, 0.5]))
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == 0.0 and scores.grad is not None


@pytest.mark.parametrize("kind", ["similarity", "paraphrase", "sentiment"])
def test_divergences_are_symmetric_and_vanish_at_equality(kind: str) -> None:
    torch.manual_seed(0)
    shape = (6, 5) if kind == "sentiment" else (6,)
    one, other = torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)
    assert float(divergence(kind, one, one)) == pytest.approx(0, abs=1e-12)
    there, back = float(divergence(kind, one, other)), float(divergence(kind, other, one))
    assert there == pytest.approx(back) and there > 0


def test_the_divergence_of_a_logit_is_that_of_its_two_classes() -> None:
    one, other = torch.tensor([0.3, -2.0], dtype=torch.float64), torch.tensor([1.5, 0.1], dtype=torch.float64)
    total = 0.0
    for a, b in zip(torch.sigmoid(one).tolist(), torch.sigmoid(other).tolist(), strict=True):
        for p, q in ((a, b), (1 - a, 1 - b)):
            total += p * math.log(p / q) + q * math.log(q / p)
    assert float(divergence("paraphrase", one, other)) == pytest.approx(total / 2)


def test_losses_of_perfect_answers_are_small() -> None:
    assert float(LOSSES["scaled-mse"](torch.tensor([0.2, 1.0]), torch.tensor([0.2, 1.0]))) == 0
    # People say 4 and 5, the model 1 and 4: (9 + 1) / 2.
    assert float(LOSSES["scaled-mse"](torch.tensor([0.2, 0.8]), torch.tensor([0.8, 1.0]))) == pytest.approx(5.0)
    assert float(LOSSES["bce"](torch.tensor([20.0, -20.0]), torch.tensor([1.0, 0.0]))) < 1e-6
    assert float(LOSSES["cross-entropy"](torch.eye(3) * 30, torch.tensor([0.0, 1.0, 2.0]))) < 1e-6


@pytest.mark.parametrize("seed", SEEDS)
def test_chunks_are_the_cheapest(seed: int) -> None:
    rng = random.Random(seed)
    lengths, cost = [rng.randint(1, 40) for _ in range(9)], 25
    found = length_groups(lengths, cost)
    assert sorted(place for chunk in found for place in chunk) == list(range(9))
    spent = sum(cost + len(chunk) * max(lengths[place] for place in chunk) for chunk in found)
    order = sorted(lengths)
    cheapest = min(
        sum(cost + (end - start) * order[end - 1] for start, end in zip((0, *cuts), (*cuts, 9), strict=True))
        for count in range(9)
        for cuts in combinations(range(1, 9), count)
    )
    assert spent == cheapest


def test_no_texts_make_no_groups() -> None:
    assert length_groups([]) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_surgery_is_the_papers(seed: int) -> None:
    torch.manual_seed(seed)
    gradients = [torch.randn(6, dtype=torch.float64) for _ in range(3)]
    expected = torch.zeros(6, dtype=torch.float64)
    rng = random.Random(seed)
    for i in range(3):
        own = gradients[i].clone()
        others = [gradients[j] for j in range(3) if j != i]
        rng.shuffle(others)
        for other in others:
            dot = sum(a * b for a, b in zip(own.tolist(), other.tolist(), strict=True))
            if dot < 0:
                own = own - dot / sum(b * b for b in other.tolist()) * other
        expected += own
    assert torch.allclose(pcgrad(gradients, random.Random(seed)), expected)


def test_agreeing_gradients_are_only_summed() -> None:
    one, other = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 0.0])
    assert torch.equal(pcgrad([one, other], random.Random(0)), one + other)


def test_features_of_a_pair() -> None:
    left, right, share = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 2.0]]), torch.tensor([[0.5]])
    names = ("difference", "absolute", "product", "cosine", "jaccard")
    found = features(names, [left, right], share)[0].tolist()
    assert found == pytest.approx([-2, 0, 2, 0, 3, 4, 7 / math.sqrt(5 * 13), 0.5])


def test_jaccard_of_token_sets() -> None:
    assert jaccard(frozenset({1, 2, 3}), frozenset({2, 3, 4})) == 0.5
    assert jaccard(frozenset(), frozenset()) == 0.0


def test_a_feed_forward_head_skips_its_layers() -> None:
    head = FeedForward(3, 4, 2, 0.0, 1).eval()
    with torch.no_grad():
        for layer in head.layers:
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
    x = torch.randn(5, 3)
    assert torch.allclose(head(x), head.out(head.skip(x)))


def config_of(settings: str) -> object:
    return parse_config(settings + '\n[[task]]\nkind = "similarity"\ntrain = "a"')


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant"])
def test_the_pace_grows_then_falls(schedule: str) -> None:
    config = config_of(f'warmup = 0.2\nschedule = "{schedule}"')
    shares = [lr_scale(config, step, 50) for step in range(50)]  # type: ignore[arg-type]
    assert shares[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert all(later <= earlier for earlier, later in pairwise(shares[10:]))
    assert max(shares) == 1.0 and min(shares) > 0


def test_every_weight_belongs_to_one_layer(tiny: Encoder) -> None:
    layers = layer_weights(tiny)
    assert len(layers) == tiny.model_view.layers + 1
    pooling_mask = [id(weight) for layer in layers for weight in layer]
    known = {id(weight) for name, weight in tiny.model.named_parameters() if "pooler" not in name}
    assert len(set(pooling_mask)) == len(pooling_mask) and set(pooling_mask) == known


@pytest.mark.parametrize("seed", SEEDS)
def test_an_epoch_sees_everything_once_before_anything_twice(seed: int) -> None:
    order = epoch_order(7, 17, [seed])
    assert sorted(order[:7]) == sorted(order[7:14]) == list(range(7)) and len(order) == 17


def test_a_schedule_covers_an_epoch() -> None:
    schedule = Schedule((10, 4), (3, 3), batch=3, accumulate=2, samples=None, seed=1)
    assert schedule.steps == 2
    seen = [place for step in range(2) for part in range(2) for place in schedule.batch_of(0, 0, step, part)]
    assert set(seen) == set(range(10))
    assert schedule.order(0, 0) != schedule.order(0, 1)
    assert schedule.drawn(1, 1) == [0, 1, 2, 3]


@pytest.mark.parametrize(("samples", "steps", "seen"), [(None, 5, (10, 20)), (6, 3, (6, 12)), (100, 5, (10, 20))])
def test_a_task_may_see_more_than_another(samples: int | None, steps: int, seen: tuple[int, int]) -> None:
    schedule = Schedule((8, 20), (2, 4), batch=2, accumulate=1, samples=samples, seed=1)
    assert schedule.steps == steps and (schedule.wanted(0), schedule.wanted(1)) == seen
    batches = [schedule.batch_of(1, 0, step, 0) for step in range(steps)]
    assert [len(batch) for batch in batches] == [4] * steps
    assert sorted({place for batch in batches for place in batch}) == schedule.drawn(1, 1)


def test_a_sample_is_fixed() -> None:
    items = list(range(100))
    assert fixed_sample(items, 10, 0) == fixed_sample(items, 10, 0) != fixed_sample(items, 10, 1)
    assert fixed_sample(items, None, 0) == fixed_sample(items, 200, 0) == items
