"""``likewise compare-models``: what another model, or the same one in another form, changes in a search."""

from __future__ import annotations

import os
import re
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from likewise.cli.output import Output, progress_bar
from likewise.cli.settings import (
    TEXTS_HELP,
    EncoderSettings,
    FileSettings,
    IndexOptions,
    ModelSettings,
    PoolingOptions,
    RunSettings,
    command,
    option_names,
    parse_numbers,
    with_settings,
)
from likewise.errors import UsageError

if TYPE_CHECKING:
    from likewise.search.comparison_source import ComparedModel

COMPARED = ("similarity", "query_prompt", "document_prompt")  # Options of an index that a model may have of its own
SHARED = ("device", "threads")  # Options of the command; both models have the same
FLAGS = [one.name for one in fields(PoolingOptions) if isinstance(one.default, bool)]
KEYS = sorted({*option_names(EncoderSettings, PoolingOptions, RunSettings), *COMPARED} - {"model", *SHARED})
MODEL_HELP = (
    "A model, as for --model, with options of its own after @: minilm, minilm@truncate_dim=128,"
    f" minilm@backend=onnx-int8, runs/mine@pooling=cls,layer=3. Options: {', '.join(KEYS)}."
    " With --index one model is compared with the index's own."
)


@cache
def _reader() -> Any:
    """A command that reads the options of one model as the command line does, and returns them."""
    reader = typer.Typer(add_completion=False)

    def read(settings: ModelSettings, index: IndexOptions) -> tuple[ModelSettings, IndexOptions]:
        return settings, index

    reader.command()(with_settings(read))
    return typer.main.get_command(reader)


def parse_model(text: str, *shared: str) -> ComparedModel:
    """Read a model with its own options, ``NAME@KEY=VALUE,...``; ``shared`` are more options as on the command line.

    A comma belongs to a value unless a key follows it: ``minilm@layer=1,6,pooling=cls``.

    >>> parse_model("minilm@query_prompt=query: ,similarity=dot").changes
    {'query_prompt': 'query: ', 'similarity': 'dot'}
    """
    from likewise.search.comparison_source import ComparedModel

    name, given = _split(text)
    arguments = [f"--model={name}", *shared]
    for key, value in given.items():
        option = key.replace("_", "-")
        if key in FLAGS and value not in ("yes", "no"):
            raise UsageError(f"{text}: {key} takes yes or no, not {value!r}")
        flag = {"yes": f"--{option}", "no": f"--no-{option}"}
        arguments.append(flag[value] if key in FLAGS else f"--{option}={value}")
    try:
        settings, _ = _reader().main(arguments, standalone_mode=False)
    except typer.BadParameter as error:
        raise UsageError(f"{text}: {error.format_message()}") from error
    return ComparedModel(text, settings.load, {key: value for key, value in given.items() if key in COMPARED})


def _split(text: str) -> tuple[str, dict[str, str]]:
    """The name of a model, and its options by key."""
    found = re.fullmatch(r"(.+?)@([A-Za-z_-]+=.*)", text, re.DOTALL)
    if found is None:
        if "@" in text and not os.path.isdir(text):
            raise UsageError(f"{text}: after @ come options such as truncate_dim=128; there are {', '.join(KEYS)}")
        return text, {}
    options: dict[str, str] = {}
    for part in re.split(r",(?=[A-Za-z_-]+=)", found[2]):
        key, _, value = part.partition("=")
        key = key.replace("-", "_")
        if key in options:
            raise UsageError(f"{text}: {key} is given twice; leave one of them out")
        if key not in KEYS:
            raise UsageError(f"{text}: {key} is not an option of a model; there are {', '.join(KEYS)}")
        options[key] = value
    return found[1], options


@command
def compare_models(
    models: Annotated[list[str], Argument(metavar="[A] B", help=MODEL_HELP)],
    files: FileSettings,
    output: Output,
    index: Annotated[str | None, Option(help="Compare on the texts of this index; its vectors are used.")] = None,
    corpus: Annotated[str | None, Option(help=f"Compare on a file of texts or pairs. {TEXTS_HELP}")] = None,
    queries: Annotated[str | None, Option(help="A file of queries; a column relevant may name their texts.")] = None,
    query: Annotated[list[str] | None, Option(help="A query; repeat.")] = None,
    qrels: Annotated[str | None, Option(help="Which texts answer the queries, in BEIR's or TREC's format.")] = None,
    k: Annotated[
        str | None, Option(help="Where overlap and recall are taken. Default: 1,5,10,20,50, as far as texts go.")
    ] = None,
    top: Annotated[
        int | None, Option(help="Documents come and go among this many first hits. Default: 10.", min=1)
    ] = None,
    persistence: Annotated[float, Option(help="Of rank-biased overlap: lower looks more at the first texts.")] = 0.9,
    most_changed: Annotated[int, Option(help="How many of the most changed queries are explained.", min=0)] = 5,
    limit: Annotated[int | None, Option(help="Only the first queries.", min=1)] = None,
    device: Annotated[str, Option(help="auto, cpu, cuda or mps.")] = "auto",
    threads: Annotated[int | None, Option(help="Threads; default: all cores.", min=1)] = None,
) -> None:
    """Show what another model changes in a search: which hits stay, which queries and documents change, and why.

    With judgements also recall, MRR and nDCG with paired tests. Both models are searched exactly. Vectors are cached:
    the same command again continues where it stopped.
    """
    from likewise.search.comparison_result import ComparisonSettings
    from likewise.search.comparison_source import ComparisonSource, compare_sources
    from likewise.search.stores.folder import address_of

    if (index is None) == (corpus is None):
        raise UsageError("give the texts once: --index FOLDER, or --corpus FILE")
    shared = [f"--device={device}", *([] if threads is None else [f"--threads={threads}"])]
    compared = [parse_model(each, *shared) for each in models]
    settings = ComparisonSettings(None if k is None else parse_numbers("--k", k), top, persistence, most_changed)
    where = corpus if index is None else address_of(index)
    source = ComparisonSource(files.dataset(where or ""), index is not None, queries, query or [], qrels, limit)
    run = RunSettings(device, threads)
    with progress_bar() as progress:
        found = compare_sources(source, compared, settings, run.load, progress)
    output.show(found, models=models, settings=vars(settings), run=vars(run))
