"""Claim: the peak memory of a streamed encode does not grow with the file.

The same command on a file, and on one four and sixteen times as long; each in a process of its own.

    python bench/stream.py [--texts 4000]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from likewise.sample import sample_sentences

CHILD = """
import resource, sys
from pathlib import Path
from likewise.encoder import Encoder
from likewise.data import Dataset
from likewise.encoder.stream import encode_file
done = encode_file(Encoder.load("minilm", device="cpu", threads=2, layer=1), Dataset(sys.argv[1]), Path(sys.argv[2]))
print(done.manifest.rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_megabytes(texts: int, folder: Path) -> tuple[int, float]:
    sentences = sample_sentences()
    file = folder / f"{texts}.txt"
    with file.open("w", encoding="utf-8") as stream:
        stream.writelines(f"{sentences[row % 300]} ({row})\n" for row in range(texts))
    answer = subprocess.run(
        [sys.executable, "-c", CHILD, str(file), str(folder / f"{texts}-vectors")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows, peak = answer.stdout.split()
    unit = 1024 * 1024 if sys.platform == "darwin" else 1024
    return int(rows), int(peak) / unit


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=4096)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        peaks = [peak_megabytes(options.texts * factor, Path(place)) for factor in (1, 4, 16)]
    for rows, peak in peaks:
        print(f"{rows:8} texts: peak {peak:6.0f} MB")
    growth = peaks[-1][1] / peaks[0][1]
    print(f"a file 16 times as long: {growth:.2f} times the memory; claim {'holds' if growth < 1.1 else 'fails'}")
    sys.exit(growth >= 1.1)
