"""Explaining text similarity: the items on which parts of speech similarities rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np

from likewise.data import Pair, ScoredPair
from likewise.encoder import Encoder
from likewise.explain.explanation import Explanation
from likewise.explain.pairs import explain_many
from likewise.explain.settings import PLAIN
from likewise.grammar import Grammar, ParsedText
from likewise.lint.evidence import ParsedSides, parsed_sides, unit_classes
from likewise.lint.pos_relevance import ClassSums, PosRelevance, class_order
from likewise.metrics import Array
from likewise.progress import Progress
from likewise.reproduce.controls import resampled, same_effect, untrained
from likewise.reproduce.explaining_similarity_faithfulness import spaced
from likewise.reproduce.study import Context, Finding
from likewise.reproduce.verdicts import Control, Verdict, above, not_comparable
from likewise.results import Figure, Table

TAGGED = {"en": "stsb/test", "zh": "mstsb/zh_test"}
OVERLAP = "embedding-squared"  # the words that both texts share, without the model's layers
NOUNS = (("NOUN", "NOUN"), ("NOUN", "VERB"), ("NOUN", "[SEP]"))  # what SBERT, and BERT with CLS, are said to rest on
SEPARATORS = ("[SEP]", "[SEP]")  # what BERT with mean pooling is said to rest on
PARTS = ("positive", "negative", "counts")
Scored = tuple[ScoredPair, ...]


@dataclass(frozen=True, eq=False)
class ClassTables:
    """Relevance between k classes of each of n pairs; all tables are symmetric."""

    classes: tuple[str, ...]
    positive: Array  # (n, k, k)
    negative: Array
    counts: Array

    @classmethod
    def of(cls, found: Sequence[PosRelevance]) -> ClassTables:
        """The tables of single pairs on the classes of all."""
        classes = sorted({name for one in found for name in one.classes}, key=class_order)
        same = [one.on(classes) for one in found]
        return cls(tuple(classes), *(np.stack([getattr(one, part) for one in same]) for part in PARTS))

    def __len__(self) -> int:
        return len(self.positive)

    @cached_property
    def total(self) -> PosRelevance:
        """The sums over all pairs, without the biases."""
        sums, none = [getattr(self, part).sum(0) for part in PARTS], np.zeros(len(self.classes))
        return PosRelevance(self.classes, sums[0], sums[1], sums[2], none, none)

    def index(self, pair: tuple[str, str]) -> tuple[int, int]:
        """Where a class pair is; the last row and column if a class does not occur."""
        row, column = (self.classes.index(name) if name in self.classes else -1 for name in pair)
        return row, column

    def sums(self, weights: Array, kind: str = "summed", sign: str = "positive") -> Array:
        """The table (k, k) of one sign over weighted pairs (n,): summed, or averaged over token pairs."""
        table = np.tensordot(weights, getattr(self, sign), 1)
        if kind == "averaged":
            table = table / np.maximum(np.tensordot(weights, self.counts, 1), 1.0)
        return np.asarray(table)

    def part(self, pair: tuple[str, str], weights: Array) -> float:
        """The part of a class pair in all positive relevance between tokens."""
        table = self.sums(weights)
        return float(table[self.index(pair)] / np.triu(table).sum())

    def margin(self, pair: tuple[str, str], kind: str, weights: Array) -> float:
        """A class pair minus the strongest other one, as a part of the larger: from -1 to 1."""
        table = np.triu(self.sums(weights, kind))
        own = float(table[self.index(pair)])
        table[self.index(pair)] = 0.0
        return (own - float(table.max())) / max(own, float(table.max()), 1e-12)


def explained(
    encoder: Encoder, pairs: Sequence[Pair | ScoredPair], method: str, progress: Progress | None
) -> Iterator[tuple[Pair | ScoredPair, Explanation]]:
    """Each pair with its explanation by token, as published."""
    stream = explain_many(encoder, pairs, method, granularity="token", progress=progress, **PLAIN)
    return zip(pairs, stream, strict=True)


def class_tables(
    encoder: Encoder, pairs: Scored, parsed: ParsedSides, method: str = "bilrp", progress: Progress | None = None
) -> ClassTables:
    """The relevance between parts of speech of every pair."""
    found = []
    for pair, one in explained(encoder, pairs, method, progress):
        sums = ClassSums()
        left, right = parsed.left[pair.left], parsed.right[pair.right]
        sums.add(one, unit_classes(one.left, left), unit_classes(one.right, right))
        found.append(sums.result())
    return ClassTables.of(found)


@dataclass(frozen=True, eq=False)
class Tagged:
    """Relevance by part of speech of one model: both poolings, word overlap, and random weights."""

    poolings: dict[str, ClassTables]
    overlap: ClassTables
    random: dict[str, ClassTables]  # by the pooling that a claim is about


@lru_cache(maxsize=2)  # the summed and the averaged tables are items of their own
def _tagged(
    encoder: Encoder, pairs: Scored, grammar: Grammar | None, claimed: tuple[str, ...], progress: Progress | None
) -> Tagged:
    """Explain pairs by parts of speech; without a grammar of the language all words are one class."""
    if grammar is not None:
        parsed = parsed_sides(pairs, grammar, progress=progress)
    else:
        texts = {text: ParsedText(text, ()) for pair in pairs for text in (pair.left, pair.right)}
        parsed = ParsedSides(texts, texts)

    def tables(one: Encoder, method: str = "bilrp") -> ClassTables:
        return class_tables(one, pairs, parsed, method, progress)

    pooled = {name: encoder.with_pooling(pooling=name) for name in ("cls", "mean")}
    random = {name: untrained(pooled[name]) for name in claimed}
    found, controls = ({name: tables(one) for name, one in some.items()} for some in (pooled, random))
    return Tagged(found, tables(encoder, OVERLAP), controls)


def parts_of_speech(kind: str, context: Context) -> Finding:
    """Relevance between parts of speech, summed over token pairs or averaged."""
    limit = context.size(tiny=8, quick=60, standard=400, full=None)
    pairs = spaced(context.dataset(TAGGED[context.language]).scored_pairs(), limit)
    grammar = context.grammar() if context.language == "en" else None
    claimed = ("cls", "mean") if context.is_plain else ("mean",)
    found = _tagged(context.encoder, pairs, grammar, claimed, context.progress)
    named = {f"{context.short}, {name}": one for name, one in found.poolings.items()}
    named |= {"word overlap": found.overlap} | {f"random weights, {name}": one for name, one in found.random.items()}
    figures = {
        f"{kind}-{name}": Figure(
            partial(one.total.plot, kind=kind, title=f"{context.short}, {name}, n = {len(one)}"),
            f"Relevance between parts of speech, {kind}, {name} pooling",
        )
        for name, one in found.poolings.items()
        if name in claimed
    }
    claims = _plain_claims(found, kind) if context.is_plain else _tuned_claims(found, kind)
    notes: tuple[str, ...] = ()
    if grammar is None:
        claims = _without_nouns(claims, kind)
        notes = ("Without a grammar of the language, all words are one class, X.",)
    return Finding({"strongest": _strongest(named, kind)}, figures, tuple(claims), notes)


def _without_nouns(claims: Sequence[Verdict], kind: str) -> list[Verdict]:
    """The claims that can be tested without parts of speech; sums can not, since all words together are one class."""
    left = [one for one in claims if "NOUN" not in one.claim]
    if kind == "averaged":
        return left
    why = "all words are one class here, whose sum no other class can reach; pos-averaged tests the claim"
    return [not_comparable(one.claim, why) for one in left]


def _strongest(named: dict[str, ClassTables], kind: str, count: int = 8) -> Table:
    """The strongest class pairs of each setting in a column of its own."""
    columns = []
    for one in named.values():
        table = one.total.scaled(kind)[0]
        seen = [(float(table[cell]), cell) for cell in zip(*np.nonzero(np.triu(one.total.counts)), strict=True)]
        best = sorted(seen, key=lambda each: -each[0])[:count]
        shown = [f"{one.classes[row]}-{one.classes[column]} {value:.2f}" for value, (row, column) in best]
        columns.append(shown + [""] * (count - len(shown)))
    rows = [(rank + 1, *cells) for rank, cells in enumerate(zip(*columns, strict=True))]
    return Table.of(["rank", *named], rows, f"Strongest class pairs, positive, {kind}, scaled by the largest")


def _tuned_claims(found: Tagged, kind: str) -> list[Verdict]:
    """The claims on SBERT, for a model that was fine-tuned for similarity."""
    why = "a claim on plain BERT; this model was fine-tuned for similarity"
    others = [
        not_comparable("BERT with mean pooling rests on [SEP]-[SEP].", why),
        not_comparable("BERT with CLS pooling rests on NOUN-NOUN.", why),
    ]
    return [*_noun_claims(found, "mean", "A model fine-tuned for similarity", kind), *others]


def _plain_claims(found: Tagged, kind: str) -> list[Verdict]:
    """The claims on BERT, for a model that was never fine-tuned."""
    own, random = found.poolings["mean"], found.random["mean"]
    effect = resampled(partial(own.margin, SEPARATORS, kind), len(own))
    control = resampled(partial(random.margin, SEPARATORS, kind), len(random))
    separators = above(
        "BERT with mean pooling rests on [SEP]-[SEP].",
        f"{kind} relevance of [SEP]-[SEP] minus the strongest other class pair, relative to the larger",
        effect,
        control=Control("the same model with random weights", control, same_effect(effect, control)),
    )
    return [separators, *_noun_claims(found, "cls", "BERT with CLS pooling", kind)]


def _noun_claims(found: Tagged, pooling: str, who: str, kind: str) -> list[Verdict]:
    """Nouns carry more than their share of the words that both texts have in common."""
    own, random, overlap = found.poolings[pooling], found.random[pooling], found.overlap
    measure = _part if kind == "summed" else _density
    what = "part of the positive relevance" if kind == "summed" else "mean relevance relative to all token pairs"
    verdicts = [_noun_margin(found, pooling, who)] if kind == "summed" else []
    for pair in NOUNS:

        def beyond(tables: ClassTables, weights: Array, pair: tuple[str, str] = pair) -> float:
            return measure(tables, pair, weights) - measure(overlap, pair, weights)

        effect, control = (resampled(partial(beyond, one), len(one)) for one in (own, random))
        verdicts.append(
            above(
                f"{who} rests on {'-'.join(pair)} more than word overlap does.",
                f"{what}, minus the same of word overlap",
                effect,
                control=Control("the same model with random weights", control, same_effect(effect, control)),
            )
        )  # fmt: skip
    return verdicts


def _noun_margin(found: Tagged, pooling: str, who: str) -> Verdict:
    """NOUN-NOUN is the strongest class pair; it may be so in the words that both texts share, too."""
    own, overlap = found.poolings[pooling], found.overlap
    effect = resampled(partial(own.margin, NOUNS[0], "summed"), len(own))
    control = resampled(partial(overlap.margin, NOUNS[0], "summed"), len(overlap))
    return above(
        f"{who} rests most on NOUN-NOUN.",
        "summed relevance of NOUN-NOUN minus the strongest other class pair, relative to the larger",
        effect,
        control=Control("word overlap without the model", control, same_effect(effect, control)),
    )


def _part(tables: ClassTables, pair: tuple[str, str], weights: Array) -> float:
    return tables.part(pair, weights)


def _density(tables: ClassTables, pair: tuple[str, str], weights: Array) -> float:
    """How many times the mean positive relevance of all token pairs a class pair has."""
    every = np.triu(tables.sums(weights)).sum() / np.triu(np.tensordot(weights, tables.counts, 1)).sum()
    return float(tables.sums(weights, "averaged")[tables.index(pair)] / every)
