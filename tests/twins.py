"""Twins: transformers' own model and tokenizer of an encoder, for comparison."""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedTokenizerFast

from likewise.encoder import Encoder
from likewise.encoder.model_view import Transformer


def twin_model(encoder: Encoder) -> Any:
    """The encoder's weights in transformers' own class; they are shared, not copied."""
    if not isinstance(encoder.model, Transformer):
        return encoder.model
    config = AutoConfig.for_model(**encoder.model.config)
    model = AutoModel.from_config(config, attn_implementation="eager")
    model.load_state_dict(encoder.model.state_dict(), assign=True)
    return model.eval()


def twin_tokenizer(encoder: Encoder) -> Any:
    """As transformers reads it from the encoder's folder, or the same vocabulary in transformers' class."""
    if encoder.folder is not None:
        return AutoTokenizer.from_pretrained(encoder.folder / encoder.modules_config.transformer)
    vocabulary = encoder.tokenizer.vocabulary
    roles = {f"{role}_token": token for role, token in vocabulary.roles.items()}
    return PreTrainedTokenizerFast(tokenizer_object=vocabulary.backend, **roles)
