"""Haystack: embedders of queries and documents, and a component that explains what any retriever found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from likewise.encoder import as_encoder
from likewise.encoder.encoder import Source
from likewise.errors import MissingExtra
from likewise.integrations.hit_metadata import KEY, explained_metadata
from likewise.search import Calibration

try:
    from haystack import Document, component, default_to_dict
except ImportError as error:
    raise MissingExtra("haystack-ai", "haystack") from error


@component
class LikewiseTextEmbedder:
    """The vector of a query, with the model's own prompt for queries."""

    def __init__(self, model: Source = "minilm") -> None:
        self.encoder = as_encoder(model)

    def to_dict(self) -> dict[str, Any]:
        """The name of the model, from which a pipeline is loaded again."""
        return _saved(self)

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        """A query -> ``embedding``."""
        return {"embedding": self.encoder.encode_query(text).tolist()}


@component
class LikewiseDocumentEmbedder:
    """The vectors of documents, with the model's own prompt for documents; those without a text stay as they are."""

    def __init__(self, model: Source = "minilm") -> None:
        self.encoder = as_encoder(model)

    def to_dict(self) -> dict[str, Any]:
        """The name of the model, from which a pipeline is loaded again."""
        return _saved(self)

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Documents -> ``documents``, copies with an embedding."""
        texts = [document.content for document in documents if document.content is not None]
        vectors = iter(self.encoder.encode_document(texts).tolist() if texts else [])
        found = [one if one.content is None else replace(one, embedding=next(vectors)) for one in documents]
        return {"documents": found}


@component
class HitExplainer:
    """Adds the reasons to the ``meta`` of documents that any retriever found; order, number and scores stay.

    ``calibration`` says what the scores mean; ``options`` are those of ``likewise.explain_hits``.
    """

    def __init__(
        self, model: Source = "minilm", calibration: Calibration | None = None, options: dict[str, Any] | None = None
    ) -> None:
        self.encoder, self.calibration, self.options = as_encoder(model), calibration, options or {}

    def to_dict(self) -> dict[str, Any]:
        """The name of the model and the options; a calibration belongs to a corpus and is given again on loading."""
        return _saved(self, options=self.options)

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        """A query and its documents -> ``documents``, copies with reasons."""
        texts = [(document.content, document.score) for document in documents]
        found = explained_metadata(self.encoder, query, texts, self.calibration, **self.options)
        pairs = zip(documents, found, strict=True)
        return {"documents": [replace(one, meta={**one.meta, KEY: why}) if why else one for one, why in pairs]}


def _saved(made: Any, **options: Any) -> dict[str, Any]:
    saved: dict[str, Any] = default_to_dict(made, model=made.encoder.name, **options)
    return saved
