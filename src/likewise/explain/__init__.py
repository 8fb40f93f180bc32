"""Explanations: (encoder, left, right) -> Explanation. Each module uses only those above it:

settings      the options of an explanation
linear_map    a text's encoder as a linear map: rows J x_i, columns J^T u; the methods; references
texts         texts -> units (tokens, words, sentences or spans), and their contributions or shares, in batches
explanation   the results of a pair, and of two pairs with one query
pairs         two texts' contributions -> the ledger that sums to their similarity; one pair or thousands
cross_encoder a pair as one sequence -> the shares that sum to its logit
word_scores, alignment, text_differences: which words correspond, and where two texts differ
comparisons, attribution, attention_score, cache, files: built on these
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from likewise.explain.alignment import Alignment, align
    from likewise.explain.attention_score import AttentionScore, explain_attention
    from likewise.explain.attribution import Attribution, Direction, attribute
    from likewise.explain.comparisons import Comparison, compare, contrast
    from likewise.explain.cross_encoder import CrossExplanation, explain_cross_encoder
    from likewise.explain.explanation import Contrast, Explanation, PairShares
    from likewise.explain.pairs import explain, explain_many
    from likewise.explain.text_differences import Differences, differences, differences_of
    from likewise.explain.texts import Contributions, contributions

__all__ = [
    "Alignment",
    "AttentionScore",
    "Attribution",
    "Comparison",
    "Contrast",
    "Contributions",
    "CrossExplanation",
    "Differences",
    "Direction",
    "Explanation",
    "PairShares",
    "align",
    "attribute",
    "compare",
    "contrast",
    "contributions",
    "differences",
    "differences_of",
    "explain",
    "explain_attention",
    "explain_cross_encoder",
    "explain_many",
]


def __getattr__(name: str) -> Any:
    # Loaded on first use: the command line reads the options of an explanation without torch.
    if name not in __all__:
        raise AttributeError(f"module 'likewise.explain' has no attribute {name!r}")
    from likewise.explain import (
        alignment,
        attention_score,
        attribution,
        comparisons,
        cross_encoder,
        explanation,
        pairs,
        text_differences,
        texts,
    )

    modules = (alignment, attention_score, attribution, comparisons, cross_encoder, explanation, pairs,
               text_differences, texts)  # fmt: skip
    return next(vars(module)[name] for module in modules if name in vars(module))
