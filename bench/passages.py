"""Claim: a search of long documents by their passages finds at least as much as a search of the same texts, cut off.

    python bench/passages.py [--documents 500] [--reviews 500] [--queries 400] [--model minilm]

Two corpora. Reviews of cs224n/cfimdb (200 to 600 tokens; left out where ../shared/data is missing): a query is a
sentence of a review without every third word. Chronicles, written here by templates: each tells 12 events, no two of
them the same; a query tells one event in other words. The right answer is the one document that
the query was made from. Recall@1 and @10 are for all queries, and for those whose sentence begins within the first
tokens that a cut text keeps, or after them.
"""

from __future__ import annotations

import argparse
import logging
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from likewise.data import read_texts
from likewise.encoder import Encoder
from likewise.errors import DataError
from likewise.grammar.spans import sentence_spans
from likewise.search import Index, PassageSettings

SHARED = Path("../shared/data")
KS = (1, 10)
EVENTS = 12
Words = tuple[tuple[str, str], ...]  # As a document says it, and as a query does
ACTORS: Words = (
    ("a beekeeper", "someone who keeps bees"), ("a retired judge", "a former magistrate"), ("a baker", "a bread maker"),
    ("two brothers", "a pair of siblings"), ("a choir of miners", "singing pit workers"),
    ("a dentist", "a tooth doctor"),
    ("the night watchman", "the guard on duty after dark"), ("a young pilot", "a flyer at the start of her career"),
    ("a tailor", "a man who sews suits"), ("an astronomer", "a scientist who studies stars"),
    ("a ferry captain", "the skipper of a boat"), ("three schoolgirls", "a few pupils"),
    ("a librarian", "a keeper of books"),
    ("a locksmith", "a maker of keys"), ("a goat herder", "a shepherd"),
    ("the mayor's cook", "the chef of a politician"),
    ("a plumber", "a man who repairs pipes"), ("a violin teacher", "a music instructor"),
    ("a surgeon", "a doctor who operates"),
    ("an old sailor", "a veteran of the sea"),
)  # fmt: skip
DEEDS: Words = (
    ("repaired {thing} {place}", "fixed {thing} {place}"),
    ("bought {thing} {place} for next to nothing", "got {thing} cheaply {place}"),
    ("found {thing} {place}", "discovered {thing} {place}"),
    ("lost {thing} {place}", "could no longer find {thing} {place}"),
    ("painted {thing} {place}", "made a picture of {thing} {place}"),
    ("hid {thing} {place}", "concealed {thing} {place}"),
    ("gave {thing} to a stranger {place}", "handed {thing} to an unknown person {place}"),
    ("sold {thing} {place} within an hour", "quickly found a buyer for {thing} {place}"),
)  # fmt: skip
THINGS: Words = (
    ("a grandfather clock", "an old timepiece"), ("a wooden canoe", "a small boat"),
    ("a box of letters", "some correspondence"),
    ("a steam engine", "a machine that runs on steam"), ("a silver trumpet", "a brass instrument"),
    ("a map of the caves", "a chart of caverns"),
    ("a hunting dog", "a hound"), ("a crate of oranges", "a load of citrus fruit"),
    ("a wedding dress", "a bride's gown"),
    ("a telescope", "an instrument for looking at the sky"), ("a stone lion", "a sculpture of a big cat"),
    ("a motorbike", "a two-wheeled vehicle"),
    ("a jar of honey", "something sweet from bees"), ("a stained glass window", "a coloured church pane"),
    ("a chess set", "a board game"),
    ("a pair of skates", "shoes for the ice"), ("a printing press", "a machine that prints"),
    ("a snow plough", "a truck that clears snow"),
)  # fmt: skip
PLACES: Words = (
    ("behind the railway station", "near the trains"), ("in a flooded cellar", "in a basement under water"),
    ("at the spring market", "at a fair"),
    ("on the frozen lake", "on the ice"), ("under the old bridge", "below a river crossing"),
    ("in the hospital garden", "on the grounds of a clinic"),
    ("on the roof of the theatre", "on top of the playhouse"), ("in a monastery", "where monks live"),
    ("by the lighthouse", "next to a beacon on the coast"),
    ("in the desert", "among the dunes"), ("at a crossroads at dawn", "where two roads meet, early in the day"),
    ("in an empty factory", "in an abandoned plant"),
)  # fmt: skip
SEQUELS = (
    "{actor} told the story of {thing} for years, and always ended it {place}, as if nothing had happened since",
    "whoever asks about {thing} today is sent to the place itself, {place}, where {actor} is well remembered",
    "it was not the first time that {actor} was seen {place}, but never before with {thing}",
    "a photograph of {actor} with {thing}, taken {place}, hangs in the town hall",
)
FILLERS = (
    "Nobody wrote down how long that lasted, and those who were there tell it in different ways.",
    "The season was dry, the roads were good, and the news travelled faster than anybody had expected.",
    "Some say that it happened twice, but the second time is not in any of the books.",
    "The council met, argued until late and went home without a decision.",
    "It was the talk of the market for weeks, and then it was forgotten like everything else.",
    "A short entry in the ledger is all that is left of it today.",
    "There was rain on the day after, and a wind from the west that took some of the older roofs.",
    "The price of flour rose again in that month, and so did the price of candles.",
)


@dataclass(frozen=True)
class Query:
    """A query, the id of its document, and where in the text its sentence begins."""

    text: str
    document: str
    start: int


Task = tuple[list[tuple[str, str]], list[Query]]


def chronicles(count: int, queries: int, seed: int = 0) -> Task:
    """Documents of 12 events each, and queries for single events in other words; no two events are the same."""
    source = random.Random(seed)
    sizes = len(ACTORS), len(DEEDS), len(THINGS), len(PLACES)
    events = source.sample(range(math.prod(sizes)), count * EVENTS)
    texts, asked = [], []
    for number in range(count):
        text, name = "", f"chronicle-{number}"
        for event in events[number * EVENTS : (number + 1) * EVENTS]:
            actor, deed, thing, place = (
                words[index]
                for words, index in zip((ACTORS, DEEDS, THINGS, PLACES), _digits(event, sizes), strict=True)
            )
            said, other = (f"{actor[i]} {deed[i].format(thing=thing[i], place=place[i])}" for i in (0, 1))
            asked.append(Query(other, name, len(text)))
            more = source.choice(SEQUELS).format(actor=actor[0], thing=thing[0], place=place[0])
            lines = [f"{said}.", f"{more}.", source.choice(FILLERS)]
            text += " ".join(line[0].upper() + line[1:] for line in lines) + source.choice((" ", " ", "\n\n"))
        texts.append((name, text))
    return texts, source.sample(asked, min(queries, len(asked)))


def _digits(number: int, sizes: Sequence[int]) -> list[int]:
    """A number as one index for each of several lists."""
    found = []
    for size in sizes:
        number, digit = divmod(number, size)
        found.append(digit)
    return found


def reviews(count: int, queries: int, seed: int = 0) -> Task:
    """Reviews, and sentences of them without every third word."""
    source = random.Random(seed)
    every = list(dict.fromkeys(row.text for row in read_texts("cs224n/cfimdb-train", data_dir=SHARED)))
    chosen = source.sample([text for text in every if len(text.split()) >= 150], count)
    texts = [(f"review-{number}", text) for number, text in enumerate(chosen)]
    asked = []
    for name, text in texts:
        for start, end in sentence_spans(text):
            words = text[start:end].split()
            if len(words) >= 9:
                shortened = " ".join(word for index, word in enumerate(words) if index % 3 != 2)
                asked.append(Query(shortened, name, start))
    return texts, source.sample(asked, min(queries, len(asked)))


def recalls(index: Index, queries: Sequence[Query], aggregate: str = "max") -> list[list[bool]]:
    """Whether each query's document is among the first 1 and the first 10."""
    hits = index.search_many([query.text for query in queries], max(KS), aggregate=aggregate)
    found = [[hit.id for hit in one] for one in hits]
    return [[query.document in ids[:k] for k in KS] for query, ids in zip(queries, found, strict=True)]


def kept_characters(encoder: Encoder, text: str) -> int:
    """How many characters of a text a cut text keeps."""
    return max(end for _, end in encoder.tokenizer.tokenize([text])[0].offsets)


def report(encoder: Encoder, title: str, task: Task) -> None:
    """Build both indexes and print the recall of each."""
    texts, queries = task
    kept = {name: kept_characters(encoder, text) for name, text in texts}
    inside = [query.start < kept[query.document] for query in queries]
    lengths = sorted(encoder.tokenizer.lengths([text for _, text in texts]))
    middle = f"{lengths[0]} to {lengths[-1]} tokens, median {lengths[len(lengths) // 2]}"
    print(f"\n{title}: {len(texts)} documents of {middle}; {len(queries)} queries, {sum(inside)} within the limit")
    print(f"{'index':<26}{'rows':>6}{'seconds':>9}   {'R@1':>6}{'R@10':>6}  within{'':>7}  beyond")
    for name, cut, aggregate in (
        ("cut texts", None, "max"), ("passages, max", PassageSettings(), "max"),
        ("passages, mean-top-3", PassageSettings(), "mean-top-3"),
        ("passages of 256, max", PassageSettings(256), "max"),
    ):  # fmt: skip
        if aggregate == "max":
            began = time.process_time()
            index = Index.from_texts(encoder, texts, passages=cut)
            seconds = time.process_time() - began
        found = recalls(index, queries, aggregate)
        parts = [
            " ".join(f"{_mean([one[i] for one in some]):.3f}" for i in range(len(KS)))
            for some in (found, _chosen(found, inside), _chosen(found, [not one for one in inside]))
        ]
        print(f"{name:<26}{len(index.store):>6}{seconds:>9.1f}   {'   '.join(parts)}")


def _chosen(rows: list[list[bool]], mask: list[bool]) -> list[list[bool]]:
    return [row for row, is_in in zip(rows, mask, strict=True) if is_in]


def _mean(values: list[bool]) -> float:
    return sum(values) / len(values) if values else float("nan")


def main() -> None:
    """Run both corpora."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--reviews", type=int, default=500)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--model", default="minilm")
    given = parser.parse_args()
    logging.getLogger("likewise").setLevel(logging.ERROR)
    encoder = Encoder.load(given.model, device="cpu", threads=1)
    tasks: dict[str, Callable[[], Task]] = {
        "chronicles": lambda: chronicles(given.documents, given.queries),
        "reviews": lambda: reviews(given.reviews, given.queries),
    }
    for title, task in tasks.items():
        try:
            report(encoder, title, task())
        except DataError as error:
            print(f"\n{title}: left out ({error})")


if __name__ == "__main__":
    main()
