"""Pairs -> explanations, one or thousands, each by rows or by columns, whichever is cheaper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol, overload

from likewise.encoder import Encoder
from likewise.encoder.tokens import report_truncation
from likewise.errors import UsageError
from likewise.explain.explanation import Explanation, Metadata, PairShares
from likewise.explain.ledger import (
    check_similarity,
    columns_pay,
    explained_maps,
    explained_top,
    explanation,
    metadata_of,
    pair_shares,
    pulled_back,
)
from likewise.explain.methods import has_columns
from likewise.explain.settings import Settings
from likewise.explain.texts import (
    Contributions,
    TextInput,
    TextMap,
    TokenGroups,
    check,
    contribution_stream,
    token_groups,
)
from likewise.explain.units import Granularity, check_granularity
from likewise.grammar.spans import Span
from likewise.progress import Progress, Ticker

WINDOW_CHARACTERS = 200_000
"""Characters of text whose contributions are computed together by ``explain_many``; bounds its memory."""


class TextPair(Protocol):
    """Anything with a left and a right text, such as a row of a file of pairs."""

    @property
    def left(self) -> str:
        """The first text."""

    @property
    def right(self) -> str:
        """The second text."""


Spans = tuple[Sequence[Span], Sequence[Span]]
"""Character spans of the left and of the right text."""


@overload
def explain(
    encoder: Encoder, left: str, right: str, method: str = ..., granularity: str | Spans = ..., similarity: str = ...,
    *, shares_only: Literal[False] = ..., **settings: Any,
) -> Explanation:  # fmt: skip
    """With the matrix of unit pairs."""


@overload
def explain(
    encoder: Encoder, left: str, right: str, method: str = ..., granularity: str | Spans = ..., similarity: str = ...,
    *, shares_only: Literal[True], **settings: Any,
) -> PairShares:  # fmt: skip
    """Without it."""


def explain(
    encoder: Encoder,
    left: str,
    right: str,
    method: str = "bilrp",
    granularity: str | Spans = "token",
    similarity: str = "cosine",
    *,
    left_prompt: str | None = None,
    right_prompt: str | None = None,
    top: int | None = None,
    shares_only: bool = False,
    **settings: Any,
) -> Explanation | PairShares:
    """Why the encoder finds two texts as similar as it does.

    ``granularity`` is token, word, sentence, or the character spans of both texts; a prompt of None is the model's own.
    ``top`` keeps the strongest units of each side and makes one unit, "(rest)", of all others. ``shares_only`` gives
    what each unit makes of the score without the matrix of unit pairs, at the cost of one transposed pass a text.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> found = explain(encoder, "Fire in hospital kills 38", "38 feared dead in hospital fire")
    >>> round(found.similarity, 2), abs(found.gap) < 1e-5
    (0.84, True)
    """
    chosen = Settings(**settings)
    check_similarity(similarity)
    check(encoder, method, chosen)
    if shares_only and top is not None:
        raise UsageError("shares alone are cheap for all units; leave top or shares_only out")
    check_top(1 if shares_only else top, method, chosen)
    metadata = metadata_of(encoder, method, granularity if isinstance(granularity, str) else "span", similarity, chosen)
    prompts = (left_prompt, right_prompt)
    texts = [TextInput(*each) for each in zip((left, right), prompts, _groups(granularity), strict=True)]
    sides = [token_groups(encoder, text, chosen) for text in texts]
    unique = texts[:1] if texts[0] == texts[1] else texts
    report_truncation(sum(side.tokens.truncated for side in sides[: len(unique)]), len(unique), encoder.tokenizer.limit)
    fewer, more = sorted(len(side.units) for side in sides)
    if not (top or shares_only or (has_columns(method, chosen) and columns_pay(fewer, more))):
        found = dict(contribution_stream(encoder, unique, method, chosen))
        return explanation(found[0], found[len(unique) - 1], metadata, chosen.seed)
    maps = [TextMap.of(encoder, side, chosen) for side in sides]
    if shares_only:
        return pair_shares(maps[0], maps[1], metadata)
    return explained_maps(maps[0], maps[1], metadata) if top is None else explained_top(maps[0], maps[1], metadata, top)


def explain_many(
    encoder: Encoder,
    pairs: Iterable[tuple[str, str] | TextPair],
    method: str = "bilrp",
    granularity: str = "token",
    similarity: str = "cosine",
    *,
    left_prompt: str | None = None,
    right_prompt: str | None = None,
    top: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Iterator[Explanation]:
    """Explanations of many pairs, in order; a text that comes again is not computed again. ``top``: see ``explain``.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> pairs = [("A cat sat.", "A dog ran."), ("A cat sat.", "It rains.")]
    >>> [round(one.similarity, 2) for one in explain_many(encoder, pairs)]
    [0.24, 0.12]
    """
    chosen = Settings(**settings)
    check_similarity(similarity)
    check(encoder, method, chosen)
    check_granularity(granularity)
    check_top(top, method, chosen)
    metadata = metadata_of(encoder, method, granularity, similarity, chosen)
    sides = [_sides(pair, left_prompt, right_prompt, granularity) for pair in pairs]
    if top is not None:
        return _top_explanations(encoder, sides, metadata, chosen, top, progress)
    return _explanations(encoder, sides, metadata, chosen, progress)


def _groups(granularity: str | Spans) -> tuple[Granularity, Granularity]:
    """How the left and the right text are grouped."""
    if isinstance(granularity, str):
        return granularity, granularity
    if not isinstance(granularity, (tuple, list)) or len(granularity) != 2:
        raise UsageError("granularity takes token, word, sentence, or a list of spans for each of the two texts")
    return granularity[0], granularity[1]


def _explanations(
    encoder: Encoder,
    sides: Sequence[tuple[TextInput, TextInput]],
    metadata: Metadata,
    chosen: Settings,
    progress: Progress | None,
) -> Iterator[Explanation]:
    """Window by window; contributions are kept until the last pair that needs them."""
    last_use = {text: index for index, pair in enumerate(sides) for text in pair}
    uses = Counter(text for pair in sides for text in set(pair))
    columns = has_columns(metadata.method, chosen)
    ticker = Ticker(progress, len(sides), "pairs")
    known: dict[TextInput, Contributions] = {}
    cut: set[TextInput] = set()
    for window in _windows(sides):
        groups = {text: token_groups(encoder, text, chosen) for index in window for text in sides[index]}
        cut |= {text for text, group in groups.items() if group.tokens.truncated}
        pulled = {index for index in window if columns and _pulled(sides[index], groups, uses)}
        needed = (text for index in window for text in _row_sides(sides[index], groups, index in pulled))
        new = list(dict.fromkeys(text for text in needed if text not in known))
        for index, found in _ticked(contribution_stream(encoder, new, metadata.method, chosen), ticker):
            known[new[index]] = found
        for index in window:
            pair = sides[index]
            if index in pulled:
                yield _pulled_back(encoder, pair, groups, known, metadata, chosen)
            else:
                yield explanation(known[pair[0]], known[pair[1]], metadata, chosen.seed)
            ticker.add()
            for text in set(pair):
                if last_use[text] == index:
                    known.pop(text, None)
    ticker.close()
    report_truncation(len(cut), len(last_use), encoder.tokenizer.limit)


def _top_explanations(
    encoder: Encoder,
    sides: Sequence[tuple[TextInput, TextInput]],
    metadata: Metadata,
    chosen: Settings,
    top: int,
    progress: Progress | None,
) -> Iterator[Explanation]:
    """The strongest units of each pair, pair by pair."""
    ticker, cut = Ticker(progress, len(sides), "pairs"), 0
    for pair in sides:
        groups = [token_groups(encoder, text, chosen) for text in pair]
        cut += sum(group.tokens.truncated for group in groups)
        left, right = (TextMap.of(encoder, group, chosen) for group in groups)
        yield explained_top(left, right, metadata, top)
        ticker.add()
    ticker.close()
    report_truncation(cut, 2 * len(sides), encoder.tokenizer.limit)


def _pulled(pair: tuple[TextInput, TextInput], groups: dict[TextInput, TokenGroups], uses: Counter[TextInput]) -> bool:
    """Whether a pair goes by columns of its text with more units."""
    fewer, more = sorted(pair, key=lambda text: len(groups[text].units))
    return columns_pay(len(groups[fewer].units), len(groups[more].units), uses[more])


def _row_sides(
    pair: tuple[TextInput, TextInput], groups: dict[TextInput, TokenGroups], pulled: bool
) -> tuple[TextInput, ...]:
    """The texts of a pair whose rows are needed."""
    return (min(pair, key=lambda text: len(groups[text].units)),) if pulled else pair


def _pulled_back(
    encoder: Encoder,
    pair: tuple[TextInput, TextInput],
    groups: dict[TextInput, TokenGroups],
    known: dict[TextInput, Contributions],
    metadata: Metadata,
    chosen: Settings,
) -> Explanation:
    left_has_rows = len(groups[pair[0]].units) <= len(groups[pair[1]].units)
    rows, other = pair if left_has_rows else pair[::-1]
    return pulled_back(known[rows], TextMap.of(encoder, groups[other], chosen), metadata, left_has_rows)


def _ticked(stream: Iterator[tuple[int, Contributions]], ticker: Ticker) -> Iterator[tuple[int, Contributions]]:
    """Call ``progress``, which may cancel, while a window's texts are computed."""
    for item in stream:
        ticker.add(0)
        yield item


def _sides(
    pair: tuple[str, str] | TextPair, left_prompt: str | None, right_prompt: str | None, granularity: str
) -> tuple[TextInput, TextInput]:
    left, right = pair if isinstance(pair, (tuple, list)) else (pair.left, pair.right)
    return TextInput(left, left_prompt, granularity), TextInput(right, right_prompt, granularity)


def _windows(sides: Sequence[tuple[TextInput, TextInput]]) -> Iterator[list[int]]:
    """Indices of consecutive pairs, cut where their texts fill a window."""
    window: list[int] = []
    characters = 0
    for index, pair in enumerate(sides):
        window.append(index)
        characters += sum(len(text.text) for text in pair)
        if characters >= WINDOW_CHARACTERS:
            yield window
            window, characters = [], 0
    if window:
        yield window


def check_top(top: int | None, method: str, settings: Settings) -> None:
    """Refuse a number of strongest units, or shares alone, where there are no columns."""
    if top is None:
        return
    if not has_columns(method, settings):
        raise UsageError("strongest units and shares alone go with bilrp and all its rules; and not with bias='shared'")
    if not isinstance(top, int) or top < 1:
        raise UsageError(f"top is a whole number of units from 1 on, got {top}")
