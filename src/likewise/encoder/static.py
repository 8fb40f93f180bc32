"""Static models (``StaticEmbedding``), from a folder or in memory: a text is the mean of its tokens' vectors.

Such a model is a ``ModelView`` without blocks. Only ``tokenizer.json`` counts for its tokens: there are no special
tokens around a text, and no text is cut unless that file cuts it. Files of model2vec may hold one row for several
tokens (``mapping``) and a weight for each token (``weights``). Both go into the table, as in sentence-transformers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer as Backend
from tokenizers import processors
from torch import Tensor, nn

from likewise.encoder.config import STATIC
from likewise.encoder.model_view import Embeddings, ModelView, Table, Transformer
from likewise.encoder.tokens import ROLES, SETTINGS, SPECIAL, TOKENIZER, Vocabulary
from likewise.encoder.weights import weight_files
from likewise.errors import ModelError, first_line

UNLIMITED = 2**31 - 1  # A number of tokens that no text has
USUAL_TOKENS = {
    "bos": ("<s>",), "eos": ("</s>",), "unk": ("[UNK]", "<unk>"), "sep": ("[SEP]",), "pad": ("[PAD]", "<pad>"),
    "cls": ("[CLS]",), "mask": ("[MASK]", "<mask>"),
}  # fmt: skip
"""Special tokens by role, for folders that do not name them."""

Parts = tuple[Transformer, ModelView, Vocabulary]


def load_static(folder: Path, dtype: str = "float32") -> Parts:
    """The weights of a static model's folder, the views on them, and its vocabulary."""
    if not (folder / TOKENIZER).exists():
        raise ModelError(f"{folder} has no tokenizer; add its {TOKENIZER}")
    try:
        backend = Backend.from_file(str(folder / TOKENIZER))
        vocabulary = _vocabulary(backend, _json(folder / SPECIAL) | _json(folder / SETTINGS))
    except Exception as error:  # tokenizers raises plain Exceptions
        said = first_line(error)
        raise ModelError(f"{folder}: no tokenizer can be read ({said}); add its {TOKENIZER}") from error
    try:
        table = nn.Module()
        table.weight = nn.Parameter(_table(weight_files(folder)[0]).to(getattr(torch, dtype)))
        return *_views(table, backend), vocabulary
    except ModelError as error:
        raise ModelError(f"{folder}: {error}") from error


def static_parts(module: Any) -> Parts:
    """The parts of a ``StaticEmbedding`` in memory, whose weights are shared."""
    backend = Backend.from_str(module.tokenizer.to_str())
    return *_views(module.embedding, backend), _vocabulary(backend, {})


def _views(table: nn.Module, backend: Backend) -> tuple[Transformer, ModelView]:
    """A model that shares a table of vectors (ids, width), and the views on it."""
    rows, width = table.weight.shape  # type: ignore[misc]
    highest = max(backend.get_vocab(with_added_tokens=True).values(), default=-1)
    if highest >= rows:
        raise ModelError(f"the tokenizer has ids up to {highest}, the weights only {rows} rows; save the model again")
    model = Transformer({"model_type": STATIC, "vocab_size": rows, "hidden_size": width})
    model.add_module("embedding", table)
    model.loaded = True
    return model, ModelView(STATIC, Embeddings(Table(table)), (), width, UNLIMITED)


def _table(path: Path) -> Tensor:
    """The vectors of all token ids, (ids, width)."""
    try:
        # Copies: tensors of a file may be unaligned, and sums of unaligned rows round differently.
        found = {name: tensor.clone() for name, tensor in load_file(str(path)).items()}
    except (OSError, SafetensorError) as error:
        raise ModelError(f"its weights cannot be loaded ({first_line(error)}); save the model again") from error
    table = found.get("embedding.weight")
    if table is None and "embeddings" in found:
        table = _folded(found["embeddings"], found.get("mapping"), found.get("weights"))
    if table is None or table.ndim != 2:
        raise ModelError(f"{path.name} has no matrix embedding.weight; save the model again")
    if not table.is_floating_point():
        raise ModelError(f"its vectors are quantized to {str(table.dtype).removeprefix('torch.')}; use plain weights")
    return table


def _folded(rows: Tensor, mapping: Tensor | None, weights: Tensor | None) -> Tensor:
    """The vector of token t is ``rows[mapping[t]] * weights[t]``."""
    try:
        if mapping is not None:
            rows = rows[mapping.long()]
        if weights is not None:
            rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
            rows = (rows * weights[:, None]).to(rows.dtype)
    except (IndexError, RuntimeError) as error:
        said = first_line(error)
        raise ModelError(f"mapping and weights do not fit the embeddings ({said}); save the model again") from error
    return rows


def _vocabulary(backend: Backend, settings: Mapping[str, Any]) -> Vocabulary:
    """A vocabulary that adds no special tokens; settings name the roles, else the tokens' usual names do."""
    # The stored limit is the model's own; the tokenizer sets it again.
    truncation = backend.truncation or {}
    backend.no_padding()
    backend.post_processor = processors.TemplateProcessing(single="$A:0", pair="$A:0 $B:1", special_tokens=[])
    special = [token.content for token in backend.get_added_tokens_decoder().values() if token.special]
    roles = {role: token for role, names in USUAL_TOKENS.items() for token in names if token in special}
    for role in ROLES:
        token = settings.get(f"{role}_token")
        token = token.get("content") if isinstance(token, Mapping) else token
        if token is not None and backend.token_to_id(str(token)) is not None:
            roles[role] = str(token)
    extra = tuple(token for token in special if token not in roles.values())
    limit, side = truncation.get("max_length", UNLIMITED), truncation.get("direction", "right")
    return Vocabulary(backend, roles, extra, limit, side, ("input_ids",))


def _json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
