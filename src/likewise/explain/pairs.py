"""The ledgers of pairs, one or thousands, by rows or by columns, whichever is cheaper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from likewise.encoder import Encoder, takes_encoder
from likewise.encoder.forward import steady_memory
from likewise.encoder.similarity import MEASURES
from likewise.encoder.tokens import report_truncation
from likewise.encoder.workers import ALONE, done_by_team, team_of
from likewise.errors import UsageError
from likewise.explain.explanation import (
    TOLERANCE,
    Array,
    ExplainedText,
    Explanation,
    Metadata,
    PairShares,
    require_complete,
)
from likewise.explain.linear_map import METHODS, has_columns, is_complete, method_named
from likewise.explain.settings import FILLER, NO_REFERENCE, Settings
from likewise.explain.texts import (
    Contributions,
    Granularity,
    Shares,
    TextInput,
    TextMap,
    TokenGroups,
    Unit,
    check,
    check_granularity,
    contribution_stream,
    token_groups,
)
from likewise.grammar.spans import Span
from likewise.progress import Progress, Ticker

WINDOW_PAIRS = 256  # Pairs that are explained together
WINDOW_CHARACTERS = 200_000  # The same in characters of text; bounds the memory


class TextPair(Protocol):
    """Anything with a left and a right text, such as a row of a file of pairs."""

    @property
    def left(self) -> str:
        """The first text."""

    @property
    def right(self) -> str:
        """The second text."""


Spans = tuple[Sequence[Span], Sequence[Span]]  # Character spans of the left and of the right text


@takes_encoder
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
) -> Any:
    """Why the encoder finds two texts as similar as it does.

    ``granularity`` is token, word, sentence, or the character spans of both texts; a prompt of None is the model's own.
    ``top`` keeps the strongest units of each side and makes one unit, "(rest)", of all others. ``shares_only`` gives
    what each unit makes of the score without the matrix of unit pairs, as :class:`PairShares`, at the cost of one
    transposed pass a text; without it the result is an :class:`Explanation`.

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
    texts = [TextInput(*each) for each in zip((left, right), prompts, unit_granularity(granularity), strict=True)]
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


@takes_encoder
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
    """Explanations of many pairs, in order; a repeated text is computed once. ``top``: see ``explain``.

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
    return _explained(encoder, sides, ExplainPairs(metadata, chosen, top), progress)


def unit_granularity(granularity: str | Spans) -> tuple[Granularity, Granularity]:
    """How the left and the right text are grouped."""
    if isinstance(granularity, str):
        return granularity, granularity
    if not isinstance(granularity, (tuple, list)) or len(granularity) != 2:
        raise UsageError("granularity takes token, word, sentence, or a list of spans for each of the two texts")
    return granularity[0], granularity[1]


TextInputs = tuple[TextInput, TextInput]


@dataclass(frozen=True)
class ExplainPairs:
    """The task of a worker: the explanations of a window of pairs, all made in one way."""

    metadata: Metadata
    settings: Settings
    top: int | None = None

    def __call__(self, encoder: Encoder, window: Sequence[TextInputs], progress: Progress | None) -> list[Explanation]:
        """The explanations, in order."""
        return list(self.stream(encoder, window, progress))

    def stream(
        self, encoder: Encoder, window: Sequence[TextInputs], progress: Progress | None
    ) -> Iterator[Explanation]:
        """The same one by one: those of long texts are large."""
        job = _Job(encoder, window, self.metadata, self.settings, progress)
        return job.explanations() if self.top is None else job.top_explanations(self.top)


def _explained(
    encoder: Encoder, sides: Sequence[TextInputs], task: ExplainPairs, progress: Progress | None
) -> Iterator[Explanation]:
    """The explanations of all pairs, window by window, by the encoder's team."""
    ticker, cut = Ticker(progress, len(sides), "pairs"), set[TextInput]()
    windows = [[sides[index] for index in window] for window in pair_windows(sides)]
    done: Iterable[tuple[Sequence[TextInputs], Iterable[Explanation]]]
    if team_of(encoder) is ALONE:
        done = ((window, task.stream(encoder, window, ticker.part())) for window in windows)
    else:
        done = done_by_team(encoder, task, windows, ticker)
    with steady_memory() if len(windows) > 1 else nullcontext():  # as workers do
        for window, explanations in done:
            for pair, one in zip(window, explanations, strict=True):
                cut |= {text for text, side in zip(pair, (one.left, one.right), strict=True) if side.truncated}
                yield one
    ticker.close()
    report_truncation(len(cut), len({text for pair in sides for text in pair}), encoder.tokenizer.limit)


@dataclass(frozen=True)
class _Job:
    """A window of pairs that are explained in one way."""

    encoder: Encoder
    sides: Sequence[TextInputs]
    metadata: Metadata
    settings: Settings
    progress: Progress | None

    def explanations(self) -> Iterator[Explanation]:
        """Contributions are kept until the last pair that needs them."""
        last_use = {text: index for index, pair in enumerate(self.sides) for text in pair}
        uses = Counter(text for pair in self.sides for text in set(pair))
        ticker = Ticker(self.progress, len(self.sides), "pairs")
        groups = {text: self._grouped(text) for pair in self.sides for text in pair}
        ordered = [sorted(pair, key=lambda text: len(groups[text].units)) for pair in self.sides]
        pulled = [self._goes_by_columns(pair, groups, uses) for pair in ordered]
        needed = (text for pair, is_pulled in zip(ordered, pulled, strict=True) for text in pair[: 2 - is_pulled])
        known: dict[TextInput, Contributions] = {}
        new = list(dict.fromkeys(needed))
        for index, found in contribution_stream(self.encoder, new, self.metadata.method, self.settings):
            ticker.add(0)  # progress may cancel while a window's texts are computed
            known[new[index]] = found
        for index, (left, right) in enumerate(self.sides):
            if pulled[index]:
                rows, other = ordered[index]
                recorded = TextMap.of(self.encoder, groups[other], self.settings)
                yield pulled_back(known[rows], recorded, self.metadata, rows == left)
            else:
                yield explanation(known[left], known[right], self.metadata, self.settings.seed)
            ticker.add()
            for text in {left, right}:
                if last_use[text] == index:
                    known.pop(text, None)
        ticker.close()

    def top_explanations(self, top: int) -> Iterator[Explanation]:
        """The strongest units of each pair, pair by pair."""
        ticker = Ticker(self.progress, len(self.sides), "pairs")
        for pair in self.sides:
            left, right = (TextMap.of(self.encoder, self._grouped(text), self.settings) for text in pair)
            yield explained_top(left, right, self.metadata, top)
            ticker.add()
        ticker.close()

    def _grouped(self, text: TextInput) -> TokenGroups:
        return token_groups(self.encoder, text, self.settings)

    def _goes_by_columns(
        self, pair: Sequence[TextInput], groups: dict[TextInput, TokenGroups], uses: Counter[TextInput]
    ) -> bool:
        """Whether a pair, fewer units first, goes by columns of its second text."""
        fewer, more = (len(groups[text].units) for text in pair)
        return has_columns(self.metadata.method, self.settings) and columns_pay(fewer, more, uses[pair[1]])


def _sides(
    pair: tuple[str, str] | TextPair, left_prompt: str | None, right_prompt: str | None, granularity: str
) -> TextInputs:
    left, right = pair if isinstance(pair, (tuple, list)) else (pair.left, pair.right)
    return TextInput(left, left_prompt, granularity), TextInput(right, right_prompt, granularity)


def window_start(pairs: Sequence[tuple[str, str] | TextPair], index: int) -> int:
    """The first pair of the window that holds a pair."""
    sides = [_sides(pair, None, None, "token") for pair in pairs]
    return max((window[0] for window in pair_windows(sides) if window[0] <= index), default=0)


def pair_windows(sides: Sequence[TextInputs]) -> Iterator[list[int]]:
    """Indices of consecutive pairs, cut where their texts fill a window."""
    window: list[int] = []
    characters = 0
    for index, pair in enumerate(sides):
        window.append(index)
        characters += sum(len(text.text) for text in pair)
        if len(window) == WINDOW_PAIRS or characters >= WINDOW_CHARACTERS:
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


COLUMN_COST = 1.2  # A transposed pass, in rows of a replay (bench/explain.py)


def check_similarity(similarity: str) -> None:
    """Refuse an unknown measure."""
    if similarity not in MEASURES:
        raise UsageError(f"unknown similarity {similarity!r}; choose from {', '.join(MEASURES)}")


def metadata_of(encoder: Encoder, method: str, granularity: str, similarity: str, settings: Settings) -> Metadata:
    """How an explanation is about to be made."""
    rules = settings.rules if method == "bilrp" else ()
    complete = is_complete(method, settings)
    bias, reference = (settings.bias, settings.reference) if complete else ("separate", NO_REFERENCE)
    if method_named(method).reference:
        reference = FILLER
    layer = str(encoder.pooling_config.layer)
    return Metadata(
        method, encoder.name, encoder.pooling_config.pooling, granularity, similarity, bias, complete, layer, rules,
        reference,
    )  # fmt: skip


def explanation(left: Contributions, right: Contributions, metadata: Metadata, seed: int = 0) -> Explanation:
    """The ledger of two texts whose contributions are known: a matrix product."""
    scale = _scale(left, right, metadata)
    left_bias, right_bias = left.bias.astype(np.float64), right.bias.astype(np.float64)
    both = float(left_bias @ right_bias) * scale
    with_right, with_left = left.values @ right_bias * scale, right.values @ left_bias * scale
    relevance = RELEVANCE.get(metadata.method, dot_products)(left, right, seed) * scale
    reference = {}
    if METHODS[metadata.method].reference:
        reference = {"f(r,y)": float(with_left.sum()) + both, "f(x,r)": float(with_right.sum()) + both, "f(r,r)": both}
    return Explanation(
        _side(left, right, scale), _side(right, left, scale), relevance, with_right, with_left, both,
        _score(left, right, metadata), metadata, _tolerance(left, right, metadata), reference,
    )  # fmt: skip


def dot_products(left: Contributions, right: Contributions, _seed: int = 0) -> Array:
    """<c_i, d_j>: (n, m)."""
    return left.values.astype(np.float64) @ right.values.astype(np.float64).T


def squared_dot_products(left: Contributions, right: Contributions, seed: int) -> Array:
    """<c_i, d_j>^2, as the published embedding baseline has it, on the scale of one product: (n, m)."""
    products = dot_products(left, right, seed)
    return products**2 / (left.divisor * right.divisor)


def random_numbers(left: Contributions, right: Contributions, seed: int) -> Array:
    """Noise that depends on the seed and on both texts: (n, m)."""
    texts = [text.encode("utf-8", "replace") for text in (left.text, right.text)]
    characters = [number for text in texts for number in (len(text), *text[:64])]
    noise = np.random.default_rng([seed, *characters]).standard_normal((len(left.units), len(right.units)))
    return noise * left.divisor * right.divisor / noise.size


RELEVANCE = {"embedding-squared": squared_dot_products, "random": random_numbers}
"""The methods whose relevance is more than a product of contributions."""


def columns_pay(fewer: int, more: int, uses: int = 1) -> bool:
    """Whether to pull the ``fewer`` units of one text back, or to compute the rows of the ``more`` units of the other.

    ``uses`` is the number of pairs that would share those rows.
    """
    return COLUMN_COST * (fewer + 1) * uses < more + 1


def explained_maps(left: TextMap, right: TextMap, metadata: Metadata) -> Explanation:
    """The ledger of two texts that are recorded."""
    units = len(left.token_groups.units), len(right.token_groups.units)
    if not columns_pay(min(units), max(units)):
        return explanation(left.contributions(), right.contributions(), metadata)
    if units[0] <= units[1]:
        return pulled_back(left.contributions(), right, metadata)
    return pulled_back(right.contributions(), left, metadata, rows_are_left=False)


def pulled_back(rows: Contributions, other: TextMap, metadata: Metadata, rows_are_left: bool = True) -> Explanation:
    """The ledger by columns: the rows of one text, and its vector, pulled back through the other text.

    The bias row's cells are the vector's cells less the other rows'. To pull it back by itself would cost as much and
    round more: rows and bias may be far longer than their sum (all-mpnet-base-v2). So the ledger's sum alone would
    check neither the rows nor single columns; both are checked on their own.
    """
    n, has_bias = len(rows.units), bool(rows.bias.any())
    directions = np.concatenate([rows.values, rows.vector[None]]) if has_bias else rows.values
    columns = other.shares(directions)
    scale = _scale(rows, columns, metadata)
    values, bias = columns.values * scale, columns.bias * scale
    score, tolerance = _score(rows, columns, metadata), _tolerance(rows, columns, metadata)
    require_complete(score, rows.missing * columns.length * scale, tolerance)
    _check_columns(values, bias, directions.astype(np.float64) @ columns.vector * scale, tolerance)
    across, both = np.zeros(values.shape[1]), 0.0
    if has_bias:
        across, both = values[n] - values[:n].sum(0), float(bias[n] - bias[:n].sum())
    whole = slice(n, None) if has_bias else slice(None)  # the directions that sum to the rows' vector
    sides = _side(rows, columns, scale), _shared_side(columns, scale, whole)
    cells = values[:n], bias[:n], across
    if not rows_are_left:
        sides, cells = sides[::-1], (values[:n].T, across, bias[:n])
    return Explanation(*sides, *cells, both, score, metadata, tolerance)


def _check_columns(values: Array, bias: Array, products: Array, tolerance: float) -> None:
    """Reject shares (K, n) and biases (K,) that miss their products (K,), given the size of their terms."""
    gaps = products - values.sum(1) - bias
    sizes = np.maximum(1.0, np.abs(values).sum(1) + np.abs(bias))
    worst = int((np.abs(gaps) / sizes).argmax())
    require_complete(float(products[worst]), float(gaps[worst]), tolerance * float(sizes[worst]))


def pair_shares(left: TextMap, right: TextMap, metadata: Metadata) -> PairShares:
    """What each unit of two recorded texts makes of their similarity: a transposed pass a text."""
    first, second = left.shares(right.vector[None]), right.shares(left.vector[None])
    scale = _scale(first, second, metadata)
    return PairShares(
        _shared_side(first, scale), _shared_side(second, scale), first.values[0] * scale, second.values[0] * scale,
        float(first.bias[0]) * scale, float(second.bias[0]) * scale, _score(first, second, metadata), metadata,
        _tolerance(first, second, metadata),
    )  # fmt: skip


def explained_top(left: TextMap, right: TextMap, metadata: Metadata, top: int) -> Explanation:
    """The ledger of the strongest units of two recorded texts, with all others as one unit a side."""
    shares = pair_shares(left, right, metadata)
    return explained_maps(
        _strongest(left, shares.left_shares, top), _strongest(right, shares.right_shares, top), metadata
    )


def _strongest(one: TextMap, shares: Array, count: int) -> TextMap:
    """The units with the largest shares, in the order of the text, and all others as one."""
    units = one.token_groups.units
    if len(units) <= count + 1:
        return one
    chosen = sorted(np.argsort(-np.abs(shares), kind="stable")[:count])
    others = sorted({token for unit in units for token in unit.tokens} - {t for i in chosen for t in units[i].tokens})
    rest = Unit("(rest)", 0, 0, tuple(others), "rest")
    return one.regrouped((*(units[index] for index in chosen), rest))


def _score(left: Shares, right: Shares, metadata: Metadata) -> float:
    """The shown similarity, by the model's own vectors."""
    score = float(left.vector.astype(np.float64) @ right.vector.astype(np.float64))
    return score if metadata.similarity == "dot" else score / (left.length * right.length or 1.0)


def _scale(left: Shares, right: Shares, metadata: Metadata) -> float:
    """What products of contributions are multiplied by."""
    return 1.0 if metadata.similarity == "dot" else 1 / (left.divisor * right.divisor)


def _tolerance(left: Shares, right: Shares, metadata: Metadata) -> float:
    return TOLERANCE if metadata.similarity == "cosine" else TOLERANCE * max(1.0, left.length * right.length)


def _side(own: Contributions, other: Shares, scale: float) -> ExplainedText:
    parts = {name: values.astype(np.float64) @ other.vector * scale for name, values in own.parts.items()}
    return ExplainedText(own.text, own.units, own.truncated, own.ids, parts)


def _shared_side(own: Shares, scale: float, whole: slice = slice(None)) -> ExplainedText:
    """A side whose shares are known; ``whole`` are the directions that sum to the other side's vector."""
    parts = {name: values[whole].sum(0) * scale for name, values in own.parts.items()}
    return ExplainedText(own.text, own.units, own.truncated, own.ids, parts)
