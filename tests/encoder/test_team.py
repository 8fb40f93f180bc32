"""An encoder with a team: the same numbers as alone, from tasks and windows that can be sent to other processes."""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import Run
from likewise.data import Dataset
from likewise.data.alignments import AlignedPair, WordLink
from likewise.encoder import Encoder, forward
from likewise.encoder.encoder import encode_variants
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.encoder.stream import encode_stream, open_vectors
from likewise.encoder.workers import ALONE, Processes, team_of, with_team
from likewise.evaluation.alignment import evaluate_alignment
from likewise.evaluation.sts import evaluate_sts
from likewise.explain import attribute, explain_many
from likewise.explain import attribution as attributions
from likewise.explain import pairs as explained_pairs
from likewise.progress import Ticker
from likewise.sample import sample_sentences
from likewise.search.calibration import calibrate
from likewise.search.duplicates import find_duplicates

pytest_plugins = ("command_line",)
TEXTS = sample_sentences()[:37]


@dataclass
class Elsewhere:
    """A team whose windows and results travel as bytes, as they do between processes."""

    done: list[int] = field(default_factory=list)  # the size of each window
    device: str | None = None

    def run(self, encoder: Encoder, task: Any, windows: Iterable[Any], ticker: Ticker) -> Generator[tuple[Any, Any]]:
        for window in windows:
            sent, there = pickle.loads(pickle.dumps((task, window)))
            self.done.append(len(there))
            with forward.steady_memory():
                result = sent(with_team(encoder, ALONE), there, ticker.part())
            yield window, pickle.loads(pickle.dumps(result))

    def reaches(self, path: Any) -> bool:
        return False


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "WINDOW_TEXTS", 10)
    monkeypatch.setattr(explained_pairs, "WINDOW_PAIRS", 7)
    monkeypatch.setattr(attributions, "WINDOW_TEXTS", 8)


@pytest.fixture
def team() -> Elsewhere:
    return Elsewhere()


def test_vectors_are_the_same_to_the_bit(tiny: Encoder, team: Elsewhere, tmp_path: Path) -> None:
    there = with_team(tiny, team)
    assert np.array_equal(there.encode(TEXTS), tiny.encode(TEXTS)) and team.done == [10, 10, 10, 7]
    assert np.array_equal(
        there.encode(TEXTS, prompt="ask: ", pooling="cls"), tiny.encode(TEXTS, prompt="ask: ", pooling="cls")
    )
    encode_stream(there, [(str(row), text) for row, text in enumerate(TEXTS)], tmp_path / "stream")
    assert np.array_equal(open_vectors(tmp_path / "stream")[0], tiny.encode(TEXTS))
    assert team.done == [10, 10, 10, 7] * 3


def test_variants_are_the_same_to_the_bit(tiny: Encoder, team: Elsewhere) -> None:
    variants = [{"pooling": "mean"}, {"pooling": "max", "layer": 1}]
    for here, there in zip(
        *(encode_variants(one, TEXTS, variants) for one in (tiny, with_team(tiny, team))), strict=True
    ):
        assert np.array_equal(here.vectors, there.vectors)
    assert team.done == [10, 10, 10, 7]


def test_a_single_window_stays_here(tiny: Encoder, team: Elsewhere) -> None:
    assert np.array_equal(with_team(tiny, team).encode(TEXTS[:10]), tiny.encode(TEXTS[:10])) and team.done == []


def test_an_encoder_keeps_its_team(tiny: Encoder, team: Elsewhere) -> None:
    there = with_team(tiny, team)
    fitted = fit_postprocessing("standardisation", tiny.encode(TEXTS))
    for changed in (there.with_pooling(pooling="cls"), there.with_postprocessing(fitted), there.without_layer(1)):
        assert team_of(changed) is team
    assert (
        team_of(there, 3) == Processes(3)
        and team_of(tiny) is ALONE
        and repr(there) == repr(tiny).replace("<Encoder", "<TeamEncoder")
    )


@pytest.mark.parametrize("options", [{}, {"top": 2}, {"method": "random", "granularity": "word"}])
def test_explanations_are_the_same_to_the_bit(tiny: Encoder, team: Elsewhere, options: dict[str, Any]) -> None:
    pairs = list(pairwise(TEXTS))
    seen: list[Any] = []
    theirs = explain_many(with_team(tiny, team), pairs, progress=lambda *call: seen.append(call), **options)
    ours = list(explain_many(tiny, pairs, **options))
    assert [one.to_dict() for one in theirs] == [one.to_dict() for one in ours]
    assert team.done == [7, 7, 7, 7, 7, 1] and seen[-1] == (36, 36, "pairs")


def test_attributions_are_the_same_to_the_bit(tiny: Encoder, team: Elsewhere) -> None:
    ours, theirs = (attribute(one, TEXTS, "a dog").to_dict() for one in (tiny, with_team(tiny, team)))
    assert ours == theirs and team.done == [8, 8, 8, 8, 5]


def test_truncated_texts_are_counted_once(tiny: Encoder, team: Elsewhere, caplog: pytest.LogCaptureFixture) -> None:
    long = " ".join(["dog"] * 100)
    pairs = [(long, text) for text in TEXTS[:20]]
    with caplog.at_level("WARNING", "likewise"):
        list(explain_many(tiny, pairs))
        list(explain_many(with_team(tiny, team), pairs))
    ours, theirs = [record.getMessage() for record in caplog.records]
    assert ours == theirs and "1 of 21 texts" in ours


@pytest.mark.slow
def test_analyses_are_the_same(tiny: Encoder, team: Elsewhere, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each in a cache of its own, so that both compute."""
    pairs = Dataset("sample/pairs").scored_pairs()
    corpus = [*TEXTS, *(text + "!" for text in TEXTS)]

    def results(encoder: Encoder) -> list[Any]:
        return [
            evaluate_sts(encoder, pairs).to_dict(),
            calibrate(encoder, corpus).to_dict(),
            find_duplicates(encoder, corpus, 0.9).to_dict(),
        ]

    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "ours"))
    ours = results(tiny)
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "theirs"))
    assert results(with_team(tiny, team)) == ours
    assert len(team.done) > 20


@pytest.mark.slow
def test_alignments_are_the_same(
    tiny: Encoder, team: Elsewhere, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    links = (WordLink((0,), (0,), "EQUI", 5.0), WordLink((1,), (), "NOALI"))
    pairs = [AlignedPair(tuple(text.split()), tuple(text.split()), links, text) for text in TEXTS[:9]]
    monkeypatch.setattr("likewise.evaluation.alignment.WINDOW", 4)
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "ours"))
    ours = repr(evaluate_alignment(tiny, pairs).to_dict())  # nan is not equal to itself
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "theirs"))
    assert repr(evaluate_alignment(with_team(tiny, team), pairs).to_dict()) == ours and team.done == [4, 4, 1]


@pytest.mark.process
@pytest.mark.slow
def test_commands_take_workers(run_tiny: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "WINDOW_TEXTS", 4096)  # as in the workers
    monkeypatch.setattr(explained_pairs, "WINDOW_PAIRS", 256)
    (tmp_path / "pairs.csv").write_text(
        "sentence1,sentence2\n" + "".join(f"a dog {row},a cat {row}\n" for row in range(300))
    )
    for name, more in (("alone", []), ("two", ["--workers", "2"])):
        out = tmp_path / f"{name}.jsonl"
        command = ["explain", "--pairs", tmp_path / "pairs.csv", "--out", out, "--threads", "1"]
        assert run_tiny(*command, *more).code == 0
    assert (tmp_path / "alone.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()


def test_workers_without_many_pairs_are_refused(run_tiny: Run) -> None:
    done = run_tiny("explain", "a dog", "a cat", "--workers", "2")
    assert done.code == 2 and "--workers, --cluster and --gpus-per-worker go with --pairs" in done.err
