"""``likewise reproduce``: runs tables and figures of the five studies, with published and measured numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from likewise.cli.output import Output, notice, progress_bar
from likewise.cli.settings import MODEL_HELP, DataDir, Json, command
from likewise.errors import UsageError

OUT = Path("out/reproduce")


@command
def reproduce(
    study: Annotated[str | None, Argument(help="A study; without one, all studies and their items are listed.")] = None,
    items: Annotated[list[str] | None, Argument(metavar="[ITEM]...", help="Its items; default: all.")] = None,
    every: Annotated[bool, Option("--all", help="Run all studies.")] = False,
    model: Annotated[
        list[str] | None,
        Option("--model", "-m", help=f"{MODEL_HELP} Repeat to compare. Default: the study's own, or minilm."),
    ] = None,
    budget: Annotated[str, Option(help="tiny, quick, standard or full: how much data and training.")] = "quick",
    seeds: Annotated[int, Option(help="How many seeds training items use.", min=1)] = 1,
    language: Annotated[str, Option(help="The language of the model, en or zh.")] = "en",
    grammar: Annotated[
        list[str] | None, Option(help="A spaCy pipeline as LANGUAGE=PIPELINE, such as de=FOLDER; repeat.")
    ] = None,
    vectors: Annotated[Path | None, Option(help="A GloVe or fastText text file for classic baselines.")] = None,
    data_dir: DataDir = None,
    threads: Annotated[int | None, Option(help="Threads; default: all cores.", min=1)] = None,
    out: Annotated[Path, Option(help="The folder of run files and index.html.")] = OUT,
    as_json: Json = False,
) -> None:
    """List the five studies and their claims, or run their tables and figures: published and measured numbers side by
    side, with a verdict for each claim.

    Every finished item is a run file in --out. The same command goes on where it stopped.
    """
    from likewise.reproduce.report import StudyList, reproduction
    from likewise.reproduce.running import Plan
    from likewise.reproduce.running import reproduce as run
    from likewise.reproduce.studies import STUDIES, study_named

    output = Output(None, None, None, as_json)
    if study is None and not every:
        return output.show(StudyList(STUDIES))
    if study is not None and every:
        raise UsageError("--all runs every study; leave the study out")
    chosen = STUDIES if study is None else (study_named(study).chosen(items or []),)
    pipelines = dict(map(_pipeline, grammar or []))
    plan = Plan(chosen, model or (), budget, seeds, language, data_dir, pipelines, vectors, threads)
    with progress_bar() as progress:
        found = list(run(plan, out, progress, notice))
    report = reproduction(chosen, found, out)
    (out / "index.html").write_text(report.to_html(), encoding="utf-8")
    notice(f"wrote {out / 'index.html'}")
    return output.show(report)


def _pipeline(text: str) -> tuple[str, str]:
    language, _, name = text.partition("=")
    if not name:
        raise UsageError(f"--grammar takes LANGUAGE=PIPELINE, such as en=en_core_web_sm, not {text!r}")
    return language, name
