from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from likewise.data import Columns
from likewise.errors import DataError, UsageError
from likewise.train.examples import KEYS, SCALES, Example, Form, Source, read_examples

Write = Callable[[str, str], str]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)

    def write(name: str, content: str) -> str:
        Path(name).write_text(content)
        return name

    return write


# Sources from settings


def parsed(toml: str) -> Source:
    return Source.parse(tomllib.loads(f"it = {toml}")["it"])


def test_a_name_is_a_source() -> None:
    assert parsed('"stsb/train"') == Source("stsb/train")


def test_a_table_is_a_source() -> None:
    assert parsed('{source = "sick/train", scale = [1, 5]}') == Source("sick/train", (1.0, 5.0))
    names = parsed('{source = "a.csv", text = "t", left = "l", right = "r", score = "s", label = "c"}').columns
    assert names == Columns(text="t", left="l", right="r", score="s", label="c")


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("3", 'a source is a name or a table {source = "stsb/train", ...}, not 3'),
        ('["a", "b"]', "a source is a name or a table"),
        ('""', "in quotes, not ''"),
        ("{scale = [1, 5]}", 'a source has no file; add source = "stsb/train" or a path'),
        ('{source = "a", sclae = [1, 5]}', f"a source has no key 'sclae'; choose from {', '.join(KEYS)}"),
        ("{source = 3}", "source of a source is a name or a path in quotes, not 3"),
        ('{source = "a", left = 3}', "left of a source is the name of a column in quotes, not 3"),
        ('{source = "a", left = " "}', "left of a source is the name of a column in quotes"),
        ('{source = "a", scale = 5}', "a: scale is two numbers, scale = [lowest, highest], not 5"),
        ('{source = "a", scale = "05"}', "scale is two numbers"),
        ('{source = "a", scale = [1, 2, 3]}', "scale is two numbers"),
        ('{source = "a", scale = [false, true]}', "scale is two numbers"),
        ('{source = "a", scale = ["1", "5"]}', "scale is two numbers"),
        ('{source = "a", scale = [5, 1]}', "a: scale = [5, 1] is no range; give scale = [lowest, highest]"),
        ('{source = "a", scale = [1, 1]}', "is no range"),
        ('{source = "a", scale = [0, inf]}', "is no range"),
        ('{source = "a", scale = [nan, 1]}', "is no range"),
        (f'{{source = "a", scale = [0, 1{"0" * 400}]}}', "too large"),
    ],
)
def test_what_is_no_source_is_told_in_one_line(toml: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(toml)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


# Examples of each kind


def test_sentiment(file: Write) -> None:
    name = file("a.csv", "sentence,label,id\nso good,4,k1\nso bad,0.0,k2\n")
    assert read_examples(Source(name), "sentiment") == [
        Example(("so good",), 4.0, "k1", name),
        Example(("so bad",), 0.0, "k2", name),
    ]


def test_paraphrase(file: Write) -> None:
    name = file("a.csv", "sentence1,sentence2,score,id\na,b,1,k1\nc,d,0.0,k2\n")
    assert read_examples(Source(name), "paraphrase") == [
        Example(("a", "b"), 1.0, "k1", name),
        Example(("c", "d"), 0.0, "k2", name),
    ]


def test_similarity(file: Write) -> None:
    name = file("a.csv", "sentence1,sentence2,score\na,b,2.75\n")
    assert read_examples(Source(name), "similarity") == [Example(("a", "b"), 2.75, "1", name)]


def test_a_scale_is_mapped_onto_the_tasks_own(file: Write) -> None:
    stars = file("stars.csv", "text,label\n" + "".join(f"t,{star}\n" for star in range(1, 6)))
    assert [one.target for one in read_examples(Source(stars, (1, 5)), "sentiment")] == [0, 1, 2, 3, 4]
    scores = file("scores.csv", "left,right,score\na,b,1\na,b,3\na,b,5\n")
    assert [one.target for one in read_examples(Source(scores, (1, 5)), "similarity")] == [0, 2.5, 5]
    classes = file("classes.csv", "left,right,score\na,b,1\na,b,2\n")
    assert [one.target for one in read_examples(Source(classes, (1, 2)), "paraphrase")] == [0, 1]


def test_a_scale_rounds_halves_up_and_leaves_no_class_out(file: Write) -> None:
    name = file("a.csv", "text,label\n" + "".join(f"t,{label}\n" for label in range(9)))
    targets = [one.target for one in read_examples(Source(name, (0, 8)), "sentiment")]
    assert targets == [0, 1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("kind", [kind for kind, scale in SCALES.items() if math.isfinite(scale.highest)])
@pytest.mark.parametrize("scale", [(0.1, 0.7), (-3.0, 11.0), (1.0, 5.0)])
def test_the_ends_of_a_scale_are_the_ends_of_the_task(kind: Form, scale: tuple[float, float]) -> None:
    own = SCALES[kind]
    assert [own.mapped(end, scale) for end in scale] == [own.lowest, own.highest]


def test_score_and_label_both_name_the_target(file: Write) -> None:
    pairs = file("pairs.csv", "question1,question2,is_duplicate\na,b,1\n")
    texts = file("texts.csv", "review,stars\ngood,3\n")
    for role in ("score", "label"):
        [pair] = read_examples(Source(pairs, columns=Columns(**{role: "is_duplicate"})), "paraphrase")
        [text] = read_examples(Source(texts, columns=Columns(**{role: "stars"})), "sentiment")
        assert (pair.target, text.target) == (1, 3)


def test_other_columns_can_be_chosen(file: Write) -> None:
    name = file("a.csv", "sentence1,sentence2,score,mean\na,b,9,1\n")
    source = Source.parse({"source": name, "left": "sentence2", "right": "sentence1", "score": "mean"})
    assert read_examples(source, "similarity") == [Example(("b", "a"), 1.0, "1", name)]


def test_a_name_in_a_data_folder_stays_the_files_name(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "train.csv").write_text("text,label\nhello,2\n")
    assert read_examples(Source("set/train"), "sentiment", tmp_path) == [Example(("hello",), 2, "1", "set/train")]


@pytest.mark.parametrize(
    ("kind", "scale", "value", "words"),
    [
        ("sentiment", None, "5", "'5' is outside 0 to 4; give the file's own range: scale = [lowest, highest]"),
        ("sentiment", None, "-1", "is outside 0 to 4"),
        ("sentiment", (1, 5), "0", "'0' is outside 1 to 5; correct the range: scale = [lowest, highest]"),
        ("sentiment", (1, 5), "5.4", "is outside 1 to 5"),
        ("sentiment", None, "2.5", "is no class; write whole numbers from 0 to 4, or give scale = [0, 4] to round it"),
        ("sentiment", None, "good", "'good' is no number; write the classes as whole numbers from 0"),
        ("sentiment", None, "nan", "is no number"),
        ("sentiment", None, "1_0", "is no number"),
        ("paraphrase", None, "2", "2 is outside 0 to 1; give the file's own range"),
        ("paraphrase", None, "0.5", "0.5 is neither 0 nor 1; leave such rows out, or give scale = [lowest, highest]"),
        ("paraphrase", (0, 5), "3", "3 is neither 0 nor 5"),
        ("similarity", None, "5.01", "5.01 is outside 0 to 5; give the file's own range: scale = [lowest, highest]"),
        ("similarity", (1, 5), "0.5", "0.5 is outside 1 to 5; correct the range"),
    ],
)
def test_a_wrong_target_names_its_row_and_the_cure(
    file: Write, kind: Form, scale: tuple[float, float] | None, value: str, words: str
) -> None:
    head = "id,text,label\nk1,t,1\n" if kind == "sentiment" else "id,left,right,score\nk1,a,b,1\n"
    row = f"k2,t,{value}\n" if kind == "sentiment" else f"k2,a,b,{value}\n"
    head = head.replace(",1\n", f",{scale[1]}\n") if scale else head
    with pytest.raises(DataError) as caught:
        read_examples(Source(file("a.csv", head + row), scale), kind)
    assert str(caught.value).startswith("a.csv, row k2: ")
    assert words in str(caught.value)


def test_a_strange_id_keeps_the_error_on_one_line(file: Write) -> None:
    name = file("a.csv", 'id,text,label\n"two\nlines",t,7\n')
    with pytest.raises(DataError) as caught:
        read_examples(Source(name), "sentiment")
    assert "\n" not in str(caught.value)


def test_a_missing_column_is_told_by_the_reader(file: Write) -> None:
    with pytest.raises(DataError, match="no column for the score"):
        read_examples(Source(file("a.csv", "sentence1,sentence2\na,b\n")), "similarity")


# The public files


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "kind", "scale", "rows"),
    [
        ("cs224n/sst-train", "sentiment", None, 8544),
        ("cs224n/sst-dev", "sentiment", None, 1101),
        ("amazon/kindle_15k", "sentiment", (1, 5), 15000),
        ("cs224n/quora-train-10pct", "paraphrase", None, 14137),
        ("cs224n/quora-dev", "paraphrase", None, 20212),
        ("quora/train", "paraphrase", None, 51453),
        ("cs224n/sts-train", "similarity", None, 6040),
        ("cs224n/sts-dev", "similarity", None, 863),
        ("stsb/train", "similarity", None, 5749),
        ("sick/train", "similarity", (1, 5), 4500),
    ],
)
def test_public_files_fit_their_tasks(
    shared_data: Path, name: str, kind: Form, scale: tuple[float, float] | None, rows: int
) -> None:
    examples = read_examples(Source(name, scale), kind, shared_data)
    targets = Counter(one.target for one in examples)
    assert len(examples) == rows
    assert (min(targets), max(targets)) == (SCALES[kind].lowest, SCALES[kind].highest)
    whole = {"sentiment": 5, "paraphrase": 2}.get(kind)
    assert whole is None or sorted(targets) == list(range(whole))


@pytest.mark.data
@pytest.mark.parametrize("name", ["amazon/kindle_15k", "sick/train"])
def test_a_public_file_without_its_scale(shared_data: Path, name: str) -> None:
    if name.startswith("amazon"):
        with pytest.raises(DataError, match=r"amazon/kindle_15k, row 2: '5' is outside 0 to 4; .* scale = "):
            read_examples(Source(name), "sentiment", shared_data)
    else:  # 1 to 5 lies within 0 to 5: no file can tell that its scale is missing
        assert min(one.target for one in read_examples(Source(name), "similarity", shared_data)) == 1
