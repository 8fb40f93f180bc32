"""Claim: the cost of encoding and indexing many texts on many machines follows from a few numbers measured here.

    python bench/scale.py [--measurements FILE] [--texts 256] [--windows 8] [--rounds 3] [--cores 16] [--price 0]

Measures windows of texts in one process and with two workers, one thread each, in alternating rounds; commits of
manifests, segments of an index, and a build of an engine. With --measurements the numbers are read from that file, or
written to it. Then it prints the tables of docs/scale.md: whether the simulator of bench/simulation.py predicts the
last round, which the fit has not seen; time, memory and traffic for 10 million and 1 billion texts; what breaks first;
and what stragglers and failures cost 1,000 workers. Prices are inputs: --price is that of a machine for an hour.

A measured window has --texts texts; the tables are for windows of 4,096. Costs are processor time, which other jobs of
the machine hardly change. The prediction of two workers is wall time, and so is the spread of window times in the
simulation; --spread processor takes that of processor time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, median

import numpy as np
import torch
from numpy.typing import NDArray

import likewise
from likewise.data import read_texts
from likewise.encoder import Encoder, forward
from likewise.encoder.stream import encode_stream
from likewise.sample import sample_sentences
from likewise.search.engines import Plan, StackedVectors, built, faiss
from likewise.search.stores import StoredRows, folder
from likewise.search.stores.segments import Segment
from likewise.search.stores.store import KnownRows
from likewise.storage import write_text
from simulation import Cluster, Simulated, simulate

HOUR, GB = 3600.0, 1e9
WINDOW = forward.WINDOW_TEXTS
RECEIPT = {"file": "part-000000000000.parquet", "rows": WINDOW, "sha256": "0" * 64}
COMMIT = 2.0  # Seconds between two manifests
TEXTS = (10_000_000, 1_000_000_000)
MACHINES = (10, 100, 1000)
WORKERS = 1000  # of the simulation
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """Numbers of one machine; times in seconds."""

    where: str  # model, versions and date
    load: list[float]  # of the machine before and after: other jobs ran
    texts: int  # of a measured window
    windows: list[list[float]]  # wall times of one process, by round and window
    processor: list[list[float]]  # processor times of the same windows
    two: list[float]  # wall times of two workers for as many windows, by round
    two_processor: list[float]  # processor times of the same workers
    start: list[float]  # the same of two workers with hardly any work
    start_processor: list[float]
    text_bytes: float
    vector_bytes: int
    id_bytes: float
    memory: int  # of a process that encodes
    commits: list[list[float]]  # receipts in a manifest, seconds to write it
    append: float  # to write a window of 4,096 into an index
    appends: list[list[float]]  # segments of an index, processor seconds to append one row to it
    known_bytes: float  # memory of an index's writer for each row
    product: float  # of an IVF engine: seconds for each vector and list
    read: float  # of the first process, to read and hash a text


def texts(count: int) -> Iterator[tuple[str, str]]:
    sentences = sample_sentences()
    return ((str(row), f"{sentences[row % 300]} ({row})") for row in range(count))


def two_workers(encoder: Encoder, items: Iterator[tuple[str, str]]) -> tuple[float, float]:
    """The wall time of a run, and the processor time of its workers."""
    with tempfile.TemporaryDirectory() as place:
        began, used = time.perf_counter(), _children()
        encode_stream(encoder, items, Path(place) / "vectors", workers=2)
        return time.perf_counter() - began, _children() - used


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def one_process(encoder: Encoder, items: Iterator[tuple[str, str]]) -> tuple[list[float], list[float]]:
    """The wall and processor time of each window."""
    wall, processor = [], []
    for window in forward.text_windows(items):
        began, used = time.perf_counter(), time.process_time()
        encoder.encode_with_stats([text for _, text in window])
        wall.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
    return wall, processor


def measured(model: str, size: int, count: int, rounds: int) -> Measured:
    encoder = Encoder.load(model, device="cpu", threads=1)
    load, forward.WINDOW_TEXTS = os.getloadavg()[0], size
    one, two, start = [], [], []
    for number in range(rounds):
        one.append(one_process(encoder, texts(count * size)))
        two.append(two_workers(encoder, texts(count * size)))
        start.append(two_workers(encoder, ((str(row), "a") for row in range(2 * size))))
        print(f"round {number + 1}: {sum(one[-1][0]):.0f} s, {two[-1][0]:.0f} s", file=sys.stderr, flush=True)
    sizes = [len(text.encode()) for _, text in texts(WINDOW)]
    ids = [len(json.dumps(name)) + 1 for name, _ in texts(WINDOW)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    append, appends = index_times(encoder.dimension)
    known, product, commits = known_bytes(), engine_time(encoder.dimension), commit_times()
    read = read_time()
    where = f"likewise {likewise.__version__}, torch {torch.__version__}, {platform.machine()}, {os.cpu_count()} cores"
    return Measured(
        f"{model}, 1 thread, {where}, {time.strftime('%Y-%m-%d')}", [load, os.getloadavg()[0]], size,
        [wall for wall, _ in one], [used for _, used in one], [wall for wall, _ in two], [used for _, used in two],
        [wall for wall, _ in start], [used for _, used in start], mean(sizes), 4 * encoder.dimension, mean(ids),
        memory, commits, append, appends, known, product, read,
    )  # fmt: skip


def commit_times() -> list[list[float]]:
    """How long a manifest of so many receipts takes to write, as a whole and to the disk."""
    found = []
    with tempfile.TemporaryDirectory() as place:
        for count in (1, 1000, 10_000, 50_000):
            spent = []
            for _ in range(3):
                began = time.perf_counter()
                write_text(Path(place) / "manifest.json", json.dumps([RECEIPT] * count))
                spent.append(time.perf_counter() - began)
            found.append([count, min(spent)])
    return found


def index_times(dimension: int) -> tuple[float, list[list[float]]]:
    """How long it takes to append a window to an index, and one row to an index of many segments."""
    rng, single = np.random.default_rng(0), list[float]()
    with tempfile.TemporaryDirectory() as place:
        writer = _writer(Path(place) / "windows", dimension)
        spent = []
        for number in range(16):
            vectors = rng.normal(size=(WINDOW, dimension)).astype(np.float32)
            names = [f"{number}-{row}" for row in range(WINDOW)]
            rows = StoredRows(names, [text for _, text in texts(WINDOW)], vectors)
            began = time.perf_counter()
            writer.append(rows)
            spent.append(time.perf_counter() - began)
        largest, folder.LARGEST_SEGMENT = folder.LARGEST_SEGMENT, 1  # every row becomes a segment
        writer = _writer(Path(place) / "segments", 4)
        for number in range(605):
            used = time.process_time()  # the disk is shared, and its part does not grow with the segments
            writer.append(StoredRows([str(number)], ["a"], np.ones((1, 4), np.float32)))
            single.append(time.process_time() - used)
        folder.LARGEST_SEGMENT = largest
    return median(spent), [[at, median(single[at : at + 5])] for at in range(0, 601, 50)]


def _writer(path: Path, dimension: int) -> folder.FolderWriter:
    path.mkdir()
    return folder.FolderWriter.begun(path, None, folder.IndexManifest({}, dimension), "bench")


def known_bytes(rows: int = 200_000) -> float:
    """The memory that a writer needs to know which rows it has, for each row."""
    import tracemalloc

    names = [str(row) for row in range(rows)]
    segment = Segment.of(StoredRows(names, names, np.zeros((rows, 1), np.float32)))
    tracemalloc.start()
    known = KnownRows([segment])
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / len(known.known)


def read_time(rows: int = 20 * WINDOW) -> float:
    """Processor time for each text of a file that is read and hashed, as the first process of a run does it."""
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "texts.jsonl"
        path.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in texts(rows)))
        used = time.process_time()
        for row in read_texts(path):
            digest.update(json.dumps([row.id, row.text]).encode())
        return (time.process_time() - used) / rows


def engine_time(dimension: int, rows: int = 16_384) -> float:
    """Seconds for each vector and list of an IVF engine."""
    vectors = np.random.default_rng(0).normal(size=(rows, dimension)).astype(np.float32)
    faiss().omp_set_num_threads(1)
    used = time.process_time()
    built(StackedVectors([vectors]), Plan("ivf"))
    return (time.process_time() - used) / _products(rows)


def _lists(rows: int) -> int:
    return min(int(4 * math.sqrt(rows)), rows // 39)


def _products(rows: int) -> float:
    """Vectors x lists of a build: 25 rounds of k-means over a sample, then every row once."""
    return (25 * min(rows, 256 * 1024) + rows) * _lists(rows)


def line(points: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Least squares: a + b x for points (x, y)."""
    slope, constant = np.polyfit([x for x, _ in points], [y for _, y in points], 1)
    return max(0.0, float(constant)), max(0.0, float(slope))


@dataclass(frozen=True)
class Model:
    """The cost model, in processor time: what it takes to encode on machines of their own."""

    window: float  # seconds of a window of 4,096 texts, one thread
    shared: float  # how much longer it takes if the other core encodes too
    start: float  # of a worker
    measured: Measured
    by_processor: bool = False  # whether the spread of window times is that of processor time

    @classmethod
    def fitted(cls, found: Measured) -> Model:
        """From one process and from two workers."""
        start = median(found.start_processor)
        windows = np.array(found.processor)
        alone = float(np.median(windows))
        both = (median(found.two_processor) - start) / windows.shape[1]
        return cls(alone * WINDOW / found.texts, both / alone, start / 2, found)

    @property
    def spread(self) -> Numbers:
        """Times of windows, in units of their median; wall time has what other jobs of the machine took."""
        times = np.ravel(self.measured.processor if self.by_processor else self.measured.windows)
        return times / np.median(times)

    def hours(self, count: int, workers: int) -> float:
        """Equal times: as many turns as the busiest worker has windows."""
        return (self.start + math.ceil(windows_of(count) / workers) * self.window * self.shared) / HOUR


def windows_of(count: int) -> int:
    return math.ceil(count / WINDOW)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def print_measured(model: Model) -> None:
    found, wall, used = model.measured, np.ravel(model.measured.windows), np.ravel(model.measured.processor)
    (constant, slope), (_, segment) = line(found.commits), line(found.appends)
    sizes = f"{found.text_bytes:.0f}, {found.vector_bytes}, {found.id_bytes:.0f}"
    table(found.where, ["measured", "value"], [
        ("load of the machine, before and after", " and ".join(f"{one:.1f}" for one in found.load)),
        ("windows measured, texts of each", f"{len(wall)}, {found.texts:,}"),
        ("a window, wall seconds: median, lowest, highest",
         f"{np.median(wall):.2f}, {wall.min():.2f}, {wall.max():.2f}"),
        ("a window, processor seconds: median, lowest, highest",
         f"{np.median(used):.2f}, {used.min():.2f}, {used.max():.2f}"),
        ("texts per second of processor time", f"{WINDOW / model.window:.0f}"),
        ("start of a worker, processor seconds", f"{model.start:.1f}"),
        ("a window with two workers, against one process", f"{model.shared:.2f}"),
        ("bytes of a text, of a vector, of an id", sizes),
        ("memory of a process that encodes", f"{found.memory / 1e6:.0f} MB"),
        ("commit of a manifest", f"{1e3 * constant:.1f} ms + {1e6 * slope:.1f} µs for each receipt in it"),
        ("append of 4,096 rows to an index", f"{found.append:.2f} s + {1e6 * segment:.0f} µs for each segment"),
        ("the first process reads and hashes, texts per second", f"{1 / found.read:,.0f}"),
        ("memory of an index's writer for each row", f"{found.known_bytes:.0f} bytes"),
        ("IVF engine, for each vector and list", f"{1e9 * found.product:.1f} ns"),
    ])  # fmt: skip


def print_validation(found: Measured) -> None:
    """The wall time of the last round, predicted from the rounds before."""
    rng, count = np.random.default_rng(0), len(found.windows[0])
    seen = np.ravel(found.windows[:-1])
    draws = [simulate(rng.choice(seen, count).tolist(), Cluster(2, 2)).seconds for _ in range(200)]
    start = median(found.start[:-1])
    before = [two / (start + mean(draws)) for two in found.two[:-1]]
    one = count * float(seen.mean())
    rows = [
        ("one process", f"{one:.1f}", f"{sum(found.windows[-1]):.1f}", f"{sum(found.windows[-1]) / one:.2f}"),
        *(
            (name, f"{predicted:.1f}", f"{found.two[-1]:.1f}", f"{found.two[-1] / predicted:.2f}")
            for name, predicted in (
                ("two workers, simulated", start + mean(draws)),
                ("two workers, simulated, times the ratio of the rounds before", mean(before) * (start + mean(draws))),
            )
        ),
    ]
    used = median(found.start_processor[:-1]) + count * float(np.median(found.processor[:-1]))
    last = found.two_processor[-1]
    rows.append(("two workers, processor time of both", f"{used:.1f}", f"{last:.1f}", f"{last / used:.2f}"))
    title = f"The last of {len(found.two)} rounds, predicted from the others: {count} windows of {found.texts:,} texts"
    table(title, ["prediction", "predicted s", "measured s", "ratio"], rows)


def print_cost(model: Model, cores: int, price: float) -> None:
    found, rows = model.measured, []
    for count in TEXTS:
        for machines in MACHINES:
            hours, windows = model.hours(count, machines * cores), windows_of(count)
            stored = count * (found.vector_bytes + found.id_bytes)
            traffic = (stored + count * found.text_bytes) / (hours * HOUR)
            used = min(1.0, windows / (machines * cores))
            cost = (f"{machines * hours * price:,.2f}",) if price else ()
            rows.append((
                f"{count:,}", f"{machines:,}", f"{windows / (machines * cores):.1f}", f"{60 * hours:,.1f}",
                f"{machines * hours:,.1f}", f"{used:.0%}", f"{cores * found.memory / GB:.0f}", f"{stored / GB:,.0f}",
                f"{traffic / 1e6:,.0f}", f"{traffic / machines / 1e6:.1f}", *cost,
            ))  # fmt: skip
    table(f"Encoding, {cores} cores per machine, one worker each", [
        "texts", "machines", "windows per worker", "minutes", "machine hours", "workers in use",
        "GB memory per machine", "GB written", "MB/s in all", "MB/s per machine", *(["price"] if price else []),
    ], rows)  # fmt: skip


def print_limits(model: Model, cores: int) -> None:
    """What a single driver, manifest and index would have to do."""
    found, rows = model.measured, []
    constant, slope = line(found.commits)
    _, segment_cost = line(found.appends)
    receipt = len(json.dumps(RECEIPT))
    for count in TEXTS:
        windows, segments = windows_of(count), math.ceil(count / folder.LARGEST_SEGMENT)
        hours = model.hours(count, 1000 * cores)
        each = windows * constant + slope * windows**2 / 2
        some = HOUR * hours / COMMIT * (constant + slope * windows / 2)
        copying = windows * found.append + segment_cost * segments * windows / 2
        engine = _products(count) * found.product
        through = count * found.vector_bytes / 1.25e9
        costs = {
            "receipts per second at the driver, 1,000 machines": f"{windows / hours / HOUR:,.0f}",
            "size of the manifest": f"{windows * receipt / 1e6:,.1f} MB",
            "texts per second that workers encode, and that the first process reads": (
                f"{count / hours / HOUR:,.0f}, {1 / found.read:,.0f}"
            ),
            "manifest written after every receipt": f"{each / HOUR:,.2f} hours",
            f"manifest written every {COMMIT:.0f} seconds": f"{some / HOUR:,.3f} hours, of {hours:.2f}",
            "all texts read and hashed by the first process": f"{count * found.read / HOUR:,.2f} hours",
            "files of shards, one for each window": f"{windows:,}",
            "one index: segments, files of them": f"{segments:,}, {3 * segments:,}",
            "one index: windows appended by one writer": f"{copying / HOUR:,.1f} hours",
            "one index: memory of its writer for known rows": f"{count * found.known_bytes / GB:,.0f} GB",
            f"one index: IVF engine of {_lists(count):,} lists, one core": f"{engine / HOUR:,.1f} hours",
            "all vectors through the driver, at 10 Gbit/s": f"{through / HOUR:,.2f} hours",
        }
        rows += [(f"{count:,}", name, cost) for name, cost in costs.items()]
    table("What one driver, one manifest and one index cost", ["texts", "what", "cost"], rows)


@dataclass(frozen=True)
class Scenario:
    """What goes wrong: a share of slow workers, a share of slow attempts, and how often a worker dies."""

    slow_workers: float = 0.0  # three times slower, always
    slow_attempts: float = 0.0  # ten times slower, such as a stalled disk
    between_deaths: float = math.inf


SCENARIOS = {
    "nothing goes wrong": Scenario(),
    "2 % of the workers are 3 times slower": Scenario(slow_workers=0.02),
    "1 % of the attempts take 10 times longer": Scenario(slow_attempts=0.01),
    "each worker dies once a day": Scenario(between_deaths=24 * HOUR),
    "each worker dies every 2 hours": Scenario(between_deaths=2 * HOUR),
    "all of it": Scenario(0.02, 0.01, 2 * HOUR),
}
POLICIES: dict[str, tuple[float, bool]] = {  # windows ahead for each worker, second copies
    "2 ahead": (2, False),
    "2 ahead, copies": (2, True),
    "32 ahead": (32, False),
    "32 ahead, copies": (32, True),
    "no order": (math.inf, False),
}


def simulated(model: Model, scenario: Scenario, policy: tuple[float, bool], windows: int) -> Simulated:
    """A run with resampled window times; the same times and slow workers for every policy."""
    rng, chance = np.random.default_rng(0), random.Random(0)
    times = rng.choice(model.spread, windows) * model.window * model.shared
    slow = (rng.random(WORKERS) < scenario.slow_workers).tolist()
    patience = 1.5 * model.window * model.shared
    how = Cluster(WORKERS, *policy, patience=patience, restart=60 + model.start)
    rate = 1 / scenario.between_deaths

    def lifetime(_worker: int, _attempt: int) -> float:
        return chance.expovariate(rate) if rate else math.inf

    def slowdown(worker: int, _attempt: int) -> float:
        return (3.0 if slow[worker] else 1.0) * (10.0 if chance.random() < scenario.slow_attempts else 1.0)

    return simulate(times.tolist(), how, lifetime, slowdown)


def print_simulation(model: Model) -> None:
    for count in TEXTS:
        windows, rows = windows_of(count), []
        ideal = simulated(model, Scenario(), (math.inf, False), windows).work / WORKERS
        for title, scenario in SCENARIOS.items():
            for name, policy in POLICIES.items():
                found = simulated(model, scenario, policy, windows)
                rows.append((
                    title, name, f"{found.seconds / 60:.1f}", f"{found.seconds / ideal:.2f}",
                    f"{(found.lost + found.second) / found.work:.2%}", f"{found.deaths:,}", f"{found.most_waiting:,}",
                ))  # fmt: skip
        title = f"{WORKERS:,} workers, {count:,} texts ({windows:,} windows); the ideal takes {ideal / 60:.1f} minutes"
        columns = ["what happens", "policy", "minutes", "of the ideal", "work repeated", "deaths", "receipts that wait"]
        table(title, columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measurements", type=Path)
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--windows", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--price", type=float, default=0.0)
    parser.add_argument("--spread", choices=("wall", "processor"), default="wall")
    parser.add_argument("--model", default="minilm")
    options = parser.parse_args()
    stored = options.measurements
    if stored is not None and stored.exists():
        found = Measured(**json.loads(stored.read_text()))
    else:
        found = measured(options.model, options.texts, options.windows, max(2, options.rounds))
        if stored is not None:
            stored.write_text(json.dumps(asdict(found)))
    model = replace(Model.fitted(found), by_processor=options.spread == "processor")
    print_measured(model)
    print_validation(found)
    print_cost(model, options.cores, options.price)
    print_limits(model, options.cores)
    print_simulation(model)


if __name__ == "__main__":
    main()
