"""The rules of linting, each with a case that it finds and one that it leaves alone; all made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ledgers import ledger, parsed, words_only
from likewise.data import Pair, ScoredPair
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.grammar import ParsedText
from likewise.grammar.contrasts import number_difference, same_word
from likewise.lint.evidence import PairEvidence, ParsedSides, evidence, special_share, stop_share
from likewise.lint.lint import DESCRIPTIONS, LintRules, lint, report, similarity_ranks, wilson

NAMES = ("hand", "hand", "mean")
VERB = {"pos": ["NOUN", "VERB", "NOUN"], "dep": ["nsubj", "root", "obj"], "head": [1, 1, 1]}


def weighed(
    left: ParsedText, right: ParsedText, cells: object, score: float | None = None, name: str = "1", bias: object = None
) -> PairEvidence:
    pair = Pair(left.text, right.text, name) if score is None else ScoredPair(left.text, right.text, score, name)
    return evidence(pair, ledger(left.text, right.text, cells, bias), left, right)  # type: ignore[arg-type]


def plain(similarity: float, score: float | None = None, name: str = "0") -> PairEvidence:
    """A pair that no rule finds."""
    return weighed(parsed("red"), parsed("blue"), words_only([[similarity]]), score, name)


def found(*pairs: PairEvidence, **rules: object) -> list[tuple[str, str]]:
    return [(one.rule, one.id) for one in report(pairs, LintRules(**rules), NAMES).findings]  # type: ignore[arg-type]


def test_nothing_wrong() -> None:
    assert found(plain(0.9), plain(0.1)) == []


def test_special_share() -> None:
    cells = [[0.1, -0.2, 0.1], [0.1, 0.3, 0.0], [0.0, 0.0, 0.1]]
    one = ledger("a", "b", cells, ([0.1, -0.1, 0.0], [0.0, 0.2, 0.0], -0.1))
    assert special_share(one) == pytest.approx((1.1 / 1.4, 0.5 / 1.4))


def test_special_rule() -> None:
    heavy = weighed(parsed("a"), parsed("b"), np.full((3, 3), 0.1))
    assert heavy.special == pytest.approx(8 / 9)
    assert found(heavy) == [("special", "1")]
    assert found(heavy, special_share=0.9) == []
    assert found(weighed(parsed("a"), parsed("b"), words_only([[0.9]]), bias=([0, 0, 0], [0, 0, 0], 0.8))) == []
    assert found(weighed(parsed("a"), parsed("b"), words_only([[0.1]]), bias=([0, 0, 0], [0, 0, 0], -0.8)))


def test_stop_share_deals_each_cell_to_both() -> None:
    positive = np.array([[0.4, 0.2], [0.3, 0.1]])
    assert stop_share(positive, np.array([True, False]), np.array([True, False])) == pytest.approx(0.4 + 0.1 + 0.15)
    assert stop_share(np.zeros((1, 1)), np.array([True]), np.array([True])) == 0.0


def test_stop_word_rule() -> None:
    left = parsed("the fox .", is_stop=[True, False, False], is_punct=[False, False, True])
    right = parsed("the hen .", is_stop=[True, False, False], is_punct=[False, False, True])
    resting = np.diag([0.5, 0.1, 0.1])
    assert found(weighed(left, right, words_only(resting))) == [("stop-words", "1")]
    assert found(weighed(left, right, words_only(np.diag([0.1, 0.6, 0.0])))) == []
    said = report([weighed(left, right, words_only(resting))], LintRules(), NAMES).findings[0].evidence
    assert "86%" in said and "the-the +0.500" in said


def negating(relevance: float, both: bool = False, name: str = "1") -> PairEvidence:
    left = parsed("safe never" if both else "safe", negates=[False, True] if both else [False])
    right = parsed("never safe", negates=[True, False])
    cells = [[relevance, 0.8]] + ([[0.0, 0.0]] if both else [])
    return weighed(left, right, words_only(cells), name=name)


def test_negation_rule() -> None:
    assert found(negating(0.02)) == [("negation", "1")]
    assert found(negating(-0.02)) == [("negation", "1")]
    assert found(negating(-0.3)) == []  # it takes off more than a tenth
    assert found(negating(-0.3), negation_share=0.9) == [("negation", "1")]
    assert found(negating(0.02, both=True)) == []
    assert found(negating(0.02), plain(0.95), plain(0.97)) == []  # not high in this file
    assert found(negating(0.02), plain(0.95), plain(0.97), high_similarity=0.5) == [("negation", "1")]
    said = report([negating(-0.02)], LintRules(), NAMES).findings[0].evidence
    assert said == "'never' only on the right makes -0.020 of 0.780 (-3%)"


def test_number_rule() -> None:
    two, five = (parsed(f"{word} cups", number=[value, None]) for word, value in (("two", "2"), ("five", "5")))
    digits = parsed("2 cups", number=["2", None])
    none = parsed("some cups")
    cells = words_only([[0.1, 0.0], [0.0, 0.7]])
    assert found(weighed(two, five, cells)) == [("number", "1")]
    assert found(weighed(two, digits, cells)) == []
    assert found(weighed(none, none, cells)) == []
    assert found(weighed(two, five, cells), plain(0.9), plain(0.95)) == []
    both, single = report([weighed(two, five, cells), weighed(two, none, cells)], LintRules(), NAMES).findings
    assert both.evidence == "2 against 5, together +0.100 of 0.800"
    assert single.severity == both.severity / 2


@pytest.mark.parametrize(
    ("left", "right", "lacking"),
    [
        (["thirty:38", "-", "eight:38"], ["38:38"], ([], [])),
        (["2.5:2.5", "million:1000000"], ["2,500,000:2500000"], ([], [])),
        (["two:2", "hundred:100"], ["200:200"], ([], [])),
        (["one:1", "man"], ["a", "man"], ([], [])),
        (["1:1", "man"], ["a", "man"], (["1"], [])),
        (["one:1", "man"], ["1:1", "man"], ([], [])),
        (["one:1", "man"], ["eleven:11", "men"], (["1"], ["11"])),
        (["3:3", "and", "3:3"], ["3:3"], (["3"], [])),
        (["6:15"], ["9:40"], (["15"], ["40"])),
    ],
)
def test_number_difference(left: list[str], right: list[str], lacking: tuple[list[str], list[str]]) -> None:
    sides = []
    for written in (left, right):
        split = [word.partition(":") for word in written]
        text = " ".join(word for word, _, _ in split)
        sides.append(parsed(text, number=[value or None for _, _, value in split]))
    assert number_difference(*sides) == lacking


def test_role_rule() -> None:
    cells = words_only([[0.1, 0.0, 0.3], [0.0, 0.2, 0.0], [0.3, 0.0, 0.1]])
    left, right = parsed("fox outwits hound", **VERB), parsed("hound outwitted fox", **VERB)
    left = parsed("fox outwits hound", **VERB, lemma=["fox", "outwit", "hound"])
    right = parsed("hound outwitted fox", **VERB, lemma=["hound", "outwit", "fox"])
    assert found(weighed(left, right, cells)) == [("roles", "1")]
    assert found(weighed(left, left, cells)) == []
    assert found(weighed(left, right, cells), plain(1.1), plain(1.2)) == []
    other = parsed("hound feared fox", **VERB)
    assert found(weighed(left, other, cells)) == []
    said = report([weighed(left, right, cells)], LintRules(), NAMES).findings[0].evidence
    assert "fox and hound swap agent and patient of 'outwit'" in said and "+0.600 of 1.000" in said


def test_passive_is_no_swap() -> None:
    active = parsed("queen thanked carpenter", **VERB)
    passive = parsed(
        "carpenter was thanked by queen",
        pos=["NOUN", "AUX", "VERB", "ADP", "NOUN"],
        dep=["nsubj:pass", "aux:pass", "root", "case", "obl"],
        head=[2, 2, 2, 4, 2],
    )
    assert found(weighed(active, passive, words_only(np.full((3, 5), 0.05)))) == []


def test_obliques_swap_too() -> None:
    labels = {"pos": ["PROPN", "VERB", "ADP", "PROPN"], "dep": ["nsubj", "root", "case", "obl"], "head": [1, 1, 3, 1]}
    left, right = parsed("Ahmed sold to Lucas", **labels), parsed("Lucas sold to Ahmed", **labels)
    chain = {
        "pos": ["NOUN", "VERB", "ADP", "NOUN", "ADP", "NOUN"],
        "dep": ["nsubj", "root", "case", "obl", "case", "nmod"],
        "head": [1, 1, 3, 1, 5, 3],
    }
    first, second = (
        parsed("water flows from lake into river", **chain),
        parsed("water flows from river into lake", **chain),
    )
    assert found(weighed(left, right, words_only(np.full((4, 4), 0.05)))) == [("roles", "1")]
    assert found(weighed(first, second, words_only(np.full((6, 6), 0.02)))) == [("roles", "1")]


def test_matching_rule() -> None:
    left, right = parsed("smoke rose"), parsed("smoke fell")
    matched = weighed(left, right, words_only(np.diag([0.7, 0.1])), 0.2)
    low, high = plain(0.1, 0.0, "2"), plain(0.3, 5.0, "3")
    assert found(matched, low, high) == [("matching", "1")]
    assert found(weighed(left, right, words_only(np.diag([0.7, 0.1])), 4.0), low, high) == []
    assert found(weighed(left, right, words_only(np.diag([0.1, 0.7])), 0.2), low, high) == []
    assert found(matched, low, high, match_share=0.9) == []
    assert found(matched, plain(0.9, 0.0, "2"), plain(0.95, 5.0, "3")) == []
    assert "matching" not in [one.rule for one in report([plain(0.9)], LintRules(), NAMES).counts]


def test_worst_first_and_severity() -> None:
    names = ["1", "2", "3"]
    pairs = [negating(share, name=name) for name, share in zip(names, (0.0, 0.1, -0.01), strict=True)]
    worst = report(pairs, LintRules(high=0.0), NAMES).findings
    assert [(one.id, one.severity) for one in worst] == [("2", 1.0), ("1", 0.5), ("3", 0.0)]


def test_human_scores_soften() -> None:
    two, five = (parsed(word, number=[value]) for word, value in (("two", "2"), ("five", "5")))
    agreed = weighed(two, five, words_only([[0.8]]), 5.0, "1")
    not_agreed = weighed(two, five, words_only([[0.8]]), 0.0, "2")
    worst = report([agreed, not_agreed], LintRules(), NAMES).findings
    assert [(one.id, one.severity) for one in worst] == [("2", 0.5), ("1", 0.0)]


def test_counts() -> None:
    pairs = [negating(0.02), plain(0.1), plain(0.2), plain(0.95)]
    result = report(pairs, LintRules(), NAMES)
    counts = {one.rule: (one.count, one.candidates, one.share.value) for one in result.counts}
    assert list(counts) == [rule for rule in DESCRIPTIONS if rule != "matching"]
    assert counts["negation"] == (1, 1, 0.25) and counts["special"] == (0, 4, 0.0)
    document = result.to_dict()
    assert document["scored"] is False and document["findings"][0]["rule"] == "negation"
    assert document["thresholds"]["high_from"] == pytest.approx(0.51)
    assert len(result.plot().get_yticklabels()) == 5
    assert "never" in result._repr_html_()


@pytest.mark.parametrize(("count", "n"), [(0, 10), (3, 10), (10, 10), (40, 1379)])
def test_wilson(count: int, n: int) -> None:
    from scipy.stats import binomtest

    expected = binomtest(count, n).proportion_ci(0.95, method="wilson")
    interval = wilson(count, n)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert interval.value == count / n


def test_ranks_with_ties() -> None:
    assert similarity_ranks(np.array([0.5, 0.5, 0.1])).tolist() == [0.75, 0.75, 0.0]


def test_wrong_thresholds() -> None:
    with pytest.raises(UsageError, match="--stop-share lies between 0 and 1, got 2"):
        LintRules(stop_share=2)


def test_no_pairs(tiny: Encoder) -> None:
    with pytest.raises(DataError, match="at least one"):
        lint(tiny, [], ParsedSides({}, {}))


@pytest.mark.parametrize(
    ("one", "other"), [("lock", "locks"), ("hugged", "hugs"), ("chase", "chasing"), ("Fox", "fox")]
)
def test_same_word(one: str, other: str) -> None:
    assert same_word(one, other) and same_word(other, one)


@pytest.mark.parametrize(("one", "other"), [("cat", "cattle"), ("is", "it"), ("hospital", "hospice"), ("a", "an")])
def test_other_word(one: str, other: str) -> None:
    assert not same_word(one, other)
