"""Linting a cross-encoder: its shares by token give the evidence that a matrix gives of an encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ledgers import parsed
from likewise.data import Pair, ScoredPair
from likewise.encoder import CrossEncoder
from likewise.explain.cross_encoder import CrossExplanation
from likewise.explain.explanation import ExplainedText, Metadata
from likewise.explain.texts import Unit
from likewise.lint.cross_evidence import cross_evidence
from likewise.lint.evidence import ParsedSides
from likewise.lint.lint import LintRules, lint, report
from tiny_cross_encoders import save_cross_encoder, tiny_classifier

METADATA = Metadata("lrp", "hand", "cls", "token", "logit")


def side(text: str) -> ExplainedText:
    """A token for each word."""
    units, place = [], 0
    for number, word in enumerate(text.split()):
        start = text.index(word, place)
        place = start + len(word)
        units.append(Unit(word, start, place, (number,)))
    return ExplainedText(text, tuple(units))


def shares(
    left: str, right: str, first: list[float], second: list[float], special: float, bias: float
) -> CrossExplanation:
    """An explanation whose logit is what its shares sum to."""
    around = ExplainedText("", (Unit("[CLS]", 0, 0, (99,), "special"),))
    logit = sum(first) + sum(second) + special + bias
    own = np.array(first), np.array(second), np.array([special])
    return CrossExplanation(side(left), side(right), around, *own, bias, logit, logit, "score", METADATA)


def test_evidence_by_hand() -> None:
    left, right = "the dog saw 3 cats", "a dog saw no 4 cats"
    stops = {"is_stop": [True, False, False, False, False]}
    first = parsed(left, **stops, number=[None, None, None, "3", None])
    second = parsed(
        right, is_stop=[True, False, False, True, False, False], number=[None] * 4 + ["4", None],
        negates=[False, False, False, True, False, False],
    )  # fmt: skip
    found = shares(left, right, [0.1, 0.4, 0.2, -0.3, 0.3], [0.2, 0.3, 0.1, -0.5, 0.1, 0.3], 0.6, -1.0)
    one = cross_evidence(Pair(left, right, "1"), found, first, second)
    text = 0.1 + 0.4 + 0.2 + 0.3 + 0.3 + 0.2 + 0.3 + 0.1 + 0.5 + 0.1 + 0.3
    assert one.similarity == pytest.approx(found.logit)
    assert (one.special, one.bias) == pytest.approx((1.6 / (text + 1.6), 1.0 / (text + 1.6)))
    positive = 0.1 + 0.4 + 0.2 + 0.3 + 0.2 + 0.3 + 0.1 + 0.1 + 0.3
    assert one.stops == pytest.approx((0.1 + 0.2) / positive)
    assert one.matches == pytest.approx((0.4 + 0.2 + 0.3 + 0.3 + 0.1 + 0.3) / positive)
    assert [(each.word, each.side, each.relevance) for each in one.negations] == [("no", "right", pytest.approx(-0.5))]
    assert one.numbers == (["3"], ["4"]) and one.number_relevance == pytest.approx(-0.3 + 0.1)
    rules = {finding.rule for finding in report([one], LintRules(special_share=0.3), ("data", "hand", "cls")).findings}
    assert {"special", "number"} <= rules


def test_a_file_of_pairs(tmp_path: Path) -> None:
    model = CrossEncoder.load(save_cross_encoder(tmp_path / "cross", tiny_classifier("bert")), device="cpu")
    texts = ["the cat sat", "the cat did not sit", "a dog ran", "red 3", "red 4"]
    pairs = [ScoredPair(left, right, float(place), str(place)) for place, (left, right) in enumerate(
        [(texts[0], texts[1]), (texts[2], texts[0]), (texts[3], texts[4])])]  # fmt: skip
    known = {text: parsed(text, negates=[word == "not" for word in text.split()]) for text in texts}
    found = lint(model, pairs, ParsedSides(known, known), LintRules(special_share=0.0), "hand")
    assert found.pooling == "cross-encoder" and found.n == 3 and found.scored
    special = [one for one in found.findings if one.rule == "special"]
    assert {one.id for one in special} == {"0", "1", "2"}
    logits = model.logits([(pair.left, pair.right) for pair in pairs])[:, 0]
    assert sorted(one.similarity for one in special) == pytest.approx(sorted(logits.tolist()), abs=1e-5)
