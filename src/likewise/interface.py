"""The public ``likewise.Encoder``, with ``explain`` and ``attribute``."""

from __future__ import annotations

from typing import Any

from likewise.encoder import Encoder as PlainEncoder
from likewise.explain import Attribution, Explanation, PairShares
from likewise.explain import attribute as attribute_texts
from likewise.explain import explain as explain_pair


class Encoder(PlainEncoder):
    """A text encoder that can explain its similarities.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> encoder.explain("A cat sat.", "A cat slept.", granularity="word").strongest(1)[0][0].text
    'cat'
    """

    def explain(self, left: str, right: str, **options: Any) -> Explanation | PairShares:
        """Why this encoder calls two texts similar; see :func:`likewise.explain.explain`."""
        found: Explanation | PairShares = explain_pair(self, left, right, **options)
        return found

    def attribute(self, texts: str | list[str], directions: Any, **options: Any) -> Attribution:
        """What each word adds along a direction; see :func:`likewise.explain.attribute`."""
        return attribute_texts(self, texts, directions, **options)
