"""Claim: a model's vectors and its correlation on STS are those of sentence-transformers, in no more time.

Both encode the same sentences in one process, in alternation, with one thread; CPU time, the best round of each. The
ledgers of some pairs are checked too: the largest gap between a score and the sum of its parts.

    python bench/models.py [../shared/models/potion-base-8M] [stsb/test] [--data-dir ../shared/data] [--rounds 5]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from likewise.data import Dataset
from likewise.encoder import Encoder
from likewise.encoder.similarity import paired_similarity
from likewise.explain import explain


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?", default="../shared/models/potion-base-8M")
    parser.add_argument("data", nargs="?", default="stsb/test")
    parser.add_argument("--explained", type=int, default=50, help="pairs whose ledgers are checked")
    parser.add_argument("--data-dir", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if not Path(options.model).is_dir():
        print(f"left out: no folder {options.model}")
        return
    torch.set_num_threads(1)
    rows = list(Dataset(options.data, data_dir=options.data_dir).pairs())
    texts = [text for row in rows for text in (row.left, row.right)]
    models: dict[str, Any] = {
        "sentence-transformers, batches of 32": SentenceTransformer(options.model, device="cpu"),
        "sentence-transformers, batches of 1024": SentenceTransformer(options.model, device="cpu"),
        "likewise": Encoder.load(options.model, device="cpu"),
    }
    sizes = {name: {"batch_size": int(name.split()[-1])} if name[-1].isdigit() else {} for name in models}
    best, vectors = dict.fromkeys(models, float("inf")), {}
    for _ in range(options.rounds):
        for name, model in models.items():
            start = time.process_time()
            vectors[name] = model.encode(texts, **sizes[name])
            best[name] = min(best[name], time.process_time() - start)
    first = next(iter(models))
    for name in models:
        cosines = paired_similarity(vectors[name][::2], vectors[name][1::2])
        agreement = spearmanr(cosines, [row.score for row in rows]).statistic
        gap = np.abs(vectors[name] - vectors[first]).max()
        ratio = best[first] / best[name]
        speed = f"{len(texts) / best[name]:8.0f} texts/s  {ratio:5.2f} times as fast"
        print(f"{name:40}  {speed}  Spearman {agreement:.6f}  gap {gap:.1e}", flush=True)
    gaps = [abs(explain(models["likewise"], row.left, row.right).gap) for row in rows[: options.explained]]
    print(f"ledgers of {len(gaps)} pairs: largest gap {max(gaps):.1e}")


if __name__ == "__main__":
    main()
