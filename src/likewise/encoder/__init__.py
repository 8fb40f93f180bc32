"""Encoders: load a model; texts -> tokens, hidden states, attention maps, embeddings."""

from likewise.encoder.encoder import Encoded, Encoder, as_encoder, takes_encoder

__all__ = ["Encoded", "Encoder", "as_encoder", "takes_encoder"]
