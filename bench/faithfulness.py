"""Claim: the default explanation has the lowest perturbation area of all other methods, integrated Jacobians included,
at a twenty-fifth of their cost or less.

All methods explain the same pairs. The areas: tokens enter a masked text by relevance, special tokens in place or
ranked like the rest, hidden by the mask token or by the pad token, which is the default's reference; and pairs of
tokens enter or leave. Lower is better but for leaving pairs.

    python bench/faithfulness.py MODEL DATA [--pairs 60] [--method NAME ...] [--data-dir DIR] [--out FILE.json]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from scipy.stats import wilcoxon

from likewise.encoder import Encoder
from likewise.explain import faithfulness as test
from likewise.explain.faithfulness import area, pair_steps
from likewise.progress import Ticker
from likewise.studies.pair_files import PairFile

OURS = [name for name in test.VARIANTS if name.startswith("bilrp") and name != "bilrp-attention-norm"]
OTHERS = ["hxp", "jacobian", "embedding-squared", "random"]
MEASURES = {"in place": (False, "mask"), "ranked": (True, "mask"), "in place, pad": (False, "pad")}


def areas(encoder: Encoder, pairs: list, names: list[str]) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, float]]:
    """By measure and method the area of each pair; and the processor time of each method."""
    settings, ticker = test.PerturbationSettings(tuple(names)), Ticker(None)
    seconds = dict.fromkeys(names, 0.0)
    found: dict[str, dict[str, list[np.ndarray]]] = {}
    start = time.monotonic()
    for window, explained in test._explained(encoder, pairs, settings, ticker, seconds):
        for measure, (rank_special, filler) in MEASURES.items():
            orders = {name: [test._orders(one, rank_special) for one in rows] for name, rows in explained.items()}
            for name, curve in test._distances(encoder, orders, ticker, filler).items():
                found.setdefault(measure, {}).setdefault(name, []).append(area(curve))
        for measure, deleting in (("insertion", False), ("deletion", True)):
            steps = {name: [pair_steps(one, deleting) for one in rows] for name, rows in explained.items()}
            curves = test._pair_distances(encoder, explained, steps, deleting, ticker, "mask")
            for name, curve in curves.items():
                found.setdefault(measure, {}).setdefault(name, []).append(area(curve))
        print(f"{len(window)} pairs more, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    joined = {measure: {name: np.concatenate(each) for name, each in by.items()} for measure, by in found.items()}
    return joined, seconds


def show(found: dict[str, dict[str, np.ndarray]], seconds: dict[str, float]) -> bool:
    header = ["method", *found, "seconds", "p against the default, in place"]
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    first = found["in place"]
    for name in sorted(first, key=lambda one: first[one].mean()):
        means = [f"{by[name].mean():.3f}" for by in found.values()]
        p = "" if name == test.DEFAULT else f"{wilcoxon(first[test.DEFAULT], first[name]).pvalue:.1g}"
        print(f"| {name} | " + " | ".join(means) + f" | {seconds[name]:.1f} | {p} |")
    others = [name for name in OTHERS if name in first]
    lowest = all(first[test.DEFAULT].mean() < first[name].mean() for name in others)
    cheap = "jacobian" not in seconds or seconds["jacobian"] >= 25 * seconds[test.DEFAULT]
    if "jacobian" in seconds:
        print(f"\nintegrated Jacobians take {seconds['jacobian'] / seconds[test.DEFAULT]:.0f} times the default's time")
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
    chosen = PairFile(options.data, data_dir=options.data_dir, limit=options.pairs).read_told()
    measured, times = areas(loaded, chosen, options.method or [*OURS, *OTHERS])
    if options.out is not None:
        rows = {measure: {name: each.tolist() for name, each in by.items()} for measure, by in measured.items()}
        options.out.write_text(json.dumps({"areas": rows, "seconds": times}))
    print(f"{Path(options.model).name}, {options.data}, {len(chosen)} pairs\n")
    sys.exit(not show(measured, times))
