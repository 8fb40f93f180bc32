"""Hard negatives: ranked candidates without known and likely matches, against a plain version of the same rules."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.data import Dataset, Pair, ScoredPair
from likewise.encoder import Encoder
from likewise.encoder.similarity import similarity
from likewise.errors import DataError, UsageError
from likewise.sample import sample_sentences
from likewise.search.calibration import Calibration, calibrate
from likewise.search.mining import MiningSettings, mine_negatives, positives_from
from likewise.train.config import TaskConfig
from likewise.train.examples import Source, read_examples

TEXTS = sample_sentences()[:60]
PAIRS = [(TEXTS[0], TEXTS[1]), (TEXTS[1], TEXTS[2]), (TEXTS[3], TEXTS[4]), (TEXTS[0], TEXTS[5])]


def twin(encoder: Encoder, settings: MiningSettings, limit: Any) -> list[tuple[str, str, str, int]]:
    """The same by plain loops: known matches found by walking along the pairs, all texts sorted by score."""
    scores = similarity(encoder.encode(TEXTS), encoder.encode(TEXTS))
    row = {text: number for number, text in enumerate(TEXTS)}
    found = []
    for anchor, positive in PAIRS:
        known = {anchor}
        for _ in PAIRS:
            known |= {text for pair in PAIRS if known & set(pair) for text in pair}
        ranked = sorted(
            (text for text in TEXTS if text not in known), key=lambda text: (-scores[row[anchor], row[text]], row[text])
        )
        taken = 0
        for rank, text in enumerate(ranked, start=1):
            score, of_positive = float(scores[row[anchor], row[text]]), float(scores[row[anchor], row[positive]])
            in_ranks = settings.rank_from <= rank <= settings.rank_to
            if in_ranks and taken < settings.per_anchor and not limit(score, of_positive):
                taken += 1
                found.append((anchor, positive, text, rank))
    return found


@pytest.mark.parametrize(
    "settings",
    [
        MiningSettings(filtered=False),
        MiningSettings(per_anchor=3),
        MiningSettings(per_anchor=3, margin=0.3),
        MiningSettings(per_anchor=2, rank_from=4, rank_to=9, margin=0.0),
        MiningSettings(per_anchor=60, rank_to=60),
    ],
)
def test_negatives_are_those_of_the_rules(tiny: Encoder, settings: MiningSettings) -> None:
    margin = 0.05 if settings.margin is None else settings.margin
    expected = twin(tiny, settings, lambda score, best: settings.filtered and score > (1 - margin) * best)
    found = mine_negatives(tiny, PAIRS, TEXTS, settings)
    assert [(one.anchor, one.positive, one.negative, one.rank) for one in found.triplets] == expected
    assert found.counts.texts == 60 and found.counts.anchors == 4


def labelled(encoder: Encoder) -> Calibration:
    """A calibration with some labelled pairs; the label is whether the cosine is high, with noise."""
    random = np.random.default_rng(0)
    pairs = [(TEXTS[left], TEXTS[right]) for left, right in random.integers(0, 60, (300, 2)) if left != right]
    vectors = encoder.encode([text for pair in pairs for text in pair])
    scores = similarity(vectors[::2], vectors[1::2]).diagonal()
    truth = scores + random.normal(0, scores.std(), len(scores)) > np.quantile(scores, 0.7)
    rows = [ScoredPair(*pair, float(is_match), "1") for pair, is_match in zip(pairs, truth, strict=True)]
    return calibrate(encoder, TEXTS, rows)


def test_a_calibrated_probability_is_the_limit(tiny: Encoder) -> None:
    calibration = labelled(tiny)
    settings = MiningSettings(per_anchor=2, max_probability=0.4)
    expected = twin(tiny, settings, lambda score, _: calibration.probabilities([score])[0] > 0.4)
    found = mine_negatives(tiny, PAIRS, TEXTS, settings, calibration)
    assert [(one.anchor, one.positive, one.negative, one.rank) for one in found.triplets] == expected
    assert all(one.probability is not None and one.probability <= 0.4 for one in found.triplets)
    assert found.counts.rejected == len(found.rejected_scores) > 0
    assert (calibration.probabilities(found.rejected_scores) > 0.4).all()
    assert "probability of a match at most 0.4" in found.notes[0]


def test_rejected_and_known_are_counted(minilm: Encoder) -> None:
    pairs = [("Two cats sleep.", "A pair of cats sleeps."), ("A pair of cats sleeps.", "2 cats are sleeping.")]
    texts = ["Two cats are asleep.", "Two dogs sleep.", "The bank cut its rates."]
    found = mine_negatives(minilm, pairs[:1], [*pairs[1], *texts])
    # Without the second pair, its text is a likely match and rejected as one.
    assert [one.negative for one in found.triplets] == ["Two dogs sleep."]
    assert (found.counts.rejected, found.counts.candidates, found.counts.known) == (2, 3, 1)
    both = mine_negatives(minilm, pairs, texts)
    assert (both.counts.rejected, both.counts.known) == (2, 4)


def test_anchors_without_a_negative_are_said(minilm: Encoder) -> None:
    found = mine_negatives(minilm, [("Two cats sleep.", "A bank.")], ["Two cats sleep!"])
    assert found.triplets == () and (found.counts.without, found.counts.fewer) == (1, 1)
    assert any("anchors with fewer than 1 negatives: 1 of 1" in line for line in found.cautions)
    assert found.figures() == {} and found.lines(80) == []


def test_training_reads_what_was_mined(tiny: Encoder, tmp_path: Path) -> None:
    found = mine_negatives(tiny, PAIRS, TEXTS, MiningSettings(per_anchor=2, filtered=False))
    found.write(tmp_path / "mined.csv")
    with (tmp_path / "mined.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["rank"] for row in rows] == [str(one.rank) for one in found.triplets]
    task = TaskConfig("contrastive", views="triplets", train=(Source(str(tmp_path / "mined.csv")),))
    assert task.views == "triplets"
    examples = read_examples(Source(str(tmp_path / "mined.csv")), "triplets")
    assert [one.texts for one in examples] == [(one.anchor, one.positive, one.negative) for one in found.triplets]


def test_positives_of_files() -> None:
    plain, scored = [Pair("a", "b", "1")], [ScoredPair("a", "b", 1.0, "1"), ScoredPair("a", "c", 0.0, "2")]
    assert positives_from(plain, None, "f") == [("a", "b")] == positives_from(scored, 0.5, "f")
    with pytest.raises(UsageError, match="f has scores; give --min-score"):
        positives_from(scored, None, "f")
    with pytest.raises(UsageError, match="f has no scores; leave --min-score out"):
        positives_from(plain, 0.5, "f")
    with pytest.raises(DataError, match="no pair has a score of 2 or more; lower --min-score"):
        positives_from(scored, 2, "f")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"per_anchor": 0}, "--per-anchor is at least 1"),
        ({"rank_from": 5, "rank_to": 2}, "--ranks"),
        ({"rank_from": 0}, "--ranks"),
        ({"max_probability": 1.5}, "--max-probability is between 0 and 1"),
        ({"margin": -0.1}, "--margin"),
        ({"margin": float("nan")}, "--margin"),
        ({"margin": 0.1, "max_probability": 0.5}, "does not go with"),
        ({"margin": 0.1, "filtered": False}, "does not go with"),
    ],
)
def test_wrong_settings(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        MiningSettings(**wrong)


def test_a_probability_needs_a_calibration_with_labels(tiny: Encoder) -> None:
    settings = MiningSettings(max_probability=0.5)
    with pytest.raises(UsageError, match="--max-probability needs a calibration"):
        mine_negatives(tiny, PAIRS, TEXTS, settings)
    with pytest.raises(UsageError, match="labelled pairs"):
        mine_negatives(tiny, PAIRS, TEXTS, settings, calibrate(tiny, TEXTS))


def test_no_pair(tiny: Encoder) -> None:
    with pytest.raises(DataError, match="no pair of an anchor and a positive"):
        mine_negatives(tiny, [])


@pytest.mark.slow
def test_the_filter_lowers_the_share_of_false_negatives(minilm: Encoder, shared_data: Path) -> None:
    """Half of the known duplicates are hidden: they are the false negatives that are looked for."""
    pairs = Dataset("quora/train", data_dir=shared_data, limit=3000).scored_pairs()
    matches = [(pair.left, pair.right) for pair in pairs if pair.score == 1]
    known, hidden = matches[::2], {frozenset(pair) for pair in matches[1::2]}
    texts = [text for pair in pairs for text in (pair.left, pair.right)]
    shares = []
    for filtered in (False, True):
        found = mine_negatives(minilm, known, texts, MiningSettings(3, filtered=filtered))
        shares.append(np.mean([frozenset((one.anchor, one.negative)) in hidden for one in found.triplets]))
    assert shares[1] < shares[0]
