"""The explain room: (encoder, left, right) -> Explanation; attributions; faithfulness; corpus patterns."""

from likewise.explain.attention_score import AttentionScore, explain_attention
from likewise.explain.attribution import Attribution, attribute
from likewise.explain.contributions import Contributions
from likewise.explain.differences import Comparison, Contrast, compare, contrast
from likewise.explain.directions import Direction
from likewise.explain.explanation import Explanation, PairShares
from likewise.explain.pairs import explain, explain_many
from likewise.explain.texts import contributions

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
