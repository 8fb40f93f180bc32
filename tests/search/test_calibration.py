"""Calibration: meanings of scores, thresholds, what is saved and read, what is shown, what is rejected."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.data import Rows, ScoredPair
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.metrics import Interval
from likewise.sample import sample_sentences
from likewise.search import Calibration, CalibrationSettings, Index, IndexSettings, calibrate
from likewise.search.calibration import pair_scores
from likewise.search.unrelated import ScoredCorpus

TEXTS = sample_sentences()[:60]


def labelled(n: int = 80) -> list[ScoredPair]:
    """Each text with a longer one, a match, or with another text; every ninth label is wrong."""
    found = []
    for row in range(n):
        text = TEXTS[row % 60]
        other = f"{text} a" if row % 2 else TEXTS[(row + 7) % 60]
        found.append(ScoredPair(text, other, float((row % 2) ^ (row % 9 == 0)), str(row)))
    return found


@pytest.fixture(scope="module")
def plain(tiny: Encoder) -> Calibration:
    return calibrate(tiny, TEXTS)


@pytest.fixture(scope="module")
def matched(tiny: Encoder) -> Calibration:
    return calibrate(tiny, TEXTS, labelled())


def test_percentile_of_a_score(plain: Calibration) -> None:
    score = float(np.quantile(plain.unrelated, 0.8))
    below = (plain.unrelated < score).mean() + (plain.unrelated == score).mean() / 2
    assert plain.percentile(score) == pytest.approx(below)
    assert plain.probability(score) is None
    assert (plain.percentile(-2.0), plain.percentile(2.0)) == (0.0, 1.0)


def test_meaning_holds_both_numbers(matched: Calibration) -> None:
    score = float(np.median(matched.unrelated))
    meaning = matched.meaning(score)
    assert (meaning.percentile, meaning.probability) == (matched.percentile(score), matched.probability(score))
    assert matched.meanings([score, 0.0])[0] == meaning
    assert str(meaning).startswith("above ")


def test_no_score_is_above_all_unrelated_pairs(plain: Calibration) -> None:
    assert str(plain.meaning(2.0)) == "above 99.9 % of unrelated pairs"


def test_pairs_are_scored_as_a_search_scores_them(tiny: Encoder) -> None:
    settings = IndexSettings(query_prompt="find ", document_prompt="text ")
    pairs = labelled(10)
    index = Index.from_texts(tiny, list(dict.fromkeys(pair.right for pair in pairs)), settings)
    found = pair_scores(ScoredCorpus.of_index(index), pairs)
    hits = [{hit.text: hit.score for hit in index.search(pair.left, 50)}[pair.right] for pair in pairs]
    np.testing.assert_allclose(found, hits, atol=1e-6)


def test_chosen_method_has_the_lower_brier_score(matched: Calibration) -> None:
    assert matched.match is not None
    best = min(matched.match.quality.values(), key=lambda one: one.brier.value)
    assert matched.match.quality[matched.match.curve.kind] is best
    assert matched.match.gain(matched.match.curve.kind) > 0.1


@pytest.mark.parametrize("kind", ["precision", "recall", "probability", "percentile"])
def test_thresholds_lie_in_their_intervals(matched: Calibration, kind: str) -> None:
    found = matched.threshold(**{kind: 0.75})
    assert isinstance(found, Interval)
    assert found.low <= found.value <= found.high
    assert found.low < found.high


def test_threshold_of_a_percentile(plain: Calibration) -> None:
    assert plain.threshold(percentile=0.99) == plain.quantiles[0.99]
    between = plain.threshold(percentile=0.97)
    assert plain.percentile(between.value) == pytest.approx(0.97, abs=0.001)
    assert plain.quantiles[0.95].value < between.value < plain.quantiles[0.99].value


@pytest.mark.parametrize("wanted", [{}, {"precision": 0.9, "recall": 0.9}, {"accuracy": 0.9}])
def test_threshold_needs_one_target(matched: Calibration, wanted: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="give one of precision, recall, probability, percentile, such as"):
        matched.threshold(**wanted)


def test_what_a_calibration_cannot_tell(plain: Calibration, matched: Calibration) -> None:
    with pytest.raises(UsageError, match="no labelled pairs; calibrate with some: likewise calibrate texts --pairs"):
        plain.threshold(precision=0.9)
    with pytest.raises(UsageError, match="a recall is between 0 and 1, got 90"):
        matched.threshold(recall=90)
    with pytest.raises(DataError, match="a score is not a number"):
        matched.meaning(float("nan"))


@pytest.mark.parametrize("name", ["plain", "matched"])
def test_a_saved_calibration_is_read_to_the_last_bit(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    found: Calibration = request.getfixturevalue(name)
    again = Calibration.load(found.save(tmp_path / "new" / "calibration.json"))
    np.testing.assert_array_equal(again.unrelated, found.unrelated)
    assert again.to_dict() == found.to_dict()
    assert again.depends == found.depends
    scores = np.linspace(-0.5, 1, 40)
    assert again.meanings(scores) == found.meanings(scores)
    if found.match is not None:
        assert again.threshold(probability=0.5) == found.threshold(probability=0.5)


def damaged(document: dict[str, Any]) -> list[Any]:
    """Documents that are no calibration."""
    flat = {**document, "unrelated": [0.5, 0.1]}
    empty = {**document, "unrelated": []}
    unlabelled = {**document, "match": {**document["match"], "data": {"scores": [0.1], "labels": "2"}}}
    match = document["match"]
    cubic = {**document, "match": {**match, "chosen": "cubic"}}
    bent = {**document, "match": {**match, "curve": {"knots": [1.0, 2.0], "values": [0.5, float("nan")]}}}
    worded = {
        **document,
        "match": {**match, "methods": {name: {**one, "ece": "low"} for name, one in match["methods"].items()}},
    }
    endless = {**document, "unrelated": [0.1, float("inf")]}
    wished = {**document, "targets": [["luck", 0.5]]}
    missing = {name: value for name, value in document.items() if name != "quantiles"}
    return [flat, empty, unlabelled, cubic, bent, worded, endless, wished, missing, [], "x", None, {"format": 1}]


def test_damaged_files_are_one_line(matched: Calibration, tmp_path: Path) -> None:
    path = matched.save(tmp_path / "calibration.json")
    document = json.loads(path.read_text())
    for other in [*(json.dumps(one) for one in damaged(document)), "{", "[" * 100_000, "\x00"]:
        path.write_text(other)
        with pytest.raises(DataError) as error:
            Calibration.load(path)
        assert "\n" not in str(error.value)
        assert "calibrat" in str(error.value)
    path.write_text(json.dumps({**document, "format": 2}))
    with pytest.raises(DataError, match="has format 2, this version reads 1; calibrate again"):
        Calibration.load(path)
    with pytest.raises(DataError, match="no such file"):
        Calibration.load(tmp_path / "none.json")


def test_scores_need_a_match_from(tiny: Encoder) -> None:
    scored = [replace(pair, score=5 * pair.score) for pair in labelled()]
    with pytest.raises(DataError, match=r"there is a pair with 5; say from which score on .* --match-from 4"):
        calibrate(tiny, TEXTS, scored)
    found = calibrate(tiny, TEXTS, scored, CalibrationSettings(match_from=3))
    assert found.match is not None
    assert found.match.data.labels.sum() == sum(pair.score for pair in labelled())


def test_one_class_is_rejected_before_anything_is_encoded(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Encoder, "encode", lambda *_, **__: pytest.fail("encoded before the flaw was found"))
    with pytest.raises(DataError, match="only 0 of 80 pairs match"):
        calibrate(tiny, TEXTS, [replace(pair, score=0.0) for pair in labelled()])
    with pytest.raises(DataError, match="only 0 of 0 pairs match"):
        calibrate(tiny, TEXTS, [])


def test_sources_that_do_not_fit(tiny: Encoder) -> None:
    with pytest.raises(UsageError, match="a model needs texts"):
        calibrate(tiny)
    with pytest.raises(UsageError, match="an index has its own texts"):
        calibrate(Index.from_texts(tiny, TEXTS), TEXTS)
    with pytest.raises(UsageError, match="1,000 unrelated pairs or more, got 10"):
        CalibrationSettings(pairs=10)
    with pytest.raises(UsageError, match="a precision is between 0 and 1, got 90"):
        CalibrationSettings(targets=(("precision", 90),))


def test_tables_and_figures(plain: Calibration, matched: Calibration, tmp_path: Path) -> None:
    assert list(plain.tables()) == ["unrelated"]
    assert list(plain.figures()) == ["unrelated"]
    assert list(matched.tables()) == ["unrelated", "methods", "thresholds", "reliability"]
    assert list(matched.figures()) == ["unrelated", "reliability", "probability"]
    assert len(matched.tables()["reliability"].rows) == 15
    folder = matched.save(tmp_path / "out")
    assert {path.name for path in folder.iterdir()} >= {"run.json", "index.html", "reliability.svg", "thresholds.csv"}
    assert json.loads((folder / "run.json").read_text())["results"]["match"]["pairs"] == 80


def test_document(matched: Calibration) -> None:
    document = json.loads(json.dumps(matched.to_dict()))
    assert document["unrelated"]["pairs"] == 60 * 59 // 2
    assert [one["level"] for one in document["unrelated"]["quantiles"]] == [0.5, 0.9, 0.95, 0.99, 0.999]
    assert set(document["match"]["methods"]) == {"isotonic", "logistic"}
    assert [one["wanted"] for one in document["match"]["thresholds"]] == [{"precision": 0.9}, {"recall": 0.9}]


def test_unreached_targets_and_skipped_rows_are_cautions(tiny: Encoder) -> None:
    noise = Rows(replace(pair, score=float(row % 3 == 0)) for row, pair in enumerate(labelled()))
    noise.skipped = 2
    found = calibrate(tiny, TEXTS, noise, CalibrationSettings(targets=(("precision", 0.99), ("recall", 0.5))))
    assert found.cautions[0] == "bad rows of pairs skipped: 2"
    assert found.cautions[1].startswith("no threshold has a precision of 0.99 on these pairs: the highest is")
    assert [row[0] for row in found.tables()["thresholds"].rows] == ["recall 0.5"]
    assert found.to_dict()["match"]["thresholds"][0]["threshold"] is None


@pytest.mark.slow
def test_quora_halves(minilm: Encoder, shared_data: Path) -> None:
    """A smaller run of bench/calibration.py; the error by chance is larger on fewer pairs."""
    from likewise.data import Dataset
    from likewise.search.probability_curves import CurveQuality

    pairs = Dataset("cs224n/quora-dev", data_dir=shared_data, limit=3000).scored_pairs()
    found = calibrate(minilm, sample_sentences(), pairs[:1500])
    assert found.match is not None
    scores = pair_scores(ScoredCorpus.of_texts(minilm, []), pairs[1500:])
    truth = np.array([pair.score for pair in pairs[1500:]])
    quality = CurveQuality.of(found.probabilities(scores), truth)
    base = np.mean((truth - found.match.data.base_rate) ** 2)
    assert 1 - quality.brier.value / base > 0.3
    assert quality.calibration_error < quality.calibration_error_by_chance + 0.02
