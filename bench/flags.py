"""Claim: a flag says that two near texts are less often the same.

Labelled pairs of quora/train from a cosine on: the share of duplicates among those with each flag, and without any.

    python bench/flags.py [--pairs 10000] [--threshold 0.85] [--grammar ../shared/models/en_ud] [--data ../shared/data]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from likewise.data import Dataset
from likewise.encoder import Encoder
from likewise.encoder.similarity import paired_similarity
from likewise.grammar import Grammar
from likewise.grammar.contrasts import LIGHT_RULES, MEANING_RULES, lightly_parsed, meaning_flags


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--threshold", type=float, default=0.85)
    parser.add_argument("--grammar")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    pairs = Dataset("quora/train", data_dir=options.data, limit=options.pairs).scored_pairs()
    encoder = Encoder.load("minilm", device="cpu", threads=1)
    left, right = (encoder.encode([getattr(pair, side) for pair in pairs]) for side in ("left", "right"))
    near = [pairs[row] for row in np.flatnonzero(paired_similarity(left, right) >= options.threshold)]
    if options.grammar is None:
        rules, parsed = LIGHT_RULES["en"], [[lightly_parsed(text) for text in (one.left, one.right)] for one in near]
    else:
        grammar = Grammar.load(options.grammar)
        rules, parsed = tuple(MEANING_RULES), [grammar.parse([one.left, one.right]) for one in near]
    flags = [meaning_flags(*both, rules) for both in parsed]
    rows = {rule: [one.score for one, found in zip(near, flags, strict=True) if rule in found] for rule in rules}
    rows["any flag"] = [one.score for one, found in zip(near, flags, strict=True) if found]
    rows["no flag"] = [one.score for one, found in zip(near, flags, strict=True) if not found]
    print(f"{len(near):,} of {len(pairs):,} labelled pairs have a cosine of {options.threshold:g} or more")
    for name, scores in rows.items():
        print(f"{name:10} {len(scores):6,} pairs, duplicates {np.mean(scores) if scores else 0:.1%}")
    holds = np.mean(rows["any flag"]) < np.mean(rows["no flag"])
    print(f"claim {'holds' if holds else 'fails'}")
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
