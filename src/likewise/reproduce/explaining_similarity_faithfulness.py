"""Explaining text similarity: perturbation tests, rule sets, conservation, and attention scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from likewise.data import Dataset, ScoredPair
from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.evaluation.faithfulness import (
    Conservation,
    ConservationPanel,
    Faithfulness,
    PerturbationSettings,
    conservation,
    faithfulness,
    without_biases,
)
from likewise.evaluation.perturbation import FRACTIONS
from likewise.explain.attention_score import AttentionScore, explain_attention
from likewise.explain.settings import PLAIN
from likewise.explain.texts import contributions
from likewise.metrics import Array, Interval, bootstrap_means
from likewise.plotting.curves import curves
from likewise.progress import Progress
from likewise.reproduce.controls import resampled, same_effect, untrained
from likewise.reproduce.published import side_by_side
from likewise.reproduce.study import Context, Finding
from likewise.reproduce.verdicts import Control, Verdict, above, below
from likewise.results import Column, Figure, Table

PERTURBED = {"en": {"STSb": "stsb/test", "BIOSSES": "biosses/all"}, "zh": {"STSb": "mstsb/zh_test"}}
METHODS = {
    "random": "random", "embedding": "embedding-squared", "HxP": "hxp", "BiLRP": "bilrp",
    "embedding, not squared": "embedding", "BiLRP, relative to fillers": "bilrp-filler",
}  # fmt: skip
"""The names in the tables, the published ones first. The released code squares the embeddings' products."""
BASELINES = ("random", "embedding-squared", "embedding", "hxp")
ORDERS = "the smallest of the differences to a random order, embeddings (squared or not) and Hessian x product"
A_FIFTH = int(np.argmin(np.abs(FRACTIONS - 0.2)))
NEARLY_ALL = 0.99  # of the variance: a sum of relevance that is conserved
Pairs = tuple[ScoredPair, ...]


def spaced(rows: Sequence[Any], count: int | None) -> tuple[Any, ...]:
    """At most ``count`` rows at equal distances: the files are ordered by their sources."""
    if count is None or count >= len(rows):
        return tuple(rows)
    return tuple(rows[index] for index in np.linspace(0, len(rows) - 1, count).round().astype(int))


def english_only(context: Context, why: str) -> None:
    """Stop an item that exists for English only."""
    if context.language != "en":
        raise UsageError(f"{why}; run it with --language en")


def difference(better: Array, worse: Array) -> Interval:
    """The mean of better (n,) minus worse (n,), pair by pair."""
    return bootstrap_means([better - worse])[0]


def perturbed(context: Context) -> dict[str, tuple[Faithfulness, Faithfulness]]:
    """The perturbation test of all methods by data set, and that of a second random order as a control."""
    sizes = {
        "STSb": context.size(tiny=5, quick=50, standard=300, full=None),
        "BIOSSES": context.size(tiny=2, quick=10, standard=None),
    }
    found = {}
    for name, file in PERTURBED[context.language].items():
        pairs = spaced(context.dataset(file).scored_pairs(), sizes[name])
        found[name] = _perturbed(context.encoder, pairs, context.progress)
    return found


@lru_cache(maxsize=4)  # the table and the curves are items of their own
def _perturbed(encoder: Encoder, pairs: Pairs, progress: Progress | None) -> tuple[Faithfulness, Faithfulness]:
    settings = PerturbationSettings(tuple(METHODS.values()), rank_special=True)  # special tokens as published
    again = replace(settings, variants=("random",), seed=1)
    return faithfulness(encoder, pairs, settings, progress), faithfulness(encoder, pairs, again, progress)


def least_lead(values: Mapping[str, Array], own: Array) -> Interval:
    """The smallest mean of a baseline's (n,) minus one's own (n,), over all baselines."""
    rows = np.stack([values[name] - own for name in BASELINES])
    return resampled(lambda weights: float((rows @ weights).min() / weights.sum()), len(own))


def _lowest(claim: str, measure: str, values: Mapping[str, Array], second_random: Array) -> Verdict:
    effect, control = least_lead(values, values["bilrp"]), least_lead(values, second_random)
    shown = Control("a second random order in BiLRP's place", control, same_effect(effect, control))
    return above(claim, f"{measure}: {ORDERS}", effect, control=shown)


def aupc_table(context: Context) -> Finding:
    """The areas of all methods, next to the published ones."""
    measured: dict[tuple[str, str], Interval] = {}
    verdicts = []
    for name, (found, again) in perturbed(context).items():
        areas = found.areas
        measured |= {
            (f"{context.short}, {name}", column): bootstrap_means([areas[variant]])[0]
            for column, variant in METHODS.items()
        }
        verdicts.append(_lowest("BiLRP has the lowest area.", f"AUPC, {name}", areas, again.areas["random"]))
        control = difference(areas["random"], again.areas["random"])
        verdicts.append(
            below(
                "Hessian x product is no better than a random order.",
                f"AUPC of random minus that of HxP, {name}",
                difference(areas["random"], areas["hxp"]),
                control=Control("a second random order in its place", control, control.high < 0),
            )
        )
    note = "Areas can be compared only within one model. Special tokens are masked and ranked like the rest."
    table = side_by_side(context.published.of("aupc").values(), measured, context.short, "AUPC, lower is better", note)
    return Finding({"aupc": table}, {}, tuple(verdicts))


def perturbation_curves(context: Context) -> Finding:
    """The distance to the full text while tokens enter."""
    figures, verdicts = {}, []
    for name, (found, again) in perturbed(context).items():
        title = f"Distance to the full text while tokens enter, {name}"
        figures[f"curves-{name.lower()}"] = Figure(found.plot, title, f"{found.n} pairs; bands: 95 % over pairs")
        early = {method: each[:, A_FIFTH] for method, each in found.curves.items()}
        claim = "With a fifth of the tokens, BiLRP's order is closest to the full text."
        verdicts.append(_lowest(claim, f"distance, {name}", early, again.curves["random"][:, A_FIFTH]))
    return Finding({}, figures, tuple(verdicts))


RULE_SETS = {"none": "hxp", "attention, norm": "bilrp-attention-norm", "attention, norm, activation": "bilrp"}


def rule_sets(context: Context) -> Finding:
    """The areas of BiLRP by the factors that it holds constant."""
    pairs = spaced(
        context.dataset(PERTURBED[context.language]["STSb"]).scored_pairs(),
        context.size(tiny=3, quick=30, standard=300, full=None),
    )
    settings = PerturbationSettings((*RULE_SETS.values(), "random"), rank_special=True)
    areas = faithfulness(context.encoder, pairs, settings, context.progress).areas
    rows = [(rules, bootstrap_means([areas[variant]])[0]) for rules, variant in RULE_SETS.items()]
    rows.append(("(a random order)", bootstrap_means([areas["random"]])[0]))
    note = "The study uses all three for the BERT family, and attention and norm for SGPT."
    table = Table.of(
        [Column("rules", "held constant"), Column("aupc", "AUPC", ".3f")],
        rows,
        f"AUPC by what is held constant, {len(pairs)} pairs",
        note,
    )
    none, two, all_three = (areas[variant] for variant in RULE_SETS.values())
    verdicts = (
        _more_faithful(
            "Holding attention and norm constant makes explanations of the model more faithful.",
            "AUPC without rules minus that with attention and norm", (two, none), areas["random"],
        ),
        _more_faithful(
            "In the BERT family all three rules are more faithful than attention and norm alone.",
            "AUPC with attention and norm minus that with all three", (all_three, two), areas["random"],
        ),
    )  # fmt: skip
    return Finding({"rules": table}, {}, verdicts)


def _more_faithful(claim: str, measure: str, areas: tuple[Array, Array], random: Array) -> Verdict:
    better, worse = areas
    effect, control = difference(worse, better), difference(worse, random)
    return above(
        claim, measure, effect, control=Control("a random order in its place", control, same_effect(effect, control))
    )


def conservation_figure(context: Context) -> Finding:
    """Summed relevance against the sum of the vector's components."""
    rows = context.dataset(PERTURBED[context.language]["STSb"]).scored_pairs()
    texts = list(dict.fromkeys(pair.left for pair in rows))
    chosen = spaced(texts, context.size(tiny=8, quick=80, standard=300, full=None))
    found = conservation(context.encoder, chosen, context.progress)
    hxp = _hxp_without_biases(context, chosen)
    found = replace(found, panels=(*found.panels, hxp))
    [zero] = [one for one in found.panels if one.name == "BiLRP, biases set to zero"]
    other, own = r2_interval(replace(zero, relevance=np.roll(zero.relevance, 1))), r2_interval(zero)
    verdicts = (
        above(
            "BiLRP conserves relevance, apart from the biases.", "R² to the identity with all biases set to zero",
            own, NEARLY_ALL, control=Control("the relevance of another text", other, other.low > NEARLY_ALL),
        ),
        below(
            "Hessian x product does not conserve relevance.", "R² to the identity with all biases set to zero",
            r2_interval(hxp), NEARLY_ALL, control=Control("BiLRP", own, own.high < NEARLY_ALL),
        ),
    )  # fmt: skip
    return Finding({"r2": _r2_table(found)}, found.figures(), verdicts)


def _hxp_without_biases(context: Context, texts: Sequence[str]) -> ConservationPanel:
    """Hessian x product where biases cannot be what is missing."""
    encoder = without_biases(context.encoder.with_pooling(normalize=False))
    found = contributions(encoder, texts, method="hxp", progress=context.progress, **PLAIN)
    sums = (np.array([getattr(one, part).sum(dtype=np.float64) for one in found]) for part in ("vector", "values"))
    return ConservationPanel("HxP, biases set to zero", *sums)


def _r2_table(found: Conservation) -> Table:
    rows = [(one.name, r2_interval(one)) for one in found.panels]
    return Table.of(
        ["panel", Column("r2", "R² to the identity", ".3f")],
        rows,
        f"Conservation, {len(found.panels[0].relevance)} texts",
    )


def r2_interval(panel: ConservationPanel) -> Interval:
    """R² of a panel to the identity line, resampled over texts."""

    def r2(weights: Array) -> float:
        mean = np.average(panel.components, weights=weights)
        missed = weights @ (panel.components - panel.relevance) ** 2
        return float(1 - missed / (weights @ (panel.components - mean) ** 2))

    return resampled(r2, len(panel.components))


# The outlook of the study: attention scores as interactions


def attention_scores(context: Context) -> Finding:
    """Query-key scores as sums over pairs of input tokens, layer by layer."""
    texts = [row.text for row in Dataset("sample/sentences").texts()]
    chosen = spaced(texts, context.size(tiny=2, quick=8, standard=40))
    heads = int(context.size(tiny=1, quick=2, standard=6) or 1)
    layers = context.encoder.model_view.layers
    found = {layer: _scores(context.encoder, chosen, layer, heads) for layer in range(1, layers + 1)}
    own = {layer: np.array([own_part(one) for one in some]) for layer, some in found.items()}
    gaps = np.array([_relative_gap(one) for some in found.values() for one in some])
    control = bootstrap_means([[own_part(one) for one in _scores(untrained(context.encoder), chosen, layers, heads)]])[
        0
    ]
    verdicts = (
        below(
            "An attention score is a sum of interactions of input tokens, as a similarity is.",
            "what is left unexplained, relative to all terms", bootstrap_means([gaps])[0], 1e-4,
        ),
        below(
            "In the last layer, attention scores rest mostly on tokens other than the two that they connect.",
            "the part of the two tokens' own interaction in the absolute relevance", bootstrap_means([own[layers]])[0],
            0.5, control=Control("the same model with random weights", control, control.high < 0.5),
        ),
    )  # fmt: skip
    rows = [(layer, bootstrap_means([each])[0]) for layer, each in own.items()]
    table = Table.of(
        ["layer", Column("own", "the two tokens' own part", ".3f")],
        rows,
        f"Attention scores, {len(found[1])} of each layer",
    )
    ledger = found[layers][0].figures()["ledger"]
    figures = {"own-part": Figure(partial(_drawn_parts, own), "The two tokens' own part by layer"), "ledger": ledger}
    note = "The texts are built-in English sentences. The study has no numbers for this."
    return Finding({"own-part": table}, figures, verdicts, (note,))


def _scores(encoder: Encoder, texts: Sequence[str], layer: int, heads: int) -> list[AttentionScore]:
    """Explained scores of a layer: each text with some heads, and two of its tokens chosen at random."""
    rng, found = np.random.default_rng(layer), []
    count = encoder.model_view.blocks[layer - 1].attention.heads
    for text, tokens in zip(texts, encoder.tokenize(list(texts)), strict=True):
        for head in rng.permutation(count)[:heads]:
            i, j = rng.choice(np.arange(1, len(tokens.ids) - 1), 2, replace=False)
            found.append(explain_attention(encoder, text, layer, int(head) + 1, int(i), int(j)))
    return found


def own_part(one: AttentionScore) -> float:
    """What the two tokens of a score make of it between themselves, as a part of the absolute relevance."""
    query, key = (
        next(index for index, unit in enumerate(one.text.units) if token in unit.tokens)
        for token in (one.query, one.key)
    )
    return float(abs(one.relevance[query, key]) / np.abs(one.relevance).sum())


def _relative_gap(one: AttentionScore) -> float:
    return abs(one.gap) / max(1.0, float(np.abs(one.relevance).sum()))


def _drawn_parts(own: Mapping[int, Array]) -> Any:
    means = bootstrap_means(np.stack(list(own.values())))
    ends = ([one.value for one in means], [one.low for one in means], [one.high for one in means])
    return curves(list(own), {"": ends}, ("layer", "part of the absolute relevance"), whole=True)
