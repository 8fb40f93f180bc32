"""Occurrences through a model, against plain averages of its hidden states; files, words, limits; what is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.data import Dataset, SenseExample
from likewise.encoder import Encoder
from likewise.errors import Cancelled, DataError, UsageError
from likewise.geometry import sense_study as senses
from likewise.geometry.sense_study import SenseTask, compare_senses, occurrence_vectors, sense_task, study_senses
from likewise.geometry.senses import SenseVectors, sense_geometry
from likewise.results import ResultSet

SENTENCES = {
    "money": ["we rob a bank today", "the bank lends money", "ask the old bank for gold", "a bank near the office"],
    "shore": ["sit on the bank of it", "the green bank by the sea", "fish from the bank", "a bank of mud and sand"],
}


def example(text: str, word: str, sense: str, place: int = 1) -> SenseExample:
    start = text.index(word)
    return SenseExample(text, word, start, start + len(word), sense, str(place))


EXAMPLES = [example(text, "bank", sense) for sense, texts in SENTENCES.items() for text in texts]
EXAMPLES += [example(f"{where} crane", "crane", sense) for where, sense in (("a", "bird"), ("the big", "machine"))]


def plain_vector(encoder: Encoder, one: SenseExample) -> Any:
    """The mean state of the tokens that lie inside the word, text by text."""
    [states] = encoder.states([one.text], attention=False)
    inside = [
        place
        for place, (start, end) in enumerate(states.tokens.offsets)
        if one.start <= start < end <= one.end and not states.tokens.special[place]
    ]
    assert inside
    return states.hidden[:, inside].mean(1)


def test_vectors_are_means_of_the_words_tokens(tiny: Encoder) -> None:
    vectors, whole = occurrence_vectors(tiny, EXAMPLES)
    assert vectors.shape == (3, len(EXAMPLES), 16) and vectors.dtype == np.float32 and whole.all()
    for place, one in enumerate(EXAMPLES):
        assert np.abs(vectors[:, place] - plain_vector(tiny, one)).max() < 1e-5


def test_windows_change_nothing(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, _ = occurrence_vectors(tiny, EXAMPLES)
    monkeypatch.setattr(senses, "WINDOW", 3)
    assert np.abs(occurrence_vectors(tiny, EXAMPLES)[0] - vectors).max() < 1e-5


def test_words_that_were_cut_off_are_left_out_and_counted(tiny: Encoder) -> None:
    far = example("word " * 100 + "bank", "bank", "money")
    task = SenseTask("mine", [*EXAMPLES[:5], far, *EXAMPLES[5:]])
    found, expected = study_senses(tiny, task), study_senses(tiny, SenseTask("mine", EXAMPLES))
    assert (found.cut, expected.cut) == (1, 0) and found.geometry.n == len(EXAMPLES)
    for one, other in zip(found.geometry.layers, expected.geometry.layers, strict=True):
        assert one.within.value == pytest.approx(other.within.value, abs=1e-6)
    with pytest.raises(DataError, match="mine: every word is cut off at the model's limit"):
        study_senses(tiny, SenseTask("mine", [far]))


def test_train_and_test_are_kept_apart(tiny: Encoder) -> None:
    examples, references = EXAMPLES[::2], EXAMPLES[1::2]
    found = study_senses(tiny, SenseTask("mine", examples, references, "other"))
    parts = [
        SenseVectors(occurrence_vectors(tiny, part)[0], [one.word for one in part], [one.sense for one in part])
        for part in (examples, references)
    ]
    expected = sense_geometry(*parts)
    assert found.geometry.n == len(examples) and found.task.train == "other"
    for one, other in zip(found.geometry.layers, expected.layers, strict=True):
        assert one.accuracy == other.accuracy and one.between.value == pytest.approx(other.between.value, abs=1e-6)
    assert found.geometry.baseline == expected.baseline


@pytest.fixture(scope="module")
def study(tiny: Encoder) -> Any:
    return study_senses(tiny, SenseTask("mine", EXAMPLES), nearest="centroid")


def test_json(study: Any, tiny: Encoder) -> None:
    found = study.to_dict()
    assert (found["data"], found["train"], found["model"], found["by"]) == ("mine", None, tiny.name, "centroid")
    assert [layer["layer"] for layer in found["layers"]] == [0, 1, 2]
    measures = {"within", "between", "difference", "accuracy", "macro_accuracy"}
    assert found["layers"][0].keys() == {"layer", "intervals"} | measures
    assert found["layers"][0]["intervals"].keys() == measures
    assert [(word["word"], word["n"], word["senses"]) for word in found["words"]] == [("bank", 8, 2), ("crane", 2, 2)]
    assert found["words"][0]["accuracy"] == study.geometry.words[0].accuracy[found["best_layer"]]
    assert found["n"] == 10 and found["baseline_accuracy"] == 0.5
    assert ResultSet((study,)).to_dict() == found
    assert ResultSet((study, study)).to_dict() == {"results": [found, found]}


def test_plot_has_a_panel_per_model(study: Any) -> None:
    assert study.figures()["senses"].draw().figure.axes[0].get_xlabel() == "layer"
    panels = ResultSet((study, study)).figures()["senses"].draw().figure.axes
    assert len(panels) == 2 and all(len(panel.lines) == 4 for panel in panels)


def test_a_notebook_shows_tables(study: Any) -> None:
    shown = study._repr_html_()
    assert "macro-accuracy" in shown and "crane" in shown and "nearest mean of a sense among" in shown


def test_models_are_compared(tiny: Encoder) -> None:
    table = compare_senses(SenseTask("mine", EXAMPLES), ["one", "two"], load=lambda name: tiny)
    first, second = (repr(one.geometry.layers) for one in table.results)  # nan is no number that equals itself
    assert first == second


def test_a_wrong_way_is_told_before_any_model_is_loaded() -> None:
    with pytest.raises(UsageError, match="unknown way 'far'"):
        compare_senses(SenseTask("mine", EXAMPLES), ["no such model"], nearest="far")


def test_progress_is_told_and_can_cancel(tiny: Encoder) -> None:
    seen: list[tuple[int, int | None, str]] = []
    occurrence_vectors(tiny, EXAMPLES, progress=lambda *call: seen.append(call))
    assert seen[-1] == (10, 10, "texts")

    def cancel(*_: Any) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        occurrence_vectors(tiny, EXAMPLES, progress=cancel)


class TestSource:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        rows = ["a bank,money,bank,1", "the bank,shore,bank,1", "a crane,bird,crane,1", "my bank,money,bank,1"]
        Path("a.csv").write_text("\n".join(["sentence,sense,word,word_index", *rows, "bad,x,bank,7", ""]))
        Path("b.csv").write_text("sentence,sense,word,word_index\nold bank,money,bank,0\none crane,bird,crane,1\n")

    def test_both_files_and_bad_rows(self) -> None:
        task = sense_task(Dataset("a.csv", skip_bad=True), "b.csv")
        assert (len(task.examples), len(task.references or ()), task.skipped, task.misspelt) == (4, 2, 1, 1)
        assert (task.name, task.train) == ("a.csv", "b.csv")
        with pytest.raises(DataError, match=r"a\.csv, line 6, column 'word_index'"):
            sense_task(Dataset("a.csv"))

    def test_words_are_chosen(self) -> None:
        task = sense_task(Dataset("a.csv", skip_bad=True), "b.csv", words=("crane",))
        assert {one.word for one in [*task.examples, *(task.references or ())]} == {"crane"}
        with pytest.raises(DataError, match=r"a\.csv: no word 'apple' \(--words\); there are bank, crane"):
            sense_task(Dataset("a.csv", skip_bad=True), words=("apple",))

    def test_the_limit_is_of_each_word(self) -> None:
        task = sense_task(Dataset("a.csv", skip_bad=True), limit=2)
        assert [one.text for one in task.examples] == ["a bank", "the bank", "a crane"]
        with pytest.raises(UsageError, match="--limit takes a number of occurrences from 1 on, got 0"):
            sense_task(Dataset("a.csv"), limit=0)


@pytest.mark.data
@pytest.mark.slow
def test_a_real_model_tells_real_senses_apart(minilm: Encoder, shared_data: Path) -> None:
    task = sense_task(Dataset("coarsewsd20/test", data_dir=shared_data), "coarsewsd20/train", ("apple", "java"), 40)
    found = study_senses(minilm, task).geometry
    assert found.best.accuracy.value > 0.9 > found.baseline.value
    # Before any attention a word's vector differs by its position only.
    assert abs(found.layers[0].difference.value) < 0.01 < found.layers[-1].difference.low
