"""``likewise duplicates`` and ``mine``: texts that are the same or nearly so, and near texts that are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from likewise.cli.output import Output, notice, progress_bar
from likewise.cli.settings import (
    TEXTS_HELP,
    CalibrationOf,
    FileSettings,
    FirstPairs,
    Json,
    ModelSettings,
    Prompt,
    TeamSettings,
    command,
)
from likewise.errors import UsageError


@command
def duplicates(
    file: Annotated[str, Argument(help=TEXTS_HELP)],
    output: Output,
    model: ModelSettings,
    team: TeamSettings,
    how: FileSettings,
    threshold: Annotated[float | None, Option(help="The lowest cosine of a pair, from -1 to 1.")] = None,
    precision: Annotated[float | None, Option(help="The threshold for this precision, by the calibration.")] = None,
    probability: Annotated[
        float | None, Option(help="The threshold for this probability of a match, by the calibration.")
    ] = None,
    percentile: Annotated[
        float | None, Option(help="The threshold above this share of unrelated pairs, by the calibration.")
    ] = None,
    calibration: CalibrationOf = None,
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
    from likewise.search.calibrated import chosen_threshold, own_calibration
    from likewise.search.duplicates import DuplicateSettings, check_keep, find_duplicates, write_without_duplicates
    from likewise.search.meanings import calibration_for
    from likewise.search.similar_pairs import PairSearch

    settings = DuplicateSettings(engine, max_pairs, explain, explain_from, strict, language, prompt)
    source = how.dataset(file, limit)
    check_keep(source, keep, write)
    PairSearch(threshold or 0.0, engine, max_pairs)
    parser = None if grammar is None else Grammar.load(grammar)
    wanted = {"precision": precision, "probability": probability, "percentile": percentile}
    with team.working(model) as working, progress_bar() as progress:
        encoder = working.load()
        if calibration is None:
            meaning = own_calibration(encoder, source, prompt)
        else:
            meaning = calibration_for(calibration, encoder, (prompt, prompt))
        least = chosen_threshold(threshold, wanted, meaning, file)
        found = find_duplicates(encoder, source, least, settings, parser, progress)
    found = found if meaning is None else found.with_meanings(meaning)
    if keep is not None and write is not None:
        notice(f"wrote {write}: {write_without_duplicates(source, found, keep, write)} of {found.n} rows")
    output.show(
        replace(found, shown=top), file=file, limit=limit, settings=vars(settings), model_hash=encoder.hash,
        grammar=None if parser is None else parser.name, **model.documented(),
    )  # fmt: skip


@command
def mine(
    file: Annotated[str, Argument(help="A file of pairs: an anchor and a text that matches it.")],
    out: Annotated[Path, Option(help="A csv file for the triplets: anchor, positive, negative.")],
    model: ModelSettings,
    how: FileSettings,
    min_score: Annotated[float | None, Option(help="In a file with scores: the lowest score of a match.")] = None,
    corpus: Annotated[str | None, Option(help="More texts to take negatives from: a file of texts or pairs.")] = None,
    per_anchor: Annotated[int, Option(help="Negatives of each pair.")] = 1,
    ranks: Annotated[str, Option(help="The ranks of candidates, known positives not counted.")] = "1-50",
    max_probability: Annotated[
        float | None, Option(help="Reject candidates with a higher calibrated probability of a match.")
    ] = None,
    calibration: CalibrationOf = None,
    margin: Annotated[
        float | None, Option(help="Reject candidates above this margin below the positive's score. Default: 0.05.")
    ] = None,
    no_filter: Annotated[bool, Option("--no-filter", help="Do not reject likely matches.")] = False,
    limit: FirstPairs = None,
    html: Annotated[Path | None, Option(help="Write a page.")] = None,
    plot: Annotated[Path | None, Option(help="Draw the main figure: .png, .svg or .pdf.")] = None,
    as_json: Json = False,
    top: Annotated[int, Option(help="Triplets that the terminal shows.", min=1)] = 5,
) -> None:
    """Mine hard negatives: texts near an anchor that do not match it, without likely matches, to train on."""
    from likewise.search.meanings import calibration_for
    from likewise.search.mining import MiningSettings, mine_negatives, positives_from

    output = Output(None, html, plot, as_json)
    settings = MiningSettings(per_anchor, *_ranks(ranks), max_probability, margin, not no_filter)
    if out.exists():
        raise UsageError(f"{out} exists and is not overwritten; give another --out or remove it")
    if out.suffix != ".csv" or not out.resolve().parent.is_dir():
        raise UsageError(f"--out is a .csv file in a folder that exists, got {out}")
    pairs = how.dataset(file, limit).pairs()
    positives = positives_from(pairs, min_score, file)
    others = [text for pair in pairs for text in (pair.left, pair.right)]
    others += [] if corpus is None else how.dataset(corpus).sentences()
    encoder = model.load()
    with progress_bar() as progress:
        meaning = None if calibration is None else calibration_for(calibration, encoder)
        found = mine_negatives(encoder, positives, others, settings, meaning, progress)
    found = replace(found, data=file, skipped=pairs.skipped, shown=top)
    found.write(out)
    notice(f"wrote {out}: {len(found.triplets)} triplets")
    output.show(found)


def _ranks(text: str) -> tuple[int, int]:
    """The first and the last rank of ``--ranks``."""
    first, dash, last = text.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()):
        raise UsageError(f"--ranks is a range such as 1-50, not {text!r}")
    return int(first), int(last)
