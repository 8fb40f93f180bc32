"""``likewise evaluate`` (STS, retrieval) and ``faithfulness``: how good a model and its explanations are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, Typer

from likewise.cli.output import Output, progress_bar
from likewise.cli.settings import (
    LAYER_HELP,
    MINILM,
    FileSettings,
    FirstPairs,
    Heads,
    Label,
    Models,
    ModelSettings,
    PoolingOptions,
    Poolings,
    Post,
    RunSettings,
    SpecialTokens,
    TeamSettings,
    TruncateDim,
    app,
    command,
    parse_layer,
    parse_numbers,
    with_settings,
)

LAST = ["-1"]
group = Typer(help="Measure how well a model does.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(group, name="evaluate")


@group.callback()
def root() -> None:
    """Measure how well a model does."""


@group.command()
@with_settings
def sts(
    files: Annotated[list[str], Argument(help="Files of scored pairs, or names such as stsb/test.")],
    output: Output,
    pooling_config: PoolingOptions,
    run: RunSettings,
    team: TeamSettings,
    how: FileSettings,
    model: Models = MINILM,
    pooling: Poolings = None,
    mix: Annotated[
        str | None, Option(help="Take the second texts from the same rows of this file (mixed languages).")
    ] = None,
    label: Label = None,
) -> None:
    """Compare cosines with human similarity scores: Spearman, Pearson, squared error, with 95 % intervals.

    Of a cross-encoder the scores are compared.
    """
    from likewise.evaluation.sts import compare_sts

    datasets = [how.dataset(file) for file in files]
    with team.running(run) as working, progress_bar() as progress:
        load = working.scoring_loader(pooling_config, label=label)
        found = compare_sts(datasets, model, pooling or [None], mix, load, progress)
    output.show(found, reading=vars(pooling_config), run=vars(run))


@group.command()
@with_settings
def retrieval(
    file: Annotated[
        str, Argument(help="Pairs (each right text is a query for its left one), a corpus, or a BEIR folder.")
    ],
    output: Output,
    run: RunSettings,
    team: TeamSettings,
    files: FileSettings,
    queries: Annotated[str | None, Option(help="FILE is a corpus: a file of queries to it.")] = None,
    qrels: Annotated[
        str | None,
        Option(help="Which texts answer them, in BEIR's or TREC's format; default: the queries' column relevant."),
    ] = None,
    k: Annotated[str, Option(help="Where recall is taken: among the first k texts.")] = "1,5,10,20,50",
    model: Models = MINILM,
    pooling: Poolings = None,
    layer: Annotated[
        list[str], Option(help=f"{LAYER_HELP}, first-last, or all: each of them. Repeat to compare.")
    ] = LAST,
    ranker: Annotated[
        list[str] | None,
        Option(
            help="dense (the model), bow, tfidf, bm25, static, input-embeddings, random, or hybrid: BM25 fused with"
            " the model's first --pooling and last --layer. Repeat to compare. Default: dense."
        ),
    ] = None,
    vectors: Annotated[Path | None, Option(help="Word vectors of the static ranker.")] = None,
    compare: Annotated[
        bool, Option("--compare", help="Poolings mean, cls and max, and all rankers, unless some are given.")
    ] = False,
    where: Annotated[
        str | None, Option(help="COLUMN=VALUE: only these pairs are queries, among the texts of all pairs.")
    ] = None,
    min_score: Annotated[
        float | None, Option(help="Only pairs with at least this score are queries, among the texts of all pairs.")
    ] = None,
    limit: Annotated[int | None, Option(help="Only the first rows, of texts and of queries.", min=1)] = None,
    special_tokens: SpecialTokens = True,
    heads: Heads = True,
    truncate_dim: TruncateDim = None,
    post: Post = None,
    seed: Annotated[int, Option(help="Of the random ranker.", min=0)] = 0,
    fresh: Annotated[bool, Option("--fresh", help="Compute anew what earlier runs have cached.")] = False,
    rerank: Annotated[
        str | None, Option(help="A cross-encoder that also reranks the first texts of each ranker; or an encoder.")
    ] = None,
    candidates: Annotated[int, Option(help="How many first texts --rerank puts into order.", min=1)] = 100,
    label: Label = None,
) -> None:
    """Recall@k, MRR@10 and nDCG@10 with 95 % intervals, of a model or of a grid of models and baselines.

    A text's rank is the number of texts that score more than 1e-6 above it: ties are in the query's favour. Results
    are cached: the same command again continues where it stopped. A column title is put before a corpus's texts, as
    BEIR does, unless --text-column names one.
    """
    from likewise.search.evaluation import RetrievalSource
    from likewise.search.retrieval_grid import RetrievalGrid, compare_retrieval

    pooling_config = PoolingOptions("-1", special_tokens, heads, truncate_dim, post)
    layers = tuple(each if each == "all" else _layer(each) for each in layer)
    rankers, ks = tuple(ranker or ["dense"]), parse_numbers("--k", k)
    poolings = tuple(pooling or [None])
    grid = RetrievalGrid(tuple(model), poolings, layers, rankers, ks, vectors, seed, fresh, rerank, candidates)
    if compare:
        grid = replace(grid.compared, rankers=grid.rankers) if ranker else grid.compared
    task = RetrievalSource(files.dataset(file, limit), queries, qrels, where, min_score).read()
    with team.running(run) as working, progress_bar() as progress:
        reranker = run.scoring_loader(PoolingOptions(), label)
        table = compare_retrieval(task, grid, working.loader(pooling_config), progress, reranker)
    output.show(table, grid=vars(grid), reading=vars(pooling_config), run=vars(run))


def _layer(text: str) -> Any:
    layer = parse_layer(text)
    return tuple(layer) if isinstance(layer, list) else layer


@group.command()
@with_settings
def alignment(
    files: Annotated[list[str], Argument(help="Files of alignments made by people (JSON lines).")],
    output: Output,
    model: ModelSettings,
    team: TeamSettings,
    how: FileSettings,
    train: Annotated[
        list[str] | None, Option(help="A file on which the method and its links are chosen; repeat.")
    ] = None,
    method: Annotated[
        list[str] | None,
        Option(help="context, neighbours, layer-3, bilrp, optimal-transport, equal-words, ...; repeat. Default: all."),
    ] = None,
    limit: FirstPairs = None,
) -> None:
    """Compare which words correspond with the alignments of people: AUC, AP, top1 and F1 of every method.

    A line of a file is {"left": [words], "right": [words], "links": [{"left": [0], "right": [1], "type": "EQUI"}]}.
    Without --train, the chosen method is that of align, and each half of a file is tuned on the other half.
    """
    from likewise.evaluation.alignment import compare_alignments

    datasets, tuning = ([how.dataset(file, limit) for file in some or []] for some in (files, train))
    with team.working(model) as working, progress_bar() as progress:
        encoder = working.load()
        found = compare_alignments(encoder, datasets, tuning, method, progress)
    output.show(found, train=train or [], model_hash=encoder.hash, limit=limit, **model.documented())


@command
def faithfulness(
    file: Annotated[str, Argument(help="A file of pairs, or a name such as stsb/test.")],
    output: Output,
    model: ModelSettings,
    how: FileSettings,
    method: Annotated[
        list[str] | None,
        Option(
            help="bilrp, as published; bilrp-filler, the default of explain; bilrp-local, -traced, -shared, each also"
            " with -filler; bilrp-attention-norm, hxp, integrated-jacobian, embedding, embedding-squared or random;"
            " repeat."
        ),
    ] = None,
    rank_special: Annotated[bool, Option("--rank-special", help="Mask and rank special tokens like the rest.")] = False,
    filler: Annotated[str, Option(help="The token that masks others: mask or pad.")] = "mask",
    second_order: Annotated[bool, Option("--second-order", help="Also insert and delete pairs of tokens.")] = False,
    steps: Annotated[int, Option(help="Points on the path of integrated-jacobian.", min=1)] = 10,
    jacobian_pairs: Annotated[int, Option(help="Pairs for integrated-jacobian, which is slow.", min=1)] = 300,
    sentences: Annotated[int, Option(help="Sentences of the conservation test; 0 leaves it out.", min=0)] = 300,
    limit: FirstPairs = None,
    seed: Annotated[int, Option(help="Seed of the random method.", min=0)] = 0,
) -> None:
    """Test every method: tokens enter a masked text by relevance; how soon is its vector near the full text's?"""
    from likewise.evaluation.faithfulness import DEFAULT_VARIANTS, PerturbationSettings, study_faithfulness

    settings = PerturbationSettings(tuple(method or DEFAULT_VARIANTS), rank_special, filler, second_order, steps, seed)
    pairs = how.dataset(file, limit).pairs()
    encoder = model.load()
    with progress_bar() as progress:
        found = study_faithfulness(encoder, pairs, settings, jacobian_pairs, sentences, progress)
    output.show(
        found, data=file, pairs=len(pairs), model=encoder.name, model_hash=encoder.hash,
        reading=vars(encoder.pooling_config), settings=vars(settings), jacobian_pairs=jacobian_pairs,
        sentences=sentences, run=vars(model.run),
    )  # fmt: skip
