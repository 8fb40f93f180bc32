"""Benchmarks: the packages' own numbers for each model, cached, and averaged over seeds."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conftest import save_classic
from likewise.data import Dataset, read_scored_pairs
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.evaluation.sts import evaluate_sts
from likewise.grammar import Grammar
from likewise.lint.evidence import parsed_sides
from likewise.lint.lint import LintRules, lint
from likewise.lint.pos_relevance import PosRelevance
from likewise.lint.pos_study import corpus_relevance
from likewise.metrics import spearman
from likewise.train.benchmark import PARTS, Benchmark, BenchmarkData, BenchmarkedModel, benchmark, class_shares
from likewise.train.runs_table import Spread
from training_files import write_rows
from twins import twin_model


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The sample's pairs with a column of kinds."""
    rows: list[list[object]] = [
        [pair.left, pair.right, pair.score, "odd" if place % 2 else "even"]
        for place, pair in enumerate(read_scored_pairs("sample/pairs"))
    ]
    header = ["sentence1", "sentence2", "score", "kind"]
    return str(write_rows(tmp_path_factory.mktemp("files") / "pairs.csv", header, rows))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two runs of one row of a table, and a model of its own."""
    folder = tmp_path_factory.mktemp("table")
    made = []
    for seed in (1, 2):
        place = save_classic(folder / f"lower-half-{seed}", seed=seed)
        (place / "row.json").write_text(json.dumps({"facts": {"config": {"seed": seed}}, "report": {}}))
        made.append(str(place))
    return [*made, str(save_classic(folder / "other", seed=5))]


def test_numbers_are_the_rooms_own_and_rows_are_summed_up(pairs: str, models: list[str]) -> None:
    found = benchmark(BenchmarkData(Dataset(pairs), group_by="kind"), models, ["sts"])
    assert list(found.rows) == ["lower-half", "other"] and len(found.rows["lower-half"]) == 2
    rows = list(read_scored_pairs(pairs))
    own = [evaluate_sts(Encoder.load(model, device="cpu"), rows) for model in models]
    values = [one.agreement["spearman"].value for one in own]
    measured = found.measures("sts")
    assert measured["spearman"]["other"] == Spread(values[2], None, 1)
    assert measured["spearman"]["lower-half"].mean == pytest.approx(statistics.fmean(values[:2]))
    assert measured["spearman"]["lower-half"].deviation == pytest.approx(statistics.stdev(values[:2]))
    even = slice(0, None, 2)
    expected = spearman(own[2].predicted[even], own[2].truth[even])
    assert measured["spearman, kind even"]["other"].mean == pytest.approx(expected)
    assert {"spearman, short", "spearman, medium", "spearman, long"} <= measured.keys()


def test_a_layer_left_out_is_a_model_without_it(pairs: str, models: list[str]) -> None:
    [found] = benchmark(BenchmarkData(Dataset(pairs)), models[2:], ["skipped"]).curves("skipped").values()
    encoder = Encoder.load(models[2], device="cpu")
    assert len(found["other"]) == encoder.model_view.layers == 2
    rows, text = list(read_scored_pairs(pairs)), "A cat sat on the mat."
    for layer, value in enumerate(found["other"], start=1):
        cut = encoder.without_layer(layer)
        assert value.mean == pytest.approx(evaluate_sts(cut, rows).agreement["spearman"].value)
        # The slow way: Hugging Face's own model without the block.
        plain = twin_model(Encoder.load(models[2], device="cpu"))
        del plain.encoder.layer[layer - 1]
        states = plain(input_ids=torch.tensor(encoder.tokenizer.ids([text])[0])).last_hidden_state[0]
        vector = torch.nn.functional.normalize(states.mean(0), dim=0).detach().numpy()
        assert np.abs(cut.encode(text) - vector).max() < 1e-5
    with pytest.raises(UsageError, match="no layer 3"):
        encoder.without_layer(3)


def test_parts_are_kept_and_not_measured_again(
    pairs: str, models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = BenchmarkData(Dataset(pairs, limit=20))
    first = benchmark(data, models[:1], ["sts", "space"], tmp_path)

    def fail(*_: Any) -> Any:
        raise AssertionError("measured again")

    monkeypatch.setitem(PARTS, "sts", fail)
    monkeypatch.setitem(PARTS, "space", fail)
    assert benchmark(data, models[:1], ["sts", "space"], tmp_path).to_dict() == first.to_dict()
    for other in (BenchmarkData(Dataset(pairs, limit=21)), BenchmarkData(Dataset(pairs, limit=20), group_by="kind")):
        with pytest.raises(AssertionError, match="measured again"):
            benchmark(other, models[:1], ["sts"], tmp_path)
    with pytest.raises(AssertionError, match="measured again"):
        benchmark(data, models[1:2], ["sts"], tmp_path)


def test_a_damaged_part_is_measured_again(pairs: str, models: list[str], tmp_path: Path) -> None:
    data = BenchmarkData(Dataset(pairs, limit=20))
    first = benchmark(data, models[:1], ["sts"], tmp_path)
    [kept] = (tmp_path / "parts").glob("*.json")
    kept.write_text("{")
    assert benchmark(data, models[:1], ["sts"], tmp_path).to_dict() == first.to_dict()


def test_wrong_input_is_told_before_the_work(pairs: str, models: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="unknown part 'colour'; choose from sts"):
        benchmark(BenchmarkData(Dataset(pairs)), models, ["colour"])
    with pytest.raises(UsageError, match="at least one model"):
        benchmark(BenchmarkData(Dataset(pairs)), [], ["sts"])
    with pytest.raises(DataError, match="there are: kind"):
        benchmark(BenchmarkData(Dataset(pairs), group_by="genre"), models, ["sts"])
    monkeypatch.setenv("LIKEWISE_GRAMMAR", "/nowhere/at/all")
    with pytest.raises(Exception, match="no folder"):
        benchmark(BenchmarkData(Dataset(pairs)), models, ["lint"])


def test_models_of_one_name_are_rows_of_their_own(pairs: str, models: list[str], tmp_path: Path) -> None:
    other = save_classic(tmp_path / "elsewhere" / "lower-half-1", seed=9)
    (other / "row.json").write_text(json.dumps({"facts": {"config": {"seed": 1}}, "report": {}}))
    found = benchmark(BenchmarkData(Dataset(pairs, limit=20)), [*models[:2], str(other), f"{models[0]}/"], ["sts"])
    assert [len(runs) for runs in found.rows.values()] == [2, 1]


def test_measures_that_do_not_exist_are_left_out(models: list[str], tmp_path: Path) -> None:
    rows: list[list[object]] = [[f"a cat {n}", f"a dog {n}", 1 if n < 2 else n] for n in range(8)]
    file = str(write_rows(tmp_path / "a.csv", ["sentence1", "sentence2", "score"], rows))
    found = benchmark(BenchmarkData(Dataset(file)), models[:2], ["sts"], tmp_path / "out")
    found.save(tmp_path / "out")
    short = found.measures("sts")["spearman, short"]
    assert all(np.isfinite(each.mean) for each in short.values())


def test_shares_of_classes_sum_to_one() -> None:
    tables = np.array([[2.0, 1.0], [1.0, 0.0]]), np.array([[-1.0, 0.0], [0.0, -0.5]])
    found = PosRelevance(
        ("NOUN", "VERB"), *tables, np.ones((2, 2)), np.array([1.0, 0.0]), np.array([0.0, -0.5]), bias_both=-2.0
    )
    shares = class_shares(found)
    assert shares == pytest.approx({"NOUN-NOUN": 3 / 8, "NOUN-VERB": 1 / 8, "VERB-VERB": 0.5 / 8, "biases": 3.5 / 8})


def test_models_of_other_depths_are_drawn_and_written(tmp_path: Path) -> None:
    parts: list[Any] = [{"layers": {"baseline": [0.1, 0.2, 0.3]}}, {"layers": {"baseline": [0.1, 0.2, 0.3, 0.4, 0.5]}}]
    models = [BenchmarkedModel(name, name, parts=part) for name, part in zip("ab", parts, strict=True)]
    found = Benchmark("pairs", 3, tuple(models))
    found.save(tmp_path, {"command": "likewise benchmark <b>"})
    page = (tmp_path / "index.html").read_text()
    assert "&lt;b&gt;" in page and "<b>" not in page and (tmp_path / "layers-baseline.png").exists()
    assert (tmp_path / "layers-layers.csv").read_text().count("\n") == 9


@pytest.mark.data
def test_every_part_on_the_sample(models: list[str], english_folder: Path, tmp_path: Path) -> None:
    data = BenchmarkData(Dataset("sample/pairs", limit=24), grammar=str(english_folder))
    found = benchmark(data, models, list(PARTS), tmp_path)
    shares = [value for name, value in found.models[0].parts["classes"].items() if isinstance(value, float) and name]
    assert sum(shares) == pytest.approx(1.0)
    assert set(found.measures("lint")) >= {"special", "negation", "number", "roles"}
    assert all(len(each) == 3 for each in found.curves("layers")["baseline"].values())
    # The parts that share their explanations say what the rooms say, each by itself.
    encoder, language = Encoder.load(models[2], device="cpu"), Grammar.load(str(english_folder))
    alone = lint(encoder, data.pairs, language, LintRules())
    assert found.models[2].parts["lint"] == {one.rule: one.share.value for one in alone.counts}
    classes = corpus_relevance(encoder, data.pairs, parsed_sides(data.pairs, language)).classes
    assert found.models[2].parts["classes"] == pytest.approx(class_shares(classes))
    document = json.loads(json.dumps(found.to_dict()))
    assert document["rows"]["lower-half"]["seeds"] == 2 and len(document["runs"]) == 3
