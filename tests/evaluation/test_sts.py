"""STS evaluation against a plain computation with scipy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from likewise.data import Columns, Dataset, ScoredPair, read_scored_pairs
from likewise.encoder import Encoder
from likewise.encoder.tokens import Tokenizer
from likewise.errors import Cancelled, DataError, UsageError
from likewise.evaluation.sts import StsResult, compare_sts, evaluate_sts, mixed_scored_pairs
from likewise.results import ResultSet

PAIRS = list(read_scored_pairs("sample/pairs"))
HEADER = "sentence1,sentence2,score\n"


def plain_cosines(encoder: Encoder, pairs: list[ScoredPair]) -> Any:
    """Pair by pair, in float64."""
    left, right = (encoder.encode([getattr(pair, side) for pair in pairs]).astype(float) for side in ("left", "right"))
    return (left * right).sum(1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)


@pytest.fixture(scope="module")
def result(tiny: Encoder) -> StsResult:
    return evaluate_sts(tiny, PAIRS, "sample/pairs")


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_agreement_is_that_of_plain_cosines(tiny: Encoder, pooling: str) -> None:
    encoder = tiny.with_pooling(pooling=pooling)
    result = evaluate_sts(encoder, PAIRS)
    cosines, truth = plain_cosines(encoder, PAIRS), [pair.score for pair in PAIRS]
    np.testing.assert_allclose(result.predicted, cosines, atol=1e-6)
    assert result.agreement["pearson"].value == pytest.approx(pearsonr(cosines, truth).statistic, abs=1e-5)
    # Ranks of our own float32 cosines: two that lie within rounding may change places.
    assert result.agreement["spearman"].value == pytest.approx(spearmanr(result.predicted, truth).statistic, abs=1e-12)
    line = np.polyval(np.polyfit(cosines, truth, 1), cosines)
    assert result.agreement["mse"].value == pytest.approx(np.mean((line - truth) ** 2), abs=1e-5)


def test_facts(result: StsResult, tiny: Encoder) -> None:
    found = result.to_dict()
    assert (found["data"], found["model"], found["pooling"], found["n"]) == ("sample/pairs", tiny.name, "mean", 60)
    assert found["spearman"] == result.agreement["spearman"].value
    for name, (low, high) in found["intervals"].items():
        assert low <= found[name] <= high


def test_each_text_is_encoded_once(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, seen = Tokenizer.ids, []

    def counting(self: Tokenizer, texts: Any) -> Any:
        seen.extend(texts)
        return ids(self, texts)

    monkeypatch.setattr(Tokenizer, "ids", counting)
    texts = [("a", "b", 1.0), ("b", "a", 2.0), ("a", "a", 5.0), ("c", "b", 0.0)]
    result = evaluate_sts(tiny, [ScoredPair(*row, id=str(place)) for place, row in enumerate(texts)])
    assert sorted(seen) == ["a", "b", "c"]
    assert result.predicted[0] == pytest.approx(result.predicted[1], abs=1e-7)
    assert result.predicted[2] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("count", [0, 1])
def test_a_correlation_needs_two_pairs(tiny: Encoder, count: int) -> None:
    with pytest.raises(DataError, match=f"mine: a correlation needs at least 2 pairs, got {count}"):
        evaluate_sts(tiny, PAIRS[:count], "mine")


def test_progress_is_told_and_can_cancel(tiny: Encoder) -> None:
    seen = []
    evaluate_sts(tiny, PAIRS, progress=lambda *call: seen.append(call))
    assert seen[-1][0] == seen[-1][1] > 60

    def cancel(*_: Any) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        evaluate_sts(tiny, PAIRS, progress=cancel)


def test_cut_texts_are_counted(tiny: Encoder) -> None:
    long = ScoredPair("word " * 100, "short", 1.0, "x")
    assert evaluate_sts(tiny, [long, long, ScoredPair("a", "b", 2.0, "y")]).truncated == 1


def test_plots(result: StsResult) -> None:
    axes = result.plot()
    assert len(axes.collections[0].get_offsets()) == 60
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("human score", "cosine")
    assert "sample/pairs" in axes.get_title() and "n = 60" in axes.get_title()
    panels = ResultSet((result, result, result)).figures()["sts"].draw().figure.axes
    assert len(panels) == 3 and all(panel.collections for panel in panels)


def test_table_of_one_is_that_one(result: StsResult) -> None:
    assert ResultSet((result,)).to_dict() == result.to_dict()
    assert ResultSet((result, result)).to_dict() == {"results": [result.to_dict()] * 2}


def test_compare_runs_every_file_by_every_model_and_pooling(tiny: Encoder) -> None:
    loaded = []

    def load(name: str) -> Encoder:
        loaded.append(name)
        return tiny

    table = compare_sts([Dataset("sample/pairs")] * 2, ["one", "two"], [None, "cls"], load=load)
    assert loaded == ["one", "two"]
    assert [row.pooling for row in table.results] == ["mean", "mean", "cls", "cls"] * 2


class TestDatasets:
    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "en.csv").write_text(f"{HEADER}a cat,a dog,3\nred,blue,1\n")
        (tmp_path / "de.csv").write_text(f"{HEADER}eine Katze,ein Hund,3\nrot,blau,1\n")
        (tmp_path / "bad.csv").write_text(f"{HEADER}a cat,a dog,3\nred,,1\nred,blue,x\n")
        return tmp_path

    def test_files_in_order(self, folder: Path, tiny: Encoder) -> None:
        table = compare_sts([Dataset("de.csv"), Dataset("en.csv")], ["one"], load=lambda name: tiny)
        assert [(one.name, one.n, one.skipped) for one in table.results] == [("de.csv", 2, 0), ("en.csv", 2, 0)]

    def test_mix(self, folder: Path) -> None:
        name, pairs = mixed_scored_pairs(Dataset("en.csv"), "de.csv")
        assert name == "en.csv x de.csv"
        assert [(pair.left, pair.right, pair.score) for pair in pairs] == [("a cat", "ein Hund", 3), ("red", "blau", 1)]

    def test_bad_rows_are_skipped_on_request(self, folder: Path, tiny: Encoder) -> None:
        (folder / "bad.csv").write_text((folder / "bad.csv").read_text() + "one,two,2\n")
        [found] = compare_sts([Dataset("bad.csv", skip_bad=True)], ["one"], load=lambda name: tiny).results
        assert (found.n, found.skipped) == (2, 2)
        assert found.cautions == ["bad.csv: bad rows skipped: 2, texts cut at the limit: 0"]

    def test_bad_rows_raise_otherwise(self, folder: Path) -> None:
        with pytest.raises(DataError, match=r"bad\.csv, line 3, column 'sentence2'"):
            compare_sts([Dataset("bad.csv")], ["no model is loaded"])

    def test_mixed_rows_are_never_skipped(self) -> None:
        with pytest.raises(UsageError, match="parallel"):
            compare_sts([Dataset("bad.csv", skip_bad=True)], ["no model is loaded"], mix="en.csv")

    def test_columns_and_data_folder(self, folder: Path, tiny: Encoder) -> None:
        (folder / "data").mkdir()
        (folder / "data" / "mine.csv").write_text("full,short,points\na,b,1\nc,d,2\n")
        columns = Columns(left="short", right="full", score="points")
        dataset = Dataset("mine", columns, folder / "data")
        assert [pair.left for pair in dataset.scored_pairs()] == ["b", "d"]
        assert compare_sts([dataset], ["one"], load=lambda name: tiny).results[0].n == 2


def test_a_notebook_shows_a_table(tiny: Encoder) -> None:
    result = evaluate_sts(tiny, list(read_scored_pairs("sample/pairs")), "<b>")
    assert "&lt;b&gt;" in result._repr_html_() and f"{result.agreement['pearson'].value:.4f}" in result._repr_html_()
