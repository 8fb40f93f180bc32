"""References: a text of the same length that says nothing, or something given, to which a text is compared."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from likewise.encoder import Encoder
from likewise.encoder.forward import Batch, embed

NO_REFERENCE, FILLER = "none", "filler"


def reference_parts(encoder: Encoder, batch: Batch, reference: str = FILLER) -> tuple[Batch, Tensor | None]:
    """The reference's batch (B, T) and, where the tokenizer has no filler, its word vectors (B, T, E).

    Special tokens stay. A given text takes the other positions from the first one on; fillers take what it leaves: the
    pad token, else the mask, else the mean of all word vectors.
    """
    special = torch.isin(batch.ids, torch.tensor(encoder.tokenizer.special_ids(), device=batch.ids.device))
    filler = encoder.tokenizer.role_id("pad", "mask")
    given = torch.full_like(batch.ids, -1)
    if reference != FILLER:
        (tokens,) = encoder.tokenize([reference], "")
        own = [token for token, is_special in zip(tokens.ids, tokens.special, strict=True) if not is_special]
        # The number of each free position, counted from 0, is its place in the given text.
        index = (~special).long().cumsum(1) - 1
        table = torch.tensor([*own, -1], device=batch.ids.device)
        given = table[index.clip(0, len(own))]
    ids = torch.where(special, batch.ids, torch.where(given >= 0, given, 0 if filler is None else filler))
    changed = replace(batch, ids=ids)
    if filler is not None:
        return changed, None
    table = encoder.model_view.embeddings.word.weight
    mean = ~special & (given < 0)
    return changed, torch.where(mean[..., None], table.mean(0), encoder.model_view.embeddings.word(ids))


def reference_embeddings(encoder: Encoder, batch: Batch, reference: str = FILLER) -> Tensor:
    """The embedding layer's output (B, T, E) for the reference of a batch."""
    changed, words = reference_parts(encoder, batch, reference)
    return embed(encoder.model_view, changed, words=words)
