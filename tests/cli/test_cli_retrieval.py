"""``likewise evaluate retrieval``: recall of pairs and of corpora, grids, and what is kept of them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from likewise.encoder import Encoder
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.search.evaluation import RetrievalSource, evaluate_retrieval

pytest_plugins = ("command_line",)

Retrieval = Callable[..., Any]


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "retrieval"


@pytest.fixture
def retrieval(run_tiny: Any) -> Retrieval:
    """Run ``evaluate retrieval ... --json`` with the tiny model and read the document."""

    def call(*arguments: object) -> Any:
        answer = run_tiny("evaluate", "retrieval", *arguments, "--json")
        assert answer.code == 0 and answer.out.count("\n") == 1, answer
        return json.loads(answer.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    return call


def test_one_result_is_one_object(retrieval: Retrieval, tiny: Encoder, tiny_folder: Path) -> None:
    found = retrieval("sample/pairs")
    expected = evaluate_retrieval(tiny, RetrievalSource("sample/pairs").read()).to_dict()
    assert found == expected | {"model": str(tiny_folder)}
    assert found.keys() >= {"n", "recall", "mrr", "ndcg", "intervals"} and found["n"] == 60
    assert list(found["recall"]) == ["1", "5", "10", "20", "50"]


def test_a_corpus_with_queries(retrieval: Retrieval) -> None:
    found = retrieval("sample/sentences", "--queries", "sample/queries", "--k", "3,1")
    assert (found["n"], found["texts"], list(found["recall"])) == (6, 300, ["1", "3"])


def test_qrels(retrieval: Retrieval, tmp_path: Path) -> None:
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("1 0 s084 1\n2 0 s010 2\n")
    found = retrieval("sample/sentences", "--queries", "sample/queries", "--qrels", qrels)
    assert (found["n"], found["left_out"]) == (2, 4)


def test_a_beir_folder(retrieval: Retrieval, tmp_path: Path) -> None:
    (tmp_path / "set" / "qrels").mkdir(parents=True)
    (tmp_path / "set" / "corpus.jsonl").write_text('{"_id": "a", "text": "a cat"}\n{"_id": "b", "text": "the sea"}\n')
    (tmp_path / "set" / "queries.jsonl").write_text('{"_id": "q", "text": "a cat"}\n')
    (tmp_path / "set" / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    for arguments in ((tmp_path / "set",), ("set", "--data-dir", tmp_path)):
        found = retrieval(*arguments)
        assert (found["n"], found["recall"]["1"], found["mrr"], found["ndcg"]) == (1, 1, 1, 1)


def test_repeated_options_make_a_grid(retrieval: Retrieval) -> None:
    options = ("--pooling", "mean", "--pooling", "cls", "--layer", "0", "--layer", "1,2", "--ranker", "dense")
    found = retrieval("sample/pairs", *options, "--ranker", "bm25")["results"]
    cells = [(row["pooling"], row["layer"], row["ranker"]) for row in found]
    dense = [(pooling, layer, "dense") for pooling in ("mean", "cls") for layer in (0, [1, 2])]
    assert cells == [*dense, (None, None, "bm25")]


def test_all_layers(retrieval: Retrieval) -> None:
    assert [row["layer"] for row in retrieval("sample/pairs", "--layer", "all")["results"]] == [0, 1, 2]


def test_compare(retrieval: Retrieval) -> None:
    found = retrieval("sample/pairs", "--compare")["results"]
    assert [(row["ranker"], row["pooling"]) for row in found] == [
        ("dense", "mean"), ("dense", "cls"), ("dense", "max"), ("input-embeddings", None), ("hybrid", "mean"),
        ("bow", None), ("tfidf", None), ("bm25", None), ("random", None),
    ]  # fmt: skip


def test_where_and_limit(retrieval: Retrieval) -> None:
    found = retrieval("sample/pairs", "--where", "kind=number")
    assert found["texts"] == 60 and 6 <= found["n"] < 60 and found["data"] == "sample/pairs, kind=number"
    found = retrieval("sample/pairs", "--limit", 7)
    assert (found["texts"], found["n"]) == (7, 7)


def test_how_vectors_are_read(retrieval: Retrieval, tiny: Encoder, tmp_path: Path) -> None:
    task = RetrievalSource("sample/pairs").read()
    fit_postprocessing("whitening", tiny.encode(list(task.queries)), 4).save(tmp_path / "post.safetensors")
    found = retrieval("sample/pairs", "--post", tmp_path / "post.safetensors", "--no-special-tokens")
    changed = tiny.with_pooling(special_tokens=False)
    processing = fit_postprocessing("whitening", tiny.encode(list(task.queries)), 4)
    assert found["recall"] == evaluate_retrieval(changed.with_postprocessing(processing), task).to_dict()["recall"]
    assert retrieval("sample/pairs", "--truncate-dim", 2)["mrr"] != retrieval("sample/pairs")["mrr"]


def test_cached_results_are_named(run_tiny: Any, memory: Path) -> None:
    arguments = ("evaluate", "retrieval", "sample/pairs", "--ranker", "dense", "--ranker", "bm25", "--json")
    first, second = run_tiny(*arguments), run_tiny(*arguments)
    assert "cache" not in first.err
    assert "from the cache (2 of 2; --fresh computes anew): mean; bm25" in second.err
    one, other = (json.loads(answer.out)["results"] for answer in (first, second))
    assert [row | {"kept": True} for row in one] == other
    assert "from the cache" not in run_tiny(*arguments, "--fresh").err
    assert len(list(memory.iterdir())) == 2


def test_a_table_on_the_screen(run_tiny: Any) -> None:
    shown = run_tiny("evaluate", "retrieval", "sample/pairs", "--k", "1,10").out
    for word in ("sample/pairs: 60 texts", "R@1 ", "R@10", "MRR@10", "nDCG@10", "dense", "mean", "ranker"):
        assert word in shown


def test_skipped_rows_and_cut_texts_are_told(run_tiny: Any, tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text(f"sentence1,sentence2\na,b\nc,\n{'word ' * 100},d\n")
    answer = run_tiny("evaluate", "retrieval", file, "--skip-bad", "--json")
    assert json.loads(answer.out)["skipped"] == 1 and json.loads(answer.out)["truncated"] == 1
    assert "bad rows skipped: 1" in answer.err and "texts cut at the limit: 1" in answer.err


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_plot(run_tiny: Any, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"recall.{ending}"
    answer = run_tiny("evaluate", "retrieval", "sample/pairs", "--compare", "--plot", path)
    assert answer.code == 0 and path.stat().st_size > 1000
    if ending == "svg":
        ElementTree.parse(path)


def test_a_folder_of_results(run_tiny: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    answer = run_tiny("evaluate", "retrieval", "sample/pairs", "--compare", "--k", "1,5", "--out", out, "--json")
    assert {path.name for path in out.iterdir()} == {
        "run.json", "recall.csv", "recall.md", "index.html", "recall.png", "recall.svg",
    }  # fmt: skip
    run = json.loads((out / "run.json").read_text())
    assert run["command"].startswith("likewise evaluate retrieval sample/pairs --compare --k 1,5 --out")
    assert run["results"] == json.loads(answer.out) and run["grid"]["seed"] == 0
    assert run.keys() >= {"time", "seconds", "versions", "reading", "run"} and "torch" in run["versions"]
    with (out / "recall.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 9 and float(rows[0]["R@1"]) == run["results"]["results"][0]["recall"]["1"]
    assert float(rows[0]["R@5_low"]) <= float(rows[0]["R@5"]) <= float(rows[0]["R@5_high"])
    markdown = (out / "recall.md").read_text()
    assert "| model | pooling | layer | ranker | n | R@1 | R@5 | MRR@10 | nDCG@10 |" in markdown
    assert markdown.count("\n|") == 11 and "ties are in the query's favour" in markdown
    assert "input-embeddings" in (out / "index.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample/pairs", "--k", "0"], "recall is taken among the first k texts, k from 1 on, not 0; give 1,5,10"),
        (["sample/pairs", "--k", "a"], "--k takes numbers as 1,5,10, not 'a'"),
        (["sample/pairs", "--k", ""], "--k takes numbers as 1,5,10, not ''"),
        (["sample/pairs", "--ranker", "bm42"], "unknown ranker 'bm42'; choose from dense, bow, tfidf, bm25, static,"),
        (["sample/pairs", "--ranker", "static"], "the static ranker needs word vectors; give a file of them with"),
        (["sample/pairs", "--layer", "9"], "no layer 9; this model has layers 0 to 2 (or -1 for the last)"),
        (["sample/pairs", "--layer", "top"], "--layer takes a number, several as 1,6, or first-last, not 'top'"),
        (["sample/pairs", "--pooling", "avg"], "unknown pooling 'avg'"),
        (["sample/pairs", "--plot", "a.gif"], "cannot draw to 'a.gif'"),
        (["sample/pairs", "--where", "kind"], "--where takes COLUMN=VALUE"),
        (["sample/pairs", "--qrels", "x"], "give --queries too"),
        (["sample/sentences"], "or, to search these texts, give --queries"),
        (["none.csv"], "no file 'none.csv'"),
    ],
)
def test_mistakes_are_one_line(run_tiny: Any, arguments: list[str], message: str) -> None:
    answer = run_tiny("evaluate", "retrieval", *arguments)
    assert answer.code == 2 and answer.out == "" and message in answer.err and answer.err.count("\n") == 1


def test_help_says_what_a_rank_is(run: Any) -> None:
    shown = " ".join(run("evaluate", "retrieval", "--help").out.split())
    assert "more than 1e-6 above it: ties are in the query's favour" in shown
    assert "A column title is put before a corpus's texts" in shown
