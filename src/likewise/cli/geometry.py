"""``likewise geometry``, ``isotropy``, ``layers`` and ``senses``: words and sentences in the layers of a model."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Context, Option

from likewise.cli.output import Output, progress_bar
from likewise.cli.settings import (
    MINILM,
    PAIRS_HELP,
    FileSettings,
    Models,
    Pooling,
    PoolingOptions,
    Prompt,
    RunSettings,
    Seed,
    TeamSettings,
    command,
    parse_numbers,
    refuse_given,
)
from likewise.errors import UsageError


@command
def geometry(
    files: Annotated[list[str], Argument(help="Files of texts or pairs, or names such as snli/dev.")],
    output: Output,
    run: RunSettings,
    team: TeamSettings,
    how: FileSettings,
    model: Models = MINILM,
    words: Annotated[str | None, Option(help="Words to draw, as beverage,go,school.")] = None,
    min_contexts: Annotated[int, Option(help="Averages leave out words in fewer texts.")] = 5,
    punctuation: Annotated[bool, Option("--punctuation", help="Punctuation marks are words too.")] = False,
    prompt: Prompt = None,
    limit: Annotated[int | None, Option(help="Only the first rows of each file.", min=1)] = None,
    corrections: Annotated[
        bool, Option(help="Also measure after mean removal, standardisation, all-but-the-top and whitening.")
    ] = True,
    max_words: Annotated[int, Option(help="The most words for self-similarity.")] = 5_000,
    max_contexts: Annotated[int, Option(help="The most contexts of a word for its MEV.")] = 1_000,
    sample_rows: Annotated[int, Option(help="The most contexts of all words for MEV.")] = 20_000,
    sample_points: Annotated[int, Option(help="Random words for TwoNN, CKA and clusters.")] = 2_000,
    clusters: Annotated[int, Option(help="Clusters within which isotropy is measured.")] = 10,
    draws: Annotated[int, Option(help="Bootstrap draws.")] = 300,
    disk: Annotated[float, Option(help="Gigabytes of a temporary file for the second pass.")] = 4.0,
    seed: Seed = 0,
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
    with team.running(run) as working, progress_bar() as progress:
        found = compare_geometry(corpus, model, settings, working.load, progress)
    output.show(found, run=vars(run))


@command
def isotropy(
    file: Annotated[str, Argument(help=PAIRS_HELP)],
    output: Output,
    pooling_config: PoolingOptions,
    run: RunSettings,
    how: FileSettings,
    fit: Annotated[
        str | None, Option(help="Fit the corrections on this file of pairs or texts. Default: on FILE's own texts.")
    ] = None,
    dim: Annotated[
        str | None, Option(help="Dimensions that whitening cuts to. Default: 64,128,256, as far as there are more.")
    ] = None,
    remove: Annotated[
        int | None, Option(help="Directions that all-but-the-top removes. Default: a hundredth.", min=0)
    ] = None,
    k: Annotated[str, Option(help="Recall is measured among the first k texts.")] = "1,10",
    min_score: Annotated[
        float | None,
        Option(help="Only pairs with at least this score are queries. Default: four fifths of the way up."),
    ] = None,
    model: Models = MINILM,
    pooling: Pooling = None,
) -> None:
    """Compare vectors before and after corrections: expected cosine, IsoScore, Spearman and recall, in one table.

    The corrections (mean removal, standardisation, all-but-the-top, whitening) are fitted on texts, never on scores: on
    FILE's own texts, unless --fit names others. For recall each right text is a
    query for its left one among all left texts.
    """
    from likewise.geometry.isotropy import IsotropyOptions, compare_isotropy, isotropy_task

    options = IsotropyOptions(None if dim is None else parse_numbers("--dim", dim), remove, parse_numbers("--k", k))

    task = isotropy_task(how.dataset(file), fit, min_score)
    with progress_bar() as progress:
        found = compare_isotropy(task, model, options, run.loader(pooling_config, pooling), progress)
    output.show(found, options=vars(options), reading=vars(pooling_config), run=vars(run))


WORD_HELP = (
    "The word, or run of words, to follow: once for all sentences or once for each, in order. bank:2 is the 2nd."
)
LIST = "list"


@command
def layers(
    context: Context,
    output: Output,
    run: RunSettings,
    texts: Annotated[list[str] | None, Argument(help="Two sentences or more.", show_default=False)] = None,
    word: Annotated[list[str] | None, Option(help=WORD_HELP)] = None,
    sentences: Annotated[bool, Option("--sentences", help="Follow the sentences' pooled vectors.")] = False,
    example: Annotated[str | None, Option(help="A ready example; list shows them.")] = None,
    model: Models = MINILM,
    pooling: Pooling = None,
    prompt: Annotated[str | None, Option(help="Put before each sentence; default: the model's own.")] = None,
) -> None:
    """Show the cosine of a word's vectors in several sentences, or of the sentences' own vectors, at each layer."""
    from likewise.geometry import trajectories

    if example == LIST:
        return output.show(trajectories.ExampleList())
    if example is not None:
        refuse_given(context, ("texts", "word", "sentences"), "--example")
        chosen = trajectories.example(example)
    else:
        chosen = trajectories.Example("", tuple(texts or ()), _words(texts, word, sentences))
    if chosen.words and pooling is not None:
        raise UsageError("--pooling does not go with words, whose tokens are averaged; leave it out or say --sentences")
    with progress_bar() as progress:
        found = trajectories.compare_layers(chosen, model, run.loader(pooling=pooling), prompt, progress)
    output.show(found, prompt=prompt, run=vars(run))


def _words(texts: list[str] | None, word: list[str] | None, sentences: bool) -> tuple[str, ...]:
    """The words to follow; none for whole sentences."""
    if not texts:
        raise UsageError(
            'give sentences: likewise layers --word bank "We will rob a bank." "We sat on the bank."; or --example bank'
        )
    if word and sentences:
        raise UsageError("--word does not go with --sentences; leave one of them out")
    if not word and not sentences:
        raise UsageError("say what to follow: --word WORD, or --sentences for whole sentences")
    return tuple(word or ())


FILE_HELP = "Words in context: columns sentence, word, word_index (blank-separated, from 0 on) and sense; file or name."


@command
def senses(
    file: Annotated[str, Argument(help=FILE_HELP)],
    output: Output,
    run: RunSettings,
    how: FileSettings,
    train: Annotated[
        str | None,
        Option(help="Look the nearest up in this file. Default: among FILE's others, each left out in turn."),
    ] = None,
    nearest: Annotated[
        str, Option(help="neighbour: the nearest occurrence's sense; centroid: the nearest mean of a sense.")
    ] = "neighbour",
    words: Annotated[str | None, Option(help="Only these words, as apple,bank.")] = None,
    limit: Annotated[int | None, Option(help="Only the first occurrences of each word, in each file.", min=1)] = None,
    model: Models = MINILM,
) -> None:
    """Compare a word's vectors by sense, layer by layer: cosines within and between senses, and nearest-sense accuracy.

    A word's vector is the mean of its tokens. Intervals are bootstrap 95 %: over words, over occurrences for accuracy.
    """
    from likewise.geometry.sense_study import compare_senses, sense_task

    chosen = tuple(word.strip() for word in words.split(",")) if words else ()
    task = sense_task(how.dataset(file), train, chosen, limit)
    with progress_bar() as progress:
        found = compare_senses(task, model, nearest, run.load, progress)
    output.show(found, limit=limit, words=chosen, run=vars(run))
