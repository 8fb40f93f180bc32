"""Corrections of vectors against encoders that apply them, and measures against plain double loops."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.data import Dataset, read_scored_pairs
from likewise.encoder import Encoder
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.encoder.similarity import paired_similarity
from likewise.encoder.tokens import Tokenizer
from likewise.errors import Cancelled, DataError, UsageError
from likewise.evaluation.sts import evaluate_sts
from likewise.geometry.isotropy import IsotropyOptions, IsotropyStudy, compare_isotropy, isotropy_task, study_isotropy
from likewise.metrics import bootstrap, spearman
from likewise.results import ResultSet
from likewise.sample import sample_sentences
from likewise.search.evaluation import RetrievalSource, evaluate_retrieval

OPTIONS = IsotropyOptions(dims=(4, 8), ks=(1, 5))
KINDS = {
    "none": None,
    "mean-removal": ("mean-removal", None),
    "standardisation": ("standardisation", None),
    "all-but-the-top, 1 removed": ("all-but-the-top", None),
    "whitening, 16": ("whitening", None),
    "whitening, 8": ("whitening", 8),
    "whitening, 4": ("whitening", 4),
}


def both_sides(file: str = "sample/pairs") -> list[str]:
    return list(dict.fromkeys(text for pair in read_scored_pairs(file) for text in (pair.left, pair.right)))


@pytest.fixture(scope="module")
def study(tiny: Encoder) -> IsotropyStudy:
    return study_isotropy(tiny, isotropy_task(Dataset("sample/pairs"), min_score=3.5), OPTIONS)


@pytest.mark.parametrize("fit", [None, "sample/sentences"], ids=["own texts", "others"])
def test_numbers_are_those_of_encoders_with_the_correction(tiny: Encoder, fit: str | None) -> None:
    found = study_isotropy(tiny, isotropy_task(Dataset("sample/pairs"), fit, 3.5), OPTIONS)
    assert [one.name for one in found.settings] == list(KINDS)
    pairs, task = list(read_scored_pairs("sample/pairs")), RetrievalSource("sample/pairs", min_score=3.5).read()
    fitted_on = tiny.encode(both_sides() if fit is None else list(dict.fromkeys(sample_sentences())))
    for one, how in zip(found.settings, KINDS.values(), strict=True):
        post = None if how is None else fit_postprocessing(how[0], fitted_on, how[1])
        encoder = tiny.with_postprocessing(post)
        sts, retrieval = evaluate_sts(encoder, pairs), evaluate_retrieval(encoder, task, (1, 5))
        assert one.dim == encoder.dimension
        # Two cosines that lie within float32's rounding may change places.
        assert one.spearman.value == pytest.approx(sts.agreement["spearman"].value, abs=5e-4)
        assert one.spearman.low < one.spearman.value < one.spearman.high
        assert [each.value for each in one.recall.values()] == pytest.approx(
            [each.value for each in retrieval.recall.values()], abs=1 / found.metadata["queries"] + 1e-9
        )


def test_baseline_is_the_mean_over_all_pairs_of_texts(study: IsotropyStudy, tiny: Encoder) -> None:
    plain = tiny.encode(both_sides()).astype(np.float64)
    for one, how in zip(study.settings, KINDS.values(), strict=True):
        vectors = plain if how is None else fit_postprocessing(how[0], plain.astype(np.float32), how[1])(plain)
        rows = [row / np.linalg.norm(row) for row in vectors.astype(np.float64)]
        expected = np.mean([left @ right for left, right in itertools.combinations(rows, 2)])
        assert one.baseline == pytest.approx(expected, abs=1e-5)


def test_changes_are_taken_on_the_same_resampled_pairs(study: IsotropyStudy, tiny: Encoder) -> None:
    plain = tiny.encode(both_sides())
    place = {text: row for row, text in enumerate(both_sides())}
    pairs = list(read_scored_pairs("sample/pairs"))
    truth = np.array([pair.score for pair in pairs])
    corrected = fit_postprocessing("whitening", plain, 4)(plain)
    cosines = [
        paired_similarity(each[[place[pair.left] for pair in pairs]], each[[place[pair.right] for pair in pairs]])
        for each in (plain, corrected)
    ]
    random, changes = np.random.default_rng(0), []
    for rows in itertools.chain.from_iterable(random.integers(0, 60, (100, 60)) for _ in range(10)):
        before, after = (spearman(each[rows], truth[rows]) for each in cosines)
        changes.append(after - before)
    last = study.settings[-1]
    assert [last.change.low, last.change.high] == pytest.approx(np.percentile(changes, [2.5, 97.5]).tolist(), abs=2e-3)
    assert last.change.value == pytest.approx(last.spearman.value - study.settings[0].spearman.value, abs=1e-12)
    assert vars(study.settings[0].change) == {"value": 0, "low": 0, "high": 0}
    assert vars(study.settings[0].spearman) == pytest.approx(vars(bootstrap("spearman", cosines[0], truth)), abs=1e-3)


def test_what_corrections_promise(study: IsotropyStudy) -> None:
    found = {one.name: one for one in study.settings}
    assert found["none"].baseline > 0.2 > abs(found["mean-removal"].baseline)
    assert found["mean-removal"].isoscore == pytest.approx(found["none"].isoscore, abs=1e-6)
    assert all(found[name].isoscore == pytest.approx(1, abs=1e-4) for name in KINDS if name.startswith("whitening"))


def test_fitting_on_others_does_not_reach_isotropy_exactly(tiny: Encoder) -> None:
    found = study_isotropy(tiny, isotropy_task(Dataset("sample/pairs"), "sample/sentences"), OPTIONS)
    white = next(one for one in found.settings if one.name == "whitening, 16")
    assert found.settings[0].isoscore < white.isoscore < 0.999


def test_each_text_is_encoded_once(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, seen = Tokenizer.ids, []

    def counting(self: Tokenizer, texts: Any) -> Any:
        seen.extend(texts)
        return ids(self, texts)

    monkeypatch.setattr(Tokenizer, "ids", counting)
    study_isotropy(tiny, isotropy_task(Dataset("sample/pairs"), "sample/sentences"), OPTIONS)
    assert sorted(seen) == sorted({*both_sides(), *sample_sentences()})


def test_json(study: IsotropyStudy, tiny: Encoder) -> None:
    found = study.to_dict()
    about = (found["data"], found["model"], found["pooling"], found["layer"], found["fit"], found["transductive"])
    assert about == ("sample/pairs", tiny.name, "mean", 2, "sample/pairs", True)
    assert (found["n"], found["texts"], found["min_score"], found["skipped"]) == (60, 120, 3.5, 0)
    first, fourth = found["settings"][0], found["settings"][3]
    assert (first["setting"], first["dim"], first["removed"]) == ("none", 16, 0)
    assert (fourth["setting"], fourth["removed"]) == ("all-but-the-top", 1)
    assert list(first["recall"]) == list(first["intervals"]["recall"]) == ["1", "5"]
    assert first["intervals"]["spearman"] == [study.settings[0].spearman.low, study.settings[0].spearman.high]
    assert ResultSet((study, study)).to_dict() == {"results": [found, found]}


def test_plot_has_a_row_per_setting_and_a_series_per_model(study: IsotropyStudy) -> None:
    axes = study.figures()["isotropy"].draw()
    assert [label.get_text() for label in axes.get_yticklabels()] == list(KINDS)
    assert len(axes.figure.axes) == 3 and not axes.figure.legends
    both = ResultSet((study, study)).figures()["isotropy"].draw().figure
    assert all(len(panel.lines) == 2 for panel in both.axes)
    assert len({text.get_text() for text in both.legends[0].get_texts()}) == 2


def test_models_with_other_settings_share_a_figure(tiny: Encoder, study: IsotropyStudy) -> None:
    other = study_isotropy(tiny, isotropy_task(Dataset("sample/pairs")), IsotropyOptions(dims=(2,), ks=(1, 5)))
    labels = [
        label.get_text() for label in IsotropyStudy.figures_of((study, other))["isotropy"].draw().get_yticklabels()
    ]
    assert labels == [*KINDS, "whitening, 2"]


def test_a_notebook_shows_a_table(study: IsotropyStudy) -> None:
    shown = study._repr_html_()
    assert "IsoScore" in shown and "fitted on the same texts (transductive)" in shown and "cannot fill" not in shown


def test_too_few_texts_for_whitening_are_told(tiny: Encoder, tmp_path: Path) -> None:
    rows = [
        f"{first} cat,{second} dog,{score}" for score, (first, second) in enumerate(zip("abcd", "efgh", strict=True))
    ]
    (tmp_path / "few.csv").write_text("\n".join(["sentence1,sentence2,score", *rows, ""]))
    found = study_isotropy(tiny, isotropy_task(Dataset(str(tmp_path / "few.csv"))), OPTIONS)
    assert "8 texts cannot fill 16 dimensions" in found.cautions[0] and "cannot fill" in found._repr_html_()
    # Whitened, the n texts are the corners of a simplex: every two of them have the cosine -1 / (n - 1).
    white = next(one for one in found.settings if one.name == "whitening, 16")
    assert white.baseline == pytest.approx(-1 / 7, abs=1e-5)


class TestOptions:
    def test_default_cuts_are_those_that_cut(self) -> None:
        assert IsotropyOptions().corrections(200)[3:] == [("whitening", None), ("whitening", 128), ("whitening", 64)]
        assert IsotropyOptions().corrections(16)[3:] == [("whitening", None)]
        assert IsotropyOptions(dims=(16, 4, 4)).corrections(16)[3:] == [("whitening", None), ("whitening", 4)]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"dims": (4, 17)}, "whitening can keep 1 to 16 dimensions, not 17"),
            ({"dims": (0,)}, "whitening can keep 1 to 16 dimensions, not 0"),
            ({"remove": 16}, "all-but-the-top can remove 0 to 15 directions, not 16"),
        ],
    )
    def test_numbers_are_checked_before_the_work(
        self, options: dict[str, Any], message: str, tiny: Encoder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Encoder, "encode_with_stats", lambda *_, **__: pytest.fail("encoded"))
        with pytest.raises(UsageError, match=message):
            study_isotropy(tiny, isotropy_task(Dataset("sample/pairs")), IsotropyOptions(**options))

    def test_k_from_1_on(self) -> None:
        with pytest.raises(UsageError, match="k from 1 on, not 0"):
            IsotropyOptions(ks=(0, 1))


class TestSource:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        rows = ["a,b,0", "c,d,4", "e,f,5", "g,h,3.9"]
        Path("pairs.csv").write_text("\n".join(["sentence1,sentence2,score", *rows, ""]))
        Path("texts.txt").write_text("one\ntwo\none\n")
        Path("bad.csv").write_text("sentence1,sentence2,score\na,b,1\nc,,2\nd,e,3\n")

    def test_high_scores_ask(self) -> None:
        task = isotropy_task(Dataset("pairs.csv"))
        assert task.min_score == 4 and list(task.retrieval.queries) == ["d", "f"] and len(task.retrieval.corpus) == 4
        assert len(isotropy_task(Dataset("pairs.csv"), min_score=0).retrieval.queries) == 4
        with pytest.raises(DataError, match="no pair has score >= 9; the highest score is 5"):
            isotropy_task(Dataset("pairs.csv"), min_score=9)

    def test_texts_to_fit_on_come_from_pairs_or_texts(self) -> None:
        assert isotropy_task(Dataset("pairs.csv")).fit_texts is None
        assert isotropy_task(Dataset("pairs.csv"), "pairs.csv").fit_texts == list("abcdefgh")
        assert isotropy_task(Dataset("pairs.csv"), "texts.txt").fit_texts == ["one", "two"]
        with pytest.raises(DataError, match="no data set 'nowhere'"):
            isotropy_task(Dataset("pairs.csv"), "nowhere")

    def test_bad_rows(self) -> None:
        task = isotropy_task(Dataset("bad.csv", skip_bad=True), "bad.csv")
        assert (len(task.pairs), task.skipped, len(task.fit_texts or ())) == (2, 2, 4)
        for name, fit in (("bad.csv", None), ("pairs.csv", "bad.csv")):
            with pytest.raises(DataError, match=r"bad\.csv, line 3, column 'sentence2'"):
                isotropy_task(Dataset(name), fit)

    def test_one_pair_is_too_few(self) -> None:
        Path("one.csv").write_text("sentence1,sentence2,score\na,b,1\n")
        with pytest.raises(DataError, match=r"one\.csv: a correlation needs at least 2 pairs, got 1"):
            isotropy_task(Dataset("one.csv"))


def test_equal_scores_have_no_correlation(tiny: Encoder, tmp_path: Path) -> None:
    (tmp_path / "flat.csv").write_text("sentence1,sentence2,score\na,b,3\nc,d,3\ne,f,3\n")
    found = study_isotropy(tiny, isotropy_task(Dataset(str(tmp_path / "flat.csv"))), OPTIONS)
    assert all(np.isnan(list(vars(one.spearman).values())).all() for one in found.settings)
    assert found.metadata["queries"] == 3


def test_models_are_compared(tiny: Encoder) -> None:
    table = compare_isotropy(isotropy_task(Dataset("sample/pairs")), ["one", "two"], OPTIONS, lambda name: tiny)
    assert len(table.results) == 2 and table.results[0].settings == table.results[1].settings


def test_progress_can_cancel(tiny: Encoder) -> None:
    def cancel(*_: Any) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        study_isotropy(tiny, isotropy_task(Dataset("sample/pairs")), OPTIONS, cancel)
