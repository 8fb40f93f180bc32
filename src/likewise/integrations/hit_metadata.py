"""Why a text was found, as plain values that the metadata of any library's document can hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from likewise.encoder import Encoder
from likewise.encoder.encoder import Source
from likewise.search import Calibration, Hit, explain_hits
from likewise.search.hits import ExplainedHit

KEY = "likewise"
"""The key of a document's metadata under which the reasons are: one key, so that no other entry is overwritten."""


def hit_metadata(hit: Hit) -> dict[str, Any]:
    """The score of a hit, what it means, and the share of each word; the shares and ``rest`` sum to the score.

    >>> from likewise.search import Index
    >>> index = Index.from_texts("minilm", ["The volcano spat ash.", "The bank cut rates."])
    >>> found = hit_metadata(index.search("eruption", k=1, explain=True)[0])
    >>> found["reasons"][0]["text"], round(found["score"], 2)
    ('volcano', 0.69)
    >>> abs(sum(word["share"] for word in found["reasons"]) + found["rest"] - found["score"]) < 1e-6
    True
    """
    found: dict[str, Any] = {"score": float(hit.score)}
    if hit.meaning is not None:
        found["meaning"] = hit.meaning.to_dict()
    if hit.returned is not None:
        found["returned"] = hit.returned.to_dict()
    if isinstance(hit, ExplainedHit):
        found["measure"] = hit.ledger.measure
        found["reasons"] = [
            {"text": hit.text[start:end], "start": start, "end": end, "share": float(share)}
            for start, end, share in sorted(hit.words, key=lambda word: -abs(word[2]))
        ]
        found["rest"] = float(hit.score) - sum(share for _, _, share in hit.words)
    return found


def explained_metadata(
    encoder: Encoder | Source, query: str, found: Sequence[tuple[str | None, float | None]],
    calibration: Calibration | None = None, **options: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    """The reasons of each (text, score) that a system found for a query; nothing for one without words.

    A score of None is unknown. ``options`` are those of :func:`likewise.explain_hits`.
    """
    filled = [index for index, (text, _) in enumerate(found) if text is not None and text.strip()]
    rows: list[dict[str, Any]] = [{} for _ in found]
    for index, hit in zip(filled, explain_hits(encoder, query, [found[one] for one in filled], **options), strict=True):
        meaning = {} if calibration is None else {"meaning": calibration.meaning(hit.score).to_dict()}
        rows[index] = hit_metadata(hit) | meaning
    return rows
