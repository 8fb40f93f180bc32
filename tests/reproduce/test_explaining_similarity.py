"""Explaining text similarity: every item is listed, runs on real data and ends in verdicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from likewise.errors import UsageError
from likewise.evaluation.faithfulness import ConservationPanel
from likewise.grammar import Grammar
from likewise.grammar.words import shared_nouns
from likewise.lint.pos_relevance import PosRelevance
from likewise.metrics import Interval
from likewise.reproduce.controls import resampled, same_effect
from likewise.reproduce.explaining_similarity import STUDY
from likewise.reproduce.explaining_similarity_faithfulness import r2_interval, spaced
from likewise.reproduce.explaining_similarity_nouns import DRAWN
from likewise.reproduce.explaining_similarity_relevance import ClassTables
from likewise.reproduce.explaining_similarity_texts import TRIPLETS
from likewise.reproduce.records import draw
from likewise.reproduce.study import Context

ITEMS = [
    "table-1", "aupc", "curves", "rules", "conservation", "nouns", "pos-summed", "pos-averaged", "languages",
    "language-changes", "language-triplets", "biosses-levels", "biosses-words", "attention-scores",
]  # fmt: skip
FIGURES = {
    "curves": {"curves-stsb", "curves-biosses"},
    "conservation": {"conservation"},
    "nouns": {"nouns"},
    "pos-summed": {"summed-mean"},
    "pos-averaged": {"averaged-mean"},
    "language-changes": {"change"},
    "language-triplets": {"triplet"},
    "biosses-levels": {"levels-cls", "levels-mean"},
    "attention-scores": {"own-part", "ledger"},
}
CHINESE = {"table-1", "aupc", "curves", "rules", "conservation", "pos-summed", "pos-averaged", "languages"}


def test_every_item_is_listed_with_its_claim() -> None:
    assert [item.name for item in STUDY.items] == ITEMS
    assert all(item.claim.endswith(".") for item in STUDY.items)


def test_published_values_name_their_place_and_their_model() -> None:
    values = STUDY.published.values
    assert {one.item for one in values} == {"table-1", "aupc", "nouns", "languages"} <= set(ITEMS)
    assert all(one.where and one.model and one.data for one in values)
    areas = STUDY.published.of("aupc")
    for model in ("BERT", "mBERT", "SBERT", "SGPT"):
        for data in ("STSb", "BIOSSES"):
            row = {column: one.value for (name, column), one in areas.items() if name == f"{model}, {data}"}
            assert min(row, key=lambda column: row[column]) == "BiLRP" and len(row) == 4


def test_spaced_rows_have_equal_distances_and_both_ends() -> None:
    assert spaced(range(9), 3) == (0, 4, 8)
    assert spaced(range(3), 5) == spaced(range(3), None) == (0, 1, 2)


def test_a_weighted_statistic_is_resampled_as_rows_are() -> None:
    values = np.random.default_rng(0).normal(1.0, 1.0, 40)
    found = resampled(lambda weights: float(values @ weights / weights.sum()), 40, draws=200, seed=3)
    rng = np.random.default_rng(3)
    drawn = [values[rng.integers(0, 40, 40)].mean() for _ in range(200)]  # the slow twin copies rows
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(drawn, [2.5, 97.5])))
    assert found.value == pytest.approx(values.mean())


@pytest.mark.parametrize(
    ("control", "shown"), [((0.02, 0.01, 0.03), False), ((0.3, 0.2, 0.5), True), ((0.3, -0.1, 0.5), False)]
)
def test_a_control_shows_an_effect_if_it_is_not_clearly_smaller(
    control: tuple[float, float, float], shown: bool
) -> None:
    assert same_effect(Interval(0.5, 0.4, 0.6), Interval(*control)) is shown


def test_r2_is_that_of_the_panel() -> None:
    rng = np.random.default_rng(1)
    panel = ConservationPanel("one", components := rng.normal(size=30), components + 0.1 * rng.normal(size=30))
    found = r2_interval(panel)
    assert found.value == pytest.approx(panel.r2) and found.low < panel.r2 < found.high


def tables(*positive: list[list[float]]) -> ClassTables:
    """Class tables of pairs with one token of each of two classes."""
    none, two = np.zeros((2, 2)), np.zeros(2)
    classes = ("NOUN", "[SEP]")
    return ClassTables.of(
        [PosRelevance(classes, np.array(one), none, np.array([[1.0, 2.0], [2.0, 1.0]]), two, two) for one in positive]
    )


def test_parts_and_leads_of_class_pairs() -> None:
    found = tables([[3.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 2.0]])
    both, second = np.ones(2), np.array([0.0, 1.0])
    assert found.part(("NOUN", "NOUN"), both) == pytest.approx(4 / 7)  # each unordered pair counts once
    assert found.part(("NOUN", "[SEP]"), both) == pytest.approx(1 / 7)
    assert found.margin(("NOUN", "NOUN"), "summed", both) == pytest.approx((4 - 2) / 4)
    assert found.margin(("NOUN", "NOUN"), "summed", second) == pytest.approx((1 - 2) / 2)
    assert found.margin(("NOUN", "[SEP]"), "averaged", both) == pytest.approx((1 / 4 - 4 / 2) / 2)
    assert found.total.positive.tolist() == [[4.0, 1.0], [1.0, 2.0]]


def test_a_class_pair_that_does_not_occur_has_no_part() -> None:
    assert tables([[3.0, 1.0], [1.0, 0.0]]).part(("VERB", "VERB"), np.ones(1)) == 0


@pytest.mark.data
def test_the_built_in_pairs_share_1_2_and_5_nouns(english: Grammar) -> None:
    parsed = [english.parse([pair.left, pair.right]) for pair in DRAWN]
    assert [shared_nouns(*both) for both in parsed] == [1, 2, 5]


def test_each_text_of_a_triplet_has_its_noun() -> None:
    for one in TRIPLETS:
        for name, texts in one.pairs.items():
            assert all(noun in text for noun, text in zip(one.noun_forms(name), texts, strict=True))


@pytest.fixture(scope="module")
def context(shared_data: Path, shared_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Context:
    grammars = {language: str(shared_models / f"{language}_ud") for language in ("en", "de")}
    work = tmp_path_factory.mktemp("work")
    return Context(STUDY.name, "minilm", work, "tiny", data_dir=shared_data, grammars=grammars, threads=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ITEMS)
def test_an_item_runs_and_ends_in_verdicts(name: str, context: Context, tmp_path: Path) -> None:
    found = STUDY.item(name).run(context)
    assert found.verdicts and all(one.interval is not None or one.effect for one in found.verdicts)
    assert found.figures.keys() == FIGURES.get(name, set())
    assert found.tables or found.figures
    drawn = draw(found, tmp_path, name)
    assert all(10_000 < (tmp_path / one.file).stat().st_size < 330_000 for one in drawn.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ITEMS)
def test_a_plain_model_of_another_language(name: str, shared_data: Path, shared_models: Path, tmp_path: Path) -> None:
    model = str(shared_models / "albert-tiny-zh")
    chinese = Context(STUDY.name, model, tmp_path, "tiny", data_dir=shared_data, language="zh", threads=1)
    if name in CHINESE:
        found = STUDY.item(name).run(chinese)
        assert found.verdicts and not any("NOUN" in one.claim for one in found.verdicts)
    elif name != "attention-scores":  # which needs no data
        with pytest.raises(UsageError, match="--language en"):
            STUDY.item(name).run(chinese)
