"""What every search can do, by any ranker: hits with their ledgers, reranked hits, and why a text is not a hit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from likewise.encoder import Encoder
from likewise.encoder.cross_encoder import CrossEncoder, Scoring, load_scoring, pair_scores
from likewise.encoder.encoder import Source
from likewise.errors import DataError, ModelError, UsageError
from likewise.explain.cross_encoder import CrossExplanation, explain_cross_encoder_many
from likewise.explain.explanation import Explanation, PairShares
from likewise.explain.linear_map import has_columns
from likewise.explain.pairs import explained_maps, explanation, metadata_of, pair_shares
from likewise.explain.settings import Settings
from likewise.explain.texts import ContributionCache, TextInput, TextMap, check_granularity, token_groups
from likewise.progress import Progress, Ticker
from likewise.search.documents import Origin, Selection
from likewise.search.filters import Filter
from likewise.search.hits import STRONGEST, ExplainedHit, Hit, Hits, Stage, check_search
from likewise.search.ledger import HitLedgers, cross_encoder_ledgers, model_ledgers
from likewise.search.ranker import Scores
from likewise.search.reranking import CANDIDATES, JOIN
from likewise.search.why_not import WhyNot
from likewise.storage import user_cache

SHORT = 32  # Up to this many units, a text's rows are cached, and a query gets pairs of words by default
FIRST_HITS = 3  # Long hits that get pairs of words by default


class ScoredRows(Protocol):
    """Texts or passages with their ids."""

    @property
    def ids(self) -> Sequence[str]:
        """Of a document, the same for all its passages."""

    @property
    def texts(self) -> Sequence[str]:
        """Of the passages."""

    @property
    def origins(self) -> Sequence[Origin] | None:
        """Which passages they are, and their metadata."""


class Searcher:
    """Finds the best texts for a query, and says why.

    An :class:`~likewise.search.Index` is one, and so is a ranker of a corpus.
    """

    selecting: tuple[str, ...] = ("where", "aggregate")  # the options of ``search_many``

    @property
    def has_model(self) -> bool:
        """Whether a model takes part, whose shares have settings; rankers of words have none."""
        return True

    @property
    def name(self) -> str:
        """The name of the ranker in tables."""
        raise NotImplementedError

    @property
    def engine(self) -> dict[str, Any]:
        """The name and the recall of the engine, if there is one."""
        return {}

    def summary(self) -> str:
        """One line for the user: how it searches, if there is a choice."""
        return ""

    def search_many(
        self, queries: Sequence[str], k: int = 10, progress: Progress | None = None, *,
        where: str | Filter | None = None, aggregate: str = "max",
    ) -> list[Hits]:  # fmt: skip
        """The k best texts or documents for each of several queries."""
        raise NotImplementedError

    def ledgers(self, query: str, hits: Sequence[Hit], **options: Any) -> list[HitLedgers]:
        """Why each hit has its score."""
        raise NotImplementedError

    def scored(self, query: str) -> Iterator[tuple[ScoredRows, Scores]]:
        """All texts or passages and their exact scores (n,), some at a time; those of a document are neighbours."""
        raise NotImplementedError

    def with_meaning(self, found: Sequence[Hits]) -> list[Hits]:
        """Hits that say what their scores mean, if that is known."""
        return list(found)

    def with_stages(self, query: str, hits: Sequence[Hit], **options: Any) -> Sequence[Hit]:  # noqa: ARG002
        """The hits with the ledgers of each stage, if there are several."""
        return hits

    def search(
        self, query: str, k: int = 10, *, explain: bool = False, rerank: Scoring | Source | None = None,
        rerank_depth: int | None = None, **options: Any,
    ) -> Hits:  # fmt: skip
        """The k best texts or documents for a query; ``explain`` says why.

        ``rerank`` is a cross-encoder or an encoder that puts the first ``rerank_depth`` hits (100) into order. In an
        index, ``where`` is a filter on metadata, such as ``year >= 2020``, which never changes a score, and with the
        ``aggregate`` ``mean-top-3`` a document's score is the mean of its three best passages. The options of
        ``explain`` are ``granularity`` (word, token or sentence), ``pairs_per_hit`` and the settings of
        :func:`likewise.explain.explain`.
        """
        found = self if rerank is None else RerankedSearcher.of(self, rerank, k, rerank_depth)
        if rerank is not None and "least" in options:
            raise UsageError("a calibration is of the index's own scores; leave least or rerank out")
        if rerank is None and rerank_depth is not None:
            raise UsageError("rerank_depth has no effect without rerank; leave it out")
        if explain:
            return explained_search(found, query, k, **options)
        for name in options:
            if name not in self.selecting:
                raise UsageError(f"{name} has no effect without explain=True; leave it out")
        return found.search_many([query], k, **options)[0]

    def why_not(
        self, query: str, name: str, k: int = 10, *, where: str | Filter | None = None, **options: Any
    ) -> WhyNot:
        """Why the text with this id is not among the k best: its rank, its score, and what the last hit has more.

        ``where`` is the filter of the search. ``options`` are those of an explained search.
        """
        check_search([query], k)
        hit, rank, total = self._placed(query, name, Selection.of(where, "max").where)
        hit = self.with_meaning([Hits(query, (hit,), self.name)])[0][0]
        hits = self.search_many([query], k, where=where)[0].hits
        among = next((place for place, one in enumerate(hits, start=1) if one.id == name), 0)
        if among or not hits:
            (why,) = self.ledgers(query, [hit], **options)
            return WhyNot(query, self.name, k, ExplainedHit.of(hit, why), among or rank, total, len(hits))
        why, last = self.ledgers(query, [hit, hits[-1]], **options)
        above = ExplainedHit.of(hits[-1], last, why.by_query)
        return WhyNot(query, self.name, k, ExplainedHit.of(hit, why), rank, total, len(hits), above)

    def _placed(self, query: str, name: str, where: Filter | None) -> tuple[Hit, int, int]:
        """The best passage of an id with its score, the rank of its document from 1, and the number of documents."""
        scores, found, place, last, is_known = list[float](), None, 0, None, False
        for rows, values in self.scored(query):
            for row, (own, score) in enumerate(zip(rows.ids, values.tolist(), strict=True)):
                is_known |= own == name
                if where is not None and not where.matches({} if rows.origins is None else rows.origins[row].metadata):
                    continue
                if own != last or score > scores[-1]:
                    if own != last:
                        scores.append(score)
                    scores[-1], last = score, own
                    if own == name:
                        found, place = _hit(rows, row, score), len(scores) - 1
        if found is None:
            flaw = "does not match --where; leave that out" if is_known else "is not in the index; check it"
            raise DataError(f"the id {name!r} {flaw}")
        every = np.array(scores)
        # Of documents with equal scores the earlier one comes first.
        rank = 1 + int((every > every[place]).sum()) + int((every[:place] == every[place]).sum())
        return found, rank, len(every)


def _hit(rows: ScoredRows, row: int, score: float) -> Hit:
    """One of the rows as a hit."""
    if rows.origins is None:
        return Hit(rows.ids[row], rows.texts[row], score)
    origin = rows.origins[row]
    return Hit(rows.ids[row], rows.texts[row], score, passage=origin.passage, metadata=origin.metadata)


def explained_search(
    searcher: Searcher, query: str, k: int = 10, *, pairs_per_hit: int | None = None,
    progress: Progress | None = None, **options: Any,
) -> Hits:  # fmt: skip
    """The k best hits, each explained exactly as it was scored.

    ``options`` are those of :func:`likewise.search.searcher.encoder_ledgers`; a ranker of words has none.
    """
    check_search([query], k)
    selection = {name: options.pop(name) for name in searcher.selecting if name in options}
    options |= {} if pairs_per_hit is None else {"pairs_per_hit": pairs_per_hit}
    aggregate = selection.get("aggregate", "max")
    if aggregate != "max":
        raise UsageError(f"{aggregate} is the mean of several passages, and one is explained; leave --aggregate out")
    if options and not searcher.has_model:
        raise UsageError(f"{next(iter(options))} has no effect on the ranker {searcher.name}; leave it out")
    # One more, so that the last hit has a next one too.
    found = searcher.search_many([query], k + 1, **selection)[0]
    ledgers = searcher.ledgers(query, found.hits, progress=progress, **options)
    after = [*(one.by_query for one in ledgers[1:]), None]
    most = STRONGEST if pairs_per_hit is None else pairs_per_hit
    each = zip(searcher.with_stages(query, found.hits[:k], **options), ledgers, after, strict=False)
    return replace(found, hits=tuple(ExplainedHit.of(hit, why, worse, most) for hit, why, worse in each))


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


@dataclass(frozen=True)
class EncoderComparison:
    """How an encoder without an index compares a query with texts."""

    encoder: Encoder
    similarity: str = "cosine"
    prompts: tuple[str | None, str | None] = (None, None)


@dataclass(frozen=True)
class RerankedSearcher(Searcher):
    """The first hits of a search in the order of another model's scores for (query, text)."""

    first: Searcher
    scoring: Scoring
    depth: int = CANDIDATES

    @classmethod
    def of(cls, first: Searcher, scoring: Scoring | Source, k: int, depth: int | None) -> RerankedSearcher:
        """With a loaded model; a depth below the number of hits is refused."""
        if depth is not None and depth < k:
            raise UsageError(f"a reranker of the first {depth} texts cannot bring {k} hits; raise --rerank-depth")
        return cls(first, load_scoring(scoring), max(k + 1, CANDIDATES) if depth is None else depth)

    @property
    def name(self) -> str:
        """The names of the ranker and of the model."""
        return f"{self.first.name}{JOIN}{self.scoring.name}"

    @property
    def engine(self) -> dict[str, Any]:
        """That of the first stage."""
        return self.first.engine

    def summary(self) -> str:
        """That of the first stage."""
        return self.first.summary()

    def search_many(
        self, queries: Sequence[str], k: int = 10, progress: Progress | None = None, *,
        where: str | Filter | None = None, aggregate: str = "max",
    ) -> list[Hits]:  # fmt: skip
        """The k best of the candidates for each query; each hit has what both stages made of it."""
        first = self.first.search_many(queries, self.depth, progress, where=where, aggregate=aggregate)
        return [self._reranked(found, k, progress) for found in first]

    def _reranked(self, found: Hits, k: int, progress: Progress | None) -> Hits:
        scores = pair_scores(self.scoring, [(found.query, hit.text) for hit in found], progress).tolist()
        # Of texts that tie, the first stage's order stays.
        order = sorted(range(len(scores)), key=lambda index: -scores[index])
        hits = []
        for rank, index in enumerate(order[:k], start=1):
            hit = found[index]
            stages = Stage(found.ranker, index + 1, hit.score), Stage(self.scoring.name, rank, scores[index])
            hits.append(replace(hit, score=scores[index], stages=(*hit.stages, *stages), meaning=None))
        return replace(found, hits=tuple(hits), ranker=self.name)

    def ledgers(self, query: str, hits: Sequence[Hit], **options: Any) -> list[HitLedgers]:
        """Why each hit has its score by the reranker."""
        if not isinstance(self.scoring, CrossEncoder):
            return encoder_ledgers(EncoderComparison(self.scoring), query, hits, **options)
        how: dict[str, Any] = {"granularity": "word", "fold_special": True} | options
        how.pop("pairs_per_hit", None)  # there are none: the model reads both texts as one
        found = explain_cross_encoder_many(self.scoring, [(query, hit.text) for hit in hits], **how)
        return [cross_encoder_ledgers(_checked(one, hit)) for one, hit in zip(found, hits, strict=True)]

    def with_stages(self, query: str, hits: Sequence[Hit], **options: Any) -> Sequence[Hit]:
        """The hits with why the first stage ranked each as it did."""
        # Only a model's words have pairs, and those of the last stage are shown.
        before = [replace(hit, score=hit.stages[0].score) for hit in hits]
        found = self.first.ledgers(query, before, **{**options, "pairs_per_hit": 0} if self.first.has_model else {})
        return [
            replace(hit, stages=(replace(hit.stages[0], ledgers=why), *hit.stages[1:]))
            for hit, why in zip(hits, found, strict=True)
        ]


def _checked(shares: CrossExplanation, hit: Hit) -> CrossExplanation:
    if not abs(shares.score - hit.score) <= shares.tolerance:
        raise ModelError(f"{hit.id} was scored {hit.score:.5f} but its ledger is of {shares.score:.5f}; report this")
    return shares
