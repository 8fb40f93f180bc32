"""Static models for tests: a tiny one with random vectors, and the folders that hold it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer

from conftest import tiny_tokenizer

WIDTH = 12


def backend() -> Tokenizer:
    """The tiny tokenizer, which would add [CLS] and [SEP] if it was asked for special tokens."""
    return Tokenizer.from_str(tiny_tokenizer().backend_tokenizer.to_str())


def static_model(*names: str, seed: int = 0, **options: Any) -> SentenceTransformer:
    """A tiny static model, followed by modules by their names."""
    torch.manual_seed(seed)
    rows = torch.randn(backend().get_vocab_size(), WIDTH)
    made = {"Dense": lambda: Dense(WIDTH, 5, activation_function=torch.nn.Tanh()), "Normalize": Normalize}
    modules = [StaticEmbedding(backend(), embedding_weights=rows), *(made[name]() for name in names)]
    return SentenceTransformer(modules=modules, device="cpu", **options)


def save_static(folder: Path, *names: str, **options: Any) -> Path:
    """A tiny static model as sentence-transformers 6 saves it."""
    static_model(*names, **options).save(str(folder), create_model_card=False)
    return folder


def save_model2vec(folder: Path, tensors: dict[str, torch.Tensor]) -> Path:
    """A folder with the tensors of model2vec."""
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    backend().save(str(folder / "tokenizer.json"))
    listed = [{"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"}]
    (folder / "modules.json").write_text(json.dumps(listed))
    return folder
