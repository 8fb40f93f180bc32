"""Reasons as plain values: shares that sum to the score, meanings, checked scores, documents without words."""

from __future__ import annotations

import json

import pytest

from likewise.encoder import Encoder
from likewise.integrations.hit_metadata import explained_metadata, hit_metadata
from likewise.sample import sample_sentences
from likewise.search import Index, calibrate

TEXTS = ["The volcano spat ash.", "The bank cut rates.", "A storm closed the bridge.", "Ash fell on the city."]


def test_shares_and_rest_sum_to_the_score(minilm: Encoder) -> None:
    index = Index.from_texts(minilm, TEXTS)
    for hit in index.search("eruption", 3, explain=True):
        found = json.loads(json.dumps(hit_metadata(hit)))
        shares = [word["share"] for word in found["reasons"]]
        assert sum(shares) + found["rest"] == pytest.approx(found["score"], abs=1e-9)
        assert [abs(share) for share in shares] == sorted(map(abs, shares), reverse=True)
        assert all(hit.text[word["start"] : word["end"]] == word["text"] for word in found["reasons"])
        assert found["measure"] == "cosine" and "meaning" not in found and "returned" not in found


def test_a_plain_hit_has_its_score_and_meaning_only(minilm: Encoder) -> None:
    index = Index.from_texts(minilm, TEXTS + sample_sentences()[:30])
    index.calibrate()
    found = hit_metadata(index.search("eruption", 1)[0])
    assert set(found) == {"score", "meaning"} and 0 <= found["meaning"]["percentile"] <= 1


@pytest.mark.slow
def test_hits_of_another_system(minilm: Encoder) -> None:
    calibration = calibrate(minilm, TEXTS + sample_sentences()[:30])
    cosine = float(minilm.similarity("eruption", TEXTS[0])[0, 0])
    rows = explained_metadata(
        minilm, "eruption", [(TEXTS[0], cosine), (None, None), ("  ", 1.0), (TEXTS[1], 0.9)], calibration
    )
    assert [bool(row) for row in rows] == [True, False, False, True]
    assert rows[0]["returned"] == {"score": cosine, "measure": "cosine", "agrees": True}
    assert rows[3]["returned"]["agrees"] is False
    assert rows[0]["meaning"] == calibration.meaning(rows[0]["score"]).to_dict()


def test_nothing_to_explain(minilm: Encoder) -> None:
    assert explained_metadata(minilm, "eruption", []) == []
    assert explained_metadata(minilm, "eruption", [(None, 0.5)]) == [{}]
