"""LangChain: its own test of embeddings is by shape; here vectors, documents and chains are compared with ours."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.sample import sample_sentences
from likewise.search import Index, IndexSettings, PassageSettings

pytest.importorskip("langchain_core", reason="LangChain is not installed (extra: langchain)")

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from likewise.integrations.langchain import LikewiseEmbeddings, LikewiseRetriever, ReasonsCompressor

TEXTS = ["The volcano spat ash.", "The bank cut rates.", "Ash fell on the city.", "A storm closed the bridge."]


def test_embeddings_use_the_prompts_of_each_role(e5: Encoder) -> None:
    embeddings = LikewiseEmbeddings(e5)
    np.testing.assert_allclose(embeddings.embed_query("ash"), e5.encode("query: ash", prompt=""), atol=1e-6)
    np.testing.assert_allclose(embeddings.embed_documents(["ash"]), e5.encode(["passage: ash"], prompt=""), atol=1e-6)


def test_a_vector_store_of_langchain_finds_what_an_index_finds(minilm: Encoder) -> None:
    store = InMemoryVectorStore.from_texts(TEXTS, LikewiseEmbeddings(minilm))
    found = store.similarity_search_with_score("eruption", k=3)
    hits = Index.from_texts(minilm, TEXTS).search("eruption", 3)
    assert [document.page_content for document, _ in found] == [hit.text for hit in hits]
    assert [score for _, score in found] == pytest.approx([hit.score for hit in hits], abs=1e-5)


@pytest.mark.slow
def test_retriever_documents_carry_score_meaning_and_reasons(minilm: Encoder) -> None:
    items = [
        (f"n{n}", text, {"year": 2020 + n, "score": 9.0}) for n, text in enumerate(TEXTS + sample_sentences()[:30])
    ]
    index = Index.from_texts(minilm, items, IndexSettings(metadata=True))
    index.calibrate()
    retriever = LikewiseRetriever(index=index, k=2, search_options={"where": "year >= 2021"})
    first, second = retriever.invoke("eruption")
    assert first.id != "n0" and first.metadata["year"] >= 2021 and first.metadata["score"] == 9.0
    why = first.metadata["likewise"]
    assert why["score"] >= second.metadata["likewise"]["score"] and 0 < why["meaning"]["percentile"] <= 1
    assert sum(word["share"] for word in why["reasons"]) + why["rest"] == pytest.approx(why["score"], abs=1e-9)
    plain = LikewiseRetriever(index=index, k=1, explain=False).invoke("eruption")[0]
    assert "reasons" not in plain.metadata["likewise"]


def test_retriever_in_a_chain_batched_and_asynchronous(minilm: Encoder) -> None:
    index = Index.from_texts(minilm, TEXTS, passages=PassageSettings())
    retriever = LikewiseRetriever(index=index, k=1)
    chain = retriever | RunnableLambda(lambda found: found[0].metadata["likewise"]["reasons"][0]["text"])
    assert chain.batch(["eruption", "interest"]) == [chain.invoke("eruption"), chain.invoke("interest")]
    assert asyncio.run(chain.ainvoke("eruption")) == chain.invoke("eruption") == "volcano"


def test_reasons_for_the_documents_of_any_retriever(minilm: Encoder) -> None:
    documents = [Document(page_content=TEXTS[1], metadata={"source": "x"}), Document(page_content=" ")]
    compressor = ReasonsCompressor(model=minilm, options={"granularity": "token"})
    found = compressor.compress_documents(documents, "interest")
    assert found[1] is documents[1] and documents[0].metadata == {"source": "x"}
    assert found[0].metadata["source"] == "x" and found[0].metadata["likewise"]["reasons"][0]["share"] > 0
