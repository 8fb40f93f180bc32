"""The study "Explaining text similarity in transformer models" (Vasileiou and Eberle 2024), item by item."""

from __future__ import annotations

from functools import partial

from likewise.data import ScoredPair
from likewise.evaluation.sts import StsResult, evaluate_sts, mixed_scored_pairs
from likewise.reproduce.controls import same_effect, spearman_difference, untrained
from likewise.reproduce.explaining_similarity_faithfulness import (
    attention_scores,
    aupc_table,
    conservation_figure,
    perturbation_curves,
    rule_sets,
    spaced,
)
from likewise.reproduce.explaining_similarity_nouns import noun_interactions
from likewise.reproduce.explaining_similarity_relevance import parts_of_speech
from likewise.reproduce.explaining_similarity_texts import (
    biosses_levels,
    biosses_words,
    language_changes,
    language_triplets,
    other_rows,
)
from likewise.reproduce.published import side_by_side
from likewise.reproduce.study import Context, Finding, Item, Study
from likewise.reproduce.verdicts import Control, above

STS_FILES = {
    "en": {"STSb": "stsb/test", "SICK": "sick/test", "BIOSSES": "biosses/all"},
    "zh": {"STSb": "mstsb/zh_test"},
}


def sts_table(context: Context) -> Finding:
    """Table 1: agreement with people by pooling, on three data sets."""
    limit = context.size(tiny=40, quick=500, standard=None)
    found: dict[tuple[str, str], StsResult] = {}
    for column, file in STS_FILES[context.language].items():
        pairs = spaced(context.dataset(file).scored_pairs(), limit)
        for pooling in ("cls", "mean"):
            encoder = context.encoder.with_pooling(pooling=pooling)
            found[f"{context.short}, {pooling}", column] = evaluate_sts(encoder, pairs, file, context.progress)
    cls, mean = (found[f"{context.short}, {pooling}", "STSb"] for pooling in ("cls", "mean"))
    pairs = spaced(context.dataset(STS_FILES[context.language]["STSb"]).scored_pairs(), limit)
    random = [evaluate_sts(untrained(context.encoder).with_pooling(pooling=one), pairs) for one in ("cls", "mean")]
    effect = spearman_difference(cls.truth, mean.predicted, cls.predicted)
    control = spearman_difference(cls.truth, random[1].predicted, random[0].predicted)
    verdict = above(
        "Mean pooling follows human scores better than CLS pooling.",
        "Spearman of mean pooling minus that of CLS, STSb",
        effect,
        control=Control("the same model with random weights", control, same_effect(effect, control)),
    )
    measured = {cell: one.agreement["spearman"] for cell, one in found.items()}
    table = side_by_side(context.published.of("table-1").values(), measured, context.short, "Spearman")
    return Finding({"spearman": table}, {}, (verdict,))


LANGUAGES = {"en": ("de", "ru", "zh"), "zh": ("en",)}  # with which a model's own language is mixed


def language_table(context: Context) -> Finding:
    """Agreement with people within a language and in mixed pairs."""
    own = context.language
    limit = context.size(tiny=40, quick=300, standard=None)
    others = LANGUAGES[own][: 1 if context.budget in ("tiny", "quick") else None]
    first = context.dataset(f"mstsb/{own}_test")
    sets = {own: first.scored_pairs()} | {one: context.dataset(f"mstsb/{one}_test").scored_pairs() for one in others}
    sets |= {f"{own} with {one}": mixed_scored_pairs(first, f"mstsb/{one}_test")[1] for one in others}
    pairs = {name: spaced(rows, limit) for name, rows in sets.items()}
    found = {name: _sts(context, some) for name, some in pairs.items()}
    mixed = f"{own} with {others[0]}"
    shuffled = {name: _sts(context, other_rows(pairs[name])) for name in (own, mixed)}
    truth, chance = found[own].truth, shuffled[mixed].agreement["spearman"]
    effect = spearman_difference(truth, found[own].predicted, found[mixed].predicted)
    control = spearman_difference(truth, shuffled[own].predicted, shuffled[mixed].predicted)
    agreement = found[mixed].agreement["spearman"]
    verdicts = (
        above(
            "Pairs in one language follow human scores better than mixed pairs.",
            f"Spearman of {own} minus that of {mixed}",
            effect, control=Control("rows in another order", control, same_effect(effect, control)),
        ),
        above(
            "Mixed pairs still follow human scores.", f"Spearman, {mixed}", agreement,
            control=Control("rows in another order", chance, same_effect(agreement, chance)),
        ),
    )  # fmt: skip
    measured = {(name, "Spearman"): one.agreement["spearman"] for name, one in found.items()}
    published = context.published.of("languages").values()
    table = side_by_side(published, measured, context.short, "Agreement with people by language")
    return Finding({"languages": table}, {}, verdicts)


def _sts(context: Context, pairs: tuple[ScoredPair, ...]) -> StsResult:
    return evaluate_sts(context.encoder.with_pooling(pooling="mean"), pairs, progress=context.progress)


PERTURBED_FILES = ("stsb/test", "biosses/all")
CHINESE = {"zh": ("mstsb/zh_test",)}
STUDY = Study(
    "explaining-similarity",
    "Explaining text similarity in transformer models",
    (
        Item(
            "table-1", "Plain BERT with CLS pooling follows human scores far less than with mean pooling.", sts_table,
            tuple(STS_FILES["en"].values()), original="table 1", cost={"tiny": 0.012, "quick": 0.13, "standard": 0.25},
            other_data=CHINESE,
        ),
        Item(
            "aupc", "BiLRP is more faithful than embeddings, Hessian x product and a random order.", aupc_table,
            PERTURBED_FILES, original="the table of AUPC",
            cost={"tiny": 0.034, "quick": 0.27, "standard": 3.6, "full": 8.6},
            other_data=CHINESE,
        ),
        Item(
            "curves", "With BiLRP's order of tokens, the distance to the full text falls fastest.",
            perturbation_curves, PERTURBED_FILES, original="the figure of perturbation curves",
            cost={"tiny": 0.0001, "quick": 0.0001, "standard": 0.0001},
            other_data=CHINESE,
        ),
        Item(
            "rules", "The BERT family is explained with the rules for attention, norm and activation, SGPT with the"
            " first two.", rule_sets, ("stsb/test",), original="the rule sets of the models",
            cost={"tiny": 0.005, "quick": 0.042, "standard": 0.9, "full": 4.1},
            other_data=CHINESE,
        ),
        Item(
            "conservation", "BiLRP conserves relevance up to the biases; Hessian x product does not.",
            conservation_figure, ("stsb/test",), original="the figure of conservation",
            cost={"tiny": 0.011, "quick": 0.038, "standard": 0.33, "full": 2.8},
            other_data=CHINESE,
        ),
        Item(
            "nouns", "BiLRP is closest to the true interactions of a model that counts shared nouns.",
            noun_interactions, ("stsb/train", "stsb/dev", "stsb/test"), ("en",),
            original="ground-truth interactions, panels for 1, 2 and 5 nouns",
            cost={"tiny": 0.03, "quick": 0.17, "standard": 3.5, "full": 12},
        ),
        Item(
            "pos-summed", "SBERT, and BERT with CLS, rest on NOUN-NOUN, NOUN-VERB and NOUN-[SEP]; BERT with mean"
            " pooling on [SEP]-[SEP].", partial(parts_of_speech, "summed"), ("stsb/test",), ("en",),
            original="parts of speech, summed",
            cost={"tiny": 0.013, "quick": 0.04, "standard": 0.45, "full": 1.5},
            other_data=CHINESE,
        ),
        Item(
            "pos-averaged", "The same, averaged over token pairs.", partial(parts_of_speech, "averaged"),
            ("stsb/test",), ("en",), original="parts of speech, averaged",
            cost={"tiny": 0.0025, "quick": 0.002, "standard": 0.04},
            other_data=CHINESE,
        ),
        Item(
            "languages", "Pairs in one language follow human scores far better than mixed pairs.", language_table,
            ("mstsb/en_test", "mstsb/de_test", "mstsb/ru_test", "mstsb/zh_test"), original="the multilingual table",
            cost={"tiny": 0.01, "quick": 0.028, "standard": 0.48},
            other_data={"zh": ("mstsb/zh_test", "mstsb/en_test")},
        ),
        Item(
            "language-changes", "Mixed pairs rest on other class pairs than pairs in one language, in positive and in"
            " negative relevance.", language_changes, ("mstsb/en_test", "mstsb/de_test"), ("en", "de"),
            original="positive and negative differences, mixed minus one language",
            cost={"tiny": 0.016, "quick": 0.028, "standard": 0.49, "full": 2.2},
        ),
        Item(
            "language-triplets", "A noun and its translation interact less than a noun with itself.",
            language_triplets, original="heat maps of a pair in two languages and mixed",
            cost={"tiny": 0.003, "quick": 0.002, "standard": 0.004},
        ),
        Item(
            "biosses-levels", "Errors depend on how similar two texts are.", biosses_levels, ("biosses/all",),
            original="BIOSSES, errors by level",
            cost={"tiny": 0.005, "quick": 0.006, "standard": 0.017},
        ),
        Item(
            "biosses-words", "High similarities rest on the same rare terms in both texts.", biosses_words,
            ("biosses/all",), original="BIOSSES, strongest interactions by quartile",
            cost={"tiny": 0.014, "quick": 0.031, "standard": 0.2},
        ),
        Item(
            "attention-scores", "Attention scores can be explained as interactions too.", attention_scores,
            original="outlook",
            cost={"tiny": 0.003, "quick": 0.007, "standard": 0.29},
        ),
    ),
)  # fmt: skip
