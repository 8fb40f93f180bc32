"""The explain room: (encoder, left, right) -> Explanation; faithfulness; corpus patterns."""

from likewise.explain.contributions import Contributions
from likewise.explain.differences import Comparison, Contrast, compare, contrast
from likewise.explain.explanation import Explanation
from likewise.explain.pairs import explain, explain_many
from likewise.explain.texts import contributions

__all__ = [
    "Comparison",
    "Contrast",
    "Contributions",
    "Explanation",
    "compare",
    "contrast",
    "contributions",
    "explain",
    "explain_many",
]
