"""The study of attention clusters: its items, and its statistics by slow twins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

from likewise.attention.significance import cluster_test, eta_squared
from likewise.errors import UsageError
from likewise.reproduce.attention_clusters import STUDY
from likewise.reproduce.attention_clusters_figures import neighbour_excess
from likewise.reproduce.attention_clusters_maps import beyond, jackknifed
from likewise.reproduce.attention_clusters_training import file_of, pooling_config
from likewise.reproduce.attention_clusters_words import SYNONYMS, homonym_item, homonym_pairs, synonym_pairs
from likewise.reproduce.records import draw
from likewise.reproduce.study import Context

FIGURES = [f"figure-{number}" for number in range(3, 12)]
TABLES = ["table-1", "table-3", "autoencoder", "table-2", "table-4", "table-5"]
NAMES = [*TABLES, *FIGURES, "dimensions", "homonyms", "synonyms"]
DRAWN = ("table-1", "autoencoder", "table-5", *FIGURES)


def chinese(folder: Path) -> Context:
    return Context(STUDY.name, "minilm", folder, "tiny", language="zh")


def test_the_items_are_those_of_the_study() -> None:
    assert [item.name for item in STUDY.items] == NAMES
    assert {one.item for one in STUDY.published.values} <= set(NAMES)
    assert "10.3233/JIFS-219359" in STUDY.published.citation


def test_another_language_reads_its_own_files_and_has_no_homonyms(tmp_path: Path) -> None:
    context = chinese(tmp_path)
    [task] = pooling_config(context, "bilstm", seed=3).tasks
    assert [source.file for source in (*task.train, *task.dev, *task.test)] == [
        file_of(context, part) for part in ("train", "dev", "test")
    ]
    assert task.train[0].file == "mstsb/zh_train" and task.pooling == "bilstm"
    with pytest.raises(UsageError, match="English"):
        homonym_item(context)


def test_eta_squared_is_that_of_the_whole_test() -> None:
    rng = np.random.default_rng(0)
    values, labels = rng.normal(size=40), rng.integers(-1, 4, 40)
    assert eta_squared(values, labels) == cluster_test(values, labels).eta2


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = np.random.default_rng(1).normal(2, 3, 15)
    found = jackknifed(lambda rows: float(values[rows].mean()), len(values))
    reach = t.ppf(0.975, 14) * values.std(ddof=1) / np.sqrt(15)
    assert found.value == pytest.approx(values.mean())
    assert found.high - found.value == pytest.approx(reach) and found.value - found.low == pytest.approx(reach)


@pytest.mark.slow
def test_an_effect_that_is_not_there_is_seldom_found() -> None:
    found = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        values, labels = rng.normal(size=80), rng.integers(0, 6, 80)
        found += jackknifed(lambda rows: eta_squared(values[rows], labels[rows]), 80).low > 0  # noqa: B023
    assert found <= 8


def test_neighbours_by_a_plain_loop() -> None:
    rng = np.random.default_rng(2)
    points, group = rng.normal(size=(30, 2)), rng.integers(0, 3, 30)
    marks = [group == 0, group == 1]
    kept = [index for index in range(30) if group[index] < 2]
    count = min(5, *(int(mark.sum()) - 1 for mark in marks))
    expected = []
    for index in kept:
        others = [other for other in kept if other != index]
        nearest = sorted(others, key=lambda other: float(np.linalg.norm(points[other] - points[index])))[:count]
        same, chance = (np.mean([group[other] == group[index] for other in some]) for some in (nearest, others))
        expected.append(same - chance)
    assert neighbour_excess(points, marks) == pytest.approx(expected)


def test_beyond_chance_is_measured_from_the_range_of_chance() -> None:
    found = beyond(2.0, np.linspace(0, 1, 1001))
    assert (found.value, found.low, found.high) == pytest.approx((1.5, 1.025, 1.975))


def test_shuffled_senses_keep_the_number_of_pairs_of_each_kind() -> None:
    words = homonym_pairs(3)
    assert len(words.pairs) == 3 * 66 == len(words.kinds) and words.kinds.sum() == 36 + 36 + 48
    drawn = words.shuffled(np.random.default_rng(0))
    assert drawn.sum() == words.kinds.sum() and (drawn != words.kinds).any()


def test_synonyms_are_swapped_within_their_sentence() -> None:
    words = synonym_pairs()
    assert all(len({word, same, other}) == 3 and "{}" in text for text, word, same, other in SYNONYMS)
    assert words.pairs[1] == ("They bought a big house near the lake.", "They bought a large house near the lake.")
    drawn = words.shuffled(np.random.default_rng(0)).reshape(-1, 2)
    assert (drawn.sum(1) == 1).all() and 0 < drawn[:, 0].sum() < len(drawn)


@pytest.fixture(scope="module")
def context(shared_data: Path, english_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Context:
    work = tmp_path_factory.mktemp("work")
    grammars = {"en": str(english_folder)}
    return Context(STUDY.name, "minilm", work, "tiny", data_dir=shared_data, grammars=grammars, threads=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_item_ends_in_a_verdict_or_a_note(context: Context, name: str, tmp_path: Path) -> None:
    found = STUDY.item(name).run(context)
    assert found.verdicts or found.notes
    assert all(one.claim.endswith(".") for one in found.verdicts)
    assert bool(draw(found, tmp_path, name)) == (name in DRAWN)
    texts = " ".join(str(cell) for table in found.tables.values() for row in table.rows for cell in row)
    pairs = context.dataset("stsb/test").scored_pairs()
    assert not any(pair.left in texts for pair in pairs)
