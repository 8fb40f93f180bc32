"""Attribution: the share of each unit of a text in the dot product of its embedding with a direction."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

from likewise.data import Dataset
from likewise.encoder import Encoder, takes_encoder
from likewise.encoder.forward import windows
from likewise.encoder.similarity import unit
from likewise.encoder.tokens import report_truncation
from likewise.encoder.workers import done_by_team
from likewise.errors import DataError, UsageError, first_line
from likewise.explain.explanation import TOLERANCE, Array, ExplainedText, Metadata, require_complete
from likewise.explain.linear_map import has_columns
from likewise.explain.pairs import check_similarity, metadata_of
from likewise.explain.settings import Settings
from likewise.explain.texts import Granularity, Shares, TextInput, Unit, check, check_granularity, share_stream
from likewise.plotting.html import hits_fragment
from likewise.plotting.terminal import DrawnHit, hits_lines
from likewise.progress import Progress, Ticker
from likewise.results import Result, Table

WINDOW_TEXTS = 256  # Texts that are attributed together


@dataclass(frozen=True, eq=False)
class Direction:
    """A named vector (d,) whose product with a text's vector is explained.

    >>> Direction("first dimension", np.eye(384)[0]).vector.shape
    (384,)
    """

    name: str
    vector: Array


def as_directions(encoder: Encoder, given: Any) -> list[Direction]:
    """Directions from arrays, texts, a scikit-learn linear model, or a list of such."""
    if isinstance(given, Direction):
        found = [given]
    elif isinstance(given, str):
        found = [text_direction(encoder, given)]
    elif hasattr(given, "coef_"):
        found = model_directions(given)
    elif (rows := _numbers(given)) is not None:
        if rows.ndim not in (1, 2):
            raise DataError(f"directions must be (d,) or (K, d), got {rows.ndim} dimensions")
        rows = np.atleast_2d(rows)
        found = [Direction(f"direction {k}" if len(rows) > 1 else "direction", row) for k, row in enumerate(rows, 1)]
    elif isinstance(given, (list, tuple)):
        found = [each for one in given for each in as_directions(encoder, one)]
    else:
        raise UsageError(
            f"{type(given).__name__} is no direction; give a text, a vector, a fitted linear model (with coef_), a"
            " Direction, or a list of such"
        )
    width = encoder.dimension
    for one in found:
        if one.vector.shape != (width,):
            raise DataError(f"{one.name!r} has shape {one.vector.shape}, the model's vectors ({width},); use that many")
        if not np.isfinite(one.vector).all():
            raise DataError(f"{one.name!r} holds numbers that are not finite; give finite ones")
    if not found:
        raise UsageError("no direction given; give a text, a vector, or a Direction")
    return found


def text_direction(encoder: Encoder, text: str, prompt: str | None = None) -> Direction:
    """The unit vector of a text."""
    return Direction(text, _unit(encoder, [text], prompt)[0])


def difference_direction(encoder: Encoder, text: str, other: str, prompt: str | None = None) -> Direction:
    """The unit vector of a text minus that of another one."""
    first, second = _unit(encoder, [text, other], prompt)
    return Direction(f"{text} - {other}", first - second)


def centroid_direction(
    encoder: Encoder, texts: Sequence[str], name: str = "centroid", prompt: str | None = None
) -> Direction:
    """The mean of the unit vectors of texts."""
    if not texts:
        raise DataError("a centroid needs at least one text")
    return Direction(name, _unit(encoder, texts, prompt).mean(0))


def axis_direction(encoder: Encoder, texts: Sequence[str], number: int = 1, prompt: str | None = None) -> Direction:
    """A principal axis of texts, 1 for the strongest; its sign is such that its largest component is positive."""
    vectors = encoder.encode(list(texts), prompt=prompt).astype(np.float64)
    most = min(vectors.shape[0] - 1, vectors.shape[1])
    if not 1 <= number <= most:
        raise UsageError(f"{len(texts)} texts have principal axes 1 to {most}, not {number}; give more texts")
    axis = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)[2][number - 1]
    return Direction(f"axis {number}", axis * np.sign(axis[np.abs(axis).argmax()]))


def model_directions(model: Any) -> list[Direction]:
    """The weights of a fitted scikit-learn linear model, one direction for each row of ``coef_``."""
    rows = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    classes = list(getattr(model, "classes_", []))
    names = classes[1:] if len(classes) == 2 and len(rows) == 1 else classes
    if len(names) != len(rows):
        names = list(range(1, len(rows) + 1))
    return [Direction(f"{type(model).__name__} {name}", row) for name, row in zip(names, rows, strict=True)]


def read_vectors(path: Path) -> Array:
    """Directions (d,) or (K, d) from a .npy file."""
    try:
        found = np.load(path, allow_pickle=False)
        if not isinstance(found, np.ndarray) or not np.issubdtype(found.dtype, np.number):
            raise ValueError("no array of numbers")
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as numbers ({first_line(error)}); save them with numpy.save") from error
    return found.astype(np.float64)


def parse_direction(encoder: Encoder, written: str, texts: Sequence[str], dataset: Dataset) -> list[Direction]:
    """Directions as the command line writes them; ``axis:1`` is one of ``texts``, other files are read as a dataset is.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> parse_direction(encoder, "difference:hot | cold", [], Dataset("sample/sentences"))[0].name
    'hot - cold'
    """
    kind, _, rest = written.partition(":")
    if kind == "difference":
        sides = [side.strip() for side in rest.split("|")]
        if len(sides) != 2 or not all(sides):
            raise UsageError(f"a difference is two texts as difference:A | B, not {rest!r}")
        return [difference_direction(encoder, *sides)]
    if kind == "centroid":
        others = [row.text for row in replace(dataset, name=rest).texts()]
        return [centroid_direction(encoder, others, f"centroid of {rest}")]
    if kind == "axis":
        if not rest.isdigit():
            raise UsageError(f"axis takes a number from 1 on, as axis:1, not {rest!r}")
        return [axis_direction(encoder, texts, int(rest))]
    if kind == "vector":
        return as_directions(encoder, read_vectors(Path(rest)))
    return [text_direction(encoder, written)]


def _unit(encoder: Encoder, texts: Sequence[str], prompt: str | None) -> Array:
    return unit(encoder.encode(list(texts), prompt=prompt)).astype(np.float64)


def _numbers(given: Any) -> Array | None:
    """An array, a tensor or a list of numbers as an array; None for anything else."""
    if isinstance(given, (list, tuple)) and not (given and isinstance(given[0], numbers.Real)):
        return None
    try:
        return np.asarray(given.detach().cpu() if hasattr(given, "detach") else given, dtype=np.float64)
    except (TypeError, ValueError):
        return None


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
    """The shares of the units of texts along directions; the shares and the bias of a text sum to its score.

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

    title = "What moves these texts along a direction"

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


@takes_encoder
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
    """The share of each unit of each text in <vector, direction>, by one transposed pass per text and direction.

    ``prompt`` is put before each text, not before a text that is given as a direction.

    A direction is a text, a vector (d,) or several (K, d), a scikit-learn linear model, a :class:`Direction`, or a list
    of such. ``similarity="cosine"`` divides by the text's length, so that a text as direction gives the cosine.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> attribute(encoder, ["A cat sat.", "It rains."], "a cat", similarity="cosine").texts[0].scores.round(2)
    array([0.78])
    """
    rows = [texts] if isinstance(texts, str) else list(texts)
    found = as_directions(encoder, directions)
    options = {"granularity": granularity, "similarity": similarity, "prompt": prompt, **settings}
    done = tuple(attribute_many(encoder, rows, found, options, progress))
    unit_kind = granularity if isinstance(granularity, str) else "span"
    metadata = metadata_of(encoder, "bilrp", unit_kind, similarity, Settings(**settings))
    return Attribution(done, tuple(one.name for one in found), metadata)


@dataclass(frozen=True)
class AttributeTexts:
    """The task of a worker: the attributions of a window's texts; ``options`` are those of ``attribute``."""

    directions: Sequence[Direction]
    options: Mapping[str, Any]

    def __call__(self, encoder: Encoder, window: Sequence[str], progress: Progress | None) -> list[AttributedText]:
        """The attributions, in order."""
        ticker, done = Ticker(progress, len(window), "texts"), dict[int, AttributedText]()
        for index, one in _attributions(encoder, window, self.directions, **self.options):
            done[index] = one
            ticker.add()
        ticker.close()
        return [done[index] for index in range(len(window))]


def attribute_many(
    encoder: Encoder,
    texts: Sequence[str],
    directions: Sequence[Direction],
    options: Mapping[str, Any],
    progress: Progress | None = None,
) -> Iterator[AttributedText]:
    """The attributions of texts, in order, window by window, by the encoder's team."""
    task = AttributeTexts(directions, options)
    task(encoder, [], None)  # rejects wrong options before any work
    return _by_window(encoder, texts, task, Ticker(progress, len(texts), "texts"))


def _by_window(
    encoder: Encoder, texts: Sequence[str], task: AttributeTexts, ticker: Ticker
) -> Iterator[AttributedText]:
    cut = 0
    for _, found in done_by_team(encoder, task, windows(texts, WINDOW_TEXTS), ticker):
        cut += sum(one.text.truncated for one in found)
        yield from found
    ticker.close()
    report_truncation(cut, len(texts), encoder.tokenizer.limit)


def _attributions(
    encoder: Encoder,
    texts: Sequence[str],
    directions: Sequence[Direction],
    granularity: Granularity = "word",
    similarity: str = "dot",
    *,
    prompt: str | None = None,
    **settings: Any,
) -> Iterator[tuple[int, AttributedText]]:
    """The attribution of each text and its index, the longest text first."""
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
