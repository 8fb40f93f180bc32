"""The table of the study "Multitask BERT", its ablations, and the effects in both.

An effect is the difference between rows that differ in one part alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from likewise.data import ScoredPair
from likewise.evaluation.sts import evaluate_sts
from likewise.metrics import DRAWS, Interval, accuracy, bootstrap_draws, bootstrap_means
from likewise.reproduce.multitask_bert_runs import (
    AGAIN,
    BEST,
    FROZEN,
    FROZEN_BEST,
    IN_PROPORTION,
    LINEAR,
    NO_JACCARD,
    SMART,
    TWICE,
    UPPER,
    Reports,
    all_rows,
    amount,
    other_seed,
    random_weights,
    size_note,
    trained,
)
from likewise.reproduce.published import PublishedValue, side_by_side
from likewise.reproduce.study import Context, Finding
from likewise.reproduce.verdicts import UNCLEAR, Control, Verdict, above, below, not_comparable
from likewise.results import Column, Table
from likewise.train.examples import Source, read_examples
from likewise.train.heads import CLASSES
from likewise.train.report import TrainReport
from likewise.train.results import EvalResult
from likewise.train.tasks import find_overlaps

Floats = NDArray[np.float64]
POOLINGS, PARTS = ("mean", "cls"), ("SW", "WL", "ED")
Pairs = Sequence[tuple[str, str]]  # names of rows that are compared
COLUMNS = {"SST": "sentiment", "paraphrase": "paraphrase", "STS": "similarity"}  # column of the table -> task
SCORE = "score"  # the column of their mean
STSB = ("stsb/train", "stsb/dev", "stsb/test")
STS_PARTS = ("cs224n/sts-train", "cs224n/sts-dev", "cs224n/sts-test-student")


def row_name(pooling: str, parts: Sequence[str]) -> str:
    """The name of a row.

    >>> row_name("mean", ["WL", "SW"]), row_name("cls", [])
    ('mean, SW+WL', 'cls')
    """
    return ", ".join(filter(None, (pooling, "+".join(part for part in PARTS if part in parts))))


def part_pairs(part: str) -> list[tuple[str, str]]:
    """The eight pairs of rows with and without a part."""
    others = [one for one in PARTS if one != part]
    sets = [chosen for count in range(len(others) + 1) for chosen in combinations(others, count)]
    return [(row_name(pooling, (*own, part)), row_name(pooling, own)) for pooling in POOLINGS for own in sets]


def pooling_pairs() -> list[tuple[str, str]]:
    """The eight pairs of rows with mean and with CLS pooling."""
    sets = [chosen for count in range(len(PARTS) + 1) for chosen in combinations(PARTS, count)]
    return [(row_name("mean", own), row_name("cls", own)) for own in sets]


def value_of(report: TrainReport, column: str) -> float:
    """A measure of a run on dev, by its column in the table."""
    return (report.score or 0.0) if column == SCORE else report.dev[COLUMNS[column]].score


@lru_cache(maxsize=128)
def draws_of(report: TrainReport, column: str) -> Floats:
    """The measure on resampled dev examples, (draws,): the same examples for every run."""
    if column == SCORE:
        return np.asarray(np.mean([draws_of(report, one) for one in COLUMNS], axis=0))
    result = report.dev[COLUMNS[column]]
    # A constant prediction has no correlation, which counts as 0.
    return np.nan_to_num(bootstrap_draws(result.metric, result.predicted, result.truth))


def difference(reports: Reports, pairs: Pairs, column: str) -> Interval:
    """The mean difference of pairs of rows; its interval is over dev examples and over pairs of rows and seeds."""
    runs = [both for more, less in pairs for both in zip(reports[more], reports[less], strict=True)]
    value = float(np.mean([value_of(more, column) - value_of(less, column) for more, less in runs]))
    drawn = np.stack([draws_of(more, column) - draws_of(less, column) for more, less in runs])  # (runs, draws)
    chosen = np.random.default_rng(1).integers(0, len(runs), (len(runs), DRAWS))
    low, high = np.percentile(np.take_along_axis(drawn, chosen, 0).mean(0), [2.5, 97.5])
    return Interval(value, float(low), float(high))


def published_difference(printed: Mapping[tuple[str, str], PublishedValue], pairs: Pairs, column: str) -> float:
    """The mean difference of pairs of rows in the study's table."""
    return float(np.mean([printed[more, column].value - printed[less, column].value for more, less in pairs]))


def seed_control(reports: Reports, column: str, effect: Interval) -> Control:
    """The best row with another seed, less the best row: it shows an effect if it may be as large, to either side."""
    found = difference(reports, [(AGAIN, BEST)], column)
    differs = found.low > 0 or found.high < 0
    as_large = max(map(abs, (found.low, found.high))) >= min(map(abs, (effect.low, effect.high)))
    return Control(AGAIN, found, differs and as_large)


def row_control(reports: Reports, name: str, pair: tuple[str, str], column: str, effect: Interval) -> Control:
    """The same difference between two other rows: it shows an effect if it is above 0 and may be as large."""
    found = difference(reports, [pair], column)
    return Control(name, found, found.low > 0 and found.high >= effect.low)


def example_losses(result: EvalResult) -> tuple[Floats, Floats]:
    """The loss of each example (n,), and that of the constant prediction that fits these examples best (n,)."""
    truth = result.truth
    if result.kind == "similarity":
        return (result.scores - truth) ** 2, (truth.mean() - truth) ** 2
    classes = truth.astype(int)
    scores = result.scores if result.scores.ndim > 1 else np.stack([1 - result.scores, result.scores], 1)
    shares = np.bincount(classes, minlength=CLASSES) / len(classes)
    own = scores[np.arange(len(classes)), classes]
    return -np.log(np.maximum(own, np.finfo(float).tiny)), -np.log(shares[classes])


def if_learned(verdict: Verdict, runs: Sequence[TrainReport], tasks: Iterable[str]) -> Verdict:
    """The verdict, or too small to tell if the runs have not learned these tasks: no better than a constant."""
    lacking = [task for task in tasks if _gain([run.dev[task] for run in runs]).low <= 0]
    if not lacking:
        return verdict
    words = f"{verdict.effect}; {' and '.join(lacking)} not yet better than by a constant prediction"
    return replace(verdict, verdict=UNCLEAR, effect=words)


def _gain(results: Sequence[EvalResult]) -> Interval:
    """How far the mean loss of runs is below that of the best constant prediction."""
    gains = [constant - own for own, constant in map(example_losses, results)]
    return bootstrap_means([np.mean(gains, axis=0)])[0]


# The table


def table(context: Context) -> Finding:
    """The 18 rows, the effect of each part, and the baselines that the study lacks."""
    names = [name for name, rows in all_rows(context).items() if rows[0].published]
    reports = trained(context, [*names, TWICE, FROZEN_BEST]) | other_seed(context)
    measured = {(name, column): _mean(reports[name], column) for name in names for column in (*COLUMNS, SCORE)}
    printed = context.published.of("table").values()
    rows = side_by_side(printed, measured, context.short, "SST and paraphrase accuracy, STS Pearson, their mean")
    verdicts = [*_sharing_verdicts(context, reports), *_score_verdicts(context, reports)]
    verdicts += _linear_verdicts(context, reports)
    tables = {
        "rows": rows,
        "effects": _effects(context, verdicts),
        "baselines": _baselines(context, reports),
        "leaks": _leaks(context, reports),
    }
    return Finding(tables, {}, (*verdicts, _value_verdict(context)), (size_note(context),))


def _mean(reports: Sequence[TrainReport], column: str) -> float:
    return float(np.mean([value_of(report, column) for report in reports]))


def _sharing_verdicts(context: Context, reports: Reports) -> list[Verdict]:
    similarity, paraphrase = (difference(reports, part_pairs("SW"), column) for column in ("STS", "paraphrase"))
    # A shared head sees the examples of two tasks: the control sees as many of one.
    twice = row_control(reports, "separate heads, twice the similarity pairs", (TWICE, "mean"), "STS", similarity)
    again = seed_control(reports, "paraphrase", paraphrase)
    verdicts = [
        above(
            "One head for paraphrase and similarity (SW) raises the Pearson correlation of STS.",
            f"STS Pearson with SW minus without, {amount(context)}", similarity, control=twice, seeds=context.seeds,
        ),
        below(
            "One head for paraphrase and similarity (SW) costs accuracy in paraphrases.",
            f"paraphrase accuracy with SW minus without, {amount(context)}", paraphrase, control=again,
            seeds=context.seeds,
        ),
    ]  # fmt: skip
    runs = [run for more, _ in part_pairs("SW") for run in reports[more]]
    return [if_learned(one, runs, [task]) for one, task in zip(verdicts, ("similarity", "paraphrase"), strict=True)]


def _score_verdict(context: Context, reports: Reports, claim: str, words: str, pairs: Pairs) -> Verdict:
    """The verdict on a claim that one row of each pair has a higher score than the other."""
    effect = difference(reports, pairs, SCORE)
    control = seed_control(reports, SCORE, effect)
    verdict = above(claim, f"{words}, {amount(context)}", effect, control=control, seeds=context.seeds)
    return if_learned(verdict, [run for more, _ in pairs for run in reports[more]], COLUMNS.values())


def _score_verdicts(context: Context, reports: Reports) -> list[Verdict]:
    claims = (
        ("Extra data (ED) raise the score.", "score with ED minus without", part_pairs("ED")),
        ("Weighted losses (WL) raise the score.", "score with WL minus without", part_pairs("WL")),
        ("Mean pooling has a higher score than CLS.", "score by mean pooling minus by CLS", pooling_pairs()),
    )
    return [_score_verdict(context, reports, *each) for each in claims]


def _linear_verdicts(context: Context, reports: Reports) -> list[Verdict]:
    """What fine-tuning gains over linear heads of a frozen encoder."""
    best, tuned = (difference(reports, [(more, FROZEN)], SCORE) for more in (BEST, LINEAR))
    heads = "the best row's heads over the frozen encoder"
    frozen = above(
        "Linear heads over the frozen encoder have a lower score than the best fine-tuned row.",
        f"score of the best row minus linear heads, frozen, {amount(context)}", best,
        control=row_control(reports, heads, (FROZEN_BEST, FROZEN), SCORE, best), seeds=context.seeds,
    )  # fmt: skip
    # Without a check of what was learned: a line through the difference of two vectors cannot learn paraphrases.
    linear = above(
        "Fine-tuning raises the score of linear heads.",
        f"score of linear heads, fine-tuned minus frozen, {amount(context)}", tuned,
        control=seed_control(reports, SCORE, tuned), seeds=context.seeds,
    )  # fmt: skip
    return [if_learned(frozen, reports[BEST], COLUMNS.values()), linear]


def _value_verdict(context: Context) -> Verdict:
    if context.is_original and context.budget == "full":
        why = "the course's full Quora file, 18,000 reviews and 4,439 SICK pairs of the study are not at hand"
    else:
        why = "another model, or less training than in the study"
    return not_comparable("The best row (mean pooling, SW+WL) reaches a score of 0.725 on dev.", why)


EFFECTS = (
    ("SW", "STS", part_pairs("SW")),
    ("SW", "paraphrase", part_pairs("SW")),
    ("ED", SCORE, part_pairs("ED")),
    ("WL", SCORE, part_pairs("WL")),
    ("mean - CLS", SCORE, pooling_pairs()),
    (f"{BEST} - {FROZEN}", SCORE, [(BEST, FROZEN)]),
    (f"{LINEAR} - {FROZEN}", SCORE, [(LINEAR, FROZEN)]),
)
"""The effects of the verdicts, in their order: a name, the measure, and the pairs of rows."""


def _effects(context: Context, verdicts: Sequence[Verdict]) -> Table:
    """The mean difference that each part makes, in the study's table and in ours."""
    printed = context.published.of("table")
    rows = [
        (part, column, published_difference(printed, pairs, column), verdict.interval)
        for (part, column, pairs), verdict in zip(EFFECTS, verdicts, strict=True)
    ]
    header: list[str | Column] = [
        "part",
        "measure",
        Column("published", format="+.3f"),
        Column("measured", context.short, "+.3f"),
    ]
    note = (
        "Published: the mean of the differences between the study's rows. The intervals are over dev examples, and over"
        " pairs of rows and seeds."
    )
    return Table.of(header, rows, "What each part changes, over rows that differ in nothing else", note)


def _baselines(context: Context, reports: Reports) -> Table:
    """What needs no training: the most frequent class, a constant, random weights, and the model's own cosine."""
    dev = reports[BEST][0].dev
    constant = [_majority(dev[task]) for task in ("sentiment", "paraphrase")]
    rows: list[Sequence[object]] = [("most frequent class, constant similarity", *constant, 0.0, sum(constant) / 3)]
    random = random_weights(context)
    rows.append(("random weights, linear heads, frozen", *(_mean(random, column) for column in (*COLUMNS, SCORE))))
    for pooling in ("mean", "cls"):
        cosine = own_cosine(context, dev["similarity"], pooling)
        rows.append((f"cosine before training, {pooling}", None, None, cosine.value, None))
    header = [Column(name, format=".3f") for name in (" ", *COLUMNS, SCORE)]
    return Table.of(header, rows, "Baselines on the same dev examples")


def own_cosine(context: Context, result: EvalResult, pooling: str) -> Interval:
    """Pearson of the cosines before any training."""
    pairs = [ScoredPair(each.texts[0], each.texts[1], each.target, id=each.id) for each in result.examples]
    return evaluate_sts(context.encoder.with_pooling(pooling=pooling), pairs).agreement["pearson"]


def _majority(result: EvalResult) -> float:
    classes, counts = np.unique(result.truth, return_counts=True)
    return accuracy(result.truth, np.full(len(result.truth), classes[counts.argmax()]))


def _leaks(context: Context, reports: Reports) -> Table:
    """Rows that files share: in training (dropped there), and between the course's STS files and STSb."""
    used = [one for name in (BEST, "mean, ED") for one in reports[name][0].overlaps]
    ours = {file: read_examples(Source(file), "pairs", context.data_dir) for file in STS_PARTS}
    original = {file: read_examples(Source(file), "pairs", context.data_dir) for file in STSB}
    found = [(one, str(one.dropped)) for one in dict.fromkeys(used)]
    found += [(one, "not used here") for one in find_overlaps(original, ours)]
    rows = [(one.train, one.held_out, one.rows, one.of, dropped) for one, dropped in found]
    note = (
        "The course's STS files are STSb in another order: a model that was trained on STSb has seen the dev and test"
        " pairs, and the scores of the test pairs are public."
    )
    return Table.of(["file", "other file", "rows_in_both", "of", "left_out_of_training"], rows, "Leak check", note)


# Ablations

ABLATIONS = (
    (BEST, NO_JACCARD, "The Jaccard similarity of the token sets raises the score."),
    (BEST, UPPER, "Training the last layers only lowers the score."),
    (BEST, IN_PROPORTION, "Sampling as many examples of each task, not in proportion to the files, raises the score."),
    (SMART, BEST, "SMART raises the score."),
)
"""The row with the higher score by the claim, the other one, and the claim."""


def ablations(context: Context) -> Finding:
    """The best row with one thing changed."""
    names = list(dict.fromkeys(name for more, less, _ in ABLATIONS for name in (more, less)))
    reports, verdicts, rows = trained(context, names) | other_seed(context), [], []
    for name in names:
        apart = None if name == BEST else difference(reports, [(name, BEST)], SCORE)
        rows.append((name, *(_mean(reports[name], column) for column in (*COLUMNS, SCORE)), apart))
    for more, less, claim in ABLATIONS:
        verdicts.append(_score_verdict(context, reports, claim, f"score of {more} minus {less}", [(more, less)]))
    header = [Column(name, format=".3f") for name in ("row", *COLUMNS, SCORE)]
    header.append(Column("difference", "score less that of the best row", "+.3f"))
    found = Table.of(header, rows, f"The best row ({BEST}) with one thing changed")
    notes = ("No value of the study's ablations is at hand, only what they change.", size_note(context))
    return Finding({"ablations": found}, {}, tuple(verdicts), notes)
