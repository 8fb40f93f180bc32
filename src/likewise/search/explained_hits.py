"""``explain_hits``: why the hits that any system returned have their scores, and whether the model gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.encoder import Encoder, as_encoder
from likewise.encoder.encoder import Source
from likewise.encoder.similarity import MEASURES, unit
from likewise.errors import UsageError
from likewise.progress import Progress
from likewise.search.engines import inner_products
from likewise.search.hits import ExplainedHit, Hit, Hits, ReturnedScore
from likewise.search.ledger import HitLedgers
from likewise.search.returned_hits import ReturnedHit, returned_hits
from likewise.search.searcher import EncoderComparison, Searcher, encoder_ledgers, explained_search

Numbers = NDArray[np.float64]
TOLERANCE = 6e-4  # How far a returned score may be off: it may be rounded to three decimals, or of half precision
ROLES = ("query", "document")


def explain_hits(
    encoder: Encoder | Source, query: str, hits: Any, *, similarity: str = "cosine",
    query_prompt: str | None = None, document_prompt: str | None = None, **options: Any,
) -> Hits:  # fmt: skip
    """Why each text that a system returned has its score by the encoder, in the order of the system.

    ``hits`` are strings, pairs (text, score), mappings or objects with a text (also in a payload, in metadata or the
    like), and perhaps a score, an id and metadata; or the whole answer of a system that holds them. A returned score is
    compared with the model's. ``cautions`` says which known measure it is if it is another one, or that none fits. A
    text beyond the model's limit is cut, with a warning, as the model does it. ``similarity`` is cosine or dot; a
    prompt of None is the model's own. The options are those of an explained search.

    >>> found = explain_hits("minilm", "eruption", [("The volcano spat ash.", 0.306), "The bank cut rates."])
    >>> found[0].score > found[1].score, found[0].words[1][:2], found[0].returned.measure
    (True, (4, 11), '1 - cosine')
    """
    if similarity not in MEASURES:
        raise UsageError(f"unknown similarity {similarity!r}; choose from {', '.join(MEASURES)}")
    model = as_encoder(encoder)
    query_prompt, document_prompt = (
        model.modules_config.prompt_for(role) if given is None else given
        for role, given in zip(ROLES, (query_prompt, document_prompt), strict=True)
    )
    compared = EncoderComparison(model, similarity, (query_prompt, document_prompt))
    searcher = _Returned(compared, returned_hits(hits))
    found = explained_search(searcher, query, max(1, len(searcher.returned)), **options)
    return replace(found, cautions=tuple(_cautions(found, compared)))


@dataclass(frozen=True)
class _Returned(Searcher):
    """A search whose hits are known: those of another system, in its order."""

    compared: EncoderComparison
    returned: Sequence[ReturnedHit]

    selecting = ()

    @property
    def name(self) -> str:
        """The model that explains them."""
        return f"{self.compared.encoder.name}, hits of another system"

    def search_many(
        self,
        queries: Sequence[str],
        k: int = 10,
        progress: Progress | None = None,  # noqa: ARG002
        **_: Any,
    ) -> list[Hits]:
        """All hits with the model's own scores."""
        return [Hits(query, tuple(self._scored(query)[:k]), self.name) for query in queries]

    def _scored(self, query: str) -> list[Hit]:
        if not self.returned:
            return []
        vectors = _vectors(self.compared, query, [hit.text for hit in self.returned])
        if self.compared.similarity == "cosine":
            query_vector, texts = (unit(each) for each in vectors)
        else:
            query_vector, texts = vectors
        scores = inner_products(texts, query_vector).tolist()
        checked = _checked(self.compared, query, self.returned, vectors)
        return [
            Hit(hit.id, hit.text, score, metadata=hit.metadata, returned=check)
            for hit, score, check in zip(self.returned, scores, checked, strict=True)
        ]

    def ledgers(self, query: str, hits: Sequence[Hit], **options: Any) -> list[HitLedgers]:
        """Why each hit has its score."""
        return encoder_ledgers(self.compared, query, hits, **options)


Vectors = tuple[NDArray[np.float32], NDArray[np.float32]]  # (d,) of a query and (n, d) of texts


def _vectors(compared: EncoderComparison, query: str, texts: Sequence[str]) -> Vectors:
    encoder, (query_prompt, document_prompt) = compared.encoder, compared.prompts
    return encoder.encode(query, prompt=query_prompt), encoder.encode(texts, prompt=document_prompt)


def known_measures(query: NDArray[np.float32], texts: NDArray[np.float32]) -> dict[str, Numbers]:
    """What systems return for a query (d,) and texts (n, d): a name and the values (n,) of each measure.

    >>> found = known_measures(np.array([1.0, 0.0]), np.array([[0.0, 2.0]]))
    >>> found["1 - cosine"], found["squared L2 distance"], found["minus the dot product"]
    (array([1.]), array([5.]), array([-0.]))
    """
    q, t = query.astype(np.float64), texts.astype(np.float64)
    dot = t @ q
    lengths = np.linalg.norm(t, axis=1) * np.linalg.norm(q)
    cosine = np.clip(np.divide(dot, lengths, out=np.zeros_like(dot), where=lengths > 0), -1.0, 1.0)
    squared, unit_squared = ((t - q) ** 2).sum(axis=1), 2 - 2 * cosine
    return {
        "cosine": cosine,
        "dot": dot,
        "1 - cosine": 1 - cosine,
        "squared L2 distance": squared,
        "L2 distance": np.sqrt(squared),
        "minus the dot product": -dot,
        "1 - dot product": 1 - dot,
        "(1 + cosine) / 2": (1 + cosine) / 2,
        "(1 + dot product) / 2": (1 + dot) / 2,
        "1 / (1 + squared L2 distance)": 1 / (1 + squared),
        "1 / (1 + L2 distance)": 1 / (1 + np.sqrt(squared)),
        "1 / (2 - cosine)": 1 / (2 - cosine),
        "1 - L2 distance / sqrt(2)": 1 - np.sqrt(squared / 2),
        "squared L2 distance of unit vectors": unit_squared,
        "L2 distance of unit vectors": np.sqrt(unit_squared),
        "1 - angle / pi": 1 - np.arccos(cosine) / np.pi,
    }


def _checked(
    compared: EncoderComparison, query: str, hits: Sequence[ReturnedHit], vectors: Vectors
) -> list[ReturnedScore | None]:
    """What each returned score is: the explained measure, or the one that fits most of the other scores."""
    given = np.array([np.nan if hit.score is None else hit.score for hit in hits])
    agrees = _fits(given, known_measures(*vectors)[compared.similarity])
    others = ~agrees & ~np.isnan(given)
    name, fits = "", np.zeros(len(hits), bool)
    if others.any():
        for candidate, values in _candidates(compared, query, [hit.text for hit in hits], vectors):
            found = _fits(given, values) & others
            if found.sum() > fits.sum():
                name, fits = candidate, found
            if fits.sum() == others.sum():
                break
        # One score fits something by chance more easily than several do.
        fits = fits if 2 * fits.sum() > others.sum() else np.zeros_like(fits)
    return [
        None if hit.score is None
        else ReturnedScore(hit.score, compared.similarity if own else name if other else "", bool(own))
        for hit, own, other in zip(hits, agrees, fits, strict=True)
    ]  # fmt: skip


def _fits(given: Numbers, values: Numbers) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.abs(given - values) <= TOLERANCE * np.maximum(1.0, np.abs(values))
    return found


def _candidates(
    compared: EncoderComparison, query: str, texts: Sequence[str], vectors: Vectors
) -> Iterator[tuple[str, Numbers]]:
    """Every measure of the vectors, then of those without a prompt, which are computed only if they are needed."""
    yield from known_measures(*vectors).items()
    query_prompt, document_prompt = compared.prompts
    variants = {
        "without the query prompt": ("", document_prompt),
        "without the document prompt": (query_prompt, ""),
        "without prompts": ("", ""),
    }
    seen = {compared.prompts}
    for name, prompts in variants.items():
        if prompts not in seen:
            seen.add(prompts)
            other = known_measures(*_vectors(replace(compared, prompts=prompts), query, texts))
            yield from ((f"{measure} {name}", values) for measure, values in other.items())


def _cautions(found: Hits, compared: EncoderComparison) -> Iterator[str]:
    """Scores that are not what is explained, and an order that is not the model's."""
    checks = [hit.returned for hit in found if hit.returned is not None]
    unknown = sum(not check.measure for check in checks)
    measure = next((check.measure for check in checks if check.measure and not check.agrees), "")
    if measure:
        count = sum(check.measure == measure for check in checks)
        yield f"{count} of {len(checks)} returned scores are {measure}; the {compared.similarity} is explained"
    if unknown:
        cause = "another model, metric, prompt or text, or a reranker"
        what = "1 returned score is" if unknown == 1 else f"{unknown} returned scores are"
        yield f"{what} not {compared.encoder.name}'s by any known measure: {cause}; the shares are of its own scores"
    for rank, (hit, after) in enumerate(pairwise(found if checks else ()), start=1):
        if isinstance(hit, ExplainedHit) and hit.margin < -TOLERANCE:
            yield (f"the order is not that of the {compared.similarity}: hit {rank + 1} scores {after.score:.4f},"
                   f" hit {rank} {hit.score:.4f}")  # fmt: skip
            return
