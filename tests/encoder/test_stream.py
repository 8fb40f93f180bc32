"""Streams: the same bytes whether a run is interrupted, killed or left alone, and clear words for the rest."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from likewise.encoder import Encoder, forward
from likewise.encoder.pooling import Dense
from likewise.encoder.postprocessing import PostProcessing, fit_postprocessing
from likewise.encoder.stream import Manifest, encode_stream, open_vectors
from likewise.encoder.tokens import Tokenizer
from likewise.errors import Cancelled, DataError, UsageError
from likewise.sample import sample_sentences

ITEMS = [(f"row-{place}", text) for place, text in enumerate(sample_sentences()[:60])]


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "WINDOW_TEXTS", 8)
    monkeypatch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0)


def stored(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "vectors.npy").read_bytes(), (folder / "ids.jsonl").read_bytes()


def stop_at(call: int) -> Any:
    """A progress callable that cancels at its n-th call."""
    calls = 0

    def progress(done: int, total: int | None, note: str) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise Cancelled("stopped")

    return progress


# What is written


def test_the_vectors_are_those_of_encode(tiny: Encoder, tmp_path: Path) -> None:
    manifest = encode_stream(tiny, iter(ITEMS), tmp_path)
    vectors, ids = open_vectors(tmp_path)
    assert isinstance(vectors, np.memmap) and vectors.dtype == np.float32
    assert np.abs(vectors - tiny.encode([text for _, text in ITEMS])).max() < 1e-6
    assert ids == [name for name, _ in ITEMS]
    assert (manifest.rows, manifest.dimension, manifest.complete) == (60, 16, True)
    assert Manifest.read(tmp_path) == manifest


def test_the_manifest_names_the_settings(tiny: Encoder, tmp_path: Path) -> None:
    encode_stream(tiny.with_pooling(layer=[1, 2]), ITEMS[:3], tmp_path, prompt="the ")
    settings = json.loads((tmp_path / "manifest.json").read_text())["settings"]
    assert settings["model_sha256"] == tiny.hash
    assert (settings["layer"], settings["prompt"], settings["dtype"]) == ([1, 2], "the ", "float32")


def test_nothing_in_gives_an_empty_array(tiny: Encoder, tmp_path: Path) -> None:
    encode_stream(tiny, [], tmp_path)
    vectors, ids = open_vectors(tmp_path)
    assert vectors.shape == (0, 16) and ids == []


def test_prompts_and_readings(tiny: Encoder, tmp_path: Path) -> None:
    encoder = tiny.with_pooling(pooling="cls", truncate_dim=5)
    encode_stream(encoder, ITEMS, tmp_path, prompt="the ")
    expected = encoder.encode([text for _, text in ITEMS], prompt="the ")
    assert np.abs(open_vectors(tmp_path)[0] - expected).max() < 1e-6


def test_postprocessing_is_kept_beside(tiny: Encoder, tmp_path: Path) -> None:
    texts = [text for _, text in ITEMS]
    fitted = fit_postprocessing("whitening", tiny.encode(texts), 4)
    encoder = tiny.with_postprocessing(fitted)
    encode_stream(encoder, ITEMS, tmp_path)
    assert np.abs(open_vectors(tmp_path)[0] - encoder.encode(texts)).max() < 1e-5
    assert PostProcessing.load(tmp_path / "postprocessing.safetensors").name == fitted.name


def test_cut_texts_are_counted(tiny: Encoder, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    items = [(str(place), "a " * (100 if place % 3 == 0 else 5)) for place in range(30)]
    with pytest.raises(Cancelled):
        encode_stream(tiny, items, tmp_path, progress=stop_at(4))
    with caplog.at_level(logging.INFO, logger="likewise"):
        assert encode_stream(tiny, items, tmp_path).truncated == 10
    assert caplog.messages == ["cut at the model's limit of 32 tokens: 10 of 30 texts"]


@pytest.mark.parametrize(
    "name", ["two\nlines", 'quote"s', "tab\t", "日本 😀", "", "a\u2028b", "a\u2029b", "a\x85b", "a\x1cb", "a\rb"]
)
def test_ids_come_back_as_they_were(name: str, tiny: Encoder, tmp_path: Path) -> None:
    encode_stream(tiny, [(name, "a"), ("next", "b")], tmp_path)
    assert open_vectors(tmp_path)[1] == [name, "next"]


def test_a_lone_surrogate_in_an_id_is_no_error(tiny: Encoder, tmp_path: Path) -> None:
    encode_stream(tiny, [("a\ud83d", "b\ud83d")], tmp_path)
    assert len(open_vectors(tmp_path)[1]) == 1


def test_huge_texts_make_small_windows(tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "WINDOW_CHARACTERS", 100)
    sizes = []
    whole = Encoder.encode_with_stats

    def pooling_mask(self: Encoder, texts: list[str], **options: Any) -> Any:
        sizes.append(len(texts))
        return whole(self, texts, **options)

    items = [(str(place), "a" * length) for place, length in enumerate([30, 30, 50, 500, 10, 10, *[1] * 10])]
    monkeypatch.setattr(Encoder, "dimension", tiny.dimension)  # measured by encoding, which is not to be counted
    monkeypatch.setattr(Encoder, "encode_with_stats", pooling_mask)
    encode_stream(tiny, items, tmp_path)
    assert sizes == [3, 1, 8, 4]


# Interruption


@pytest.fixture(scope="module")
def uninterrupted(tiny: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[bytes, bytes]]:
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward, "WINDOW_TEXTS", 8)
        encode_stream(tiny, ITEMS, folder)
    yield stored(folder)


@pytest.mark.parametrize("call", [1, 2, 7, 20, 40])
def test_cancelled_and_resumed_gives_the_same_bytes(
    call: int, tiny: Encoder, tmp_path: Path, uninterrupted: tuple[bytes, bytes]
) -> None:
    with pytest.raises(Cancelled):
        encode_stream(tiny, ITEMS, tmp_path, progress=stop_at(call))
    with pytest.raises(DataError, match=r"is unfinished|holds no vectors"):
        open_vectors(tmp_path)
    encode_stream(tiny, ITEMS, tmp_path)
    assert stored(tmp_path) == uninterrupted


def test_cancelled_again_and_again_gives_the_same_bytes(
    tiny: Encoder, tmp_path: Path, uninterrupted: tuple[bytes, bytes]
) -> None:
    rows = [0]
    while True:
        try:
            # Each row that is passed over is a call too.
            encode_stream(tiny, ITEMS, tmp_path, progress=stop_at(rows[-1] + 12))
        except Cancelled:
            manifest = Manifest.read(tmp_path)
            rows.append(manifest.rows if manifest else 0)
            assert rows[-1] > rows[-2], "it goes on from where it was"
            continue
        break
    assert len(rows) > 3
    assert stored(tmp_path) == uninterrupted


def test_rows_beyond_the_last_commit_are_thrown_away(
    tiny: Encoder, tmp_path: Path, uninterrupted: tuple[bytes, bytes]
) -> None:
    with pytest.raises(Cancelled):
        encode_stream(tiny, ITEMS, tmp_path, progress=stop_at(20))
    for name in ("vectors.npy", "ids.jsonl"):
        with (tmp_path / name).open("ab") as file:
            file.write(b"half a row of a window that was cut short")
    encode_stream(tiny, ITEMS, tmp_path)
    assert stored(tmp_path) == uninterrupted


def test_a_finished_folder_is_left_as_it_is(tiny: Encoder, tmp_path: Path) -> None:
    first = encode_stream(tiny, ITEMS, tmp_path)
    before = stored(tmp_path)
    assert encode_stream(tiny, ITEMS, tmp_path) == first
    assert stored(tmp_path) == before


def test_a_finished_folder_takes_more_rows(tiny: Encoder, tmp_path: Path, uninterrupted: tuple[bytes, bytes]) -> None:
    encode_stream(tiny, ITEMS[:16], tmp_path)
    encode_stream(tiny, ITEMS, tmp_path)
    assert stored(tmp_path) == uninterrupted


def test_a_finished_folder_is_unfinished_while_it_takes_more_rows(tiny: Encoder, tmp_path: Path) -> None:
    encode_stream(tiny, ITEMS[:16], tmp_path)
    with pytest.raises(Cancelled):
        encode_stream(tiny, ITEMS, tmp_path, progress=stop_at(16 + 12))
    manifest = Manifest.read(tmp_path)
    assert manifest is not None and 16 < manifest.rows < 60
    with pytest.raises(DataError, match="is unfinished"):
        open_vectors(tmp_path)


def test_progress_counts_what_was_done_before(tiny: Encoder, tmp_path: Path) -> None:
    with pytest.raises(Cancelled):
        encode_stream(tiny, ITEMS, tmp_path, progress=stop_at(20))
    calls: list[tuple[int, int | None, str]] = []
    encode_stream(tiny, ITEMS, tmp_path, total=60, progress=lambda *call: calls.append(call))
    assert calls[-1] == (60, 60, "texts")
    assert [done for done, _, _ in calls] == sorted(done for done, _, _ in calls)


KILLED_AGAIN_AND_AGAIN = """
import os, random, signal, sys, time
from pathlib import Path
import torch
from likewise.encoder import Encoder, forward, stream
from likewise.sample import sample_sentences

torch.set_num_threads(1)
forward.WINDOW_TEXTS = 32
model, folder = sys.argv[1], Path(sys.argv[2])
encoder = Encoder.load(model, device="cpu")
encoder.hash
texts = sample_sentences()
items = [(f"row-{place}", f"{texts[place % 300]} {place}") for place in range(6400)]
moments = random.Random(7)
rows = []
while True:
    pid = os.fork()
    if pid == 0:
        stream.encode_stream(encoder, items, folder)
        os._exit(0)
    # The first ones come early, so that the first commit is caught too; later ones let some windows through.
    time.sleep(moments.uniform(0, 0.03) if len(rows) < 4 else moments.uniform(0.05, 0.4))
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    manifest = stream.Manifest.read(folder)
    rows.append(manifest.rows if manifest else 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
        break
print(*rows)
"""


@pytest.mark.process
def test_killed_again_and_again_gives_the_same_bytes(
    tiny: Encoder, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", KILLED_AGAIN_AND_AGAIN, str(tiny_folder), str(tmp_path / "killed")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    rows = [int(number) for number in run.stdout.split()]
    midway = {number for number in rows if 0 < number < 6400}
    assert rows[-1] == 6400 and len(midway) >= 2, f"killed at {rows}: not often enough in the middle"
    monkeypatch.setattr(forward, "WINDOW_TEXTS", 32)
    texts = sample_sentences()
    items = [(f"row-{place}", f"{texts[place % 300]} {place}") for place in range(6400)]
    encode_stream(tiny, items, tmp_path / "whole")
    assert stored(tmp_path / "killed") == stored(tmp_path / "whole")
    assert len(open_vectors(tmp_path / "killed")[1]) == 6400


# What is refused


@pytest.fixture
def begun(tiny: Encoder, tmp_path: Path) -> Path:
    """A folder that was stopped in the middle."""
    with pytest.raises(Cancelled):
        encode_stream(tiny, ITEMS, tmp_path, progress=stop_at(30))
    return tmp_path


def test_a_changed_input_is_refused(tiny: Encoder, begun: Path) -> None:
    before = stored(begun)
    for change in [("row-3", "another text"), ("another id", ITEMS[3][1])]:
        with pytest.raises(DataError, match="the input is not the one that this folder was begun with"):
            encode_stream(tiny, [*ITEMS[:3], change, *ITEMS[4:]], begun)
    with pytest.raises(DataError, match="the input is not the one"):
        encode_stream(tiny, reversed(ITEMS), begun)
    assert stored(begun) == before


def test_a_shorter_input_is_refused(tiny: Encoder, begun: Path) -> None:
    with pytest.raises(DataError, match=r"the input now has fewer than the \d+ rows already encoded"):
        encode_stream(tiny, ITEMS[:4], begun)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pooling": "cls"}, "was begun with pooling 'mean', not 'cls'; use the same settings or give another --out"),
        ({"layer": [0, 1]}, r"was begun with layer -1, not \[0, 1\]"),
        ({"truncate_dim": 4}, "was begun with truncate_dim None, not 4"),
        ({"normalize": False}, "was begun with normalize None, not False"),
    ],
)
def test_changed_settings_are_refused(change: Any, message: str, tiny: Encoder, begun: Path) -> None:
    with pytest.raises(UsageError, match=message):
        encode_stream(tiny.with_pooling(**change), ITEMS, begun)


def test_another_prompt_model_window_or_postprocessing_is_refused(
    tiny: Encoder, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="was begun with prompt '', not 'the '"):
        encode_stream(tiny, ITEMS, begun, prompt="the ")
    with pytest.raises(UsageError, match=r"was begun with model .*, not 'other'"):
        encode_stream(replace(tiny, name="other"), ITEMS, begun)
    fitted = fit_postprocessing("whitening", tiny.encode([text for _, text in ITEMS]))
    with pytest.raises(UsageError, match="was begun with postprocessing None, not 'whitening-"):
        encode_stream(tiny.with_postprocessing(fitted), ITEMS, begun)
    monkeypatch.setattr(forward, "WINDOW_TEXTS", 9)
    with pytest.raises(UsageError, match="was begun with window_texts 8, not 9"):
        encode_stream(tiny, ITEMS, begun)


def test_another_token_limit_is_refused(tiny: Encoder, begun: Path) -> None:
    shorter = replace(tiny, tokenizer=Tokenizer(tiny.tokenizer.vocabulary, 8))
    with pytest.raises(UsageError, match="was begun with"):
        encode_stream(shorter, ITEMS, begun)


def test_another_dense_head_is_refused(tiny: Encoder, tmp_path: Path) -> None:
    def headed(seed: int) -> Encoder:
        torch.manual_seed(seed)
        return replace(
            tiny, modules_config=replace(tiny.modules_config, heads=(Dense(torch.randn(16, 16), None, "Tanh"),))
        )

    with pytest.raises(Cancelled):
        encode_stream(headed(0), ITEMS, tmp_path, progress=stop_at(30))
    with pytest.raises(UsageError, match="was begun with"):
        encode_stream(headed(1), ITEMS, tmp_path)


def test_a_foreign_folder_is_refused(tiny: Encoder, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match=r"already holds thesis\.tex; give a new or empty folder as --out"):
        encode_stream(tiny, ITEMS, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != ".lock") == ["thesis.tex"]


def test_somebody_elses_vectors_are_not_overwritten(tiny: Encoder, tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", np.arange(6.0))
    before = (tmp_path / "vectors.npy").read_bytes()
    with pytest.raises(UsageError, match=r"already holds vectors\.npy"):
        encode_stream(tiny, ITEMS, tmp_path)
    assert (tmp_path / "vectors.npy").read_bytes() == before


def test_a_file_in_place_of_the_folder_is_refused(tiny: Encoder, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(UsageError, match="--out"):
        encode_stream(tiny, ITEMS, tmp_path / "out")


def test_two_writers_at_once_are_refused(tiny: Encoder, tmp_path: Path) -> None:
    messages = []

    def second_writer(done: int, total: int | None, note: str) -> None:
        if not messages:
            with pytest.raises(UsageError) as raised:
                encode_stream(tiny, ITEMS, tmp_path)
            messages.append(str(raised.value))

    encode_stream(tiny, ITEMS, tmp_path, progress=second_writer)
    assert messages == [f"another process is writing to {tmp_path}; wait for it or give another --out"]
    assert open_vectors(tmp_path)[0].shape == (60, 16)


def test_an_unfinished_folder_is_not_opened(begun: Path) -> None:
    manifest = Manifest.read(begun)
    assert manifest is not None and manifest.rows > 0
    message = f"is unfinished at {manifest.rows} rows; run the same likewise encode again"
    with pytest.raises(DataError, match=message):
        open_vectors(begun)


def test_a_folder_without_vectors_names_the_cure(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no vectors; make them with: likewise encode FILE --out"):
        open_vectors(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"rows": 3}', '{"name": "package"}'])
def test_a_strange_manifest_is_refused(text: str, tiny: Encoder, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DataError, match=r"manifest\.json is not a manifest .* give another --out"):
        encode_stream(tiny, ITEMS, tmp_path)


@pytest.mark.parametrize("name", ["vectors.npy", "ids.jsonl"])
@pytest.mark.parametrize("size", [0, 100])
def test_lost_rows_are_told_and_not_filled_with_zeros(name: str, size: int, tiny: Encoder, tmp_path: Path) -> None:
    items = [(f"row {place}", "some text") for place in range(40)]
    encode_stream(tiny, items, tmp_path)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:size])
    with pytest.raises(DataError, match="shorter than its manifest says"):
        encode_stream(tiny, items, tmp_path)


def test_a_path_is_as_good_as_a_name(tiny_folder: Path, tmp_path: Path) -> None:
    manifest = encode_stream(Encoder.load(tiny_folder, device="cpu"), [("1", "a text")], tmp_path)
    assert manifest.settings["model"] == str(tiny_folder)
