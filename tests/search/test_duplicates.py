"""Duplicates of a corpus: pairs, groups, copies, flags, and the corpus without them."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.data import Columns, Dataset
from likewise.encoder import Encoder
from likewise.encoder.similarity import unit
from likewise.encoder.stream import open_vectors
from likewise.errors import Cancelled, DataError, UsageError
from likewise.grammar import Grammar
from likewise.sample import sample_sentences
from likewise.search import cached_vectors as vectors_module
from likewise.search import similar_pairs as pairs_module
from likewise.search.calibrated import CalibratedThreshold, chosen_threshold, own_calibration
from likewise.search.calibration import calibrate
from likewise.search.duplicate_report import CorpusRows, Duplicates, numbered
from likewise.search.duplicates import DuplicateSettings, check_keep, find_duplicates, write_without_duplicates
from likewise.search.index import IndexSettings
from likewise.search.indexed_files import cached_index
from likewise.storage import user_cache

PLAIN = DuplicateSettings(explain=0)


def brute_force(encoder: Encoder, texts: list[str], threshold: float) -> set[tuple[str, str]]:
    """Every pair of distinct texts by a full matrix, and each further copy with the first one."""
    scaled = unit(encoder.encode(texts)).astype(np.float64)
    scores = scaled @ scaled.T
    first = {text: number for number, text in reversed(list(enumerate(texts)))}
    found = set()
    for left, right in itertools.combinations(range(len(texts)), 2):
        if texts[left] == texts[right]:
            is_pair = first[texts[right]] == left
        else:
            is_pair = scores[left, right] >= threshold and all(first[texts[one]] == one for one in (left, right))
        found |= {(str(left + 1), str(right + 1))} if is_pair else set()
    return found


def newest_folder() -> Path:
    return max((user_cache() / "vectors").iterdir(), key=lambda path: path.stat().st_mtime)


def newest_vectors() -> np.ndarray:
    return open_vectors(newest_folder())[0]


def ids(found: Duplicates) -> set[tuple[str, str]]:
    return {(pair.left, pair.right) for pair in found.pairs}


@pytest.mark.parametrize("threshold", [0.5, 0.9, 0.99])
def test_finds_what_brute_force_finds(tiny: Encoder, threshold: float) -> None:
    texts = [*sample_sentences()[:80], *sample_sentences()[:5], sample_sentences()[0]]
    found = find_duplicates(tiny, texts, threshold, DuplicateSettings(explain=0, max_pairs=10_000))
    assert ids(found) == brute_force(tiny, texts, threshold)
    assert len(ids(found)) == len(found.pairs) >= 6
    assert [pair.score for pair in found.pairs] == sorted((pair.score for pair in found.pairs), reverse=True)


@pytest.mark.slow
def test_finds_what_brute_force_finds_in_5000_questions(minilm: Encoder, shared_data: Path) -> None:
    texts = list(dict.fromkeys(Dataset("quora/train", data_dir=shared_data).sentences()))[:5000]
    found = find_duplicates(minilm, texts, 0.85, PLAIN)
    scaled = unit(newest_vectors()).astype(np.float64)
    left, right = np.nonzero(np.triu(scaled @ scaled.T >= 0.85, 1))
    assert ids(found) == {(str(one + 1), str(other + 1)) for one, other in zip(left, right, strict=True)}
    assert len(found.pairs) > 500


def test_all_texts_identical_have_a_linear_number_of_pairs(tiny: Encoder) -> None:
    found = find_duplicates(tiny, ["the same text"] * 2000, 0.9, DuplicateSettings(max_pairs=1))
    assert [(pair.left, pair.right, pair.score) for pair in found.pairs] == [("1", str(n), 1.0) for n in range(2, 2001)]
    assert found.groups == (tuple(map(str, range(1, 2001))),)
    assert (found.n, found.distinct, found.removable) == (2000, 1, 1999)
    assert found.figures() == {}


def test_identical_texts_are_encoded_once(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []
    plain = vectors_module.encode_stream

    def stream(encoder: Encoder, items: Any, *given: Any, **options: Any) -> Any:
        texts = list(items)
        encoded.extend(text for _, text in texts)
        return plain(encoder, texts, *given, **options)

    monkeypatch.setattr(vectors_module, "encode_stream", stream)
    find_duplicates(tiny, ["once", "twice", "twice"], 0.999, PLAIN)
    assert encoded == ["once", "twice"]


def test_one_text_has_no_pair(tiny: Encoder) -> None:
    found = find_duplicates(tiny, ["alone"], 0.5)
    assert (found.pairs, found.groups, found.n, found.rows.chosen("first").tolist()) == ((), (), 1, [True])


def test_no_text(tiny: Encoder) -> None:
    with pytest.raises(DataError, match="no text to compare"):
        find_duplicates(tiny, [], 0.5)


def test_groups_are_joined_by_pairs_and_copies(minilm: Encoder) -> None:
    texts = ["The cat sat on the mat.", "Rates rose.", "A cat sat on the mat.", "The cat sat on a mat.", "Rates rose."]
    found = find_duplicates(minilm, texts, 0.9, PLAIN)
    assert found.groups == (("1", "3", "4"), ("2", "5"))
    assert found.removable == 3


def test_flags_and_strict_groups(minilm: Encoder) -> None:
    texts = ["Two boats left the harbour.", "Five boats left the harbour.", "Two boats left the harbour!"]
    found = find_duplicates(minilm, texts, 0.75, PLAIN)
    flags = {(pair.left, pair.right): dict(pair.flags) for pair in found.pairs}
    assert flags == {("1", "2"): {"number": "2 against 5"}, ("1", "3"): {}, ("2", "3"): {"number": "5 against 2"}}
    assert found.groups == (("1", "2", "3"),)
    assert find_duplicates(minilm, texts, 0.75, DuplicateSettings(explain=0, strict=True)).groups == (("1", "3"),)
    assert any("role" in line and "--grammar" in line for line in found.cautions)


@pytest.mark.data
def test_a_grammar_runs_all_rules(minilm: Encoder, english: Grammar) -> None:
    texts = ["The dog chased the postman.", "The postman chased the dog."]
    found = find_duplicates(minilm, texts, 0.8, PLAIN, english)
    assert list(found.pairs[0].flags) == ["role"] and found.cautions == []


def test_an_interrupted_call_continues(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_module, "BLOCK", 8)
    texts = [f"text number {number} of {number % 7}" for number in range(40)]
    settings = DuplicateSettings(explain=0, max_pairs=10_000)

    def stops(done: int, total: int | None, note: str) -> None:
        if note == "pairs compared" and done > 400:
            raise Cancelled

    monkeypatch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0.0)
    with pytest.raises(Cancelled):
        find_duplicates(tiny, texts, 0.9, settings, None, stops)
    stripes: list[int] = []
    plain = pairs_module._stripe
    monkeypatch.setattr(pairs_module, "_stripe", lambda *given: stripes.append(given[1]) or plain(*given))
    found = find_duplicates(tiny, texts, 0.9, settings)
    assert ids(found) == brute_force(tiny, texts, 0.9)
    assert stripes and stripes[0] > 0


def test_damaged_vectors_are_encoded_again(tiny: Encoder) -> None:
    texts = ["some text", "another text", "more of it"]
    whole = find_duplicates(tiny, texts, -1.0, PLAIN)
    folder = newest_folder()
    for damage in ("[]", "{", '{"settings": 3}'):
        (folder / "manifest.json").write_text(damage)
        assert find_duplicates(tiny, texts, -1.0, PLAIN).to_dict() == whole.to_dict()


@pytest.mark.parametrize("rows", ["1,one\n1,two\n", "1,one\n2,two\n1,other\n"])
def test_an_id_of_two_texts(tiny: Encoder, tmp_path: Path, rows: str) -> None:
    (tmp_path / "a.csv").write_text(f"id,text\n{rows}")
    with pytest.raises(DataError, match="the id '1' names two texts; give each text an id of its own"):
        find_duplicates(tiny, Dataset(str(tmp_path / "a.csv")), 0.5)


def test_a_row_that_is_there_twice_is_a_duplicate(tiny: Encoder, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,one\n2,two\n1,one\n")
    source = Dataset(str(tmp_path / "a.csv"))
    found = find_duplicates(tiny, source, 1.0)
    assert found.groups == (("1", "1"),)
    assert write_without_duplicates(source, found, "first", tmp_path / "b.csv") == 2
    assert (tmp_path / "b.csv").read_text() == "id,text\n1,one\n2,two\n"


@pytest.mark.parametrize(("keep", "lines"), [("first", "a cat sat\nrain\n"), ("longest", "rain\nA cat sat!!\n")])
def test_keeps_one_of_each_group(minilm: Encoder, tmp_path: Path, keep: str, lines: str) -> None:
    (tmp_path / "a.txt").write_text("a cat sat\nrain\nA cat sat!!\nA cat sat.\nrain\n")
    source = Dataset(str(tmp_path / "a.txt"))
    found = find_duplicates(minilm, source, 0.8, PLAIN)
    check_keep(source, keep, tmp_path / "b.txt")
    assert write_without_duplicates(source, found, keep, tmp_path / "b.txt") == 2
    assert (tmp_path / "b.txt").read_text() == lines


def test_wrong_ways_to_keep(tmp_path: Path) -> None:
    source = Dataset("sample/sentences")
    for keep, target in (("first", None), (None, tmp_path / "a.csv")):
        with pytest.raises(UsageError, match="--keep and --write go together"):
            check_keep(source, keep, target)
    with pytest.raises(UsageError, match="unknown choice 'last' of --keep; choose from first, longest"):
        check_keep(source, "last", tmp_path / "a.csv")
    with pytest.raises(UsageError, match="unknown choice"):
        CorpusRows(np.zeros(1, np.int64), np.zeros(1, np.int64)).chosen("last")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"explain": 1001}, "--explain-from"),
        ({"explain": -1}, "0 to 1000"),
        ({"explain_from": 0}, "from 1 on"),
        ({"language": "xx"}, "choose from en, de"),
    ],
)
def test_wrong_settings(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        DuplicateSettings(**wrong)


@pytest.mark.slow
def test_huge_texts_are_said_to_be_cut(tiny: Encoder, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{'word ' * 25_000}a\n{'word ' * 25_000}b 7\nshort\n")
    found = find_duplicates(tiny, Dataset(str(tmp_path / "a.txt")), 0.99, PLAIN)
    assert found.groups == (("1", "2"),)
    assert any("texts cut at the model's limit: 2" in line for line in found.cautions)
    assert any("over 100,000 characters: 2; flags and spans are of these" in line for line in found.cautions)
    assert found.near[0].flags == {}  # the number comes later
    assert len(found.to_html()) < 400_000
    assert sum(len(line.plain) for line in found.lines(80)) < 4000


def test_hostile_texts_are_escaped(tiny: Encoder) -> None:
    text = "<script>alert(1)</script> \x1b[31m"
    page = find_duplicates(tiny, [text, f"{text}."], 0.5).to_html()
    assert "<script>alert" not in page and "\x1b" not in page and "&lt;script&gt;" in page


def test_document(minilm: Encoder, tmp_path: Path) -> None:
    texts = ["Two boats left.", "Five boats left.", "It rains.", "It rains."]
    found = find_duplicates(minilm, texts, 0.8, PLAIN)
    document = json.loads(json.dumps(found.to_dict()))
    assert [(pair["left"], pair["right"], pair["flags"]) for pair in document["pairs"]] == [
        ("3", "4", []), ("1", "2", ["number"]),
    ]  # fmt: skip
    assert document["pairs"][0]["score"] == 1.0 and document["pairs"][0]["differences"] == {"left": [], "right": []}
    assert document["pairs"][1]["differences"] is document["pairs"][1]["shared"] is None
    assert document["groups"] == [["1", "2"], ["3", "4"]] and document["threshold"] == 0.8
    names = {path.name for path in found.save(tmp_path / "out").iterdir()}
    assert {"pairs.csv", "groups.csv", "counts.csv", "scores.png", "index.html", "run.json"} <= names


def test_pairs_have_the_spans_in_which_they_differ(minilm: Encoder) -> None:
    texts = ["The bridge was closed.", "The old bridge was closed.", "The bridge was closed."]
    first = find_duplicates(minilm, texts, 0.8).pairs
    assert [pair.is_identical for pair in first] == [True, False]
    document = first[1].to_dict()
    assert [span["text"] for span in document["differences"]["right"]] == ["old"]
    assert [piece["text"] for piece in document["shared"]["right"]] == ["The ", " bridge was closed."]
    assert first[1].drawn.right.spans == [(4, 7, first[1].differences.right[0].weight)]  # type: ignore[union-attr]


def test_only_some_pairs_are_explained(minilm: Encoder) -> None:
    texts = [f"The bridge {word} closed." for word in ("is", "was", "stays", "was")]
    some = find_duplicates(minilm, texts, 0.8, DuplicateSettings(explain=1, explain_from=2))
    # Identical texts do not count: nothing is to be explained there.
    assert [pair.differences is not None for pair in some.near] == [False, True, False]


def test_a_model_without_explanations_says_so_at_once(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise UsageError("this model cannot be explained")

    monkeypatch.setattr("likewise.search.duplicates.differences_of", refuses)
    with pytest.raises(UsageError, match="cannot be explained; --explain 0 leaves out the spans"):
        find_duplicates(tiny, ["one", "two"], 0.5)
    monkeypatch.setattr("likewise.search.duplicates.differences_of", lambda *_: [])
    assert len(find_duplicates(tiny, ["one", "two"], -1.0, PLAIN).pairs) == 1


def test_numbered_groups_come_by_size() -> None:
    assert numbered(np.array([3, 1, 3, 2, 1, 1]), "abcdef") == (("b", "e", "f"), ("a", "c"))


def test_threshold_by_a_calibration(tiny: Encoder) -> None:
    texts = sample_sentences()[:60]
    meaning = calibrate(tiny, texts)
    wanted = CalibratedThreshold(meaning, "percentile", 0.99)
    found = find_duplicates(tiny, texts, wanted, DuplicateSettings(explain=0, max_pairs=10_000))
    assert found.metadata.threshold == meaning.threshold(percentile=0.99).value
    assert "percentile 0.99 by the calibration of" in found.notes[0]
    assert all(pair.meaning == meaning.meaning(pair.score) for pair in found.pairs)
    assert found.to_dict()["pairs"][0]["meaning"]["percentile"] >= 0.99


def test_which_threshold_is_chosen(tiny: Encoder) -> None:
    meaning = calibrate(tiny, sample_sentences()[:60])
    nothing = dict.fromkeys(("precision", "probability", "percentile"))
    assert chosen_threshold(0.7, nothing, None, "f") == 0.7
    assert chosen_threshold(None, nothing | {"percentile": 0.99}, meaning, "f").value == 0.99  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="no threshold and no calibration of f; give --threshold"):
        chosen_threshold(None, nothing, None, "f")
    with pytest.raises(UsageError, match="--threshold does not go with --precision"):
        chosen_threshold(0.7, nothing | {"precision": 0.9}, meaning, "f")
    with pytest.raises(UsageError, match="--precision does not go with --percentile"):
        chosen_threshold(None, {"precision": 0.9, "percentile": 0.9}, meaning, "f")


def test_a_file_has_its_own_calibration(tiny: Encoder, minilm: Encoder) -> None:
    source = Dataset("sample/sentences", Columns(), limit=60)
    assert own_calibration(tiny, source) is None
    made = cached_index(tiny, source, IndexSettings()).index.calibrate()
    found = own_calibration(tiny, source)
    assert found is not None and len(found.unrelated) == len(made.unrelated)
    assert own_calibration(minilm, source) is own_calibration(tiny, replace(source, limit=50)) is None
    with pytest.raises(UsageError, match="another document prompt"):
        own_calibration(tiny, source, "query: ")
