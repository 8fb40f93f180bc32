"""``likewise evaluate retrieval``: how well rankers find the texts that answer queries."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likewise.cli.run_facts import run_facts
from likewise.cli.screen import notice, progress_bar, show_json, show_table, with_interval
from likewise.cli.settings import (
    MODEL_HELP,
    POOLING_HELP,
    EncoderSettings,
    FileSettings,
    Json,
    PoolingOptions,
    RunSettings,
    parse_layer,
    parse_numbers,
    with_settings,
)

if TYPE_CHECKING:
    from likewise.encoder import Encoder
    from likewise.search.recall import RetrievalTable

LAYER_HELP = "A layer (0 is the embeddings, -1 the last), several as 1,6 to average, first-last, or all: each of them."


@with_settings
def retrieval(
    file: Annotated[
        str, typer.Argument(help="Pairs (each right text asks for its left one), a corpus, or a folder as BEIR's.")
    ],
    run: RunSettings,
    how: FileSettings,
    queries: Annotated[str | None, typer.Option(help="FILE is a corpus: a file of queries to it.")] = None,
    qrels: Annotated[
        str | None,
        typer.Option(help="Which texts answer them, as BEIR or TREC write it; default: the queries' column relevant."),
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
        str | None, typer.Option(help="COLUMN=VALUE: only these pairs ask, among the texts of all pairs.")
    ] = None,
    min_score: Annotated[
        float | None, typer.Option(help="Only pairs with at least this score ask, among the texts of all pairs.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first rows, of texts and of queries.", min=1)] = None,
    special_tokens: Annotated[bool, typer.Option(help="Whether special tokens count in pooling.")] = True,
    heads: Annotated[bool, typer.Option(help="Apply the model's own dense heads.")] = True,
    truncate_dim: Annotated[int | None, typer.Option(help="Keep only the first dimensions.", min=1)] = None,
    post: Annotated[Path | None, typer.Option(help="A file made by: likewise fit-postprocessing.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random ranker.", min=0)] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw recall over k: .png, .svg or .pdf.")] = None,
    out: Annotated[Path | None, typer.Option(help="A folder for run.json, the table and the figure.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute anew what earlier runs have kept.")] = False,
    as_json: Json = False,
) -> None:
    """Recall@k, MRR@10 and nDCG@10 with 95 % intervals, of a model or of a grid of models and baselines.

    A text's rank is the number of texts that score more than 1e-6 above it: ties are in the query's favour. What is
    computed is kept in the cache, so that the same command again goes on where it stopped. A column title is put
    before a corpus's texts, as is usual with BEIR's, unless --text-column names one.
    """
    from likewise.plotting.axes import check_format, save_figure
    from likewise.search.evaluation import RetrievalSource
    from likewise.search.retrieval_grid import RetrievalGrid, compare_retrieval

    for path in (plot, None if out is None else out / "figure.png"):
        if path is not None:
            check_format(path)
    pooling_config = PoolingOptions("-1", special_tokens, heads, truncate_dim, post)
    layers = tuple(each if each == "all" else _layer(each) for each in layer)
    grid = RetrievalGrid(
        tuple(model),
        tuple(pooling or [None]),
        layers,
        tuple(ranker or ["dense"]),
        parse_numbers("--k", k),
        vectors,
        seed,
        fresh,
    )
    if compare:
        grid = replace(grid.compared, rankers=grid.rankers) if ranker else grid.compared
    source = RetrievalSource(file, queries, qrels, where, min_score, limit, how.columns(), how.data_dir, how.skip_bad)

    def load(name: str) -> Encoder:
        return EncoderSettings(name).load(run, pooling_config)

    began, task = time.time(), source.read()
    with progress_bar() as progress:
        table = compare_retrieval(task, grid, load, progress)
    _tell(file, table)
    if plot is not None:
        save_figure(table.plot(), plot)
    if out is not None:
        _write(table, {"grid": vars(grid), "reading": vars(pooling_config), "run": vars(run)}, began, out)
    if as_json:
        return show_json(table.to_dict())
    rows = [[with_interval(one) for one in row] for row in table.rows]
    show_table(table.header, rows, f"{task.name}: {len(task.corpus)} texts; with bootstrap 95 % intervals")


def _layer(text: str) -> Any:
    layer = parse_layer(text)
    return tuple(layer) if isinstance(layer, list) else layer


def _tell(file: str, table: RetrievalTable) -> None:
    first = table.results[0].metadata
    if first["skipped"] or first["left_out"]:
        summary = f"bad rows skipped: {first['skipped']}, queries without a relevant text left out: {first['left_out']}"
        notice(f"{file}: {summary}")
    if cut := max(result.metadata["truncated"] for result in table.results):
        notice(f"{file}: texts cut at the limit: {cut}")
    kept = [name for name, result in zip(table.names, table.results, strict=True) if result.kept]
    if kept:
        notice(f"kept from before ({len(kept)} of {len(table.results)}; --fresh computes anew): {'; '.join(kept)}")


def _write(table: RetrievalTable, metadata: dict[str, Any], began: float, out: Path) -> None:
    from likewise.search.report import write_retrieval

    notice(f"wrote {write_retrieval(table, run_facts(began) | metadata, out)}")
