"""Small files of made-up examples for training tests."""

from __future__ import annotations

import csv
import random
from pathlib import Path

THINGS = ("cat", "dog", "man", "woman", "bank", "river", "child", "house")
DOINGS = ("runs", "sleeps", "sits", "sings", "falls", "waits")


def sentence(rng: random.Random) -> str:
    """A few plain words."""
    return f"the {rng.choice(THINGS)} {rng.choice(DOINGS)} " + " ".join(rng.choices(THINGS, k=rng.randint(0, 5)))


def write_rows(path: Path, header: list[str], rows: list[list[object]]) -> Path:
    """A CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def similarity_file(path: Path, count: int, seed: int = 0) -> Path:
    """Pairs whose score is five times the overlap of their words."""
    rng, rows = random.Random(seed), []
    for _ in range(count):
        left, right = sentence(rng), sentence(rng)
        one, other = set(left.split()), set(right.split())
        rows.append([left, right, round(5 * len(one & other) / len(one | other), 3)])
    return write_rows(path, ["sentence1", "sentence2", "score"], rows)


def paraphrase_file(path: Path, count: int, seed: int = 0) -> Path:
    """Pairs that are paraphrases where their first things are the same."""
    rng, rows = random.Random(seed), []
    for _ in range(count):
        left, right = sentence(rng), sentence(rng)
        rows.append([left, right, int(left.split()[1] == right.split()[1])])
    return write_rows(path, ["sentence1", "sentence2", "score"], rows)


def sentiment_file(path: Path, count: int, seed: int = 0) -> Path:
    """Texts whose class is the place of their doing, up to 4."""
    rng, rows = random.Random(seed), []
    for _ in range(count):
        text = sentence(rng)
        rows.append([text, min(4, DOINGS.index(text.split()[2]))])
    return write_rows(path, ["sentence", "label"], rows)
