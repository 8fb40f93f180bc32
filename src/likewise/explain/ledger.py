"""The ledger of two texts: their contributions, or one's contributions and the other's columns -> an Explanation.

The rows of both texts give the matrix as their products. Or the rows of the text with fewer units are pulled back
through the other one: as many transposed passes as it has units, whatever the length of the other.
"""

from __future__ import annotations

import numpy as np

from likewise.encoder import Encoder
from likewise.encoder.encoder import MEASURES
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
from likewise.explain.methods import METHODS, is_complete, method_named
from likewise.explain.settings import FILLER, NO_REFERENCE, Settings
from likewise.explain.texts import Contributions, Shares, TextMap
from likewise.explain.units import Unit

COLUMN_COST = 1.2
"""A transposed pass, in rows of a replay (bench/explain.py)."""


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

    >>> columns_pay(8, 250), columns_pay(30, 32)
    (True, False)
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
    require_complete(score, rows.missing * _length(columns) * scale, tolerance)
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


def _score(left: Contributions | Shares, right: Contributions | Shares, metadata: Metadata) -> float:
    """The shown similarity, by the model's own vectors."""
    score = float(left.vector.astype(np.float64) @ right.vector.astype(np.float64))
    return score if metadata.similarity == "dot" else score / (_length(left) * _length(right) or 1.0)


def _scale(left: Contributions | Shares, right: Contributions | Shares, metadata: Metadata) -> float:
    """What products of contributions are multiplied by."""
    return 1.0 if metadata.similarity == "dot" else 1 / (left.divisor * right.divisor)


def _tolerance(left: Contributions | Shares, right: Contributions | Shares, metadata: Metadata) -> float:
    return TOLERANCE if metadata.similarity == "cosine" else TOLERANCE * max(1.0, _length(left) * _length(right))


def _length(one: Contributions | Shares) -> float:
    return float(np.linalg.norm(one.vector.astype(np.float64)))


def _side(own: Contributions, other: Contributions | Shares, scale: float) -> ExplainedText:
    parts = {name: values.astype(np.float64) @ other.vector * scale for name, values in own.parts.items()}
    return ExplainedText(own.text, own.units, own.truncated, own.ids, parts)


def _shared_side(own: Shares, scale: float, whole: slice = slice(None)) -> ExplainedText:
    """A side whose shares are known; ``whole`` are the directions that sum to the other side's vector."""
    parts = {name: values[whole].sum(0) * scale for name, values in own.parts.items()}
    return ExplainedText(own.text, own.units, own.truncated, own.ids, parts)
