"""Files of texts -> vectors on disk, and post-processing fitted on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.data import Columns, Dataset, read_texts
from likewise.encoder import Encoder
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.encoder.stream import encode_file, fit_on_file, open_vectors
from likewise.errors import Cancelled, DataError, UsageError

TEXTS = ["a cat", "the sea", "a dog ran"]


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.csv"
    path.write_text("id,text\n" + "".join(f"t{place},{text}\n" for place, text in enumerate(TEXTS)))
    return str(path)


@pytest.fixture
def bad(tmp_path: Path, good: str) -> str:
    """The last of many rows is bad."""
    path = tmp_path / "bad.csv"
    path.write_text(Path(good).read_text() + "t9,\n")
    return str(path)


def test_source_yields_ids_and_texts(good: str) -> None:
    rows = [(row.id, row.text) for row in Dataset(good).stream(read_texts)]
    assert rows == [("t0", "a cat"), ("t1", "the sea"), ("t2", "a dog ran")]
    assert [row.text for row in Dataset(good, Columns(text="id", id="text")).texts()] == ["t0", "t1", "t2"]


def test_source_tells_of_skipped_rows(bad: str) -> None:
    errors: list[DataError] = []
    assert len(list(Dataset(bad, skip_bad=True).stream(read_texts, errors.append))) == 3
    assert "line 5" in str(errors[0]) and len(errors) == 1
    assert len(list(Dataset(bad, skip_bad=True).stream(read_texts))) == 3


def test_encoded_file(tiny: Encoder, good: str, tmp_path: Path) -> None:
    seen = []
    done = encode_file(tiny, Dataset(good), tmp_path / "v", progress=lambda *call: seen.append(call))
    vectors, ids = open_vectors(done.folder)
    np.testing.assert_allclose(vectors, tiny.encode(TEXTS), atol=1e-6)
    assert ids == ["t0", "t1", "t2"]
    assert (done.manifest.rows, done.manifest.complete, done.skipped.count) == (3, True, 0)
    assert seen[-1] == (3, 3, "texts") and (3, None, "rows checked") in seen


def test_bad_row_is_told_before_anything_is_written(
    tiny: Encoder, bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Encoder, "encode_with_stats", lambda *_, **__: pytest.fail("encoded too soon"))
    with pytest.raises(DataError, match="line 5, column 'text': the text is empty"):
        encode_file(tiny, Dataset(bad), tmp_path / "v")
    assert not (tmp_path / "v").exists()


def test_skipped_rows_are_counted_once(tiny: Encoder, bad: str, tmp_path: Path) -> None:
    """The file is read twice, its bad row is one."""
    done = encode_file(tiny, Dataset(bad, skip_bad=True), tmp_path / "v")
    assert (done.manifest.rows, done.skipped.count) == (3, 1)


def test_cancelled_while_checking_leaves_nothing(tiny: Encoder, good: str, tmp_path: Path) -> None:
    def cancel(*_: Any) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        encode_file(tiny, Dataset(good), tmp_path / "v", progress=cancel)
    assert not (tmp_path / "v").exists()


@pytest.mark.parametrize("kind", ["whitening", "all-but-the-top", "standardisation"])
def test_fit_on_file_is_a_fit_on_its_vectors(tiny: Encoder, good: str, kind: str) -> None:
    fitted = fit_on_file(tiny, Dataset(good), kind)
    expected = fit_postprocessing(kind, tiny.encode(TEXTS))
    assert fitted.kind == kind
    np.testing.assert_allclose(fitted.center, expected.center, atol=1e-6)
    assert fitted.matrix.shape == expected.matrix.shape


def test_fit_ignores_a_postprocessing_that_is_already_there(tiny: Encoder, good: str) -> None:
    first = fit_on_file(tiny, Dataset(good), "standardisation")
    again = fit_on_file(tiny.with_postprocessing(first), Dataset(good), "standardisation")
    assert again.name == first.name


def test_unknown_kind_is_refused_before_the_work(tiny: Encoder, good: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Encoder, "encode_with_stats", lambda *_, **__: pytest.fail("encoded too soon"))
    with pytest.raises(UsageError, match="unknown post-processing 'pca'; choose from"):
        fit_on_file(tiny, Dataset(good), "pca")
