"""Which words of two texts correspond: links with scores, many to many, and the words without a partner.

What corresponds and what a score rests on are two things: a ledger (:func:`likewise.explain.explain`) says what each
pair of words adds to the similarity, an alignment says which words mean the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from likewise.encoder import Encoder, takes_encoder
from likewise.errors import UsageError
from likewise.explain.explanation import Array, ExplainedText, Explanation
from likewise.explain.pairs import Spans, explain, unit_granularity
from likewise.explain.texts import TextInput, Unit
from likewise.explain.word_scores import (
    DEFAULT_METHOD,
    NO_LINK,
    Words,
    is_punctuation,
    method_named,
    mutual_best,
    report_cut,
    words_of,
)
from likewise.plotting.axes import grid_of_axes
from likewise.plotting.heatmap import bipartite, framed, heatmap
from likewise.plotting.terminal import marked_words, one_line
from likewise.results import Column, Figure, Result, Table

TITLE = 0.8  # Inches for the title of a panel
MOST_ROWS = 80  # A longer table of words is in files only
NOTE = (
    "Lines and frames: words that correspond. Colours: what each pair of words adds to the cosine. A score can rest on"
    " words that do not correspond, and words can correspond without adding to it."
)
THRESHOLD = 0.12  # From this score of ``context`` on, two words are linked. On train, F1 is flat from 0.08 to 0.12


@dataclass(frozen=True)
class Link:
    """Two words that correspond, and how well."""

    left: Unit
    right: Unit
    score: float

    def to_dict(self) -> dict[str, Any]:
        """Character offsets and the score."""
        spans = {side: [unit.start, unit.end] for side, unit in (("left", self.left), ("right", self.right))}
        return spans | {"score": self.score}


@dataclass(frozen=True, eq=False, repr=False)
class Alignment(Result):
    """Which words of two texts correspond: scores (n, m), links from a threshold on and, if wanted, the ledger.

    >>> from likewise.explain.alignment import align
    >>> found = align("minilm", "A cat sat.", "The cats were sitting.")
    >>> [(link.left.text, link.right.text) for link in found.best_links()]
    [('A', 'The'), ('cat', 'cats'), ('sat', 'sitting')]
    """

    left: Words
    right: Words
    scores: Array
    threshold: float
    method: str
    model: str
    explanation: Explanation | None = None

    @property
    def is_linked(self) -> NDArray[np.bool_]:
        """Which pairs of words are links, (n, m)."""
        return np.asarray(self.scores >= self.threshold)

    @property
    def links(self) -> tuple[Link, ...]:
        """All links in the order of the left text, then of the right text."""
        cells = zip(*np.nonzero(self.is_linked), strict=True)
        return tuple(Link(self.left.units[i], self.right.units[j], float(self.scores[i, j])) for i, j in cells)

    def best_links(self) -> tuple[Link, ...]:
        """The links that are the best ones of both of their words."""
        cells = zip(*np.nonzero(mutual_best(self.scores) & self.is_linked), strict=True)
        return tuple(Link(self.left.units[i], self.right.units[j], float(self.scores[i, j])) for i, j in cells)

    @property
    def left_unlinked(self) -> tuple[Unit, ...]:
        """The words of the left text without a partner; punctuation marks never have one."""
        return tuple(self.left.units[index] for index in np.flatnonzero(~self.is_linked.any(1)))

    @property
    def right_unlinked(self) -> tuple[Unit, ...]:
        """The words of the right text without a partner."""
        return tuple(self.right.units[index] for index in np.flatnonzero(~self.is_linked.any(0)))

    @property
    def relevance(self) -> Array | None:
        """What each pair of words adds to the similarity, (n, m), if the ledger is there."""
        if self.explanation is None:
            return None
        sides = (self.explanation.left.units, self.explanation.right.units)
        rows, columns = ([index for index, unit in enumerate(units) if unit.kind == "text"] for units in sides)
        found: Array = self.explanation.relevance[np.ix_(rows, columns)]
        return found

    def to_dict(self) -> dict[str, Any]:
        """The links, the words without a partner, and how they were found."""
        unlinked = {"left": self.left_unlinked, "right": self.right_unlinked}
        found: dict[str, Any] = {
            "links": [link.to_dict() for link in self.links],
            "unlinked": {side: [[unit.start, unit.end] for unit in units] for side, units in unlinked.items()},
            "left": self.left.text, "right": self.right.text,
            "method": self.method, "threshold": self.threshold, "model": self.model,
        }  # fmt: skip
        if self.explanation is not None:
            found |= {"similarity": self.explanation.similarity}
            found |= {"ledger": self.explanation.to_dict()}
        return found

    title = "What corresponds, and what the score rests on"

    @property
    def notes(self) -> list[str]:
        """The model, and the score where it is explained."""
        note = f"{self.model}, {self.method} from {self.threshold:g} on"
        return [note if self.explanation is None else f"cosine {self.explanation.similarity:.4f}, {note}"]

    @property
    def cautions(self) -> list[str]:
        """Cut texts."""
        cut = [side for side, words in (("left", self.left), ("right", self.right)) if words.truncated]
        return (
            [f"the {' and the '.join(cut)} text is cut at the model's limit; what follows is not aligned"]
            if cut
            else []
        )

    def tables(self) -> dict[str, Table]:
        """Each word with its partners, the best first, and its share in the similarity; and every link."""
        relevance = self.relevance
        links = [
            (self.left.units[i].text, self.right.units[j].text, float(self.scores[i, j]),
             None if relevance is None else float(relevance[i, j]))
            for i, j in zip(*np.nonzero(self.is_linked), strict=True)
        ]  # fmt: skip
        rows = [*self._rows("left"), *self._rows("right")]
        numbers = [Column("score", format=".2f"), Column("share", format="+.3f")]
        about = "share: what the word adds to the cosine" if relevance is not None else ""
        words = Table.of(
            ["side", "word", "partners", *numbers],
            rows,
            "words and their partners",
            about,
            detail=len(rows) > MOST_ROWS,
        )
        return {"words": words, "links": Table.of(["left", "right", "score", "relevance"], links, detail=True)}

    def _rows(self, side: str) -> list[tuple[object, ...]]:
        """The words of one side with their partners, the best score and the share."""
        is_left = side == "left"
        words, others = (self.left, self.right) if is_left else (self.right, self.left)
        rows: list[tuple[object, ...]] = []
        for index, unit in enumerate(words.units):
            scores = self.scores[index] if is_left else self.scores[:, index]
            order = [other for other in np.argsort(-scores, kind="stable") if scores[other] >= self.threshold]
            partners = " ".join(others.units[other].text for other in order) or "-"
            rows.append(
                (side, unit.text, partners, float(scores[order[0]]) if order else None, self._share(side, unit))
            )
        return rows

    def _share(self, side: str, unit: Unit) -> float | None:
        if self.explanation is None:
            return None
        text: ExplainedText = getattr(self.explanation, side)
        shares: Array = getattr(self.explanation, f"{side}_shares")
        return float(sum(shares[index] for index, one in enumerate(text.units) if one == unit))

    def figures(self) -> dict[str, Figure]:
        """The links and, where it is there, the ledger with the links as frames."""
        return {"alignment": Figure(self.plot, "What corresponds, and what the score rests on", NOTE)}

    def plot(self) -> Any:
        """The links as lines, and the ledger as a heat map with a frame around each link; returns the first Axes."""
        rows, columns = ([unit.text for unit in words.units] or ["(no words)"] for words in (self.left, self.right))
        links = np.zeros((len(rows), len(columns)))
        links[: len(self.left.units), : len(self.right.units)] = np.where(self.is_linked, self.scores, 0.0)
        if self.relevance is None or not self.scores.size:
            return bipartite(links, rows, columns, "what corresponds")
        side = min(12.0, 4.0 + 0.18 * max(links.shape))
        first, second = grid_of_axes(2, (side + 1, side + TITLE))
        bipartite(links, rows, columns, "what corresponds: links", first)
        heatmap(self.relevance, rows, columns, "what the cosine rests on: relevance, frames are links", second)
        framed(second, self.is_linked)
        return first

    def lines(self, width: int) -> list[Text]:  # noqa: ARG002
        """Both texts; words without a partner are in brackets."""
        sides = ((self.left, self.left_unlinked), (self.right, self.right_unlinked))
        return [Text(_bracketed(words.text, unlinked)) for words, unlinked in sides]

    def _repr_html_(self) -> str:
        return "".join(self.fragments())


def _bracketed(text: str, units: Sequence[Unit]) -> str:
    """A text in which each of the units is in brackets, apart from punctuation marks."""
    marked = [(unit.start, unit.end, 1.0) for unit in units if not is_punctuation(unit.text)]
    return "".join(part if share is None else f"[{part}]" for part, share in marked_words(one_line(text), marked))


@takes_encoder
def align(
    encoder: Encoder,
    left: str,
    right: str,
    method: str = DEFAULT_METHOD,
    granularity: str | Spans = "word",
    *,
    threshold: float | None = None,
    ledger: bool = False,
    left_prompt: str | None = None,
    right_prompt: str | None = None,
) -> Alignment:
    """Which words of two texts correspond.

    ``granularity`` is token, word, sentence, or the character spans of both texts. ``ledger`` also explains the
    similarity of the two texts, at the cost of an explanation. Methods other than ``context`` need a ``threshold``.

    >>> found = align("minilm", "The old bridge was closed.", "They closed the bridge.")
    >>> [unit.text for unit in found.left_unlinked]
    ['old', '.']
    """
    chosen = _threshold(method, threshold)
    source = method_named(encoder, method)
    prompts = (left_prompt, right_prompt)
    texts = [TextInput(*each) for each in zip((left, right), prompts, unit_granularity(granularity), strict=True)]
    one, other = words_of(encoder, texts, [source.source])[source.source]
    report_cut(encoder, (one, other))
    explanation = None
    if ledger:
        options: dict[str, Any] = {"left_prompt": left_prompt, "right_prompt": right_prompt}
        explanation = explain(encoder, left, right, granularity=granularity, **options)
    return Alignment(one, other, source.between(one, other), chosen, method, encoder.name, explanation)


def _threshold(method: str, threshold: float | None) -> float:
    """The given threshold, or that of the method."""
    if threshold is None and method != DEFAULT_METHOD:
        raise UsageError(f"the method {method} has no threshold of its own; give one")
    chosen = THRESHOLD if threshold is None else threshold
    if not math.isfinite(chosen) or chosen <= NO_LINK:
        raise UsageError(f"a threshold is a number above {NO_LINK:g}, got {chosen}")
    return float(chosen)
