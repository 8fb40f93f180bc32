"""Routes: each is one library call, and everything wrong is one line with a fitting status."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from likewise.encoder import Encoder
from likewise.errors import LikewiseError
from likewise.explain import explain
from likewise.grammar.grammar import VARIABLE
from likewise.sample import SAMPLES
from likewise.server.app import create_app
from likewise.server.offers import Corpora, Uploads
from likewise.server.routes.jobs import changes
from likewise.server.settings import Limits, StudioSettings
from studio_jobs import PATIENCE, failed, finished

LEFT, RIGHT = "A cat sat on the mat.", "The mat is under a cat."


@pytest.fixture(scope="module")
def studio(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("studio")
    settings = StudioSettings(
        folder=folder,
        models=(str(tiny_folder),),
        runs=folder / "runs",
        threads=1,
        limits=Limits(characters=200, tokens=30, rows=50, row_characters=1000),
    )  # fmt: skip
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000", raise_server_exceptions=False) as made:
        yield made


@pytest.fixture(scope="module")
def model(tiny_folder: Path) -> str:
    return tiny_folder.name


def test_start_offers_what_there_is(studio: TestClient, model: str, tiny_folder: Path) -> None:
    found = studio.get("/api/start")
    assert found.json()["models"] == [model] and str(tiny_folder.parent) not in found.text
    assert {one["id"] for one in found.json()["corpora"]} >= {"sample/pairs", "sample/sentences"}


def test_without_spacy_all_but_what_needs_a_grammar_is_there(
    studio: TestClient, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "spacy", None)
    assert studio.get("/api/start").json()["grammar"] is False
    request = {"corpus": "sample/pairs", "model": model}
    for route, question in (("lint", request), ("patterns", {"corpus": "sample/pairs", "first": {"model": model}})):
        refused = studio.post(f"/api/corpus/{route}", json=question)
        assert refused.status_code == 501 and "likewise[grammar]" in refused.json()["error"]
    points = finished(studio, studio.post("/api/attention", json={**request, "limit": 12}))
    assert "structure" not in points["variables"]


def test_a_grammar_that_is_not_there_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(LikewiseError, match="no folder"):
        create_app(StudioSettings(folder=tmp_path, grammar=str(tmp_path / "none")))


def test_a_pair_is_the_librarys_explanation(studio: TestClient, model: str, tiny: Encoder) -> None:
    found = studio.post("/api/pair", json={"left": LEFT, "right": RIGHT, "model": model, "granularity": "word"}).json()
    own = explain(tiny, LEFT, RIGHT, granularity="word").to_dict()
    assert found["relevance"] == own["relevance"] and found["similarity"] == own["similarity"]
    assert sum(found["ledger"].values()) == pytest.approx(found["similarity"])
    assert sum(found["shares"]["left"]) == pytest.approx(
        found["similarity"] - sum(found["bias"]["right"]) - found["bias"]["both"]
    )


def test_two_poolings_are_compared(studio: TestClient, model: str) -> None:
    request = {"left": LEFT, "right": RIGHT, "model": model, "other": {"model": model, "pooling": "cls"}}
    found = studio.post("/api/pair/compare", json=request).json()
    assert found["change"] == pytest.approx(found["second"]["similarity"] - found["first"]["similarity"])


WRONG = {
    "no right": ({"left": "a"}, 422, "right"),
    "empty": ({"left": "a", "right": ""}, 422, "right"),
    "too long": ({"left": "a", "right": "b" * 201}, 413, "at most 200 characters"),
    "far too long": ({"left": "a", "right": "b" * 300_000}, 413, "at most 200 characters"),
    "too many tokens": ({"left": "a " * 60, "right": "b " * 60}, 413, "take too long to explain by word with bilrp"),
    "a slow method": ({"left": "a", "right": "b " * 20, "method": "jacobian"}, 413, "the budget is two texts of 6"),
    "many sentences": (
        {"left": "a", "right": "B c. " * 20, "granularity": "sentence", "method": "hxp"},
        413,
        "with bilrp",
    ),
    "unknown setting": ({"left": "a", "right": "b", "colour": 1}, 422, "colour"),
    "unknown method": ({"left": "a", "right": "b", "method": "magic"}, 422, "method"),
    "unknown model": ({"left": "a", "right": "b", "model": "/etc/passwd"}, 403, "does not offer"),
    "unknown pooling": ({"left": "a", "right": "b", "pooling": "median"}, 422, "unknown pooling"),
    "no such layer": ({"left": "a", "right": "b", "layer": 99}, 422, "layer"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_invalid_requests_get_one_line_of_error(studio: TestClient, model: str, case: str) -> None:
    request, status, words = WRONG[case]
    answer = studio.post("/api/pair", json={"model": model} | request)
    assert answer.status_code == status and words in answer.json()["error"] and "\n" not in answer.json()["error"]


def test_an_index_is_built_and_searched(studio: TestClient, model: str) -> None:
    built = finished(studio, studio.post("/api/search/index", json={"corpus": "sample/sentences", "model": model}))
    assert built["texts"] == 300
    found = studio.post("/api/search", json={"index": built["job"], "query": "a volcano", "k": 3}).json()
    assert len(found["hits"]) == 3 and "above_next" in found["hits"][0]["explanation"]
    plain = studio.post("/api/search/baseline", json={"corpus": "sample/sentences", "query": "volcano", "k": 2}).json()
    assert plain["ranker"] == "bm25"
    missing = studio.post("/api/search", json={"index": "nothing", "query": "a"})
    assert missing.status_code == 422 and "build it first" in missing.json()["error"]


def test_recall_trajectories_and_geometry(studio: TestClient, model: str) -> None:
    recall = finished(studio, studio.post("/api/search/recall", json={"corpus": "sample/pairs", "models": [model]}))
    assert len(recall["table"]["results"]) == 3
    request = {"texts": ["We rob a bank.", "We sit on a bank."], "words": ["bank"], "models": [model]}
    [followed] = studio.post("/api/layers", json=request).json()["results"]
    assert len(followed["pairs"][0]["cosine"]) == len(followed["layers"]) == 3
    request = {"corpus": "sample/pairs", "models": [model], "min_contexts": 3}
    found = finished(studio, studio.post("/api/layers/geometry", json=request))
    assert len(found["results"][0]["layers"]) == 3


@pytest.mark.slow
def test_attention_points_are_clustered_brushed_and_looked_at(studio: TestClient, model: str) -> None:
    study = finished(
        studio, studio.post("/api/attention", json={"corpus": "sample/pairs", "model": model, "limit": 24})
    )
    assert study["depth"] == 2 and len(study["view"]) == 24
    request = {"algorithm": "kmeans", "least": 2, "most": 3}
    made = finished(studio, studio.post(f"/api/attention/{study['job']}/clusters", json=request))
    assert [layer["layer"] for layer in made["layers"]] == [1, 2] and len(made["layers"][0]["labels"]) == 24
    rows = list(range(12))
    found = studio.post(f"/api/attention/clusters/{made['job']}/brush", json={"layer": 1, "rows": rows}).json()
    assert found["n"] == 12 and sum(one["n"] for one in found["clusters"]) == 12
    wrong = studio.post(f"/api/attention/clusters/{made['job']}/brush", json={"layer": 1, "rows": [99]})
    assert wrong.status_code == 422
    wrong = studio.post(f"/api/attention/clusters/{made['job']}/brush", json={"layer": 1, "rows": [10**30]})
    assert wrong.status_code == 422 and "rows" in wrong.json()["error"]
    maps = studio.get(f"/api/attention/{study['job']}/pairs/3", params={"layer": 2}).json()
    heads = np.array(maps["heads"])
    assert heads.shape[1:] == (len(maps["tokens"]),) * 2 and np.abs(heads.mean(0) - maps["mean"]).max() < 2e-4
    assert "no layer 9" in studio.get(f"/api/attention/{study['job']}/pairs/3", params={"layer": 9}).json()["error"]


def test_uploads_are_checked_kept_and_taken_away(studio: TestClient) -> None:
    text = "sentence1,sentence2,score\na cat,a dog,1\n<img src=x onerror=alert(1)>,b,2\n"
    made = studio.post("/api/corpora", content=text.encode(), headers={"x-file-name": "../../my <b>.csv"})
    assert made.status_code == 201 and made.json()["pairs"] and made.json()["scored"]
    assert made.json()["name"] == "my <b>.csv" and made.json()["rows"] == 2
    name = made.json()["id"]
    assert name in {one["id"] for one in studio.get("/api/corpora").json()}
    assert studio.delete(f"/api/corpora/{name}").status_code == 204
    assert studio.delete(f"/api/corpora/{name}").status_code == 404
    assert studio.delete("/api/corpora/..%2Fjobs").status_code == 404


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [("a.exe", b"x", "ends with"), ("a.csv", b"", "empty"), ("a.csv", b"x\n", "a.csv"),
     ("a.csv", b"\xff\xfe\x00", "a.csv"), ("a.jsonl", b"{", "a.jsonl"), ("a.txt", b"word\n" * 51, "at most 50 rows")],
)  # fmt: skip
def test_bad_files_are_refused_in_a_line(
    studio: TestClient, tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    answer = studio.post("/api/corpora", content=content, headers={"x-file-name": name})
    assert answer.status_code == 422 and words in answer.json()["error"]
    assert "/studio" not in answer.json()["error"] and "\n" not in answer.json()["error"]


def events_until(studio: TestClient, ends: Callable[[str], bool], act: Callable[[], Any] | None = None) -> list[str]:
    """The events of the stream up to the one that ends it; ``act`` follows the first event."""

    async def heard() -> list[str]:
        found = []
        async with asyncio.timeout(PATIENCE):
            async for event in changes(studio.app.state.studio.jobs, Future()):  # type: ignore[attr-defined]
                found.append(event)
                if ends(event):
                    return found
                if act is not None and len(found) == 1:
                    await asyncio.to_thread(act)
        raise AssertionError("the stream has ended")

    return asyncio.run(heard())


def test_events_report_a_job_to_its_end_and_that_it_is_forgotten(studio: TestClient, model: str) -> None:
    request = {"corpus": "sample/pairs", "models": [model], "rankers": ["bow"]}
    name = studio.post("/api/search/recall", json=request).json()["id"]
    found = events_until(studio, lambda event: name in event and '"state":"done"' in event)
    assert all(json.loads(event.removeprefix("data: "))["title"] for event in found if event.startswith("data: "))
    events_until(
        studio, lambda event: event == f'event: forgotten\ndata: "{name}"\n\n',
        lambda: studio.delete(f"/api/jobs/{name}"),
    )  # fmt: skip


def test_the_stream_of_events_sleeps_until_a_job_changes(studio: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.server.routes.jobs.SECONDS_BETWEEN_SIGNS", 0.5)
    jobs = studio.app.state.studio.jobs  # type: ignore[attr-defined]
    own, looks = jobs.all, []
    monkeypatch.setattr(jobs, "all", lambda *given: (looks.append(1), own(*given))[1])
    events_until(studio, lambda event: event.startswith(": still here"))
    assert len(looks) == 1, "nothing has changed, so nothing is looked at"


def test_the_stream_of_events_ends_when_its_client_is_gone(studio: TestClient) -> None:
    jobs = studio.app.state.studio.jobs  # type: ignore[attr-defined]
    gone: Future[None] = Future()

    async def listened() -> None:
        asyncio.get_running_loop().call_later(0.05, gone.set_result, None)
        async with asyncio.timeout(PATIENCE):
            async for _ in changes(jobs, gone):
                pass

    before = len(jobs._listeners)
    asyncio.run(listened())
    assert gone.done() and len(jobs._listeners) == before


def test_the_same_question_of_another_file_is_another_job(tiny_folder: Path, tmp_path: Path) -> None:
    jobs = set()
    for words in ("a cat,a dog,2", "a cat,a man,33"):
        (tmp_path / "own.csv").write_text(f"left,right,score\n{words}\n", encoding="utf-8")
        settings = StudioSettings(
            folder=tmp_path / "kept", models=(str(tiny_folder),), corpora=(str(tmp_path / "own.csv"),), threads=1
        )
        with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as made:
            request = {"corpus": "own.csv", "models": [tiny_folder.name], "rankers": ["bow"]}
            jobs.add(made.post("/api/search/recall", json=request).json()["id"])
    assert len(jobs) == 2


def test_a_search_by_what_is_no_index_is_refused(studio: TestClient, model: str) -> None:
    request = {"corpus": "sample/pairs", "models": [model], "rankers": ["bow"]}
    name = finished(studio, studio.post("/api/search/recall", json=request))["job"]
    assert studio.post("/api/search", json={"index": name, "query": "a cat"}).status_code == 422


def test_runs_are_read_as_they_were_left(studio: TestClient) -> None:
    assert studio.get("/api/training/runs").json() == []
    assert studio.get("/api/training/runs/none").status_code == 404


@pytest.mark.slow
def test_a_model_is_trained_and_its_run_is_offered(studio: TestClient, model: str, tiny_folder: Path) -> None:
    head, *rows = SAMPLES["sample/pairs"].read_text(encoding="utf-8").splitlines(keepends=True)
    files = {name: studio.post("/api/corpora", content=head + "".join(part), headers={"x-file-name": f"{name}.csv"})
             for name, part in (("train", rows[:40]), ("dev", rows[40:]))}  # fmt: skip
    request = {name: file.json()["id"] for name, file in files.items()} | {"name": "mine", "model": model, "epochs": 1}
    before = studio.post("/api/pair", json={"model": model, "left": LEFT, "right": RIGHT}).json()["similarity"]
    assert finished(studio, studio.post("/api/training", json=request))["name"] == "mine"
    assert "runs/mine" in studio.get("/api/start").json()["models"]
    summary = studio.get("/api/training/runs/mine")
    assert summary.json()["model"] == model and summary.json()["predictions"]["dev-similarity"]["n"] == 20
    assert str(studio.app.state.studio.settings.folder) not in summary.text, "no local path is shown"  # type: ignore[attr-defined]
    assert summary.json()["dev"]["similarity"]["best"][0]["file"] == "corpus.csv"
    after = studio.post("/api/pair", json={"model": model, "left": LEFT, "right": RIGHT}).json()["similarity"]
    trained = studio.post("/api/pair", json={"model": "runs/mine", "left": LEFT, "right": RIGHT}).json()["similarity"]
    assert after == before != trained, "training does not change the model in memory"
    assert studio.post("/api/training", json=request).json()["state"] == "done", "the same job is found again"
    again = studio.post("/api/training", json=request | {"epochs": 2})
    assert again.status_code == 422 and "another name" in again.json()["error"]
    leak = studio.post("/api/training", json=request | {"name": "leak", "dev": request["train"]})
    assert "rows" in failed(studio, leak)


@pytest.mark.parametrize("page", ["index.html", "report.html", "table.html"])
def test_tables_next_to_the_runs_are_read(studio: TestClient, page: str) -> None:
    folder = studio.app.state.studio.settings.runs / "table"  # type: ignore[attr-defined]
    folder.mkdir(parents=True)
    (folder / page).write_text("<p>", encoding="utf-8")
    (folder / "table.csv").write_text("row,score\nmean,0.5\n", encoding="utf-8")
    assert studio.get("/api/training/reports").json() == ["table"]
    assert studio.get("/api/training/reports/table").json()["tables"] == {"table": [["row", "score"], ["mean", "0.5"]]}
    assert studio.get("/api/training/reports/..%2f..%2fetc").status_code == 404
    shutil.rmtree(folder)


def test_equal_names_are_refused_at_the_start(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "own.csv").write_text("text\na cat\n", encoding="utf-8")
    named = tuple(str(tmp_path / place / "own.csv") for place in ("a", "b"))
    for settings in (StudioSettings(folder=tmp_path, corpora=named), StudioSettings(folder=tmp_path, models=named)):
        with pytest.raises(LikewiseError, match=r"own\.csv"):
            create_app(settings)


def test_corpora_that_were_named_at_the_start(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("left,right,score\na cat,a dog,2\n", encoding="utf-8")
    settings = StudioSettings(
        folder=tmp_path / "kept", models=(str(tiny_folder),), corpora=(str(tmp_path / "own.csv"),), threads=1
    )
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as made:
        found = made.get("/api/corpora")
        (tmp_path / "own.csv").unlink()
        request = {"corpus": "own.csv", "model": tiny_folder.name}
        gone = made.post("/api/search/index", json=request)
        assert gone.status_code == 422
        assert gone.json()["error"] == "own.csv is no longer where it was; put it back, or choose another"
    assert {"id": "own.csv", "name": "own.csv", "rows": 1, "pairs": True, "scored": True, "own": False} in found.json()
    assert str(tmp_path) not in found.text
    with pytest.raises(LikewiseError, match="nowhere"):
        Corpora(StudioSettings(folder=tmp_path, corpora=("nowhere/none",)), Uploads(tmp_path / "u", Limits()))


def test_a_failure_inside_leaves_the_server_up(studio: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from likewise.server.routes import pair

    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(pair, "explain", broken)
    answer = studio.post("/api/pair", json={"left": "a", "right": "b", "model": "tiny"})
    assert answer.status_code == 500 and "secret" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff", "as on every answer"
    assert studio.get("/api/start").status_code == 200
