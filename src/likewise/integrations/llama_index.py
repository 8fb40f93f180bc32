"""LlamaIndex: an embedding model, and a node postprocessor that adds reasons to what any retriever found."""

from __future__ import annotations

from typing import Any

from likewise.encoder import Encoder, as_encoder
from likewise.encoder.encoder import Source
from likewise.errors import MissingExtra, UsageError
from likewise.integrations.hit_metadata import KEY, explained_metadata

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
except ImportError as error:
    raise MissingExtra("llama-index-core", "llama-index") from error


class LikewiseEmbedding(BaseEmbedding):
    """The vectors of an encoder, with the model's own prompts for queries and documents."""

    _encoder: Encoder = PrivateAttr()

    def __init__(self, model: Source = "minilm", **options: Any) -> None:
        encoder = as_encoder(model)
        super().__init__(**({"model_name": encoder.name} | options))
        self._encoder = encoder

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex stores it."""
        return "LikewiseEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        found: list[float] = self._encoder.encode_query(query).tolist()
        return found

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        found: list[list[float]] = self._encoder.encode_document(texts).tolist()
        return found

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


class ReasonsPostprocessor(BaseNodePostprocessor):
    """Adds the reasons to each node's metadata, under the key ``likewise``; order, number and scores stay.

    What is explained is the text that LlamaIndex embeds, with the metadata that it puts before it; positions count in
    that text. The key is left out of what a language model or an embedding reads. ``calibration`` says what the scores
    mean; ``options`` are those of ``likewise.explain_hits``.
    """

    model: Any = "minilm"
    calibration: Any = None
    options: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex stores it."""
        return "ReasonsPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise UsageError("reasons belong to a query; pass query_str or query_bundle")
        texts = [(one.node.get_content(MetadataMode.EMBED), one.score) for one in nodes]
        found = explained_metadata(self.model, query_bundle.query_str, texts, self.calibration, **self.options)
        return [_with_reasons(one, why) if why else one for one, why in zip(nodes, found, strict=True)]


def _with_reasons(found: NodeWithScore, why: dict[str, Any]) -> NodeWithScore:
    node = found.node
    changes = {
        "metadata": {**node.metadata, KEY: why},
        "excluded_embed_metadata_keys": [*node.excluded_embed_metadata_keys, KEY],
        "excluded_llm_metadata_keys": [*node.excluded_llm_metadata_keys, KEY],
    }
    return NodeWithScore(node=node.model_copy(update=changes), score=found.score)
