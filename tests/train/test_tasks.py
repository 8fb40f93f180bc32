from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from likewise.errors import DataError
from likewise.train.examples import Example, Form, Source, read_examples
from likewise.train.tasks import MAX_SHARE, Overlap, find_overlaps, normalized, without_overlap


def examples(file: str, *rows: str | tuple[str, str], target: float = 0.0) -> list[Example]:
    texts = [(row,) if isinstance(row, str) else row for row in rows]
    return [Example(each, target, str(number), file) for number, each in enumerate(texts, start=1)]


def numbered(file: str, start: int, end: int) -> list[Example]:
    return examples(file, *(f"text {number}" for number in range(start, end)))


# Which texts are the same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A Dog.", "a dog"),
        ("It 's new", "It's new!"),
        ("`` Conan '' is new", "“Conan” is new"),
        ("co-writer", "co writer"),
        ("two\n\n lines\u00a0", "two lines"),
        ("STRASSE", "straße"),
        ("caf\u00e9", "cafe\u0301"),
        ("ﬁne", "fine"),
        ("１２", "12"),
    ],
)
def test_texts_that_are_the_same(one: str, other: str) -> None:
    assert normalized(one) == normalized(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a dog", "a dogs"),
        ("a dog", "dog a"),
        ("C++", "C"),
        ("$5", "£5"),
        ("good 😀", "good 😡"),
        ("café", "cafe"),
        ("...", "!!!"),
        ("कि", "की"),
        ("now here", "nowhere"),
    ],
)
def test_texts_that_are_not_the_same(one: str, other: str) -> None:
    assert normalized(one) != normalized(other)


def test_a_text_of_punctuation_stays_itself() -> None:
    assert normalized(" ?! ") == "?!"
    assert normalized("...") == "..."


# What overlaps


def test_pairs_count_in_either_order_and_whatever_their_target() -> None:
    train = examples("train", ("A dog.", "A cat."), ("c", "d"), target=1.0)
    held_out = examples("test", ("a cat", "a dog"), ("c", "e"), ("d", "c"), target=0.0)
    [found] = find_overlaps({"train": train}, {"test": held_out})
    assert found == Overlap("train", "test", 2, 3, 2, ("a cat | a dog", "d | c"))
    assert found.share == 2 / 3


def test_texts_are_not_sought_in_pairs() -> None:
    assert find_overlaps({"a": examples("a", "x", "x x")}, {"b": examples("b", ("x", "x"))}) == []


def test_one_text_of_a_pair_is_no_overlap() -> None:
    assert find_overlaps({"a": examples("a", ("x", "y"))}, {"b": examples("b", ("x", "z"), ("x", "x"))}) == []


def test_every_row_of_the_held_out_file_counts_and_every_row_of_the_train_file_goes() -> None:
    train, held_out = examples("a", "x", "y", "X", "x."), examples("b", "x", "x!", "z")
    [found] = find_overlaps({"a": train}, {"b": held_out})
    assert (found.rows, found.of, found.dropped, found.examples) == (2, 3, 3, ("x", "x!"))


def test_every_train_file_meets_every_other() -> None:
    train = {"a": examples("a", "x", "y"), "b": examples("b", "y"), "c": examples("c", "no")}
    held_out = {"dev": examples("dev", "x"), "test": examples("test", "y", "z"), "empty": []}
    found = [(one.train, one.held_out, one.rows, one.of) for one in find_overlaps(train, held_out)]
    assert found == [("a", "dev", 1, 1), ("a", "test", 1, 2), ("b", "test", 1, 2)]


def test_examples_are_few_and_short() -> None:
    texts = [f"\x1b[3{number}m{number} " + "long\n" * 90 for number in range(5)]
    [single] = find_overlaps({"a": examples("a", *texts)}, {"b": examples("b", *texts)})
    pairs = [(text, text) for text in texts]
    [double] = find_overlaps({"a": examples("a", *pairs)}, {"b": examples("b", *pairs)})
    for found in (single, double):
        assert len(found.examples) == 3
        assert all(60 < len(example) <= 80 and example.isprintable() for example in found.examples)
    assert " | " in double.examples[0]


def test_an_overlap_becomes_json() -> None:
    found = Overlap("a", "b", 1, 4, 2, ("x",))
    written: dict[str, Any] = {
        "train": "a",
        "held_out": "b",
        "rows": 1,
        "of": 4,
        "dropped": 2,
        "examples": ["x"],
        "share": 0.25,
    }
    written["words"] = "a: 2 rows left out, for 1 of the 4 rows of b are in it"
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict() == written


def slow_overlap(train: list[Example], held_out: list[Example]) -> tuple[int, int]:
    """Rows of the held-out file in the train file, and the other way round, by comparing each with each."""

    def same(one: Example, other: Example) -> bool:
        mine, theirs = [normalized(text) for text in one.texts], [normalized(text) for text in other.texts]
        return len(mine) == len(theirs) and (mine == theirs or mine[::-1] == theirs)

    rows = sum(any(same(row, other) for other in train) for row in held_out)
    return rows, sum(any(same(row, other) for other in held_out) for row in train)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_overlap_equals_its_slow_twin(seed: int) -> None:
    draw = random.Random(seed)

    def rows(file: str, count: int) -> list[Example]:
        words = [
            draw.choice(["", " ", "a", "A", "b", "B.", "c!", "?"]) + draw.choice(["x", "X", "-", "!"]) for _ in "12345"
        ]
        texts = [tuple(draw.choices(words, k=draw.choice([1, 2]))) for _ in range(count)]
        return [Example(each, draw.random(), str(number), file) for number, each in enumerate(texts)]

    for _ in range(40):
        train, held_out = rows("a", draw.randint(1, 12)), rows("b", draw.randint(1, 12))
        found = find_overlaps({"a": train}, {"b": held_out})
        assert [(one.rows, one.dropped) for one in found] == [
            pair for pair in [slow_overlap(train, held_out)] if pair[0]
        ]


# Dropping and refusing


def test_up_to_a_twentieth_is_dropped() -> None:
    train, held_out = numbered("a", 0, 50), numbered("b", 45, 145)
    kept, [found] = without_overlap({"a": train}, {"b": held_out})
    assert found.share == MAX_SHARE and found.dropped == 5
    assert kept == {"a": train[:45]}
    assert len(train) == 50


def test_above_a_twentieth_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        without_overlap({"my/train": numbered("a", 0, 51)}, {"my/test": numbered("b", 45, 145)})
    assert str(caught.value) == (
        "my/train holds 6 of the 100 rows of my/test (6.0%, and no more than 5% can be dropped), such as: text 45; "
        "leave the file out, or add --allow-overlap"
    )


def test_the_worst_overlap_is_told() -> None:
    held_out = {"dev": numbered("dev", 0, 10), "test": numbered("test", 5, 10)}
    with pytest.raises(DataError, match=r"holds 4 of the 5 rows of test \(80.0%.* \(1 more such overlaps\); leave"):
        without_overlap({"a": numbered("a", 2, 9)}, held_out)


def test_a_file_cannot_be_trained_on_and_held_out() -> None:
    rows = numbered("a", 0, 30)
    with pytest.raises(DataError, match=r"a trains on what is held out, 30 of the 30 rows of a \(100.0%"):
        without_overlap({"a": rows}, {"a": rows})


def test_a_strange_text_keeps_the_refusal_on_one_line() -> None:
    rows = examples("a\nb", "two\nlines\u2028\x1b[31m\x85")
    with pytest.raises(DataError) as caught:
        without_overlap({"a\nb": rows}, {"c\rd": rows})
    assert str(caught.value).isprintable()


def test_allowed_overlap_is_told_and_stays() -> None:
    rows = numbered("a", 0, 30)
    kept, [found] = without_overlap({"a": rows}, {"b": rows}, allow=True)
    assert kept == {"a": rows} and kept["a"] is not rows
    assert (found.rows, found.dropped) == (30, 0)


def test_rows_of_several_held_out_files_are_dropped_from_all_train_files() -> None:
    train = {"a": numbered("a", 0, 10), "b": numbered("b", 5, 20)}
    held_out = {"dev": numbered("dev", 9, 100), "test": numbered("test", 100, 200)}
    held_out["dev"] = [
        row for row in held_out["dev"] if row.texts[0] in ("text 9", *(f"text {n}" for n in range(20, 99)))
    ]
    held_out["test"] += numbered("test", 0, 1)
    kept, found = without_overlap(train, held_out)
    assert [(one.train, one.held_out, one.dropped) for one in found] == [
        ("a", "dev", 1),
        ("a", "test", 1),
        ("b", "dev", 1),
    ]
    assert kept["a"] == train["a"][1:9]
    assert [row.texts[0] for row in kept["b"]] == [f"text {n}" for n in range(5, 20) if n != 9]


def test_nothing_left_is_refused() -> None:
    with pytest.raises(DataError, match=r"a: none of its 3 rows is left to train on, .* such as b; leave the file out"):
        without_overlap({"a": numbered("a", 0, 3)}, {"b": numbered("b", 0, 100)})


def test_nothing_in_common_changes_nothing() -> None:
    train = {"a": numbered("a", 0, 3), "b": []}
    assert without_overlap(train, {"c": numbered("c", 3, 9)}) == (train, [])


def test_many_pairs_are_quick() -> None:
    draw = random.Random(0)
    words = [f"word{number}" for number in range(3000)]

    def pairs(count: int) -> list[Example]:
        return examples(
            "a", *((" ".join(draw.choices(words, k=11)), " ".join(draw.choices(words, k=11))) for _ in range(count))
        )

    train, held_out = {"a": pairs(20_000)}, {"b": pairs(6_000)}
    start = time.perf_counter()
    without_overlap(train, held_out)
    assert time.perf_counter() - start < 5  # about 0.3 s; each with each would take minutes


# The public files

SCALES = {"sick": (1.0, 5.0), "amazon": (1.0, 5.0)}


def public(folder: Path, kind: Form, *names: str) -> dict[str, list[Example]]:
    return {name: read_examples(Source(name, SCALES.get(name.split("/")[0])), kind, folder) for name in names}


@pytest.mark.data
@pytest.mark.parametrize(
    ("kind", "train", "held_out", "rows", "dropped"),
    [
        ("similarity", "stsb/train", "stsb/test", 12, 17),
        ("similarity", "stsb/train", "stsb/dev", 7, 11),
        ("similarity", "cs224n/sts-train", "cs224n/sts-dev", 17, 18),
        ("similarity", "sick/train", "sick/test", 81, 93),
        ("similarity", "sick/train", "sick/dev", 7, 10),
        ("similarity", "sick/train", "stsb/test", 12, 13),
        ("paraphrase", "cs224n/quora-train-10pct", "cs224n/quora-dev", 6, 5),
        ("sentiment", "cs224n/sst-train", "cs224n/sst-dev", 3, 3),
    ],
)
def test_public_overlaps_are_dropped(
    shared_data: Path, kind: Form, train: str, held_out: str, rows: int, dropped: int
) -> None:
    files = public(shared_data, kind, train)
    kept, [found] = without_overlap(files, public(shared_data, kind, held_out))
    assert (found.rows, found.dropped, len(kept[train])) == (rows, dropped, len(files[train]) - dropped)


@pytest.mark.data
@pytest.mark.parametrize(
    ("kind", "train", "held_out"),
    [("sentiment", "amazon/kindle_15k", "cs224n/sst-dev"), ("paraphrase", "quora/train", "cs224n/quora-dev")],
)
def test_public_files_without_overlap(shared_data: Path, kind: Form, train: str, held_out: str) -> None:
    assert find_overlaps(public(shared_data, kind, train), public(shared_data, kind, held_out)) == []


@pytest.mark.data
@pytest.mark.parametrize(
    ("train", "held_out", "count"),
    [
        ("cs224n/sts-train", "stsb/test", "951 of the 1379 rows"),
        ("cs224n/sts-train", "stsb/dev", "1037 of the 1500 rows"),
        ("stsb/train", "cs224n/sts-dev", "571 of the 863 rows"),
    ],
)
def test_the_reshuffled_benchmark_is_refused(shared_data: Path, train: str, held_out: str, count: str) -> None:
    with pytest.raises(DataError, match=f"{train} holds {count} of {held_out} .*--allow-overlap"):
        without_overlap(public(shared_data, "similarity", train), public(shared_data, "similarity", held_out))
