"""Words in context, and what is said of bad rows."""

from __future__ import annotations

import csv
import dataclasses
import gc
import gzip
import io
import json
import subprocess
import sys
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import likewise.data
from likewise.data import (
    Columns,
    LabelledPair,
    LabelledText,
    Pair,
    ScoredPair,
    SenseExample,
    SkippedRows,
    Text,
    mixed_pairs,
    read_labelled_pairs,
    read_labelled_texts,
    read_pairs,
    read_scored_pairs,
    read_senses,
    read_texts,
)
from likewise.errors import DataError

Reader = Callable[..., Iterator[Any]]
READERS: list[Reader] = [read_texts, read_labelled_texts, read_pairs, read_scored_pairs, read_labelled_pairs]
SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str | bytes], str]:
    monkeypatch.chdir(tmp_path)

    def write(name: str, content: str | bytes) -> str:
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write


Write = Callable[[str, str | bytes], str]

# Each kind of example


def test_texts(file: Write) -> None:
    [one, two] = read_texts(file("a.csv", "id,text,genre\nk1,hello,news\nk2, there ,\n"))
    assert (one, two) == (Text("hello", "k1"), Text(" there ", "k2"))
    assert (one.meta, two.meta) == ({"genre": "news"}, {"genre": ""})


def test_labelled_texts(file: Write) -> None:
    name = file("a.tsv", "sentence\tlabel\nso good\t05\nso bad\t01\n")
    assert list(read_labelled_texts(name)) == [LabelledText("so good", "05", "1"), LabelledText("so bad", "01", "2")]


def test_pairs_from_every_shape_of_json(file: Write) -> None:
    lines = [["l", "r"], {"set": ["l", "r"]}, {"anchor": "l", "positive": "r"}]
    name = file("a.jsonl", "\n".join(map(json.dumps, lines)))
    assert list(read_pairs(name)) == [Pair("l", "r", str(number)) for number in (1, 2, 3)]


def test_pairs_keep_the_score_in_meta(file: Write) -> None:
    [pair] = read_pairs(file("a.csv", "sentence1,sentence2,score\na,b,2.500\n"))
    assert pair.meta == {"score": "2.500"}


def test_scored_pairs(file: Write) -> None:
    [pair] = read_scored_pairs(file("a.csv", "pair_ID,sentence_A,sentence_B,relatedness_score\n6,a,b,3.3\n"))
    assert pair == ScoredPair("a", "b", 3.3, "6")


def test_labelled_pairs(file: Write) -> None:
    [pair] = read_labelled_pairs(file("a.jsonl", '{"premise": "a", "hypothesis": "b", "label": 0}'))
    assert pair == LabelledPair("a", "b", "0", "1")


def test_columns_can_be_chosen(file: Write) -> None:
    name = file("a.csv", "sentence1,sentence2,score\na,b,1\n")
    assert next(read_texts(name, columns=Columns(text="sentence2"))) == Text("b", "1")
    [pair] = read_labelled_pairs(name, columns=Columns(left="sentence2", right="sentence1", label="score"))
    assert pair == LabelledPair("b", "a", "1", "1")


def test_names_in_a_data_folder(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "test.txt.gz").write_bytes(gzip.compress(b"hello\n"))
    assert list(read_texts("set/test", data_dir=tmp_path)) == [Text("hello", "1")]


@pytest.mark.parametrize("name", ["sample/sentences", "sample/words"])
def test_samples_are_texts(name: str) -> None:
    assert len(list(read_texts(name))) > 10


def test_the_sample_of_pairs() -> None:
    assert len(list(read_scored_pairs("sample/pairs"))) > 10


# Odd texts


@pytest.mark.parametrize(
    "text",
    [
        "nul \0 inside",
        "emoji 👩‍👩‍👧‍👦 🏳️‍🌈",
        "שלום עולם مرحبا",
        "combined e\u0301 and \u2028 separators \x85",
        "x" * 1_000_000,
    ],
    ids=["nul", "emoji", "rtl", "separators", "million"],
)
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".txt"])
def test_odd_texts_survive_in_every_format(file: Write, text: str, suffix: str) -> None:
    content = {".txt": text, ".jsonl": json.dumps({"text": text}, ensure_ascii=False)}.get(suffix, f"text\n{text}")
    assert [example.text for example in read_texts(file("a" + suffix, content + "\n"))] == [text]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text().filter(lambda text: text.strip()), min_size=1), gz=st.booleans())
def test_texts_survive_csv(tmp_path_factory: pytest.TempPathFactory, texts: list[str], gz: bool) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    written = io.StringIO(newline="")
    writer = csv.writer(written)
    writer.writerow(["text", "label"])
    writer.writerows([text, number] for number, text in enumerate(texts))
    content = written.getvalue().encode()
    path.write_bytes(gzip.compress(content, 1) if gz else content)
    assert [example.text for example in read_texts(path)] == texts


# Bad rows and bad files

BAD = "sentence1,sentence2,score\na,b,1\n,b,2\na,b,abc\na,b,nan\na,b,\na,b\nc,d,2\n"
BAD_ERRORS = [
    "a.csv, line 3, column 'sentence1': the text is empty",
    "a.csv, line 4, column 'score': expected a number, got 'abc'",
    "a.csv, line 5, column 'score': expected a finite number, got 'nan'",
    "a.csv, line 6, column 'score': the value is missing",
    "a.csv, line 7: 2 fields where the header has 3; complete it",
]


def test_the_first_bad_row_raises(file: Write) -> None:
    examples = read_scored_pairs(file("a.csv", BAD))
    assert next(examples).score == 1
    with pytest.raises(DataError) as caught:
        next(examples)
    assert str(caught.value) == BAD_ERRORS[0]


def test_bad_rows_are_skipped_and_counted(file: Write) -> None:
    skipped = SkippedRows()
    examples = list(read_scored_pairs(file("a.csv", BAD), on_bad=skipped))
    assert [(example.id, example.score) for example in examples] == [("1", 1.0), ("7", 2.0)]
    assert [str(error) for error in skipped.errors] == BAD_ERRORS
    assert str(skipped) == f"skipped 5 bad rows (first: {BAD_ERRORS[0]})"


def test_rows_that_are_not_utf8_are_skipped(file: Write) -> None:
    skipped = SkippedRows()
    examples = read_texts(file("a.txt", b"one\ncaf\xe9\nthree\n"), on_bad=skipped)
    assert [example.id for example in examples] == ["1", "3"]
    assert skipped.count == 1


def test_rows_of_json_without_the_column_are_skipped(file: Write) -> None:
    skipped = SkippedRows()
    name = file("a.jsonl", '{"text": "a"}\n{"text": "b", "label": null}\n{"text": "c", "label": 1}\n')
    assert [example.text for example in read_labelled_texts(name, on_bad=skipped)] == ["c"]
    assert str(skipped.errors[0]).startswith("a.jsonl, line 1: no column for the label; its columns are 'text';")
    assert str(skipped.errors[1]) == "a.jsonl, line 2, column 'label': the value is missing"


def test_a_file_of_bad_rows_only(file: Write) -> None:
    with pytest.raises(DataError) as caught:
        read_texts(file("a.csv", "text,label\n ,1\n,2\n"), on_bad=SkippedRows())
    assert str(caught.value) == (
        "a.csv: no row can be used; skipped 2 bad rows (first: a.csv, line 2, column 'text': the text is empty)"
    )


@pytest.mark.parametrize(
    ("name", "content", "summary"),
    [
        ("a.csv", b"", "a.csv: is empty"),
        ("a.csv", b"text\n", "a.csv: holds no rows"),
        ("a.csv", b"\x89PNG\r\n", "a.csv is a PNG file, not text"),
        ("a.csv", b"\xff\xfet\0", "a.csv: is UTF-16"),
        ("a.csv.gz", gzip.compress(b"text\nhello", mtime=0)[:15], "a.csv.gz: the gzip data is cut off or damaged"),
        ("a.json", b"[]", "a.json: unknown suffix '.json'"),
        ("a.csv", b"A dog.,A cat.,3\nA,B,1\n", "a.csv: no column for the text; its columns are 'A dog.', 'A"),
        ("a.csv", b"sentence1,sentence2\na,b\n", "a.csv: no column for the text; its columns are 'sentence1'"),
    ],
)
@pytest.mark.parametrize("on_bad", [None, SkippedRows()], ids=["strict", "skipping"])
def test_errors_of_a_file_are_raised_at_the_call(
    file: Write, name: str, content: bytes, summary: str, on_bad: SkippedRows | None
) -> None:
    with pytest.raises(DataError) as caught:
        read_texts(file(name, content), on_bad=on_bad)
    assert str(caught.value).startswith(summary)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("reader", READERS)
def test_missing_files_and_folders(reader: Reader, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^no file 'no.csv' in the current folder, "):
        reader("no.csv")
    flaw = (
        "holds no documents; add some of .txt" if reader is read_texts else "is a folder; give one of the files in it$"
    )
    with pytest.raises(DataError, match=f": {flaw}"):
        (tmp_path / "dir.csv").mkdir()
        reader(tmp_path / "dir.csv")


@pytest.mark.parametrize("reader", READERS[1:])
def test_plain_text_holds_texts_only(reader: Reader, file: Write) -> None:
    with pytest.raises(DataError, match=r"^a.txt: plain text has no columns for .*; use .csv, .tsv or .jsonl$"):
        reader(file("a.txt", "hello\n"))


def test_errors_of_cut_off_gzip_are_raised_even_when_skipping(file: Write) -> None:
    rows = "".join(f"{number * 7919 % 10007} row\n" for number in range(50_000))
    examples = read_texts(file("a.txt.gz", gzip.compress(rows.encode())[:-2000]), on_bad=SkippedRows())
    with pytest.raises(DataError, match=r"^a.txt.gz: the gzip data is cut off or damaged"):
        list(examples)


# Streaming


@pytest.mark.slow
def test_memory_stays_constant(tmp_path: Path) -> None:
    block = ("".join(f'"text, {i} {"x" * 2000}",{i},{i}\n' for i in range(100))).encode()
    with gzip.open(tmp_path / "a.csv.gz", "wb", 1) as handle:
        handle.write(b"sentence1,sentence2,score\n")
        for _ in range(250):
            handle.write(block)
    tracemalloc.start()
    try:
        count = sum(1 for _ in read_scored_pairs(tmp_path / "a.csv.gz"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 25_000  # about 50 MB of text
    assert peak < 2_000_000


@pytest.mark.slow
def test_an_abandoned_reader_closes_its_file(file: Write) -> None:
    name = file("a.csv", "text\n" + "a\n" * 100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        examples = read_texts(name)
        next(examples)
        del examples
        gc.collect()
    assert not [link for link in Path("/proc/self/fd").glob("*") if str(link.resolve()).endswith("/a.csv")]


@pytest.mark.process
def test_reading_needs_no_torch() -> None:
    code = "import sys, likewise.data; sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# The public benchmark files

needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the benchmark files are not at {SHARED}")


@needs_data
@pytest.mark.data
@pytest.mark.parametrize(
    ("reader", "name", "count"),
    [
        (read_scored_pairs, "stsb/test", 1379),
        (read_scored_pairs, "sick/test", 4927),
        (read_labelled_pairs, "sick/test", 4927),
        (read_scored_pairs, "biosses/all", 100),
        (read_pairs, "compression/sample_1k", 1000),
        (read_labelled_texts, "amazon/kindle_15k", 15000),
        (read_labelled_pairs, "snli/dev", 9842),
        (read_labelled_texts, "cs224n/sst-dev", 1101),
        (read_labelled_texts, "coarsewsd20/test", 10196),
    ],
)
def test_benchmark_files(reader: Reader, name: str, count: int) -> None:
    examples = list(reader(name, data_dir=SHARED))
    assert len(examples) == count
    assert len({example.id for example in examples}) == count


@needs_data
@pytest.mark.data
def test_the_first_benchmark_pair() -> None:
    pair = next(read_scored_pairs("stsb/test", data_dir=SHARED))
    assert pair == ScoredPair("A girl is styling her hair.", "A girl is brushing her hair.", 2.5, "1")
    assert pair.meta == {"genre": "main-captions", "file": "MSRvid", "year": "2012test", "sid": "0024"}


@needs_data
@pytest.mark.data
def test_translations_are_parallel() -> None:
    english = read_scored_pairs("mstsb/en_test", data_dir=SHARED)
    german = read_scored_pairs("mstsb/de_test", data_dir=SHARED)
    assert sum(1 for _ in mixed_pairs(english, german)) == 1379


EXAMPLES = [
    Text("a", "1"),
    LabelledText("a", "x", "1"),
    Pair("a", "b", "1"),
    ScoredPair("a", "b", 1.0, "1"),
    LabelledPair("a", "b", "x", "1"),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_examples_are_frozen_slotted_and_hashable(example: Text) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        example.id = "2"  # type: ignore[misc]
    assert not hasattr(example, "__dict__")
    assert hash(example) == hash(dataclasses.replace(example))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_meta_is_empty_by_default_and_not_compared(example: Text) -> None:
    assert example.meta == {}
    assert dataclasses.replace(example, meta={"genre": "news"}) == example


def test_every_public_name_is_there_and_documented() -> None:
    for name in likewise.data.__all__:
        assert ">>>" in (getattr(likewise.data, name).__doc__ or ""), name


HEADER = "sentence,sense,word,word_index,sense_id"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, *lines: str) -> str:
    Path(name).write_text("\n".join([*lines, ""]), encoding="utf-8")
    return name


def test_rows_are_words_in_texts() -> None:
    file = write("a.csv", HEADER, "we rob a bank .,money,bank,3,0", '"two  banks\tof the river",shore,bank,1,1')
    assert list(read_senses(file)) == [
        SenseExample("we rob a bank .", "bank", 9, 13, "money", "1"),
        SenseExample("two  banks\tof the river", "bank", 5, 10, "shore", "2"),
    ]
    assert [example.written for example in read_senses(file)] == ["bank", "banks"]


def test_blanks_of_any_kind_separate() -> None:
    [example] = read_senses(write("a.csv", HEADER, "\xa0an old\u2009bank,money,bank,2,0"))
    assert example.written == "bank"


def test_json_lines_and_other_names() -> None:
    file = write("a.jsonl", '{"_id": "x7", "text": "a bank", "lemma": "bank", "target_index": 1, "label": 3}')
    assert list(read_senses(file)) == [SenseExample("a bank", "bank", 2, 6, "3", "x7")]


def test_named_columns() -> None:
    file = write("a.csv", "sentence,other,sense,word,word_index,key", "a bank,the bank,money,bank,1,k1")
    [example] = read_senses(file, columns=Columns(text="other", id="key"))
    assert (example.text, example.id) == ("the bank", "k1")
    with pytest.raises(DataError, match=r"a\.csv: no column headline; its columns are 'sentence', 'other'"):
        read_senses(file, columns=Columns(text="headline"))


@pytest.mark.parametrize(
    ("row", "flaw"),
    [
        ("a bank,money,bank,2,0", "column 'word_index': the text has words 0 to 1, not 2.0; count them by its blanks"),
        ("a bank,money,bank,-1,0", "the text has words 0 to 1, not -1.0"),
        ("a bank,money,bank,0.5,0", "the text has words 0 to 1, not 0.5"),
        ("a bank,money,bank,x,0", "column 'word_index': expected a number, got 'x'"),
        ("a bank,money,bank,,0", "column 'word_index': the value is missing"),
        ("a bank,,bank,1,0", "column 'sense': the value is missing"),
        ("a bank,money,,1,0", "column 'word': the text is empty"),
        (",money,bank,1,0", "column 'sentence': the text is empty"),
    ],
)
def test_bad_rows_are_named_with_their_line(row: str, flaw: str) -> None:
    file = write("a.csv", HEADER, "a bank,money,bank,1,0", row, "a bank,shore,bank,1,1")
    with pytest.raises(DataError, match=f"a.csv, line 3.*{flaw}"):
        list(read_senses(file))
    bad: list[DataError] = []
    assert [example.sense for example in read_senses(file, on_bad=bad.append)] == ["money", "shore"]
    assert len(bad) == 1 and "line 3" in str(bad[0])


def test_a_file_without_a_good_row() -> None:
    file = write("a.csv", HEADER, "a bank,money,bank,9,0")
    with pytest.raises(DataError, match=r"a\.csv: no row can be used; skipped 1 bad row \(first: a\.csv, line 2"):
        read_senses(file, on_bad=lambda error: None)


def test_missing_columns_and_plain_text_are_told_at_the_call() -> None:
    with pytest.raises(
        DataError, match=r"a\.csv: no column word_index or token_index or target_index; its columns are"
    ):
        read_senses(write("a.csv", "sentence,sense,word", "a bank,money,bank"))
    with pytest.raises(DataError, match="plain text has no columns for words and senses"):
        read_senses(write("a.txt", "a bank"))


@pytest.mark.parametrize(
    ("written", "word", "is_form"),
    [("Banks", "bank", True), ("APPLE", "apple", True), ("river", "bank", False), ("at", "at", True)],
)
def test_forms_of_a_word(written: str, word: str, is_form: bool) -> None:
    assert SenseExample(written, word, 0, len(written), "x", "1").is_form == is_form


@pytest.mark.data
def test_the_public_file(shared_data: Path) -> None:
    found = list(read_senses("coarsewsd20/test", data_dir=shared_data))
    assert len(found) == 10196 and all(example.written == example.word for example in found)
    assert len({example.word for example in found}) == 20
