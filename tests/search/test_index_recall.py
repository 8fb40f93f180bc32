"""Recall by the index against a plain numpy brute force, on 2,000 real pairs."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from likewise.data import read_pairs
from likewise.encoder import Encoder
from likewise.search import Index
from likewise.search.recall import Relevant, ranks

KS = (1, 5, 10, 20, 50)


@pytest.mark.data
@pytest.mark.slow
def test_recall_equals_a_plain_brute_force(
    minilm: Encoder, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = list(islice(read_pairs("compression/test_36k", data_dir=shared_data), 2000))
    index = Index.build(minilm, [(str(row), pair.left) for row, pair in enumerate(pairs)], tmp_path / "index")
    queries = [pair.right for pair in pairs]

    asked = minilm.encode(queries)
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    texts = np.concatenate([rows.vectors for rows in index.store.windows()])
    some = minilm.encode([pair.left for pair in pairs[:100]])
    np.testing.assert_allclose(texts[:100], some / np.linalg.norm(some, axis=1, keepdims=True), atol=1e-6)
    monkeypatch.setattr(index, "query_vectors", lambda queries, progress=None: asked)  # encoded once is enough
    scores = asked @ texts.T
    own = scores[np.arange(2000), np.arange(2000)]
    above = (scores > own[:, None] + 1e-6).sum(1)
    plain = {k: float((above < k).mean()) for k in KS}

    pooling_mask = ranks(index.score_blocks(queries), Relevant.single(list(range(2000))))
    assert {k: float((pooling_mask < k).mean()) for k in KS} == plain

    hits = index.search_many(queries, k=max(KS))
    reached = {}
    for k in KS:
        # Found among the first k, or tied with the last of them.
        found = [
            any(hit.id == str(row) for hit in one.hits[:k]) or own[row] >= one[k - 1].score - 1e-6
            for row, one in enumerate(hits)
        ]
        reached[k] = float(np.mean(found))
    assert reached == plain
    assert plain[1] > 0.9
