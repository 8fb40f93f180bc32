"""Frozen layers: theirs are the only weights that stay, and keeping what they give changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, combinations
from typing import Any

import pytest
import torch
from torch import Tensor

from likewise.encoder import Encoder, forward
from likewise.errors import UsageError
from likewise.train import Example, Source, Task, TaskConfig, TrainConfig, TrainReport, train_tasks
from likewise.train import multitask as trainee_module
from likewise.train.heads import loss_of
from likewise.train.multitask import new_multitask_model
from likewise.train.packed_encoder import FrozenStates, TokenTable, frozen_depth, frozen_layers
from likewise.train.processes import Processes
from tiny_models import tiny_encoder

DEPTH = 3
"""Blocks of the tiny models."""
FREEZES: dict[str, tuple[str | tuple[int, ...], set[int]]] = {
    "none": ("none", set()),
    "lower": ("lower", {0, 1}),
    "upper": ("upper", {2, 3}),
    "last": ("last", {3}),
    "all": ("all", {0, 1, 2, 3}),
    "empty": ((), set()),
    "embeddings": ((0,), {0}),
    "middle": ((2,), {2}),
    "apart": ((0, 2), {0, 2}),
    "last by -1": ((-1,), {3}),
    "first by -4": ((-4,), {0}),
    "both ends": ((-1, 0), {0, 3}),
    "twice": ((1, -3), {1}),
}
PAIRS = (("a b c", "b c d e f"), ("e f", "e f"), ("g h i j", "k l"), ("m n", "n o p q r"), ("s", "t u v"))


def task_of(kind: str = "similarity", **settings: Any) -> Task:
    targets = {"similarity": (4.2, 5.0, 0.2, 1.4, 3.0), "sentiment": (0, 3, 4, 1, 2), "paraphrase": (1, 1, 0, 0, 1)}
    wanted = 1 if kind == "sentiment" else 2
    examples = tuple(
        Example(pair[:wanted], float(target), str(place), "mine")
        for place, (pair, target) in enumerate(zip(PAIRS, targets[kind], strict=True))
    )
    config = TaskConfig(kind, (Source("mine"),), **settings)  # type: ignore[arg-type]
    return Task(config, examples, examples)


def config_of(*tasks: Task, **settings: Any) -> TrainConfig:
    given = {"batch": 3, "epochs": 2, "learning_rate": 1e-3, "hidden": 6, "dropout": 0.0} | settings
    return TrainConfig(tuple(task.config for task in tasks), **given)


# Which layers


def layer_of(name: str) -> int | None:
    """The layer of a weight of Hugging Face's BERT, by its name; None for the pooler, which no task reads."""
    if name.startswith("pooler"):
        return None
    found = re.search(r"encoder\.layer\.(\d+)\.", name)
    return int(found[1]) + 1 if found else 0


@pytest.mark.parametrize("name", FREEZES)
def test_the_frozen_layers_stay_and_all_others_move(name: str) -> None:
    freeze, frozen = FREEZES[name]
    encoder, tasks = tiny_encoder("bert"), [task_of(head="linear"), task_of("sentiment")]
    before = {weight: value.detach().clone() for weight, value in encoder.model.named_parameters()}
    report = train_tasks(encoder, tasks, config_of(*tasks, freeze=freeze, weight_decay=0.1))
    learnt = 0
    for weight, value in encoder.model.named_parameters():
        layer, same = layer_of(weight), torch.equal(before[weight], value)
        if layer is None or layer in frozen:
            assert same, weight
        elif not weight.endswith("attention.self.key.bias"):
            # A shift of all keys changes no softmax: its gradient is zero, and only rounding may move it.
            assert not same, weight
        learnt += value.numel() if layer is not None and layer not in frozen else 0
    heads = 2 + 5 * 32 + 5
    assert report.weights == learnt + heads


def test_layers_are_named_or_numbered_from_either_end() -> None:
    for freeze, expected in FREEZES.values():
        assert frozen_layers(freeze, DEPTH) == expected
    assert frozen_layers("lower", 12) == set(range(7)) and frozen_layers("upper", 12) == set(range(7, 13))
    assert frozen_layers("lower", 1) == {0} and frozen_layers("upper", 1) == {1}


@pytest.mark.parametrize("layer", [4, -5, 99])
def test_a_layer_that_is_not_there_is_refused(layer: int) -> None:
    task = task_of(head="linear")
    with pytest.raises(UsageError, match=f"no layer {layer} to freeze; this model has layers 0 to 3"):
        train_tasks(tiny_encoder("bert"), [task], config_of(task, freeze=(0, layer)))


def every_choice() -> Iterator[tuple[int, ...]]:
    layers = range(DEPTH + 1)
    return chain.from_iterable(combinations(layers, count) for count in range(DEPTH + 2))


def test_states_are_kept_of_the_highest_layer_below_which_nothing_learns() -> None:
    for chosen in every_choice():
        below = [layer for layer in range(DEPTH + 1) if set(range(layer + 1)) <= set(chosen)]
        assert frozen_depth(frozenset(chosen), DEPTH) == (max(below) if below else None), chosen


@pytest.mark.parametrize("pooling", ["bilstm", "qkv"])
def test_a_learned_pooling_and_heads_learn_over_frozen_layers(pooling: str) -> None:
    encoder, task = tiny_encoder("bert"), task_of(pooling=pooling)
    before = {weight: value.detach().clone() for weight, value in encoder.model.named_parameters()}
    report = train_tasks(encoder, [task], config_of(task, freeze="all", epochs=20, head_learning_rate=1e-2, lstm=4))
    assert all(torch.equal(before[weight], value) for weight, value in encoder.model.named_parameters())
    assert report.epochs[-1]["train"]["similarity"] < 0.8 * report.epochs[0]["train"]["similarity"]


@pytest.mark.parametrize("more", [(), ("sentiment",)], ids=["alone", "beside another"])
def test_a_task_that_cannot_learn_is_refused_in_words(more: tuple[str, ...]) -> None:
    tasks = [task_of(), *(task_of(kind) for kind in more)]
    with pytest.raises(UsageError, match=r"task similarity has no trainable parameters: .*; freeze fewer layers"):
        train_tasks(tiny_encoder("bert"), tasks, config_of(*tasks, freeze="all"))


def test_surgery_without_an_encoder_to_operate_on_is_a_plain_run() -> None:
    tasks = [task_of(head="linear"), task_of("sentiment")]
    plain, operated = (
        train_tasks(tiny_encoder("bert"), tasks, config_of(*tasks, freeze="all", pcgrad=pcgrad))
        for pcgrad in (False, True)
    )
    assert plain.epochs == operated.epochs


# What is kept of them


PREFIXES: dict[str, str | tuple[int, ...]] = {"0": (0,), "0 and 1": "lower", "0 to 2": (0, 1, 2), "all": "all"}


def losses(encoder: Encoder, tasks: list[Task], config: TrainConfig) -> list[Tensor]:
    """The loss of each task in training, before the first step."""
    multitask = new_multitask_model(encoder, tasks, config, Processes())
    assert all((reader.frozen is None) == (reader.start == 0 and uncached()) for reader in multitask.encoders.values())
    found = []
    for task in tasks:
        embedded = multitask.embedded(task, task.train, [(1, place) for place in range(len(task.train))])
        said = multitask.output(task, task.train, embedded)
        found.append(loss_of(task.config)(said, multitask.targets(task, task.train, said)).detach())
    return found


def uncached() -> bool:
    return trainee_module.frozen_depth is never


def never(frozen: frozenset[int], depth: int) -> None:
    """In place of ``frozen_depth``: nothing is kept, every layer runs every time."""


@pytest.mark.parametrize(("dtype", "rounding"), [("float32", 1e-6), ("float64", 1e-13)], ids=["float32", "float64"])
@pytest.mark.parametrize("name", PREFIXES)
def test_kept_states_give_the_same_losses(
    name: str, dtype: str, rounding: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not to the bit: kept states come from batches without padding, whose sums round differently."""
    tasks = [
        task_of(head="linear"),
        task_of("paraphrase", pairs="cross-encoder"),
        task_of("sentiment", head="feed-forward"),
    ]
    config = config_of(*tasks, freeze=PREFIXES[name], head_dropout=0.0)
    encoder = tiny_encoder("bert")
    encoder.model.to(getattr(torch, dtype))
    kept = losses(encoder, tasks, config)
    monkeypatch.setattr(trainee_module, "frozen_depth", never)
    computed = losses(encoder, tasks, config)
    for one, other in zip(kept, computed, strict=True):
        assert one.dtype == getattr(torch, dtype)
        assert float(one) == pytest.approx(float(other), rel=rounding)


def trained(family: str, tasks: list[Task], **settings: Any) -> TrainReport:
    return train_tasks(tiny_encoder(family), tasks, config_of(*tasks, **settings))


FAMILIES = ("bert", "roberta", "distilbert", "mpnet", "gpt_neo", "modernbert", "electra-same-width",
            "embedding_gemma2", "t5", "deberta-v2", "gte")  # fmt: skip
PROJECTING = ("electra", "albert")
"""Families whose embeddings are narrower than their layers."""


@pytest.mark.parametrize("freeze", [(0,), "lower"], ids=["embeddings", "lower"])
@pytest.mark.parametrize("family", [*FAMILIES, *PROJECTING])
def test_kept_states_give_the_same_run_in_every_family(
    family: str, freeze: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(head="linear")
    kept = trained(family, [task], freeze=freeze)
    monkeypatch.setattr(trainee_module, "frozen_depth", never)
    computed = trained(family, [task], freeze=freeze)
    assert [each["train"] for each in kept.epochs] == [
        pytest.approx(each["train"], rel=1e-9) for each in computed.epochs
    ]


def test_kept_states_are_those_of_the_layer() -> None:
    encoder = tiny_encoder("bert")
    texts = [text for pair in PAIRS for text in pair]
    table = TokenTable(encoder.tokenizer)
    places = table.indices(texts)
    for layer in range(DEPTH + 1):
        kept = FrozenStates.of(encoder, table, layer)
        chosen = [places[5], places[0], places[9]]
        found = kept.packed(chosen, encoder.device)
        parts = found.split([len(table.ids[place]) for place in chosen])
        for part, place in zip(parts, chosen, strict=True):
            batch = table.batch([place], encoder.device)
            steps = list(forward.layers(encoder.model_view, forward.embed(encoder.model_view, batch)))
            assert torch.allclose(part, steps[layer].states[0].detach(), rtol=0, atol=1e-12)


def test_kept_states_do_not_depend_on_who_asks() -> None:
    encoder = tiny_encoder("bert")
    table = TokenTable(encoder.tokenizer)
    places = table.indices([text for pair in PAIRS for text in pair])
    kept = FrozenStates.of(encoder, table, 1)
    alone = kept.packed([places[2]], encoder.device)
    among = kept.packed(places, encoder.device)
    assert torch.equal(alone, among.split([len(table.ids[place]) for place in places])[2])


def test_texts_that_training_never_drew_can_be_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dev and test texts are kept too, and those alone of train that an epoch will see."""
    task = task_of(head="linear")
    kept = trained("bert", [task], freeze="lower", samples=2, epochs=1)
    monkeypatch.setattr(trainee_module, "frozen_depth", never)
    computed = trained("bert", [task], freeze="lower", samples=2, epochs=1)
    assert kept.dev["similarity"].scores == pytest.approx(computed.dev["similarity"].scores, rel=1e-9)


@pytest.mark.parametrize("family", [*FAMILIES, *PROJECTING, "qwen3"])
def test_without_dropout_nothing_is_dropped(family: str) -> None:
    task = task_of()
    multitask = new_multitask_model(tiny_encoder(family), [task], config_of(task), Processes())
    found = []
    for seed in (1, 2):
        embedded = multitask.embedded(task, task.train, [(seed, place) for place in range(len(PAIRS))])
        found.append(multitask.output(task, task.train, embedded))
    assert torch.equal(found[0], found[1])
