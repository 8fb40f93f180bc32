"""Frames of pandas and polars in and out: the same columns from both, with their types, and flaws that are named."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.sample import sample_sentences

pd = pytest.importorskip("pandas", reason="pandas is not installed (extra: pandas)")
pl = pytest.importorskip("polars", reason="polars is not installed (extra: polars)")

from likewise.integrations import pandas_frames, polars_frames  # noqa: E402

DATA = {
    "name": ["a", "b", "c"],
    "text": ["The volcano spat ash.", "The bank cut rates.", "Ash fell on the city."],
    "other": ["An eruption.", "Money is cheap.", "The city lay under ash."],
    "year": [2023, 2024, 2025],
    "score": [0.5, 0.1, 0.4],
}
BOTH = pytest.mark.parametrize(("module", "make"), [(pandas_frames, pd.DataFrame), (polars_frames, pl.DataFrame)])


def columns(frame: Any) -> dict[str, list[Any]]:
    return frame.to_dict("list") if isinstance(frame, pd.DataFrame) else frame.to_dict(as_series=False)


@BOTH
def test_vectors(module: ModuleType, make: Any, tiny: Encoder) -> None:
    frame = make(DATA)
    found = module.add_vectors(frame, "text", tiny, "v")
    np.testing.assert_array_equal(np.stack(list(found["v"])), tiny.encode(DATA["text"]))
    assert list(frame.columns) == list(DATA), "the frame that was given stays as it is"
    with pytest.raises(UsageError, match="has a column 'year'"):
        module.add_vectors(frame, "text", tiny, "year")


@BOTH
def test_similarity_with_reasons(module: ModuleType, make: Any, minilm: Encoder) -> None:
    plain = columns(module.add_similarity(make(DATA), "text", "other", minilm))
    found = columns(module.add_similarity(make(DATA), "text", "other", minilm, strongest=2))
    assert plain["cosine"] == pytest.approx(np.diag(minilm.similarity(DATA["text"], DATA["other"])), abs=1e-5)
    assert found["cosine"] == pytest.approx(plain["cosine"], abs=1e-5) and "reasons" not in plain
    assert [len(row) for row in found["reasons"]] == [2, 2, 2]
    first = found["reasons"][2][0]
    assert first["left"].lower() == first["right"] in {"ash", "city"}


@BOTH
def test_search(module: ModuleType, make: Any, minilm: Encoder) -> None:
    index = module.index_frame(make(DATA), "text", minilm, id="name")
    found = columns(module.search_frame(index, ["eruption", "interest"], 2, explain=True, where="year >= 2024"))
    assert found["query"] == ["eruption"] * 2 + ["interest"] * 2 and found["rank"] == [1, 2, 1, 2]
    assert found["id"][0] == "c" and found["year"][0] == 2025 and found["metadata_score"][0] == 0.4
    assert found["score"][0] == pytest.approx(index.search("eruption", 2, where="year >= 2024")[0].score)
    assert found["reasons"][0][0]["text"].lower() == "ash"


@BOTH
def test_meanings_of_scores_are_columns(module: ModuleType, make: Any, minilm: Encoder) -> None:
    index = module.index_frame(make({"text": DATA["text"] + sample_sentences()[:30]}), "text", minilm)
    index.calibrate()
    found = columns(module.search_frame(index, "eruption", 1))
    assert 0 <= found["percentile"][0] <= 1 and found["probability"] == [None]


@BOTH
def test_flaws(module: ModuleType, make: Any, tiny: Encoder) -> None:
    with pytest.raises(UsageError, match="no column 'title'; choose from name, text"):
        module.index_frame(make(DATA), "title", tiny)
    with pytest.raises(DataError, match=r"row 2 of 'text' is (None|nan), not a text"):
        module.add_vectors(make({"text": ["a", None]}), "text", tiny)
    with pytest.raises(UsageError, match="strongest is a number"):
        module.add_similarity(make(DATA), "text", "other", tiny, strongest=-1)


def test_an_index_of_pandas_that_is_not_the_usual_one(tiny: Encoder) -> None:
    frame = pd.DataFrame(DATA, index=[7, 7, 9])
    assert pandas_frames.add_similarity(frame, "text", "other", tiny)["cosine"].notna().all()


def test_any_result_as_a_polars_frame(minilm: Encoder) -> None:
    hits = polars_frames.index_frame(pl.DataFrame(DATA), "text", minilm).search("eruption", 3, explain=True)
    for table in hits.tables():
        twin = hits.to_dataframe(table)
        found = polars_frames.to_polars(hits, table)
        assert found.columns == list(twin) and found.rows() == [tuple(row) for row in twin.itertuples(index=False)]
    with pytest.raises(UsageError, match="no table 'no'; choose from hits, words"):
        polars_frames.to_polars(hits, "no")
