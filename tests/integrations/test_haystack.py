"""Haystack: a pipeline from documents to explained hits, and the same pipeline loaded from its YAML."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.encoder import Encoder

pytest.importorskip("haystack", reason="Haystack is not installed (extra: haystack)")

from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

from likewise.integrations.haystack import HitExplainer, LikewiseDocumentEmbedder, LikewiseTextEmbedder

pytestmark = pytest.mark.nightly

TEXTS = ["The volcano spat ash.", "The bank cut rates.", "Ash fell on the city."]


def store_of(embedder: LikewiseDocumentEmbedder) -> InMemoryDocumentStore:
    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    documents = [Document(content=text, meta={"year": 2020 + n}) for n, text in enumerate(TEXTS)]
    store.write_documents(embedder.run(documents)["documents"])
    return store


def pipeline_of(store: InMemoryDocumentStore) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("embedder", LikewiseTextEmbedder("minilm"))
    pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=2, scale_score=False))
    pipeline.add_component("explainer", HitExplainer("minilm", options={"granularity": "word"}))
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    pipeline.connect("retriever.documents", "explainer.documents")
    return pipeline


def test_embedders_use_the_prompts_of_each_role(e5: Encoder) -> None:
    found = LikewiseTextEmbedder(e5).run("ash")["embedding"]
    np.testing.assert_allclose(found, e5.encode("query: ash", prompt=""), atol=1e-6)
    documents = [Document(content="ash"), Document(content=None, meta={"file": "x"})]
    first, second = LikewiseDocumentEmbedder(e5).run(documents)["documents"]
    np.testing.assert_allclose(first.embedding, e5.encode("passage: ash", prompt=""), atol=1e-6)
    assert second.embedding is None and documents[0].embedding is None


def test_a_pipeline_explains_what_it_finds(minilm: Encoder) -> None:
    pipeline = pipeline_of(store_of(LikewiseDocumentEmbedder(minilm)))
    found = pipeline.run({"embedder": {"text": "eruption"}, "explainer": {"query": "eruption"}})
    first = found["explainer"]["documents"][0]
    why = first.meta["likewise"]
    assert first.content == TEXTS[0] and first.meta["year"] == 2020
    assert why["returned"]["agrees"] and why["reasons"][0]["text"] == "volcano"
    assert sum(word["share"] for word in why["reasons"]) + why["rest"] == pytest.approx(first.score, abs=1e-5)


def test_a_pipeline_is_loaded_from_its_yaml(minilm: Encoder) -> None:
    pipeline = pipeline_of(store_of(LikewiseDocumentEmbedder(minilm)))
    twin = Pipeline.loads(pipeline.dumps(), allowed_modules=["likewise.integrations.haystack"])
    explainer = twin.get_component("explainer")
    assert explainer.encoder.name == "minilm" and explainer.options == {"granularity": "word"}
