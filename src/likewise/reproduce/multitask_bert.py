"""The study "Multitask BERT: sentiment, paraphrase, similarity", item by item."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from likewise.metrics import DRAWS, Interval, bootstrap, bootstrap_draws, bootstrap_means, fitted_line
from likewise.reproduce.multitask_bert_runs import (
    AGAIN,
    BEST,
    amount,
    best_folder,
    other_seed,
    random_weights,
    size_note,
    trained,
)
from likewise.reproduce.multitask_bert_table import STS_PARTS, STSB, ablations, example_losses, if_learned, table
from likewise.reproduce.published import side_by_side
from likewise.reproduce.study import Context, Finding, Item, Study
from likewise.reproduce.verdicts import Control, above, below, not_comparable
from likewise.results import Column, Figure, Table
from likewise.storage import write_text
from likewise.train.report import TrainReport
from likewise.train.results import ERRORS, KIND_NOTES, EvalResult
from likewise.train.saving import load_run, predict_file

Floats = NDArray[np.float64]
TRAIN_FILES = ("cs224n/sst-train", "cs224n/quora-train-10pct", "quora/train", "cs224n/sts-train")
DEV_FILES = ("cs224n/sst-dev", "cs224n/quora-dev", "cs224n/sts-dev")
EXTRA_FILES = ("amazon/kindle_15k", "sick/train")
FILES = (*TRAIN_FILES, *DEV_FILES)


def _best(context: Context) -> TrainReport:
    """The best row with the first seed: figures and examples are of one run."""
    return trained(context, [BEST])[BEST][0]


def _figures(report: TrainReport, chosen: Callable[[str], bool], notes: Sequence[str]) -> dict[str, Figure]:
    found = {name: figure for name, figure in report.figures().items() if chosen(name)}
    own = [Figure(each.draw, each.title, each.note or note) for each, note in zip(found.values(), notes, strict=True)]
    return dict(zip(found, own, strict=True))


# Loss curves


def loss_curves(context: Context) -> Finding:
    """The losses of the best row, and whether dev losses fall below that of a constant prediction."""
    report, random = _best(context), random_weights(context)[0]
    verdicts, rows = [], []
    for name, result in report.dev.items():
        (own, constant), (other, _) = example_losses(result), example_losses(random.dev[name])
        gain, gain_by_chance = bootstrap_means([constant - own, constant - other])
        control = Control("linear heads over random weights", gain_by_chance, gain_by_chance.low > 0)
        claim = f"The loss of {name} on dev falls below that of the best constant prediction."
        words = f"constant loss minus dev loss, {name}, {amount(context)}"
        verdicts.append(above(claim, words, gain, control=control))
        last = report.epochs[-1]["train"][name]
        rows.append((name, report.curve[0][name], last, float(own.mean()), float(constant.mean())))
    header = ["task", "train_first", "train_last", "dev", "constant_on_dev"]
    losses = Table.of([Column(name, format=".3f") for name in header], rows, "Losses of the best row")
    figures = _figures(report, lambda name: name == "loss", [""])
    return Finding({"losses": losses}, figures, tuple(verdicts), (size_note(context),))


# Confusion matrices


def confusion_matrices(context: Context) -> Finding:
    """Which classes the best row confuses; false positives and false negatives among paraphrases."""
    report = _best(context)
    result = report.dev["paraphrase"]
    wrong = {name: result.metrics[name.replace("-", "_").replace(" ", "_")] for name in RATES}
    printed = context.published.of("confusion-matrices").values()
    rates = side_by_side(printed, {(BEST, name): value for name, value in wrong.items()}, context.short, "Paraphrases")
    # Guesses that say "paraphrase" as often have this difference without reading the pairs.
    [share] = bootstrap_means([result.predicted])
    chance = Interval(*(2 * end - 1 for end in (share.value, share.low, share.high)))
    verdict = above(
        "False positives are more frequent than false negatives among paraphrases.",
        f"false-positive rate minus false-negative rate, {amount(context)}", rate_difference(result),
        control=Control("random guesses with the same share of paraphrases", chance, chance.low > 0),
    )  # fmt: skip
    notes = [KIND_NOTES["sentiment"], KIND_NOTES["paraphrase"]]
    figures = _figures(report, lambda name: name.startswith("confusion"), notes)
    words = [f"{name}: {report.dev[name].summary}" for name in ("sentiment", "paraphrase")]
    verdicts = (if_learned(verdict, [report], ["paraphrase"]),)
    return Finding({"rates": rates}, figures, verdicts, (*words, size_note(context)))


RATES = ("false-positive rate", "false-negative rate")


def rate_difference(result: EvalResult) -> Interval:
    """The false-positive rate minus the false-negative rate, over resampled pairs of each kind."""
    sides = [result.predicted[result.truth == kind] for kind in (0, 1)]
    called = [bootstrap_draws("accuracy", side, np.ones(len(side))) for side in sides]  # shares called paraphrases
    low, high = np.percentile(called[0] - (1 - called[1]), [2.5, 97.5])
    return Interval(float(sides[0].mean() - (1 - sides[1].mean())), float(low), float(high))


# Scatter


def scatter(context: Context) -> Finding:
    """Predicted over true similarities, and the line through them against the identity."""
    report = _best(context)
    result = report.dev["similarity"]
    heights = line_heights(result.predicted, result.truth)
    line = fitted_line(result.predicted, result.truth) or (0.0, float(result.truth.mean()))
    mapped = line_heights(line[0] * result.predicted + line[1], result.truth)
    header: list[str | Column] = ["prediction", *(Column(name, format="+.2f") for name in heights)]
    rows = [("as predicted", *heights.values()), ("mapped by the best line", *mapped.values())]
    note = "A prediction that is right on average still has such a line: above at low scores and below at high ones."
    found = Table.of(header, rows, "Height of the fitted line above the identity", note)
    verdict = below(
        "The line through the STS predictions lies below the identity.",
        f"the line's largest height above the identity, from 0 to 5, {amount(context)}", heights["largest"],
        control=Control("the same predictions without their bias", mapped["largest"], mapped["largest"].high < 0),
    )  # fmt: skip
    figures = _figures(report, lambda name: name.startswith("scatter"), [KIND_NOTES["similarity"]])
    verdicts = (if_learned(verdict, [report], ["similarity"]),)
    return Finding({"line": found}, figures, verdicts, (result.summary, size_note(context)))


ENDS = (0.0, 5.0)


def line_heights(predicted: Floats, truth: Floats) -> dict[str, Interval]:
    """Where the line of predictions over true scores lies above the identity: at 0, on average, at 5, at most."""
    chosen = np.random.default_rng(0).integers(0, len(truth), (DRAWS, len(truth)))
    drawn = np.array([_heights(predicted[rows], truth[rows]) for rows in chosen])
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    names = ("at 0", "on average", "at 5", "largest")
    ends = zip(_heights(predicted, truth), low, high, strict=True)
    return {name: Interval(*map(float, own)) for name, own in zip(names, ends, strict=True)}


def _heights(predicted: Floats, truth: Floats) -> list[float]:
    slope, shift = fitted_line(truth, predicted) or (0.0, float(predicted.mean()))
    bottom, top = (slope * end + shift - end for end in ENDS)
    return [bottom, float((predicted - truth).mean()), top, max(bottom, top)]


# Examples


def examples(context: Context) -> Finding:
    """The best and the worst predictions by their ids, and whether errors belong to examples or to runs."""
    report, again = _best(context), other_seed(context)[AGAIN][0]
    verdicts, tables = [], {}
    for name, result in report.dev.items():
        tables[name] = _extremes(result)
        stable = bootstrap("spearman", result.errors, again.dev[name].errors)
        constant = bootstrap("spearman", result.errors, example_losses(result)[1])
        control = Control("errors of a constant prediction", constant, constant.low > 0 and constant.high >= stable.low)
        claim = f"The analysed errors of {name} belong to the examples, not to the run."
        words = f"Spearman of the errors of two seeds, {name}, {amount(context)}"
        verdicts.append(if_learned(above(claim, words, stable, control=control, seeds=2), [report], [name]))
    why = "the study's own examples are not in the sources at hand, and rows of public data are shown by id alone"
    verdicts.append(not_comparable("The study's analysed examples are predicted as in the study.", why))
    return Finding(tables, {}, tuple(verdicts), (size_note(context),))


def _extremes(result: EvalResult) -> Table:
    rows = [
        (what, result.examples[index].file, result.examples[index].id, *map(float, numbers[index]))
        for numbers in [np.stack([result.truth, result.predicted, result.errors], 1)]
        for what, indices in zip(("best", "worst"), result.extremes(), strict=True)
        for index in indices
    ]
    header: list[str | Column] = [
        " ",
        "file",
        "id",
        *(Column(name, format=".3g") for name in ("true", "predicted", "error")),
    ]
    return Table.of(header, rows, f"Best and worst predictions of {result.task}, by {ERRORS[result.kind]}")


# Test sets

TESTS = {
    "sentiment": ("cs224n/sst-test-student", "sst-test-output.csv", "Predicted_Sentiment"),
    "similarity": ("cs224n/sts-test-student", "sts-test-output.csv", "Predicted_Similiary"),
}
"""The file without labels of each task, and the course's name and heading (spelled like this) of its predictions."""


def unlabelled_tests(context: Context) -> Finding:
    """Predictions for the test sets in the format that the course takes."""
    folder, limit = best_folder(context), context.size(tiny=20, quick=200, standard=None)
    run, rows = load_run(folder, threads=context.threads), []
    target = context.work / f"{context.budget}-predictions"
    target.mkdir(parents=True, exist_ok=True)
    for task, (file, name, heading) in TESTS.items():
        found = predict_file(run, context.dataset(file, limit), task, context.progress)
        predicted = found.prediction.predicted
        texts = [f"{one:.0f}" if task == "sentiment" else repr(float(one)) for one in predicted]
        lines = [f"id \t {heading} ", *(f"{row} , {text} " for row, text in zip(found.ids, texts, strict=True))]
        write_text(target / name, "\n".join(lines) + "\n")
        rows.append((task, file, name, len(predicted), float(predicted.mean()), float(predicted.std())))
    numbers = [Column(name, format=".3f") for name in ("mean", "deviation")]
    header: list[str | Column] = ["task", "test_set", "file", "rows", *numbers]
    written = Table.of(header, rows, "Predictions for test sets without labels, in the course's format")
    printed = side_by_side(context.published.of("test-predictions").values(), {}, context.short, "Test leaderboard")
    why = "the test sets have no labels here, and the leaderboard is closed"
    verdict = not_comparable("The best row has a score of 0.727 on the test leaderboard.", why)
    notes = (
        f"The files are in the folder {target.name} of this study's intermediate results"
        + ("." if limit is None else f", at this budget for the first {limit} rows of each test set."),
        "The paraphrase test set (quora-test-student) is not among the data at hand.",
    )  # fmt: skip
    return Finding({"written": written, "leaderboard": printed}, {}, (verdict,), (*notes, size_note(context)))


LIGHT = {"tiny": 0.002, "quick": 0.002, "standard": 0.003, "full": 0.01}
"""The cost of items that read what the table has trained."""
STUDY = Study(
    "multitask-bert",
    "Multitask BERT: sentiment, paraphrase, similarity",
    (
        Item(
            "table", "One head for paraphrase and similarity raises similarity most.", table,
            (*FILES, *EXTRA_FILES, *STSB, *STS_PARTS[2:]), original="the 18 rows on dev",
            cost={"tiny": 0.2, "quick": 2.4, "standard": 20.0, "full": 1600.0},
        ),
        Item(
            "ablations", "Jaccard similarity, training all layers, even sampling and SMART each raise the score.",
            ablations, FILES, original="ablations",
            cost={"tiny": 0.04, "quick": 0.4, "standard": 4.0, "full": 320.0},
        ),
        Item(
            "loss-curves", "All three tasks are learned together.", loss_curves, FILES, original="loss curves",
            cost=LIGHT,
        ),
        Item(
            "confusion-matrices", "The best row finds too many paraphrases.", confusion_matrices, FILES,
            original="confusion matrices", cost=LIGHT,
        ),
        Item(
            "scatter", "The line through the similarity predictions lies below the identity.", scatter, FILES,
            original="scatter of STS predictions", cost=LIGHT,
        ),
        Item(
            "examples", "Single errors show what the model lacks.", examples, FILES, original="analysed examples",
            cost=LIGHT,
        ),
        Item(
            "test-predictions", "The best row has .510, .809 and .860 on the test leaderboard.", unlabelled_tests,
            (*FILES, *(file for file, _, _ in TESTS.values())), original="test leaderboard",
            cost={"tiny": 0.002, "quick": 0.01, "standard": 0.2, "full": 0.2},
        ),
    ),
)  # fmt: skip
