"""``evaluate alignment``: methods against people's links."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.data import AlignedPair, Dataset, WordLink, read_alignments
from likewise.encoder import Encoder
from likewise.errors import Cancelled, DataError, UsageError
from likewise.evaluation.alignment import AlignmentResult, compare_alignments, evaluate_alignment, text_inputs
from likewise.evaluation.link_metrics import roc_auc
from likewise.explain.word_scores import Ledger, method_named, words_of

FAST = ("context", "layer-0", "layer-1", "equal-words", "random")


def pair(left: str, right: str, *links: tuple[list[int], list[int], str]) -> AlignedPair:
    given = tuple(WordLink(tuple(one), tuple(other), kind) for one, other, kind in links)
    return AlignedPair(tuple(left.split()), tuple(right.split()), given, "1")


PAIRS = [
    pair("the man is out", "a man left .", ([0, 1], [0, 1], "EQUI"), ([2, 3], [2], "SIMI"), ([], [3], "NOALI")),
    pair("a dog ran", "the sea is blue", ([0], [0], "EQUI"), ([1, 2], [], "NOALI"), ([], [1, 2, 3], "NOALI")),
    pair("prices rise", "prices fall", ([0], [0], "EQUI"), ([1], [1], "OPPO")),
    pair("red", "green", ([0], [], "NOALI"), ([], [0], "NOALI")),
]


@pytest.fixture(scope="module")
def result(tiny: Encoder) -> AlignmentResult:
    return evaluate_alignment(tiny, PAIRS, "own", {"train": PAIRS[:3]}, FAST)


def test_values_are_those_of_each_pair(tiny: Encoder, result: AlignmentResult) -> None:
    for name in ("context", "layer-1"):
        method = method_named(tiny, name)
        for index, one in enumerate(PAIRS):
            scores = method.between(*words_of(tiny, text_inputs(one), [method.source])[method.source])
            np.testing.assert_allclose(result.values[name]["auc"][index], roc_auc(scores, one.linked()), atol=1e-9)
    assert (
        np.isnan(result.values["context"]["auc"][3])
        and "pairs without links, which have no AUC: 1" in result.cautions[0]
    )


def test_the_method_is_the_best_on_train(tiny: Encoder, result: AlignmentResult) -> None:
    means = {name: evaluate_alignment(tiny, PAIRS[:3], methods=[name]).means(name)["auc"].value for name in FAST}
    assert result.chosen == max(means, key=lambda name: means[name])
    assert evaluate_alignment(tiny, PAIRS, methods=FAST).chosen == "context"


def test_json(result: AlignmentResult) -> None:
    found = json.loads(json.dumps(result.to_dict()))
    assert found["n"] == 4 and found["chosen"] == result.chosen and found["train"] == ["train"]
    for name in FAST:
        assert {"auc", "ap", "top1", "f1", "intervals", "types"} <= found["methods"][name].keys()
    assert found["best_layer"] in ("layer-0", "layer-1")
    assert set(found["differences"]) == {"unmatched", "unmatched or changed", "no equal word"}


def test_types_are_measured_against_pairs_without_a_link(result: AlignmentResult) -> None:
    assert np.isfinite(result.kinds["equal-words"]["SIMI"]).tolist() == [True, False, False, False]
    assert result.kinds["equal-words"]["OPPO"][2] == pytest.approx(0.5)


def test_words_that_differ_without_punctuation(result: AlignmentResult) -> None:
    one = result.detections["no equal word"]
    assert one.words == 20  # 21, of which one is a full stop
    # 5, 7, 2 and 2 words of the pairs have no equal word; 5, 2 and 2 of them have no link, or one of type OPPO.
    assert one.recall == 1.0 and one.precision == pytest.approx(9 / 16)


@pytest.mark.slow
def test_paired_tests(minilm: Encoder) -> None:
    result = evaluate_alignment(minilm, PAIRS * 4, methods=("context", "random"))
    test = result.tests()["random"]
    values = [result.values[name]["auc"] for name in ("context", "random")]
    assert test.difference.value == pytest.approx(float(np.nanmean(values[0] - values[1])))
    assert 0 <= test.wilcoxon <= 1 and "context" not in result.tests()


def test_tables_and_figure(result: AlignmentResult) -> None:
    tables = result.tables()
    aucs = [row[2].value for row in tables["methods"].rows]
    assert len(aucs) == len(FAST) and aucs == sorted(aucs, reverse=True)
    assert result.figures()["alignment"].draw().get_yticklabels()


@pytest.mark.parametrize(
    ("methods", "words"), [(["none"], "unknown method 'none'; choose from context"), (["layer-9"], "unknown method")]
)
def test_unknown_methods(tiny: Encoder, methods: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        evaluate_alignment(tiny, PAIRS, methods=methods)


def test_files_that_do_not_fit(tiny: Encoder) -> None:
    with pytest.raises(DataError, match="at least 2 pairs, got 1"):
        evaluate_alignment(tiny, PAIRS[:1])
    with pytest.raises(UsageError, match="is a train file and a test file"):
        compare_alignments(tiny, [Dataset("a.jsonl")], [Dataset("a.jsonl")])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["headlines_test", "images_test"])
def test_the_default_is_above_every_single_layer(minilm: Encoder, shared_data: Path, name: str) -> None:
    pairs = list(read_alignments(f"ists/{name}", data_dir=shared_data))
    layers = [f"layer-{layer}" for layer in range(7)]
    result = evaluate_alignment(minilm, pairs, name, methods=["context", *layers])
    assert result.chosen == "context" and result.best_layer is not None
    test = result.tests()[result.best_layer]
    assert test.difference.low > 0.05 and test.wilcoxon < 1e-20
    assert result.means("context")["auc"].value > 0.88


@pytest.mark.slow
@pytest.mark.parametrize("name", ["headlines_test", "images_test"])
def test_another_encoder_agrees(e5: Encoder, shared_data: Path, name: str) -> None:
    pairs = list(read_alignments(f"ists/{name}", data_dir=shared_data))[:150]
    result = evaluate_alignment(e5, pairs, name, methods=["context", *(f"layer-{layer}" for layer in range(13))])
    assert result.best_layer is not None and result.tests()[result.best_layer].difference.low > 0.03


def test_notes_say_what_was_tuned_where(tiny: Encoder, result: AlignmentResult) -> None:
    assert "tuned on train." in result.notes[0] and f"Chosen: {result.chosen}" in result.notes[0]
    alone = evaluate_alignment(tiny, PAIRS, methods=["context"])
    assert "tuned on the other half of the pairs" in alone.notes[0] and "not among the methods" in alone.notes[0]


def test_a_stopped_run_goes_on(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    computed, most = 0, 2

    def counted(encoder: Encoder, texts: Any, sources: Any) -> Any:
        nonlocal computed
        wanted = set(sources)
        computed += sum(isinstance(source, Ledger) for source in wanted)
        if computed > most:
            raise Cancelled
        return words_of(encoder, texts, wanted)

    monkeypatch.setattr("likewise.evaluation.alignment.words_of", counted)
    monkeypatch.setattr("likewise.evaluation.alignment.WINDOW", 1)
    with pytest.raises(Cancelled):
        evaluate_alignment(tiny, PAIRS, methods=["bilrp-local", "layer-1"])
    computed, most = 0, len(PAIRS)
    found = evaluate_alignment(tiny, PAIRS, methods=["bilrp-local", "layer-1"])
    assert computed == len(PAIRS) - 2, "finished windows are read from the cache"
    again = evaluate_alignment(tiny, PAIRS, methods=["bilrp-local", "layer-1"])
    assert computed == len(PAIRS) - 2
    assert json.dumps(again.to_dict()) == json.dumps(found.to_dict())
