"""On a cluster every analysis gives the numbers of one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from likewise.cluster import Cluster
from likewise.data import Dataset
from likewise.encoder import Encoder, forward
from likewise.encoder.workers import with_team
from likewise.evaluation.sts import evaluate_sts
from likewise.explain import attribution as attributions
from likewise.explain import pairs as explained_pairs
from likewise.explain.files import attribute_file, explain_file
from likewise.grammar import Grammar
from likewise.lint.lint import lint
from likewise.sample import sample_sentences
from likewise.search.calibration import CalibrationSettings, calibrate
from likewise.search.duplicates import find_duplicates

pytest.importorskip("ray", reason="Ray is not installed (extra: cluster)")
pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "WINDOW_TEXTS", 100)
    monkeypatch.setattr(explained_pairs, "WINDOW_PAIRS", 20)
    monkeypatch.setattr(attributions, "WINDOW_TEXTS", 20)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster("local", 2).connected() as connected:
        yield connected


def results(encoder: Encoder, folder: Path, grammar: Grammar) -> list[Any]:
    """What each analysis finds; files as their bytes."""
    pairs, texts = Dataset("sample/pairs"), [(str(row), text) for row, text in enumerate(sample_sentences()[:50])]
    explain_file(encoder, pairs, folder / "explained.jsonl", {"granularity": "word"})
    attribute_file(encoder, texts, "a storm at sea", folder / "attributed.jsonl", {})
    return [
        (folder / "explained.jsonl").read_bytes(),
        (folder / "attributed.jsonl").read_bytes(),
        lint(encoder, pairs.pairs(), grammar).to_dict(),
        evaluate_sts(encoder, pairs.scored_pairs()).to_dict(),
        calibrate(encoder, sample_sentences(), pairs.scored_pairs(), CalibrationSettings(match_from=3)).to_dict(),
        find_duplicates(encoder, sample_sentences(), 0.7).to_dict(),
    ]


def test_every_analysis_is_the_same(
    minilm: Encoder, english: Grammar, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for name, encoder in (("alone", minilm), ("team", with_team(minilm, cluster))):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / name / "cache"))  # so that both compute
        found[name] = results(encoder, tmp_path / name, english)
    assert found["team"] == found["alone"]
