"""``likewise geometry``: how the layers of a model see the words of a corpus."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likewise.cli.run_facts import run_facts
from likewise.cli.screen import notice, progress_bar, show_json, show_table
from likewise.cli.settings import MODEL_HELP, FileSettings, Json, RunSettings, with_settings

if TYPE_CHECKING:
    from likewise.geometry.comparison import GeometryTable
    from likewise.geometry.confidence import ConfidenceBand
    from likewise.geometry.geometry import Geometry, Similarities


@with_settings
def geometry(
    files: Annotated[list[str], typer.Argument(help="Files of texts or pairs, or names such as snli/dev.")],
    run: RunSettings,
    how: FileSettings,
    model: Annotated[list[str], typer.Option("--model", "-m", help=f"{MODEL_HELP} Repeat to compare.")] = ["minilm"],  # noqa: B006
    words: Annotated[str | None, typer.Option(help="Words to draw, as beverage,go,school.")] = None,
    min_contexts: Annotated[int, typer.Option(help="Texts that a word must stand in to count in averages.")] = 5,
    punctuation: Annotated[bool, typer.Option("--punctuation", help="Punctuation marks are words too.")] = False,
    prompt: Annotated[str | None, typer.Option(help="Put before each text; default: the model's own.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first rows of each file.", min=1)] = None,
    corrections: Annotated[
        bool, typer.Option(help="Also measure after mean removal, standardisation, all-but-the-top and whitening.")
    ] = True,
    max_words: Annotated[int, typer.Option(help="Words whose self-similarity is measured.")] = 5_000,
    max_contexts: Annotated[int, typer.Option(help="Contexts of a word that its MEV is measured on.")] = 1_000,
    sample_rows: Annotated[int, typer.Option(help="Contexts in all that MEV is measured on.")] = 20_000,
    sample_points: Annotated[int, typer.Option(help="Random words for TwoNN, CKA and clusters.")] = 2_000,
    clusters: Annotated[int, typer.Option(help="Clusters within which isotropy is measured.")] = 10,
    draws: Annotated[int, typer.Option(help="Bootstrap draws.")] = 300,
    disk: Annotated[float, typer.Option(help="Gigabytes of a temporary file for the second pass.")] = 4.0,
    seed: Annotated[int, typer.Option(help="Of all that is drawn at random.", min=0)] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw every measure over the layers: .png, .svg or .pdf.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page.")] = None,
    out: Annotated[Path | None, typer.Option(help="A folder for run.json, tables, figures and the page.")] = None,
    as_json: Json = False,
) -> None:
    """Anisotropy, self-similarity, intra-sentence similarity, explainable variance and what else layers show of words.

    Each distinct text counts once. A word's vector is the average of its tokens; special tokens and punctuation are no
    words. Values have 95 % intervals, but for rogue dimensions, clusters and CKA. MEV is the maximum explainable
    variance: the share of the first component of a word's vectors, in three readings, beside that of random words.
    """
    from likewise.data.corpora import CorpusSource
    from likewise.geometry.comparison import compare_geometry
    from likewise.geometry.report import geometry_page, write_geometry
    from likewise.geometry.settings import GeometrySettings
    from likewise.plotting.axes import check_format, save_figure

    for path in (plot, None if out is None and html is None else Path("figure.png")):
        if path is not None:
            check_format(path)
    settings = GeometrySettings(
        words=tuple(word.strip() for word in words.split(",")) if words is not None else (),
        min_contexts=min_contexts, punctuation=punctuation, prompt=prompt, corrections=corrections,
        max_words=max_words, max_contexts=max_contexts, sample_rows=sample_rows, sample_points=sample_points,
        clusters=clusters, draws=draws, disk=disk, seed=seed,
    )  # fmt: skip
    source = CorpusSource(tuple(files), how.columns(), how.data_dir, how.skip_bad, limit)
    began = time.time()
    with progress_bar() as progress:
        found = compare_geometry(source, model, settings, run.load, progress)
    if found.skipped:
        notice(f"{source.name}: bad rows skipped: {found.skipped}")
    if plot is not None:
        notice(f"wrote {save_figure(found.plot(), plot)}")
    if html is not None:
        notice(f"wrote {geometry_page(found, run_facts(began), html)}")
    if out is not None:
        notice(f"wrote {write_geometry(found, run_facts(began), out)}")
    show_json(found.to_dict()) if as_json else _show(found)


def _show(found: GeometryTable) -> None:
    for one in found.results:
        _show_layers(one)
        _show_words(one)


def _show_layers(one: Geometry) -> None:
    metadata = one.metadata
    title = (
        f"{one.model}: {one.data}\n{metadata['texts']} texts ({metadata['repeated']} repeated ones left out),"
        f" {metadata['occurrences']} words; averages over {int(one.words.averaged.sum())} words in"
        f" {one.settings.min_contexts} texts or more; 95 % intervals below"
    )
    names = ("baseline", "self_similarity", "self_similarity_adjusted", "intra_similarity", "intra_similarity_adjusted")
    rows = [(layer, *(_cell(one.bands[name], layer) for name in names)) for layer in range(one.layers)]
    show_table(("layer", "baseline", "self-sim.", "- baseline", "intra-sim.", "- baseline"), rows, title)
    own, random = one.variances.own, one.variances.random
    header = ("layer", *(name for pooling_config in own for name in (f"MEV {pooling_config}", "random")))
    rows = [
        (layer, *(_cell(bands[pooling_config], layer) for pooling_config in own for bands in (own, random)))
        for layer in range(one.layers)
    ]
    show_table(header, rows, f"maximum explainable variance over {one.variances.words} words, and of random words")
    _show_isotropy(one)


def _cell(band: ConfidenceBand, layer: int) -> str:
    low, high = band.ends(layer)
    return f"{band.values[layer]:.3f}\n{low:.3f} {high:.3f}"


def _show_isotropy(one: Geometry) -> None:
    header = (
        "layer",
        "IsoScore",
        "eff. rank",
        "TwoNN",
        "rogue dim.",
        "its share",
        "top 3",
        "cluster base",
        "cluster Iso.",
    )
    rows: list[tuple[object, ...]] = []
    for layer in range(one.layers):
        rogue, clusters = one.rogue(layer), one.clusters[layer]
        bands = [float(band.values[layer]) for band in (one.isoscore, one.effective_rank, one.intrinsic_dimension)]
        plain = [f"{bands[0]:.3f}", f"{bands[1]:.1f}", f"{bands[2]:.1f}", rogue[0][0]]
        shares = (rogue[0][1], sum(share for _, share in rogue), clusters.baseline, clusters.isoscore)
        rows.append((layer, *plain, *(f"{value:.3f}" for value in shares)))
    show_table(header, rows)
    if one.corrected:
        after = [(layer, *(_spaced(space, layer) for space in one.corrected.values())) for layer in range(one.layers)]
        title = "after corrections: baseline, self-similarity, intra-sentence similarity"
        show_table(("layer", *one.corrected), after, title)


def _spaced(space: Similarities, layer: int) -> str:
    bands = (space.baseline, space.self_similarity, space.intra_similarity)
    return "  ".join(f"{float(band.values[layer]):.3f}" for band in bands)


def _show_words(one: Geometry) -> None:
    listed = one.to_dict()["words"]
    tables = {"self-similarity": listed["self_similarity"], "MEV (formula)": listed["mev"]["formula"]}
    rows = [
        (name, end, ", ".join(f"{word['word']} ({word['n']})" for word in words))
        for name, ends in tables.items()
        for end, words in ends.items()
    ]
    show_table(("mean over layers", "end", "words (number of texts)"), rows)
    if listed["chosen"]:
        header = ("word", "contexts", "", *map(str, range(one.layers)))
        numbers = [
            (word["word"], word["n"], name, *(f"{value:.3f}" for value in values))
            for word in listed["chosen"]
            for name, values in {"self-similarity": word["values"], **word["mev"]}.items()
        ]
        show_table(header, numbers)
