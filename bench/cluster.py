"""Claim: a Ray cluster on this machine takes at most 15 % more time than as many plain processes, for the same bytes.

Both encode the same texts in alternation. The start of the workers is left out: the clock starts when the first worker
has done a window and gets the next one.

    python bench/cluster.py [--texts 20000] [--workers 2] [--threads 1] [--rounds 3] [--model minilm] [--window 512]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from likewise.cluster import Cluster
from likewise.encoder import Encoder, forward
from likewise.encoder.stream import encode_stream
from likewise.encoder.workers import Processes, Team
from likewise.sample import sample_sentences

MOST = 1.15


def seconds(encoder: Encoder, texts: int, folder: Path, team: Team, workers: int) -> float:
    sentences = sample_sentences()
    start = 0.0

    def items() -> Iterator[tuple[str, str]]:
        nonlocal start
        for row in range(texts):
            # The window after the first ones and the next: it is read when a worker gets its second window.
            if row == (workers + 1) * forward.WINDOW_TEXTS:
                start = time.perf_counter()
            yield str(row), f"{sentences[row % 300]} ({row})"

    encode_stream(encoder, items(), folder, workers=team)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--window", type=int, default=512)
    options = parser.parse_args()
    forward.WINDOW_TEXTS = options.window
    encoder = Encoder.load(options.model, device="cpu", threads=options.threads)
    best: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory() as place,
        Cluster(workers=options.workers, threads=options.threads).connected() as cluster,
    ):
        teams: dict[str, Team] = {"processes": Processes(options.workers), "cluster": cluster}
        for number in range(options.rounds):
            for name, team in teams.items():
                spent = seconds(encoder, options.texts, Path(place) / f"{name}-{number}", team, options.workers)
                best[name] = min(spent, best.get(name, spent))
        same = len({(Path(place) / f"{name}-0" / "vectors.npy").read_bytes() for name in teams}) == 1
    ratio = best["cluster"] / best["processes"]
    print(f"{options.texts} texts, {options.workers} workers: {best['processes']:.1f} s by processes, "
          f"{best['cluster']:.1f} s by a cluster, ratio {ratio:.2f} (at most {MOST})")  # fmt: skip
    print(f"bytes: {'the same' if same else 'NOT the same'}")
    sys.exit(not same or ratio > MOST)


if __name__ == "__main__":
    main()
