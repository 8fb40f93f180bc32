"""Explained search: which words carry a hit's score, and why it is above the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Unpack

from likewise.errors import ModelError, UsageError
from likewise.explain.cache import KeptContributions
from likewise.explain.differences import Contrast
from likewise.explain.explanation import Explanation, PairShares
from likewise.explain.pairs import explained_maps, explanation, has_columns, metadata_of, pair_shares
from likewise.explain.settings import SettingOptions, Settings
from likewise.explain.texts import TextInput, TextMap, TokenGroups, token_groups
from likewise.explain.units import check_granularity
from likewise.paths import user_cache
from likewise.progress import Progress, Ticker
from likewise.search.hits import STRONGEST, ExplainedHit, Hit, Hits
from likewise.search.index import Index, check_search

SHORT = 32
"""Up to this number of units, a text's rows are computed and cached, and a query gets pairs of words by default."""
FIRST_HITS = 3
"""Long hits that get pairs of words by default."""


def explained_search(
    index: Index,
    query: str,
    k: int = 10,
    *,
    granularity: str = "word",
    pairs_per_hit: int | None = None,
    progress: Progress | None = None,
    **settings: Unpack[SettingOptions],
) -> Hits:
    """The k best hits, each explained exactly as it was scored: same model, prompts and similarity.

    The shares of a hit's words cost one transposed pass. Pairs of words cost one for each word of the query: by
    default short hits get them, and the first hits of a short query; ``pairs_per_hit`` gives every hit that many.

    >>> from likewise.encoder import Encoder
    >>> texts = ["The volcano spat ash.", "The bank cut rates."]
    >>> index = Index.from_texts(Encoder.load("minilm", device="cpu"), texts)
    >>> found = explained_search(index, "volcano erupted", k=1)[0]
    >>> found.pairs[0][:2], found.margin_terms[0][0]
    (('volcano', 'volcano'), 'volcano')
    """
    check_search([query], k)
    check_granularity(granularity)
    if pairs_per_hit is not None and pairs_per_hit < 0:
        raise UsageError(f"pairs_per_hit is a number from 0 on, got {pairs_per_hit}")
    # One more, so that the last hit has a next one too.
    found = index.search(query, k + 1)
    hits = _HitExplainer(
        index, TextInput(query, index.prompts[0], granularity), Settings(**{"fold_special": True} | settings)
    )
    wanted = pairs_per_hit if pairs_per_hit is None else k if pairs_per_hit else 0
    shares = hits.explained([hit.text for hit in found], wanted, progress)
    for hit, one in zip(found, shares, strict=True):
        _check_score(index, hit, one)
    margins = [*(Contrast(one, after) for one, after in pairwise(shares)), None][: len(shares)]
    most = STRONGEST if pairs_per_hit is None else pairs_per_hit
    explained = [
        ExplainedHit(hit.id, hit.text, hit.score, share, margin, most)
        for hit, share, margin in zip(found, shares, margins, strict=True)
    ]
    return replace(found, hits=tuple(explained[:k]))


class _HitExplainer:
    """Explains texts for one query.

    The rows of short texts are cached on disk for the next query. Long texts use columns: one pass for the shares, or
    one for each unit of the query for pairs of words.
    """

    def __init__(self, index: Index, query: TextInput, settings: Settings) -> None:
        self.encoder, self.settings, self.prompt = index.encoder, settings, index.prompts[1]
        self.metadata = metadata_of(index.encoder, "bilrp", str(query.granularity), index.similarity, settings)
        self.cache = KeptContributions(index.encoder, settings, user_cache() / "contributions")
        self.text, self.query = query, token_groups(self.encoder, query, settings)

    def explained(
        self, texts: Sequence[str], with_pairs: int | None, progress: Progress | None
    ) -> list[Explanation | PairShares]:
        """The first texts with pairs of words, the others with shares only; None depends on the length of the query."""
        inputs = [TextInput(text, self.prompt, self.text.granularity) for text in texts]
        groups = [token_groups(self.encoder, text, self.settings) for text in inputs]
        is_short = self._is_short(self.query)
        pairs = (FIRST_HITS if is_short else 0) if with_pairs is None else with_pairs
        by_rows = {position for position, one in enumerate(groups) if is_short and self._is_short(one)}
        if not has_columns("bilrp", self.settings):
            by_rows = set(range(len(groups)))
        ticker = Ticker(progress, len(texts), "explained texts")
        needed = [self.text, *(inputs[position] for position in sorted(by_rows))] if by_rows else []
        rows = self.cache.of(needed, ticker.part())
        cached = dict(zip(sorted(by_rows), rows[1:], strict=True))
        found: list[Explanation | PairShares] = []
        for position, group in enumerate(groups):
            if position in cached:
                found.append(explanation(rows[0], cached[position], self.metadata))
                continue
            other = TextMap.of(self.encoder, group, self.settings)
            explain = explained_maps if position < pairs else pair_shares
            found.append(explain(self._recorded_query, other, self.metadata))
            ticker.add()
        ticker.close()
        return found

    @staticmethod
    def _is_short(text: TokenGroups) -> bool:
        return len(text.units) <= SHORT

    @cached_property
    def _recorded_query(self) -> TextMap:
        return TextMap.of(self.encoder, self.query, self.settings)


def _check_score(index: Index, hit: Hit, ledger: Explanation | PairShares) -> None:
    """Rejects a hit whose score in the index is not the explained one."""
    if not abs(hit.score - ledger.similarity) <= ledger.tolerance:
        raise ModelError(
            f"{hit.id} was scored {hit.score:.5f} in {index.store.address} but the model gives {ledger.similarity:.5f};"
            " build the index again"
        )
