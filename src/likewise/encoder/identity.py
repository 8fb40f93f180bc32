"""What a vector depends on beside its text: written into manifests, compared before vectors are mixed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

from likewise.encoder.encoder import Encoder


def identity(encoder: Encoder) -> dict[str, Any]:
    """The model's name, hashes and reading as plain JSON.

    >>> identity(Encoder.load("minilm", device="cpu"))["pooling"]
    'mean'
    """
    metadata = {
        "model": encoder.name,
        "model_sha256": encoder.hash,
        "backend": "torch" if encoder.backend is None else encoder.backend.kind,
        "dtype": str(encoder.model_view.dtype).removeprefix("torch."),
        "config_sha256": encoder.config_hash,
        "tokenizer_sha256": hashlib.sha256(encoder.tokenizer.backend.to_str().encode()).hexdigest(),
        "dense_sha256": encoder.heads_hash,
        **asdict(encoder.pooling_config),
        "max_tokens": encoder.tokenizer.limit,
        "normalizes": encoder.modules_config.normalizes,
        "include_prompt": encoder.modules_config.include_prompt,
        "postprocessing": None if encoder.postprocessing is None else encoder.postprocessing.name,
    }
    return dict(json.loads(json.dumps(metadata)))  # as it will be read back: tuples are lists there


def model_key(encoder: Encoder) -> str:
    """The sha256 of all that vectors depend on, whatever the model is called.

    >>> len(model_key(Encoder.load("minilm", device="cpu")))
    64
    """
    metadata = {name: value for name, value in identity(encoder).items() if name != "model"}
    return hashlib.sha256(json.dumps(metadata, sort_keys=True).encode()).hexdigest()
