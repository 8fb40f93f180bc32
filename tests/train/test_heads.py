"""Heads beside their equations in plain numpy, over vectors that Hugging Face's own model gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.train import Example, Source, Task, TaskConfig, TrainConfig
from likewise.train.heads import FeedForward, feature_width, features, features_of, new_head
from likewise.train.multitask import MultiTaskModel, evaluate, new_multitask_model
from likewise.train.processes import Processes
from tiny_models import tiny_encoder
from twins import twin_model, twin_tokenizer

Array = NDArray[np.float64]
EXACT = 1e-12
PAIRS = (("a b c", "b c d"), ("e f", "e f"), ("g h i j", "k l"), ("m n", "n o p q r"), ("s", "t u v"))
OVERLAPS = (2 / 4, 1.0, 0.0, 1 / 6, 0.0)
"""Letters are tokens of their own, so the sets can be counted by hand."""


# The feed-forward head


def numbers(tensor: torch.Tensor) -> Array:
    return tensor.detach().numpy().astype(np.float64)


def randomised(module: nn.Module, seed: int) -> None:
    """Weights, shifts and running means that are none of them 0 or 1."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():
            weight.normal_(0.1, 0.5)
        for name, kept in module.named_buffers():
            if name.endswith("running_mean"):
                kept.normal_()
            elif name.endswith("running_var"):
                kept.uniform_(0.5, 2.0)


def feed_forward_twin(head: FeedForward, x: Array, training: bool, masks: Sequence[Array] = ()) -> Array:
    """h_1 = S x + m_1 ReLU(BN(W_1 x + b_1)), then h_k = h_k-1 + m_k ReLU(BN(W_k h_k-1 + b_k)); out = V h + c."""
    h = x
    skipped = x @ numbers(head.skip.weight).T
    for place, (layer, norm) in enumerate(zip(head.layers, head.norms, strict=True)):
        z = h @ numbers(layer.weight).T + numbers(layer.bias)
        mean, variance = (z.mean(0), z.var(0)) if training else (numbers(norm.running_mean), numbers(norm.running_var))
        z = (z - mean) / np.sqrt(variance + 1e-5) * numbers(norm.weight) + numbers(norm.bias)
        z = np.where(z > 0, z, 0.0)
        h = skipped + (z * masks[place] if masks else z)
        skipped = h
    out: Array = h @ numbers(head.out.weight).T + numbers(head.out.bias)
    return out


@pytest.mark.parametrize("training", [True, False], ids=["training", "use"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_feed_forward_head_is_its_equation(depth: int, training: bool) -> None:
    head = FeedForward(3, 4, depth, 0.0, 2).double().train(training)
    randomised(head, depth)
    x = torch.randn(7, 3, dtype=torch.float64)
    expected = feed_forward_twin(head, numbers(x), training)
    assert np.abs(numbers(head(x)) - expected).max() < EXACT


def test_batch_norm_follows_the_batches_it_has_seen() -> None:
    head = FeedForward(3, 4, 1, 0.0, 1).double().train()
    randomised(head, 5)
    x = torch.randn(6, 3, dtype=torch.float64)
    norm, layer = head.norms[0], head.layers[0]
    z = numbers(x) @ numbers(layer.weight).T + numbers(layer.bias)  # type: ignore[arg-type]
    mean = 0.9 * numbers(norm.running_mean) + 0.1 * z.mean(0)  # type: ignore[arg-type]
    variance = 0.9 * numbers(norm.running_var) + 0.1 * z.var(0, ddof=1)  # type: ignore[arg-type]
    head(x)
    assert np.abs(numbers(norm.running_mean) - mean).max() < EXACT  # type: ignore[arg-type]
    assert np.abs(numbers(norm.running_var) - variance).max() < EXACT  # type: ignore[arg-type]


def test_dropout_falls_on_what_a_layer_adds_and_never_on_the_skip() -> None:
    head = FeedForward(3, 4, 2, 0.4, 2).double().train()
    randomised(head, 6)
    x = torch.randn(7, 3, dtype=torch.float64)
    torch.manual_seed(9)
    masks = [numbers(F.dropout(torch.ones(7, 4, dtype=torch.float64), 0.4)) for _ in range(2)]
    torch.manual_seed(9)
    assert np.abs(numbers(head(x)) - feed_forward_twin(head, numbers(x), True, masks)).max() < EXACT
    assert np.abs(numbers(head.eval()(x)) - feed_forward_twin(head, numbers(x), False)).max() < EXACT


# Features


FEATURES_BY_HAND = {
    "difference": [[-2.0, 1.0], [3.0, 4.0]],
    "absolute": [[2.0, 1.0], [3.0, 4.0]],
    "product": [[3.0, 2.0], [0.0, 0.0]],
    "cosine": [[5 / 50**0.5], [0.0]],
    "jaccard": [[0.25], [0.75]],
    "vector": [[1.0, 2.0], [3.0, 4.0]],
}


@pytest.mark.parametrize("name", FEATURES_BY_HAND)
def test_a_feature_is_what_its_name_says(name: str) -> None:
    left, right = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[3.0, 1.0], [0.0, 0.0]])
    found = features([name], [left, right], torch.tensor([[0.25], [0.75]]))
    assert found.tolist() == [pytest.approx(row) for row in FEATURES_BY_HAND[name]]
    assert found.shape[1] == feature_width([name], 2)


def test_features_stand_in_the_order_they_are_named() -> None:
    left, right, share = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 1.0]]), torch.tensor([[0.25]])
    found = features(("jaccard", "product", "difference"), [left, right], share)
    assert found.tolist() == [[0.25, 3.0, 2.0, -2.0, 1.0]]
    assert feature_width(("jaccard", "product", "difference"), 2) == 5


# Whole tasks: texts -> what the head says


def examples(kind: str) -> tuple[Example, ...]:
    wanted = 1 if kind == "sentiment" else 2
    return tuple(Example(pair[:wanted], 1.0, str(place), "mine") for place, pair in enumerate(PAIRS))


def task_of(kind: str, **settings: Any) -> Task:
    config = TaskConfig(kind, (Source("mine"),), **settings)  # type: ignore[arg-type]
    return Task(config, examples(kind), examples(kind))


def trainee_of(encoder: Encoder, *tasks: Task, **settings: Any) -> MultiTaskModel:
    config = TrainConfig(tuple(task.config for task in tasks), hidden=6, **settings)
    multitask = new_multitask_model(encoder, tasks, config, Processes())
    randomised(multitask.heads, 8)
    return multitask


def said(multitask: MultiTaskModel, task: Task) -> Array:
    return evaluate(multitask, task, task.train).scores


def states(encoder: Encoder, *texts: str) -> Array:
    """The last layer of one text or of a pair as one sequence, by Hugging Face's own tokenizer and model."""
    tokens = twin_tokenizer(encoder)(*texts, return_tensors="pt", return_token_type_ids=True)
    with torch.no_grad():
        return numbers(twin_model(encoder)(**tokens).last_hidden_state[0])


def both_vectors(encoder: Encoder) -> tuple[Array, Array]:
    left, right = ([states(encoder, pair[side]).mean(0) for pair in PAIRS] for side in (0, 1))
    return np.stack(left), np.stack(right)


def cosines(left: Array, right: Array) -> Array:
    return np.array([u @ v / np.sqrt((u @ u) * (v @ v)) for u, v in zip(left, right, strict=True)])


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    return np.exp(x) / np.exp(x).sum(1, keepdims=True)


def linear(head: Any, x: Array) -> Array:
    return x @ numbers(head.weight).T + numbers(head.bias)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return tiny_encoder("bert", seed=3)


def test_the_baseline_of_sentiment_is_one_linear_layer_to_five_logits(encoder: Encoder) -> None:
    task = task_of("sentiment")
    multitask = trainee_of(encoder, task)
    head = multitask.heads["sentiment_head"]
    assert type(head) is nn.Linear and head.weight.shape == (5, 32)
    expected = softmax(linear(head, both_vectors(encoder)[0]))
    assert np.abs(said(multitask, task) - expected).max() < EXACT


def test_the_baseline_of_paraphrase_is_one_linear_layer_on_the_difference(encoder: Encoder) -> None:
    task = task_of("paraphrase")
    multitask = trainee_of(encoder, task)
    head = multitask.heads["paraphrase_head"]
    assert type(head) is nn.Linear and head.weight.shape == (1, 32)
    left, right = both_vectors(encoder)
    assert np.abs(said(multitask, task) - sigmoid(linear(head, left - right)[:, 0])).max() < EXACT


def test_the_baseline_of_similarity_is_a_linear_map_of_the_cosine(encoder: Encoder) -> None:
    task = task_of("similarity", head="linear")
    multitask = trainee_of(encoder, task)
    line: Any = multitask.heads["similarity_head"].line
    assert [each.numel() for each in multitask.heads.parameters()] == [1, 1]
    expected = 5 * (float(line.weight.detach()) * cosines(*both_vectors(encoder)) + float(line.bias.detach()))
    assert np.abs(said(multitask, task) - expected).max() < EXACT


@pytest.mark.parametrize("head", ["cosine", "linear"])
def test_a_fresh_similarity_is_five_times_the_cosine(encoder: Encoder, head: str) -> None:
    task = task_of("similarity", head=head)
    config = TrainConfig((task.config,))
    multitask = new_multitask_model(encoder, [task], config, Processes())
    assert np.abs(said(multitask, task) - 5 * cosines(*both_vectors(encoder))).max() < EXACT


def test_the_models_own_unit_length_is_left_to_the_cosine(encoder: Encoder) -> None:
    unit = replace(encoder, modules_config=replace(encoder.modules_config, normalizes=True))
    task = task_of("paraphrase")
    assert (said(trainee_of(unit, task), task) == said(trainee_of(encoder, task), task)).all()


@pytest.mark.parametrize("kind", ["paraphrase", "similarity"])
def test_a_feed_forward_head_sees_the_features_of_two_vectors(encoder: Encoder, kind: str) -> None:
    task = task_of(kind, head="feed-forward", features=("product", "jaccard", "cosine", "absolute", "difference"))
    multitask = trainee_of(encoder, task)
    left, right = both_vectors(encoder)
    columns = [left * right, np.array(OVERLAPS)[:, None], cosines(left, right)[:, None], abs(left - right)]
    head: Any = multitask.heads[f"{kind}_head"]
    logits = feed_forward_twin(head, np.concatenate([*columns, left - right], axis=1), False)[:, 0]
    expected = sigmoid(logits) * (5 if kind == "similarity" else 1)
    assert np.abs(said(multitask, task) - expected).max() < EXACT


def test_a_feed_forward_head_of_sentiment_sees_the_vector(encoder: Encoder) -> None:
    task = task_of("sentiment", head="feed-forward")
    multitask = trainee_of(encoder, task)
    head: Any = multitask.heads["sentiment_head"]
    assert (
        np.abs(said(multitask, task) - softmax(feed_forward_twin(head, both_vectors(encoder)[0], False))).max() < EXACT
    )


@pytest.mark.parametrize("kind", ["paraphrase", "similarity"])
def test_a_cross_encoders_pair_is_one_vector_and_one_linear_layer(encoder: Encoder, kind: str) -> None:
    task = task_of(kind, pairs="cross-encoder", pooling="cls")
    multitask = trainee_of(encoder, task)
    head = multitask.heads[f"{kind}_head"]
    assert type(head) is nn.Linear and head.weight.shape == (1, 32)
    logits = linear(head, np.stack([states(encoder, *pair)[0] for pair in PAIRS]))[:, 0]
    expected = 5 * logits if kind == "similarity" else sigmoid(logits)
    assert np.abs(said(multitask, task) - expected).max() < EXACT


@pytest.mark.parametrize("kind", ["paraphrase", "similarity"])
def test_a_cross_encoders_feed_forward_head_sees_the_vector_and_the_overlap(encoder: Encoder, kind: str) -> None:
    task = task_of(kind, pairs="cross-encoder", head="feed-forward")
    multitask = trainee_of(encoder, task)
    assert features_of(task.config) == ("vector", "jaccard")
    seen = np.stack([[*states(encoder, *pair).mean(0), share] for pair, share in zip(PAIRS, OVERLAPS, strict=True)])
    head: Any = multitask.heads[f"{kind}_head"]
    expected = sigmoid(feed_forward_twin(head, seen, False)[:, 0]) * (5 if kind == "similarity" else 1)
    assert np.abs(said(multitask, task) - expected).max() < EXACT


def test_a_shared_head_says_the_same_on_two_scales(encoder: Encoder) -> None:
    kinds = ("sentiment", "paraphrase", "similarity")
    tasks = [task_of(kind, head="feed-forward") for kind in kinds]
    multitask = trainee_of(encoder, *tasks, shared_head=True)
    assert set(multitask.heads) == {"sentiment_head", "shared_head"}
    left, right = both_vectors(encoder)
    head: Any = multitask.heads["shared_head"]
    seen = np.concatenate([left - right, np.array(OVERLAPS)[:, None]], axis=1)
    shares = sigmoid(feed_forward_twin(head, seen, False)[:, 0])
    assert np.abs(said(multitask, tasks[1]) - shares).max() < EXACT
    assert np.abs(said(multitask, tasks[2]) - 5 * shares).max() < EXACT


def test_targets_of_similarity_are_fifths_and_others_stay(encoder: Encoder) -> None:
    for kind, expected in (("similarity", 0.84), ("paraphrase", 4.2), ("sentiment", 4.2)):
        task = task_of(kind)
        example = replace(task.train[0], target=4.2)
        found = trainee_of(encoder, task).targets(task, [example], torch.zeros(1, dtype=torch.float64))
        assert found.tolist() == [pytest.approx(expected, abs=EXACT)]


def test_head_sizes_follow_the_config(encoder: Encoder) -> None:
    config = TrainConfig((task_of("paraphrase", head="feed-forward").config,), hidden=7, depth=3, head_dropout=0.2)
    head: Any = new_head(config.tasks[0], config, encoder)
    assert [tuple(layer.weight.shape) for layer in head.layers] == [(7, 33), (7, 7), (7, 7)]
    assert head.rate == 0.2 and head.out.weight.shape == (1, 7)


@pytest.mark.parametrize("name", ["a.b", "shared", "mine-2", "train", "keys"])
def test_a_task_may_have_any_name_or_is_refused_in_words(encoder: Encoder, name: str) -> None:
    try:
        tasks = [task_of("sentiment", head="feed-forward", name=name)]
        tasks += [task_of(kind, head="feed-forward") for kind in ("paraphrase", "similarity")]
        multitask = trainee_of(encoder, *tasks, shared_head=True)
    except UsageError:
        return
    assert said(multitask, tasks[0]).shape == (5, 5) and said(multitask, tasks[2]).shape == (5,)


@pytest.mark.parametrize(("own", "of_run", "drops"), [(0.0, None, False), (0.0, 0.5, False), (0.5, 0.0, True)])
def test_a_task_may_have_a_dropout_of_its_own(encoder: Encoder, own: float, of_run: float | None, drops: bool) -> None:
    mine, other = task_of("similarity", dropout=own), task_of("sentiment")
    multitask = trainee_of(encoder, mine, other, dropout=of_run)

    def vectors(task: Task, keys: list[tuple[int, ...]] | None) -> Array:
        embedded = multitask.embedded(task, task.train, keys)
        return numbers(torch.cat(multitask.vectors(task, task.train, embedded)).detach())

    keys = [(7, place) for place in range(len(PAIRS))]
    assert np.array_equal(vectors(mine, keys), vectors(mine, None)) is not drops
    assert np.array_equal(vectors(other, keys), vectors(other, None)) is (of_run == 0)
