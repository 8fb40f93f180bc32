"""``likewise evaluate retrieval``: how well rankers find the texts that answer queries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likewise.cli.output import Output, progress_bar
from likewise.cli.settings import (
    MODEL_HELP,
    POOLING_HELP,
    EncoderSettings,
    FileSettings,
    PoolingOptions,
    RunSettings,
    parse_layer,
    parse_numbers,
    with_settings,
)

if TYPE_CHECKING:
    from likewise.encoder import Encoder

LAYER_HELP = "A layer (0 is the embeddings, -1 the last), several as 1,6 to average, first-last, or all: each of them."


@with_settings
def retrieval(
    file: Annotated[
        str, typer.Argument(help="Pairs (each right text is a query for its left one), a corpus, or a BEIR folder.")
    ],
    output: Output,
    run: RunSettings,
    files: FileSettings,
    queries: Annotated[str | None, typer.Option(help="FILE is a corpus: a file of queries to it.")] = None,
    qrels: Annotated[
        str | None,
        typer.Option(
            help="Which texts answer them, in BEIR's or TREC's format; default: the queries' column relevant."
        ),
    ] = None,
    k: Annotated[str, typer.Option(help="Where recall is taken: among the first k texts.")] = "1,5,10,20,50",
    model: Annotated[list[str], typer.Option("--model", "-m", help=f"{MODEL_HELP} Repeat to compare.")] = ["minilm"],  # noqa: B006
    pooling: Annotated[list[str] | None, typer.Option(help=f"{POOLING_HELP} Repeat to compare.")] = None,
    layer: Annotated[list[str], typer.Option(help=f"{LAYER_HELP} Repeat to compare.")] = ["-1"],  # noqa: B006
    ranker: Annotated[
        list[str] | None,
        typer.Option(
            help="dense (the model), bow, tfidf, bm25, static, input-embeddings, random, or hybrid: BM25 fused with"
            " the model's first --pooling and last --layer. Repeat to compare. Default: dense."
        ),
    ] = None,
    vectors: Annotated[Path | None, typer.Option(help="Word vectors of the static ranker.")] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Poolings mean, cls and max, and all rankers, unless some are given.")
    ] = False,
    where: Annotated[
        str | None, typer.Option(help="COLUMN=VALUE: only these pairs are queries, among the texts of all pairs.")
    ] = None,
    min_score: Annotated[
        float | None,
        typer.Option(help="Only pairs with at least this score are queries, among the texts of all pairs."),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first rows, of texts and of queries.", min=1)] = None,
    special_tokens: Annotated[bool, typer.Option(help="Whether special tokens count in pooling.")] = True,
    heads: Annotated[bool, typer.Option(help="Apply the model's own dense heads.")] = True,
    truncate_dim: Annotated[int | None, typer.Option(help="Keep only the first dimensions.", min=1)] = None,
    post: Annotated[Path | None, typer.Option(help="A file made by: likewise fit-postprocessing.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random ranker.", min=0)] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute anew what earlier runs have cached.")] = False,
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
    grid = RetrievalGrid(tuple(model), tuple(pooling or [None]), layers, rankers, ks, vectors, seed, fresh)
    if compare:
        grid = replace(grid.compared, rankers=grid.rankers) if ranker else grid.compared

    def load(name: str) -> Encoder:
        return EncoderSettings(name).load(run, pooling_config)

    task = RetrievalSource(files.dataset(file, limit), queries, qrels, where, min_score).read()
    with progress_bar() as progress:
        table = compare_retrieval(task, grid, load, progress)
    output.show(table, grid=vars(grid), reading=vars(pooling_config), run=vars(run))


def _layer(text: str) -> Any:
    layer = parse_layer(text)
    return tuple(layer) if isinstance(layer, list) else layer
