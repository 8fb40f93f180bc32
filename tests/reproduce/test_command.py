"""``likewise reproduce``: what it lists, what it runs, what continues after a kill, and what it says without data."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from likewise.reproduce import running
from likewise.reproduce.records import Record, records

pytest_plugins = ("command_line",)

STUDIES = {
    "attention-clusters": {
        "table-1": "the Optuna search behind table 1",
        "table-3": "CLS, mean, max and BiLSTM by Pearson, Spearman and MSE",
        "autoencoder": "the autoencoder's loss",
        "table-2": "the choice of algorithms and K",
        "table-4": "silhouette, Davies-Bouldin, Calinski-Harabasz",
        "table-5": "Kruskal-Wallis and Mann-Whitney for similarity, length and structure",
        **{f"figure-{number}": "figures 3 to 11 with their ranges" for number in range(3, 12)},
        "dimensions": "future work: more than two dimensions",
        "homonyms": "future work: homonyms by cluster",
        "synonyms": "future work: synonyms by cluster",
    },
    "explaining-similarity": {
        "table-1": "Spearman on STSb, SICK and BIOSSES",
        "aupc": "the table of AUPC",
        "curves": "the perturbation curves",
        "conservation": "the figure of conservation",
        "nouns": "nouns: ACS, with panels for 1, 2 and 5 shared nouns",
        "rules": "the rule sets per model",
        "pos-summed": "parts of speech, summed",
        "pos-averaged": "parts of speech, averaged",
        "languages": "the multilingual table",
        "language-changes": "positive and negative differences between languages",
        "language-triplets": "the triplets",
        "biosses-levels": "BIOSSES by level",
        "biosses-words": "the strongest interactions by quartile",
        "attention-scores": "outlook: attention scores explained as interactions",
    },
    "hidden-states": {
        "inspection": "inspection answers",
        "word-trajectories": "the word trajectories with their sentences",
        "sentence-trajectories": "the sentence trajectories with their sentences",
        "pooling": "recall by pooling",
        "layers": "recall by layer",
        "models": "recall by model",
        "queries": "the six queries",
        "baselines": "classic baselines with GloVe",
        "ties": "the control of all recalls",
    },
    "bert-visualization": {
        "baseline": "baseline by layer on SNLI",
        "self-similarity": "self-similarity, raw and adjusted",
        "intra-sentence": "intra-similarity, raw and adjusted",
        "mev": "MEV of named words",
        "layer-12": "the findings about layer 12",
        "biased-data": "future work: biased data",
        "frozen-layers": "future work: frozen layers",
        "contrastive": "future work: contrastive training",
    },
    "multitask-bert": {
        "table": "the table of 18 rows",
        "ablations": "Jaccard, last layers only, sampling, SMART",
        "loss-curves": "loss curves",
        "confusion-matrices": "confusion matrices",
        "scatter": "the scatter",
        "examples": "the analysed examples",
        "test-predictions": "predictions for test sets without labels, in the course's format",
    },
}
"""Every table and figure of the five studies."""
BUILT_IN = {"attention-scores", "language-triplets", "inspection", "word-trajectories", "sentence-trajectories"}
"""Items that need no public data."""
UNSTABLE = ("date", "seconds", "processor_seconds", "rate")


@pytest.fixture(autouse=True)
def short_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PROBE_SECONDS", 0.01)


def tiny(out: Path, *words: str) -> tuple[str, ...]:
    return "reproduce", *words, "--model", "minilm", "--budget", "tiny", "--threads", "1", "--out", str(out)


def numbers(path: Path) -> dict[str, Any]:
    """A run file without what differs from run to run."""
    return {name: value for name, value in json.loads(path.read_text()).items() if name not in UNSTABLE}


def test_the_list_has_every_table_and_figure(run: Any) -> None:
    answer = run("reproduce", "--json")
    found = json.loads(answer.out)["studies"]
    assert {one["name"]: {item["name"] for item in one["items"]} for one in found} == {
        name: set(items) for name, items in STUDIES.items()
    }
    assert all(item["claim"].endswith(".") for one in found for item in one["items"])
    assert answer.code == 0


@pytest.mark.slow
def test_all_studies_run_and_say_what_they_lack(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIKEWISE_DATA", raising=False)
    answer = run(*tiny(tmp_path, "--all"), "--data-dir", tmp_path / "none", "--json")
    assert answer.code == 0
    report = json.loads(answer.out)
    assert {one["item"] for one in report["items"]} == BUILT_IN
    assert all(one["verdicts"] or one["item"] == "inspection" for one in report["items"])
    every = {(study, item) for study, items in STUDIES.items() for item in items}
    assert {(one["study"], one["item"]) for one in report["not_run"]} == {
        (study, item) for study, item in every if item not in BUILT_IN
    }
    assert all(one["why"].startswith("needs ") and "likewise data " in one["why"] for one in report["not_run"])
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count("Not run with minilm") == len(report["not_run"])
    assert all(one.command in page for one in records(tmp_path))


@pytest.mark.slow
@pytest.mark.data
def test_the_same_command_twice_gives_the_same_numbers(run: Any, tmp_path: Path, shared_data: Path) -> None:
    """A trained item, one of random pairs and one with figures, each in two folders."""
    chosen = {"attention-clusters": ["table-3"], "explaining-similarity": ["rules", "biosses-levels"]}
    for folder in ("a", "b"):
        for study, items in chosen.items():
            answer = run(*tiny(tmp_path / folder, study, *items), "--data-dir", shared_data)
            assert answer.code == 0, answer.err
    first, second = (
        {path.relative_to(tmp_path / folder): path for path in (tmp_path / folder).glob("*/*.*")} for folder in "ab"
    )
    assert first.keys() == second.keys() and len(first) >= 3
    for name, path in first.items():
        if name.suffix == ".json":
            assert numbers(path) == numbers(second[name])
        else:
            assert path.read_bytes() == second[name].read_bytes()


@pytest.mark.slow
@pytest.mark.process
def test_a_killed_command_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    items = ["inspection", "word-trajectories", "sentence-trajectories"]
    command = [sys.executable, "-m", "likewise", *tiny(out, "hidden-states", *items)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    first = out / "hidden-states" / "inspection-minilm.json"
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not first.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the command ended before it could be killed"
    before = first.stat().st_mtime_ns
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "inspection (minilm): done already" in done.stderr
    assert first.stat().st_mtime_ns == before
    assert [one.item for one in records(out)] == sorted(items)
    assert all(isinstance(one, Record) and one.tables for one in records(out))
