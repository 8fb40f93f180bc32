"""``likewise geometry``: how the layers of a model see the words of a corpus."""

from __future__ import annotations

from typing import Annotated

import typer

from likewise.cli.output import Output, progress_bar
from likewise.cli.settings import MODEL_HELP, FileSettings, RunSettings, with_settings


@with_settings
def geometry(
    files: Annotated[list[str], typer.Argument(help="Files of texts or pairs, or names such as snli/dev.")],
    output: Output,
    run: RunSettings,
    how: FileSettings,
    model: Annotated[list[str], typer.Option("--model", "-m", help=f"{MODEL_HELP} Repeat to compare.")] = ["minilm"],  # noqa: B006
    words: Annotated[str | None, typer.Option(help="Words to draw, as beverage,go,school.")] = None,
    min_contexts: Annotated[int, typer.Option(help="Averages leave out words in fewer texts.")] = 5,
    punctuation: Annotated[bool, typer.Option("--punctuation", help="Punctuation marks are words too.")] = False,
    prompt: Annotated[str | None, typer.Option(help="Put before each text; default: the model's own.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first rows of each file.", min=1)] = None,
    corrections: Annotated[
        bool, typer.Option(help="Also measure after mean removal, standardisation, all-but-the-top and whitening.")
    ] = True,
    max_words: Annotated[int, typer.Option(help="The most words for self-similarity.")] = 5_000,
    max_contexts: Annotated[int, typer.Option(help="The most contexts of a word for its MEV.")] = 1_000,
    sample_rows: Annotated[int, typer.Option(help="The most contexts of all words for MEV.")] = 20_000,
    sample_points: Annotated[int, typer.Option(help="Random words for TwoNN, CKA and clusters.")] = 2_000,
    clusters: Annotated[int, typer.Option(help="Clusters within which isotropy is measured.")] = 10,
    draws: Annotated[int, typer.Option(help="Bootstrap draws.")] = 300,
    disk: Annotated[float, typer.Option(help="Gigabytes of a temporary file for the second pass.")] = 4.0,
    seed: Annotated[int, typer.Option(help="Seed of everything random.", min=0)] = 0,
) -> None:
    """Measure words in every layer: anisotropy, self-similarity, intra-sentence similarity, explainable variance, rank.

    Each distinct text counts once. A word's vector is the average of its tokens; special tokens and punctuation are no
    words. Values have 95 % intervals, except rogue dimensions, clusters and CKA. MEV is the maximum explainable
    variance: the share of the first component of a word's vectors, in three variants, and that of random words.
    """
    from likewise.data import Datasets
    from likewise.geometry import GeometrySettings, compare_geometry

    settings = GeometrySettings(
        words=tuple(word.strip() for word in words.split(",")) if words is not None else (),
        min_contexts=min_contexts, punctuation=punctuation, prompt=prompt, corrections=corrections,
        max_words=max_words, max_contexts=max_contexts, sample_rows=sample_rows, sample_points=sample_points,
        clusters=clusters, draws=draws, disk=disk, seed=seed,
    )  # fmt: skip
    corpus = Datasets([how.dataset(file, limit) for file in files])
    with progress_bar() as progress:
        found = compare_geometry(corpus, model, settings, run.load, progress)
    output.show(found, run=vars(run))
