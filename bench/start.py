"""Claim: `likewise explain` and `likewise similarity` take at most 1.6 times as long as `import torch`, and
`likewise --help` at most a quarter of it; none of the three imports transformers, scipy or scikit-learn.

Whole processes, from start to exit, with the bundled model and one thread; the commands take turns and each one's best
round counts, because a machine's noise only ever slows.

    python bench/start.py [--rounds 7]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

TORCH = "import torch"
COMMANDS = {
    "explain": (["explain", "a cat", "a dog"], 1.6),
    "similarity": (["similarity", "a cat", "a dog"], 1.6),
    "--help": (["--help"], 0.25),
}
"""What is called, and how many times the import of torch it may take."""
ABSENT = ("transformers", "scipy", "sklearn", "huggingface_hub", "pandas")
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def seconds(*arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=ENVIRONMENT)
    return time.perf_counter() - start


def imported(arguments: list[str]) -> list[str]:
    """Which of the absent packages a command imports."""
    summary = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "likewise", *arguments],
        check=True, capture_output=True, text=True, env=ENVIRONMENT,
    ).stderr  # fmt: skip
    names = {line.rsplit("|", 1)[-1].strip() for line in summary.splitlines() if line.startswith("import time:")}
    return [name for name in ABSENT if name in names]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    found = {name: imported(arguments) for name, (arguments, _) in COMMANDS.items()}  # warms the disk's cache too
    best: dict[str, float] = {}
    for _ in range(options.rounds):
        rounds = {TORCH: seconds("-c", TORCH)}
        rounds |= {name: seconds("-m", "likewise", *arguments) for name, (arguments, _) in COMMANDS.items()}
        best = {name: min(took, best.get(name, took)) for name, took in rounds.items()}
    print(f"{TORCH:12} {best[TORCH]:.2f} s")
    holds = True
    for name, (_, most) in COMMANDS.items():
        ratio = best[name] / best[TORCH]
        good = ratio <= most and not found[name]
        summary = f"; imports {', '.join(found[name])}" if found[name] else ""
        print(f"{name:12} {best[name]:.2f} s: {ratio:.2f} times; claim {most} {'holds' if good else 'fails'}{summary}")
        holds = holds and good
    sys.exit(not holds)
