"""The multi-task model: one encoder with a pooling and a head per task; its trainable weights and its evaluation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from likewise.encoder import Encoder
from likewise.encoder.learned_pooling import LEARNED, LearnedPooling, new_learned_pooling
from likewise.encoder.tokens import Tokenizer
from likewise.errors import UsageError
from likewise.progress import Progress, Ticker
from likewise.train.config import SHARING, SINGLE, TaskConfig, TrainConfig
from likewise.train.examples import Example
from likewise.train.heads import TOP, features, features_of, loss_of, new_head, pairwise_scores
from likewise.train.packed_encoder import (
    FrozenStates,
    Key,
    Masking,
    Packed,
    PackedEncoder,
    TokenTable,
    frozen_depth,
    frozen_layers,
    jaccard,
)
from likewise.train.processes import Processes
from likewise.train.results import EvalResult
from likewise.train.tasks import Schedule, Task

SHARED = "shared"  # The name of the head that paraphrase and similarity share
HEAD_ROWS = 1024  # Examples whose heads run together in an evaluation
MASKED_TEXTS = 64  # Texts whose masked tokens are predicted together: each has logits for the whole vocabulary


@dataclass(frozen=True, eq=False)
class MultiTaskModel:
    """All that learns, and all that is needed to run it."""

    config: TrainConfig
    encoders: dict[str, PackedEncoder]  # by task
    heads: nn.ModuleDict  # by task, or shared
    frozen: frozenset[int]

    @cached_property
    def masking(self) -> dict[str, Masking]:
        """How the tokens of each masked language model are masked, by task."""
        own = {task.name: task.masked for task in self.config.tasks if task.kind == "mlm"}
        return {name: Masking.of(self.base.tokenizer, share) for name, share in own.items()}

    @property
    def base(self) -> Encoder:
        """The encoder whose weights all tasks share."""
        return next(iter(self.encoders.values())).encoder

    def head(self, task: TaskConfig) -> nn.Module:
        """The head of a task."""
        return self.heads[head_name(self.config, task)]

    def encoder(self, task: TaskConfig) -> Encoder:
        """The encoder with the task's pooling."""
        return self.encoders[task.name].encoder

    def embedded(
        self, task: Task, examples: Sequence[Example], keys: Sequence[Key] | None, dropout: bool = True
    ) -> Packed:
        """The texts of examples at the layer they start from.

        ``keys`` has one key per example, which seeds dropout and masking; None for no dropout.
        """
        encoder = self.encoders[task.name]
        texts = [text for example in examples for text in task.texts(example)]
        per = len(task.texts(examples[0]))
        spread = None if keys is None else [(*key, side) for key in keys for side in range(per)]
        masking = self.masking.get(task.name)
        if masking is None:
            return encoder.embedded(texts, spread)
        assert spread is not None
        tokens, indices = encoder.tokens, encoder.tokens.indices(texts)
        own = zip(indices, spread, strict=True)
        masked = [masking.masked(tokens.own[index], tokens.ids[index], key) for index, key in own]
        return encoder.embedded(texts, spread if dropout else None, masked)

    def output(self, task: Task, examples: Sequence[Example], embedded: Packed) -> Tensor:
        """The head's output for examples.

        Logits (B, C) of classes, a logit (B,), a similarity (B,) from 0 to 1, a number (B,), cosines (B, M) over the
        temperature, or logits (M, V) of masked tokens.
        """
        if task.name in self.masking:
            states = self.encoders[task.name].masked_states(embedded)
            output: Tensor = self.head(task.config)(states, self.encoder(task.config).model_view.embeddings.word.weight)
            return output
        return self.output_of(task, examples, self.vectors(task, examples, embedded))

    def vectors(self, task: Task, examples: Sequence[Example], embedded: Packed) -> list[Tensor]:
        """The vectors (B, P) of the examples' first texts, of their second ones, and so on."""
        per = len(task.texts(examples[0]))
        vectors = self.encoders[task.name].pooled(embedded, len(examples) * per)
        return [vectors[side::per] for side in range(per)]

    def output_of(self, task: Task, examples: Sequence[Example], vectors: Sequence[Tensor]) -> Tensor:
        """``output`` from the vectors of the examples' texts."""
        if task.config.kind == "contrastive":
            return pairwise_scores(vectors) / task.config.temperature
        seen = features(features_of(task.config), vectors, self._jaccard(task, examples, vectors[0]))
        output: Tensor = self.head(task.config)(seen)
        if task.config.kind == "sentiment":
            return output
        is_bounded = task.config.kind == "similarity" and task.config.head == "feed-forward"
        return torch.sigmoid(output[:, 0]) if is_bounded else output[:, 0]

    def _jaccard(self, task: Task, examples: Sequence[Example], like: Tensor) -> Tensor:
        if "jaccard" not in features_of(task.config):
            return like.new_zeros(len(examples), 1)
        tokens = self.encoders[task.name].tokens
        sides = [tokens.indices([example.texts[side] for example in examples]) for side in (0, 1)]
        shares = [[jaccard(tokens.words(left), tokens.words(right))] for left, right in zip(*sides, strict=True)]
        return like.new_tensor(shares)

    def targets(self, task: Task, examples: Sequence[Example], like: Tensor, embedded: Packed | None = None) -> Tensor:
        """The targets of the loss: classes, numbers (from 0 to 1 for similarities), or masked tokens (M,)."""
        if task.name in self.masking and embedded is not None:
            return self.encoders[task.name].masked_tokens(embedded)[0]
        top = TOP if task.config.kind == "similarity" else 1.0
        return like.new_tensor([example.target / top for example in examples])


def head_name(config: TrainConfig, task: TaskConfig) -> str:
    """The name of a task's head."""
    # By the name: the eval view of a contrastive task is one of similarity, yet has its own head.
    sharing = {each.name for each in config.tasks if config.shared_head and each.kind in SHARING}
    # Not the bare name: a ModuleDict takes no module called "keys".
    return f"{SHARED if task.name in sharing else task.name}_head"


def main_task(config: TrainConfig) -> TaskConfig:
    """The task whose pooling is saved with the encoder: the first bi-encoder task about pairs, or else the first."""
    bi_encoders = [task for task in config.tasks if task.kind not in SINGLE and not task.cross_encoder]
    return (bi_encoders or list(config.tasks))[0]


# New models


def new_multitask_model(
    encoder: Encoder, tasks: Sequence[Task], config: TrainConfig, processes: Processes, progress: Progress | None = None
) -> MultiTaskModel:
    """Fresh heads over an encoder; the output of frozen layers is computed here, once."""
    encoder = _with_dropout(encoder, config.dropout)
    if config.max_tokens is not None:
        known = encoder.tokenizer
        limit = min(known.limit, config.max_tokens)
        encoder = replace(encoder, tokenizer=Tokenizer(known.vocabulary, limit, encoder.modules_config.lower))
    torch.manual_seed(config.seed)
    pooled = new_variants(encoder, config)
    made = {task.name: _with_dropout(pooled[task.name], task.dropout) for task in config.tasks}
    heads = new_heads(config, made)
    tokens = _tokens(encoder, tasks, config)
    depth = encoder.model_view.layers
    frozen = frozen_layers(config.freeze, depth)
    start = frozen_depth(frozen, depth)
    states = None
    if start is not None:
        if any(task.kind == "mlm" for task in config.tasks):
            raise UsageError("a task of kind mlm masks other tokens in each step, so the embeddings cannot be frozen")
        start = min(start, *encoder.pooling_config.layers_of(depth))  # a layer that is pooled must be run
        if any(block.input_gate for block in encoder.model_view.blocks):
            start = 0  # all layers read the embeddings
        states = FrozenStates.of(encoder, tokens, start, progress)
    encoders = {name: PackedEncoder(each, tokens, processes, states, start or 0) for name, each in made.items()}
    return MultiTaskModel(config, encoders, heads, frozen)


def new_heads(config: TrainConfig, encoders: Mapping[str, Encoder]) -> nn.ModuleDict:
    """A fresh head per task, over the encoder as that task pools it."""
    heads = nn.ModuleDict()
    for task in config.tasks:
        name = head_name(config, task)
        if name not in heads:
            heads[name] = new_head(task, config, encoders[task.name])
    encoder = encoders[config.tasks[0].name]
    return heads.to(encoder.device, encoder.model_view.dtype)


def _tokens(encoder: Encoder, tasks: Sequence[Task], config: TrainConfig) -> TokenTable:
    """The tokens of all texts that the run will see."""
    tokens = TokenTable(encoder.tokenizer, encoder.modules_config.prompt_for(None))
    drawn = schedule(config, tasks)
    for number, task in enumerate(tasks):
        tokens.add(text for index in drawn.drawn(number, config.epochs) for text in task.texts(task.train[index]))
        tokens.add(text for part in (task.dev, task.test) for each in part for text in task.eval_view.texts(each))
    return tokens


def schedule(config: TrainConfig, tasks: Sequence[Task]) -> Schedule:
    """Which examples make which step of a run."""
    counts = tuple(len(task.train) for task in tasks)
    batches = tuple(config.batch_of(task.config) for task in tasks)
    return Schedule(counts, batches, config.batch, config.accumulate, config.samples, config.seed)


def _with_dropout(encoder: Encoder, rate: float | None) -> Encoder:
    """The same weights with another dropout; None keeps the present one."""
    return encoder if rate is None else replace(encoder, model_view=encoder.model_view.with_dropout(rate))


def require_torch(encoder: Encoder) -> None:
    """Reject an encoder of another backend: heads and gradients need its layers."""
    if encoder.backend is not None:
        raise UsageError("training and its heads need the backend torch; load the model with that")


def new_variants(encoder: Encoder, config: TrainConfig) -> dict[str, Encoder]:
    """The encoder as each task pools it; learned poolings are the encoder's own, or fresh ones."""
    poolings = {task.name: task.pooling or encoder.pooling_config.pooling for task in config.tasks}
    own, width = encoder.modules_config.learned, encoder.model_view.hidden_size
    learned: dict[str, LearnedPooling] = {}
    for kind in LEARNED.keys() & set(poolings.values()):
        hidden = config.lstm if kind == "bilstm" else None
        learned[kind] = own if own and own.kind == kind else new_learned_pooling(kind, width, hidden, config.seed)
    return variants(encoder, poolings, learned)


def variants(
    encoder: Encoder, poolings: Mapping[str, str], learned: Mapping[str, LearnedPooling]
) -> dict[str, Encoder]:
    """The encoder as each task pools it. Vectors are not normalized: heads use their lengths too."""
    made = {
        kind: encoder.with_learned_pooling(learned[kind]) if kind in learned else encoder.with_pooling(pooling=kind)
        for kind in dict.fromkeys(poolings.values())
    }
    return {name: made[kind].with_pooling(normalize=False) for name, kind in poolings.items()}


# Weights

Weights = Mapping[str, nn.Parameter]


def layer_weights(encoder: Encoder) -> list[list[nn.Parameter]]:
    """The weights of each layer, 0 for the embeddings; one that several layers share belongs to the first of them."""
    views = encoder.model_view
    parts: list[list[Any]] = [[views.embeddings, views.projection], *([block] for block in views.blocks)]
    parts[-1].append(views.final_norm)
    first: dict[nn.Parameter, int] = {}
    for layer, part in enumerate(parts):
        for weight in (weight for module in _modules(part) for weight in module.parameters()):
            first.setdefault(weight, layer)
    return [[weight for weight, own in first.items() if own == layer] for layer in range(len(parts))]


def _modules(view: Any) -> Iterator[nn.Module]:
    """All modules inside a view or a list of views."""
    if isinstance(view, nn.Module):
        yield view
    elif is_dataclass(view):
        yield from _modules([getattr(view, each.name) for each in fields(view)])
    elif isinstance(view, (list, tuple)):
        for each in view:
            yield from _modules(each)


def learning_weights(multitask: MultiTaskModel) -> dict[str, nn.Parameter]:
    """Everything that learns, by a name that stays the same from run to run; frozen layers get no gradients."""
    layers = {weight: layer for layer, each in enumerate(layer_weights(multitask.base)) for weight in each}
    for weight, layer in layers.items():
        weight.requires_grad_(layer not in multitask.frozen)
    named = {
        f"encoder.{name}": weight
        for name, weight in multitask.base.model.named_parameters()
        if weight in layers and weight.requires_grad
    }
    named |= {f"heads.{name}": weight for name, weight in multitask.heads.named_parameters()}
    for packed in multitask.encoders.values():
        learned = packed.encoder.modules_config.learned
        if learned is not None and learned.kind == packed.encoder.pooling_config.pooling:
            named |= {f"{learned.kind}.{name}": weight for name, weight in learned.named_parameters()}
    return named


def prefixes(multitask: MultiTaskModel, task: TaskConfig) -> tuple[str, ...]:
    """How the names of a task's weights begin."""
    pooling = multitask.encoder(task).pooling_config.pooling
    return ("encoder.", f"heads.{head_name(multitask.config, task)}.", f"{pooling}.")


def common_weights(multitask: MultiTaskModel, weights: Weights) -> list[nn.Parameter]:
    """The weights that more than one task trains: the encoder, a shared head, a learned pooling of several tasks."""
    users = Counter(prefix for task in multitask.config.tasks for prefix in prefixes(multitask, task))
    shared = tuple(prefix for prefix, count in users.items() if count > 1)
    return [weight for name, weight in weights.items() if name.startswith(shared)]


def new_optimizer(multitask: MultiTaskModel, weights: Weights) -> torch.optim.AdamW:
    """AdamW with a group per learning rate and weight decay."""
    config, layers = multitask.config, layer_weights(multitask.base)
    rates = {
        weight: config.learning_rate * config.layer_decay ** (len(layers) - 1 - layer)
        for layer, each in enumerate(layers)
        for weight in each
    }
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for weight in weights.values():
        rate = rates.get(weight, config.head_learning_rate)
        # Biases and the gains of norms have no decay.
        decay = config.weight_decay if weight.ndim > 1 else 0.0
        groups.setdefault((rate, decay), []).append(weight)
    made = [{"params": group, "lr": rate, "weight_decay": decay} for (rate, decay), group in groups.items()]
    return torch.optim.AdamW(made, fused=multitask.base.device.type in ("cpu", "cuda"))


# Evaluation


def evaluate(
    multitask: MultiTaskModel, task: Task, examples: Sequence[Example], progress: Progress | None = None
) -> EvalResult:
    """The model's predictions for a task's dev or test examples."""
    multitask.heads.eval()
    task = task.eval_view
    measure = _by_tokens if task.config.kind == "mlm" else _by_vectors
    scores, loss = measure(multitask, task, examples, progress)
    return EvalResult(task.name, task.config.kind, task.config.metric, tuple(examples), scores, loss)


def _by_vectors(
    multitask: MultiTaskModel, task: Task, examples: Sequence[Example], progress: Progress | None
) -> tuple[np.ndarray, float]:
    """Scores from the vectors of all texts, each encoded once, and the loss."""
    texts = [task.texts(example) for example in examples]
    known = {text: index for index, text in enumerate(dict.fromkeys(chain.from_iterable(texts)))}
    vectors = multitask.encoders[task.name].vectors(list(known), progress)
    outputs = []
    with torch.no_grad():
        for start in range(0, len(examples), HEAD_ROWS):
            rows = texts[start : start + HEAD_ROWS]
            sides = [vectors[[known[each[side]] for each in rows]] for side in range(len(rows[0]))]
            outputs.append(multitask.output_of(task, examples[start : start + HEAD_ROWS], sides))
    output = torch.cat(outputs)
    # In batches as in training: losses over pairs of examples depend on the size of the batch.
    targets, size = multitask.targets(task, examples, output), multitask.config.batch_of(task.config)
    parts = zip(torch.split(output, size), torch.split(targets, size), strict=True)
    loss = sum(len(part) * float(loss_of(task.config)(part, wanted)) for part, wanted in parts)
    return SCORES[task.config.kind](output).double().cpu().numpy(), loss / max(1, len(examples))


def _by_tokens(
    multitask: MultiTaskModel, task: Task, examples: Sequence[Example], progress: Progress | None
) -> tuple[np.ndarray, float]:
    """The share of each text's masked tokens that is found, and the loss; the masks are the same every time."""
    found, masked, loss = np.zeros(len(examples)), np.zeros(len(examples)), 0.0
    ticker = Ticker(progress, len(examples), "texts")
    for start in range(0, len(examples), MASKED_TEXTS):
        part = examples[start : start + MASKED_TEXTS]
        with torch.no_grad():
            embedded = multitask.embedded(task, part, [(start + index,) for index in range(len(part))], dropout=False)
            output = multitask.output(task, part, embedded)
        targets, owners = multitask.encoders[task.name].masked_tokens(embedded)
        indices = start + owners.cpu().numpy()
        np.add.at(found, indices, (output.argmax(1) == targets).cpu().numpy())
        np.add.at(masked, indices, 1)
        loss += float(F.cross_entropy(output, targets, reduction="sum"))
        ticker.add(len(part))
    ticker.close()
    # A text without a token of its own has nothing to find.
    shares = np.divide(found, masked, out=np.ones_like(found), where=masked > 0)
    return shares, loss / max(1, masked.sum())


SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "similarity": lambda output: output * TOP,
    "count": lambda output: output,
    "paraphrase": torch.sigmoid,
    "sentiment": lambda output: torch.softmax(output, -1),
}
"""A head's output -> similarities from 0 to 5, numbers, probabilities of a paraphrase, or (n, C) of classes."""
