"""Training configs: tasks, data and hyperparameters as frozen dataclasses, read from TOML files."""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from likewise.errors import UsageError
from likewise.train.examples import Form, Source

Kind = Literal["similarity", "sentiment", "paraphrase", "count", "contrastive", "mlm"]  # What a task learns
KINDS: tuple[Kind, ...] = get_args(Kind)
AGREEMENT = ("spearman", "pearson")
CHOICES: dict[Kind, dict[str, tuple[str, ...]]] = {
    "similarity": {"head": ("cosine", "linear", "feed-forward"), "loss": ("scaled-mse", "cosent"), "metric": AGREEMENT},
    "sentiment": {"head": ("linear", "feed-forward"), "loss": ("cross-entropy",), "metric": ("accuracy",)},
    "paraphrase": {"head": ("linear", "feed-forward"), "loss": ("bce",), "metric": ("accuracy",)},
    "count": {"head": ("dot",), "loss": ("mse",), "metric": AGREEMENT},
    "contrastive": {"head": ("cosine",), "loss": ("info-nce",), "metric": AGREEMENT},
    "mlm": {"head": ("tied",), "loss": ("cross-entropy",), "metric": ("accuracy",)},
}
"""Settings that depend on the kind of the task; the first choice is the default."""
POOLINGS = ("cls", "mean", "max", "bilstm", "qkv")
PAIRS = ("bi-encoder", "cross-encoder")
SCHEDULES = ("linear", "cosine", "constant")
SHARING = ("paraphrase", "similarity")  # Kinds that may share one head
SINGLE = ("sentiment", "mlm")  # Kinds that are about one text at a time
VIEWS: dict[str, Form] = {
    "dropout": "texts", "pairs": "pairs", "entailment": "entailment", "negatives": "negatives", "triplets": "triplets",
}  # fmt: skip
"""The two views that a contrastive task compares, and how its rows are read."""
FEATURES = ("difference", "absolute", "product", "cosine", "jaccard")
FROZEN = ("none", "lower", "upper", "last", "all")
LARGEST_SEED = 2**32 - 1
NAME = r"[A-Za-z0-9][A-Za-z0-9_-]*"
RESERVED = ("shared", "step", "score")  # Names that mean something else in reports
ROLES = ("train", "dev", "test")
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")  # Keys that TOML takes without quotes


class Bounds(NamedTuple):
    """The lowest and the highest value of a field that is annotated with it."""

    low: float
    high: float = math.inf


def marks_of(kind: Any) -> dict[str, Any]:
    """What the fields of a dataclass are annotated with, by name: ``Bounds``, or a tuple of choices."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")}


def check_settings(config: Any, shown: Callable[[str], str] = str) -> None:
    """Raise a UsageError for a setting that its field's annotation does not allow; None is unset."""
    hints = get_type_hints(type(config))
    for name, mark in marks_of(type(config)).items():
        value = getattr(config, name)
        if not isinstance(mark, Bounds):
            _check_choice(name, value, mark)
        elif value is None:
            continue
        elif int in (hints[name], *get_args(hints[name])) and (type(value) is not int or value < mark.low):
            raise UsageError(f"{shown(name)} is a whole number from {mark.low} on, got {value!r}")
        elif not mark.low <= value <= mark.high:
            ends = [f"{each:g}" if isinstance(each, float) else str(each) for each in mark]
            raise UsageError(f"{shown(name)} lies between {' and '.join(ends)}, got {value!r}")


def _check_choice(what: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"unknown {what} {value!r}; choose from {', '.join(filter(None, known))}")


@dataclass(frozen=True)
class TaskConfig:
    """The config of one task: its data, pooling, head and loss.

    >>> TaskConfig(kind="similarity", train=(Source("stsb/train"),)).head
    'cosine'
    """

    kind: Annotated[Kind, KINDS]  # similarity, sentiment, paraphrase, count, contrastive or mlm
    train: tuple[Source, ...]  # files to train on; several are joined
    dev: tuple[Source, ...] = ()  # files that choose the best epoch
    test: tuple[Source, ...] = ()  # files that measure the best epoch once, at the end
    name: str = ""  # its name in reports; the kind by default
    pooling: Annotated[str, ("", *POOLINGS)] = ""
    """how the last layer becomes a vector: cls, mean, max, bilstm or qkv; the model's own by default"""
    pairs: Annotated[str, PAIRS] = "bi-encoder"  # two vectors (bi-encoder), or one sequence (cross-encoder)
    head: str = ""  # cosine, linear or feed-forward; the simplest that the task allows by default
    loss: str = ""  # similarity: scaled-mse or cosent; sentiment: cross-entropy; paraphrase: bce
    metric: str = ""  # what chooses the best epoch: similarity: spearman or pearson; else accuracy
    weight: float = 1.0  # of its loss in the sum
    batch: Annotated[int | None, Bounds(2)] = None
    """examples of it in a step, if one task should see more than another; the run's by default"""
    dropout: Annotated[float | None, Bounds(0, 0.9)] = None  # of the encoder in this task's steps; the run's by default
    features: tuple[str, ...] = ("difference", "jaccard")
    """the features of a pair in a feed-forward head: difference, absolute, product, cosine, jaccard"""
    views: Annotated[str, tuple(VIEWS)] = "dropout"
    """contrastive: a text twice with other dropout (dropout), the same with a pair's other text as its hard negative
    (negatives), the two of a pair (pairs), the two of a pair and a hard negative (triplets), or a text, one that it
    entails and, as a hard negative, one that it contradicts (entailment)"""
    temperature: Annotated[float, Bounds(1e-4, 1e4)] = 0.05  # contrastive and cosent: the divisor of cosines
    masked: Annotated[float, Bounds(0.01, 0.9)] = 0.15  # mlm: the share of a text's tokens that are masked

    def __post_init__(self) -> None:
        check_settings(self)
        if self.pairs == "cross-encoder" and self.kind in ("count", "contrastive"):
            raise UsageError(f'a {self.kind} task compares vectors of two texts; leave out pairs = "cross-encoder"')
        object.__setattr__(self, "name", self.name or self.kind)
        if not self.head and self.pairs == "cross-encoder":
            object.__setattr__(self, "head", next(head for head in CHOICES[self.kind]["head"] if head != "cosine"))
        for setting, choices in CHOICES[self.kind].items():
            object.__setattr__(self, setting, getattr(self, setting) or choices[0])
            _check_choice(f"{setting} of {self.kind}", getattr(self, setting), choices)
        for feature in self.features:
            _check_choice("feature", feature, FEATURES)
        if self.pairs == "cross-encoder" and self.head == "cosine":
            raise UsageError(
                'a pair of a cross-encoder is one vector and has no cosine; use head = "linear" or pairs = "bi-encoder"'
            )
        if not self.features or len(set(self.features)) < len(self.features):
            raise UsageError(f"features takes different names of {', '.join(FEATURES)}, got {list(self.features)}")
        if not 0 < self.weight < float("inf"):
            raise UsageError(f"weight is a number above 0, got {self.weight}")
        if not re.fullmatch(NAME, self.name) or self.name in RESERVED:
            raise UsageError(
                f"a task's name is made of letters, digits, - and _, and none of {', '.join(RESERVED)};"
                f" got {self.name!r}"
            )
        if not self.train:
            raise UsageError(f'task {self.name}: no train file; give train = "..."')

    @property
    def cross_encoder(self) -> bool:
        """Whether a pair is read as one sequence."""
        return self.kind not in SINGLE and self.pairs == "cross-encoder"

    @property
    def train_form(self) -> Form:
        """How rows of its train files are read."""
        return VIEWS[self.views] if self.kind == "contrastive" else "texts" if self.kind == "mlm" else self.kind

    @property
    def eval_view(self) -> TaskConfig:
        """The task as dev and test files measure it: a contrastive one by the scores that people gave to pairs."""
        if self.kind != "contrastive":
            return self
        return TaskConfig("similarity", self.train, name=self.name, pooling=self.pooling, metric=self.metric)

    @property
    def eval_form(self) -> Form:
        """How rows of its dev and test files are read."""
        return "similarity" if self.kind == "contrastive" else self.train_form

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain JSON, in the shape of a TOML file."""
        sources = {role: [source.to_dict() for source in getattr(self, role)] for role in ROLES}
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return given | sources | {"features": list(self.features)}


@dataclass(frozen=True)
class TrainConfig:
    """The config of a training run.

    >>> TrainConfig(tasks=(TaskConfig("similarity", (Source("stsb/train"),)),)).epochs
    4
    """

    tasks: tuple[TaskConfig, ...]  # the [[task]] tables
    model: str = "minilm"  # a folder, minilm (bundled), a short name or a hub id
    out: str = ""  # the folder of the run: the model, its heads and the report
    seed: Annotated[int, Bounds(0, LARGEST_SEED)] = 1  # of everything random
    epochs: Annotated[int, Bounds(1)] = 4  # times through the data, or through the samples
    batch: Annotated[int, Bounds(2)] = 32  # examples of each task in a step
    samples: Annotated[int | None, Bounds(1)] = None
    """random examples of each task in an epoch; all by default; in proportion for a task with its own batch"""
    learning_rate: Annotated[float, Bounds(0, 1)] = 2e-5  # of the encoder
    head_learning_rate: Annotated[float, Bounds(0, 1)] = 1e-3  # of heads and learned poolings
    layer_decay: Annotated[float, Bounds(0.01, 1)] = 1.0  # the learning rate of a layer is this times the one above
    weight_decay: Annotated[float, Bounds(0, 10)] = 0.01  # of AdamW, on matrices
    warmup: Annotated[float, Bounds(0, 1)] = 0.1  # share of the steps in which the learning rate grows
    schedule: Annotated[str, SCHEDULES] = "linear"  # how it falls afterwards: linear, cosine or constant
    clip: Annotated[float, Bounds(1e-9, 1e9)] = 1.0  # the largest norm of the gradient
    accumulate: Annotated[int, Bounds(1)] = 1  # batches whose gradients are averaged before a step
    dropout: Annotated[float | None, Bounds(0, 0.9)] = None
    """of the encoder in training, except for tasks with their own; the model's by default"""
    freeze: str | tuple[int, ...] = "none"  # none, lower, upper, last, all, or layers by number; 0 is the embeddings
    patience: Annotated[int | None, Bounds(1)] = None  # epochs without a better dev score before it stops; None: never
    selection: Annotated[int | None, Bounds(2)] = None  # random fixed dev examples that measure an epoch; None: all
    shared_head: bool = False  # one feed-forward head for paraphrase and similarity
    hidden: Annotated[int, Bounds(1)] = 256  # width of feed-forward heads
    depth: Annotated[int, Bounds(1)] = 2  # layers of feed-forward heads, each with a skip connection
    head_dropout: Annotated[float, Bounds(0, 0.9)] = 0.3  # of feed-forward heads
    lstm: Annotated[int, Bounds(1)] = 128  # width of the BiLSTM pooling, in each direction
    smart: Annotated[float, Bounds(0, 1e6)] = 0.0  # weight of SMART's adversarial regularization; 0 is none
    pcgrad: bool = False  # project conflicting gradients of tasks
    max_tokens: Annotated[int | None, Bounds(4)] = None  # longer texts are cut; the model's own limit by default
    chunk: Annotated[int | None, Bounds(1)] = None
    """examples of a batch that are in memory at once; the gradient is that of the whole batch; all by default"""

    def __post_init__(self) -> None:
        if not self.tasks:
            raise UsageError("no task; give at least one [[task]] with a kind and a train file")
        names = [task.name for task in self.tasks]
        if len(set(names)) < len(names):
            raise UsageError(f'two tasks are called {max(names, key=names.count)}; give each its own name = "..."')
        check_settings(self)
        if "\0" in self.out:
            raise UsageError(f"no folder can be called {self.out!r}; choose another out")
        object.__setattr__(self, "out", os.path.expanduser(self.out))
        if isinstance(self.freeze, str):
            _check_choice("freeze", self.freeze, FROZEN)
        if self.chunk is not None and (self.smart or any(task.kind == "mlm" for task in self.tasks)):
            raise UsageError("chunk needs losses on whole vectors; leave it out with smart and mlm tasks")
        shared = [task for task in self.tasks if self.shared_head and task.kind in SHARING]
        if self.shared_head and {task.kind for task in shared} != set(SHARING):
            raise UsageError("shared_head needs a paraphrase and a similarity task; add the missing one")
        settings = {(task.head, task.pairs, task.features, task.pooling) for task in shared}
        if len(settings) > 1 or any(task.head != "feed-forward" for task in shared):
            raise UsageError('shared_head needs head = "feed-forward" and the same features in both tasks')

    def batch_of(self, task: TaskConfig) -> int:
        """Examples of a task in a step."""
        return task.batch or self.batch

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain JSON, in the shape of a TOML file."""
        plain = {name: value for name, value in asdict(self).items() if name != "tasks" and value is not None}
        return plain | {"task": [task.to_dict() for task in self.tasks]}

    def to_toml(self, comment: str = "") -> str:
        """The config as TOML, which ``parse_config`` reads back as the same config.

        >>> config = parse_config('epochs = 2\\n[[task]]\\nkind = "similarity"\\ntrain = "stsb/train"')
        >>> parse_config(config.to_toml("Two epochs.")) == config
        True
        """
        settings = self.to_dict()
        tasks = settings.pop("task")
        lines = [f"# {line}" for line in comment.splitlines()] + _toml_lines(settings)
        for task in tasks:
            # A source without options is a name alone.
            short = {role: [each["source"] if len(each) == 1 else each for each in task[role]] for role in ROLES}
            lines += ["", "[[task]]", *_toml_lines(task | short)]
        return "\n".join(lines) + "\n"


def _toml_lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{name if BARE_KEY.fullmatch(name) else _toml(name)} = {_toml(each)}" for name, each in table.items()]


def _toml(value: Any) -> str:
    """A value as TOML; a table in one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(_toml_lines(value))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return repr(value)
    # JSON writes texts, whole numbers and booleans as TOML does, except for one character that TOML escapes.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def parse_config(text: str, where: str = "config") -> TrainConfig:
    """The config that a TOML text holds.

    >>> parse_config('[[task]]\\nkind = "similarity"\\ntrain = "stsb/train"').tasks[0].kind
    'similarity'
    """
    return config_from(toml_table(text, where), where)


def toml_table(text: str, where: str) -> dict[str, Any]:
    """The table that a TOML text holds."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: invalid TOML: {error}; correct that line") from error


def config_from(table: Mapping[str, Any], where: str = "config") -> TrainConfig:
    """The config that a table of a TOML or JSON file holds."""
    tasks = tables_of(table, "task", where)
    try:
        given = _checked(TrainConfig, {name: each for name, each in table.items() if name != "task"}, "config")
        return TrainConfig(tasks=tuple(map(_task, tasks)), **given)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def tables_of(table: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    """The [[key]] tables of a TOML table."""
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise UsageError(f"{where}: write {key}s as [[{key}]] tables, with two brackets")
    return found


def _task(table: Mapping[str, Any]) -> TaskConfig:
    if missing := [name for name in ("kind", "train") if name not in table]:
        raise UsageError(f"a [[task]] needs {' and '.join(missing)}")
    sources = {
        role: tuple(Source.parse(each) for each in (table[role] if isinstance(table[role], list) else [table[role]]))
        for role in ROLES
        if role in table
    }
    return TaskConfig(**_checked(TaskConfig, dict(table) | sources, "task"))


def _checked(kind: Any, table: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The values of a table, each of its field's type; an unknown name is rejected with the nearest known one."""
    hints = get_type_hints(kind)
    known = {each.name: hints[each.name] for each in fields(kind) if each.name != "tasks"}
    given: dict[str, Any] = {}
    for name, value in table.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            cure = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise UsageError(f"unknown setting {name} of a {what}; {cure}")
        given[name] = _typed(name, value, known[name])
    return given


def _typed(name: str, value: Any, hint: Any) -> Any:
    """A TOML value as its field's type."""
    kinds = [each for each in (get_args(hint) if isinstance(hint, UnionType) else (hint,)) if each is not type(None)]
    kinds = [str if get_origin(each) is Literal else each for each in kinds]
    for kind in kinds:
        if type(value) is kind:
            return value
        if kind is float and type(value) is int:
            return float(value)
        is_list = get_origin(kind) is tuple and isinstance(value, (list, tuple))
        if is_list and (get_args(kind)[0] is not int or all(type(each) is int for each in value)):
            return tuple(value)
    words = " | ".join(str(each) if get_origin(each) else each.__name__ for each in kinds)
    raise UsageError(f"{name} takes {words}, got {value!r}")
