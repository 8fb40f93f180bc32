"""``likewise attention``: the folder it leaves, computed again from its own tables, breaks, and refusals."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from answers import one_document, refusal

pytest_plugins = ("command_line",)

QUICK = (
    "--no-structure", "--hidden", 4, "--epochs", 2, "--clusters", "2-4", "--linkages", "ward",
    "--distances", "euclidean", "--covariances", "full", "--min-samples", "3",
    "--permutations", 49, "--control-pairs", 15, "--max-tokens", 30,
)  # fmt: skip


@pytest.fixture
def short_pairs(tmp_path: Path) -> Path:
    """Thirty short scored pairs; the tiny model's tokens are letters."""
    rng = np.random.default_rng(0)
    words = ["a", "the", "cat", "sat", "on", "mat", "dog", "ran", "we", "sea"]
    rows = ["sentence1,sentence2,score"]
    for place in range(30):
        left, right = (" ".join(rng.choice(words, rng.integers(1, 6))) for _ in range(2))
        rows.append(f"{left},{right},{place % 6}")
    path = tmp_path / "short.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_everything_can_be_computed_again_from_the_folder(run_tiny: Any, short_pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "study"
    said = one_document(run_tiny("attention", short_pairs, "--out", out, *QUICK, "--json"))
    document = json.loads((out / "results.json").read_text())
    assert document == said and document["n"] == 30
    points, labels = rows_of(out / "points.csv"), rows_of(out / "clusters.csv")
    assert list(points[0]) == ["pair", "layer", "z1", "z2", "similarity", "length", "structure"]
    assert list(labels[0]) == ["pair", "layer", "algorithm", "cluster"]
    assert len(points) == 30 * 2 and {row["structure"] for row in points} == {""}
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for row in labels:
        found[row["layer"], row["algorithm"]][row["pair"]] = int(row["cluster"])
    for layer in document["layers"]:
        here = [row for row in points if int(row["layer"]) == layer["layer"]]
        for one in [layer, *layer["alternatives"]]:
            given = found[str(layer["layer"]), one["algorithm"]]
            clusters = np.array([given[row["pair"]] for row in here])
            places = np.array([[float(row["z1"]), float(row["z2"])] for row in here])
            kept = clusters != -1
            assert one["noise"] == pytest.approx(1 - kept.mean()) and one["k"] == len(set(clusters[kept]))
            again = metrics.davies_bouldin_score(places[kept], clusters[kept])
            assert one["davies_bouldin"] == pytest.approx(again, abs=1e-9)
            assert one["silhouette"] == pytest.approx(metrics.silhouette_score(places[kept], clusters[kept]), abs=1e-9)
        chosen = np.array([found[str(layer["layer"]), layer["algorithm"]][row["pair"]] for row in here])
        for name in ("similarity", "length"):
            values = np.array([float(row[name]) for row in here])
            groups = [values[chosen == cluster] for cluster in sorted(set(chosen) - {-1})]
            assert layer["tests"][name]["kruskal_p"] == pytest.approx(stats.kruskal(*groups).pvalue)
    page = (out / "index.html").read_text()
    assert "What was done" in page and "http" not in page and len(page) < 2_000_000


@pytest.mark.slow
def test_tables_and_verdicts_are_shown(run_tiny: Any, short_pairs: Path, tmp_path: Path) -> None:
    answer = run_tiny(
        "attention", short_pairs, "--out", tmp_path / "study", *QUICK, "--reducer", "pca", "--compare", "none"
    )
    assert answer.code == 0 and "silhouette" in answer.out and "survive" in answer.out
    assert f"wrote {tmp_path / 'study'}" in answer.err


@pytest.mark.process
@pytest.mark.slow
def test_kill_at_any_moment_and_go_on(tiny_folder: Path, short_pairs: Path, tmp_path: Path) -> None:
    def command(out: Path) -> list[str]:
        quick = [*map(str, QUICK), "--algorithms", "kmeans,agglomerative", "--epochs", "6", "--patience", "6"]
        return [
            sys.executable,
            "-m",
            "likewise",
            "attention",
            str(short_pairs),
            "--out",
            str(out),
            *quick,
            "--model",
            str(tiny_folder),
        ]

    own = os.environ | {"OMP_NUM_THREADS": "1"}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run(command(whole), check=True, capture_output=True, env=own, timeout=300)
    killed = 0
    for stage in ("maps/progress.json", "lstm/autoencoder.pt", "random-points-lstm"):
        process = subprocess.Popen(command(broken), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=own)
        until = time.monotonic() + 120
        while process.poll() is None and not (broken / "stages" / stage).exists() and time.monotonic() < until:
            time.sleep(0.005)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait(60)
    assert killed == 3
    subprocess.run(command(broken), check=True, capture_output=True, env=own, timeout=300)
    for name in ("results.json", "points.csv", "clusters.csv"):
        assert (whole / name).read_bytes() == (broken / name).read_bytes()


@pytest.mark.slow
def test_without_a_grammar_structure_is_left_out_unless_asked_for(
    run_tiny: Any, short_pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LIKEWISE_GRAMMAR", raising=False)
    monkeypatch.setattr("likewise.grammar.grammar.installed", list)
    quick = (*QUICK[1:], "--reducer", "pca", "--compare", "none", "--algorithms", "kmeans", "--control-pairs", 0)
    answer = run_tiny("attention", short_pairs, "--out", tmp_path / "study", *quick, "--json")
    assert "structure is left out: " in answer.err and "spacy download" in answer.err
    assert set(one_document(answer)["layers"][0]["tests"]) == {"similarity", "length"}
    for asked in (("--structure",), ("--grammar", tmp_path / "nowhere")):
        assert "spacy download" in refusal(run_tiny("attention", short_pairs, "--out", tmp_path / "b", *quick, *asked))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--clusters", "two"), "--clusters takes a number or a range as 2-15"),
        (("--clusters", "1-4"), "least must be at least 2"),
        (("--clusters", "5-3"), "most must be at least 5"),
        (("--highlight", "length"), "cannot read the highlight"),
        (("--reducer", "tsne"), "unknown reducer 'tsne'"),
        (("--algorithms", "birch"), "unknown algorithm 'birch'"),
        (("--algorithms", ","), "algorithms is empty"),
        (("--directions", 3), "directions is 1 or 2"),
        (("--max-tokens", 5), "raise --max-tokens"),
        (("--limit", 4), "give more pairs"),
        (("--min-samples", "x"), "--min-samples takes numbers"),
        (("--learning-rate", "nan"), "learning-rate lies above 0"),
        (("--control-pairs", 5), "control-pairs must be 0 or at least 10"),
        (("--permutations", 10), "permutations must be at least 40 for 2 layers"),
        (("--highlight", "structure:0.9-"), "no structure to highlight"),
        (("--grammar", "en_core_web_sm"), "leave one of them out"),
    ],
)
def test_refusals_name_the_cure(
    options: tuple[object, ...], said: str, run_tiny: Any, short_pairs: Path, tmp_path: Path
) -> None:
    assert said in refusal(run_tiny("attention", short_pairs, "--out", tmp_path / "study", *QUICK, *options))


def test_pairs_without_scores_are_refused(run_tiny: Any, tmp_path: Path) -> None:
    path = tmp_path / "plain.csv"
    path.write_text("left,right\n" + "a cat,a dog\n" * 12)
    assert "--score-column" in refusal(run_tiny("attention", path, "--out", tmp_path / "study", *QUICK))
    assert not (tmp_path / "study").exists()


def test_a_file_in_the_place_of_the_folder_is_refused(run_tiny: Any, short_pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "study").write_text("mine")
    said = refusal(run_tiny("attention", short_pairs, "--out", tmp_path / "study", *QUICK))
    assert "study" in said and (tmp_path / "study").read_text() == "mine"


def test_pairs_that_are_all_alike_are_refused_in_one_line(run_tiny: Any, tmp_path: Path) -> None:
    path = tmp_path / "same.csv"
    path.write_text("left,right,score\n" + "a cat,a dog,3\n" * 12)
    said = refusal(run_tiny("attention", path, "--out", tmp_path / "study", *QUICK))
    assert "1 of them distinct" in said and "give more texts" in said
