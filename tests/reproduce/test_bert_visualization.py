"""The study of the geometry of BERT's layers: effects over layers, published curves, and every item on real data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from likewise.errors import DataError
from likewise.geometry.geometry import ConfidenceBand
from likewise.metrics import Interval
from likewise.reproduce import bert_visualization_layers, running
from likewise.reproduce.bert_visualization import (
    STUDY,
    chance_share,
    first_occurrences,
    mean_share,
    random_occurrences,
    vectors_at,
)
from likewise.reproduce.bert_visualization_layers import (
    NAMED,
    Claim,
    control_of,
    corpus,
    last_step,
    layers,
    rise,
    rise_before_last,
    spaced,
)
from likewise.reproduce.bert_visualization_training import Training, over_seeds
from likewise.reproduce.records import Record
from likewise.reproduce.running import Plan, reproduce
from likewise.reproduce.study import Context
from likewise.reproduce.verdicts import FAILS, HOLDS

ITEMS = (
    "baseline", "self-similarity", "intra-sentence", "mev", "layer-12", "biased-data", "frozen-layers", "contrastive",
)  # fmt: skip
LAYERS = 13
CURVE = np.array([0.1, 0.2, 0.4, 0.3, 0.25])
BAND = ConfidenceBand(CURVE, CURVE - 0.01, CURVE + 0.02)


def test_the_study_has_all_items() -> None:
    assert tuple(item.name for item in STUDY.items) == ITEMS


def test_published_curves_have_all_layers_and_agree() -> None:
    curves: dict[tuple[str, str], list[float]] = {}
    for one in STUDY.published.values:
        curves.setdefault((one.item, one.column), []).append(one.value)
    assert {len(curve) for (item, _), curve in curves.items() if item not in ("mev", "layer-12")} == {LAYERS}
    assert len(curves["mev", "TruncatedSVD"]) == LAYERS - 1
    raw, base = (np.array(curves[name, name]) for name in ("self-similarity", "baseline"))
    np.testing.assert_allclose(raw - base, curves["self-similarity", "adjusted"], atol=1e-9)
    last = STUDY.published.of("layer-12")
    for row, item, column in (
        ("baseline", "baseline", "baseline"),
        ("self-similarity", "self-similarity", "self-similarity"),
        ("self-similarity, adjusted", "self-similarity", "adjusted"),
        ("intra-sentence, adjusted", "intra-sentence", "adjusted"),
    ):
        stored = [last[row, name].value for name in ("layer before the last", "last layer")]
        assert stored == curves[item, column][-2:]


def test_a_rise_is_that_of_the_least_squares_line() -> None:
    for last in (2, 3, 4):
        slope = np.polyfit(np.arange(last + 1), CURVE[: last + 1], 1)[0]
        assert rise(BAND, last).value == pytest.approx(slope * last)
    assert rise(BAND) == rise(BAND, 4)
    assert rise_before_last(BAND) == rise(BAND, 3)
    assert last_step(BAND).value == pytest.approx(-0.05)


def test_the_ends_of_an_effect_hold_for_all_values_between_the_ends_of_the_layers() -> None:
    rng, found = np.random.default_rng(0), rise(BAND)
    drawn = rng.uniform(BAND.low, BAND.high, (2000, len(CURVE)))
    drawn = np.vstack([drawn, np.where(np.arange(5) < 2, BAND.low, BAND.high)])
    effects = [rise(ConfidenceBand.without_interval(line)).value for line in drawn]
    assert found.low <= min(effects) and max(effects) <= found.high + 1e-12
    assert max(effects) == pytest.approx(found.high)  # the last line has the layers' ends that raise the line most


def test_a_control_needs_the_side_and_half_of_the_size() -> None:
    measured = Interval(0.4, 0.3, 0.5)
    assert control_of("c", Interval(0.2, 0.1, 0.3), measured).shows_it
    assert not control_of("c", Interval(0.1, 0.05, 0.15), measured).shows_it
    assert not control_of("c", Interval(0.2, -0.1, 0.5), measured).shows_it
    assert not control_of("c", Interval(0.4, 0.3, 0.5), Interval(-0.4, -0.5, -0.3), is_above=False).shows_it
    grows = Claim("It grows.", "rise", rise)
    flat = ConfidenceBand(np.zeros(5), np.full(5, -0.01), np.full(5, 0.01))
    assert grows.verdict(BAND, flat, None).verdict == HOLDS
    assert grows.verdict(BAND, BAND, None).verdict == FAILS
    assert "+0.160" in grows.verdict(BAND, None, BAND).effect


def test_rows_at_equal_distances() -> None:
    assert spaced("abcdefg", 7) == spaced("abcdefg", None) == list("abcdefg")
    assert spaced("abcdefg", 3) == ["a", "c", "e"]


def test_ends_over_seeds_hold_for_each() -> None:
    found = over_seeds([Interval(1.0, 0.0, 2.0), Interval(3.0, 2.5, 3.5)])
    assert found == Interval(2.0, 0.0, 3.5)


def test_a_share_has_an_interval_over_contexts() -> None:
    rng = np.random.default_rng(1)
    vectors = np.ones((3, 20, 8)) + rng.normal(0, 0.1, (3, 20, 8))
    found = mean_share(vectors)
    assert found.low < found.value < found.high and 0.95 < found.value < 1.0
    wide = mean_share(vectors[:, :5])
    assert wide.high - wide.low > found.high - found.low


def test_fewer_random_words_share_more() -> None:
    pool = np.random.default_rng(2).normal(0, 1, (3, 100, 16))
    few, many = chance_share(pool, 5), chance_share(pool, 50)
    assert few.low > many.high and chance_share(pool, 500).value == pytest.approx(chance_share(pool, 100).value)


def test_occurrences_of_words() -> None:
    texts = ["Go, go!", "We do not go.", "A goat.", "..."]
    assert first_occurrences(texts, "go") == [("Go, go!", 0), ("We do not go.", 3)]
    assert [text for text, _ in random_occurrences(texts)] == texts[:3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One folder for all items, which share what they compute."""
    yield tmp_path_factory.mktemp("reproduced")
    bert_visualization_layers._layers.cache_clear()


def run(item: str, model: str, folder: Path, data: Path, language: str = "en") -> Record:
    plan = Plan([STUDY.chosen([item])], [model], "tiny", data_dir=data, threads=1, language=language)
    [found] = reproduce(plan, folder)
    assert isinstance(found, Record), found
    return found


@pytest.mark.slow
@pytest.mark.parametrize("item", ITEMS)
def test_each_item_ends_in_verdicts(
    item: str, folder: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PROBE_SECONDS", 0.01)
    found = run(item, "minilm", folder, shared_data)
    assert found.verdicts and found.tables and found.figures and "Stand-in" in found.stand_in
    for figure in found.figures.values():
        assert (folder / STUDY.name / figure.file).stat().st_size < 150_000
    for verdict in found.verdicts:
        assert verdict.interval is not None and np.isfinite(verdict.interval.value)


@pytest.mark.slow
@pytest.mark.parametrize("item", ["baseline", "mev", "contrastive"])
def test_a_model_that_was_never_fine_tuned(
    item: str, folder: Path, shared_data: Path, shared_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PROBE_SECONDS", 0.01)
    found = run(item, str(shared_models / "albert-tiny-zh"), folder, shared_data, "zh")
    assert found.verdicts and "never fine-tuned" in found.stand_in
    assert not any("contrastive already" in note for note in found.notes)


@pytest.mark.slow
def test_vectors_of_a_word_are_those_of_the_geometry(folder: Path, shared_data: Path) -> None:
    context = Context(STUDY.name, "minilm", folder, "tiny", data_dir=shared_data, threads=1)
    found, texts = layers(context).words, list(corpus(context))
    for index, word in enumerate(NAMED["en"]):
        assert found.words[index] == word
        vectors = vectors_at(context, first_occurrences(texts, word))
        assert vectors.shape[1] == found.contexts[index]
        assert mean_share(vectors).value == pytest.approx(float(found.variance[0, 1:, index].mean()), abs=1e-5)


@pytest.mark.slow
def test_the_corpus_has_each_text_once_and_the_named_words(shared_data: Path, tmp_path: Path) -> None:
    context = Context(STUDY.name, "minilm", tmp_path, "tiny", data_dir=shared_data)
    counts = corpus(context)
    assert 150 <= len(counts) <= 150 + 3 * 8 and counts.total() > len(counts)
    with pytest.raises(DataError):
        corpus(Context(STUDY.name, "minilm", tmp_path, "tiny", data_dir=tmp_path))


def test_rows_of_another_language_have_its_files_and_no_labels(tmp_path: Path) -> None:
    context = Context(STUDY.name, "minilm", tmp_path, seeds=2, language="zh")
    for preset, names in (("biased", {"no bias", "high scores only"}), ("contrastive", {"unsupervised"})):
        rows = Training(context, "x").rows(preset)
        assert {row.name for row in rows} == names and {row.config.seed for row in rows} == {1, 2}
        files = {source.file for row in rows for task in row.config.tasks for source in (*task.train, *task.test)}
        assert files == {"mstsb/zh_train", "mstsb/zh_test"}
