"""LangChain: embeddings, a retriever that explains its hits, and reasons for the hits of any other retriever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from likewise.encoder import as_encoder
from likewise.encoder.encoder import Source
from likewise.errors import MissingExtra
from likewise.integrations.hit_metadata import KEY, explained_metadata, hit_metadata
from likewise.search import Hit

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun, Callbacks
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.retrievers import BaseRetriever
    from pydantic import ConfigDict, Field
except ImportError as error:
    raise MissingExtra("langchain-core", "langchain") from error


class LikewiseEmbeddings(Embeddings):
    """The vectors of an encoder, with the model's own prompts for queries and documents.

    >>> len(LikewiseEmbeddings("minilm").embed_query("a cat"))
    384
    """

    def __init__(self, model: Source = "minilm") -> None:
        self.encoder = as_encoder(model)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vector of each text."""
        found: list[list[float]] = self.encoder.encode_document(texts).tolist()
        return found

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query."""
        found: list[float] = self.encoder.encode_query(text).tolist()
        return found


class LikewiseRetriever(BaseRetriever):
    """The k best texts of an index, each with its score, what the score means, and the share of each word.

    ``index`` is an ``Index`` or another searcher; ``search_options`` are those of its ``search``. The metadata of a
    document has them under the key ``likewise``, so that the document's own metadata stay as they are.

    >>> from likewise import Index
    >>> index = Index.from_texts("minilm", ["The volcano spat ash.", "The bank cut rates."])
    >>> (found,) = LikewiseRetriever(index=index, k=1).invoke("eruption")
    >>> found.page_content, found.metadata["likewise"]["reasons"][0]["text"]
    ('The volcano spat ash.', 'volcano')
    """

    index: Any
    k: int = 4
    explain: bool = True
    search_options: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:  # noqa: ARG002
        found = self.index.search(query, self.k, explain=self.explain, **self.search_options)
        return [_document(hit) for hit in found]


def _document(hit: Hit) -> Document:
    return Document(page_content=hit.text, id=hit.id, metadata={**hit.metadata, KEY: hit_metadata(hit)})


class ReasonsCompressor(BaseDocumentCompressor):
    """Adds the reasons to the documents that any retriever found; their order and number stay.

    ``calibration`` says what the scores mean; ``options`` are those of ``likewise.explain_hits``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    model: Any = "minilm"
    calibration: Any = None
    options: dict[str, Any] = Field(default_factory=dict)

    def compress_documents(
        self,
        documents: Sequence[Document],
        query: str,
        callbacks: Callbacks | None = None,  # noqa: ARG002
    ) -> Sequence[Document]:
        """The documents with their reasons; one without words is left as it is."""
        texts = [(document.page_content, None) for document in documents]
        found = explained_metadata(self.model, query, texts, self.calibration, **self.options)
        return [
            document.model_copy(update={"metadata": {**document.metadata, KEY: why}}) if why else document
            for document, why in zip(documents, found, strict=True)
        ]
