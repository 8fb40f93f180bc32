"""Runs of items: run files, what continues after an interruption, what runs again, and what cannot run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from likewise.errors import Cancelled, DataError, UsageError
from likewise.metrics import Interval
from likewise.plotting.axes import axes_or_new
from likewise.reproduce import running
from likewise.reproduce.published import published_study, side_by_side
from likewise.reproduce.records import Record, records, table_document
from likewise.reproduce.report import reproduction
from likewise.reproduce.running import NotRun, Plan, reproduce
from likewise.reproduce.studies import STUDIES, study_named
from likewise.reproduce.study import BUDGETS, Context, Finding, Item, Study
from likewise.reproduce.verdicts import above
from likewise.results import Column, Figure, Table

NAME = "explaining-similarity"  # a study whose published file exists


@pytest.fixture(autouse=True)
def short_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PROBE_SECONDS", 0.01)


def finding(context: Context) -> Finding:
    columns = [Column("x", "X", ".2f"), Column("p", "p", lambda value: f"{value:.0e}"), "word"]
    table = Table.of(columns, [[Interval(0.5, 0.4, 0.6), 0.001, "<b>"], [None, float("nan"), "é"]], "T", "a note")
    figure = Figure(lambda: axes_or_new().plot([0, 1])[0].axes, "a line")
    verdict = above(f"{context.model} is right", "effect", Interval(0.2, 0.1, 0.3))
    return Finding({"numbers": table}, {"line": figure}, (verdict,), ("a sentence",))


def study(*runs: Callable[[Context], Finding]) -> Study:
    items = [Item(f"item-{number}", f"claim {number}", run) for number, run in enumerate(runs, start=1)]
    return Study(NAME, "A study", tuple(items))


def run(one: Study, folder: Path, say: Callable[[str], None] = lambda _: None, **plan: object) -> list[Record | NotRun]:
    return list(reproduce(Plan([one], ["minilm"], threads=1, **plan), folder, say=say))  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_run_file_holds_everything_that_the_page_shows(tmp_path: Path) -> None:
    [found] = run(study(finding), tmp_path)
    assert isinstance(found, Record)
    [stored] = records(tmp_path)
    assert table_document(stored.tables["numbers"]) == table_document(found.tables["numbers"])
    assert stored.tables["numbers"].texts() == [["0.50\n0.40 to 0.60", "1e-03", "<b>"], ["", "-", "é"]]
    assert replace(stored, tables={}) == replace(found, tables={})
    assert stored.model_sha256 and stored.versions["likewise"] and stored.seconds >= 0 and stored.rate
    page = reproduction([study(finding)], [stored], tmp_path).to_html()
    for text in ("claim 1", "minilm is right", "a sentence", "&lt;b&gt;", "data:image/svg+xml", stored.command):
        assert text in page


@pytest.mark.slow
def test_finished_items_do_not_run_again(tmp_path: Path) -> None:
    calls: list[str] = []

    def counted(context: Context) -> Finding:
        calls.append(context.budget)
        return finding(context)

    run(study(counted), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    run(study(counted), tmp_path)
    assert len(calls) == 1
    assert before == {path: path.read_bytes() for path in before}
    run(study(counted), tmp_path, budget="tiny")
    run(study(counted), tmp_path, budget="tiny", seeds=2)
    assert calls == ["quick", "tiny", "tiny"]


@pytest.mark.slow
def test_an_item_runs_again_if_what_it_reads_is_another(tmp_path: Path) -> None:
    one, files = study(finding), [tmp_path / f"{name}.vec" for name in "ab"]
    for file in files:
        file.write_text(f"{file.stem} 0.1 0.2\n")
    reads = replace(one, items=(replace(one.items[0], takes_vectors=True),))
    keys = [run(reads, tmp_path, vectors=file)[0].key for file in files]  # type: ignore[union-attr]
    others = [run(one, tmp_path, vectors=file)[0].key for file in files]  # type: ignore[union-attr]
    assert keys[0] != keys[1] and others[0] == others[1]
    [found] = run(reads, tmp_path, vectors=files[0])
    assert isinstance(found, Record) and found.command.endswith("--vectors a.vec")


@pytest.mark.data
def test_a_grammar_is_part_of_the_settings(tmp_path: Path, english_folder: Path) -> None:
    one = study(finding)
    parses = replace(one, items=(replace(one.items[0], grammars=("en",)),))
    with_it, without = (run(parses, tmp_path, grammars=some)[0] for some in ({"en": str(english_folder)}, {"en": "no"}))
    assert isinstance(with_it, Record) and isinstance(without, Record) and with_it.key != without.key
    assert "--grammar en=en_ud" in with_it.command


@pytest.mark.slow
def test_another_language_has_files_of_its_own(tmp_path: Path) -> None:
    one = study(finding)
    some = replace(one.items[0], data=("sample/pairs",), other_data={"zh": ("sample/sentences",)})
    english, chinese = (run(replace(one, items=(some,)), tmp_path, language=each)[0] for each in ("en", "zh"))
    assert isinstance(english, Record) and isinstance(chinese, Record)
    assert list(english.data) == ["sample/pairs"] and list(chinese.data) == ["sample/sentences"]


@pytest.mark.slow
def test_an_interrupted_run_keeps_what_is_done(tmp_path: Path) -> None:
    calls: list[int] = []

    def first(context: Context) -> Finding:
        calls.append(1)
        return finding(context)

    def stops(_: Context) -> Finding:
        calls.append(2)
        if len(calls) == 2:
            raise Cancelled("stopped")
        return Finding(notes=("done",))

    with pytest.raises(Cancelled):
        run(study(first, stops), tmp_path)
    found = run(study(first, stops), tmp_path)
    assert calls == [1, 2, 2]
    assert [one.item for one in found] == ["item-1", "item-2"]


@pytest.mark.slow
def test_a_damaged_run_file_is_written_anew(tmp_path: Path) -> None:
    run(study(finding), tmp_path)
    [path] = tmp_path.glob("*/*.json")
    path.write_text(path.read_text()[:-20])
    with pytest.raises(DataError, match="run the item again"):
        list(records(tmp_path))
    run(study(finding), tmp_path)
    assert len(list(records(tmp_path))) == 1


@pytest.mark.slow
def test_an_item_without_its_data_says_so_in_one_line(tmp_path: Path) -> None:
    one = study(finding, finding)
    items = (replace(one.items[0], data=("stsb/no-such-file", "sick/none", "stsb/other")), one.items[1])
    lines: list[str] = []
    missing, done = run(replace(one, items=items), tmp_path, lines.append)
    assert isinstance(missing, NotRun) and isinstance(done, Record)
    assert missing.why.startswith("needs stsb/no-such-file, sick/none, stsb/other; likewise data stsb sick says how")
    assert any("not run" in line and "\n" not in line for line in lines)
    page = reproduction([one], [missing, done], tmp_path).to_html()
    assert "Not run with minilm" in page


@pytest.mark.slow
def test_the_time_is_stated_before(tmp_path: Path) -> None:
    lines: list[str] = []
    one = study(finding)
    run(replace(one, items=(replace(one.items[0], cost={"quick": 0.01}),)), tmp_path, lines.append)
    assert "1 items, about" in lines[0] and "tokens/s" in lines[0]
    assert "running, about" in lines[1]


@pytest.mark.parametrize("one", STUDIES, ids=lambda one: one.name)
def test_every_item_states_its_time(one: Study) -> None:
    for item in one.items:
        costs = [item.tokens(budget) for budget in BUDGETS]
        assert all(cost is not None and cost > 0 for cost in costs), item.name
        assert {"tiny", "quick", "standard"} <= item.cost.keys(), item.name


def test_a_cost_that_is_not_stated_is_that_of_the_budget_below() -> None:
    item = replace(study(finding).items[0], cost={"quick": 1.0, "standard": 3.0})
    assert [item.tokens(budget) for budget in BUDGETS] == [None, 1.0, 3.0, 3.0]


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="choose from attention-clusters"):
        study_named("nothing")
    with pytest.raises(UsageError, match="choose from item-1"):
        study(finding).chosen(["item-9"])
    with pytest.raises(UsageError, match="tiny, quick, standard, full"):
        run(study(finding), tmp_path, budget="huge")


def test_published_and_measured_numbers_share_their_rows() -> None:
    printed = published_study(NAME).of("table-1").values()
    table = side_by_side(printed, {("minilm, mean", "STSb"): Interval(0.82, 0.8, 0.84)}, "minilm")
    assert table.headings[:3] == [" ", "STSb, published", "STSb, minilm"]
    assert [row[0] for row in table.rows] == [*dict.fromkeys(one.row for one in printed), "minilm, mean"]
    assert table.rows[0][1] == 0.203 and table.rows[-1][1] is None and table.rows[-1][2].value == 0.82  # type: ignore[attr-defined]


@pytest.mark.parametrize("one", STUDIES, ids=lambda one: one.name)
def test_published_files_are_complete(one: Study) -> None:
    stored = one.published
    assert stored.models
    items = {item.name for item in one.items}
    for value in stored.values:
        assert value.item in items
        assert value.where and value.model and value.data


def test_sizes_follow_the_budget() -> None:
    context = Context(NAME, "minilm", Path("out"), "standard")
    assert context.size(tiny=1, quick=2) == 2
    assert context.size(tiny=1, quick=2, standard=None) is None
    assert replace(context, budget="tiny").size(tiny=1, quick=2) == 1


def test_the_json_of_a_table_is_json() -> None:
    table = Table.of(["a"], [[Interval(1.0, 0.5, 2.0)]])
    assert json.loads(json.dumps(table_document(table)))["rows"] == [[{"value": 1.0, "low": 0.5, "high": 2.0}]]
