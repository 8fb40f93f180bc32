"""The study "Explaining text similarity in transformer models" (Vasileiou and Eberle 2024), item by item."""

from __future__ import annotations

from likewise.evaluation.sts import StsResult, evaluate_sts
from likewise.reproduce.controls import spearman_difference, untrained
from likewise.reproduce.published import side_by_side
from likewise.reproduce.study import Context, Finding, Item, Study
from likewise.reproduce.verdicts import Control, above

STS_FILES = {
    "en": {"STSb": "stsb/test", "SICK": "sick/test", "BIOSSES": "biosses/all"},
    "zh": {"STSb": "mstsb/zh_test"},
}


def sts_table(context: Context) -> Finding:
    """Table 1: agreement with people by pooling, on three data sets."""
    limit = context.size(tiny=40, quick=1000, standard=None)
    found: dict[tuple[str, str], StsResult] = {}
    for column, file in STS_FILES[context.language].items():
        pairs = context.dataset(file, limit).scored_pairs()
        for pooling in ("cls", "mean"):
            encoder = context.encoder.with_pooling(pooling=pooling)
            found[f"{context.short}, {pooling}", column] = evaluate_sts(encoder, pairs, file, context.progress)
    cls, mean = (found[f"{context.short}, {pooling}", "STSb"] for pooling in ("cls", "mean"))
    pairs = context.dataset(STS_FILES[context.language]["STSb"], limit).scored_pairs()
    random = [evaluate_sts(untrained(context.encoder).with_pooling(pooling=one), pairs) for one in ("cls", "mean")]
    control = spearman_difference(cls.truth, random[1].predicted, random[0].predicted)
    verdict = above(
        "Mean pooling follows human scores better than CLS pooling.",
        "Spearman of mean pooling minus that of CLS, STSb",
        spearman_difference(cls.truth, mean.predicted, cls.predicted),
        control=Control("the same model with random weights", control, control.low > 0),
    )
    measured = {cell: one.agreement["spearman"] for cell, one in found.items()}
    table = side_by_side(context.published.of("table-1").values(), measured, "Spearman")
    return Finding({"spearman": table}, {}, (verdict,))


STUDY = Study(
    "explaining-similarity",
    "Explaining text similarity in transformer models",
    (
        Item(
            "table-1", "Plain BERT with CLS pooling follows human scores far less than with mean pooling.", sts_table,
            tuple(STS_FILES["en"].values()), original="table 1", cost={"tiny": 0.02, "quick": 0.4, "standard": 1.5},
        ),
    ),
)  # fmt: skip
