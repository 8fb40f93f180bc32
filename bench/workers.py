"""Claim: several workers encode a file in less time than one process, and write the same bytes.

One process and several workers in alternation, each worker with the same number of threads as the one process.

    python bench/workers.py [--texts 16384] [--workers 2] [--threads 1] [--rounds 3] [--model minilm]

A file of few windows pays for the start of the workers and for the last windows, where some of them wait.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from likewise.encoder import Encoder
from likewise.encoder.forward import WINDOW_TEXTS
from likewise.encoder.stream import encode_stream
from likewise.sample import sample_sentences


def seconds(encoder: Encoder, texts: int, folder: Path, workers: int) -> float:
    sentences = sample_sentences()
    items = ((str(row), f"{sentences[row % 300]} ({row})") for row in range(texts))
    start = time.perf_counter()
    encode_stream(encoder, items, folder, workers=workers)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=4 * WINDOW_TEXTS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="minilm")
    options = parser.parse_args()
    encoder = Encoder.load(options.model, device="cpu", threads=options.threads)
    best: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as place:
        for number in range(options.rounds):
            for workers in (1, options.workers):
                spent = seconds(encoder, options.texts, Path(place) / f"{number}-{workers}", workers)
                best[workers] = min(spent, best.get(workers, spent))
        one, several = (Path(place) / f"0-{workers}" / "vectors.npy" for workers in (1, options.workers))
        same = one.read_bytes() == several.read_bytes()
    ratio = best[1] / best[options.workers]
    print(f"{options.texts} texts, {options.threads} threads each: {options.workers} workers {ratio:.2f} times as fast")
    print(f"bytes: {'the same' if same else 'NOT the same'}")
    sys.exit(not same)


if __name__ == "__main__":
    main()
