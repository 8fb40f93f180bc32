"""Tiny random cross-encoders of every family, saved as Hugging Face saves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from conftest import randomise, tiny_tokenizer
from likewise.encoder.classification import HEADS
from tiny_models import CONFIGS, shared_tokenizer, unround

FAMILIES = sorted({name for name, config in CONFIGS.items() if config().model_type in HEADS and name in HEADS})
"""The families with a head and a tiny config."""
PAIRS = [
    ("a cat sat on it", "the dog ran away from the volcano"),
    ("fire", ""),
    ("it rains , and the cat", "the cat sleeps"),
    ("the cat", "the cat"),
]


def tiny_classifier(name: str, seed: int = 0, labels: int = 1, **changes: Any) -> Any:
    """transformers' model with a head, in float64; its weights are strong enough to show every part."""
    torch.manual_seed(seed)
    config = CONFIGS[name]()
    pad = 0 if config.pad_token_id is None else config.pad_token_id
    settings = {"num_labels": labels, "vocab_size": len(shared_tokenizer()), "pad_token_id": pad} | changes
    for setting, value in settings.items():
        setattr(config, setting, value)
    make = transformers.AutoModelForSequenceClassification.from_config
    model = make(config, attn_implementation="eager").double()
    unround(model)
    randomise(model)
    return model.eval()


def save_cross_encoder(folder: Path, model: Any, types: bool = False, **settings: Any) -> Path:
    """Write a model with its tokenizer; with ``types`` the tokenizer tells the texts of a pair apart."""
    tokenizer = tiny_tokenizer() if types else shared_tokenizer()
    if types:
        tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
        tokenizer.init_kwargs["model_input_names"] = tokenizer.model_input_names
    for name, value in settings.items():
        setattr(model.config, name, value)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
