"""Static models learn: a step has the gradients of sentence-transformers' module, and a trained folder opens there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from likewise import Encoder
from likewise.data import Dataset
from likewise.train import train
from likewise.train.packed_encoder import PackedEncoder, TokenTable
from likewise.train.processes import Processes
from static_models import save_static, static_model
from training_files import similarity_file

TEXTS = ["A man is playing a flute.", "a", "the cat sat on the mat", "a dog and a dog", "", "Ünknown 日本"]


@pytest.mark.parametrize("names", [(), ("Normalize",), ("Dense", "Normalize")], ids="-".join)
def test_a_step_has_the_gradients_of_sentence_transformers(names: tuple[str, ...]) -> None:
    model = static_model(*names).double()
    encoder, weight = Encoder(model), model[0].embedding.weight
    packed = PackedEncoder(encoder, TokenTable(encoder.tokenizer), Processes())
    ours = packed.pooled(packed.embedded(TEXTS, None), len(TEXTS))
    theirs = model(model.preprocess(TEXTS))["sentence_embedding"]
    assert (ours - theirs).abs().max() < 1e-12
    assert (packed.vectors(TEXTS) - theirs).abs().max() < 1e-12
    targets = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = [torch.autograd.grad((one * targets).exp().sum(), weight)[0] for one in (ours, theirs)]
    assert (found[0] - found[1]).abs().max() < 1e-12 and found[0].abs().max() > 1e-3


def opposite_pairs(path: Path) -> list[tuple[str, str, float]]:
    """Pairs that are the less similar the more words they share, which no mean of random vectors knows."""
    return [(row.left, row.right, 5 - row.score) for row in Dataset(str(path)).pairs() if row.score is not None]


def test_a_run_learns_and_its_folder_opens_everywhere(tmp_path: Path) -> None:
    rows, dev = (opposite_pairs(similarity_file(tmp_path / f"{count}.csv", count, seed=count)) for count in (80, 40))
    encoder = Encoder.load(save_static(tmp_path / "static"), device="cpu")
    settings = {"epochs": 4, "batch": 8, "learning_rate": 1e-2, "seed": 1, "out": str(tmp_path / "run")}
    trained, report = train(encoder, rows, dev=dev, **settings)
    assert report.epochs[-1]["score"] > report.epochs[0]["score"]
    again, theirs = Encoder.load(tmp_path / "run", device="cpu"), SentenceTransformer(str(tmp_path / "run"))
    assert np.array_equal(again.encode(TEXTS), trained.encode(TEXTS))
    assert np.abs(again.encode(TEXTS) - theirs.encode(TEXTS)).max() < 1e-6
    assert np.abs(again.encode(TEXTS[:4]) - encoder.encode(TEXTS[:4])).max() > 1e-3
