"""Explanations: (encoder, left, right) -> Explanation. Each module uses only those above it:

settings      the options of an explanation
units         tokens, words, sentences or spans: what an explanation speaks of
linear_map    a text's encoder as a linear map: rows J x_i, columns J^T u; references
methods       how the contributions of one text's units are computed
texts         texts -> contributions or shares, in batches
explanation   the results of a pair
ledger        two texts' contributions -> the ledger that sums to their similarity
pairs         explain one pair or thousands
differences, directions, attribution, attention_score, cache, files: what else is made of these
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from likewise.explain.attention_score import AttentionScore, explain_attention
    from likewise.explain.attribution import Attribution, attribute
    from likewise.explain.differences import Comparison, Contrast, compare, contrast
    from likewise.explain.directions import Direction
    from likewise.explain.explanation import Explanation, PairShares
    from likewise.explain.pairs import explain, explain_many
    from likewise.explain.texts import Contributions, contributions

__all__ = [
    "AttentionScore",
    "Attribution",
    "Comparison",
    "Contrast",
    "Contributions",
    "Direction",
    "Explanation",
    "PairShares",
    "attribute",
    "compare",
    "contrast",
    "contributions",
    "explain",
    "explain_attention",
    "explain_many",
]


def __getattr__(name: str) -> Any:
    # Loaded on first use: the command line reads the options of an explanation without torch.
    if name not in __all__:
        raise AttributeError(f"module 'likewise.explain' has no attribute {name!r}")
    from likewise.explain import attention_score, attribution, differences, texts

    modules = (attention_score, attribution, differences, texts)  # between them they import all names
    return next(vars(module)[name] for module in modules if name in vars(module))
