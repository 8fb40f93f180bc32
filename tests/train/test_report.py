"""The files and pages of training runs: exact numbers, escaped texts, no network, a small page; tables of runs."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from likewise.results.result import finite
from likewise.train import EvalResult
from likewise.train.report import file_names
from likewise.train.runs_table import training_table
from training_reports import ATTACK, KINDS, made_outcome, made_report, made_rows

ESCAPED = "&lt;img src=x onerror=alert(1)&gt;"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("training") / "new"
    return made_report(selection=40).save(where, {"command": "likewise train"})


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return (folder / "index.html").read_text(encoding="utf-8")


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def shown(page: str) -> str:
    """What of a page is read, without figures."""
    return re.sub(r"<svg .*?</svg>", "", page, flags=re.DOTALL)


def alone(page: str) -> bool:
    sources = re.findall(r'(?:href|src)="([^"]{0,30})', page)
    return not re.search(r"https?:|<script|<link|@import", page) and all(
        source.startswith(("#", "data:image/png;base64,")) for source in sources
    )


class TestFiles:
    @pytest.mark.slow
    def test_everything_is_written(self, folder: Path) -> None:
        outcomes = [(part, kind) for part in ("dev", "test") for kind in KINDS]
        drawn = {f"{'scatter' if kind == 'similarity' else 'confusion'}-{part}-{kind}" for part, kind in outcomes}
        figures = {f"{name}.{ending}" for name in drawn | {"loss", "score"} for ending in ("png", "svg")}
        tables = {f"predictions-{part}-{kind}.csv" for part, kind in outcomes} | {"epochs.csv", "measures.csv"}
        found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert found == figures | tables | {"run.json", "index.html"}

    def test_results(self, folder: Path) -> None:
        run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        found = run.pop("results")
        assert found["changes"] == []
        assert found == json.loads(json.dumps(finite(made_report(selection=40).to_dict())))
        assert run["command"] == "likewise train" and "torch" in run["versions"]
        assert found["score"] == made_report().score and found["dev"]["similarity"]["n"] == 60

    def test_predictions_are_read_back_exactly(self, folder: Path) -> None:
        for kind, scores in (("sentiment", "probability_3"), ("paraphrase", "probability"), ("similarity", "score")):
            eval_result, rows = made_outcome(kind, seed=1), rows_of(folder / f"predictions-test-{kind}.csv")
            assert [float(row["truth"]) for row in rows] == eval_result.truth.tolist()
            assert [float(row["predicted"]) for row in rows] == eval_result.predicted.tolist()
            wanted = eval_result.scores[:, 3] if kind == "sentiment" else eval_result.scores
            assert [float(row[scores]) for row in rows] == wanted.tolist()
            columns = ("text",) if kind == "sentiment" else ("left", "right")
            assert [tuple(row[name] for name in columns) for row in rows] == [one.texts for one in eval_result.examples]
            assert (rows[4]["id"], rows[4]["file"]) == ("5", f"made-up/{kind}")

    def test_epochs(self, folder: Path) -> None:
        report, rows = made_report(), rows_of(folder / "epochs.csv")
        assert [float(row["score"]) for row in rows] == [epoch["score"] for epoch in report.epochs]
        assert [row["kept"] for row in rows] == ["0", "0", "0", "1", "0", "0"]
        assert float(rows[2]["dev similarity pearson"]) == report.epochs[2]["dev"]["similarity"]["pearson"]
        assert float(rows[2]["train paraphrase loss"]) == report.epochs[2]["train"]["paraphrase"]

    def test_only_its_own_files_are_replaced(self, tmp_path: Path) -> None:
        others = ("model.safetensors", "README.md", "predictions.csv", "mine.png")
        old = ("predictions-test-gone.csv", "confusion-dev-gone.svg")
        for name in (*others, *old):
            (tmp_path / name).write_text("old")
        made_report(("paraphrase",), test=False).save(tmp_path)
        assert all((tmp_path / name).read_text() == "old" for name in others)
        assert not any((tmp_path / name).exists() for name in old)

    def test_names_of_tasks_are_safe_in_files(self) -> None:
        found = file_names(["../../etc", "A b", "a-b", "日本", "", "similarity"])
        assert list(found.values()) == ["etc", "a-b", "a-b-2", "task", "task-2", "similarity"]

    @pytest.mark.slow
    def test_texts_that_cannot_be_written_are_replaced(self, tmp_path: Path) -> None:
        report = made_report(("sentiment",), test=False)
        eval_result = report.dev["sentiment"]
        odd = (replace(eval_result.examples[0], texts=("a\x00\ud800b",)), *eval_result.examples[1:])
        replace(report, dev={"sentiment": replace(eval_result, examples=odd)}).save(tmp_path)
        assert rows_of(tmp_path / "predictions-dev-sentiment.csv")[0]["text"] == "a\ufffd\ufffdb"


class TestPage:
    def test_it_tells_what_was_done(self, text: str) -> None:
        report = made_report()
        assert f"{report.score:.3f} = (sentiment accuracy + paraphrase accuracy + similarity pearson) / 3" in text
        assert "1,234,567 weights changed in 60 steps, 12.6 minutes" in text and "7 texts were cut" in text
        assert "Epochs were judged on 40 dev examples" in text and "likewise train" in text
        assert "<td>epochs</td><td>6</td><td>4</td>" in text, "a setting that is not the default"
        assert "<td>similarity: metric</td><td>pearson</td><td>spearman</td>" in text
        assert "<td>batch</td>" not in text and "were dropped from training" in text and "2 of 60 (3.3%)" in text

    def test_every_measure_stands_in_it(self, text: str) -> None:
        for kind in KINDS:
            for seed in (0, 1):
                for value in made_outcome(kind, seed=seed).metrics.values():
                    assert f"{value:.3f}" in shown(text)

    def test_outcomes_in_words(self, text: str) -> None:
        counts = made_outcome("paraphrase").confusion
        assert counts is not None
        others, alike = counts.sum(1)
        assert f"Of {others} pairs that are no paraphrases {counts[0, 1]} ({counts[0, 1] / others:.1%})" in text
        assert f"Of {alike} paraphrases {counts[1, 0]} ({counts[1, 0] / alike:.1%}) were missed" in text
        eval_result = made_outcome("similarity")
        slope, shift = np.polyfit(eval_result.truth, eval_result.predicted, 1)
        assert f"predicted = {slope:.2f} true + {shift:.2f}" in text
        assert f"{eval_result.metrics['within_0.05']:.1%} of 60 predictions lie within 0.05" in text

    def test_figures_and_examples(self, text: str) -> None:
        assert text.count("<svg ") + text.count("<img ") == 8
        assert text.count("Best predictions on dev") == text.count("Worst predictions on dev") == 3
        longest = max(len(cell) for cell in re.findall(r"<td>([^<]*)</td>", text))
        assert longest <= 240, "long texts are shortened"

    def test_it_is_safe_small_and_alone(self, text: str) -> None:
        assert ESCAPED in text and "<img src=x" not in text and alone(text)
        assert len(text.encode()) < 1_000_000

    @pytest.mark.slow
    def test_every_text_is_escaped(self, tmp_path: Path) -> None:
        def attacked(eval_result: EvalResult) -> EvalResult:
            bad = (
                replace(one, texts=(ATTACK,) * len(one.texts), id=ATTACK, file=ATTACK) for one in eval_result.examples
            )
            return replace(eval_result, examples=tuple(bad))

        report = made_report(n=12)
        dev = {kind: attacked(eval_result) for kind, eval_result in report.dev.items()}
        bad = replace(report, dev=dev, model=ATTACK)
        page = (bad.save(tmp_path, {"command": ATTACK}) / "index.html").read_text(encoding="utf-8")
        assert page.count(ESCAPED) > 60 and "<img src=x" not in page and "onerror=alert(1)>" not in page

    @pytest.mark.slow
    def test_a_large_run_is_a_small_page(self, tmp_path: Path) -> None:
        written = made_report(n=5000, test=False).save(tmp_path)
        assert (written / "index.html").stat().st_size < 500_000


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dev", "test"), [(False, False), (True, False), (False, True)])
def test_parts_may_be_missing(tmp_path: Path, kind: str, dev: bool, test: bool) -> None:
    written = made_report((kind,), dev, test).save(tmp_path)
    page = (written / "index.html").read_text(encoding="utf-8")
    assert ("no dev examples" in page) == (not dev) and ("nothing was measured" in page) == (not dev and not test)
    assert len(list(written.glob("predictions-*.csv"))) == dev + test
    assert (written / "loss.png").exists() and (written / "score.png").exists() == dev
    assert json.loads((written / "run.json").read_text())["results"]["formula"] == (
        None if not dev else f"{kind} {'pearson' if kind == 'similarity' else 'accuracy'}"
    )


@pytest.mark.slow
def test_what_is_no_number(tmp_path: Path) -> None:
    """Predictions that are all the same have no correlation, and a class may have no examples."""
    report = made_report(("similarity", "paraphrase"), test=False)
    flat = replace(report.dev["similarity"], scores=np.full(60, 2.5))
    other = report.dev["paraphrase"]
    same = replace(other, examples=tuple(replace(one, target=0.0) for one in other.examples))
    written = replace(report, dev={"similarity": flat, "paraphrase": same}).save(tmp_path, {"x": np.nan})
    run = json.loads((written / "run.json").read_text(), parse_constant=lambda name: pytest.fail(name))
    found = run["results"]
    assert found["dev"]["similarity"]["pearson"] is None and run["x"] is None
    assert found["dev"]["paraphrase"]["false_negative_rate"] is None
    page = shown((written / "index.html").read_text(encoding="utf-8"))
    assert ">nan" not in page and "counts as 0 in the score" in page and "predicted = 0.00 true + 2.50" in page


@pytest.mark.slow
def test_overlaps_that_were_allowed(tmp_path: Path) -> None:
    report = made_report(("similarity",), test=False)
    kept = replace(report, overlaps=(replace(report.overlaps[0], dropped=0),))
    page = (kept.save(tmp_path) / "index.html").read_text(encoding="utf-8")
    assert "nothing was dropped" in page and "were dropped from" not in page


class TestTable:
    def test_means_and_deviations(self, tmp_path: Path) -> None:
        written = training_table(made_rows()).save(tmp_path, {"command": "c"})
        assert {path.name for path in written.iterdir()} == {"table.csv", "runs.csv", "run.json", "index.html"}
        rows = rows_of(written / "table.csv")
        assert [row["name"] for row in rows] == ["mean", f"max {ATTACK}", "cls | a_b"]
        assert float(rows[1]["dev similarity pearson"]) == pytest.approx(0.62)
        assert float(rows[1]["dev similarity pearson sd"]) == pytest.approx(np.std([0.61, 0.62, 0.63], ddof=1))
        assert (rows[0]["seeds"], rows[0]["published 4"], rows[1]["published 4"]) == ("1 2 3", "0.5", "")
        assert float(rows[0]["difference"]) == pytest.approx(0.02) and rows[2]["test sentiment accuracy"] == ""
        run = json.loads((written / "run.json").read_text(encoding="utf-8"))
        found = run["results"]
        assert found["lines"][1]["measures"]["score"]["mean"] == pytest.approx(0.62) and run["command"] == "c"
        assert len(found["rows"]) == 9 and found["rows"][4]["seed"] == 2
        assert list(found["formulas"]) == ["(sentiment accuracy + paraphrase accuracy + similarity pearson) / 3"]

    def test_the_page(self, tmp_path: Path) -> None:
        page = (training_table(made_rows()).save(tmp_path, {"command": ATTACK}) / "index.html").read_text(
            encoding="utf-8"
        )
        assert page.count("<b>0.720\n± 0.010</b>") == 4, "three tasks and the score"
        assert "<b>102\n± 1</b>" in page and "<b>122" not in page, "few seconds are better"
        assert "/ 3." in page and "0.400, 0.500, 0.600;\n0.500" in page and "+0.020" in page
        assert ESCAPED in page and "<img" not in page and alone(page)
        assert "false_positive_rate" in page, "every measure stands in it"

    def test_markdown(self) -> None:
        made = training_table(made_rows()).to_markdown()
        lines = made.split("\n")
        header, rule, first, second, third = (re.split(r"(?<!\\)\|", line)[1:-1] for line in lines[:5])
        assert len(header) == len(rule) == len(first) == len(second) == len(third) == 11
        assert third[0] == " cls \\| a\\_b " and third[1] == " **0.720 ± 0.010** " and third[5] == " – "
        assert "\\<img" in second[0] and "Score on dev = (sentiment accuracy" in made

    def test_one_seed_has_no_deviation(self) -> None:
        made = training_table(made_rows(("a", "b"), seeds=1)).to_markdown()
        assert "±" not in made and "| b | **0.610** |" in made and "one seed" in made

    def test_a_tie_is_marked_for_nobody(self) -> None:
        made = training_table([replace(row, name=name) for name in "ab" for row in made_rows(("x",), 1)]).to_markdown()
        assert "**" not in made

    def test_values_that_some_seeds_lack(self) -> None:
        rows = made_rows(("a",), seeds=3)
        rows[1].report["dev"]["similarity"]["pearson"] = float("nan")
        for row in rows:
            row.report["score"] = None
        made = training_table(rows).to_markdown()
        assert "(2 of 3)" in made and "nan" not in made and "| – |" in made

    def test_formulas_may_differ(self) -> None:
        rows = made_rows(("a", "b"), 1)
        rows[1].report["formula"] = "similarity spearman"
        made = training_table(rows).to_markdown()
        assert "Score on dev of a = (sent" in made and "Score on dev of b = similarity spearman." in made
