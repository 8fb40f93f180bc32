"""LlamaIndex: an index of its own on our vectors, and reasons on what it finds."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.sample import sample_sentences
from likewise.search import calibrate

pytest.importorskip("llama_index.core", reason="LlamaIndex is not installed (extra: llama-index)")

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import MetadataMode, TextNode

from likewise.integrations.llama_index import LikewiseEmbedding, ReasonsPostprocessor

pytestmark = pytest.mark.nightly

TEXTS = ["The volcano spat ash.", "The bank cut rates.", "Ash fell on the city.", "A storm closed the bridge."]


def test_embeddings_are_those_of_the_encoder(e5: Encoder) -> None:
    embedding = LikewiseEmbedding(e5, embed_batch_size=2)
    np.testing.assert_allclose(embedding.get_query_embedding("ash"), e5.encode("query: ash", prompt=""), atol=1e-6)
    found = embedding.get_text_embedding_batch(TEXTS)
    np.testing.assert_allclose(found, e5.encode([f"passage: {text}" for text in TEXTS], prompt=""), atol=1e-5)
    assert asyncio.run(embedding.aget_query_embedding("ash")) == embedding.get_query_embedding("ash")


def test_reasons_on_the_hits_of_its_index(minilm: Encoder) -> None:
    nodes = [TextNode(text=text, metadata={"year": 2020 + n}) for n, text in enumerate(TEXTS)]
    index = VectorStoreIndex(nodes, embed_model=LikewiseEmbedding(minilm))
    found = index.as_retriever(similarity_top_k=2).retrieve("eruption")
    told = ReasonsPostprocessor(
        model=minilm, calibration=calibrate(minilm, TEXTS + sample_sentences()[:30])
    ).postprocess_nodes(found, query_str="eruption")
    assert [one.score for one in told] == [one.score for one in found] and len(told) == 2
    for one, before in zip(told, found, strict=True):
        why, text = one.node.metadata["likewise"], before.node.get_content(MetadataMode.EMBED)
        assert why["returned"]["agrees"] and why["returned"]["measure"] == "cosine"
        assert sum(word["share"] for word in why["reasons"]) + why["rest"] == pytest.approx(one.score, abs=1e-5)
        assert all(text[word["start"] : word["end"]] == word["text"] for word in why["reasons"])
        assert 0 <= why["meaning"]["percentile"] <= 1 and one.node.metadata["year"] >= 2020
        assert one.node.get_content(MetadataMode.EMBED) == text and "likewise" not in before.node.metadata
        assert "likewise" not in one.node.get_content(MetadataMode.LLM)


def test_reasons_need_a_query(minilm: Encoder) -> None:
    with pytest.raises(UsageError, match="pass query_str"):
        ReasonsPostprocessor(model=minilm).postprocess_nodes([])
