"""``likewise benchmark`` compares models; ``likewise synthetic`` compares explanations with a known truth."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from likewise.cli.output import Output, progress_bar
from likewise.cli.settings import DataDir, GrammarName, RunSettings, command

FirstPairs = Annotated[int | None, Option(help="Only the first pairs.", min=2)]


@command
def benchmark(
    models: Annotated[list[str], Argument(help="Models; folders of a table's rows are averaged over seeds.")],
    run: RunSettings,
    output: Output,
    pairs: Annotated[str, Option(help="Pairs with scores, a file or a name.")] = "stsb/test",
    parts: Annotated[
        str, Option(help="sts, space, layers, skipped, classes, lint; several with commas.")
    ] = "sts,space,layers",
    group_by: Annotated[
        str | None, Option(help="A column such as genre; each of its values gets its own agreement.")
    ] = None,
    grammar: GrammarName = None,
    limit: FirstPairs = None,
    data_dir: DataDir = None,
) -> None:
    """Measure several models: agreement with people (by column and length), the space of their vectors, the geometry of
    every layer, the agreement without each layer, relevance by part of speech, and lint's findings.

    Measured parts stay in --out, so an interrupted benchmark continues there.
    """
    from likewise.data import Dataset
    from likewise.train.benchmark import BenchmarkData
    from likewise.train.benchmark import benchmark as measure

    data = BenchmarkData(Dataset(pairs, data_dir=data_dir, limit=limit), grammar, group_by)
    with progress_bar() as progress:
        found = measure(data, models, [part.strip() for part in parts.split(",")], output.out, run.load, progress)
    output.show(found)


@command
def synthetic(
    model: Annotated[str, Argument(help="A folder made by: likewise train synthetic.")],
    run: RunSettings,
    output: Output,
    pairs: Annotated[str, Option(help="Pairs whose explanations are compared with the truth.")] = "stsb/test",
    train: Annotated[str | None, Option(help="More pairs to measure the counting on.")] = None,
    grammar: GrammarName = None,
    limit: FirstPairs = None,
    data_dir: DataDir = None,
) -> None:
    """Compare explanations with the true interactions of a model that counts the nouns that two texts share."""
    from likewise.data import Dataset
    from likewise.grammar import Grammar
    from likewise.train.synthetic import synthetic_benchmark

    files = [pairs, *([train] if train else [])]
    data = {name: Dataset(name, data_dir=data_dir, limit=limit).pairs() for name in files}
    language = Grammar.load(grammar)
    with progress_bar() as progress:
        found = synthetic_benchmark(run.load(model), data, language, progress=progress)
    output.show(found)
