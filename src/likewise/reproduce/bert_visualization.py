"""The study of the geometry of BERT's layers on SNLI (measures of Ethayarajh 2019), item by item."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from likewise.geometry.geometry import MEV_TITLES, ConfidenceBand, Geometry, corrected_figure, words_figure
from likewise.geometry.measures import explained_variances, random_explained_variances
from likewise.geometry.occurrences import averaged_tokens, spans_of_words, tokens_of_spans, word_key
from likewise.metrics import Array, Interval
from likewise.reproduce.bert_visualization_layers import (
    CORPORA,
    NAMED,
    OF_BERT,
    RANDOM,
    SAME_NOTE,
    Claim,
    by_layer,
    control_of,
    corpus,
    difference,
    last_step,
    layer_figure,
    layers,
    published_band,
    rise,
    rise_before_last,
    spaced,
)
from likewise.reproduce.bert_visualization_training import biased_data, contrastive, frozen_layers
from likewise.reproduce.published import side_by_side
from likewise.reproduce.study import Context, Finding, Item, Study
from likewise.reproduce.verdicts import Control, Verdict, above, below
from likewise.results import Column, Figure, Table

LIMIT = 0.05  # the share of a word's variance below which the study calls a static vector a poor replacement
JACKKNIFE_BLOCKS = 10
POOL, CHANCE_DRAWS = 500, 100  # random words of different texts, and draws of as many as a word has contexts
MEV_COLUMNS = {"formula": "formula", "pca": "centred PCA", "svd": "TruncatedSVD"}


def about(found: Geometry) -> tuple[str, ...]:
    """The notes of all items: the texts and words, and how effects are computed."""
    return (*found.notes, SAME_NOTE)


def layer_table(context: Context, item: str, columns: dict[str, ConfidenceBand], title: str) -> Table:
    """Published and measured values by layer."""
    return side_by_side(context.published.of(item).values(), by_layer(columns), context.short, title)


# Baseline


def without_largest(found: Geometry) -> ConfidenceBand:
    """The baseline without the three dimensions of each layer that have most of it."""
    rest = 1.0 - np.sort(found.shares)[:, -3:].sum(1)
    band = found.raw.baseline
    return ConfidenceBand(band.values * rest, band.low * rest, band.high * rest)


def baseline(context: Context) -> Finding:
    """The expected cosine of two random words by layer, and without its largest dimensions."""
    found, random = layers(context), layers(context, "random")
    published = published_band(context.published.of("baseline").values(), "baseline")
    grows = Claim("The baseline grows with the layers.", "rise of a line through all layers", rise)
    rest = Claim(
        "The baseline grows without its three largest dimensions too.", "rise without these dimensions' shares", rise
    )
    inner = Claim("The baseline grows up to the layer before the last.", "rise before the last layer", rise_before_last)
    verdicts = (
        grows.verdict(found.raw.baseline, random.raw.baseline, published),
        inner.verdict(found.raw.baseline, random.raw.baseline, published),
        rest.verdict(without_largest(found), without_largest(random), None),
    )
    columns = {"baseline": found.raw.baseline, RANDOM: random.raw.baseline}
    columns |= {"without 3 dimensions": without_largest(found), "IsoScore": found.isoscore}
    lines = {context.short: found.raw.baseline, RANDOM: random.raw.baseline, OF_BERT: published}
    rests = {context.short: without_largest(found), RANDOM: without_largest(random)}
    panels = {"all dimensions": lines, "without the three largest dimensions": rests}
    figure = layer_figure("Baseline: the expected cosine of two random words", panels, "cosine")
    table = layer_table(context, "baseline", columns, "Baseline by layer")
    return Finding({"layers": table}, {"layers": figure}, verdicts, about(found))


# Self-similarity and intra-sentence similarity


def self_similarity(context: Context) -> Finding:
    """The mean cosine of a word in two of its contexts, raw and minus the baseline, and where contexts repeat."""
    found, random, copies = layers(context), layers(context, "random"), layers(context, "repeated")
    values = list(context.published.of("self-similarity").values())
    raw, adjusted = (published_band(values, column) for column in ("self-similarity", "adjusted"))
    falls = Claim("Self-similarity falls up to the layer before the last.", "rise before the last layer",
                  rise_before_last, is_above=False)  # fmt: skip
    less = Claim("Self-similarity minus the baseline falls up to the layer before the last.",
                 "rise before the last layer", rise_before_last, is_above=False)  # fmt: skip
    clean = Claim("It falls where the mean and the scale of each dimension are removed, too.",
                  "rise before the last layer, standardised", rise_before_last, is_above=False)  # fmt: skip
    standard = found.corrected["standardisation"].self_similarity
    verdicts = (
        falls.verdict(found.raw.self_similarity, random.raw.self_similarity, raw),
        less.verdict(found.raw.self_similarity_adjusted, random.raw.self_similarity_adjusted, adjusted),
        clean.verdict(standard, None, None),
    )
    columns = {
        "self-similarity": found.raw.self_similarity, "adjusted": found.raw.self_similarity_adjusted,
        "standardised": standard, RANDOM: random.raw.self_similarity, "repeats counted": copies.raw.self_similarity,
    }  # fmt: skip
    panels = {
        "raw": {context.short: found.raw.self_similarity, RANDOM: random.raw.self_similarity, OF_BERT: raw,
                "repeats counted": copies.raw.self_similarity},
        "minus the baseline": {context.short: found.raw.self_similarity_adjusted,
                               RANDOM: random.raw.self_similarity_adjusted, OF_BERT: adjusted},
    }  # fmt: skip
    figure = layer_figure("Self-similarity: a word in two of its contexts", panels, "cosine")
    table = layer_table(context, "self-similarity", columns, "Self-similarity by layer")
    return Finding({"layers": table}, {"layers": figure}, verdicts, (*about(found), _repeats(found, copies)))


def _repeats(found: Geometry, copies: Geometry) -> str:
    """How much repeated contexts raise self-similarity."""
    more = copies.raw.self_similarity.values - found.raw.self_similarity.values
    return (
        f"The files have {copies.metadata['texts']} texts, {found.metadata['texts']} of them different. Only different"
        f" ones count; with repeated ones self-similarity would be higher by {more.min():.3f} to {more.max():.3f}."
    )


def intra_sentence(context: Context) -> Finding:
    """The mean cosine of a word and its sentence's mean, raw and minus the baseline."""
    found, random = layers(context), layers(context, "random")
    published = published_band(context.published.of("intra-sentence").values(), "adjusted")
    own, chance = found.raw.intra_similarity_adjusted, random.raw.intra_similarity_adjusted
    falls = Claim("Intra-sentence similarity minus the baseline falls up to the layer before the last.",
                  "rise before the last layer", rise_before_last, is_above=False)  # fmt: skip
    related = Claim("Words of a sentence are more similar than random words, in every layer.",
                    "intra-sentence similarity minus the baseline, lowest layer", lowest)  # fmt: skip
    verdicts = (falls.verdict(own, chance, published), related.verdict(own, chance, published))
    columns = {"intra-sentence": found.raw.intra_similarity, "adjusted": own, RANDOM: random.raw.intra_similarity}
    columns |= {f"{RANDOM}, adjusted": chance}
    raw = {context.short: found.raw.intra_similarity, RANDOM: random.raw.intra_similarity}
    panels = {"raw": raw, "minus the baseline": {context.short: own, RANDOM: chance, OF_BERT: published}}
    figure = layer_figure("Intra-sentence similarity: a word and its sentence's mean", panels, "cosine")
    table = layer_table(context, "intra-sentence", columns, "Intra-sentence similarity by layer")
    return Finding({"layers": table}, {"layers": figure}, verdicts, about(found))


def lowest(band: ConfidenceBand) -> Interval:
    """The lowest layer's value."""
    return band.intervals[int(np.nanargmin(band.values))]


# Maximum explainable variance


def mev(context: Context) -> Finding:
    """The share of the first component of a word's vectors, in three variants, raw and minus that of random words."""
    found = layers(context)
    bands = found.variances.bands
    published = published_band(context.published.of("mev").values(), "TruncatedSVD")
    verdicts = [_static(found, variant) for variant in MEV_COLUMNS]
    columns: dict[str, ConfidenceBand] = {}
    for variant in ("svd", "formula", "pca"):
        columns[MEV_COLUMNS[variant]] = bands["mev"][variant]
        columns[f"{MEV_COLUMNS[variant]}, adjusted"] = bands["mev_adjusted"][variant]
    panels = {}
    for variant, title in MEV_TITLES.items():
        panels[title] = {context.short: bands["mev"][variant], "random words": bands["mev_baseline"][variant]}
    shifted = ConfidenceBand.without_interval([np.nan, *published.values])  # no value for the embeddings
    panels[MEV_TITLES["svd"]][OF_BERT] = shifted
    table = layer_table(context, "mev", columns, "Maximum explainable variance by layer")
    tables, figures = {"layers": table}, {"layers": layer_figure("Maximum explainable variance", panels, "share")}
    notes = about(found)
    if NAMED[context.language]:
        tables["words"], figures["words"] = _named_words(context, found)
        verdicts += _word_verdicts(context)
    else:
        notes += ("The named words (beverage, go, school) are English and are not measured here.",)
    return Finding(tables, figures, tuple(verdicts), notes)


def _static(found: Geometry, variant: str) -> Verdict:
    """Whether a static vector explains less than the limit in every layer after the embeddings, by one variant."""
    bands = found.variances.bands
    own, chance = (bands[name][variant].intervals[1:] for name in ("mev", "mev_baseline"))
    layer = int(np.nanargmax([one.value for one in own]))
    control = Control("random words in place of one word", chance[layer], chance[layer].high < LIMIT)
    return below(
        f"One static vector explains less than 5 % of a word's variance ({MEV_COLUMNS[variant]}).",
        f"MEV in layer {layer + 1}, the largest after the embeddings; BERT's own by TruncatedSVD: at most 0.040",
        own[layer], LIMIT, control=control,
    )  # fmt: skip


def _named_words(context: Context, found: Geometry) -> tuple[Table, Figure]:
    rows = []
    for index in range(found.words.chosen):
        for number, name in enumerate(MEV_COLUMNS.values()):
            values = found.words.variance[number, :, index], found.words.variance_adjusted[number, :, index]
            for kind, line in zip(("raw", "adjusted"), values, strict=True):
                rows.append((found.words.words[index], int(found.words.contexts[index]), name, kind, *line.tolist()))
    header: list[str | Column] = ["word", "contexts", "variant", Column("kind", " ")]
    header += [Column(f"layer_{layer}", f"layer {layer}", ".3f") for layer in range(found.layers)]
    figure = Figure(lambda: words_figure({context.short: found}), "Named words", "In brackets: the number of contexts.")
    return Table.of(header, rows, "MEV of named words"), figure


def _word_verdicts(context: Context) -> list[Verdict]:
    """Whether "beverage" varies less than the other named words, raw and minus random words."""
    first, *others = NAMED[context.language]
    texts = list(corpus(context))
    vectors = {word: vectors_at(context, first_occurrences(texts, word)) for word in (first, *others)}
    pool = vectors_at(context, random_occurrences(spaced(texts, POOL)))
    shares = {word: mean_share(each) for word, each in vectors.items()}
    chances = {word: chance_share(pool, each.shape[1]) for word, each in vectors.items()}
    verdicts = []
    for other in others:
        apart, by_chance = (difference(found[first], found[other]) for found in (shares, chances))
        control = control_of("random words in the same numbers", by_chance, apart)
        verdicts.append(
            above(f'"{first}" varies less with its context than "{other}": its MEV is higher.',
                  "MEV by the formula, mean of the layers after the embeddings, minus that of the other word",
                  apart, control=control)
        )  # fmt: skip
        verdicts.append(
            above(f'Beyond random words, the MEV of "{first}" is higher than that of "{other}", too.',
                  "the same, each minus the MEV of as many random words", difference(apart, by_chance))
        )  # fmt: skip
    return verdicts


Occurrence = tuple[str, int]  # a text, and which of its words


def first_occurrences(texts: Sequence[str], word: str) -> list[Occurrence]:
    """The first occurrence of a word in each text that has it."""
    found = []
    for text in texts:
        words = [word_key(text[slice(*span)], folds_case=True) for span in spans_of_words(text)]
        found += [(text, words.index(word))] if word in words else []
    return found


def random_occurrences(texts: Sequence[str]) -> list[Occurrence]:
    """A random word of each text."""
    rng = np.random.default_rng(0)
    counts = [len(spans_of_words(text)) for text in texts]
    return [(text, int(rng.integers(count))) for text, count in zip(texts, counts, strict=True) if count]


def vectors_at(context: Context, occurrences: Sequence[Occurrence]) -> Array:
    """The vectors of words that the model does not cut off: (L + 1, n, D)."""
    found = []
    for batch in context.encoder.state_batches([text for text, _ in occurrences]):
        groups = []
        for row, (index, tokens) in enumerate(zip(batch.indices, batch.tokens, strict=True)):
            text, word = occurrences[index]
            groups.append((row, tokens_of_spans(tokens, spans_of_words(text))[word]))
        found.append(averaged_tokens(batch.hidden, [group for group in groups if group[1]]))
    return torch.cat(found, dim=1).double().numpy()


def chance_share(pool: Array, count: int) -> Interval:
    """The mean MEV by the formula of draws of ``count`` random words of a pool (L + 1, n, D), with its interval."""
    count = min(count, pool.shape[1])
    draws = [random_explained_variances(pool[1:], count, seed)[0].mean() for seed in range(CHANCE_DRAWS)]
    mean, reach = float(np.mean(draws)), 1.96 * float(np.std(draws, ddof=1)) / CHANCE_DRAWS**0.5
    return Interval(mean, mean - reach, mean + reach)


def mean_share(vectors: Array) -> Interval:
    """MEV by the formula, mean of the layers after the embeddings (L + 1, n, D), with a jackknife over contexts."""

    def measure(rows: Sequence[int]) -> float:
        return float(explained_variances(vectors[1:, rows])[0].mean())

    every = list(range(vectors.shape[1]))
    blocks = np.array_split(every, min(JACKKNIFE_BLOCKS, len(every)))
    without = [measure([row for row in every if row not in block]) for block in blocks]
    return ConfidenceBand.of_jackknife(np.array([measure(every)]), np.array([without])).intervals[0]


# The last layer


def last_layer(context: Context) -> Finding:
    """How the similarities of the last layer differ from those of the layer before it."""
    found, random = layers(context), layers(context, "random")
    claims = {
        "baseline": ("The baseline falls at the last layer.", False, "baseline", "baseline"),
        "self_similarity": ("Self-similarity falls at the last layer.", False, "self-similarity", "self-similarity"),
        "self_similarity_adjusted": (
            "Self-similarity minus the baseline rises at the last layer.", True, "self-similarity", "adjusted",
        ),
        "intra_similarity_adjusted": (
            "Intra-sentence similarity minus the baseline rises at the last layer.", True, "intra-sentence", "adjusted",
        ),
    }  # fmt: skip
    verdicts: list[Verdict] = []
    cells: dict[tuple[str, str], object] = {}
    for name, (text, is_above, item, column) in claims.items():
        band, control = getattr(found.raw, name), getattr(random.raw, name)
        published = published_band(context.published.of(item).values(), column)
        claim = Claim(text, "last layer minus the one before", last_step, is_above)
        verdicts.append(claim.verdict(band, control, published))
        row = item + (", adjusted" if name.endswith("adjusted") else "")
        cells |= {(row, "layer before the last"): band.intervals[-2], (row, "last layer"): band.intervals[-1]}
    clean = Claim("Self-similarity rises at the last layer where mean and scale of each dimension are removed, too.",
                  "last layer minus the one before, standardised", last_step)  # fmt: skip
    verdicts.append(clean.verdict(found.corrected["standardisation"].self_similarity, None, None))
    for kind, space in found.corrected.items():
        band = space.self_similarity
        cells |= {(f"self-similarity, {kind}", "layer before the last"): band.intervals[-2]}
        cells |= {(f"self-similarity, {kind}", "last layer"): band.intervals[-1]}
    table = side_by_side(context.published.of("layer-12").values(), cells, context.short, "The last layer")
    figure = Figure(lambda: corrected_figure({context.short: found}), "After corrections of each layer",
                    "Each correction is fitted on all words of a layer.")  # fmt: skip
    return Finding({"last": table}, {"corrected": figure}, tuple(verdicts), about(found))


CHINESE = {"zh": CORPORA["zh"]}
CHINESE_PARTS = {"zh": ("mstsb/zh_train", "mstsb/zh_test")}
STUDY = Study(
    "bert-visualization",
    "The geometry of BERT's layers",
    (
        Item("baseline", "Anisotropy, the cosine of random words, grows with the layers.", baseline, CORPORA["en"],
             cost={"tiny": 0.02, "quick": 0.07, "standard": 1.2}, other_data=CHINESE),
        Item("self-similarity", "A word's vectors in its contexts differ more with every layer.", self_similarity,
             CORPORA["en"], cost={"tiny": 0.01, "quick": 0.045, "standard": 0.6}, other_data=CHINESE),
        Item("intra-sentence", "The words of a sentence become less similar with the layers, above random words.",
             intra_sentence, CORPORA["en"], cost={"tiny": 0.001, "quick": 0.001, "standard": 0.001},
             other_data=CHINESE),
        Item("mev", "A static vector explains less than 5 % of a word's variance; some words vary less.",
             mev, CORPORA["en"], cost={"tiny": 0.005, "quick": 0.015, "standard": 0.1}, other_data=CHINESE),
        Item("layer-12", "At the last layer self-similarity falls, but rises after adjustment by the baseline.",
             last_layer, CORPORA["en"], cost={"tiny": 0.001, "quick": 0.001, "standard": 0.001}, other_data=CHINESE),
        Item("biased-data", "Future work: biased training data change the geometry of the last layer.", biased_data,
             ("stsb/train", "stsb/test"), original="future work", cost={"tiny": 0.065, "quick": 0.32, "standard": 1.6},
             other_data=CHINESE_PARTS),
        Item("frozen-layers", "Future work: training for similarity needs the upper layers.", frozen_layers,
             ("stsb/train", "stsb/test"), original="future work", cost={"tiny": 0.07, "quick": 0.53, "standard": 3.2},
             other_data=CHINESE_PARTS),
        Item("contrastive", "Future work: contrastive training lowers the baseline.", contrastive,
             ("stsb/test", *CORPORA["en"]), original="future work", cost={"tiny": 0.07, "quick": 0.53, "standard": 6.5},
             other_data=CHINESE_PARTS),
    ),
)  # fmt: skip
