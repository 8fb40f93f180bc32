"""Explanations of cross-encoders: a logit as the sum of the shares of both texts' tokens, special tokens and biases.

A cross-encoder reads two texts as one sequence, so its logit is a linear readout of one linearized encoder. One
transposed pass gives the share of every token. There is no matrix of word pairs: the model mixes both texts in every
layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from rich.text import Text

from likewise.encoder.cross_encoder import CrossEncoder, Pair, two_texts
from likewise.encoder.encoder import Source
from likewise.encoder.tokens import TokenizedText, report_truncation
from likewise.errors import UsageError
from likewise.explain.explanation import STRONGEST_UNITS, TOLERANCE, Array, ExplainedText, Metadata, require_complete
from likewise.explain.settings import FILLER, NO_REFERENCE, Settings
from likewise.explain.texts import Shares, TextMap, TokenGroups, Unit, check, check_granularity, group_shares, units_of
from likewise.plotting.axes import grid_of_axes
from likewise.plotting.html import hits_fragment
from likewise.plotting.scatter import share_bars
from likewise.plotting.terminal import DrawnHit, unit_line
from likewise.progress import Progress, Ticker
from likewise.results import Figure, Result, Table

METHOD = "lrp"  # The rules of bilrp, for one linear map
WINDOW = 256  # Pairs that are explained together
SIDES = ("left", "right")


@dataclass(frozen=True, eq=False, repr=False)
class CrossExplanation(Result):
    """Why a cross-encoder gives a pair its logit: the shares of both texts' units and special tokens, and the bias.

    >>> found = explain_cross_encoder("models/reranker", "A cat sat.", "A cat slept.")  # doctest: +SKIP
    >>> abs(found.gap) < 1e-5  # doctest: +SKIP
    True
    """

    left: ExplainedText
    right: ExplainedText
    special: ExplainedText  # the special tokens between and around the texts
    left_shares: Array
    right_shares: Array
    special_shares: Array
    bias: float  # what the biases add, and the reference if there is one
    logit: float
    score: float  # the logit after the model's activation
    label: str  # the label that the logit stands for
    metadata: Metadata
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        require_complete(self.logit, self.gap, self.tolerance)

    @property
    def gap(self) -> float:
        """What is left unexplained of the logit."""
        return self.logit - sum(self.ledger.values())

    @property
    def ledger(self) -> dict[str, float]:
        """The terms of the logit: each text, the special tokens, and the biases or the reference."""
        texts = {"left text": self.left_shares, "right text": self.right_shares, "special tokens": self.special_shares}
        return {name: float(shares.sum()) for name, shares in texts.items()} | {self.metadata.rest: self.bias}

    def strongest(self, count: int = 10) -> list[tuple[str, Unit, float]]:
        """The units of largest absolute share, strongest first, each with its side."""
        rows = [(side, unit, float(share)) for side, text, shares in self._sides()
                for unit, share in zip(text.units, shares, strict=True)]  # fmt: skip
        return sorted(rows, key=lambda row: -abs(row[2]))[:count]

    def _sides(self) -> list[tuple[str, ExplainedText, Array]]:
        return [
            ("left", self.left, self.left_shares), ("right", self.right, self.right_shares),
            ("special", self.special, self.special_shares),
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Texts, shares, bias, logit and score."""
        sides = {name: text.to_dict() for name, text, _ in self._sides()}
        shares = {name: values.tolist() for name, _, values in self._sides()}
        numbers = {"logit": self.logit, "score": self.score, "label": self.label, "gap": self.gap}
        return sides | {"shares": shares, "bias": self.bias} | numbers | self.metadata.to_dict()

    title = "Why a cross-encoder gives this score"

    @property
    def headline(self) -> str:
        """Score and logit in one line."""
        label = "" if self.label == "score" else f" of {self.label}"
        return f"score {self.score:.4f}, logit{label} {self.logit:.4f}  ({self.metadata.model})"

    @property
    def cautions(self) -> list[str]:
        """A pair that was cut."""
        return ["the pair is longer than the model's limit and was cut"] if self.left.truncated else []

    def tables(self) -> dict[str, Table]:
        """The share of every unit, the strongest units, and the ledger."""
        rows = [(side, unit.text, share) for side, unit, share in self.strongest(len(self))]
        ledger = [*self.ledger.items(), ("gap", self.gap), ("logit", self.logit), ("score", self.score)]
        parts = {
            f"{name}_parts": Table.of(["unit", *text.parts], zip(text.labels, *text.parts.values(), strict=True))
            for name, text, _ in self._sides()
            if text.parts
        }
        return {
            "shares": Table.of(["side", "unit", "share"], rows, detail=True),
            "strongest": Table.of(["side", "unit", "share"], rows[:STRONGEST_UNITS], "strongest units", summary=True),
            "ledger": Table.of(["ledger", "logit"], ledger),
        } | parts

    def __len__(self) -> int:
        return sum(len(text.units) for _, text, _ in self._sides())

    def lines(self, width: int) -> list[Text]:  # noqa: ARG002
        """The score, and both texts coloured by the shares."""
        drawn = (unit_line(text.labels, shares) for _, text, shares in self._sides())
        return [Text(self.headline), *drawn]

    def fragments(self) -> list[str]:
        """Both texts with their words coloured, and the tables."""
        hits = [
            DrawnHit(f"{name} text", float(shares.sum()), text.text, _words(text, shares))
            for name, text, shares in self._sides()[:2]
        ]
        return [
            hits_fragment(self.headline, "each text with what it adds to the logit", hits),
            *self._table_fragments(),
        ]

    def _repr_html_(self) -> str:
        return "".join(self.fragments())

    def figures(self) -> dict[str, Figure]:
        """The shares of both texts as bars."""
        return {"shares": Figure(self.plot, "What each unit adds to the logit")}

    def plot(self) -> Any:
        """A panel of bars for each text; returns the first Axes."""
        height = 2.0 + 0.26 * max(len(text.units) for _, text, _ in self._sides())
        panels = grid_of_axes(2, (5.0, min(height, 12.0)), 2)
        for ax, (name, text, shares) in zip(panels, self._sides(), strict=False):
            share_bars(text.labels, shares, f"{name} text: {shares.sum():+.3f} of the logit {self.logit:.3f}", ax)
        # One scale: the bars of both texts can be compared.
        limits = [limit for ax in panels[:2] for limit in ax.get_xlim()]
        for ax in panels[:2]:
            ax.set_xlim(min(limits), max(limits))
        return panels[0]


def _words(text: ExplainedText, shares: Array) -> list[tuple[int, int, float]]:
    rows = zip(text.units, shares.tolist(), strict=True)
    return [(unit.start, unit.end, share) for unit, share in rows if unit.kind == "text"]


def explain_cross_encoder(
    cross_encoder: CrossEncoder | Source,
    left: str,
    right: str,
    granularity: str = "token",
    *,
    prompt: str | None = None,
    label: str | None = None,
    **settings: Any,
) -> CrossExplanation:
    """The logit of a pair as an exact sum over the units of both texts, the special tokens and the biases.

    ``label`` is the one whose logit is explained, None the cross-encoder's own. ``settings`` are ``bias``,
    ``reference`` (filler or none), ``fold_special``, ``split`` and ``memory``, as of :func:`likewise.explain.explain`.

    >>> explain_cross_encoder("models/reranker", "A cat sat.", "A cat slept.").strongest(1)  # doctest: +SKIP
    """
    options: dict[str, Any] = {"prompt": prompt, "label": label, **settings}
    return next(explain_cross_encoder_many(cross_encoder, [(left, right)], granularity, **options))


def explain_cross_encoder_many(
    cross_encoder: CrossEncoder | Source,
    pairs: Iterable[Pair],
    granularity: str = "token",
    *,
    prompt: str | None = None,
    label: str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Iterator[CrossExplanation]:
    """The same for many pairs, in order; pairs of one length run together."""
    model = cross_encoder if isinstance(cross_encoder, CrossEncoder) else CrossEncoder.load(cross_encoder)
    model = model if label is None else model.with_label(label)
    chosen = Settings(**settings)
    _check(model, granularity, chosen)
    prompt = model.modules_config.prompt_for(None) if prompt is None else prompt
    rows = [two_texts(pair) for pair in pairs]
    return _stream(model, rows, granularity, prompt, (chosen, progress))


def _stream(
    model: CrossEncoder, rows: list[tuple[str, str]], granularity: str, prompt: str,
    how: tuple[Settings, Progress | None],
) -> Iterator[CrossExplanation]:  # fmt: skip
    settings, ticker, cut = how[0], Ticker(how[1], len(rows), "pairs"), 0
    for start in range(0, len(rows), WINDOW):
        tokens = model.tokenize(rows[start : start + WINDOW], prompt)
        cut += sum(each.truncated for each in tokens)
        groups = [pair_groups(each, granularity, settings.fold_special, prompt) for each in tokens]
        found = {}
        for index, shares in _shares(model, [each for each, _ in groups], settings):
            found[index] = _explanation(model, groups[index][0].tokens, groups[index][1], shares, granularity, settings)
            ticker.add()
        yield from (found[index] for index in range(len(groups)))
    ticker.close()
    report_truncation(cut, len(rows), model.tokenizer.limit)


def _check(model: CrossEncoder, granularity: str, settings: Settings) -> None:
    """Refuse what cannot be computed before any of it is."""
    if model.encoder is None:
        raise UsageError(f"explanations need the backend torch, not onnx; run: likewise convert {model.name}")
    if not isinstance(granularity, str):
        raise UsageError("a cross-encoder is explained by token, word or sentence; leave spans out")
    check_granularity(granularity)
    check(model.encoder, "bilrp", settings)
    if not settings.holds_all:
        raise UsageError("a cross-encoder is explained with all rules; leave rules out")
    if settings.reference not in (NO_REFERENCE, FILLER):
        raise UsageError("a cross-encoder's reference is filler or none, since a text has no second one; choose one")
    _ = model.label_index


def pair_groups(
    tokens: TokenizedText, granularity: str, fold_special: bool, prompt: str
) -> tuple[TokenGroups, tuple[int, int]]:
    """The units of a pair that is one sequence: the left text's, the right text's and special ones; and how many
    of the first two."""
    sides = [_side_units(tokens, side, granularity) for side in (0, 1)]
    special = [index for index, side in enumerate(tokens.sides) if side is None]
    alone = [Unit(tokens.tokens[index], 0, 0, (index,), "special") for index in special]
    if fold_special and alone:
        names = dict.fromkeys(unit.text for unit in alone)
        alone = [Unit(" ".join(names), 0, 0, tuple(special), "special")]
    return TokenGroups(tokens, (*sides[0], *sides[1], *alone), prompt), (len(sides[0]), len(sides[1]))


def _side_units(tokens: TokenizedText, side: int, granularity: str) -> list[Unit]:
    """The units of one of the two texts; their tokens are positions in the whole sequence."""
    own = _one_side(tokens, side)
    indices = [index for index, each in enumerate(tokens.sides) if each == side]
    units = units_of(own, granularity)
    return [replace(unit, tokens=tuple(indices[token] for token in unit.tokens)) for unit in units]


def _one_side(tokens: TokenizedText, side: int) -> TokenizedText:
    """One of the two texts with its own tokens."""

    def chosen(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(value for value, each in zip(values, tokens.sides, strict=True) if each == side)

    names = ("ids", "types", "tokens", "offsets", "special", "prompt", "sides")
    own: dict[str, Any] = {name: chosen(getattr(tokens, name)) for name in names}
    return replace(tokens, text=tokens.text[side], **own)


def _shares(model: CrossEncoder, groups: list[TokenGroups], settings: Settings) -> Iterator[tuple[int, Shares]]:
    """The shares of each pair's units in its logit, each with its index."""
    assert model.encoder is not None
    direction = np.eye(len(model.labels))[[model.label_index]]
    if settings.bias != "shared":
        yield from group_shares(model.encoder, groups, direction, settings)
        return
    for index, group in enumerate(groups):
        # Shared biases take rows; the product with the direction turns them into shares.
        found = TextMap.of(model.encoder, group, settings).contributions()
        values, bias = direction @ found.values.T.astype(np.float64), direction @ found.bias.astype(np.float64)
        yield index, Shares(found.text, found.units, values, bias, found.vector, found.truncated, {}, found.ids)


def _explanation(
    model: CrossEncoder, tokens: TokenizedText, counts: tuple[int, int], shares: Shares, granularity: str,
    settings: Settings,
) -> CrossExplanation:  # fmt: skip
    assert model.encoder is not None
    ends = (0, counts[0], sum(counts), len(shares.units))
    texts, values = [], shares.values[0]
    for side, (first, last) in enumerate(pairwise(ends)):
        parts = {name: part[0][first:last] for name, part in shares.parts.items()}
        text, ids = (tokens.text[side], _one_side(tokens, side).ids) if side < 2 else ("", ())
        texts.append(ExplainedText(text, shares.units[first:last], tokens.truncated, ids, parts))
    logit = float(shares.vector[model.label_index])
    metadata = Metadata(
        METHOD, model.name, model.encoder.pooling_config.pooling, granularity, "logit", settings.bias, True, "-1",
        settings.rules, settings.reference,
    )  # fmt: skip
    score = float(model.activated(np.array([logit]))[0])
    label = "score" if len(model.labels) == 1 else model.labels[model.label_index]
    # Relative to the terms: of a long pair they may be far larger than their sum.
    size = max(1.0, float(np.abs(values).sum()) + abs(float(shares.bias[0])))
    left, right, special = (values[first:last] for first, last in pairwise(ends))
    return CrossExplanation(
        texts[0], texts[1], texts[2], left, right, special, float(shares.bias[0]), logit, score, label, metadata,
        TOLERANCE * size,
    )  # fmt: skip
