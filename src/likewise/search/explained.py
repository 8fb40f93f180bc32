"""Why a model finds a query and texts similar: shares by rows or columns, whichever is cheaper, as ledgers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from likewise.encoder import Encoder
from likewise.errors import ModelError, UsageError
from likewise.explain.explanation import Explanation, PairShares
from likewise.explain.linear_map import has_columns
from likewise.explain.pairs import explained_maps, explanation, metadata_of, pair_shares
from likewise.explain.settings import Settings
from likewise.explain.texts import ContributionCache, TextInput, TextMap, check_granularity, token_groups
from likewise.progress import Progress, Ticker
from likewise.search.ledger import HitLedgers, model_ledgers
from likewise.storage import user_cache

if TYPE_CHECKING:
    from likewise.search.hits import Hit

SHORT = 32  # Up to this many units, a text's rows are cached, and a query gets pairs of words by default
FIRST_HITS = 3  # Long hits that get pairs of words by default


class Comparison(Protocol):
    """How a model compares a query with texts."""

    @property
    def encoder(self) -> Encoder:
        """The model."""

    @property
    def similarity(self) -> str:
        """The measure: cosine or dot."""

    @property
    def prompts(self) -> tuple[str | None, str | None]:
        """The prompts of a query and of a text; None is the model's own."""


def encoder_ledgers(
    compared: Comparison, query: str, hits: Sequence[Hit], *, granularity: str = "word",
    pairs_per_hit: int | None = None, progress: Progress | None = None, **settings: Any,
) -> list[HitLedgers]:  # fmt: skip
    """Why each hit has its score by a model: exactly as it was scored, with the same prompts and similarity.

    The shares of a hit's words cost one transposed pass. Pairs of words cost one for each word of the query: by
    default short hits get them, and the first hits of a short query; ``pairs_per_hit`` gives every hit that many.
    """
    check_granularity(granularity)
    if pairs_per_hit is not None and pairs_per_hit < 0:
        raise UsageError(f"pairs_per_hit is a number from 0 on, got {pairs_per_hit}")
    wanted = pairs_per_hit if pairs_per_hit is None else len(hits) if pairs_per_hit else 0
    how = Settings(**{"fold_special": True} | settings), Ticker(progress, len(hits), "explained texts")
    asked = TextInput(query, compared.prompts[0], granularity)
    shares = _shares(compared, asked, [hit.text for hit in hits], wanted, *how)
    for hit, one in zip(hits, shares, strict=True):
        if not abs(hit.score - one.similarity) <= one.tolerance:
            scores = f"{hit.score:.5f} but the model gives {one.similarity:.5f}"
            raise ModelError(f"{hit.id} was scored {scores}; build the index again")
    return [model_ledgers(one) for one in shares]


def _shares(
    compared: Comparison, query: TextInput, texts: Sequence[str], with_pairs: int | None, settings: Settings,
    ticker: Ticker,
) -> list[Explanation | PairShares]:  # fmt: skip
    """The first texts with pairs of words, the others with shares only; None depends on the length of the query.

    The rows of short texts are cached on disk for the next query. Long texts use columns: one pass for the shares, or
    one for each unit of the query for pairs of words.
    """
    encoder = compared.encoder
    inputs = [query, *(TextInput(text, compared.prompts[1], query.granularity) for text in texts)]
    asked, *groups = (token_groups(encoder, text, settings) for text in inputs)
    metadata = metadata_of(encoder, "bilrp", str(query.granularity), compared.similarity, settings)
    is_short, no_columns = len(asked.units) <= SHORT, not has_columns("bilrp", settings)
    by_rows = [i for i, one in enumerate(groups) if no_columns or (is_short and len(one.units) <= SHORT)]
    cache = ContributionCache(encoder, settings, user_cache() / "contributions")
    rows = cache.of([query, *(inputs[1 + i] for i in by_rows)] if by_rows else [], ticker.part())
    cached = dict(zip(by_rows, rows[1:], strict=True))
    pairs = (FIRST_HITS if is_short else 0) if with_pairs is None else with_pairs
    recorded = None if len(cached) == len(groups) else TextMap.of(encoder, asked, settings)
    found: list[Explanation | PairShares] = []
    for position, group in enumerate(groups):
        if recorded is None or position in cached:
            found.append(explanation(rows[0], cached[position], metadata))
        else:
            explain = explained_maps if position < pairs else pair_shares
            found.append(explain(recorded, TextMap.of(encoder, group, settings), metadata))
            ticker.add()
    ticker.close()
    return found
