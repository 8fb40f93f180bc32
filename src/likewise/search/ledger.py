"""The ledger of a score: named terms that sum to it, for every ranker; and why a text scores what it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from likewise.explain.cross_encoder import CrossExplanation
from likewise.explain.explanation import ExplainedText, Explanation, PairShares, require_complete
from likewise.grammar.spans import Span

EXACT = 1e-9  # How far a sum of words in double precision may miss its score
MOST_TERMS = 8  # Terms of a line
TEXT = "text"  # The kind of a term that is a word of the text or of the query
Shares = Explanation | PairShares | CrossExplanation


@dataclass(frozen=True)
class Term:
    """What one word, or one ranker of a hybrid, adds to a score.

    >>> Term("cat", 0.4, ((2, 5), (9, 12))).words
    [(2, 5, 0.2), (9, 12, 0.2)]
    """

    name: str
    value: float
    spans: tuple[Span, ...] = ()  # the characters of the hit's text where it occurs
    kind: str = TEXT  # or what is no word of the text: special, prompt, query, ranker
    detail: Mapping[str, float] = field(default_factory=dict)  # the factors of the value, such as BM25's

    @property
    def words(self) -> list[tuple[int, int, float]]:
        """The start and end of each occurrence, which have equal shares."""
        return [(start, end, self.value / len(self.spans)) for start, end in self.spans]

    def to_dict(self) -> dict[str, Any]:
        """All fields; the factors of the value by their names."""
        spans = [list(span) for span in self.spans]
        return {"name": self.name, "value": self.value, "kind": self.kind, "spans": spans, **self.detail}


@dataclass(frozen=True)
class ScoreLedger:
    """A score as the sum of its terms and a rest; refused if they miss the score by more than the tolerance.

    >>> ledger = ScoreLedger(0.5, (Term("cat", 0.4, ((2, 5),)), Term("sat", 0.2)), -0.1)
    >>> ledger.strongest(1), abs(ledger.gap) < 1e-9
    ([('cat', 0.4)], True)
    """

    score: float
    terms: tuple[Term, ...]
    rest: float = 0.0
    rest_name: str = "bias"
    tolerance: float = EXACT
    measure: str = "score"  # what is summed, such as cosine or logit

    def __post_init__(self) -> None:
        require_complete(self.score, self.gap, self.tolerance)

    @property
    def gap(self) -> float:
        """What is left unexplained of the score."""
        return self.score - sum(term.value for term in self.terms) - self.rest

    @property
    def words(self) -> list[tuple[int, int, float]]:
        """The start, the end and the share of each word of the text, in the order of the terms."""
        return [word for term in self.terms if term.kind == TEXT for word in term.words]

    def strongest(self, count: int) -> list[tuple[str, float]]:
        """The terms of largest absolute value, strongest first."""
        named = [(term.name, term.value) for term in self.terms]
        return sorted(named, key=lambda item: -abs(item[1]))[:count]

    def to_dict(self) -> dict[str, Any]:
        """The terms, the rest, and what they leave of the score."""
        terms = [term.to_dict() for term in self.terms]
        return {"measure": self.measure, "score": self.score, "terms": terms, "rest": self.rest, "gap": self.gap}


@dataclass(frozen=True)
class LedgerDifference:
    """Why one text scores more than another: the difference of two ledgers of one query, term by term.

    >>> found = LedgerDifference(ScoreLedger(0.5, (Term("cat", 0.5),)), ScoreLedger(0.2, (Term("cat", 0.2),)))
    >>> found.difference, found.terms
    (0.3, [('cat', 0.3)])
    """

    better: ScoreLedger
    worse: ScoreLedger

    @property
    def difference(self) -> float:
        """How much higher the better text scores."""
        return self.better.score - self.worse.score

    @property
    def terms(self) -> list[tuple[str, float]]:
        """What each term adds to the difference, strongest first."""
        # A model that cuts a long pair may read fewer words of the query with one text than with the other.
        both = zip_longest(self.better.terms, self.worse.terms, fillvalue=Term("", 0.0))
        named = [(one.name or other.name, one.value - other.value) for one, other in both]
        return sorted(named, key=lambda item: -abs(item[1]))

    @property
    def rest(self) -> float:
        """What the rest adds to the difference."""
        return self.better.rest - self.worse.rest

    @property
    def gap(self) -> float:
        """What is left unexplained of the difference."""
        return self.difference - sum(value for _, value in self.terms) - self.rest

    def to_dict(self) -> dict[str, Any]:
        """The difference and its terms."""
        terms = [{"query": name, "difference": value} for name, value in self.terms]
        return {"difference": self.difference, "by": terms, "bias": self.rest, "gap": self.gap}


@dataclass(frozen=True, eq=False)
class HitLedgers:
    """Why a text has its score: by the text's words and by the query's, which is one ledger for rankers of words."""

    by_text: ScoreLedger
    by_query: ScoreLedger
    parts: Mapping[str, HitLedgers] = field(default_factory=dict)  # of a hybrid: those of each ranker that has the text
    shares: Shares | None = None  # of a model: its own explanation

    @classmethod
    def of(cls, ledger: ScoreLedger) -> HitLedgers:
        """Of a ranker whose terms are the query's words where they occur in the text."""
        return cls(ledger, ledger)

    @property
    def shown(self) -> HitLedgers:
        """What colours the text: of a hybrid its last part, the model, so that all hits have one scale."""
        return [*self.parts.values()][-1].shown if self.parts else self

    @property
    def sums(self) -> list[tuple[str, float]]:
        """The terms of the score for a line: the query's words, or of a model the words and the rest."""
        if self.shares is None:
            terms = sorted((term for term in self.by_query.terms if term.value), key=lambda term: -abs(term.value))
            others = [("others", sum(term.value for term in terms[MOST_TERMS:]))] if terms[MOST_TERMS:] else []
            return [*((_with_rank(term), term.value) for term in terms[:MOST_TERMS]), *others]
        ledger = self.by_text
        kinds = [("words" if kind == TEXT else kind, _total(ledger.terms, kind)) for kind in _kinds(ledger.terms)]
        if isinstance(self.shares, CrossExplanation):
            return [*kinds, (ledger.rest_name, ledger.rest)]
        return [("words", sum(value for _, value in kinds)), (ledger.rest_name, ledger.rest)] if ledger.rest else []

    def to_dict(self) -> dict[str, Any]:
        """The shares of the text's words, the terms by the query's words, and the parts of a hybrid."""
        text, words = self.by_text, []
        for term in text.terms:
            share = term.value / max(1, len(term.spans))
            words += [
                {"text": term.name, "start": start, "end": end, "kind": term.kind, "share": share}
                for start, end in term.spans
            ]
        found: dict[str, Any] = {"measure": text.measure, "words": words, "bias": text.rest, "gap": text.gap}
        found["terms"] = [term.to_dict() for term in self.by_query.terms]
        if self.shares is not None:
            found |= {"bias_mode": self.shares.metadata.bias_mode, "relative_to": self.shares.metadata.relative_to}
        parts = [{"ranker": name, "score": part.by_text.score, **part.to_dict()} for name, part in self.parts.items()]
        return found | ({"parts": parts} if parts else {})


def _with_rank(term: Term) -> str:
    return f"{term.name} (rank {term.detail['rank']:.0f})" if "rank" in term.detail else term.name


def _kinds(terms: Iterable[Term]) -> list[str]:
    return list(dict.fromkeys(term.kind for term in terms))


def _total(terms: Sequence[Term], kind: str) -> float:
    return sum(term.value for term in terms if term.kind == kind)


def _unit_terms(text: ExplainedText, values: Any, kind: str = "", named: str = "") -> tuple[Term, ...]:
    """The units of one side of an explanation; ``named`` gives all of them that kind."""
    return tuple(
        Term(unit.text, share, ((unit.start, unit.end),) if not named else (), named or kind or unit.kind)
        for unit, share in zip(text.units, values.tolist(), strict=True)
    )


def model_ledgers(shares: Explanation | PairShares) -> HitLedgers:
    """The shares of a query (left) and of a text (right) in their similarity, as ledgers."""
    by_text, by_query = (
        ScoreLedger(shares.similarity, _unit_terms(side, values), rest, shares.metadata.rest, shares.tolerance,
                    shares.metadata.similarity)
        for side, values, rest in (
            (shares.right, shares.right_shares, shares.right_bias), (shares.left, shares.left_shares, shares.left_bias),
        )
    )  # fmt: skip
    return HitLedgers(by_text, by_query, shares=shares)


def cross_encoder_ledgers(shares: CrossExplanation) -> HitLedgers:
    """The shares of a query and a text in a cross-encoder's logit, as ledgers.

    The logit is one sum over both texts: the ledger by the text has the query as terms too, and the other way round.
    """
    query, special = (
        _unit_terms(shares.left, shares.left_shares, named="query"),
        _unit_terms(shares.special, shares.special_shares, named="special"),
    )
    text = _unit_terms(shares.right, shares.right_shares)
    whole = Term("(text)", float(shares.right_shares.sum()), kind="query")
    how = shares.bias, shares.metadata.rest, shares.tolerance, "logit"
    by_text = ScoreLedger(shares.logit, (*text, *query, *special), *how)
    # The text as a whole comes first: a pair that is cut may have other units at the end.
    return HitLedgers(by_text, ScoreLedger(shares.logit, (whole, *special, *query), *how), shares=shares)
