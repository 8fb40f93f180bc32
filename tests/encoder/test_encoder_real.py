"""Real models give the vectors of sentence-transformers, and their ledgers are complete."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from likewise.data import Dataset
from likewise.encoder import Encoder
from likewise.encoder.similarity import paired_similarity
from likewise.explain import explain

MODELS = {"mpnet": "stsb/test", "albert-tiny-zh": "mstsb/zh_test", "e5-small": "stsb/test"}


def folder_of(name: str, request: pytest.FixtureRequest) -> Path:
    if name == "mpnet":
        return Path(request.getfixturevalue("mpnet_folder"))
    return Path(request.getfixturevalue("shared_models")) / name


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_vectors_scores_and_ledgers(name: str, shared_data: Path, request: pytest.FixtureRequest) -> None:
    folder = str(folder_of(name, request))
    rows = list(Dataset(MODELS[name], data_dir=shared_data, limit=60).pairs())
    texts = [text for row in rows for text in (row.left, row.right)]
    ours, theirs = Encoder.load(folder, device="cpu"), SentenceTransformer(folder, device="cpu")
    mine, other = ours.encode(texts), theirs.encode(texts)
    assert np.abs(mine - other).max() < 1e-5 * max(1.0, float(np.abs(other).max()))
    scores = [row.score for row in rows]
    by_us, by_them = (spearmanr(paired_similarity(one[::2], one[1::2]), scores).statistic for one in (mine, other))
    assert abs(by_us - by_them) < 0.0005
    assert max(abs(explain(ours, row.left, row.right).gap) for row in rows[:10]) < 1e-5
