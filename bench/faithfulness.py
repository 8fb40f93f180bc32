"""Claim: the default explanation has the lowest perturbation area of all other methods, integrated Jacobians included,
at a twenty-fifth of their cost or less.

All methods explain the same pairs. The areas: tokens enter a masked text by relevance, special tokens in place or
ranked like the rest; and pairs of tokens enter or leave. Lower is better but for leaving pairs. Tokens are hidden by
the mask token, which is not the default's reference (pad).

    python bench/faithfulness.py MODEL DATA [--pairs 60] [--method NAME ...] [--data-dir DIR] [--out FILE.jsonl]

With --out a run that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from scipy.stats import wilcoxon

from likewise.data import Dataset
from likewise.encoder import Encoder
from likewise.evaluation.faithfulness import DEFAULT, SLOW, VARIANTS, PerturbationSettings, explained_windows
from likewise.evaluation.perturbation import area, distance_curves
from likewise.progress import Ticker

OURS = [name for name in VARIANTS if name.startswith("bilrp") and name != "bilrp-attention-norm"]
OTHERS = ["hxp", SLOW, "embedding-squared", "random"]
RANKED = {"in place": False, "ranked": True}
PAIRED = ("insertion", "deletion")
WINDOW = 2  # pairs after which a run can go on
Areas = dict[str, dict[str, list[float]]]


def window_areas(encoder: Encoder, pairs: list, names: list[str]) -> tuple[Areas, dict[str, float]]:
    """By measure and method the area of each of a few pairs; and the processor time of each method."""
    settings, seconds = PerturbationSettings(tuple(names)), dict.fromkeys(names, 0.0)
    [explained] = explained_windows(encoder, pairs, settings, Ticker(None), seconds)
    curves = {measure: distance_curves(encoder, explained, rank_special=ranked) for measure, ranked in RANKED.items()}
    curves |= {kind: distance_curves(encoder, explained, kind) for kind in PAIRED}
    return {measure: {name: area(one).tolist() for name, one in by.items()} for measure, by in curves.items()}, seconds


def areas(
    encoder: Encoder, pairs: list, names: list[str], out: Path | None
) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, float]]:
    """The same for all pairs, window by window."""
    settings = {"model": encoder.hash, "pairs": [[pair.left, pair.right] for pair in pairs], "methods": names}
    key = hashlib.sha256(json.dumps(settings).encode()).hexdigest()
    done = {} if out is None or not out.exists() else _finished(out, key)
    known = {start + index for start, (found, _) in done.items() for index in range(len(found["in place"][names[0]]))}
    for start in range(0, len(pairs), WINDOW):
        if start in known:
            continue
        begin = time.monotonic()
        done[start] = window_areas(encoder, pairs[start : start + WINDOW], names)
        if out is not None:
            with out.open("a") as stream:
                stream.write(json.dumps({"run": key, "start": start, "found": done[start]}) + "\n")
        seconds = time.monotonic() - begin
        print(f"pairs {start + 1} to {start + WINDOW} of {len(pairs)}, {seconds:.0f} s", file=sys.stderr, flush=True)
    windows = [done[start] for start in sorted(done)]
    joined = {
        measure: {name: np.concatenate([found[measure][name] for found, _ in windows]) for name in names}
        for measure in (*RANKED, *PAIRED)
    }
    return joined, {name: sum(seconds[name] for _, seconds in windows) for name in names}


def _finished(out: Path, key: str) -> dict[int, tuple[Areas, dict[str, float]]]:
    """The windows of the same run that are in the file, by their first pair."""
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    return {line["start"]: line["found"] for line in lines if line["run"] == key}


def show(found: dict[str, dict[str, np.ndarray]], seconds: dict[str, float]) -> bool:
    header = ["method", *found, "seconds", "p against the default, in place"]
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    first = found["in place"]
    for name in sorted(first, key=lambda one: first[one].mean()):
        means = [f"{by[name].mean():.3f}" for by in found.values()]
        p = "" if name == DEFAULT else f"{wilcoxon(first[DEFAULT], first[name]).pvalue:.1g}"
        print(f"| {name} | " + " | ".join(means) + f" | {seconds[name]:.1f} | {p} |")
    others = [name for name in OTHERS if name in first]
    lowest = all(first[DEFAULT].mean() < first[name].mean() for name in others)
    cheap = SLOW not in seconds or seconds[SLOW] >= 25 * seconds[DEFAULT]
    if SLOW in seconds:
        print(f"\nintegrated Jacobians take {seconds[SLOW] / seconds[DEFAULT]:.0f} times the default's time")
    print("claim", "holds" if lowest and cheap else "does not hold here")
    return lowest and cheap


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?", default="minilm")
    parser.add_argument("data", nargs="?", default="sample/pairs")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--method", action="append")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    loaded = Encoder.load(options.model, device="cpu", threads=1)
    chosen = Dataset(options.data, data_dir=options.data_dir, limit=options.pairs).pairs()
    measured, times = areas(loaded, chosen, options.method or [*OURS, *OTHERS], options.out)
    print(f"{Path(options.model).name}, {options.data}, {len(chosen)} pairs\n")
    sys.exit(not show(measured, times))
