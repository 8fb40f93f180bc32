"""Commands that read files of texts: encode and fit."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.encoder.postprocessing import PostProcessing
from likewise.encoder.stream import open_vectors
from likewise.sample import sample_sentences

pytest_plugins = ("command_line",)

TEXTS = ["a cat sat", "the dog", "a cat sat on the sea", "red"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def test_encode_writes_the_vectors(run_tiny: Any, tiny: Encoder, corpus: Path, tmp_path: Path) -> None:
    answer = run_tiny("encode", corpus, "--out", tmp_path / "v")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == f"4 vectors of 16 dimensions in {tmp_path / 'v'}\n"
    vectors, ids = open_vectors(tmp_path / "v")
    np.testing.assert_allclose(vectors, tiny.encode(TEXTS), atol=1e-6)
    assert ids == ["1", "2", "3", "4"]


def test_encode_again_changes_nothing_and_more_rows_are_added(run_tiny: Any, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "v"
    run_tiny("encode", corpus, "--out", out)
    before = (out / "vectors.npy").read_bytes()
    assert run_tiny("encode", corpus, "--out", out).code == 0
    assert (out / "vectors.npy").read_bytes() == before
    corpus.write_text(corpus.read_text() + "blue\n")
    assert run_tiny("encode", corpus, "--out", out).out.startswith("5 vectors ")
    vectors, _ = open_vectors(out)
    assert vectors.shape == (5, 16)
    assert vectors[:4].tobytes() == before[-4 * 16 * 4 :]


def test_encode_goes_on_where_it_was_interrupted(
    run_tiny: Any, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows of two texts; the run dies in the second, and the same command ends with an unbroken run's bytes."""
    monkeypatch.setattr("likewise.encoder.forward.WINDOW_TEXTS", 2)
    run_tiny("encode", corpus, "--out", tmp_path / "whole")
    encode, windows = Encoder.encode_with_stats, []

    def dies(self: Encoder, texts: Any, **options: Any) -> Any:
        windows.append(texts)
        if texts == TEXTS[2:]:
            raise KeyboardInterrupt
        return encode(self, texts, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "encode_with_stats", dies)
        assert run_tiny("encode", corpus, "--out", tmp_path / "cut").code not in (0, 2)
    assert TEXTS[2:] in windows
    manifest = json.loads((tmp_path / "cut" / "manifest.json").read_text())
    assert (manifest["rows"], manifest["complete"]) == (2, False)
    assert run_tiny("encode", corpus, "--out", tmp_path / "cut").code == 0
    for name in ("vectors.npy", "ids.jsonl", "manifest.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.process
@pytest.mark.parametrize("options", [(), ("--threads", 1)])
def test_encode_with_workers(
    options: tuple[Any, ...], run_tiny: Any, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default the workers divide the cores."""
    monkeypatch.setattr("likewise.encoder.forward.WINDOW_TEXTS", 2)
    threads = options[1] if options else max(1, (os.cpu_count() or 1) // 2)
    for name, how in (("two", ("--workers", 2, *options)), ("one", ("--threads", threads))):
        assert run_tiny("encode", corpus, "--out", tmp_path / name, *how).code == 0
    for file in ("vectors.npy", "ids.jsonl", "manifest.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    assert json.loads((tmp_path / "two" / "manifest.json").read_text())["settings"]["threads"] == threads


def test_encode_into_a_folder_of_other_settings(run_tiny: Any, corpus: Path, tmp_path: Path) -> None:
    run_tiny("encode", corpus, "--out", tmp_path / "v")
    answer = run_tiny("encode", corpus, "--out", tmp_path / "v", "--pooling", "cls")
    assert answer.code == 2 and answer.err.count("\n") == 1
    assert "was begun with pooling 'mean', not 'cls'" in answer.err


def test_encode_json_counts_skipped_and_cut(run_tiny: Any, tmp_path: Path) -> None:
    path = tmp_path / "corpus.csv"
    path.write_text(f"id,text\na,one\nb,\nc,{'word ' * 100}\nd,two,three\n")
    answer = run_tiny("encode", path, "--out", tmp_path / "v", "--skip-bad", "--json")
    found = json.loads(answer.out)
    bad = found.pop("bad_rows")
    assert found == {"folder": str(tmp_path / "v"), "rows": 2, "dimension": 16, "truncated": 1, "skipped": 2}
    assert [line in row for line, row in zip(("line 3", "line 5"), bad, strict=True)] == [True, True]
    assert answer.out.count("\n") == 1
    assert "skipped 2 bad rows (first: " in answer.err and "1 of 2 texts" in answer.err
    assert open_vectors(tmp_path / "v")[1] == ["a", "c"]


def test_encode_reads_gzip_and_the_named_column(run_tiny: Any, tiny: Encoder, tmp_path: Path) -> None:
    path = tmp_path / "corpus.tsv.gz"
    with gzip.open(path, "wt") as stream:
        stream.write("headline\tkey\na cat\tk1\nthe sea\tk2\n")
    columns = ("--text-column", "headline", "--id-column", "key")
    assert run_tiny("encode", path, "--out", tmp_path / "v", *columns).code == 0
    vectors, ids = open_vectors(tmp_path / "v")
    np.testing.assert_allclose(vectors, tiny.encode(["a cat", "the sea"]), atol=1e-6)
    assert ids == ["k1", "k2"]


def test_encode_with_a_prompt(run_tiny: Any, tiny: Encoder, corpus: Path, tmp_path: Path) -> None:
    run_tiny("encode", corpus, "--out", tmp_path / "v", "--prompt", "query: ")
    expected = tiny.encode([f"query: {text}" for text in TEXTS])
    np.testing.assert_allclose(open_vectors(tmp_path / "v")[0], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "kind", "width"),
    [
        ((), "whitening", 16),
        (("--dim", "3"), "whitening", 3),
        (("--kind", "all-but-the-top", "--dim", "2"), "all-but-the-top", 16),
        (("--kind", "standardisation"), "standardisation", 16),
    ],
    ids=str,
)
def test_fit_and_post(
    run_tiny: Any, tiny: Encoder, tmp_path: Path, options: tuple[str, ...], kind: str, width: int
) -> None:
    path = tmp_path / "new" / "fitted.safetensors"
    answer = run_tiny("fit-postprocessing", "sample/sentences", "--out", path, *options)
    assert (answer.code, answer.out) == (0, f"{kind}, 16 -> {width} dimensions, in {path}\n")
    fitted = PostProcessing.load(path)
    shown = run_tiny("similarity", "a cat", "the sea", "--post", path, "--json").out
    expected = tiny.with_postprocessing(fitted).similarity("a cat", "the sea")
    np.testing.assert_allclose(json.loads(shown)["similarity"], expected, atol=1e-6)
    assert abs(expected[0, 0] - tiny.similarity("a cat", "the sea")[0, 0]) > 1e-3


def test_whitened_corpus_is_white(run_tiny: Any, tmp_path: Path) -> None:
    path, out = tmp_path / "w.safetensors", tmp_path / "v"
    run_tiny("fit-postprocessing", "sample/sentences", "--out", path)
    run_tiny("encode", "sample/sentences", "--out", out, "--post", path)
    vectors, ids = open_vectors(out)
    assert len(ids) == len(sample_sentences())
    np.testing.assert_allclose(np.cov(vectors, rowvar=False), np.eye(16), atol=1e-4)


def test_fit_counts_what_it_skips(run_tiny: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("text\none text\nanother\n   \n")
    answer = run_tiny("fit-postprocessing", tmp_path / "bad.csv", "--skip-bad", "--out", tmp_path / "post.safetensors")
    assert answer.code == 0 and "skipped 1 bad row" in answer.err
