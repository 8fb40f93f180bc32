"""The trainee: one encoder, read as each task wants it, with a head per task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from likewise.encoder import Encoder
from likewise.encoder.pooling import LEARNED, LearnedPooling, new_learned_pooling
from likewise.encoder.tokens import Tokenizer
from likewise.errors import UsageError
from likewise.progress import Progress
from likewise.train.config import SHARING, SINGLE, TaskConfig, TrainConfig
from likewise.train.examples import Example
from likewise.train.frozen import FrozenStates, frozen_depth, frozen_layers
from likewise.train.heads import bounded, features, features_of, new_head, pairwise_scores
from likewise.train.losses import TOP
from likewise.train.masking import Hiding
from likewise.train.packed_encoder import Key, Packed, Reader
from likewise.train.processes import Processes
from likewise.train.sampling import Schedule
from likewise.train.tasks import Task
from likewise.train.tokens import TokenTable, jaccard

SHARED = "shared"
"""The name of the head that paraphrase and similarity share."""


@dataclass(frozen=True, eq=False)
class MultiTaskModel:
    """All that learns, and all that is needed to run it."""

    config: TrainConfig
    readers: dict[str, Reader]
    """by task"""
    heads: nn.ModuleDict
    """by task, or shared"""
    frozen: frozenset[int]
    hiding: dict[str, Hiding]
    """by task, of those that have to find hidden tokens"""

    def head(self, task: TaskConfig) -> nn.Module:
        """The head of a task."""
        return self.heads[head_name(self.config, task)]

    def encoder(self, task: TaskConfig) -> Encoder:
        """The encoder, read as the task reads it."""
        return self.readers[task.name].encoder

    def embedded(
        self, task: Task, examples: Sequence[Example], keys: Sequence[Key] | None, dropout: bool = True
    ) -> Packed:
        """The texts of examples at the layer they start from.

        ``keys`` has one key per example, from which dropout and hidden tokens are drawn; None for no dropout.
        """
        reader = self.readers[task.name]
        texts = [text for example in examples for text in task.texts(example)]
        per = len(task.texts(examples[0]))
        spread = None if keys is None else [(*key, side) for key in keys for side in range(per)]
        hiding = self.hiding.get(task.name)
        if hiding is None:
            return reader.embedded(texts, spread)
        assert spread is not None
        tokens, indices = reader.tokens, reader.tokens.indices(texts)
        hidden = [
            hiding.hidden(tokens.own[index], tokens.ids[index], key) for index, key in zip(indices, spread, strict=True)
        ]
        return reader.embedded(texts, spread if dropout else None, hidden)

    def output(self, task: Task, examples: Sequence[Example], embedded: Packed) -> Tensor:
        """What the head says of examples.

        Logits (B, C) of classes, a logit (B,), a similarity (B,) from 0 to 1, a number (B,), cosines (B, M) over the
        temperature, or logits (M, V) of hidden tokens.
        """
        if task.name in self.hiding:
            states = self.readers[task.name].hidden_states(embedded)
            said: Tensor = self.head(task.config)(states, self.encoder(task.config).model_view.embeddings.word.weight)
            return said
        return self.output_of(task, examples, self.vectors(task, examples, embedded))

    def vectors(self, task: Task, examples: Sequence[Example], embedded: Packed) -> list[Tensor]:
        """The vectors (B, P) of the examples' first texts, of their second ones, and so on."""
        per = len(task.texts(examples[0]))
        vectors = self.readers[task.name].pooled(embedded, len(examples) * per)
        return [vectors[side::per] for side in range(per)]

    def output_of(self, task: Task, examples: Sequence[Example], vectors: Sequence[Tensor]) -> Tensor:
        """``output`` from the vectors of the examples' texts."""
        if task.config.kind == "contrastive":
            return pairwise_scores(vectors) / task.config.temperature
        seen = features(features_of(task.config), vectors, self._overlap(task, examples, vectors[0]))
        said: Tensor = self.head(task.config)(seen)
        said = said if task.config.kind == "sentiment" else said[:, 0]
        return torch.sigmoid(said) if bounded(task.config) else said

    def _overlap(self, task: Task, examples: Sequence[Example], like: Tensor) -> Tensor:
        if "jaccard" not in features_of(task.config):
            return like.new_zeros(len(examples), 1)
        tokens = self.readers[task.name].tokens
        sides = [tokens.indices([example.texts[side] for example in examples]) for side in (0, 1)]
        shares = [jaccard(tokens.words(left), tokens.words(right)) for left, right in zip(*sides, strict=True)]
        return torch.tensor(shares, dtype=like.dtype, device=like.device)[:, None]

    def targets(self, task: Task, examples: Sequence[Example], like: Tensor, embedded: Packed | None = None) -> Tensor:
        """What the loss wants: classes, numbers (from 0 to 1 where they are similarities), or hidden tokens (M,)."""
        if task.name in self.hiding and embedded is not None:
            return self.readers[task.name].hidden_tokens(embedded)[0]
        top = TOP if task.config.kind == "similarity" else 1.0
        values = [example.target / top for example in examples]
        return torch.tensor(values, dtype=like.dtype, device=like.device)

    def learning(self, on: bool) -> None:
        """Turn the heads' dropout and batch norm to training, or to use."""
        self.heads.train(on)


def head_name(config: TrainConfig, task: TaskConfig) -> str:
    """Under which name a task's head is kept."""
    # By the name: a contrastive task is judged as one of similarity and has its own head all the same.
    sharing = {each.name for each in config.tasks if config.shared_head and each.kind in SHARING}
    # Not the bare name: a dictionary of modules has no room for one called "keys".
    return f"{SHARED if task.name in sharing else task.name}_head"


def main_task(config: TrainConfig) -> TaskConfig:
    """The task whose reading of the encoder is saved: the first about pairs that are two vectors, else the first."""
    towers = [task for task in config.tasks if task.kind not in SINGLE and not task.joint]
    return (towers or list(config.tasks))[0]


def new_multitask_model(
    encoder: Encoder, tasks: Sequence[Task], config: TrainConfig, processes: Processes, progress: Progress | None = None
) -> MultiTaskModel:
    """Fresh heads over an encoder; what frozen layers give is computed here, once."""
    encoder = _limited(encoder, config)
    depth = encoder.model_view.layers
    frozen = frozen_layers(config.freeze, depth)
    torch.manual_seed(config.seed)
    poolings = poolings_of(encoder, config)
    made = variants(encoder, poolings, new_poolings(encoder, poolings.values(), config))
    made = {task.name: _with_dropout(made[task.name], task.dropout) for task in config.tasks}
    heads = nn.ModuleDict()
    for task in tasks:
        name = head_name(config, task.config)
        if name not in heads:
            heads[name] = new_head(task.config, config, made[task.name])
    heads.to(encoder.device, encoder.model_view.dtype)
    tokens = TokenTable(encoder.tokenizer, encoder.modules_config.prompt_for(None))
    plan = schedule(config, tasks)
    for number, task in enumerate(tasks):
        seen = [task.train[index] for index in plan.drawn(number, config.epochs)]
        tokens.add(text for each in seen for text in task.texts(each))
        tokens.add(text for part in (task.dev, task.test) for each in part for text in task.judged.texts(each))
    start = frozen_depth(frozen, depth)
    if start is not None:
        start = min(start, *encoder.pooling_config.layers_of(depth))  # a layer that is read must be run
    if start is not None and any(task.config.kind == "mlm" for task in tasks):
        raise UsageError("a task of kind mlm hides other tokens in each step, so the embeddings cannot be frozen")
    states = None if start is None else FrozenStates.of(encoder, tokens, start, progress)
    readers = {
        name: Reader(pooling_config, tokens, processes, states, start or 0) for name, pooling_config in made.items()
    }
    return MultiTaskModel(config, readers, heads, frozen, hidings(encoder, config))


def hidings(encoder: Encoder, config: TrainConfig) -> dict[str, Hiding]:
    """How the tasks that have to find hidden tokens hide them."""
    return {task.name: Hiding.of(encoder.tokenizer, task.masked) for task in config.tasks if task.kind == "mlm"}


def schedule(config: TrainConfig, tasks: Sequence[Task]) -> Schedule:
    """Which examples make which step of a run."""
    counts = tuple(len(task.train) for task in tasks)
    batches = tuple(config.batch_of(task.config) for task in tasks)
    return Schedule(counts, batches, config.batch, config.accumulate, config.samples, config.seed)


def _limited(encoder: Encoder, config: TrainConfig) -> Encoder:
    """The encoder with the run's own dropout and length."""
    encoder = _with_dropout(encoder, config.dropout)
    if config.max_tokens is not None:
        known = encoder.tokenizer
        limit = min(known.limit, config.max_tokens)
        encoder = replace(encoder, tokenizer=Tokenizer(known.vocabulary, limit, encoder.modules_config.lower))
    return encoder


def _with_dropout(encoder: Encoder, rate: float | None) -> Encoder:
    """The same weights under another dropout; None keeps the one there is."""
    return encoder if rate is None else replace(encoder, model_view=encoder.model_view.with_dropout(rate))


def require_torch(encoder: Encoder) -> None:
    """Refuse an encoder that runs elsewhere: heads and gradients want its layers."""
    if encoder.backend is not None:
        raise UsageError("training and its heads need the backend torch; load the model with that")


def poolings_of(encoder: Encoder, config: TrainConfig) -> dict[str, str]:
    """How each task reads the encoder: its aggregation, or the encoder's own pooling."""
    return {task.name: task.aggregation or encoder.pooling_config.pooling for task in config.tasks}


def new_poolings(encoder: Encoder, kinds: Iterable[str], config: TrainConfig) -> dict[str, LearnedPooling]:
    """Those of several poolings that have weights, by kind: the encoder's own, else fresh ones."""
    own, width = encoder.modules_config.learned, encoder.model_view.hidden_size
    made: dict[str, LearnedPooling] = {}
    for kind in LEARNED.keys() & set(kinds):
        hidden = config.lstm if kind == "bilstm" else None
        made[kind] = own if own and own.kind == kind else new_learned_pooling(kind, width, hidden, config.seed)
    return made


def variants(
    encoder: Encoder, poolings: Mapping[str, str], learned: Mapping[str, LearnedPooling]
) -> dict[str, Encoder]:
    """The encoder as each task reads it. Unit vectors are left to the cosine: heads want the lengths too."""
    made = {
        kind: encoder.with_learned_pooling(learned[kind]) if kind in learned else encoder.with_pooling(pooling=kind)
        for kind in dict.fromkeys(poolings.values())
    }
    return {name: made[kind].with_pooling(normalize=False) for name, kind in poolings.items()}
