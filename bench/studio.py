"""Claim: the studio's page paints within a second and is below 250 KB gzipped; an explained pair of about 12 words is
answered in at most 1.5 times the library call; 50 clients at once for a minute get answers or 429 and nothing else,
and the server's memory stays flat.

One run, one thread, the bundled model, the studio as the command starts it. The library and the server take turns on
the same pair, and each one's best round counts. Where there is no Chromium, the paint is left out and said so.

    python bench/studio.py [--rounds 30] [--clients 50] [--seconds 60]
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import torch

from likewise.encoder import Encoder
from likewise.explain import explain
from likewise.server.app import STATIC

PAIR = (
    "The council decided on Tuesday to rebuild the old harbour warehouse soon.",
    "On Tuesday the city agreed that the harbour warehouse will be restored.",
)
MOST_RATIO, MOST_PAINT, MOST_BYTES, MOST_GROWTH = 1.5, 1.0, 250_000, 1.1
NO_ANSWER = 0
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@contextmanager
def studio(folder: str) -> Iterator[tuple[str, int]]:
    """The address and the process of a studio that runs."""
    command = [sys.executable, "-m", "likewise", "studio", "--no-browser", "--port", "0", "--threads", "1"]
    process = subprocess.Popen([*command, "--folder", folder], stderr=subprocess.PIPE, text=True, cwd=folder)
    try:
        found = re.search(r"http://\S+", process.stderr.readline() if process.stderr else "")
        assert found, "the studio does not start"
        yield found.group(), process.pid
    finally:
        process.terminate()
        process.wait(timeout=30)


class Client:
    """A connection that is kept open."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=120)

    def explained(self) -> tuple[int, bytes]:
        body = json.dumps({"left": PAIR[0], "right": PAIR[1], "granularity": "word"})
        self._connection.request("POST", "/api/pair", body, {"content-type": "application/json"})
        answer = self._connection.getresponse()
        return answer.status, answer.read()


def paint(address: str) -> float | None:
    """Seconds to the first paint with content, the best of three fresh visits; None without a browser."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    from playwright.sync_api import sync_playwright

    first_paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"
    times = []
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=FLAGS)
        for _ in range(3):
            page = browser.new_context().new_page()
            page.goto(address)
            page.wait_for_selector("main .form")
            times.append(page.evaluate(first_paint) / 1000)
        browser.close()
    return min(each for each in times if each > 0)


def answer_ratio(address: str, rounds: int) -> float:
    """How many times as long as the library the server takes for the same pair."""
    encoder, client = Encoder.load("minilm", device="cpu"), Client(address)
    library: list[float] = []
    server: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        explain(encoder, *PAIR, granularity="word")
        library.append(time.perf_counter() - start)
        start = time.perf_counter()
        status, _ = client.explained()
        server.append(time.perf_counter() - start)
        assert status == 200
    print(f"  library {min(library) * 1000:.1f} ms, server {min(server) * 1000:.1f} ms")
    return min(server) / min(library)


def memory(pid: int) -> int:
    """Resident bytes of a process."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def crowd(address: str, pid: int, clients: int, seconds: float) -> tuple[Counter[int], float]:
    """Statuses of the answers to many clients at once, and how much the memory grew after the first quarter."""
    end = time.monotonic() + seconds
    summary: Counter[int] = Counter()
    lock = threading.Lock()

    def ask() -> None:
        client = Client(address)
        while time.monotonic() < end:
            try:
                status, _ = client.explained()
            except OSError:
                status, client = NO_ANSWER, Client(address)
            with lock:
                summary[status] += 1
            if status != 200:
                time.sleep(0.05)

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 4)
    early = memory(pid)
    for thread in threads:
        thread.join()
    return summary, memory(pid) / early


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    held = []
    with tempfile.TemporaryDirectory() as folder, studio(folder) as (address, pid):
        size = sum(len(gzip.compress(path.read_bytes())) for path in STATIC.rglob("*") if path.is_file())
        print(f"bundle: {size:,} bytes gzipped (claim: below {MOST_BYTES:,})")
        held.append(size < MOST_BYTES)
        ratio = answer_ratio(address, options.rounds)
        print(f"explained pair: {ratio:.2f} times the library call (claim: at most {MOST_RATIO})")
        held.append(ratio <= MOST_RATIO)
        first = paint(address)
        if first is None:
            print("first paint: not measured, no chromium on this machine")
        else:
            print(f"first paint: {first:.2f} s (claim: below {MOST_PAINT})")
            held.append(first < MOST_PAINT)
        summary, growth = crowd(address, pid, options.clients, options.seconds)
        crowded = f"{options.clients} clients for {options.seconds:.0f} s"
        print(f"{crowded}: answers by status {dict(summary)} (claim: 200 and 429)")
        print(f"memory at the end: {growth:.3f} times that after the first quarter (claim: at most {MOST_GROWTH})")
        held += [set(summary) <= {200, 429} and summary[200] > 0, growth <= MOST_GROWTH]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
