"""Attribution: what each unit of a text adds to the product of its vector with a direction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from likewise.encoder import Encoder
from likewise.encoder.tokens import report_truncation
from likewise.errors import UsageError
from likewise.explain.directions import Direction, as_directions
from likewise.explain.explanation import TOLERANCE, Array, ExplainedText, Metadata, require_complete
from likewise.explain.ledger import check_similarity, metadata_of
from likewise.explain.methods import has_columns
from likewise.explain.settings import Settings
from likewise.explain.texts import Shares, TextInput, check, share_stream
from likewise.explain.units import Granularity, Unit, check_granularity
from likewise.plotting.hits import DrawnHit, hits_fragment
from likewise.progress import Progress, Ticker
from likewise.results import Result, Table

if TYPE_CHECKING:
    from rich.text import Text


@dataclass(frozen=True, eq=False)
class AttributedText:
    """One text: its units' shares (K, n) in its scores (K,) by K directions, and the biases' (K,)."""

    text: ExplainedText
    shares: Array
    bias: Array
    scores: Array
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        worst = int(np.abs(self.gaps).argmax())
        require_complete(float(self.scores[worst]), float(self.gaps[worst]), self.tolerance)

    @property
    def gaps(self) -> Array:
        """What is left unexplained of each score, (K,)."""
        gaps: Array = self.scores - self.shares.sum(1) - self.bias
        return gaps

    def strongest(self, count: int = 10, direction: int = 0) -> list[tuple[Unit, float]]:
        """The units of largest absolute share in a direction, strongest first."""
        shares = self.shares[direction]
        order = np.argsort(-np.abs(shares), kind="stable")[:count]
        return [(self.text.units[index], float(shares[index])) for index in order]

    def to_dict(self) -> dict[str, Any]:
        """The text with its units, and scores, shares, biases and gaps by direction."""
        numbers = {"scores": self.scores, "shares": self.shares, "bias": self.bias, "gap": self.gaps}
        return self.text.to_dict() | {name: values.tolist() for name, values in numbers.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Attribution(Result):
    """Texts, and what their units add to the products with some directions: shares and bias sum to the score.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> found = attribute(encoder, ["The soup is hot."], "warm food")
    >>> [unit.text for unit, _ in found.texts[0].strongest(2)]
    ['hot', 'soup']
    """

    texts: tuple[AttributedText, ...]
    directions: tuple[str, ...]
    metadata: Metadata

    def to_dict(self) -> dict[str, Any]:
        """The directions' names, every text, and how it was made."""
        texts = [one.to_dict() for one in self.texts]
        return {"directions": list(self.directions), "texts": texts} | self.metadata.to_dict()

    def drawn(self, direction: int = 0) -> list[DrawnHit]:
        """The texts as drawings take them, highest score first."""
        order = sorted(enumerate(self.texts, start=1), key=lambda item: -item[1].scores[direction])
        return [
            DrawnHit(
                str(number), float(one.scores[direction]), one.text.text, _words(one, direction),
                sums=self._sums(one, direction),
            )
            for number, one in order
        ]  # fmt: skip

    def _sums(self, one: AttributedText, direction: int) -> list[tuple[str, float]]:
        """What a score is the sum of, where that is more than the text's units."""
        parts = [("words", float(one.shares[direction].sum())), (self.metadata.rest, float(one.bias[direction]))]
        return parts if one.bias[direction] else []

    @property
    def title(self) -> str:
        """The heading of the page."""
        return "What moves these texts along a direction"

    def tables(self) -> dict[str, Table]:
        """The score of each text by each direction, and the share of each unit."""
        scores, shares = [], []
        for index, name in enumerate(self.directions):
            for number, one in enumerate(self.texts, start=1):
                scores.append((name, number, one.text.text, float(one.scores[index]), float(one.bias[index])))
                shares += [
                    (name, number, *row) for row in zip(one.text.labels, one.shares[index].tolist(), strict=True)
                ]
        return {
            "scores": Table.of(["direction", "number", "text", "score", self.metadata.rest], scores, detail=True),
            "shares": Table.of(["direction", "number", "unit", "share"], shares, detail=True),
        }

    def lines(self, width: int) -> list[Text]:  # noqa: ARG002
        """The texts by direction, highest score first, their words coloured by the shares."""
        from likewise.plotting.hits import hits_lines

        return [line for index, name in enumerate(self.directions)
                for line in hits_lines(name, self._caption, self.drawn(index))]  # fmt: skip

    def fragments(self) -> list[str]:
        """The same as HTML."""
        return [hits_fragment(name, self._caption, self.drawn(index)) for index, name in enumerate(self.directions)]

    @property
    def _caption(self) -> str:
        return f"{self.metadata.model}, {self.metadata.similarity}"

    def _repr_html_(self) -> str:
        return "".join(self.fragments())


def _words(one: AttributedText, direction: int) -> list[tuple[int, int, float]]:
    shares = zip(one.text.units, one.shares[direction].tolist(), strict=True)
    return [(unit.start, unit.end, share) for unit, share in shares if unit.kind == "text"]


def attribute(
    encoder: Encoder,
    texts: str | Sequence[str],
    directions: Any,
    granularity: Granularity = "word",
    similarity: str = "dot",
    *,
    prompt: str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Attribution:
    """What each unit of each text adds to <vector, direction>, by one transposed pass a text and direction.

    ``prompt`` is put before each text, not before a text that is given as a direction.

    A direction is a text, a vector (d,) or several (K, d), a scikit-learn linear model, a :class:`Direction`, or a list
    of such. ``similarity="cosine"`` divides by the text's length, so that a text as direction gives the cosine.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> attribute(encoder, ["A cat sat.", "It rains."], "a cat", similarity="cosine").texts[0].scores.round(2)
    array([0.78])
    """
    rows = [texts] if isinstance(texts, str) else list(texts)
    found = as_directions(encoder, directions)
    stream = attribute_stream(encoder, rows, found, granularity, similarity, prompt=prompt, **settings)
    ticker = Ticker(progress, len(rows), "texts")
    done: dict[int, AttributedText] = {}
    for index, one in stream:
        done[index] = one
        ticker.add()
    ticker.close()
    report_truncation(sum(one.text.truncated for one in done.values()), len(rows), encoder.tokenizer.limit)
    metadata = attribution_metadata(encoder, granularity, similarity, Settings(**settings))
    return Attribution(tuple(done[index] for index in range(len(rows))), tuple(one.name for one in found), metadata)


def attribution_metadata(encoder: Encoder, granularity: Granularity, similarity: str, settings: Settings) -> Metadata:
    """How an attribution is made."""
    return metadata_of(encoder, "bilrp", granularity if isinstance(granularity, str) else "span", similarity, settings)


def attribute_stream(
    encoder: Encoder,
    texts: Sequence[str],
    directions: Sequence[Direction],
    granularity: Granularity = "word",
    similarity: str = "dot",
    *,
    prompt: str | None = None,
    **settings: Any,
) -> Iterator[tuple[int, AttributedText]]:
    """The same text by text, longest first, each with its index."""
    chosen = Settings(**settings)
    check(encoder, "bilrp", chosen)
    check_similarity(similarity)
    check_granularity(granularity)
    if not has_columns("bilrp", chosen):
        raise UsageError("attributions go with all rules of bilrp, and not with bias='shared'")
    if chosen.split and len(directions) > 1:
        raise UsageError("split goes with one direction; give one, or leave split out")
    vectors = np.stack([one.vector for one in directions])
    inputs = [TextInput(text, prompt, granularity) for text in texts]
    stream = share_stream(encoder, inputs, vectors, chosen)
    return ((index, _attributed(one, vectors, similarity)) for index, one in stream)


def _attributed(one: Shares, vectors: Array, similarity: str) -> AttributedText:
    scale = 1 / one.divisor if similarity == "cosine" else 1.0
    scores = vectors @ one.vector.astype(np.float64)
    parts = {name: values[0] * scale for name, values in one.parts.items()}
    side = ExplainedText(one.text, one.units, one.truncated, one.ids, parts)
    # Relative to how large a score of these vectors can be.
    largest = max(1.0, float(np.linalg.norm(vectors, axis=1).max()) * one.divisor) * scale
    return AttributedText(side, one.values * scale, one.bias * scale, scores * scale, TOLERANCE * max(1.0, largest))
