"""``likewise index``: a file of texts -> an index that can be searched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likewise.cli.output import Output
from likewise.cli.screen import notice, progress_bar
from likewise.cli.settings import (
    EncoderSettings,
    FileSettings,
    IndexOptions,
    Json,
    PoolingOptions,
    RunSettings,
    given_encoder,
    refuse_given,
    with_settings,
)
from likewise.errors import UsageError

if TYPE_CHECKING:
    from likewise.data import Dataset
    from likewise.encoder import Encoder
    from likewise.search.index import IndexInfo

FIXED = ("engine", "bits", "similarity", "query_prompt", "document_prompt")
"""Options that are fixed when an index is made."""

MODEL_OPTIONS = ("model", "pooling", "layer", "special_tokens", "heads", "truncate_dim", "post")
"""Options of the model; for an existing index they must be its own."""


@with_settings
def index(
    context: typer.Context,
    encoder: EncoderSettings,
    pooling_config: PoolingOptions,
    run: RunSettings,
    files: FileSettings,
    options: IndexOptions,
    file: Annotated[
        str | None, typer.Argument(help="A csv, tsv, jsonl or txt file (.gz too), or a name such as sample/sentences.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The index's folder.")] = None,
    store: Annotated[
        str | None,
        typer.Option(help="Store the vectors in Milvus: milvus://HOST:PORT/COLLECTION, or milvus:FILE.db for Milvus"
                     " Lite. With it, --out is a folder that points there."),
    ] = None,
    add: Annotated[bool, typer.Option("--add", help="Add the file's texts to the index.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Build anew; in a folder the old index stays until then.")
    ] = False,
    delete: Annotated[list[str] | None, typer.Option(help="Delete the text of this id; repeat.")] = None,
    prefix: Annotated[str, typer.Option(help="With --add: put before each new id.")] = "",
    as_json: Json = False,
) -> None:  # fmt: skip
    """Build an index of a file of any size, add to it, delete from it, or show what it is.

    The same command again continues where it stopped. A folder never holds half an index: readers see the old one
    until the new one is whole.
    """
    from likewise.search.folder import address_of, check_pointer, is_milvus

    _check(file, out, store, {"--add": add, "--replace": replace, "--delete": bool(delete), "--prefix": bool(prefix)})
    where = address_of(out, store)
    if is_milvus(where):
        refuse_given(context, ("engine", "bits"), "Milvus, which has its own index")
    if store is not None and out is not None:
        check_pointer(out)
    if file is not None and not add:
        info = _build(encoder.load(run, pooling_config), files, (file, where, replace), options, out)
    else:
        refuse_given(context, FIXED, "an existing index: it keeps the settings it was made with")
        if file is None:
            refuse_given(context, MODEL_OPTIONS, "--delete or a look at the index, which load no model")
        else:
            _add((where, given_encoder(context, encoder, pooling_config)), run, files.dataset(file), prefix)
        info = _deleted(where, delete or [])
    Output(as_json=as_json).show(info)


def _check(file: str | None, out: Path | None, store: str | None, modes: dict[str, bool]) -> None:
    if out is None and store is None:
        raise UsageError("say where the index is: --out FOLDER, or --store milvus:FILE.db")
    if modes["--add"] and modes["--replace"]:
        raise UsageError("--add does not go with --replace; leave one of them out")
    if modes["--delete"] and file is not None:
        raise UsageError("--delete goes without a FILE; delete first, then add")
    if file is None and (modes["--add"] or modes["--replace"]):
        raise UsageError("--add and --replace need the FILE of texts")
    if modes["--prefix"] and not modes["--add"]:
        raise UsageError("--prefix goes with --add")


def _build(
    model: Encoder, files: FileSettings, target: tuple[str, str, bool], options: IndexOptions, out: Path | None
) -> IndexInfo:
    from likewise.search.index import index_file
    from likewise.search.milvus_address import write_pointer

    file, where, replace = target
    with progress_bar() as progress:
        done = index_file(model, files.dataset(file), where, options.settings(), replace=replace, progress=progress)
    if done.skipped.count:
        notice(str(done.skipped))
    if done.cached:
        notice(f"{where} already holds this index; nothing to do")
    if out is not None and str(out) != where:
        write_pointer(out, where)
    with done.index as index:
        return index.info


def _add(target: tuple[str, dict[str, Any]], run: RunSettings, source: Dataset, prefix: str) -> None:
    from likewise.search import Index
    from likewise.search.index import add_file

    where, changes = target
    with Index.open(where, load=run.load, **changes) as index, progress_bar() as progress:
        skipped = add_file(index, source, prefix, progress)
    if skipped.count:
        notice(str(skipped))


def _deleted(where: str, ids: list[str]) -> IndexInfo:
    """Delete texts without loading a model; returns what the index is then."""
    from likewise.search.index import IndexInfo, open_store

    with open_store(where) as store:
        if ids:
            store.delete(ids)
        return IndexInfo.of(store.reopened())
