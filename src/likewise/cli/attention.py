"""``likewise attention``: what a model's attention maps group together, and what of it survives controls."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likewise.cli.run_facts import run_facts
from likewise.cli.screen import notice, progress_bar, show_json, show_table
from likewise.cli.settings import (
    GRAMMAR_HELP,
    MODEL_HELP,
    FileSettings,
    Json,
    RunSettings,
    parse_numbers,
    with_settings,
)
from likewise.errors import MissingExtra, ModelError, UsageError

if TYPE_CHECKING:
    from likewise.attention import AttentionStudy
    from likewise.grammar import Grammar


@with_settings
def attention(
    file: Annotated[str, typer.Argument(help="A file of scored pairs, or a name such as stsb/test.")],
    run: RunSettings,
    how: FileSettings,
    out: Annotated[Path, typer.Option(help="The study's folder; a run that stopped goes on in it.")],
    model: Annotated[str, typer.Option("--model", "-m", help=MODEL_HELP)] = "minilm",
    grammar: Annotated[str | None, typer.Option(help=GRAMMAR_HELP)] = None,
    structure: Annotated[
        bool | None, typer.Option(help="Grammatical structure as a variable. Default: where a pipeline is at hand.")
    ] = None,
    reducer: Annotated[str, typer.Option(help="What makes points of maps: lstm, pca or umap.")] = "lstm",
    compare: Annotated[str, typer.Option(help="Reducers beside it, as pca,umap; none for no other.")] = "pca",
    hidden: Annotated[int, typer.Option(help="Width of the autoencoder's LSTMs.")] = 32,
    directions: Annotated[int, typer.Option(help="Of the LSTMs: 2 read and write from both ends.")] = 2,
    latent: Annotated[int, typer.Option(help="Numbers of a point; clusters use all, pictures show two.")] = 2,
    epochs: Annotated[int, typer.Option(help="The autoencoder's most epochs.")] = 10,
    patience: Annotated[int, typer.Option(help="Epochs without a lower held-out loss before it stops.")] = 2,
    learning_rate: Annotated[float, typer.Option(help="Of the autoencoder's Adam.")] = 1e-3,
    held_out: Annotated[float, typer.Option(help="Share of the pairs that the autoencoder does not learn.")] = 0.1,
    algorithms: Annotated[
        str, typer.Option(help="Clusterings to try.")
    ] = "kmeans,dbscan,agglomerative,spectral,gaussian-mixture",
    clusters: Annotated[str, typer.Option(help="Numbers of clusters to try, as 2-15.")] = "2-15",
    distances: Annotated[str, typer.Option(help="Of agglomerative and dbscan; cosine too.")] = "euclidean,manhattan",
    linkages: Annotated[str, typer.Option(help="Of agglomerative.")] = "ward,complete,average,single",
    covariances: Annotated[str, typer.Option(help="Of gaussian-mixture.")] = "full,tied,diag,spherical",
    min_samples: Annotated[str, typer.Option(help="Neighbours that make a core point of dbscan.")] = "5,10",
    smallest: Annotated[float, typer.Option(help="No cluster of a chosen clustering is a smaller share.")] = 0.01,
    most_noise: Annotated[float, typer.Option(help="No chosen clustering leaves a larger share as noise.")] = 0.1,
    alpha: Annotated[float, typer.Option(help="The level of the tests.")] = 0.05,
    permutations: Annotated[int, typer.Option(help="Draws of the permutation tests.")] = 1000,
    control_pairs: Annotated[int, typer.Option(help="Pairs of the random-attention control; 0: none.")] = 300,
    highlight: Annotated[
        list[str] | None,
        typer.Option(help="Light up ranges, as length:9-15,20-22 or structure:0.95-; repeat. Default: the study's."),
    ] = None,
    max_tokens: Annotated[int, typer.Option(help="Longer pairs are left out.")] = 128,
    prompt: Annotated[str, typer.Option(help="Put before the first text of each pair.")] = "",
    limit: Annotated[int | None, typer.Option(help="Only the first pairs.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Of all that is drawn at random.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Attention maps of pairs as points in the plane, clustered layer by layer, and tested against three variables.

    Each pair runs as one sequence; an LSTM autoencoder shared by all layers turns its maps into one point per layer.
    Clusters are tested against similarity label, length and grammatical structure, beside random attention,
    permutations and tests with length held fixed. The folder gets points.csv, clusters.csv, results.json, report.html
    and all figures and tables.
    """
    from likewise.attention import AttentionSettings, AutoencoderSettings, ClusterSettings, Highlight
    from likewise.attention.files import study_attention
    from likewise.attention.highlights import STUDY_HIGHLIGHTS
    from likewise.attention.report import write_attention
    from likewise.plotting.axes import check_format

    check_format(out / "figure.png")
    least, most = _range(clusters)
    lit = tuple(Highlight.parse(each) for each in highlight or ())
    settings = AttentionSettings(
        reducer=reducer, compare=() if compare == "none" else _names(compare),
        autoencoder=AutoencoderSettings(hidden, directions, latent, epochs, patience, learning_rate, held_out),
        clusters=ClusterSettings(
            _names(algorithms), least, most, _names(distances), _names(linkages), _names(covariances),
            parse_numbers("--min-samples", min_samples), smallest=smallest, most_noise=most_noise,
        ),
        alpha=alpha, permutations=permutations, control_pairs=control_pairs, max_tokens=max_tokens, prompt=prompt,
        seed=seed, highlights=lit or STUDY_HIGHLIGHTS,
    )  # fmt: skip
    if structure is False and grammar is not None:
        raise UsageError("--grammar is for structure, which --no-structure leaves out; leave one of them out")
    began, parser = time.time(), None if structure is False else _grammar(grammar, structure is None)
    if parser is None and any(each.variable == "structure" for each in lit):
        raise UsageError("there is no structure to highlight; give a pipeline with --grammar")
    with progress_bar() as progress:
        source = how.pairs(file, limit)
        study = study_attention(source, lambda: run.load(model), parser, settings, out, progress)
        written = write_attention(study, run_facts(began), out, progress)
    notice(f"wrote {written}")
    show_json(study.to_dict()) if as_json else _show(study)


def _grammar(name: str | None, may_be_missing: bool) -> Grammar | None:
    """The pipeline; none, and a word of it, where nobody asked for one and none is at hand."""
    from likewise.grammar import Grammar
    from likewise.grammar.pipelines import VARIABLE

    asked = name is not None or bool(os.environ.get(VARIABLE))
    try:
        return Grammar.load(name)
    except (MissingExtra, ModelError) as error:
        if asked or not may_be_missing:
            raise
        notice(f"structure is left out: {error}")
        return None


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _range(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text.strip())
    if found is None:
        raise UsageError(f"--clusters takes a number or a range as 2-15, not {text!r}")
    least, most = int(found[1]), int(found[2] or found[1])
    if most < least:
        raise UsageError(f"--clusters {text.strip()}: most must be at least {least}; give the smaller number first")
    return least, most


def _show(study: AttentionStudy) -> None:
    from likewise.attention import verdicts
    from likewise.attention.tables import p_text

    groups, controls = study.main.groups, study.controls
    rows: list[tuple[object, ...]] = []
    for group in groups:
        chosen, scores = group.clusters.chosen, group.clusters.chosen.scores
        plain = f"{scores.silhouette:.3f}", f"{scores.davies_bouldin:.3f}", f"{scores.calinski_harabasz:.0f}"
        rows.append((group.layer, chosen.algorithm, chosen.k, f"{chosen.noise:.1%}", *plain))
    title = f"{study.model}: {study.data}, {len(study.pairs)} pairs"
    show_table(("layer", "algorithm", "K", "noise", "silhouette", "Davies-B.", "Calinski-H."), rows, title)
    rows = []
    for group, control in zip(groups, controls, strict=True):
        for name, test in group.tests.items():
            within, beside = control.within_length.get(name), control.random
            rows.append(
                (group.layer, name, p_text(test.kruskal_p), f"{test.epsilon2:.3f}", f"{test.pairs_significant:.0%}",
                 p_text(control.permutation[name].p), p_text(within.p) if within else "", f"{test.eta2:.3f}",
                 f"{beside.same_k[name].eta2:.3f}" if beside else "")
            )  # fmt: skip
    header = ("layer", "variable", "p", "epsilon2", "pairs", "permuted p", "like length p", "eta2", "random eta2")
    show_table(header, rows, "pairs: of clusters that differ; random: attention drawn at random, as many clusters")
    for sentence in verdicts(study):
        typer.echo(sentence)
