"""``likewise index``: a file of texts -> an index that can be searched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likewise.cli.screen import notice, progress_bar, show_json, show_table
from likewise.cli.settings import (
    EncoderSettings,
    FileSettings,
    IndexOptions,
    Json,
    ReadingSettings,
    RunSettings,
    refuse_given,
    with_settings,
)
from likewise.errors import UsageError

if TYPE_CHECKING:
    from likewise.retrieval import Index

FIXED = (
    "model", "pooling", "layer", "special_tokens", "heads", "truncate_dim", "post", "engine", "bits", "similarity",
    "query_prompt", "document_prompt",
)  # fmt: skip
"""Options that are settled when an index is made."""


@with_settings
def index(
    context: typer.Context,
    encoder: EncoderSettings,
    reading: ReadingSettings,
    run: RunSettings,
    files: FileSettings,
    options: IndexOptions,
    file: Annotated[
        str | None, typer.Argument(help="A csv, tsv, jsonl or txt file (.gz too), or a name such as sample/sentences.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The index's folder.")] = None,
    store: Annotated[
        str | None,
        typer.Option(help="Keep the vectors in Milvus: milvus://HOST:PORT/COLLECTION, or milvus:FILE.db for Milvus"
                     " Lite. --out, if given, then only points there."),
    ] = None,
    add: Annotated[bool, typer.Option("--add", help="Add the file's texts to the index.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Build anew; the old index stays until then.")] = False,
    delete: Annotated[list[str] | None, typer.Option(help="Take the text of this id out; repeat.")] = None,
    prefix: Annotated[str, typer.Option(help="With --add: put before each new id.")] = "",
    as_json: Json = False,
) -> None:  # fmt: skip
    """Build an index of a file of any size, add to it, delete from it, or show what it is.

    The same command again goes on where it stopped. At no moment is there half an index: readers see the old one
    until the new one is whole.
    """
    from likewise.retrieval.pointers import check_pointer, place_of

    _check(file, out, store, {"--add": add, "--replace": replace, "--delete": bool(delete), "--prefix": bool(prefix)})
    if store is not None:
        refuse_given(context, ("engine", "bits"), "--store: Milvus has its own index")
    if store is not None and out is not None:
        check_pointer(out)
    where = place_of(out, store)
    if file is not None and not add:
        found = _build(encoder.load(run, reading), files, (file, where, replace), options, out)
    else:
        refuse_given(context, FIXED, "an index that is there: it keeps the settings it was made with")
        found = _changed(where, run, files, file, delete, prefix)
    with found:
        _show(found, as_json)


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
    model: Any, files: FileSettings, target: tuple[str, str, bool], options: IndexOptions, out: Path | None
) -> Index:
    from likewise.retrieval.pointers import write_pointer
    from likewise.studies.indexing import index_file

    file, where, replace = target
    with progress_bar() as progress:
        done = index_file(model, files.texts(file), where, options.settings(), replace=replace, progress=progress)
    if done.skipped.count:
        notice(str(done.skipped))
    if done.kept:
        notice(f"{where} already holds this index; nothing to do")
    if out is not None and str(out) != where:
        write_pointer(out, where)
    return done.index


def _changed(
    where: str, run: RunSettings, files: FileSettings, file: str | None, delete: list[str] | None, prefix: str
) -> Index:
    from likewise.retrieval import Index
    from likewise.studies.indexing import add_file

    found = Index.open(where, load=run.load)
    if delete:
        found.delete(delete)
    if file is not None:
        with progress_bar() as progress:
            skipped = add_file(found, files.texts(file), prefix, progress)
        if skipped.count:
            notice(str(skipped))
    return found


def _show(index: Index, as_json: bool) -> None:
    facts = index.facts()
    if as_json:
        return show_json(facts)
    show_table(("index", facts["index"]), [(name, str(value)) for name, value in facts.items() if name != "index"])
