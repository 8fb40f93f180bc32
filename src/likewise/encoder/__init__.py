"""Encoders: load a model; texts -> tokens, hidden states, attention maps, embeddings; pairs -> a reranker's scores."""

from likewise.encoder.cross_encoder import CrossEncoder, load_scoring, pair_scores
from likewise.encoder.encoder import Encoded, Encoder, as_encoder, takes_encoder

__all__ = ["CrossEncoder", "Encoded", "Encoder", "as_encoder", "load_scoring", "pair_scores", "takes_encoder"]
