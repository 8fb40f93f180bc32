"""The geometry of a corpus on a Ray cluster of two nodes is that of one process, to the last bit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from likewise.encoder import Encoder, forward
from likewise.geometry import GeometrySettings, geometry_of
from likewise.sample import sample_sentences
from ray_nodes import RayNodes

pytest_plugins = ("ray_nodes",)
pytest.importorskip("ray", reason="Ray is not installed (extra: cluster)")
pytestmark = [pytest.mark.process, pytest.mark.slow]
WINDOW = 50
SETTINGS = {"min_contexts": 3, "draws": 20, "clusters": 2, "sample_points": 100, "sample_rows": 200}
ON_CLUSTER = """
import json, sys
from likewise.cluster import Cluster
from likewise.encoder import Encoder, forward
from likewise.encoder.workers import with_team
from likewise.geometry import GeometrySettings, geometry_of
from likewise.sample import sample_sentences

folder, address, window, settings = sys.argv[1:]
forward.WINDOW_TEXTS, notes = int(window), []
with Cluster(address, 2).connected() as cluster:
    encoder = with_team(Encoder.load(folder, device="cpu", threads=1), cluster)
    progress = lambda *call: notes.append(call[2])
    found = geometry_of(encoder, sample_sentences(), GeometrySettings(**json.loads(settings)), progress=progress)
print(json.dumps([found.to_dict(), found.shares.tolist(), notes]))
"""


def test_geometry_is_that_of_one_process(
    ray_nodes: RayNodes, tiny_folder: Path, tiny: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "WINDOW_TEXTS", WINDOW)
    texts = sample_sentences()
    alone = geometry_of(tiny, texts, GeometrySettings(**SETTINGS))
    # A process of its own: Ray reads the token of a cluster once in a process.
    arguments = [str(tiny_folder), ray_nodes.address, str(WINDOW), json.dumps(SETTINGS)]
    command = [sys.executable, "-c", ON_CLUSTER, *arguments]
    answer = subprocess.run(
        command, env=ray_nodes.environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert answer.returncode == 0, answer.stderr
    found, shares, notes = json.loads(answer.stdout)
    # As text: nan is equal to nothing, and a number is written with all its digits.
    assert json.dumps(found) == json.dumps(alone.to_dict())
    assert shares == alone.shares.tolist()
    last = f"texts, corrected, windows {len(texts) // WINDOW}, "
    assert any(note.startswith(last) and note.endswith(" texts per second") for note in notes), notes[-5:]
