"""Explaining text similarity: the items on mixed languages and on biomedical texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from likewise.evaluation.sts import evaluate_sts, mixed_scored_pairs
from likewise.explain.comparisons import side_by_side as explained_row
from likewise.explain.explanation import Explanation
from likewise.lint.evidence import ParsedSides, parsed_sides
from likewise.lint.pos_relevance import (
    WordPair,
    level_edges,
    level_errors,
    pos_change,
    strongest_by_quarter,
    strongest_words,
)
from likewise.metrics import Array, Interval
from likewise.reproduce.controls import resampled, same_effect
from likewise.reproduce.explaining_similarity_faithfulness import english_only, spaced
from likewise.reproduce.explaining_similarity_relevance import OVERLAP, ClassTables, Scored, class_tables, explained
from likewise.reproduce.study import Context, Finding
from likewise.reproduce.verdicts import Control, Verdict, above
from likewise.results import Column, Figure, Table


def language_changes(context: Context) -> Finding:
    """What changes from English pairs to pairs of an English and a German text."""
    english_only(context, "the class pairs need grammars of both languages, here English and German")
    limit = context.size(tiny=6, quick=40, standard=300, full=None)
    english = spaced(context.dataset("mstsb/en_test").scored_pairs(), limit)
    mixed = spaced(mixed_scored_pairs(context.dataset("mstsb/en_test"), "mstsb/de_test")[1], limit)
    first = parsed_sides(english, context.grammar("en"), progress=context.progress)
    german = parsed_sides(mixed, context.grammar("en"), context.grammar("de"), context.progress)

    def tables(pairs: Scored, parsed: ParsedSides) -> ClassTables:
        return class_tables(context.encoder, pairs, parsed, progress=context.progress)

    own = tables(english, first), tables(mixed, german)
    unrelated = tables(other_rows(english), first), tables(other_rows(mixed), german)
    change = pos_change(("en-en", "en-de"), own[0].total, own[1].total)
    figures = {"change": change.figures()["change_summed"]}
    shown = {name: replace(table, summary=False) for name, table in change.tables().items() if not table.detail}
    verdicts = (
        _less_in_mixed("NOUN-NOUN carries less of mixed pairs than of English pairs.",
                       "part of NOUN-NOUN in the positive relevance, en-en minus en-de", _noun_part, own, unrelated),
        _less_in_mixed("Mixed pairs have more negative relevance than English pairs.",
                       "part of the positive in the absolute relevance, en-en minus en-de", _positive_part, own,
                       unrelated),
    )  # fmt: skip
    return Finding(shown, figures, verdicts, (f"{len(english)} pairs; the study prints no numbers for this figure.",))


def other_rows(pairs: Scored) -> Scored:
    """The left texts with the right texts of other rows."""
    moved = [*pairs[len(pairs) // 2 :], *pairs[: len(pairs) // 2]]
    return tuple(replace(one, right=other.right) for one, other in zip(pairs, moved, strict=True))


Couple = tuple[ClassTables, ClassTables]


def _less_in_mixed(
    claim: str, effect: str, measure: Callable[[ClassTables, Array], float], own: Couple, unrelated: Couple
) -> Verdict:
    def gap(tables: Couple, weights: Array) -> float:
        return measure(tables[0], weights) - measure(tables[1], weights)

    measured, control = (resampled(partial(gap, tables), len(tables[0])) for tables in (own, unrelated))
    return above(
        claim, effect, measured, control=Control("rows in another order", control, same_effect(measured, control))
    )


def _noun_part(tables: ClassTables, weights: Array) -> float:
    return tables.part(("NOUN", "NOUN"), weights)


def _positive_part(tables: ClassTables, weights: Array) -> float:
    up, down = (np.triu(tables.sums(weights, sign=sign)).sum() for sign in ("positive", "negative"))
    return float(up / (up - down))


@dataclass(frozen=True)
class Triplet:
    """A built-in pair in English and in German, and one of its nouns."""

    english: tuple[str, str]
    german: tuple[str, str]
    noun: tuple[str, str]

    @property
    def pairs(self) -> dict[str, tuple[str, str]]:
        """The texts in one language, in the other, and mixed."""
        return {"en-en": self.english, "de-de": self.german, "en-de": (self.english[0], self.german[1])}

    def noun_forms(self, name: str) -> tuple[str, str]:
        """The noun as the two texts of a pair have it."""
        english, german = self.noun
        return {"en-en": (english, english), "de-de": (german, german), "en-de": (english, german)}[name]


TRIPLETS = (
    Triplet(
        (
            "The gardener watered the roses before sunrise.",
            "Before the sun came up, the gardener gave the roses water.",
        ),
        ("Der Gärtner goss die Rosen vor Sonnenaufgang.", "Bevor die Sonne aufging, gab der Gärtner den Rosen Wasser."),
        ("gardener", "Gärtner"),
    ),
    Triplet(
        ("My bicycle was stolen outside the library.", "Somebody took my bike from in front of the library."),
        ("Mein Fahrrad wurde vor der Bibliothek gestohlen.", "Jemand nahm mein Rad vor der Bibliothek mit."),
        ("library", "Bibliothek"),
    ),
    Triplet(
        ("It is not impossible to repair the clock.", "The clock can be repaired."),
        ("Es ist nicht unmöglich, die Uhr zu reparieren.", "Die Uhr kann repariert werden."),
        ("clock", "Uhr"),
    ),
    Triplet(
        ("The queen thanked the carpenter.", "The carpenter was thanked by the queen."),
        ("Die Königin dankte dem Schreiner.", "Dem Schreiner wurde von der Königin gedankt."),
        ("carpenter", "Schreiner"),
    ),
    Triplet(
        ("Nobody answered the door.", "There was no answer at the door."),
        ("Niemand öffnete die Tür.", "An der Tür antwortete niemand."),
        ("door", "Tür"),
    ),
    Triplet(
        ("A thick layer of ice covered the pond.", "The pond was frozen over."),
        ("Eine dicke Eisschicht bedeckte den Teich.", "Der Teich war zugefroren."),
        ("pond", "Teich"),
    ),
)


def language_triplets(context: Context) -> Finding:
    """The same pair in English, in German and mixed, word by word."""
    english_only(context, "the triplets are English and German")
    explained_rows = [explained_row(context.encoder, one.pairs, row + 1) for row, one in enumerate(TRIPLETS)]
    nouns, others, rows = [], [], []
    for triplet, found in zip(TRIPLETS, explained_rows, strict=True):
        each = {name: _noun_relevance(one, triplet.noun_forms(name)) for name, one in found.explanations.items()}
        nouns.append(each["en-en"][0] - each["en-de"][0])
        others.append(each["en-en"][1] - each["en-de"][1])
        scores = [one.similarity for one in found.explanations.values()]
        rows.append(("-".join(triplet.noun), *scores, *(one[0] for one in each.values())))
    effect, control = _mean(nouns), _mean(others)
    verdict = above(
        "A noun and its translation add less to a mixed pair than the noun twice to an English pair.",
        "relevance of the noun with itself (en-en) minus that with its translation (en-de)", effect,
        control=Control("the noun with the other words", control, same_effect(effect, control)),
    )  # fmt: skip
    names = list(TRIPLETS[0].pairs)
    header: list[str | Column] = ["noun", *(Column(name, f"{name}, cosine", ".3f") for name in names)]
    header += [Column(f"{name}_noun", f"{name}, the noun", ".3f") for name in names]
    table = Table.of(header, rows, "Built-in triplets", "What the noun of both texts adds to the cosine.")
    return Finding({"triplets": table}, {"triplet": explained_rows[0].figures()["row_1"]}, (verdict,))


def _noun_relevance(found: Explanation, forms: tuple[str, str]) -> tuple[float, float]:
    """What the two nouns add together, and what the left one adds on average with the right text's other words."""
    row, column = found.left.labels.index(forms[0]), found.right.labels.index(forms[1])
    words = [index for index, unit in enumerate(found.right.units) if unit.kind == "text" and index != column]
    return float(found.relevance[row, column]), float(found.relevance[row, words].mean())


def _mean(values: Sequence[float]) -> Interval:
    each = np.array(values)
    return resampled(lambda weights: float(each @ weights / weights.sum()), len(each))


# BIOSSES

PERMUTATIONS = 500
TOP = 20  # word pairs of each quarter that are compared
SHOWN = 5


def biosses_levels(context: Context) -> Finding:
    """Squared errors by level of the human score."""
    english_only(context, "BIOSSES is English")
    pairs = spaced(context.dataset("biosses/all").scored_pairs(), context.size(tiny=30, quick=None))
    tables, figures, verdicts = {}, {}, []
    for pooling in ("cls", "mean"):
        found = evaluate_sts(context.encoder.with_pooling(pooling=pooling), pairs, "biosses/all", context.progress)
        predicted = found.predicted.astype(np.float64)
        errors = level_errors(predicted, found.truth)
        tables[f"levels-{pooling}"] = replace(
            errors.tables()["errors_by_level"], title=f"Squared error by level, {pooling} pooling"
        )
        draw = partial(errors.plot, title=f"BIOSSES, {context.short}, {pooling}, n = {found.n}")
        figures[f"levels-{pooling}"] = Figure(draw, f"Errors by level of the human score, {pooling} pooling")
        slope, shift = errors.line
        squared = (slope * predicted + shift - found.truth) ** 2
        verdicts.append(_level_verdict(squared, found.truth, pooling))
    note = "The study prints no numbers for this figure. Predictions are mapped onto the scale by a least-squares line."
    return Finding(tables, figures, tuple(verdicts), (note,))


def _level_verdict(squared: Array, truth: Array, pooling: str) -> Verdict:
    """Whether errors (n,) differ between levels by more than chance."""
    edges = level_edges(truth)
    level = np.clip(np.searchsorted(edges, truth, side="right") - 1, 0, len(edges) - 2)
    masks = np.stack([level == one for one in np.unique(level)]).astype(np.float64)

    def spread(values: Array, weights: Array) -> float:
        means = (masks @ (weights * values)) / np.maximum(masks @ weights, 1e-12)
        return float(np.ptp(means[masks @ weights > 0]))

    rng, every = np.random.default_rng(0), np.ones(len(truth))
    chance = [spread(rng.permutation(squared), every) for _ in range(PERMUTATIONS)]
    middle, low, high = (float(one) for one in np.percentile(chance, [50, 2.5, 97.5]))
    return above(
        f"The error depends on how similar the texts are ({pooling} pooling).",
        "largest minus smallest mean squared error of a level; the alternative is the end of its range by chance",
        resampled(partial(spread, squared), len(truth)), round(high, 3),
        control=Control("the same errors at random levels", Interval(middle, low, high)),
    )  # fmt: skip


def biosses_words(context: Context) -> Finding:
    """The strongest word pairs by quarter of the predicted similarity."""
    english_only(context, "BIOSSES is English")
    pairs = spaced(context.dataset("biosses/all").scored_pairs(), context.size(tiny=8, quick=32, standard=None))
    own, overlap = (_quarters(context, pairs, method) for method in ("bilrp", OVERLAP))
    effect, control = _equal_margin(own), _equal_margin(overlap)
    verdict = above(
        "High similarities rest on the same words in both texts, low ones less.",
        f"share of equal words among the {TOP} strongest word pairs, top quarter minus bottom quarter",
        effect, control=Control("word overlap without the model", control, same_effect(effect, control)),
    )  # fmt: skip
    rows = [
        (quarter, one.id, f"{one.left}-{one.right}", one.relevance, one.similarity)
        for quarter, some in own.items()
        for one in some[:SHOWN]
    ]
    header: list[str | Column] = ["quarter", Column("id", "row"), "words", "relevance", "similarity"]
    table = Table.of(header, rows, f"Strongest word pairs by quarter of predicted similarity, {len(pairs)} pairs")
    return Finding({"words": table}, {}, (verdict,))


def _quarters(context: Context, pairs: Scored, method: str) -> dict[str, tuple[WordPair, ...]]:
    words: list[WordPair] = []
    predicted = []
    for pair, found in explained(context.encoder, pairs, method, context.progress):
        words += strongest_words(found, pair.id, TOP)
        predicted.append(found.similarity)
    return strongest_by_quarter(words, np.array(predicted), TOP)


def _equal_margin(quarters: dict[str, tuple[WordPair, ...]]) -> Interval:
    """The share of equal words in the top quarter minus that in the bottom quarter."""
    top, bottom = (quarters[name] for name in ("top", "bottom"))
    equal = np.array([one.left.lower() == one.right.lower() for one in (*top, *bottom)], dtype=np.float64)
    is_top = np.arange(len(equal)) < len(top)

    def margin(weights: Array) -> float:
        shares = [np.average(equal[mask], weights=weights[mask] + 1e-12) for mask in (is_top, ~is_top)]
        return float(shares[0] - shares[1])

    return resampled(margin, len(equal))
