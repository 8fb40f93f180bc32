"""Small files to tune on: pairs that share more words the higher their score."""

from __future__ import annotations

import random
from pathlib import Path

WORDS = ("cat", "dog", "sun", "sea", "red", "blue", "one", "two", "run", "sat", "tree", "house")


def pairs(path: Path, count: int, seed: int) -> Path:
    rng, rows = random.Random(seed), ["sentence1,sentence2,score"]
    for number in range(count):
        left, shared = rng.choices(WORDS, k=4), rng.randint(0, 4)
        right = left[:shared] + rng.choices(WORDS, k=4 - shared)
        rows.append(f"{' '.join(left)} {path.stem} {number},{' '.join(right)},{shared}")
    path.write_text("\n".join(rows) + "\n")
    return path


def config_text(folder: Path, model: Path, head: str = "cosine", more: str = "") -> str:
    """A config over two new files of a folder, whose name may hold anything that a path may."""
    train, dev = pairs(folder / "train.csv", 40, 1), pairs(folder / "dev.csv", 24, 2)
    return (
        f"model = '{model}'\nlearning_rate = 1e-4\nbatch = 16\nepochs = 2\n{more}\n"
        f"[[task]]\nkind = 'similarity'\nhead = '{head}'\ntrain = '{train}'\ndev = '{dev}'\n"
    )
