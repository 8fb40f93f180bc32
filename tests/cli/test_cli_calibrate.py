"""``likewise calibrate``: a corpus or an index, with pairs or without; searches then show what scores mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from answers import one_document, refusal
from likewise.encoder import Encoder
from likewise.sample import sample_sentences
from likewise.search import Index

pytest_plugins = ("command_line",)

TEXTS = sample_sentences()[:40]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tiny: Encoder, tmp_path: Path) -> str:
    return Index.build(tiny, TEXTS, tmp_path / "index").store.address


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS))
    return str(path)


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    rows = [
        {"sentence1": text, "sentence2": f"{text} a" if row % 2 else TEXTS[(row + 7) % 40], "score": 5 * (row % 2)}
        for row, text in enumerate(TEXTS)
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def test_an_index_then_its_search(run: Any, folder: str) -> None:
    found = one_document(run("calibrate", folder, "--json"))
    assert found["corpus"] == folder
    assert found["unrelated"]["pairs"] == 780
    assert found["match"] is None
    answer = run("search", folder, "a fight", "-k", 2)
    assert answer.out.count("% of unrelated pairs)") == 2
    hits = one_document(run("search", folder, "a fight", "--json"))["hits"]
    least = hits[3]["meaning"]["percentile"]
    some = one_document(run("search", folder, "a fight", "--json", "--min-percentile", least))["hits"]
    assert [hit["id"] for hit in some] == [hit["id"] for hit in hits[:4]]


@pytest.mark.slow
def test_a_corpus_with_scored_pairs(run_tiny: Any, corpus: str, pairs: str, tmp_path: Path) -> None:
    how = ("--pairs", pairs, "--match-from", 4, "--precision", 0.6, "--recall", 0.8, "--recall", 0.9)
    answer = run_tiny("calibrate", corpus, *how, "--out", tmp_path / "out", "--json")
    found = one_document(answer)
    assert f"likewise: searches of {corpus} now show what scores mean" in answer.err
    assert [list(one["wanted"].items()) for one in found["match"]["thresholds"]] == [
        [("precision", 0.6)], [("recall", 0.8)], [("recall", 0.9)],
    ]  # fmt: skip
    assert (tmp_path / "out" / "reliability.png").exists()
    shown = run_tiny("search", corpus, "a fight", "-k", 1).out
    assert "% of unrelated pairs; match 0." in shown
    page = tmp_path / "page.html"
    run_tiny("search", corpus, "a fight", "-k", 1, "--html", page, "--min-probability", 0)
    assert "% of unrelated pairs; match 0." in page.read_text()


def test_tables_in_the_terminal(run_tiny: Any, corpus: str, pairs: str) -> None:
    shown = run_tiny("calibrate", corpus, "--pairs", pairs, "--match-from", 4).out
    assert "780 unrelated pairs of 40 different texts" in shown
    assert "Probability of a match, cross-validated" in shown
    assert "recall 0.9" in shown


def test_similarity_and_explain(run_tiny: Any, corpus: str) -> None:
    assert run_tiny("calibrate", corpus).code == 0
    texts = ("a cat sat", "the cat sat")
    found = one_document(run_tiny("similarity", *texts, "--calibration", corpus, "--json"))
    assert 0 <= found["meaning"][0][0]["percentile"] <= 1
    assert "% of unrelated pairs" in run_tiny("similarity", *texts, "--calibration", corpus).out
    for more in ((), ("--shares-only",)):
        explained = one_document(run_tiny("explain", *texts, "--calibration", corpus, "--json", *more))
        assert explained["meaning"] == found["meaning"][0][0]
    assert "% of unrelated pairs" in run_tiny("explain", *texts, "--calibration", corpus).out


def test_queries_of_ones_own(run_tiny: Any, corpus: str, tmp_path: Path) -> None:
    path = tmp_path / "queries.csv"
    path.write_text("query\n" + "\n".join(f"who saw number {one}" for one in range(25)))
    found = one_document(run_tiny("calibrate", corpus, "--queries", path, "--json"))
    assert (found["queries"], found["unrelated"]["pairs"]) == (25, 1000)


@pytest.mark.parametrize(
    ("arguments", "flaw"),
    [
        (("--precision", "0.9"), "--precision does not go with a calibration without --pairs; leave it out"),
        (("--match-from", "4"), "--match-from does not go with a calibration without --pairs; leave it out"),
        (("--pairs", "PAIRS"), "labels are 0 and 1, but there is a pair with 5; say from which score on"),
        (("--pairs", "PAIRS", "--match-from", "9"), "only 0 of 40 pairs match; give at least 10 of each"),
        (("--pairs", "PAIRS", "--match-from", "4", "--recall", "90"), "a recall is between 0 and 1, got 90"),
        (("--pairs", "no/such.csv"), "no/such.csv"),
        (("--queries", "sample/queries"), "at least 20 different queries, got 6"),
    ],
)
def test_mistakes(run_tiny: Any, corpus: str, pairs: str, arguments: tuple[str, ...], flaw: str) -> None:
    given = [pairs if one == "PAIRS" else one for one in arguments]
    assert flaw in refusal(run_tiny("calibrate", corpus, *given))


def test_too_small_a_corpus(run_tiny: Any, tmp_path: Path) -> None:
    path = tmp_path / "few.txt"
    path.write_text("one\ntwo\nthree\n")
    assert "at least 20 different texts, got 3; give a larger corpus" in refusal(run_tiny("calibrate", path))


def test_searches_that_need_a_calibration(run_tiny: Any, corpus: str) -> None:
    expected = f"{corpus} has no calibration; calibrate first: likewise calibrate {corpus}"
    assert expected in refusal(run_tiny("search", corpus, "a", "--min-percentile", 0.9))
    assert "a percentile is between 0 and 1" in refusal(run_tiny("search", corpus, "a", "--min-percentile", 99))
    assert "--min-percentile does not go with the ranker bm25" in refusal(
        run_tiny("search", corpus, "a", "--ranker", "bm25", "--min-percentile", 0.9)
    )
    assert "does not go with --calibration" in refusal(
        run_tiny("explain", "a", "b", "--against", "c", "--calibration", corpus)
    )


def test_a_stale_calibration(run: Any, folder: str, tiny: Encoder) -> None:
    assert run("calibrate", folder).code == 0
    Index.open(folder, tiny).add(["one more text"])
    answer = run("search", folder, "a fight", "-k", 1)
    assert "unrelated" not in answer.out
    assert f"was made for another corpus; calibrate again: likewise calibrate {folder}" in answer.err
    assert "calibrate again" in refusal(run("search", folder, "a fight", "--min-percentile", 0.9))
