"""``likewise calibrate``: what scores mean in a corpus."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Context, Option

from likewise.cli.output import Output, notice, progress_bar
from likewise.cli.search import SearchSource
from likewise.cli.settings import FileSettings, IndexOptions, ModelSettings, Seed, TeamSettings, command, refuse_given


@command
def calibrate(
    context: Context,
    where: Annotated[
        str, Argument(help="An index folder, a store's address, or a file of texts, whose index is cached.")
    ],
    model: ModelSettings,
    team: TeamSettings,
    files: FileSettings,
    options: IndexOptions,
    output: Output,
    pairs: Annotated[
        str | None, Option(help="A file of pairs with labels 0 and 1, or with scores and --match-from.")
    ] = None,
    match_from: Annotated[float | None, Option(help="Pairs with at least this score are a match.")] = None,
    precision: Annotated[list[float] | None, Option(help="A wanted precision, such as 0.9; repeat.")] = None,
    recall: Annotated[list[float] | None, Option(help="A wanted recall, such as 0.9; repeat.")] = None,
    probability: Annotated[list[float] | None, Option(help="A wanted probability, such as 0.5; repeat.")] = None,
    queries: Annotated[
        str | None, Option(help="A file of queries: the left texts of unrelated pairs. Default: the corpus's own.")
    ] = None,
    sample: Annotated[int, Option(help="The most unrelated pairs.", min=1000)] = 50_000,
    seed: Seed = 0,
) -> None:
    """Measure what scores mean: above how many unrelated pairs they are, and with --pairs how likely a match is.

    The result is kept with the index, and every later search shows it next to the scores.
    """
    from likewise.data import read_queries
    from likewise.search.calibration import TARGETS, CalibrationSettings
    from likewise.search.stores.folder import address_of

    wanted = {"precision": precision, "recall": recall, "probability": probability}
    given = tuple((kind, value) for kind, values in wanted.items() for value in values or ())
    settings = CalibrationSettings(match_from, pairs=sample, seed=seed, targets=given or TARGETS)
    if pairs is None:
        refuse_given(context, ("match_from", *wanted), "a calibration without --pairs")
    labelled = None if pairs is None else files.dataset(pairs).scored_pairs()
    asked = None if queries is None else [row.text for row in files.dataset(queries).rows(read_queries)]
    with team.working(model) as working, progress_bar() as progress:
        source = SearchSource(address_of(where), working, files, options, context)
        with source.index(progress) as index:
            found = index.calibrate(labelled, settings, queries=asked, name=where, progress=progress)
    output.show(found, settings=vars(settings), **model.documented())
    notice(f"searches of {where} now show what scores mean")
