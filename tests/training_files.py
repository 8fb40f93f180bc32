"""Small files of made-up examples for training tests."""

from __future__ import annotations

import csv
import random
from pathlib import Path

THREE_TASKS = """
[[task]]
kind = "similarity"
{similarity}
train = "{folder}/similar.csv"
dev = "{folder}/similar-dev.csv"
[[task]]
kind = "paraphrase"
{paraphrase}
train = "{folder}/same.csv"
dev = "{folder}/same-dev.csv"
[[task]]
kind = "sentiment"
{sentiment}
train = "{folder}/felt.csv"
dev = "{folder}/felt-dev.csv"
"""
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


def numbered_file(path: Path, numbers: range) -> Path:
    """Pairs that no two numbers share, so that files overlap by exactly the numbers they have in common."""
    rows: list[list[object]] = [[f"the cat sits {n}", f"a dog runs {n}", n % 6] for n in numbers]
    return write_rows(path, ["sentence1", "sentence2", "score"], rows)


def three_kinds(folder: Path) -> Path:
    """Train, dev and test files of every kind."""
    for number, (part, count) in enumerate((("train", 40), ("dev", 24), ("test", 24))):
        similarity_file(folder / f"similarity-{part}.csv", count, number)
        paraphrase_file(folder / f"paraphrase-{part}.csv", count, number + 10)
        sentiment_file(folder / f"sentiment-{part}.csv", count, number + 20)
    return folder


def task_text(folder: Path, kind: str = "similarity", more: str = "") -> str:
    """A [[task]] over the files of ``three_kinds``."""
    files = "".join(f"{part} = '{folder / f'{kind}-{part}.csv'}'\n" for part in ("train", "dev", "test"))
    return f"[[task]]\nkind = '{kind}'\n{files}{more}\n"


def three_tasks(folder: Path, similarity: str = "", paraphrase: str = "", sentiment: str = "") -> str:
    """The tasks of a config whose files lie in ``folder``, with more lines for each."""
    return THREE_TASKS.format(folder=folder, similarity=similarity, paraphrase=paraphrase, sentiment=sentiment)


def three_files(folder: Path, part: str, count: int, seed: int) -> None:
    """What each of the three tasks reads as a part: nothing for train, or -dev, -test."""
    similarity_file(folder / f"similar{part}.csv", count, seed)
    paraphrase_file(folder / f"same{part}.csv", count, seed + 10)
    sentiment_file(folder / f"felt{part}.csv", count, seed + 20)
