"""``likewise duplicates``: texts of a corpus that are the same or nearly the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from likewise.cli.output import Output, notice, progress_bar
from likewise.cli.settings import TEXTS_HELP, FileSettings, ModelSettings, Prompt, command
from likewise.errors import UsageError


@command
def duplicates(
    file: Annotated[str, Argument(help=TEXTS_HELP)],
    output: Output,
    model: ModelSettings,
    how: FileSettings,
    threshold: Annotated[float | None, Option(help="The lowest cosine of a pair, from -1 to 1.")] = None,
    engine: Annotated[str, Option(help="exact (all pairs), or hnsw or ivf (faiss, with measured recall).")] = "exact",
    max_pairs: Annotated[int, Option(help="More pairs are an error.")] = 100_000,
    explain: Annotated[int, Option(help="Pairs whose differing spans are computed: 0 to 1000.")] = 1000,
    explain_from: Annotated[int, Option(help="The first of these pairs, by score, from 1 on.")] = 1,
    grammar: Annotated[
        str | None, Option(help="A spaCy pipeline for the flags: an installed name or a folder.")
    ] = None,
    language: Annotated[str, Option(help="Without --grammar: en or de, for numbers and negations.")] = "en",
    strict: Annotated[bool, Option("--strict", help="Pairs with a flag make no group.")] = False,
    keep: Annotated[str | None, Option(help="With --write: the row of a group that stays, first or longest.")] = None,
    write: Annotated[Path | None, Option(help="With --keep: a file for the corpus without duplicates.")] = None,
    prompt: Prompt = None,
    limit: Annotated[int | None, Option(help="Only the first texts.", min=1)] = None,
    top: Annotated[int, Option(help="Pairs that the terminal shows.", min=1)] = 10,
) -> None:
    """Find texts that are the same or nearly the same, in groups, with what sets each pair apart."""
    from likewise.grammar import Grammar
    from likewise.search.duplicates import DuplicateSettings, check_keep, find_duplicates, write_without_duplicates
    from likewise.search.similar_pairs import PairSearch

    settings = DuplicateSettings(engine, max_pairs, explain, explain_from, strict, language, prompt)
    source = how.dataset(file, limit)
    check_keep(source, keep, write)
    if threshold is None:
        raise UsageError("no threshold; give --threshold, the lowest cosine of a pair, such as 0.9")
    PairSearch(threshold, engine, max_pairs)
    parser = None if grammar is None else Grammar.load(grammar)
    encoder = model.load()
    with progress_bar() as progress:
        found = find_duplicates(encoder, source, threshold, settings, parser, progress)
    if keep is not None and write is not None:
        notice(f"wrote {write}: {write_without_duplicates(source, found, keep, write)} of {found.n} rows")
    output.show(
        replace(found, shown=top), file=file, limit=limit, settings=vars(settings), model_hash=encoder.hash,
        grammar=None if parser is None else parser.name, **model.documented(),
    )  # fmt: skip
