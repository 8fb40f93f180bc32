"""``likewise attention``: clusters a model's attention maps and tests which findings survive the controls."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from likewise.attention.settings import AttentionSettings, Highlight
from likewise.cli.output import Output, notice, progress_bar
from likewise.cli.settings import PAIRS_HELP, FileSettings, FirstPairs, GrammarName, Model, RunSettings, command
from likewise.errors import MissingExtra, ModelError, UsageError

if TYPE_CHECKING:
    from likewise.grammar import Grammar


@command
def attention(
    file: Annotated[str, Argument(help=PAIRS_HELP)],
    output: Output,
    run: RunSettings,
    how: FileSettings,
    settings: AttentionSettings,
    model: Model = "minilm",
    grammar: GrammarName = None,
    structure: Annotated[
        bool | None, Option(help="Grammatical structure as a variable. Default: if there is a pipeline.")
    ] = None,
    clusters: Annotated[str, Option(help="Numbers of clusters to try, as 2-15.")] = "2-15",
    highlight: Annotated[
        list[str] | None,
        Option(help="Highlight ranges, as length:9-15,20-22 or structure:0.95-; repeat. Default: published ones."),
    ] = None,
    limit: FirstPairs = None,
) -> None:
    """Attention maps of pairs as points in the plane, clustered layer by layer, and tested against three variables.

    Each pair runs as one sequence; an LSTM autoencoder shared by all layers turns its maps into one point per layer.
    Clusters are tested against similarity score, length and grammatical structure, and compared with random attention,
    permutations and tests given length. --out names the study's folder: a stopped run resumes there, and it gets
    points.csv, clusters.csv, results.json, index.html and all figures and tables.
    """
    from likewise.attention.pipeline import study_dataset

    if output.out is None:
        raise UsageError("the study needs a folder; name one with --out")
    least, most = _range(clusters)
    settings = replace(settings, clusters=replace(settings.clusters, least=least, most=most))
    if highlight:
        settings = replace(settings, highlights=tuple(map(Highlight.parse, highlight)))
    parser = _grammar(grammar, structure)
    if highlight and parser is None and any(each.variable == "structure" for each in settings.highlights):
        raise UsageError("there is no structure to highlight; give a pipeline with --grammar")
    with progress_bar() as progress:
        dataset = how.dataset(file, limit)
        study = study_dataset(dataset, lambda: run.load(model), parser, settings, output.out, progress)
    output.show(study, settings=asdict(settings), run=vars(run))


def _grammar(name: str | None, structure: bool | None) -> Grammar | None:
    """The pipeline; None, with a notice, if none is installed and none was requested."""
    from likewise.grammar import Grammar
    from likewise.grammar.grammar import VARIABLE

    if structure is False:
        if name is not None:
            raise UsageError("--grammar is for structure, which --no-structure leaves out; leave one of them out")
        return None
    try:
        return Grammar.load(name)
    except (MissingExtra, ModelError) as error:
        if structure or name is not None or os.environ.get(VARIABLE):
            raise
        notice(f"structure is left out: {error}")
        return None


def _range(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text.strip())
    if found is None:
        raise UsageError(f"--clusters takes a number or a range as 2-15, not {text!r}")
    least, most = int(found[1]), int(found[2] or found[1])
    if most < least:
        raise UsageError(f"--clusters {text.strip()}: most must be at least {least}; give the smaller number first")
    return least, most
