"""The study of multitask BERT: its items on real data, and its effects, losses and lines against plain loops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from likewise.errors import UsageError
from likewise.metrics import Interval, bootstrap_draws
from likewise.reproduce.multitask_bert import FILES, STUDY, line_heights, rate_difference
from likewise.reproduce.multitask_bert_runs import (
    ADDED_ROWS,
    BEST,
    IN_PROPORTION,
    SIZES,
    all_rows,
    best_folder,
    trained,
)
from likewise.reproduce.multitask_bert_table import (
    COLUMNS,
    SCORE,
    difference,
    example_losses,
    if_learned,
    part_pairs,
    pooling_pairs,
    published_difference,
    row_control,
    value_of,
)
from likewise.reproduce.study import BUDGETS, Context
from likewise.reproduce.verdicts import HOLDS, UNCLEAR, above
from likewise.train.report import TrainReport
from likewise.train.runs import config_text, parse_plan
from training_reports import made_outcome, made_report

NAMES = ["table", "ablations", "loss-curves", "confusion-matrices", "scatter", "examples", "test-predictions"]
FIGURES = {
    "loss-curves": {"loss"},
    "confusion-matrices": {"confusion-dev-sentiment", "confusion-dev-paraphrase"},
    "scatter": {"scatter-dev-similarity"},
}


def context_in(folder: Path, data: Path | None = None, **changes: object) -> Context:
    context = Context("multitask-bert", "minilm", folder, "tiny", data_dir=data, threads=1)
    return replace(context, **changes)  # type: ignore[arg-type]


def with_noise(report: TrainReport, seed: int) -> TrainReport:
    """The same examples with other predictions."""
    rng = np.random.default_rng(seed)
    dev = {
        name: replace(one, scores=one.scores + rng.normal(0, 0.5, one.scores.shape)) for name, one in report.dev.items()
    }
    return replace(report, dev=dev)


def test_the_items_are_those_of_the_study() -> None:
    assert [item.name for item in STUDY.items] == NAMES
    assert all(item.claim and item.original and set(FILES) <= set(item.data) for item in STUDY.items)


def test_published_rows_are_those_of_the_preset() -> None:
    printed = STUDY.published.of("table")
    rows = parse_plan(config_text("multitask-grid")).rows
    assert len(rows) == 18 and len(printed) == 18 * 4
    for row in rows:
        assert tuple(printed[row.name, column].value for column in (*COLUMNS, SCORE)) == row.published
    assert {value.item for value in STUDY.published.values} <= set(NAMES)


def test_effects_compare_all_sixteen_rows_once() -> None:
    names = {row.name for row in parse_plan(config_text("multitask-grid")).rows[:16]}
    for pairs in (part_pairs("SW"), part_pairs("WL"), part_pairs("ED"), pooling_pairs()):
        assert len(pairs) == 8
        assert {name for pair in pairs for name in pair} == names
    assert ("cls, SW+WL", "cls, WL") in part_pairs("SW")
    # In the study's own table: from .58 to .85 by mean pooling.
    assert published_difference(STUDY.published.of("table"), part_pairs("SW"), "STS") == pytest.approx(0.227, abs=5e-4)


def test_rows_of_controls_change_one_thing(tmp_path: Path) -> None:
    rows = all_rows(context_in(tmp_path, seeds=2))
    assert len(rows) == 18 + ADDED_ROWS.count("[[row]]")
    assert {row.config.seed for own in rows.values() for row in own} == {1, 2}
    best, even = rows[BEST][0].config, rows[IN_PROPORTION][0].config
    assert sum(even.batch_of(task) for task in even.tasks) == 3 * best.batch
    assert even.tasks != best.tasks == tuple(replace(task, batch=None) for task in even.tasks)
    for name, own in rows.items():
        assert own[0].config.epochs == SIZES["tiny"].epochs and own[0].config.samples == SIZES["tiny"].samples, name


def test_sizes_grow_with_the_budget() -> None:
    assert tuple(SIZES) == BUDGETS
    amounts = [size.samples * size.epochs for size in SIZES.values()]
    assert amounts == sorted(amounts)
    assert amounts[-1] == 25 * 4096 and SIZES["full"].dev is None


def test_another_language_has_no_such_data(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="English"):
        STUDY.item("table").run(context_in(tmp_path, language="zh"))


@pytest.mark.parametrize("column", [*COLUMNS, SCORE])
def test_differences_are_a_plain_loop_s(column: str) -> None:
    base = made_report(n=40)
    runs = [(with_noise(base, seed), with_noise(base, seed + 10)) for seed in range(3)]
    columns = COLUMNS if column == SCORE else {column: COLUMNS[column]}
    known = [[[resampled(one, task) for task in columns.values()] for one in both] for both in runs]
    drawn = []
    chosen = np.random.default_rng(1).integers(0, 3, (3, 1000))
    for draw in range(1000):
        values = []
        for run in chosen[:, draw]:
            more, less = ([task[draw] for task in side] for side in known[run])
            values.append(sum(more) / len(more) - sum(less) / len(less))
        drawn.append(sum(values) / len(values))
    reports = {"more": [more for more, _ in runs], "less": [less for _, less in runs]}
    found = difference(reports, [("more", "less")], column)
    expected = np.mean([value_of(more, column) - value_of(less, column) for more, less in runs])
    ends = [expected, *np.percentile(drawn, [2.5, 97.5])]
    assert [found.value, found.low, found.high] == pytest.approx(ends, abs=1e-12)


def resampled(report: TrainReport, task: str) -> np.ndarray:
    result = report.dev[task]
    return bootstrap_draws(result.metric, result.predicted, result.truth)


def test_a_control_shows_an_effect_of_its_size_only() -> None:
    base = made_report(n=60)
    worse = with_noise(base, 1)
    reports = {"best": [base], "worse": [worse]}
    small, large = Interval(0.01, 0.005, 0.02), Interval(2.0, 1.9, 2.1)
    assert row_control(reports, "heads", ("best", "worse"), SCORE, small).shows_it
    assert not row_control(reports, "heads", ("best", "worse"), SCORE, large).shows_it
    assert not row_control(reports, "heads", ("worse", "best"), SCORE, small).shows_it


@pytest.mark.parametrize("kind", ["sentiment", "paraphrase", "similarity"])
def test_losses_of_examples_are_a_plain_loop_s(kind: str) -> None:
    result = made_outcome(kind)
    own, constant = example_losses(result)
    truth = result.truth
    for index, target in enumerate(truth):
        score = result.scores[index]
        if kind == "similarity":
            expected = (score - target) ** 2, (truth.mean() - target) ** 2
        else:
            chance = score[int(target)] if kind == "sentiment" else score if target else 1 - score
            expected = -np.log(chance), -np.log((truth == target).mean())
        assert (own[index], constant[index]) == pytest.approx(expected)


def test_a_run_that_has_learned_nothing_decides_nothing() -> None:
    holds = above("more", "effect", Interval(0.2, 0.1, 0.3))
    report = made_report()
    assert if_learned(holds, [report], COLUMNS.values()).verdict == HOLDS
    flat = replace(report.dev["sentiment"], scores=np.full((60, 5), 0.2))
    unclear = if_learned(holds, [replace(report, dev=report.dev | {"sentiment": flat})], COLUMNS.values())
    assert unclear.verdict == UNCLEAR and "sentiment not yet better" in unclear.effect
    assert if_learned(holds, [replace(report, dev=report.dev | {"sentiment": flat})], ["similarity"]) == holds


def test_rates_of_false_positives_and_negatives() -> None:
    result = made_outcome("paraphrase")
    found = rate_difference(result)
    rates = result.metrics
    assert found.value == pytest.approx(rates["false_positive_rate"] - rates["false_negative_rate"])
    assert found.low < found.value < found.high
    always = rate_difference(replace(result, scores=np.ones(60)))
    assert (always.value, always.low, always.high) == (1.0, 1.0, 1.0)


def test_heights_of_lines_above_the_identity() -> None:
    truth = np.linspace(0, 5, 30)
    same, lower, flat = (line_heights(each, truth) for each in (truth, truth - 0.5, np.full(30, 2.0)))
    assert [one.value for one in same.values()] == pytest.approx([0, 0, 0, 0], abs=1e-12)
    assert lower["largest"].value == pytest.approx(-0.5) and lower["largest"].high < 0
    assert [one.value for one in flat.values()] == pytest.approx([2.0, -0.5, -3.0, 2.0])


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Context:
    """One folder of runs for all items."""
    return context_in(tmp_path_factory.mktemp("multitask"), shared_data)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_item_ends_in_verdicts(context: Context, name: str) -> None:
    finding = STUDY.item(name).run(context)
    assert finding.verdicts and finding.notes and finding.tables
    assert set(finding.figures) == FIGURES.get(name, set())
    for figure in finding.figures.values():
        assert figure.draw().figure is not None
    # Public rows are shown by their ids alone.
    cells = [cell for table in finding.tables.values() for row in table.texts() for cell in row]
    texts = {
        text
        for report in trained(context, [BEST])[BEST]
        for one in report.dev.values()
        for each in one.examples
        for text in each.texts
    }
    assert texts and not texts & set(cells)


@pytest.mark.slow
def test_rows_are_trained_once(context: Context) -> None:
    [first] = trained(context, [BEST])[BEST]
    files = {path: path.stat().st_mtime_ns for path in context.work.rglob("*") if path.is_file()}
    [again] = trained(context, [BEST])[BEST]
    assert files == {path: path.stat().st_mtime_ns for path in context.work.rglob("*") if path.is_file()}
    for name, result in first.dev.items():
        np.testing.assert_array_equal(result.scores, again.dev[name].scores)
        assert len(result.examples) == SIZES["tiny"].dev
    assert (best_folder(context) / "modules.json").exists()


@pytest.mark.slow
def test_predictions_have_the_course_s_format(context: Context) -> None:
    STUDY.item("test-predictions").run(context)
    lines = (context.work / "tiny-predictions" / "sts-test-output.csv").read_text("utf-8").splitlines()
    assert lines[0] == "id \t Predicted_Similiary " and len(lines) == 21
    name, comma, number = lines[1].split()
    assert name.isalnum() and comma == "," and 0 <= float(number) <= 5
