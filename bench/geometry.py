"""Claims: the one-pass measures of 20,000 sentences cost at most 1.3 times one encoding pass that keeps all layers,
everything that ``likewise geometry`` measures at most 2.5 times; and a word's self-similarity takes time in proportion
to its contexts and memory that does not grow with them, where all pairs, as one product of matrices, take their square.

    python bench/geometry.py [--texts 20000] [--model minilm]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice

import torch

from likewise.data import read_pairs
from likewise.encoder import Encoder
from likewise.errors import DataError
from likewise.geometry import GeometrySettings, geometry_of
from likewise.geometry.occurrences import distinct
from likewise.sample import sample_sentences

SHARED = "../shared/data"

CHILD = """
import sys, time
from pathlib import Path
import numpy as np, torch
from likewise.geometry.measures import unit_rows
from likewise.geometry.occurrences import Occurrences, PlannedWindow
from likewise.geometry.sums import Counts, PoissonWeights, SentenceBatch, SimilaritySums, Space
torch.set_num_threads(1)
way, n, layers, width, size = sys.argv[1], int(sys.argv[2]), 7, 384, 250
def batches():
    made = torch.Generator().manual_seed(0)
    for start in range(0, n, size):
        yield torch.randn(layers, min(size, n - start), width, generator=made)
def running():
    window = PlannedWindow(0, np.array([0]), (), ())
    sums = SimilaritySums(Space(layers, width, 1, 300, 0, torch.float32), window)
    counts, poisson = Counts(300, 1), PoissonWeights(300, 0, 0)
    for rows in batches():
        indices = torch.arange(rows.shape[1])
        batch = Occurrences(rows, indices, len(indices), indices, torch.zeros_like(indices), [], [])
        sentences = SentenceBatch.of(batch, poisson)
        counts.add(batch, sentences)
        sums.add(batch, rows, sentences)
    return sums.self_similarity(counts)[:, 0]
def pairs():
    found = []
    for layer in torch.cat(list(batches()), dim=1):
        unit = unit_rows(layer.numpy())
        cosines = unit @ unit.T
        found.append((cosines.sum() - np.trace(cosines)) / (n * n - n))
    return np.array(found)
def kilobytes(what):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))
running()  # what is loaded and kept once
linux = Path("/proc/self/clear_refs").exists()
if linux:
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here on
before, began = kilobytes("VmHWM:") if linux else 0, time.process_time()
value = {"running": running, "pairs": pairs}[way]()
spent = time.process_time() - began
print(spent, (kilobytes("VmHWM:") - before) / 1024 if linux else float("nan"), value[-1])
"""


def sentences(count: int) -> list[str]:
    """Sentences of SNLI where they are at hand, else the sample's, numbered."""
    try:
        files = [read_pairs(name, data_dir=SHARED) for name in ("snli/dev", "snli/test")]
        texts: Iterator[str] = (text for file in files for pair in file for text in (pair.left, pair.right))
    except DataError:
        sample = sample_sentences()
        texts = (f"{sample[row % len(sample)]} ({row})" for row in range(count))
    return list(islice(distinct(texts), count))


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock, and of this process."""
    began, clock = time.process_time(), time.perf_counter()
    work()
    return time.perf_counter() - clock, time.process_time() - began


def encoding(encoder: Encoder, texts: list[str]) -> None:
    for _ in encoder.state_batches(texts):
        pass


def passes(encoder: Encoder, texts: list[str]) -> bool:
    """The two ratios, each against the encoding passes before and after it."""
    plain = GeometrySettings(corrections=False, sample_rows=2, sample_points=20)
    # Both once before: what is loaded and compiled at the first call is not measured.
    encoding(encoder, texts[:500])
    geometry_of(encoder, texts[:500], plain)
    claims = {"one-pass measures": (plain, 1.3), "everything": (GeometrySettings(), 2.5)}
    around = [timed(lambda: encoding(encoder, texts))]
    holds = True
    for name, (settings, most) in claims.items():
        clock, spent = timed(lambda settings=settings: geometry_of(encoder, texts, settings))
        around.append(timed(lambda: encoding(encoder, texts)))
        before, after = around[-2:]
        ratio = 2 * spent / (before[1] + after[1])
        by_clock = 2 * clock / (before[0] + after[0])
        holds &= ratio <= most
        print(
            f"{name}: {spent:.0f} s of processor, {ratio:.2f} times one encoding pass ({by_clock:.2f} by the clock);"
            f" claim of at most {most} {'holds' if ratio <= most else 'fails'}"
        )
    return holds


def one_word(way: str, contexts: int) -> tuple[float, float, float]:
    """Seconds, megabytes and the result for a word of so many contexts, in a process of its own."""
    answer = subprocess.run(
        [sys.executable, "-c", CHILD, way, str(contexts)], capture_output=True, text=True, check=True
    )
    seconds, megabytes, value = map(float, answer.stdout.split())
    return seconds, megabytes, value


def contexts() -> bool:
    """How time and memory grow from 1,000 to 8,000 contexts, and that both ways say the same."""
    found = {way: {n: one_word(way, n) for n in (1000, 2000, 4000, 8000)} for way in ("running", "pairs")}
    for n in found["running"]:
        (seconds, megabytes, value), (slow, large, other) = found["running"][n], found["pairs"][n]
        print(
            f"{n:5} contexts, 7 layers: running sums {seconds:.3f} s, {megabytes:4.0f} MB;"
            f" all pairs {slow:.3f} s, {large:4.0f} MB; difference {abs(value - other):.0e}"
        )
    growth = {way: rows[8000][0] / rows[1000][0] for way, rows in found.items()}
    same = all(abs(found["running"][n][2] - found["pairs"][n][2]) < 1e-6 for n in found["running"])
    memory = found["running"][8000][1] - found["running"][1000][1]
    # Running sums hold one batch at a time; what is measured below 100 MB is the allocator.
    holds = growth["running"] < 12 and same and not memory > 100
    print(
        f"8 times the contexts: {growth['running']:.1f} times the time by running sums, {growth['pairs']:.1f} by all"
        f" pairs, {memory:+.0f} MB; claim of linear growth {'holds' if holds else 'fails'}"
    )
    return holds


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--model", default="minilm")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = sentences(options.texts)
    print(f"{len(found)} distinct sentences, {options.model}, one thread")
    results = [passes(Encoder.load(options.model, device="cpu"), found), contexts()]
    sys.exit(not all(results))
