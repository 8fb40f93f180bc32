"""Texts -> units with contributions or shares, in batches; no text is computed twice, thanks to a cache on disk."""

from __future__ import annotations

import json
import operator
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.encoder import Encoder, takes_encoder
from likewise.encoder.forward import Batch, embed, embedding_parts, windows
from likewise.encoder.pooling import pooling_parts
from likewise.encoder.tokens import TokenizedText, report_truncation
from likewise.encoder.weights import identity
from likewise.errors import DataError, UsageError
from likewise.explain.linear_map import (
    ROW_TOKENS,
    Inputs,
    LinearMap,
    Replayed,
    is_complete,
    method_named,
    reference_parts,
    start_layer,
)
from likewise.explain.settings import FILLER, NO_REFERENCE, Settings
from likewise.grammar.spans import Span, sentence_spans, word_spans
from likewise.progress import Progress, Ticker
from likewise.storage import FileCache, content_key

CACHE_FORMAT = 1
MOST_BYTES = 2**28  # What the folder may take; beyond, the files used longest ago go first
IRRELEVANT = ("memory", "seed")  # Settings that contributions by bilrp do not depend on
Granularity = str | Sequence[Span]  # `token`, `word`, `sentence`, or the character spans of the groups
Kind = Literal["text", "special", "prompt", "rest"]  # `rest`: the units that are not named, as one


@dataclass(frozen=True)
class Unit:
    """A group of tokens that is explained as one."""

    text: str
    start: int
    end: int
    tokens: tuple[int, ...]  # positions of its tokens in the text
    kind: Kind = "text"


def units_of(tokens: TokenizedText, granularity: Granularity, fold_special: bool = False) -> tuple[Unit, ...]:
    """Group a text's tokens; special tokens stand alone or, folded, together, and so does a prompt."""
    assert isinstance(tokens.text, str)
    check_granularity(granularity)
    groups: dict[object, list[int]] = {}
    spans = [] if granularity == "token" else _spans(tokens.text, granularity)
    for position, inside in enumerate(tokens.spans_of(spans)):
        key: object = ("token", position)
        if tokens.special[position]:
            key = "special" if fold_special else key
        elif granularity != "token":
            key = "prompt" if tokens.prompt[position] else key if inside is None else inside
        groups.setdefault(key, []).append(position)
    return tuple(_unit(tokens, indices) for indices in groups.values())


def check_granularity(granularity: Granularity) -> None:
    """Refuse an unknown way of grouping."""
    if isinstance(granularity, str) and granularity not in ("token", *SPANS):
        raise UsageError(f"cannot explain by {granularity!r}; choose from token, {', '.join(SPANS)}, or give spans")


def _unit(tokens: TokenizedText, indices: list[int]) -> Unit:
    first = indices[0]
    start = min(tokens.offsets[position][0] for position in indices)
    end = max(tokens.offsets[position][1] for position in indices)
    kind: Kind = "special" if tokens.special[first] else "prompt" if tokens.prompt[first] else "text"
    # The text as written, where there is any: a tokenizer's own marks say little.
    text = str(tokens.text)[start:end] if kind == "text" else ""
    names = list(dict.fromkeys(tokens.tokens[position] for position in indices))
    return Unit(text if text.strip() else " ".join(names), start, end, tuple(indices), kind)


def _spans(text: str, granularity: Granularity) -> list[Span]:
    if isinstance(granularity, str):
        return SPANS[granularity](text)
    try:
        given = sorted((operator.index(start), operator.index(end)) for start, end in granularity)
    except (TypeError, ValueError) as error:
        raise UsageError("a span is two character positions such as (0, 12)") from error
    for start, end in given:
        if not 0 <= start < end <= len(text):
            raise DataError(f"the span {start}:{end} does not lie in a text of {len(text)} characters")
    if any(first[1] > second[0] for first, second in pairwise(given)):
        raise DataError("spans overlap; each character can belong to one span only")
    # What the spans leave over is grouped by words.
    covered = set().union(*(range(*span) for span in given)) if given else set()
    rest = [span for span in word_spans(text) if not covered & set(range(*span))]
    return sorted([*given, *rest])


SPANS: dict[str, Callable[[str], list[Span]]] = {"word": word_spans, "sentence": sentence_spans}


Floats = NDArray[Any]  # float32 or float64


@dataclass(frozen=True)
class TextInput:
    """A text, the prompt in front of it (None is the model's own) and how it is grouped."""

    text: str
    prompt: str | None = None
    granularity: Granularity = "token"


@dataclass(frozen=True)
class TokenGroups:
    """A tokenised text and its units."""

    tokens: TokenizedText
    units: tuple[Unit, ...]
    prompt: str


@dataclass(frozen=True, eq=False)
class Shares:
    """One text's units, their shares (K, n) in <vector, direction> for K directions, and the bias's (K,)."""

    text: str
    units: tuple[Unit, ...]
    values: Floats
    bias: Floats
    vector: Floats  # the model's own, (d,)
    truncated: bool = False
    parts: dict[str, Floats] = field(default_factory=dict)  # the values split by what the input embedding is made of
    ids: tuple[int, ...] = ()  # the ids of all tokens

    @property
    def length(self) -> float:
        """The length of the model's vector."""
        return float(np.linalg.norm(self.vector.astype(np.float64)))

    @property
    def divisor(self) -> float:
        """What the cosine divides by; 1 for a zero vector, whose similarity is 0."""
        return self.length or 1.0


@dataclass(frozen=True, eq=False)
class Contributions(Shares):
    """One text's units, their contributions (n, d), the bias's (d,), and the model's own vector (d,).

    phi(x) = c_1 + ... + c_n + c_bias. With a reference, its part is in the bias's.

    >>> one = Contributions("a", (Unit("a", 0, 1, (0,)),), np.ones((1, 2)), np.zeros(2), np.ones(2))
    >>> float(one.missing)
    0.0
    """

    own_length: float | None = None  # what the cosine divides by, if not the vector's length (embedding baseline)

    @property
    def missing(self) -> float:
        """The length of what the contributions leave of the vector; nan for a baseline, which sums to no vector."""
        if self.own_length is not None:
            return float("nan")
        total = self.values.sum(0, dtype=np.float64) + self.bias
        return float(np.linalg.norm(self.vector - total))

    @property
    def divisor(self) -> float:
        """What the cosine divides by; 1 for a zero vector, whose similarity is 0."""
        return (self.length if self.own_length is None else self.own_length) or 1.0


@takes_encoder
def contributions(
    encoder: Encoder,
    texts: Sequence[str],
    *,
    method: str = "bilrp",
    granularity: Granularity = "token",
    prompt: str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> list[Contributions]:
    """What each unit adds to each text's vector; a repeated text is computed once.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> contributions(encoder, ["A cat sat."])[0].values.shape
    (6, 384)
    """
    texts = [texts] if isinstance(texts, str) else texts
    unique = list(dict.fromkeys(texts))
    ticker = Ticker(progress, len(unique), "texts")
    found: dict[str, Contributions] = {}
    inputs = [TextInput(text, prompt, granularity) for text in unique]
    for index, one in contribution_stream(encoder, inputs, method, Settings(**settings)):
        found[unique[index]] = one
        ticker.add()
    ticker.close()
    report_truncation(sum(one.truncated for one in found.values()), len(unique), encoder.tokenizer.limit)
    return [found[text] for text in texts]


def contribution_stream(
    encoder: Encoder, texts: Sequence[TextInput], method: str, settings: Settings
) -> Iterator[tuple[int, Contributions]]:
    """The same text by text, longest first, each with its index; several short ones run together."""
    check(encoder, method, settings)
    chosen = method_named(method)
    if not is_complete(method, settings):
        settings = replace(settings, reference=NO_REFERENCE)
    groups = [token_groups(encoder, text, settings) for text in texts]
    for indices in _batches(groups, settings):
        batch = [groups[index] for index in indices]
        with torch.no_grad():
            replayed = chosen.values(encoder, _inputs(encoder, batch, settings), settings)
        for row, index in enumerate(indices):
            yield index, _one(batch[row], replayed, row, chosen.own_length, _part_names(encoder, settings))


def check(encoder: Encoder, method: str, settings: Settings) -> None:
    """Refuse what cannot be computed before any of it is."""
    method_named(method)
    if settings.split and method != "bilrp":
        raise UsageError("only bilrp can split its shares; leave split out")
    if not is_complete(method, settings):
        if settings.bias != "separate":
            raise UsageError(f"bias={settings.bias!r} goes with bilrp and all its rules; keep the biases separate")
        if settings.reference not in (NO_REFERENCE, FILLER):
            raise UsageError("a reference text goes with bilrp and all its rules; leave it out")
    if method_named(method).reference:
        start_layer(encoder, settings)
    # Baselines look at the embeddings alone.
    if "bilstm" in pooling_parts(encoder.pooling_config.pooling) and not method_named(method).own_length:
        raise UsageError(
            "bilstm pooling cannot be explained, since an LSTM is no sum over tokens; explain with --pooling mean"
        )
    if encoder.backend is not None:
        raise UsageError("explanations look inside the model, which only the backend torch allows; load it with that")


def token_groups(encoder: Encoder, text: TextInput, settings: Settings) -> TokenGroups:
    """Tokenise a text and group its tokens into units."""
    prompt = encoder.modules_config.prompt_for(None) if text.prompt is None else text.prompt
    (tokens,) = encoder.tokenize([text.text], prompt)
    if not len(tokens):
        raise DataError("a text without a single token cannot be explained; give at least one word")
    return TokenGroups(tokens, units_of(tokens, text.granularity, settings.fold_special), prompt)


@dataclass(frozen=True, eq=False)
class TextMap:
    """One text whose encoder is held as a linear map: its units' contributions, or their shares in directions."""

    token_groups: TokenGroups
    linear: LinearMap

    @classmethod
    def of(cls, encoder: Encoder, text: TokenGroups, settings: Settings) -> TextMap:
        """Record the text's forward pass."""
        with torch.no_grad():
            return cls(text, LinearMap.of(encoder, _inputs(encoder, [text], settings), settings))

    @property
    def vector(self) -> Floats:
        """The model's own vector, (d,)."""
        return _array(self.linear.vectors[0])

    def regrouped(self, units: tuple[Unit, ...]) -> TextMap:
        """The same record with other units."""
        text, inputs = replace(self.token_groups, units=units), self.linear.inputs
        inputs = replace(inputs, masks=unit_masks([text], inputs.x))
        return TextMap(text, replace(self.linear, inputs=inputs))

    def contributions(self) -> Contributions:
        """What each unit adds to the vector, by rows."""
        names = _part_names(self.linear.encoder, self.linear.settings)
        with torch.no_grad():
            return _one(self.token_groups, self.linear.rows(), 0, False, names)

    def shares(self, directions: Floats) -> Shares:
        """What each unit adds to the products of the vector with directions (K, d), by columns."""
        return next(_shares([self.token_groups], self.linear, directions))


def share_stream(
    encoder: Encoder, texts: Sequence[TextInput], directions: Floats, settings: Settings
) -> Iterator[tuple[int, Shares]]:
    """The shares of each text's units in directions (K, d), longest texts first, each with its index."""
    return group_shares(encoder, [token_groups(encoder, text, settings) for text in texts], directions, settings)


def group_shares(
    encoder: Encoder, groups: Sequence[TokenGroups], directions: Floats, settings: Settings
) -> Iterator[tuple[int, Shares]]:
    """The same for texts whose tokens are grouped already; directions (N, K, d) are those of each of N texts."""
    for indices in _batches(groups, settings, directions.shape[-2]):
        batch = [groups[index] for index in indices]
        with torch.no_grad():
            linear = LinearMap.of(encoder, _inputs(encoder, batch, settings), settings)
        given = directions if directions.ndim == 2 else directions[indices]
        yield from zip(indices, _shares(batch, linear, given), strict=True)


def _shares(texts: Sequence[TokenGroups], linear: LinearMap, directions: Floats) -> Iterator[Shares]:
    """The shares of a batch of B texts in the same directions (K, d), or in those of each (B, K, d)."""
    like = linear.vectors
    given = torch.as_tensor(directions, dtype=like.dtype, device=like.device).expand(len(texts), -1, -1)
    with torch.no_grad():
        shares, biases = linear.columns(given)
    names = _part_names(linear.encoder, linear.settings)
    for row, text in enumerate(texts):
        values = _array(shares[row]).astype(np.float64).reshape(given.shape[1], len(text.units), -1)
        parts = {name: values[..., index] for index, name in enumerate(names)}
        bias = _array(biases[row]).astype(np.float64)
        yield Shares(
            str(text.tokens.text), text.units, values.sum(-1), bias, _array(like[row]), text.tokens.truncated, parts,
            text.tokens.ids,
        )  # fmt: skip


def _batches(texts: Sequence[TokenGroups], settings: Settings, passes: int | None = None) -> Iterator[list[int]]:
    """Texts of one length, prompt and number of units together, as many as fit the budget of row tokens.

    ``passes`` over each text; None for a row for each of its units.
    """
    by_shape: dict[tuple[int, int, str], list[int]] = {}
    for index, text in enumerate(texts):
        by_shape.setdefault((len(text.tokens), len(text.units), text.prompt), []).append(index)
    # Longest first, so that a text too large for the memory fails at once and not in the end.
    for (length, units, _), indices in sorted(by_shape.items(), reverse=True):
        rows = passes or (length if settings.bias == "shared" else units + 1)
        yield from windows(indices, max(1, ROW_TOKENS // (length * rows)))


def _inputs(encoder: Encoder, texts: Sequence[TokenGroups], settings: Settings) -> Inputs:
    """Texts of one length and number of units as one batch."""
    columns = ([text.tokens.ids for text in texts], [text.tokens.types for text in texts])
    batch = Batch(*(torch.tensor(rows, dtype=torch.long, device=encoder.device) for rows in columns))
    x = embed(encoder.model_view, batch)
    sources, reference = _sources(encoder, batch, settings), None
    if settings.reference != NO_REFERENCE:
        other, words = reference_parts(encoder, batch, settings.reference)
        reference = embed(encoder.model_view, other, words=words)
        sources = sources - _sources(encoder, other, settings, words)
    pooling_mask = encoder.pooling_mask_of(batch.ids, texts[0].prompt)
    return Inputs(batch, x, pooling_mask, unit_masks(texts, x), sources, reference)


def _sources(encoder: Encoder, batch: Batch, settings: Settings, words: Tensor | None = None) -> Tensor:
    """The embeddings, or the parts that they are the sum of: (P, B, T, E)."""
    if not settings.split:
        return embed(encoder.model_view, batch, words=words)[None]
    return torch.stack(list(embedding_parts(encoder.model_view, batch, words).values()))


def unit_masks(texts: Sequence[TokenGroups], x: Tensor) -> Tensor:
    """Which tokens belong to which unit: (B, R, T)."""
    masks = torch.zeros(len(texts), len(texts[0].units), x.shape[1], dtype=x.dtype)
    for row, text in enumerate(texts):
        for index, unit in enumerate(text.units):
            masks[row, index, list(unit.tokens)] = 1
    return masks.to(x.device)


def _part_names(encoder: Encoder, settings: Settings) -> list[str]:
    if not settings.split:
        return []
    empty = torch.zeros(1, 1, dtype=torch.long, device=encoder.device)
    return list(embedding_parts(encoder.model_view, Batch(empty)))


def _one(text: TokenGroups, replayed: Replayed, row: int, own_length: bool, parts: list[str]) -> Contributions:
    values = _array(replayed.values[row])
    split: dict[str, Floats] = {}
    if parts:
        by_part = values.reshape(len(text.units), len(parts), -1)
        split = {name: by_part[:, index] for index, name in enumerate(parts)}
        values = by_part.sum(1)
    length = float(np.linalg.norm(values.sum(0, dtype=np.float64))) if own_length else None
    tokens, vector, bias = text.tokens, _array(replayed.vectors[row]), _array(replayed.bias[row])
    return Contributions(
        str(tokens.text), text.units, values, bias, vector, tokens.truncated, split, tokens.ids, length
    )


def _array(tensor: Tensor) -> Floats:
    wide = tensor if tensor.dtype == torch.float64 else tensor.float()
    return wide.cpu().numpy()


@dataclass(frozen=True)
class ContributionCache:
    """Contributions by bilrp in a folder, one file a text."""

    encoder: Encoder
    settings: Settings
    folder: Path
    most_bytes: int = MOST_BYTES

    def __post_init__(self) -> None:
        if self.settings.split:
            raise UsageError("split shares are not cached; call contributions for them")

    def of(self, texts: Sequence[TextInput], progress: Progress | None = None) -> list[Contributions]:
        """The contributions of each text; those not in the cache are computed together."""
        unique = list(dict.fromkeys(texts))
        found = {text: one for text in unique if (one := self._read(text)) is not None}
        new = [text for text in unique if text not in found]
        ticker = Ticker(progress, len(new), "explained texts")
        for index, one in contribution_stream(self.encoder, new, "bilrp", self.settings):
            found[new[index]] = one
            self._files.write(self._key(new[index]), partial(_save, one))
            ticker.add()
        ticker.close()
        if new:
            self._files.prune()
        return [found[text] for text in texts]

    @cached_property
    def _files(self) -> FileCache:
        return FileCache(self.folder, ".npz", self.most_bytes)

    @cached_property
    def _identity(self) -> dict[str, Any]:
        chosen = {name: value for name, value in asdict(self.settings).items() if name not in IRRELEVANT}
        return {"format": CACHE_FORMAT, "settings": chosen} | identity(self.encoder)

    def _key(self, text: TextInput) -> str:
        prompt = self.encoder.modules_config.prompt_for(None) if text.prompt is None else text.prompt
        return content_key(self._identity, asdict(replace(text, prompt=prompt)))

    def _read(self, text: TextInput) -> Contributions | None:
        return self._files.read(self._key(text), _load)


def _save(one: Contributions, path: Path) -> None:
    units = [(unit.text, unit.start, unit.end, unit.tokens, unit.kind) for unit in one.units]
    metadata = {"text": one.text, "units": units, "truncated": one.truncated, "ids": one.ids}
    data = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
    with path.open("wb") as stream:
        np.savez(stream, values=one.values, bias=one.bias, vector=one.vector, metadata=data)


def _load(path: Path) -> Contributions:
    """Read a file of the cache; raises if it is anything else."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            values, bias, vector = (np.asarray(stored[name]) for name in ("values", "bias", "vector"))
            metadata = json.loads(np.asarray(stored["metadata"]).tobytes())
    except (LookupError, RuntimeError, zlib.error) as error:
        raise ValueError("no file of the cache") from error
    units = tuple(Unit(name, start, end, tuple(indices), kind) for name, start, end, indices, kind in metadata["units"])
    if values.shape != (len(units), *vector.shape) or bias.shape != vector.shape or vector.ndim != 1:
        raise ValueError("shapes that do not fit")
    return Contributions(
        metadata["text"], units, values, bias, vector, metadata["truncated"], ids=tuple(metadata["ids"])
    )
