"""The page and the folder of a search for hyperparameters."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from likewise.locks import only_writer
from likewise.plotting.axes import check_format, save_figure
from likewise.plotting.html import inline_png, page, paragraph, section, table
from likewise.results.folder import Results, finite, write_results
from likewise.train.tuning import TuneReport, toml

FIGURES, ENDINGS = "figures", ("png", "svg")
TITLES = {
    "history": "Scores, trial by trial",
    "importances": "What matters",
    "slice": "Scores by setting",
    "parallel": "Settings side by side",
    "epochs": "Scores, epoch by epoch",
}
NOTES = {
    "history": "A dot is a complete trial, the line the best one so far.",
    "importances": "How much of the differences between trials each setting explains, as Optuna tells it. With few"
    " trials this is a guess.",
    "slice": "A dot is a complete trial; the later, the darker.",
    "parallel": "A line is a complete trial; the higher its score, the darker.",
    "epochs": "A line is a trial; short ones were to have few epochs, or were pruned.",
}


def write_tuning(report: TuneReport, metadata: Mapping[str, Any], folder: Path) -> Path:
    """Write all that a search has found: results.json, run.json, best.toml, trials.csv, figures and report.html."""
    check_format(folder / "figure.png")
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    with only_writer(folder / ".lock", folder):
        document = json.dumps(finite(report.to_dict()), indent=2, ensure_ascii=False)
        (folder / "results.json").write_text(document, encoding="utf-8", errors="replace")
        write_results(Results(metadata, {"trials": report.rows(exact=True)}), folder)
        if report.best is not None:
            (folder / "best.toml").write_text(best_toml(report), encoding="utf-8", errors="replace")
        drawn = _draw(report, folder / FIGURES)
        (folder / "report.html").write_text(_page(report, drawn, metadata), encoding="utf-8")
    return folder


def best_toml(report: TuneReport) -> str:
    """The best config, with a word on where it comes from."""
    assert report.best is not None
    rows = " + ".join(str(counts["train"]) for counts in report.examples.values())
    found = f"trial {report.best.number} of {len(report.trials)}, {report.measure} {report.best.value:.4f} on dev"
    return toml(report.best_config(), f"The best that likewise tune found on {rows} examples: {found}.")


def _page(report: TuneReport, drawn: Mapping[str, str], metadata: Mapping[str, Any]) -> str:
    parts = [
        *map(paragraph, _told(report)),
        paragraph(str(metadata.get("command", "")), note=True),
        *([section("The best trial", [_best(report)])] if report.best is not None else []),
        section("All trials", [report._repr_html_(), *(paragraph(line, note=True) for line in _failures(report))]),
        *(
            section(TITLES[name], [paragraph(NOTES[name], note=True), f"<p>{figure}</p>\n"])
            for name, figure in drawn.items()
        ),
    ]
    return page(f"Tuning: {report.config.model}", parts)


def _told(report: TuneReport) -> list[str]:
    """What was done, in words."""
    counts = "; ".join(
        f"{name}: {each['train']} to train on, {each['dev']} to judge by" for name, each in report.examples.items()
    )
    states = [trial.state for trial in report.trials]
    summary = [
        f"{len(states)} trainings of {report.config.model}: {states.count('complete')} complete,"
        f" {states.count('pruned')} pruned, {states.count('failed')} failed. Examples, the same in all: {counts}."
        f" The score is {report.measure} on dev, of the best epoch."
    ]
    if report.best is None:
        summary.append("No trial was completed, so there is no best one.")
    else:
        first = report.trials[0]
        begun = "no score" if first.value is None else f"{first.value:.4f}"
        summary.append(
            f"The first trial, of the config's own values, has {begun}; the best has {report.best.value:.4f}."
        )
    if report.moved:
        moved = ", ".join(f"{name} {own:g} became {used:g}" for name, (own, used) in report.moved.items())
        summary.append(f"Not all of the config's own values are in the ranges of the search: {moved}.")
    summary.append("What is best on few examples need not be best on all: with more of them, an epoch has more steps.")
    return summary


def _best(report: TuneReport) -> str:
    assert report.best is not None
    own = report.trials[0].parameters
    rows = [(name, f"{value:.3g}", f"{own[name]:.3g}") for name, value in report.best.parameters.items()]
    return table(("setting", "best", "first trial"), rows)


def _failures(report: TuneReport) -> list[str]:
    failed = [f"Trial {trial.number} failed: {trial.error}." for trial in report.trials if trial.error]
    again = [f"{report.interrupted} trials were interrupted and done again."] if report.interrupted else []
    return failed + again


# Figures: Optuna's own


def _draw(report: TuneReport, folder: Path) -> dict[str, str]:
    """Write every figure that there are trials enough for; each as a part of the page."""
    from matplotlib import pyplot

    drawn: dict[str, str] = {}
    for name, plot in _plots(report).items():
        for ending in ENDINGS:
            (folder / f"{name}.{ending}").unlink(missing_ok=True)
        if plot is None:
            continue
        with _own_style():
            axes = plot()
            for ending in ENDINGS:
                save_figure(axes, folder / f"{name}.{ending}")
            drawn[name] = inline_png(axes, TITLES[name])
            pyplot.close(axes.figure)
    return drawn


@contextmanager
def _own_style() -> Iterator[None]:
    """Optuna sets a style for all figures to come, and warns that its plots are experimental: not beyond this block."""
    import matplotlib

    log = logging.getLogger("optuna")
    level = log.level
    with matplotlib.rc_context({"savefig.bbox": "tight"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            log.setLevel(level)


def _plots(report: TuneReport) -> dict[str, Callable[[], Any] | None]:
    """What draws each figure; None where there are too few trials for it."""
    from optuna.visualization import matplotlib as plots

    study, score = report.study, "dev score"
    complete = sum(trial.state == "complete" for trial in report.trials)
    made: dict[str, tuple[bool, Callable[[], Any]]] = {
        "history": (complete > 0, lambda: plots.plot_optimization_history(study, target_name=score)),
        "importances": (bool(report.importances), lambda: plots.plot_param_importances(study, target_name=score)),
        "slice": (complete > 1, lambda: _slices(plots.plot_slice(study, target_name=score))),
        "parallel": (complete > 1, lambda: _parallel(plots.plot_parallel_coordinate(study, target_name=score))),
        "epochs": (
            any(each.epochs for each in report.trials), lambda: _epochs(plots.plot_intermediate_values(study))
        ),
    }  # fmt: skip
    return {name: plot if enough else None for name, (enough, plot) in made.items()}


def _slices(found: Any) -> Any:
    """One of the Axes, whose figure is that of all; numbers between powers of ten would lie over one another."""
    from matplotlib.ticker import NullFormatter

    panels = found.ravel() if hasattr(found, "ravel") else [found]
    for axes in panels:
        if axes.get_xscale() == "log":
            axes.xaxis.set_minor_formatter(NullFormatter())
    return panels[0]


def _parallel(axes: Any) -> Any:
    """Wide enough for its names."""
    axes.figure.set_size_inches(9.6, 4.8)
    return axes


def _epochs(axes: Any) -> Any:
    """With whole numbers for epochs."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="epoch", ylabel="dev score")
    return axes
