"""Explanations: a ledger on the scale of the similarity, refused where it does not add up; many pairs at once."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.errors import Cancelled, ModelError, UsageError
from likewise.explain import Contributions, Explanation, contributions, explain, explain_many, pairs
from likewise.explain.comparisons import side_by_side
from likewise.explain.explanation import TOLERANCE, ExplainedText, Metadata
from likewise.explain.texts import Unit
from tiny_models import tiny_encoder

LEFT, RIGHT = "The man is out.", "A dog, the man's"


@cache
def bert() -> Encoder:
    return tiny_encoder("bert")


def side(*labels: str) -> ExplainedText:
    units = tuple(Unit(label, place, place + 1, (place,)) for place, label in enumerate(labels))
    return ExplainedText(" ".join(labels), units)


def by_hand(similarity: float, **metadata: Any) -> Explanation:
    """A ledger that sums to 0.5."""
    cells = np.array([[0.3, -0.4], [0.1, 0.05]])
    known = Metadata("bilrp", "model", "mean", "token", **metadata)
    return Explanation(
        side("a", "b"), side("c", "d"), cells, np.array([0.1, 0.05]), np.array([0.02, 0.08]), 0.2, similarity, known
    )


class TestLedger:
    @pytest.mark.parametrize("similarity", ["cosine", "dot"])
    @pytest.mark.parametrize("method", ["bilrp", "integrated-jacobian"])
    def test_entries_are_products_of_contributions(self, similarity: str, method: str) -> None:
        options = {"steps": 3, "granularity": "word"}
        found = explain(bert(), LEFT, RIGHT, method, similarity=similarity, **options)
        left, right = contributions(bert(), [LEFT, RIGHT], method=method, **options)
        lengths = np.linalg.norm(left.vector) * np.linalg.norm(right.vector) if similarity == "cosine" else 1.0
        assert found.similarity == pytest.approx(left.vector @ right.vector / lengths, abs=1e-12)
        assert np.allclose(found.relevance, left.values @ right.values.T / lengths, atol=1e-12)
        assert np.allclose(found.bias_left, left.values @ right.bias / lengths, atol=1e-12)
        assert np.allclose(found.bias_right, right.values @ left.bias / lengths, atol=1e-12)
        assert found.bias_both == pytest.approx(left.bias @ right.bias / lengths, abs=1e-12)
        parts = found.relevance.sum() + found.bias_left.sum() + found.bias_right.sum() + found.bias_both
        assert found.explained == pytest.approx(parts, abs=1e-12)
        assert found.gap == pytest.approx(found.similarity - parts, abs=1e-12)
        assert sum(found.ledger.values()) == pytest.approx(found.similarity, abs=1e-12)

    def test_shares(self) -> None:
        found = explain(bert(), LEFT, RIGHT)
        assert np.allclose(found.left_shares, found.relevance.sum(1) + found.bias_left)
        assert np.allclose(found.right_shares, found.relevance.sum(0) + found.bias_right)
        left, right = contributions(bert(), [LEFT, RIGHT])
        lengths = np.linalg.norm(left.vector) * np.linalg.norm(right.vector)
        assert np.allclose(found.left_shares, left.values @ right.vector / lengths, atol=1e-10)
        whole = found.left_shares.sum() + found.bias_right.sum() + found.bias_both
        assert whole == pytest.approx(found.similarity, abs=1e-10)

    def test_sides_swap(self) -> None:
        found, turned = explain(bert(), LEFT, RIGHT), explain(bert(), RIGHT, LEFT)
        assert np.allclose(found.relevance, turned.relevance.T, atol=1e-12)
        assert np.allclose(found.bias_left, turned.bias_right, atol=1e-12)

    def test_strongest(self) -> None:
        found = by_hand(0.5)
        labels = [(first.text, second.text, value) for first, second, value in found.strongest(3)]
        assert labels == [("a", "d", -0.4), ("a", "c", 0.3), ("b", "c", 0.1)]
        assert len(found.strongest()) == 4

    def test_json(self) -> None:
        found = explain(bert(), LEFT, RIGHT, granularity="word", fold_special=True)
        shown = json.loads(json.dumps(found.to_dict()))
        assert shown["left"]["text"] == LEFT
        assert shown["left"]["units"] == ["[CLS] [SEP]", "The", "man", "is", "out", "."]
        assert shown["left"]["spans"][1:3] == [[0, 3], [4, 7]]
        assert shown["left"]["kinds"] == ["special", *["text"] * 5]
        assert shown["left"]["truncated"] is False
        assert np.array_equal(shown["relevance"], found.relevance)
        assert set(shown["bias"]) == {"left", "right", "both"}
        assert len(shown["bias"]["left"]) == len(shown["left"]["units"])
        assert len(shown["bias"]["right"]) == len(shown["right"]["units"])
        total = np.sum(shown["relevance"]) + sum(shown["bias"]["left"]) + sum(shown["bias"]["right"])
        assert total + shown["bias"]["both"] == pytest.approx(shown["similarity"] - shown["gap"], abs=1e-12)
        named = {"method": "bilrp", "model": "bert", "pooling": "mean", "by": "word", "measure": "cosine"}
        assert {key: shown[key] for key in named} == named

    def test_facts(self) -> None:
        encoder = bert().with_pooling(pooling="cls+mean", layer="first-last")
        metadata = explain(encoder, LEFT, RIGHT, "hxp", similarity="dot").metadata
        assert (metadata.pooling, metadata.layer, metadata.similarity) == ("cls+mean", "first-last", "dot")
        assert (metadata.method, metadata.rules, metadata.complete) == ("hxp", (), False)


class TestRefusal:
    @pytest.mark.parametrize("miss", [2e-4, -2e-4, float("nan"), float("inf")])
    def test_a_complete_ledger_that_misses_is_not_shown(self, miss: float) -> None:
        with pytest.raises(ModelError, match="ledger misses the score.*float32 or float64"):  # noqa: RUF043
            by_hand(0.5 + miss)

    @pytest.mark.parametrize("miss", [0.0, 9e-5, -9e-5])
    def test_within_the_tolerance(self, miss: float) -> None:
        assert by_hand(0.5 + miss).gap == pytest.approx(miss, abs=1e-12)

    def test_an_incomplete_one_is_shown_with_its_gap(self) -> None:
        assert by_hand(0.9, complete=False).gap == pytest.approx(0.4)
        found = explain(bert(), LEFT, RIGHT, "hxp")
        assert abs(found.gap) > 10 * TOLERANCE

    def test_half_precision_is_within_the_tolerance_or_refused(self, tiny_folder: Path) -> None:
        half, whole = (Encoder.load(str(tiny_folder), device="cpu", dtype=dtype) for dtype in ("float16", "float64"))
        refused = 0
        for text in ("the man", "a dog ran out", "it is", "flute and rain"):
            try:
                found = explain(half, text, RIGHT)
            except ModelError:
                refused += 1
            else:
                assert abs(found.gap) <= TOLERANCE
            assert abs(explain(whole, text, RIGHT).gap) < 1e-9
        assert refused, "some ledger in float16 misses by more"

    def test_larger_products_may_miss_by_more(self) -> None:
        """The dot product of long vectors has fewer decimals: the tolerance is relative to their lengths."""
        left, right = (
            Contributions("a", (Unit("a", 0, 1, (0,)),), np.full((1, 2), 1e3), np.zeros(2), np.array([1e3, 1e3 + off]))
            for off in (5e-5, 0.0)
        )
        metadata = Metadata("bilrp", "model", "mean", "token")
        assert pairs.explanation(left, right, replace(metadata, similarity="dot")).gap == pytest.approx(0.05)
        worse = replace(left, vector=np.array([1e3, 1e3 + 1]))
        for measure in ("dot", "cosine"):
            with pytest.raises(ModelError):
                pairs.explanation(worse, right, replace(metadata, similarity=measure))


class TestShowing:
    def test_plots_return_axes(self) -> None:
        plt = pytest.importorskip("matplotlib.pyplot")
        found = explain(bert(), LEFT, RIGHT, granularity="word")
        axes = found.plot()
        assert axes.get_title().startswith("cosine ")
        assert axes.images or axes.collections
        _, own = plt.subplots()
        assert found.plot(own) is own
        assert found.plot_lines(own) is own
        assert found.plot_lines().collections
        assert hasattr(found.plot_both(), "figure")
        plt.close("all")

    def test_html_escapes(self, tmp_path: Path) -> None:
        found = explain(
            bert(), "<script>alert(1)</script> & <b>", '"><img onerror=x>', granularity=([(0, 25)], [(0, 17)])
        )
        for text in (found._repr_html_(), found.to_html()):
            assert "<script>alert" not in text
            assert "<img" not in text
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        path = found.save_html(tmp_path / "new" / "page.html")
        assert path.read_text(encoding="utf-8") == found.to_html()
        assert f"{found.similarity:.4f}" in found.to_html()

    def test_a_row_side_by_side_is_every_pair_under_its_name(self) -> None:
        hostile = "<img src=x onerror=alert(1)>"
        texts = {"en-en": (LEFT, RIGHT), hostile: (hostile, RIGHT)}
        found = side_by_side(bert(), texts, 7)
        shown = found._repr_html_()
        assert hostile not in shown and "<img" not in shown, "texts are told, not obeyed"
        places = [shown.index(words) for words in ("row 7, en-en", "row 7, &lt;img src=x onerror=alert(1)&gt;")]
        drawn = [shown.index(one._repr_html_()) for one in found.explanations.values()]
        assert places[0] < drawn[0] < places[1] < drawn[1], "each name stands above its own pair"

    @pytest.mark.slow
    def test_page_of_the_longest_texts_is_small(self) -> None:
        encoder = tiny_encoder(config={"max_position_embeddings": 512, "hidden_size": 16})
        found = explain(encoder, "the man is out. " * 200, "a dog, the man. " * 200)
        assert found.relevance.shape == (512, 512)
        assert len(found.to_html().encode()) < 300_000

    def test_lone_surrogates_are_shown(self, tmp_path: Path) -> None:
        found = explain(bert(), "a \ud800 b", "the man")
        assert found.save_html(tmp_path / "page.html").exists()
        assert json.loads(json.dumps(found.to_dict()))["left"]["text"] == "a \ud800 b"


@dataclass
class Row:
    left: str
    right: str


PAIRS = [(LEFT, RIGHT), ("a", LEFT), (RIGHT, "the dog"), ("a", "a"), (LEFT, RIGHT), ("", "rain")]


class TestMany:
    @pytest.mark.parametrize(
        ("method", "options"),
        [
            ("bilrp", {}),
            ("bilrp", {"granularity": "word", "similarity": "dot", "fold_special": True}),
            ("bilrp", {"bias": "shared", "left_prompt": "a question: "}),
            ("hxp", {"granularity": "word"}),
            ("integrated-jacobian", {"steps": 2}),
            ("random", {"seed": 3}),
        ],
    )
    @pytest.mark.parametrize("characters", [1, 40, 200_000])
    def test_equal_one_by_one(
        self, method: str, options: dict[str, Any], characters: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pairs, "WINDOW_CHARACTERS", characters)
        together = list(explain_many(bert(), PAIRS, method, **options))
        assert [(found.left.text, found.right.text) for found in together] == PAIRS
        for found, (left, right) in zip(together, PAIRS, strict=True):
            alone = explain(bert(), left, right, method, **options)
            assert np.allclose(found.relevance, alone.relevance, atol=1e-11)
            assert found.similarity == pytest.approx(alone.similarity, abs=1e-11)
            assert found.left.units == alone.left.units
            assert found.metadata == alone.metadata

    def test_rows_with_a_left_and_a_right(self) -> None:
        rows = [Row(left, right) for left, right in PAIRS]
        found = explain_many(bert(), iter(rows))
        assert [one.similarity for one in found] == [one.similarity for one in explain_many(bert(), PAIRS)]

    def test_no_pairs(self) -> None:
        assert list(explain_many(bert(), [])) == []

    @pytest.mark.parametrize("size", [2, 256])
    def test_a_repeated_text_of_a_window_is_computed_once(self, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        computed: list[str] = []
        plain = pairs.contribution_stream

        def watched(encoder: Encoder, texts: Any, *rest: Any) -> Iterator[Any]:
            computed.extend(text.text for text in texts)
            return plain(encoder, texts, *rest)

        monkeypatch.setattr(pairs, "contribution_stream", watched)
        monkeypatch.setattr(pairs, "WINDOW_PAIRS", size)
        monkeypatch.setattr(pairs, "COLUMN_COST", 1e9)
        list(explain_many(bert(), PAIRS))
        windows = [PAIRS[start : start + size] for start in range(0, len(PAIRS), size)]
        assert sorted(computed) == sorted(
            text for window in windows for text in {one for pair in window for one in pair}
        )
        computed.clear()
        explain(bert(), LEFT, LEFT)
        assert computed == [LEFT]
        computed.clear()
        list(explain_many(bert(), [(LEFT, LEFT)], left_prompt="a is: "))
        assert computed == [LEFT, LEFT], "with another prompt it is another text"

    @pytest.mark.slow
    def test_contributions_are_dropped_after_their_last_use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: dict[str, weakref.ref[Contributions]] = {}
        plain = pairs.contribution_stream

        def watched(encoder: Encoder, texts: Any, *rest: Any) -> Iterator[Any]:
            for place, found in plain(encoder, texts, *rest):
                seen[texts[place].text] = weakref.ref(found)
                yield place, found
                del found

        monkeypatch.setattr(pairs, "contribution_stream", watched)
        monkeypatch.setattr(pairs, "WINDOW_PAIRS", 3)
        monkeypatch.setattr(pairs, "COLUMN_COST", 1e9)
        stream = explain_many(bert(), [("a", "the"), ("is", "man"), ("a", "out"), ("dog", "rain")])
        alive = []
        for _ in stream:
            gc.collect()
            alive.append({text for text, found in seen.items() if found() is not None})
        assert alive == [{"a", "the", "is", "man", "out"}, {"a", "is", "man", "out"}, {"a", "out"}, {"dog", "rain"}]

    def test_progress(self) -> None:
        calls: list[tuple[int, int | None, str]] = []
        list(explain_many(bert(), PAIRS, progress=lambda *call: calls.append(call)))
        assert calls[-1] == (len(PAIRS), len(PAIRS), "pairs")
        calls.clear()
        contributions(bert(), [LEFT, RIGHT, LEFT], progress=lambda *call: calls.append(call))
        assert calls[-1] == (2, 2, "texts")

    def test_cancelling(self) -> None:
        def cancel(*_: Any) -> None:
            raise Cancelled

        stream = explain_many(bert(), PAIRS, progress=cancel)
        with pytest.raises(Cancelled):
            next(stream)
        with pytest.raises(Cancelled):
            contributions(bert(), [LEFT], progress=cancel)

    def test_cut_texts_are_reported_once(self, caplog: pytest.LogCaptureFixture) -> None:
        list(explain_many(bert(), [("the man " * 40, "a"), ("the man " * 40, "b")], granularity="word"))
        assert [record.getMessage() for record in caplog.records] == [
            "cut at the model's limit of 40 tokens: 1 of 3 texts"
        ]

    @pytest.mark.parametrize(
        "options", [{"method": "lime"}, {"granularity": "letter"}, {"similarity": "x"}, {"steps": 0}]
    )
    def test_unknown_choices(self, options: dict[str, Any]) -> None:
        with pytest.raises(UsageError):
            list(explain_many(bert(), PAIRS, **options))
