"""The perturbation test against its definition, one pair and one step at a time; its tests, numbers and drawings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from scipy.stats import ttest_rel, wilcoxon

from ledgers import explain, ledger, words_only
from likewise.data import Pair, read_pairs
from likewise.encoder import Encoder
from likewise.errors import Cancelled, DataError, UsageError
from likewise.evaluation.faithfulness import (
    DEFAULT_VARIANTS,
    VARIANTS,
    Faithfulness,
    PairedTests,
    PerturbationSettings,
    faithfulness,
)
from likewise.evaluation.perturbation import area, pair_steps
from likewise.explain import Explanation
from likewise.explain.linear_map import METHODS
from tiny_models import NoDowncast, spelling_tokenizer, tiny_encoder

PAIRS = [
    Pair("the man is out", "a dog, the", "1"),
    Pair("red", "green is the sea", "2"),
    Pair("the man is out", "the man is out of it", "3"),
]
MASK = 4
STEPS = [round(step / 25, 2) for step in range(26)]


@cache
def bert(seed: int = 0) -> Encoder:
    return tiny_encoder("bert", seed)


@cache
def neo(seed: int = 0) -> Encoder:
    return tiny_encoder("gpt_neo", seed, tokenizer=spelling_tokenizer())


def half_up(number: float) -> int:
    return math.floor(number + 0.5 + 1e-9)


@dataclass
class PlainTest:
    """Written from the definition, with Hugging Face's own layers and plain mean pooling."""

    encoder: Encoder
    mask: int
    known: dict[tuple[int, ...], np.ndarray] = field(default_factory=dict)

    def vector(self, ids: tuple[int, ...]) -> np.ndarray:
        if ids not in self.known:
            with torch.no_grad(), NoDowncast():
                states = self.encoder.model(input_ids=torch.tensor([ids])).last_hidden_state[0]
            self.known[ids] = states.mean(0).numpy()
        return self.known[ids]

    def distance(self, ids: tuple[int, ...], shown: set[int]) -> float:
        """Euclidean, of the partly shown text's pooled vector to the full text's."""
        partly = tuple(id if place in shown else self.mask for place, id in enumerate(ids))
        return math.dist(self.vector(partly), self.vector(ids))

    def curve(self, ids: tuple[int, ...], sums: list[float], special: tuple[bool, ...], rank_special: bool) -> Any:
        """Tokens enter from the highest sum to the lowest; special ones are there from the start, or ranked."""
        free = [place for place in range(len(ids)) if rank_special or not special[place]]
        ranked = sorted(free, key=lambda place: -sums[place])
        always = set(range(len(ids))) - set(free)
        return [self.distance(ids, always | set(ranked[: half_up(step * len(free))])) for step in STEPS]

    def pair(self, explanation: Explanation, rank_special: bool = False) -> list[float]:
        """The mean of both sides' curves."""
        rows = [sum(row) for row in explanation.relevance.tolist()]
        columns = [sum(column) for column in explanation.relevance.T.tolist()]
        sides = []
        for text, sums in ((explanation.left.text, rows), (explanation.right.text, columns)):
            (tokens,) = self.encoder.tokenize([text])
            sides.append(self.curve(tokens.ids, sums, tokens.special, rank_special))
        return [(one + other) / 2 for one, other in zip(*sides, strict=True)]


def trapezoid(curve: list[float]) -> float:
    return sum((first + second) / 2 * 0.04 for first, second in pairwise(curve))


def run(encoder: Encoder, *variants: str, pairs: Any = PAIRS, **settings: Any) -> Faithfulness:
    return faithfulness(encoder, pairs, PerturbationSettings(variants, **settings))


class TestFirstOrder:
    @pytest.mark.parametrize("rank_special", [False, True], ids=["kept", "ranked"])
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_slow_twin(self, seed: int, rank_special: bool) -> None:
        encoder = bert(seed)
        found = run(encoder, "bilrp", rank_special=rank_special)
        twin = PlainTest(encoder, MASK)
        for place, pair in enumerate(PAIRS):
            expected = twin.pair(explain(encoder, pair.left, pair.right), rank_special)
            np.testing.assert_allclose(found.curves["bilrp"][place], expected, atol=1e-4)
            assert found.areas["bilrp"][place] == pytest.approx(trapezoid(expected), abs=1e-4)

    @pytest.mark.parametrize("name", [name for name in VARIANTS if name != "bilrp"])
    def test_each_variant_ranks_by_its_own_relevance(self, name: str) -> None:
        filler = {"reference": "filler"}
        options: dict[str, dict[str, Any]] = {
            "bilrp-filler": filler,
            "bilrp-local": {"bias": "local"}, "bilrp-local-filler": {"bias": "local"} | filler,
            "bilrp-traced": {"bias": "traced"}, "bilrp-traced-filler": {"bias": "traced"} | filler,
            "bilrp-shared": {"bias": "shared"}, "bilrp-shared-filler": {"bias": "shared"} | filler,
            "bilrp-attention-norm": {"rules": ("attention", "norm")},
        }  # fmt: skip
        chosen = options.get(name, {"method": name})
        found = run(bert(), name, pairs=PAIRS[:1], seed=3, steps=4)
        explanation = explain(bert(), PAIRS[0].left, PAIRS[0].right, seed=3, steps=4, **chosen)
        np.testing.assert_allclose(found.curves[name][0], PlainTest(bert(), MASK).pair(explanation), atol=1e-4)

    def test_rank_is_signed(self) -> None:
        """Strongly negative tokens come last, not first."""
        for seed in range(3):
            explanation = explain(bert(seed), PAIRS[0].left, PAIRS[0].right)
            sums = explanation.relevance.sum(1)[1:-1]
            if (np.argsort(-sums) != np.argsort(-np.abs(sums))).any():
                break
        else:
            pytest.fail("no tiny model gives a negative sum; the twin above would not see the sign")

    def test_ranked_special_tokens_change_the_test(self) -> None:
        kept, ranked = run(bert(), "bilrp"), run(bert(), "bilrp", rank_special=True)
        assert (ranked.curves["bilrp"][:, 0] != kept.curves["bilrp"][:, 0]).all()

    @pytest.mark.parametrize("rank_special", [False, True])
    def test_model_without_a_mask_token(self, rank_special: bool) -> None:
        """The stand-in of a tokenizer that swallows blanks is its padding."""
        encoder = neo()
        assert encoder.tokenizer.vocabulary.id_of("mask") is None
        twin = PlainTest(encoder, encoder.tokenizer.vocabulary.id_of("pad"))
        found = run(encoder, "bilrp", "hxp", pairs=PAIRS[:2], rank_special=rank_special)
        for place, pair in enumerate(PAIRS[:2]):
            for method in ("bilrp", "hxp"):
                expected = twin.pair(explain(encoder, pair.left, pair.right, method), rank_special)
                np.testing.assert_allclose(found.curves[method][place], expected, atol=1e-4)

    @pytest.mark.parametrize("settings", [{}, {"rank_special": True}], ids=str)
    def test_curves_end_at_the_full_text(self, settings: dict[str, Any]) -> None:
        found = run(bert(), *DEFAULT_VARIANTS, **settings)
        for curve in found.curves.values():
            assert curve.shape == (3, 26)
            assert (curve[:, -1] == 0).all() and (curve[:, 0] > 0.1).all()
        starts = np.stack([curve[:, 0] for curve in found.curves.values()])
        assert (starts == starts[0]).all(), "before any token has come, all methods stand at the same place"

    def test_normalize_does_not_count(self) -> None:
        """The distance is of vectors before any Normalize; cosine relevance ranks the same."""
        raw, unit = run(bert(), "bilrp"), run(bert().with_pooling(normalize=True), "bilrp")
        np.testing.assert_allclose(raw.curves["bilrp"], unit.curves["bilrp"], atol=1e-6)

    def test_windows_do_not_show(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = run(bert(), "bilrp", "random", second_order=True)
        monkeypatch.setattr("likewise.evaluation.faithfulness.WINDOW", 2)
        cut = run(bert(), "bilrp", "random", second_order=True)
        for kind in ("curves", "insertion", "deletion"):
            for name in ("bilrp", "random"):
                np.testing.assert_allclose(getattr(cut, kind)[name], getattr(whole, kind)[name], atol=1e-6)

    def test_texts_without_words(self) -> None:
        """Nothing to hide: the distance is 0 everywhere."""
        found = run(bert(), "bilrp", "random", pairs=[Pair("", "", "1")], second_order=True)
        for curves in (found.curves, found.insertion, found.deletion):
            assert all((curve == 0).all() for curve in curves.values())
        assert found.comparisons()["random"] == PairedTests(0.0, 1.0, 1.0)

    def test_seed_of_random(self) -> None:
        first, again, other = (run(bert(), "random", seed=seed).areas["random"] for seed in (0, 0, 1))
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()

    def test_facts(self, tiny: Encoder) -> None:
        found = run(tiny.with_pooling(pooling="cls"), "bilrp")
        assert (found.model, found.pooling) == (tiny.name, "cls")


class TestSecondOrder:
    def twin(self, explanation: Explanation, deleting: bool, rank_special: bool) -> list[tuple[set[int], set[int]]]:
        """Pairs in the order of their relevance, each bringing both of its tokens (those that are not there yet)."""
        sides = [explanation.left.units, explanation.right.units]
        free = [{place for place, unit in enumerate(units) if rank_special or unit.kind == "text"} for units in sides]
        cells = [(-explanation.relevance[i, j], i, j) for i in sorted(free[0]) for j in sorted(free[1])]
        arrived: list[tuple[int, int]] = []
        for _, row, column in sorted(cells):
            for token in ((0, row), (1, column)):
                if token not in arrived:
                    arrived.append(token)
        steps = []
        for step in STEPS:
            come = set(arrived[: half_up(step * len(arrived))])
            shown: list[set[int]] = []
            for side, units in enumerate(sides):
                always = set(range(len(units))) - free[side]
                new = {place for which, place in come if which == side}
                shown.append(always | (free[side] - new if deleting else new))
            steps.append((shown[0], shown[1]))
        return steps

    @pytest.mark.parametrize("rank_special", [False, True], ids=["kept", "ranked"])
    @pytest.mark.parametrize("deleting", [False, True], ids=["insertion", "deletion"])
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_steps_slow_twin(self, seed: int, deleting: bool, rank_special: bool) -> None:
        cells = np.random.default_rng(seed).normal(size=(6, 9))
        explanation = ledger("one two three four", "a b c d e f g", cells)
        found = pair_steps(explanation, deleting, rank_special)
        assert found == self.twin(explanation, deleting, rank_special)

    def test_by_hand(self) -> None:
        """The pair (two, c) comes first, then (one, c) brings only what is new, then (one, d)."""
        explanation = ledger("one two", "c d", words_only([[0.5, 0.2], [0.9, -0.3]]))
        steps = pair_steps(explanation)
        order = list(dict.fromkeys(steps))
        assert order == [({0, 3}, {0, 3}), ({0, 2, 3}, {0, 3}), ({0, 2, 3}, {0, 1, 3}), ({0, 1, 2, 3}, {0, 1, 3}),
                         ({0, 1, 2, 3}, {0, 1, 2, 3})]  # fmt: skip

    @pytest.mark.parametrize("rank_special", [False, True])
    def test_deletion_is_the_complement(self, rank_special: bool) -> None:
        explanation = explain(bert(), PAIRS[0].left, PAIRS[0].right)
        entering, leaving = (pair_steps(explanation, deleting, rank_special) for deleting in (False, True))
        sizes = len(explanation.left.units), len(explanation.right.units)
        special = [set() if rank_special else {0, size - 1} for size in sizes]
        for come, left in zip(entering, leaving, strict=True):
            for side, size in enumerate(sizes):
                assert come[side] | left[side] == set(range(size))
                assert come[side] & left[side] == special[side]

    def test_a_side_without_free_tokens(self) -> None:
        steps = pair_steps(ledger("", "c d", np.zeros((2, 4))))
        assert steps[0] == ({0, 1}, {0, 3}) and steps[-1] == ({0, 1}, {0, 1, 2, 3})

    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_curves_slow_twin(self, seed: int) -> None:
        encoder, twin = bert(seed), PlainTest(bert(seed), MASK)
        found = run(encoder, "bilrp", pairs=PAIRS[:2], second_order=True)
        for place, pair in enumerate(PAIRS[:2]):
            explanation = explain(encoder, pair.left, pair.right)
            ids = [encoder.tokenize([text])[0].ids for text in (pair.left, pair.right)]
            for curves, deleting in ((found.insertion, False), (found.deletion, True)):
                expected = [
                    np.mean([twin.distance(own, shown) for own, shown in zip(ids, step, strict=True)])
                    for step in self.twin(explanation, deleting, False)
                ]
                np.testing.assert_allclose(curves["bilrp"][place], expected, atol=1e-4)

    def test_ends_of_the_curves(self) -> None:
        found = run(bert(), "bilrp", "random", second_order=True)
        for name in ("bilrp", "random"):
            entering, leaving = found.insertion[name], found.deletion[name]
            assert (entering[:, -1] == 0).all() and (entering[:, 0] > 0.1).all()
            assert (leaving[:, 0] == 0).all() and (leaving[:, -1] > 0.1).all()
            np.testing.assert_allclose(entering[:, 0], leaving[:, -1], atol=1e-6)

    def test_only_where_asked_for(self) -> None:
        found = run(bert(), "bilrp")
        assert found.insertion == {} and found.deletion == {} and "second_order" not in found.tables()


@pytest.fixture
def by_hand() -> Faithfulness:
    """Flat curves of known areas: 8 pairs, three methods."""
    rng = np.random.default_rng(0)
    heights = {"bilrp": rng.uniform(0, 1, 8), "hxp": rng.uniform(0.2, 1.2, 8), "random": rng.uniform(1, 2, 8)}
    flat = {name: np.repeat(height[:, None], 26, axis=1) for name, height in heights.items()}
    return Faithfulness("model", "mean", flat, flat, {name: 2 - curve for name, curve in flat.items()})


class TestNumbers:
    @pytest.mark.parametrize(
        ("height", "expected"), [(lambda x: 0 * x + 2, 2.0), (lambda x: x, 0.5), (lambda x: 4 - 4 * x, 2.0)]
    )
    def test_area(self, height: Callable[[Any], Any], expected: float) -> None:
        assert area(height(np.array([STEPS]))) == pytest.approx([expected], abs=1e-12)

    def test_area_of_a_corner_is_trapezoid(self) -> None:
        curve = np.zeros((2, 26))
        curve[0, 0], curve[1, 10] = 1.0, 1.0
        assert area(curve) == pytest.approx([0.02, 0.04], abs=1e-12)

    def test_paired_tests_are_scipy_s(self, by_hand: Faithfulness) -> None:
        found = by_hand.comparisons()
        own = by_hand.curves["bilrp"][:, 0]
        assert found.keys() == {"hxp", "random"}
        for name, tests in found.items():
            others = by_hand.curves[name][:, 0]
            assert tests.difference == pytest.approx(np.mean(own - others))
            assert tests.wilcoxon == pytest.approx(wilcoxon(own, others).pvalue, rel=1e-9)
            assert tests.t_test == pytest.approx(ttest_rel(own, others).pvalue, rel=1e-9)

    def test_without_bilrp_there_is_nothing_to_compare_with(self) -> None:
        found = run(bert(), "hxp", "random")
        assert found.comparisons() == {}
        assert [row[4:7] for row in found.tables()["methods"].rows] == [(None, None, None)] * 2

    def test_one_pair_gives_no_evidence(self) -> None:
        found = run(bert(), "bilrp", "random", pairs=PAIRS[:1])
        tests = found.comparisons()["random"]
        assert (tests.wilcoxon, tests.t_test) == (1.0, 1.0)
        assert found.to_dict()["methods"]["bilrp"]["deviation"] == 0

    def test_rows_are_best_first(self, by_hand: Faithfulness) -> None:
        table = by_hand.tables()["methods"]
        rows: Any = table.rows
        assert [row[0] for row in rows] == ["bilrp", "hxp", "random"]
        assert all(len(row) == len(table.columns) for row in rows)
        method, n, mean, deviation, difference, p, *_ = rows[1]
        areas = by_hand.curves["hxp"][:, 0]
        assert (method, n) == ("hxp", 8)
        assert mean == pytest.approx(areas.mean()) and deviation == pytest.approx(np.std(areas, ddof=1))
        assert difference == pytest.approx(by_hand.curves["bilrp"][:, 0].mean() - areas.mean())
        assert p == pytest.approx(wilcoxon(by_hand.curves["bilrp"][:, 0], areas).pvalue, rel=1e-9)
        assert table.texts()[1][5] == f"{p:.2g}"

    def test_second_order_rows(self, by_hand: Faithfulness) -> None:
        rows: Any = by_hand.tables()["second_order"].rows
        assert [row[0] for row in rows] == ["bilrp", "hxp", "random"]
        for _, insertion, deletion in rows:
            assert insertion + deletion == pytest.approx(2)

    def test_json(self, by_hand: Faithfulness) -> None:
        found = json.loads(json.dumps(by_hand.to_dict(), allow_nan=False))
        assert found["fractions"] == STEPS and found["n"] == 8
        assert (found["model"], found["pooling"]) == ("model", "mean")
        assert found["methods"].keys() == {"bilrp", "hxp", "random"}
        one = found["methods"]["hxp"]
        assert one["aupc"] == pytest.approx(by_hand.areas["hxp"].mean()) and len(one["curve"]) == 26
        assert found["bilrp_against"]["hxp"].keys() == {"difference", "wilcoxon", "t_test"}
        assert found["second_order"]["random"].keys() == {"insertion", "deletion"}
        assert "second_order" not in run(bert(), "bilrp", pairs=PAIRS[:1]).to_dict()

    def test_html(self, by_hand: Faithfulness) -> None:
        html = by_hand._repr_html_()
        assert html.count("<tr>") == 8 and "bilrp minus it" in html  # methods, and pairs of tokens

    def test_plots(self, by_hand: Faithfulness) -> None:
        drawn = by_hand.plot()
        assert isinstance(drawn, Axes) and len(drawn.lines) == 3
        assert by_hand.plot(drawn) is drawn
        for which, words in (("insertion", "shown"), ("deletion", "masked")):
            ax = by_hand.plot_second_order(which)
            assert isinstance(ax, Axes) and words in ax.get_xlabel()
            expected = (by_hand.insertion if which == "insertion" else by_hand.deletion)["bilrp"].mean(0)
            np.testing.assert_allclose(ax.lines[0].get_ydata(), expected)


class TestUse:
    def test_all_methods_can_be_compared(self) -> None:
        assert set(METHODS) <= set(VARIANTS) and set(DEFAULT_VARIANTS) <= set(VARIANTS)
        assert "integrated-jacobian" not in DEFAULT_VARIANTS, "slow by nature"

    def test_unknown_method(self) -> None:
        with pytest.raises(UsageError, match="unknown method 'lime'; choose from bilrp, hxp"):
            PerturbationSettings(("bilrp", "lime"))

    def test_no_pairs(self) -> None:
        with pytest.raises(DataError, match="at least one pair"):
            faithfulness(bert(), [])

    def test_progress(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0)
        monkeypatch.setattr("likewise.evaluation.faithfulness.WINDOW", 1)
        seen: list[tuple[int, int | None, str]] = []
        settings = PerturbationSettings(("embedding",))
        faithfulness(bert(), PAIRS, settings, lambda *call: seen.append(call))
        assert seen[-1] == (3, 3, "pairs")
        assert {1, 2, 3} <= {done for done, _, _ in seen}
        assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)

    def test_progress_is_heard_within_a_window(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0)
        seen: list[int] = []
        faithfulness(bert(), PAIRS, PerturbationSettings(("bilrp", "hxp")), lambda done, *_: seen.append(done))
        assert any(done < len(PAIRS) for done in seen)

    def test_cut_texts_are_reported_once(self, caplog: pytest.LogCaptureFixture) -> None:
        long = "the man " * 200
        run(bert(), "bilrp", "random", pairs=[*PAIRS, Pair(long, "red", "4"), Pair("red", long, "5")])
        limit = bert().tokenizer.limit
        assert [one.getMessage() for one in caplog.records] == [
            f"cut at the model's limit of {limit} tokens: 1 of 6 texts"
        ]

    def test_cancelled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("likewise.evaluation.faithfulness.WINDOW", 1)

        def cancel(*_: Any) -> None:
            raise Cancelled

        with pytest.raises(Cancelled):
            faithfulness(bert(), PAIRS, PerturbationSettings(("embedding",)), cancel)

    def test_anything_with_two_texts_is_a_pair(self) -> None:
        @dataclass
        class Two:
            left: str
            right: str

        found = run(bert(), "bilrp", pairs=[Two("the man is out", "a dog, the")])
        np.testing.assert_allclose(found.curves["bilrp"][0], run(bert(), "bilrp").curves["bilrp"][0], atol=1e-6)


@pytest.mark.slow
@pytest.mark.data
def test_bilrp_is_the_most_faithful_on_real_pairs(minilm: Encoder, shared_data: Any) -> None:
    """24 fixed pairs of STS-B: what the published comparison found holds here."""
    every = read_pairs("stsb/test", data_dir=shared_data)
    pairs = [pair for pair in every if len(pair.left) + len(pair.right) < 90][::20][:24]
    assert len(pairs) == 24
    found = run(minilm, "bilrp", "hxp", "embedding", "embedding-squared", "random", pairs=pairs)
    means = {name: areas.mean() for name, areas in found.areas.items()}
    assert min(means, key=means.__getitem__) == "bilrp", means
    assert found.comparisons()["random"].wilcoxon < 0.01
