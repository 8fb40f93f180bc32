"""Claims of the search, in one run:

- exact search of 36,000 queries among 36,000 texts takes no more than 1.1 times faiss alone;
- HNSW finds at least 0.99 of the true ten best, by these very queries;
- the whole of ``evaluate retrieval`` costs no more than 1.2 times the encoding itself;
- ten explained hits cost about as much as ten explained pairs.

It also prints what an index takes in memory for one vector.

    python bench/search.py [--pairs compression/test_36k] [--data-dir ../shared/data] [--limit 36000] [--threads 1]

Without a file of pairs, texts are made from the built-in sentences.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch

from likewise.data import Dataset
from likewise.encoder import Encoder
from likewise.encoder.encoder import encode_variants
from likewise.errors import DataError
from likewise.explain import explain_many
from likewise.sample import sample_sentences
from likewise.search import Corpus, Index, IndexSettings
from likewise.search import evaluation as retrieving
from likewise.search.engines import KINDS, Plan, StackedVectors, built, recall_against
from likewise.search.evaluation import RetrievalSource, RetrievalTask
from likewise.search.recall import Relevant
from likewise.search.searcher import explained_search

K = 50


def task_of(options: argparse.Namespace) -> RetrievalTask:
    """The pairs of a file, or pairs of recombined sentences and their beginnings."""
    if options.pairs:
        try:
            return RetrievalSource(Dataset(options.pairs, limit=options.limit, data_dir=options.data_dir)).read()
        except DataError as error:
            print(f"{error}: made-up texts instead")
    rng, sentences = random.Random(0), sample_sentences()
    texts = [f"{rng.choice(sentences)} {rng.choice(sentences)}" for _ in range(options.limit)]
    queries = [" ".join(text.split()[: rng.randint(5, 12)]) for text in texts]
    return RetrievalTask(
        "made up", Corpus([*map(str, range(len(texts)))], texts), queries, Relevant.single([*range(len(texts))])
    )


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def summary(name: str, value: float, bound: float, at_least: bool = False) -> bool:
    holds = value >= bound if at_least else value <= bound
    print(
        f"{name}: {value:.3f} ({'at least' if at_least else 'at most'} {bound}): claim {'holds' if holds else 'fails'}"
    )
    return holds


def search_claims(texts: np.ndarray, queries: np.ndarray) -> list[bool]:
    """Exact search beside faiss alone, turn by turn; then the approximate engines by the same queries."""
    alone = faiss.IndexFlatIP(texts.shape[1])
    alone.add(texts)
    rows = StackedVectors([texts])
    engine = built(rows, Plan.of(len(texts), "exact"))
    ours, theirs = [], []
    for part in np.array_split(queries, 6):
        theirs.append(timed(lambda part=part: alone.search(part, K))[0])
        ours.append(timed(lambda part=part: engine.search(part, K))[0])
    print(
        f"exact search, {len(queries)} queries among {len(texts)}: {sum(ours):.1f} s, faiss alone {sum(theirs):.1f} s"
    )
    claims = [summary("times faiss alone", sum(ours) / sum(theirs), 1.1)]
    some = queries[:: max(1, len(queries) // 2000)]
    truth = engine.search(some, 10)
    for kind in KINDS:
        for bits in (32, 8):
            plan = Plan.of(len(texts), kind, bits)
            seconds, one = timed(lambda plan=plan: built(rows, plan))
            took, found = timed(lambda one=one: one.search(some, 10))
            recall = recall_against(truth, found)
            sampled = "" if one.recall is None else f", {one.recall:.4f} by its sample"
            print(
                f"{kind:5} {bits:2} bits: {one.bytes_per_vector:5.0f} bytes a vector, built in {seconds:5.1f} s,"
                f" {len(some) / took:7.0f} queries a second, recall {recall:.4f}{sampled}"
            )
            if kind == "hnsw":
                claims.append(summary(f"recall@10 of hnsw, {bits} bits", recall, 0.99, at_least=True))
    return claims


def evaluation_claim(encoder: Encoder, task: RetrievalTask) -> tuple[bool, np.ndarray, np.ndarray]:
    """The whole evaluation beside the encoding that it holds; and the unit vectors of texts and queries."""
    seconds = 0.0

    def watched(*arguments: Any, **options: Any) -> Any:
        nonlocal seconds
        took, found = timed(lambda: encode_variants(*arguments, **options))
        seconds += took
        return found

    retrieving.encode_variants = watched
    start = time.perf_counter()
    [ranker], cut = retrieving.encoded_rankers(encoder, [encoder.pooling_config], task)
    result = retrieving.evaluate_ranker(ranker, task, retrieving.dense_setting(encoder), truncated=cut)
    whole = time.perf_counter() - start
    print(f"encoding {seconds:.1f} s, evaluate retrieval {whole:.1f} s, Recall@1 {result.recall[1].value:.4f}")
    queries = ranker.query_vectors[[ranker.row_of[query] for query in task.queries]]
    return summary("times the encoding", whole / seconds, 1.2), ranker.texts, queries


def explained_claim(encoder: Encoder, task: RetrievalTask) -> bool:
    """Ten explained hits beside ten explained pairs of the same texts; both have the next hit to explain too."""
    items = list(zip(task.corpus.ids, task.corpus.texts, strict=True))[:2000]
    with tempfile.TemporaryDirectory() as place:
        index = Index.build(encoder, items, Path(place) / "index", IndexSettings())
        ratios = []
        for query in task.queries[:5]:
            seconds, found = timed(lambda query=query: explained_search(index, query, 10))
            pairs = [(query, hit.text) for hit in index.search(query, 11)]
            alone, _ = timed(lambda pairs=pairs: list(explain_many(encoder, pairs, granularity="word", bias="shared")))
            ratios.append(seconds / alone)
            again, _ = timed(lambda query=query: explained_search(index, query, 10))
            print(f"{len(found)} explained hits {seconds:.2f} s, pairs {alone:.2f} s, kept ones {again:.3f} s")
    return summary("times ten explained pairs", float(np.median(ratios)), 1.5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", default="compression/test_36k")
    parser.add_argument("--data-dir", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--limit", type=int, default=36_000)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    faiss.omp_set_num_threads(options.threads)
    encoder = Encoder.load("minilm", device="cpu", threads=options.threads)
    task = task_of(options)
    holds, texts, queries = evaluation_claim(encoder, task)
    claims = [holds, *search_claims(texts, queries), explained_claim(encoder, task)]
    sys.exit(not all(claims))
