"""Pairs -> explanations, one or thousands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, Unpack

import numpy as np

from likewise.encoder import Encoder
from likewise.encoder.encoder import report_truncation
from likewise.encoder.similarity import MEASURES
from likewise.errors import UsageError
from likewise.explain.contributions import Contributions
from likewise.explain.explanation import TOLERANCE, Array, ExplainedText, Explanation, Facts
from likewise.explain.methods import METHODS, can_share, is_complete, method_named
from likewise.explain.settings import SettingOptions, Settings
from likewise.explain.texts import Prompted, check, contribution_stream, drawn_bias
from likewise.explain.units import By, check_by
from likewise.grammar.spans import Span
from likewise.progress import Progress, Ticker

WINDOW_LETTERS = 200_000
"""Letters of text whose contributions are computed together by ``explain_many``; bounds its memory."""


class TextPair(Protocol):
    """Anything with a left and a right text, such as a row of a file of pairs."""

    @property
    def left(self) -> str:
        """The first text."""

    @property
    def right(self) -> str:
        """The second text."""


def explain(
    encoder: Encoder,
    left: str,
    right: str,
    method: str = "bilrp",
    by: str | tuple[Sequence[Span], Sequence[Span]] = "token",
    similarity: str = "cosine",
    *,
    left_prompt: str | None = None,
    right_prompt: str | None = None,
    **settings: Unpack[SettingOptions],
) -> Explanation:
    """Why the encoder finds two texts as similar as it does.

    ``by`` is token, word, sentence, or the character spans of both texts; a prompt of None is the model's own.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> found = explain(encoder, "Fire in hospital kills 38", "38 feared dead in hospital fire")
    >>> round(found.similarity, 2), abs(found.gap) < 1e-5
    (0.84, True)
    """
    chosen = Settings(**settings)
    groups = _groups(by)
    texts = [Prompted(left, left_prompt, groups[0]), Prompted(right, right_prompt, groups[1])]
    check_similarity(similarity)
    if chosen.bias == "drawn":
        chosen = replace(chosen, bias=drawn_bias(encoder, texts, chosen) if can_share(method, chosen) else "separate")
    unique = texts[:1] if texts[0] == texts[1] else texts
    found = dict(contribution_stream(encoder, unique, method, chosen))
    report_truncation(sum(one.truncated for one in found.values()), len(found), encoder.tokenizer.limit)
    facts = facts_of(encoder, method, by if isinstance(by, str) else "span", similarity, chosen)
    return explanation(found[0], found[len(unique) - 1], facts, chosen.seed)


def explain_many(
    encoder: Encoder,
    pairs: Iterable[tuple[str, str] | TextPair],
    method: str = "bilrp",
    by: str = "token",
    similarity: str = "cosine",
    *,
    left_prompt: str | None = None,
    right_prompt: str | None = None,
    progress: Progress | None = None,
    **settings: Unpack[SettingOptions],
) -> Iterator[Explanation]:
    """Explanations of many pairs, in order; a text that comes again is not computed again.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> pairs = [("A cat sat.", "A dog ran."), ("A cat sat.", "It rains.")]
    >>> [round(one.similarity, 2) for one in explain_many(encoder, pairs)]
    [0.24, 0.12]
    """
    chosen = Settings(**settings)
    check_similarity(similarity)
    check(encoder, method, chosen)
    check_by(by)
    facts = facts_of(encoder, method, by, similarity, chosen)
    sides = [_sides(pair, left_prompt, right_prompt, by) for pair in pairs]
    return _explanations(encoder, sides, facts, chosen, progress)


def _groups(by: str | tuple[Sequence[Span], Sequence[Span]]) -> tuple[By, By]:
    """How the left and the right text are grouped."""
    if isinstance(by, str):
        return by, by
    if not isinstance(by, (tuple, list)) or len(by) != 2:
        raise UsageError("by takes token, word, sentence, or a list of spans for each of the two texts")
    return by[0], by[1]


def _explanations(
    encoder: Encoder,
    sides: Sequence[tuple[Prompted, Prompted]],
    facts: Facts,
    chosen: Settings,
    progress: Progress | None,
) -> Iterator[Explanation]:
    """Window by window; contributions are kept until the last pair that needs them."""
    last_use = {text: place for place, pair in enumerate(sides) for text in pair}
    ticker = Ticker(progress, len(sides), "pairs")
    known: dict[Prompted, Contributions] = {}
    truncated = 0
    for window in _windows(sides):
        new = list(dict.fromkeys(text for place in window for text in sides[place] if text not in known))
        for place, found in _ticked(contribution_stream(encoder, new, facts.method, chosen), ticker):
            known[new[place]] = found
            truncated += found.truncated
        for place in window:
            first, second = sides[place]
            yield explanation(known[first], known[second], facts, chosen.seed)
            ticker.add()
            for text in {first, second}:
                if last_use[text] == place:
                    del known[text]
    ticker.close()
    report_truncation(truncated, len(last_use), encoder.tokenizer.limit)


def _ticked(stream: Iterator[tuple[int, Contributions]], ticker: Ticker) -> Iterator[tuple[int, Contributions]]:
    """Let the progress callable hear, and cancel, while a window's texts are computed."""
    for item in stream:
        ticker.add(0)
        yield item


def _sides(
    pair: tuple[str, str] | TextPair, left_prompt: str | None, right_prompt: str | None, by: str
) -> tuple[Prompted, Prompted]:
    left, right = pair if isinstance(pair, (tuple, list)) else (pair.left, pair.right)
    return Prompted(left, left_prompt, by), Prompted(right, right_prompt, by)


def _windows(sides: Sequence[tuple[Prompted, Prompted]]) -> Iterator[list[int]]:
    """Places of consecutive pairs, cut where their texts reach the window's letters."""
    window: list[int] = []
    letters = 0
    for place, pair in enumerate(sides):
        window.append(place)
        letters += sum(len(text.text) for text in pair)
        if letters >= WINDOW_LETTERS:
            yield window
            window, letters = [], 0
    if window:
        yield window


def check_similarity(similarity: str) -> None:
    """Refuse an unknown measure."""
    if similarity not in MEASURES:
        raise UsageError(f"unknown similarity {similarity!r}; choose from {', '.join(MEASURES)}")


def facts_of(encoder: Encoder, method: str, by: str, similarity: str, settings: Settings) -> Facts:
    """How an explanation is about to be made."""
    method_named(method)
    rules = settings.rules if method == "bilrp" else ()
    complete = is_complete(method, settings)
    bias = settings.bias if complete else "separate"
    layer = str(encoder.reading.layer)
    return Facts(method, encoder.name, encoder.reading.pooling, by, similarity, bias, complete, layer, rules)


def explanation(left: Contributions, right: Contributions, facts: Facts, seed: int = 0) -> Explanation:
    """The ledger of two texts whose contributions are known: a matrix product."""
    method = METHODS[facts.method]
    lengths = _lengths(left.vector) * _lengths(right.vector)
    scale = 1.0 if facts.measure == "dot" else 1 / (left.divisor * right.divisor)
    score = float(left.vector.astype(np.float64) @ right.vector.astype(np.float64))
    similarity = score if facts.measure == "dot" else score / (lengths or 1.0)
    left_bias, right_bias = left.bias.astype(np.float64), right.bias.astype(np.float64)
    both = float(left_bias @ right_bias) * scale
    with_right, with_left = left.values @ right_bias * scale, right.values @ left_bias * scale
    reference = {}
    if method.reference:
        reference = {"f(r,y)": float(with_left.sum()) + both, "f(x,r)": float(with_right.sum()) + both, "f(r,r)": both}
    return Explanation(
        _side(left, right, scale), _side(right, left, scale), method.relevance(left, right, seed) * scale,
        with_right, with_left, both, similarity, facts,
        TOLERANCE if facts.measure == "cosine" else TOLERANCE * max(1.0, lengths), reference,
    )  # fmt: skip


def _lengths(vector: Array | np.ndarray) -> float:
    return float(np.linalg.norm(vector.astype(np.float64)))


def _side(own: Contributions, other: Contributions, scale: float) -> ExplainedText:
    parts = {name: values.astype(np.float64) @ other.vector * scale for name, values in own.parts.items()}
    return ExplainedText(own.text, own.units, own.truncated, own.ids, parts)
