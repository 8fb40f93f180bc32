"""Claim: all duplicates of 50,000 questions take at most 1.4 times as long as encoding them, and at most 2 GB.

``likewise encode`` and ``likewise duplicates --explain 0`` on the same file, each in a process of its own with a fresh
cache and one thread. The claim is about processor time, since other work may share the machine. Up to 5,000 texts the
pairs are compared with those of a full matrix of products.

    python bench/duplicates.py [--texts 50000] [--threshold 0.9] [--data ../shared/data]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from likewise.data import Dataset
from likewise.encoder.stream import open_vectors

BRUTE_FORCE_UP_TO = 5000
MOST_TIME, MOST_MEGABYTES = 1.4, 2048


def questions(count: int, data: Path) -> list[str]:
    """Distinct questions of both sides, in the order of the file."""
    found = dict.fromkeys(" ".join(text.split()) for text in Dataset("quora/train", data_dir=data).sentences())
    return list(found)[:count]


@dataclass(frozen=True)
class Measured:
    """A command's seconds of processor and of wall time, its peak memory and its stdout."""

    processor: float
    wall: float
    megabytes: float
    out: str


def measured(folder: Path, *arguments: str) -> Measured:
    """Run a command of likewise."""
    environment = {**os.environ, "LIKEWISE_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    began = time.perf_counter()
    command = [sys.executable, "-m", "likewise", *arguments, "--threads", "1", "--device", "cpu"]
    with (folder / "stdout").open("w+b") as stdout:
        process = subprocess.Popen(command, stdout=stdout, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, arguments
        wall = time.perf_counter() - began
        stdout.seek(0)
        megabytes = used.ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024)
        return Measured(used.ru_utime + used.ru_stime, wall, megabytes, stdout.read().decode())


def brute_force(folder: Path, threshold: float) -> set[tuple[int, int]]:
    """Every pair from the threshold on, by one float32 product of the encoded vectors."""
    vectors = np.asarray(open_vectors(folder)[0])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return set(zip(*(side.tolist() for side in np.nonzero(np.triu(unit @ unit.T >= threshold, 1))), strict=True))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=50_000)
    parser.add_argument("--threshold", type=float, default=0.9)
    parser.add_argument("--engine", default="exact")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file, vectors = folder / "questions.txt", folder / "vectors"
        file.write_text("\n".join(questions(options.texts, options.data)) + "\n", encoding="utf-8")
        encoding = measured(folder, "encode", str(file), "--out", str(vectors))
        how = ("--threshold", str(options.threshold), "--engine", options.engine, "--explain", "0", "--json")
        search = measured(folder, "duplicates", str(file), *how)
        found, ratio = json.loads(search.out), search.processor / encoding.processor
        print(f"{found['n']:,} questions: {len(found['pairs']):,} pairs, {len(found['groups']):,} groups")
        print(f"encode {encoding.processor:.1f} s ({encoding.wall:.1f} s wall)")
        print(f"duplicates {search.processor:.1f} s ({search.wall:.1f} s wall): {ratio:.2f} times the encoding")
        print(f"peak memory {search.megabytes:.0f} MB")
        holds = ratio <= MOST_TIME and search.megabytes <= MOST_MEGABYTES
        if found["n"] <= BRUTE_FORCE_UP_TO:
            pairs = {(int(pair["left"]) - 1, int(pair["right"]) - 1) for pair in found["pairs"]}
            expected = brute_force(vectors, options.threshold)
            print(f"brute force: {len(expected):,} pairs, {len(pairs ^ expected)} of them or of ours alone")
            holds = holds and pairs == expected
    print(f"claim {'holds' if holds else 'fails'}")
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
