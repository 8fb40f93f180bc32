"""The Typer app, and the options that several commands share."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from likewise.errors import UsageError
from likewise.explain.settings import Option, rule_names

if TYPE_CHECKING:
    from likewise.data import Dataset
    from likewise.encoder import Encoder
    from likewise.encoder.cross_encoder import Scoring
    from likewise.encoder.workers import Team
    from likewise.search import Index
    from likewise.search.index import IndexSettings

    Load = Callable[[str], Encoder]
    LoadScoring = Callable[[str], Scoring]

app = typer.Typer(
    help="A microscope for text similarity: embed, search, explain and improve BERT-like encoders.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

MODEL_HELP = "A folder, minilm (bundled), a short name (see: likewise models), or a Hugging Face hub id."
POOLING_HELP = (
    "cls, last, max, mean, mean-sqrt-len, weighted, pooler, or what the model learned (qkv, bilstm);"
    " join several with +. Default: the model's own."
)
GRAMMAR_HELP = "A spaCy pipeline: an installed name or a folder. Default: $LIKEWISE_GRAMMAR, else the first installed."
LAYER_HELP = "A layer (0 is the embeddings, -1 the last), several as 1,6 to average"
TEXTS_HELP = "A csv, tsv, jsonl, parquet or txt file (.gz too), a URI of one, or a name such as sample/sentences."
DOCUMENTS_HELP = f"{TEXTS_HELP[:-1]}; or a folder of .txt, .md and .html files."
PAIRS_HELP = "A file of scored pairs, or a name such as stsb/test."
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Model = Annotated[str, typer.Option("--model", "-m", help=MODEL_HELP)]
Models = Annotated[list[str], typer.Option("--model", "-m", help=f"{MODEL_HELP} Repeat to compare.")]
MINILM = ["minilm"]
Pooling = Annotated[str | None, typer.Option(help=POOLING_HELP)]
Poolings = Annotated[list[str] | None, typer.Option(help=f"{POOLING_HELP} Repeat to compare.")]
SpecialTokens = Annotated[bool, typer.Option(help="Whether special tokens count in pooling.")]
Heads = Annotated[bool, typer.Option(help="Apply the model's own dense heads.")]
TruncateDim = Annotated[int | None, typer.Option(help="Keep only the first dimensions.", min=1)]
Post = Annotated[Path | None, typer.Option(help="A file made by: likewise fit-postprocessing.")]
GrammarName = Annotated[str | None, typer.Option(help=GRAMMAR_HELP)]
DataDir = Annotated[Path | None, typer.Option(help="Where names such as stsb/test are looked up.")]
Label = Annotated[str | None, typer.Option(help="The label of a cross-encoder whose score counts, if it has several.")]
Prompt = Annotated[str | None, typer.Option(help="Put before each text; default: the model's own.")]
CalibrationOf = Annotated[
    str | None,
    typer.Option("--calibration", help="An index, a corpus or a file whose calibration says what a score means."),
]
FirstPairs = Annotated[int | None, typer.Option(help="Only the first pairs.", min=1)]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]


@dataclass(frozen=True)
class RunSettings:
    """How a model runs."""

    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto"
    threads: Annotated[int | None, typer.Option(help="Threads; default: all cores.", min=1)] = None
    backend: Annotated[str, typer.Option(help="torch, onnx or onnx-int8.")] = "torch"
    dtype: Annotated[str, typer.Option(help="float32, float64, float16 or bfloat16.")] = "float32"
    adapter: Annotated[str | None, typer.Option(help="A PEFT folder, or an adapter of the model, to merge.")] = None

    def load(self, model: str, **pooling_config: Any) -> Encoder:
        """Load a model to run in this way."""
        from likewise.encoder import Encoder

        return Encoder.load(
            model, device=self.device, threads=self.threads, backend=self.backend, dtype=self.dtype,
            adapter=self.adapter, **pooling_config,
        )  # fmt: skip

    def loader(self, pooling_config: PoolingOptions | None = None, pooling: str | None = None) -> Load:
        """A function that loads a model by its name, with this pooling."""
        return lambda name: EncoderSettings(name, pooling).load(self, pooling_config)

    def scoring_loader(
        self, pooling_config: PoolingOptions, pooling: str | None = None, label: str | None = None
    ) -> LoadScoring:
        """A function that loads an encoder with this pooling, or a cross-encoder, by its name."""
        return lambda name: EncoderSettings(name, pooling).load_scoring(self, pooling_config, label)


@dataclass(frozen=True)
class PoolingOptions:
    """How vectors are pooled, apart from the pooling itself."""

    layer: Annotated[str, typer.Option(help=f"{LAYER_HELP}, or first-last.")] = "-1"
    special_tokens: SpecialTokens = True
    heads: Heads = True
    truncate_dim: TruncateDim = None
    post: Post = None

    def options(self) -> dict[str, Any]:
        """The settings that ``Encoder.load`` takes."""
        options = {"layer": parse_layer(self.layer), "special_tokens": self.special_tokens, "heads": self.heads}
        return options if self.truncate_dim is None else options | {"truncate_dim": self.truncate_dim}

    def finish(self, encoder: Encoder) -> Encoder:
        """The encoder with the post-processing, where one is given."""
        if self.post is None:
            return encoder
        from likewise.encoder.postprocessing import PostProcessing

        return encoder.with_postprocessing(PostProcessing.load(self.post))


def _is_cross_encoder(model: str) -> bool:
    from likewise.encoder.config import holds_cross_encoder
    from likewise.encoder.weights import locate

    return holds_cross_encoder(locate(model))


@dataclass(frozen=True)
class EncoderSettings:
    """Which model, with which pooling."""

    model: Model = "minilm"
    pooling: Pooling = None

    def load(self, run: RunSettings, pooling_config: PoolingOptions | None = None) -> Encoder:
        """Load the model as all these settings say."""
        options = {} if pooling_config is None else pooling_config.options()
        if self.pooling is not None:
            options["pooling"] = self.pooling
        elif _is_cross_encoder(self.model):
            raise UsageError(f"{self.model} is a cross-encoder and has no vectors of texts; use it in"
                             " explain, similarity, lint, evaluate sts or --rerank, or give --pooling")  # fmt: skip
        encoder = run.load(self.model, **options)
        return encoder if pooling_config is None else pooling_config.finish(encoder)

    def load_scoring(self, run: RunSettings, pooling_config: PoolingOptions, label: str | None = None) -> Scoring:
        """Load the model as all these settings say; a cross-encoder has no pooling to choose."""
        from likewise.encoder.cross_encoder import CrossEncoder

        # With a pooling, a cross-encoder's layers are used as those of any encoder.
        if self.pooling is not None or not _is_cross_encoder(self.model):
            if label is not None:
                raise UsageError(f"{self.model} is used as an encoder, which has no labels; leave --label out")
            return self.load(run, pooling_config)
        if isinstance(run, TeamRun):
            raise UsageError(f"{self.model} is a cross-encoder, which runs in one process; leave --workers and"
                             " --cluster out")  # fmt: skip
        if pooling_config != PoolingOptions():
            raise UsageError(f"{self.model} is a cross-encoder, which has one vector, its logits; leave --layer and"
                             " other options of pooling out")  # fmt: skip
        return CrossEncoder.load(
            self.model, device=run.device, threads=run.threads, backend=run.backend, dtype=run.dtype, label=label
        )


@dataclass(frozen=True)
class ModelSettings:
    """One model: which, with which pooling, and how it runs."""

    encoder: EncoderSettings
    pooling_config: PoolingOptions
    run: RunSettings

    def load(self) -> Encoder:
        """Load the model."""
        return self.encoder.load(self.run, self.pooling_config)

    def with_threads(self, usual: int | None) -> ModelSettings:
        """The same settings with so many threads, if none are given."""
        threads = usual if self.run.threads is None else self.run.threads
        return replace(self, run=replace(self.run, threads=threads))

    def load_scoring(self, label: str | None = None) -> Scoring:
        """Load the model, which may be a cross-encoder."""
        return self.encoder.load_scoring(self.run, self.pooling_config, label)

    def documented(self) -> dict[str, Any]:
        """The settings that run.json holds."""
        return {"reading": vars(self.pooling_config), "run": vars(self.run)}

    def opened(self, where: str, context: typer.Context) -> Index:
        """Open an index with its own model, but for the options that are on the command line."""
        from likewise.search import Index

        options = vars(self.encoder) | vars(self.pooling_config) | self.pooling_config.options()
        changes = {name: value for name, value in options.items() if given(context, (name,))}
        return Index.open(where, load=self.run.load, **changes)


@dataclass(frozen=True)
class TeamSettings:
    """Who does the work: this process, several processes, or a cluster."""

    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes that work at once, each with --threads (default: cores / workers). With --cluster:"
            " its workers; default: as many as its nodes have cores or GPUs for.",
            min=1,
        ),
    ] = None
    cluster: Annotated[
        str | None, typer.Option(metavar="local|HOST:PORT", help="Let a Ray cluster work; local starts one here.")
    ] = None
    gpus_per_worker: Annotated[
        float, typer.Option(help="With --cluster: GPUs of each worker, such as 1, or 0.5 for two on one GPU.", min=0)
    ] = 0.0  # fmt: skip

    @contextmanager
    def opened(self, model: ModelSettings) -> Iterator[tuple[ModelSettings, Team]]:
        """The team, and the model's settings for each of its workers; the cluster is left at the end."""
        if self.cluster is None:
            if self.gpus_per_worker:
                raise UsageError("--gpus-per-worker has no effect without --cluster; give it too")
            from likewise.encoder.workers import Processes

            workers = self.workers or 1
            threads = None if workers == 1 else max(1, (os.cpu_count() or 1) // workers)
            yield model.with_threads(threads), Processes(workers)
            return
        from likewise.cluster import Cluster

        model = model.with_threads(1)
        threads = model.run.threads or 1
        with Cluster(self.cluster, self.workers, self.gpus_per_worker, threads).connected() as team:
            yield model, team

    @contextmanager
    def working(self, model: ModelSettings) -> Iterator[ModelSettings]:
        """Settings that load models for which the team works."""
        with self.opened(model) as (settings, team):
            alone = self.cluster is None and self.workers in (None, 1)
            yield settings if alone else replace(settings, run=TeamRun(**vars(settings.run), team=team))

    @contextmanager
    def running(self, run: RunSettings) -> Iterator[RunSettings]:
        """The same where a command loads models by their names."""
        with self.working(ModelSettings(EncoderSettings(), PoolingOptions(), run)) as settings:
            yield settings.run


@dataclass(frozen=True)
class TeamRun(RunSettings):
    """A run whose models have a team."""

    team: Any = None

    def load(self, model: str, **pooling_config: Any) -> Encoder:
        """Load a model for which the team works."""
        from likewise.encoder.workers import with_team

        return with_team(super().load(model, **pooling_config), self.team)


@dataclass(frozen=True)
class FileSettings:
    """How a file of texts or pairs is read."""

    data_dir: DataDir = None
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip and count bad rows.")] = False
    text_column: Annotated[str | None, typer.Option(help="The column of texts.")] = None
    left_column: Annotated[str | None, typer.Option(help="The column of a pair's first text.")] = None
    right_column: Annotated[str | None, typer.Option(help="The column of a pair's second text.")] = None
    score_column: Annotated[str | None, typer.Option(help="The column of scores.")] = None
    id_column: Annotated[str | None, typer.Option(help="The column of ids.")] = None

    def dataset(self, name: str, limit: int | None = None) -> Dataset:
        """A file or a name, read with these options; columns that are not given are guessed."""
        from likewise.data import Columns, Dataset

        sides = {"left": self.left_column, "right": self.right_column, "score": self.score_column}
        columns = Columns(text=self.text_column, id=self.id_column, **sides)
        return Dataset(name, columns, self.data_dir, self.skip_bad, limit)


@dataclass(frozen=True)
class IndexOptions:
    """How an index is made, apart from the model."""

    engine: Annotated[str, typer.Option(help="auto (by the number of vectors), exact, hnsw or ivf.")] = "auto"
    bits: Annotated[int, typer.Option(help="Of a number in the engine: 32, or 8 for a quarter of the memory.")] = 32
    similarity: Annotated[str, typer.Option(help="cosine or dot.")] = "cosine"
    query_prompt: Annotated[str | None, typer.Option(help="Put before each query; default: the model's own.")] = None
    document_prompt: Annotated[str | None, typer.Option(help="Put before each text; default: the model's own.")] = None
    passages: Annotated[
        bool, typer.Option("--passages", help="Cut texts of any length into passages; keep their metadata.")
    ] = False
    passage_tokens: Annotated[
        int | None, typer.Option(help="With --passages: the most tokens of one. Default: 128.", min=1)
    ] = None
    overlap: Annotated[
        int | None, typer.Option(help="With --passages: sentences that neighbours share. Default: 1.", min=0)
    ] = None
    metadata: Annotated[
        bool, typer.Option("--metadata", help="Keep the other columns, for --where, of texts that are not cut.")
    ] = False

    def settings(self) -> IndexSettings:
        """The settings that ``Index.build`` takes."""
        from likewise.search.index import IndexSettings
        from likewise.search.passages import PassageSettings

        if not self.passages and (self.passage_tokens is not None or self.overlap is not None):
            raise UsageError("--passage-tokens and --overlap have no effect without --passages; give it too")
        how = self.engine, self.bits, self.similarity, self.query_prompt, self.document_prompt
        given = {"tokens": self.passage_tokens, "overlap": self.overlap}
        cut = {name: value for name, value in given.items() if value is not None}
        return IndexSettings(*how, PassageSettings(**cut) if self.passages else None, self.metadata)


def option_names(*kinds: Any) -> list[str]:
    """The names of the options of settings."""
    return [field.name for kind in kinds for field in fields(kind)]


KEYWORD = inspect.Parameter.KEYWORD_ONLY  # typer passes everything by name, so that order does not matter
Command = TypeVar("Command", bound=Callable[..., Any])


def command(function: Command) -> Command:
    """Make a function a command of ``likewise``, named after it."""
    app.command()(with_settings(function))
    return function


def with_settings(command: Command) -> Command:
    """Spread each parameter whose type is a settings dataclass into that dataclass's options.

    The command is called with the assembled dataclasses; typer sees the options. A field is an option if it is
    ``Annotated`` with a typer option or with a help text; the fields of a dataclass inside are options too. A tuple is
    one option with commas, or ``none``.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        own = parameter.replace(annotation=hints[name], kind=KEYWORD)
        parameters += _options(groups[name]) if name in groups else [own]

    @functools.wraps(command)
    def spread(**given: Any) -> Any:
        for name, kind in groups.items():
            given[name] = _assembled(kind, given)
        return command(**given)

    spread.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spread.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return spread  # type: ignore[return-value]


def _options(kind: Any) -> list[inspect.Parameter]:
    found: list[inspect.Parameter] = []
    for name, hint, default in _fields(kind):
        if is_dataclass(hint):
            found += _options(hint)
        else:
            value, about = get_args(hint)[:2]
            if name == "rules":
                value, default = str, "all"
            elif get_origin(value) is tuple:
                value, default = str, ",".join(map(str, default))
            option = typer.Option(help=about) if isinstance(about, str) else about
            if isinstance(about, Option):
                flags = [f"--{name.replace('_', '-')}"] if value is bool else []
                option = typer.Option(*flags, help=help_of(about), min=about.least)
            found.append(inspect.Parameter(name, KEYWORD, default=default, annotation=Annotated[value, option]))
    return found


def _assembled(kind: Any, given: dict[str, Any]) -> Any:
    """An instance made of the given options, which are removed."""
    values = {}
    for name, hint, _ in _fields(kind):
        if is_dataclass(hint):
            values[name] = _assembled(hint, given)
        else:
            value, plain = given.pop(name), get_args(hint)[0]
            if name == "rules":
                value = rule_names(value)
            elif get_origin(plain) is tuple:
                value = _split(name, value, get_args(plain)[0])
            values[name] = value
    return kind(**values)


def _fields(kind: Any) -> list[tuple[str, Any, Any]]:
    """The fields that are options or groups of options: name, type and default."""
    hints = get_type_hints(kind, include_extras=True)
    found = [(field.name, hints[field.name], field.default) for field in fields(kind)]
    return [one for one in found if is_dataclass(one[1]) or get_origin(one[1]) is Annotated]


def help_of(option: Option) -> str:
    """The help of an option that the library declares: what it means, and its choices where the help lacks them."""
    if all(choice in option.help for choice in option.choices):
        return option.help
    return f"{option.help.rstrip('.')}: {', '.join(option.choices)}."


def _split(name: str, text: str, kind: type) -> tuple[Any, ...]:
    """The values of an option with commas; ``none`` has none."""
    parts = () if text == "none" else tuple(part.strip() for part in text.split(",") if part.strip())
    return parse_numbers(f"--{name.replace('_', '-')}", text) if kind is int else parts


def given(context: typer.Context, names: Sequence[str]) -> list[str]:
    """Which of these options the user wrote on the command line, as they are written there."""
    sources = {name: context.get_parameter_source(name) for name in names}
    return [
        f"--{name.replace('_', '-')}" for name, source in sources.items() if source and source.name == "COMMANDLINE"
    ]


def refuse_given(context: typer.Context, names: Sequence[str], option: str) -> None:
    """Reject options that have no effect."""
    if found := given(context, names):
        raise UsageError(f"{found[0]} does not go with {option}; leave it out")


def parse_layer(text: str) -> int | str | list[int]:
    """Read ``--layer``: a number, several with commas, or first-last.

    >>> parse_layer("1,6")
    [1, 6]
    """
    if text == "first-last":
        return text
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"--layer takes a number, several as 1,6, or first-last, not {text!r}") from error
    return numbers[0] if len(numbers) == 1 else numbers


def parse_numbers(option: str, text: str) -> tuple[int, ...]:
    """Read whole numbers with commas between them.

    >>> parse_numbers("--k", "1,10")
    (1, 10)
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{option} takes numbers as 1,5,10, not {text!r}") from error
