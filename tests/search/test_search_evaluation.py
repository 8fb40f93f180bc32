"""Retrieval evaluation against brute force, and where tasks come from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import save_classic
from likewise.data import Columns, Dataset, read_pairs
from likewise.encoder import Encoder
from likewise.encoder.pooling import ModulesConfig
from likewise.encoder.similarity import unit
from likewise.encoder.tokens import Tokenizer
from likewise.errors import Cancelled, DataError, UsageError
from likewise.search.evaluation import (
    RetrievalSource,
    RetrievalTask,
    dense_setting,
    encoded_rankers,
    evaluate_ranker,
    evaluate_retrieval,
)
from likewise.search.ranker import Corpus
from likewise.search.recall import Relevant
from tiny_models import tiny_encoder

KS = (1, 5, 10, 20, 50)


def brute_force(left: np.ndarray, right: np.ndarray) -> dict[int, float]:
    """Recall of pairs from all cosines at once: how many left texts score more than 1e-6 above the right one's own."""
    scores = unit(right) @ unit(left).T
    ranks = (scores > np.diag(scores)[:, None] + np.float32(1e-6)).sum(1)
    return {k: float((ranks < k).mean()) for k in KS}


def check_pairs(encoder: Encoder, source: RetrievalSource) -> None:
    pairs = list(read_pairs(source.dataset.name, data_dir=source.dataset.data_dir))[: source.dataset.limit]
    left, right = (encoder.encode([getattr(pair, side) for pair in pairs]) for side in ("left", "right"))
    result = evaluate_retrieval(encoder, source.read())
    assert result.n == len(pairs)
    assert {k: one.value for k, one in result.recall.items()} == brute_force(left, right)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_recall_of_pairs_is_that_of_brute_force(tiny: Encoder, pooling: str) -> None:
    check_pairs(tiny.with_pooling(pooling=pooling), RetrievalSource("sample/pairs"))


@pytest.mark.slow
@pytest.mark.data
def test_recall_of_real_pairs_is_that_of_brute_force(
    minilm: Encoder, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likewise.search.ranker.BLOCK_BYTES", 2**20)
    task = RetrievalSource(Dataset("compression/test_36k", limit=500, data_dir=shared_data)).read()
    [ranker], _ = encoded_rankers(minilm, [minilm.pooling_config], task)
    result = evaluate_ranker(ranker, task, dense_setting(minilm))
    right = ranker.query_vectors[[ranker.row_of[query] for query in task.queries]]
    assert result.n == 500
    assert {k: one.value for k, one in result.recall.items()} == brute_force(ranker.texts, right)
    some = [0, 249, 499]
    np.testing.assert_allclose(ranker.texts[some], minilm.encode([task.corpus.texts[row] for row in some]), atol=1e-6)


@pytest.mark.slow
def test_the_bundled_model_on_the_sample(minilm: Encoder) -> None:
    found = evaluate_retrieval(minilm, RetrievalSource("sample/sentences", "sample/queries").read())
    assert found.n == 6 and found.recall[10].value == pytest.approx(21 / 24)
    assert (found.metadata["texts"], found.setting.layers, found.setting.pooling) == (300, (6,), "mean")


def task_of(texts: list[str], queries: list[str], rows: list[int]) -> RetrievalTask:
    return RetrievalTask("mine", Corpus([str(row) for row in range(len(texts))], texts), queries, Relevant.single(rows))


def test_equal_texts_tie_in_the_querys_favour(tiny: Encoder) -> None:
    found = evaluate_retrieval(tiny, task_of(["a cat", "a cat", "the sea"], ["a cat", "a cat"], [0, 1]))
    assert found.positions.tolist() == [0, 0]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that is tokenised."""
    ids, seen = Tokenizer.ids, []

    def counting(self: Tokenizer, texts: Any) -> Any:
        seen.extend(texts)
        return ids(self, texts)

    monkeypatch.setattr(Tokenizer, "ids", counting)
    return seen


def test_each_text_is_encoded_once(tiny: Encoder, seen: list[str]) -> None:
    evaluate_retrieval(tiny, task_of(["a", "b", "a"], ["b", "c", "b"], [1, 0, 1]))
    assert sorted(seen) == ["a", "b", "c"]


def test_texts_and_queries_get_their_prompts(seen: list[str]) -> None:
    encoder = tiny_encoder(modules_config=ModulesConfig(prompts={"query": "q: ", "document": "d: "}))
    task = task_of(["a", "b"], ["b"], [1])
    [ranker], _ = encoded_rankers(encoder, [encoder.pooling_config], task)
    assert sorted(seen) == ["d: a", "d: b", "q: b"]
    expected = encoder.similarity(encoder.encode_query(["b"]), encoder.encode_document(["a", "b"]))
    [(_, scores)] = ranker.score_blocks(["b"])
    np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_cut_texts_are_counted(tiny: Encoder) -> None:
    found = evaluate_retrieval(tiny, task_of(["word " * 100, "word " * 100, "b"], ["b"], [2]))
    assert found.metadata["truncated"] == 1


def test_progress_is_told_and_can_cancel(tiny: Encoder) -> None:
    notes: list[str] = []
    task = RetrievalSource("sample/pairs").read()
    evaluate_retrieval(tiny, task, progress=lambda done, total, note: notes.append(note))
    assert {"texts", "queries"} <= set(notes)

    def cancel(*_: Any) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        evaluate_retrieval(tiny, task, progress=cancel)


def test_the_key_knows_all_that_matters() -> None:
    tasks = [
        task_of(["a", "b"], ["b"], [1]),
        task_of(["a", "b"], ["b"], [0]),
        task_of(["a", "b"], ["c"], [1]),
        task_of(["ab", ""], ["b"], [1]),
        task_of(["a", "b", "b"], [], []),
        RetrievalTask("mine", Corpus(["x", "1"], ["a", "b"]), ["b"], Relevant.single([1])),
    ]
    assert len({task.key for task in tasks}) == len(tasks)
    assert task_of(["a", "b"], ["b"], [1]).key == tasks[0].key


Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)

    def file(name: str, *lines: str) -> str:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("\n".join([*lines, ""]))
        return name

    return file


class TestPairs:
    @pytest.fixture(autouse=True)
    def files(self, write: Write) -> None:
        write("pairs.csv", "sentence1,sentence2,kind", "a,b,x", "c,d,y", "a,e,x")
        write("bad.csv", "sentence1,sentence2", "a,b", "c,", "d,e")
        write("texts.csv", "text", "a")

    def test_right_asks_for_left(self) -> None:
        task = RetrievalSource("pairs.csv").read()
        assert (list(task.corpus.texts), list(task.queries)) == (["a", "c", "a"], ["b", "d", "e"])
        assert task.relevant.rows.tolist() == [0, 1, 2]

    def test_sides_can_be_named(self) -> None:
        task = RetrievalSource(Dataset("pairs.csv", Columns(left="sentence2", right="sentence1"))).read()
        assert (list(task.corpus.texts), list(task.queries)) == (["b", "d", "e"], ["a", "c", "a"])

    def test_some_ask_among_all(self) -> None:
        task = RetrievalSource("pairs.csv", where="kind=x").read()
        assert (len(task.corpus), list(task.queries), task.name) == (3, ["b", "e"], "pairs.csv, kind=x")
        assert task.relevant.rows.tolist() == [0, 2]

    def test_only_similar_pairs_ask(self, write: Write) -> None:
        write("scored.csv", "sentence1,sentence2,score,kind", "a,b,5,x", "c,d,1,x", "e,f,4,y")
        task = RetrievalSource("scored.csv", min_score=4).read()
        assert (len(task.corpus), list(task.queries), task.name) == (3, ["b", "f"], "scored.csv, score >= 4")
        both = RetrievalSource("scored.csv", where="kind=x", min_score=4).read()
        assert (list(both.queries), both.name) == (["b"], "scored.csv, kind=x, score >= 4")
        with pytest.raises(DataError, match=r"no pair has score >= 6; the highest score is 5"):
            RetrievalSource("scored.csv", min_score=6).read()
        with pytest.raises(DataError, match=r"no column for the score"):
            RetrievalSource("pairs.csv", min_score=1).read()

    def test_the_first_rows(self) -> None:
        task = RetrievalSource(Dataset("pairs.csv", limit=2)).read()
        assert (len(task.corpus), len(task.queries)) == (2, 2)

    def test_bad_rows(self) -> None:
        with pytest.raises(DataError, match=r"bad\.csv, line 3, column 'sentence2'"):
            RetrievalSource("bad.csv").read()
        task = RetrievalSource(Dataset("bad.csv", skip_bad=True)).read()
        assert (len(task.queries), task.skipped) == (2, 1)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"where": "kind=z"}, r"pairs\.csv: no pair has kind=z; 'kind' has 'x', 'y'"),
            ({"where": "source=x"}, r"no column 'source' next to the texts \(--where\); there are 'kind'"),
            ({"where": "kind"}, r"--where takes COLUMN=VALUE"),
            ({"qrels": "r.tsv"}, r"--qrels judges a corpus's texts for queries; give --queries too"),
        ],
    )
    def test_wrong_options(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises((DataError, UsageError), match=message):
            RetrievalSource("pairs.csv", **options).read()
        with pytest.raises(UsageError, match="--limit takes a number of rows from 1 on, got 0"):
            RetrievalSource(Dataset("pairs.csv", limit=0))

    def test_texts_are_no_pairs(self) -> None:
        with pytest.raises(
            DataError, match=r"no column for the left text.*; or, to search these texts, give --queries"
        ):
            RetrievalSource("texts.csv").read()
        with pytest.raises(DataError, match=r"no file 'none\.csv'") as raised:
            RetrievalSource("none.csv").read()
        assert "--queries" not in str(raised.value)


class TestJudged:
    @pytest.fixture(autouse=True)
    def files(self, write: Write) -> None:
        write("texts.csv", "id,text", "d1,cats", "d2,dogs", "d3,birds")
        write("queries.csv", "id,query", "q1,purr", "q2,bark", "q3,sing")
        write("qrels.txt", "q1 0 d1 1", "q2 0 d2 2", "q2 0 d3 1", "q3 0 d1 0", "q3 0 d2 -1")
        write("named.csv", "query,relevant", "purr,d1", "sing,d3 d1")

    def read(self, **options: Any) -> RetrievalTask:
        how = {name: options.pop(name) for name in ("limit", "skip_bad", "columns", "data_dir") if name in options}
        data = Dataset(options.pop("file", "texts.csv"), **how)
        return RetrievalSource(data, **({"queries": "queries.csv", "qrels": "qrels.txt"} | options)).read()

    def test_gains_and_queries_without_answers(self) -> None:
        task = self.read()
        assert (list(task.queries), task.left_out) == (["purr", "bark"], 1)
        judged = task.relevant
        assert (judged.rows.tolist(), judged.gains.tolist()) == ([0, 1, 2], [1, 2, 1])
        assert judged.starts.tolist() == [0, 1, 3]

    def test_queries_that_name_their_answers(self) -> None:
        task = self.read(queries="named.csv", qrels=None)
        assert (list(task.queries), task.relevant.rows.tolist()) == (["purr", "sing"], [0, 2, 0])

    def test_the_first_rows(self) -> None:
        task = self.read(limit=2)
        assert (len(task.corpus), list(task.queries), task.left_out) == (2, ["purr", "bark"], 0)
        assert task.relevant.rows.tolist() == [0, 1]

    def test_a_beir_folder(self, write: Write) -> None:
        write("set/corpus.jsonl", '{"_id": "d1", "title": "Cats", "text": "purr"}', '{"_id": "d2", "text": "dogs"}')
        write("set/queries.jsonl", '{"_id": "q1", "text": "cats?"}', '{"_id": "q2", "text": "of the train split"}')
        write("set/qrels/test.tsv", "query-id\tcorpus-id\tscore", "q1\td1\t1")
        task = RetrievalSource("set").read()
        assert (list(task.corpus.texts), list(task.queries), task.left_out) == (["Cats purr", "dogs"], ["cats?"], 1)
        other = RetrievalSource("set", qrels=write("dev.tsv", "query-id\tcorpus-id\tscore", "q2\td2\t1")).read()
        assert other.relevant.rows.tolist() == [1]

    @pytest.mark.parametrize(
        ("lines", "message"),
        [
            (["q9 0 d1 1"], r"new\.txt, line 1: no query 'q9' in queries\.csv; correct the id, or skip it"),
            (["q1 0 d1 1", "q1 0 d9 1"], r"new\.txt, line 2: no text 'd9' in texts\.csv; correct the id"),
            (["q1 0 d1 1", "q1 0 d1 0"], r"new\.txt, line 2: query 'q1' and text 'd1' are judged twice"),
        ],
    )
    def test_wrong_ids(self, lines: list[str], message: str, write: Write) -> None:
        file = write("new.txt", *lines, "q3 0 d3 1")
        with pytest.raises(DataError, match=message):
            self.read(qrels=file)
        task = self.read(qrels=file, skip_bad=True)
        assert task.skipped == 1 and task.relevant.rows.tolist()[-1] == 2

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"qrels": None},
                r"queries\.csv: no query names its relevant texts; add a column relevant, or give --qrels",
            ),
            ({"where": "a=b"}, r"--where and --min-score choose among pairs; leave them out"),
            ({"min_score": 0.0}, r"--where and --min-score choose among pairs; leave them out"),
            ({"qrels": "none.txt"}, r"no file 'none\.txt'"),
            ({"file": "twice.csv"}, r"twice\.csv: the id 'd1' names two texts; give each text an id of its own"),
            (
                {"queries": "twice.csv"},
                r"twice\.csv, line 3: the id 'd1' names two queries; give each an id of its own",
            ),
            ({"qrels": "nothing.txt"}, r"texts\.csv: no query has a relevant text; check the ids in nothing\.txt"),
        ],
    )
    def test_flaws_are_told(self, options: dict[str, Any], message: str, write: Write) -> None:
        write("twice.csv", "id,text", "d1,a", "d1,b")
        write("nothing.txt", "q1 0 d1 0")
        with pytest.raises((DataError, UsageError), match=message):
            self.read(**options)


def test_a_model_with_one_layer_less(tmp_path: Path) -> None:
    encoder = Encoder.load(str(save_classic(tmp_path / "other", seed=3)), device="cpu", layer=1, pooling="max")
    setting = evaluate_retrieval(encoder, RetrievalSource(Dataset("sample/pairs", limit=5)).read()).setting
    assert (setting.layers, setting.pooling, setting.ranker) == ((1,), "max", "dense")
