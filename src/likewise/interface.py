"""The public models: ``likewise.Encoder`` and ``likewise.CrossEncoder`` score pairs of texts and explain the scores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from likewise.encoder import CrossEncoder as PlainCrossEncoder
from likewise.encoder import Encoder as PlainEncoder
from likewise.encoder import pair_scores
from likewise.encoder.cross_encoder import Numbers, Pair
from likewise.explain import Alignment, Attribution, CrossExplanation, Differences, Explanation, PairShares
from likewise.explain import align as align_texts
from likewise.explain import attribute as attribute_texts
from likewise.explain import differences as text_differences
from likewise.explain import explain as explain_pair
from likewise.explain import explain_cross_encoder as explain_logit
from likewise.results import Result

if TYPE_CHECKING:
    from likewise.search import Hits


@runtime_checkable
class Scorer(Protocol):
    """A model that scores pairs of texts and explains a score: an ``Encoder`` or a ``CrossEncoder``.

    >>> isinstance(Encoder.load("minilm", device="cpu"), Scorer)
    True
    """

    name: str

    def score(self, pairs: Iterable[Pair], **options: Any) -> Numbers:
        """The score of each of n pairs, (n,)."""

    def explain(self, left: str, right: str, **options: Any) -> Result:
        """Why the model gives a pair its score."""


class Encoder(PlainEncoder):
    """A text encoder that can explain its similarities.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> encoder.explain("A cat sat.", "A cat slept.", granularity="word").strongest(1)[0][0].text
    'cat'
    """

    def score(self, pairs: Iterable[Pair], **options: Any) -> Numbers:
        """The cosine of the two texts of each of n pairs, (n,)."""
        return pair_scores(self, pairs, **options)

    def explain(self, left: str, right: str, **options: Any) -> Explanation | PairShares:
        """Why this encoder calls two texts similar; see :func:`likewise.explain.explain`."""
        found: Explanation | PairShares = explain_pair(self, left, right, **options)
        return found

    def attribute(self, texts: str | list[str], directions: Any, **options: Any) -> Attribution:
        """What each word adds along a direction; see :func:`likewise.explain.attribute`."""
        return attribute_texts(self, texts, directions, **options)

    def align(self, left: str, right: str, **options: Any) -> Alignment:
        """Which words of two texts correspond; see :func:`likewise.explain.align`."""
        return align_texts(self, left, right, **options)

    def differences(self, left: str, right: str, **options: Any) -> Differences:
        """Where two texts differ; see :func:`likewise.explain.differences`."""
        return text_differences(self, left, right, **options)

    def explain_hits(self, query: str, hits: Any, **options: Any) -> Hits:
        """Why the hits that any system returned have their scores; see :func:`likewise.search.explain_hits`."""
        from likewise.search import explain_hits

        return explain_hits(self, query, hits, **options)


class CrossEncoder(PlainCrossEncoder):
    """A reranker that can explain its scores.

    >>> reranker = CrossEncoder.load("models/reranker")  # doctest: +SKIP
    >>> reranker.explain("A cat sat.", "A cat slept.", granularity="word").strongest(1)[0][1].text  # doctest: +SKIP
    'cat'
    """

    def explain(self, left: str, right: str, **options: Any) -> CrossExplanation:
        """Why this model gives a pair its logit; see :func:`likewise.explain.explain_cross_encoder`."""
        return explain_logit(self, left, right, **options)
