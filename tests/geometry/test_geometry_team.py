"""The geometry of a corpus that a team measures: the same to the last bit as that of one process."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from multiprocessing import active_children
from typing import Any

import numpy as np
import pytest

from likewise.encoder import Encoder, forward
from likewise.encoder.workers import Processes, with_team
from likewise.errors import Cancelled
from likewise.geometry import Geometry, GeometrySettings, geometry_of
from likewise.sample import sample_sentences

pytestmark = pytest.mark.process
SETTINGS = GeometrySettings(min_contexts=3, draws=10, clusters=2, sample_points=50, sample_rows=60, words=("town",))
TEXTS = [f"the town {text}" for text in sample_sentences()[:90]] + ["an old town " * 40]
"""The last one is longer than the model's limit."""


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "WINDOW_TEXTS", 16)


@pytest.fixture(scope="module")
def alone(tiny: Encoder) -> Geometry:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward, "WINDOW_TEXTS", 16)
        return geometry_of(tiny, TEXTS, SETTINGS)


def arrays(value: Any) -> Iterator[np.ndarray]:
    """All arrays of a result, in order."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        yield from (found for each in value.values() for found in arrays(each))
    elif hasattr(value, "__dict__"):
        yield from arrays(vars(value))


def test_two_processes_measure_what_one_does(tiny: Encoder, alone: Geometry, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[tuple[int, int | None, str]] = []
    with caplog.at_level(logging.WARNING, "likewise"):
        found = geometry_of(with_team(tiny, Processes(2)), TEXTS, SETTINGS, progress=lambda *call: calls.append(call))
    # As text: nan is equal to nothing.
    assert json.dumps(found.to_dict()) == json.dumps(alone.to_dict())
    pairs = list(zip(arrays(found), arrays(alone), strict=True))
    assert len(pairs) > 50 and all(one.tobytes() == other.tobytes() for one, other in pairs)
    for note in ("texts", "texts, corrected"):
        counted = [(done, total) for done, total, said in calls if said == note]
        assert counted[-1] == (91, 91) and counted == sorted(counted)
    cut = sum(tokens.truncated for tokens in tiny.tokenize(TEXTS))
    messages = [record.message for record in caplog.records if "cut at" in record.message]
    assert cut and messages == [f"cut at the model's limit of 32 tokens: {cut} of 91 texts"]
    assert not active_children()


@pytest.mark.parametrize("note", ["texts", "texts, corrected"])
def test_a_cancelled_team_ends(tiny: Encoder, note: str) -> None:
    def progress(done: int, total: int | None, said: str) -> None:
        if said == note:
            raise Cancelled("enough")

    with pytest.raises(Cancelled):
        geometry_of(with_team(tiny, Processes(2)), TEXTS, SETTINGS, progress=progress)
    assert not active_children()


def test_one_window_is_done_by_this_process(tiny: Encoder, alone: Geometry, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any) -> None:
        pytest.fail("a team was asked for one window")

    monkeypatch.setattr(forward, "WINDOW_TEXTS", 100)
    monkeypatch.setattr(Processes, "run", run)
    found = geometry_of(with_team(tiny, Processes(2)), TEXTS, SETTINGS)
    assert found.raw.baseline.values == pytest.approx(alone.raw.baseline.values, abs=1e-6)
