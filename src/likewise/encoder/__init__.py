"""The encoder room: name or path -> Encoder; texts -> tokens, hidden states, attentions, vectors."""

from likewise.encoder.encoder import Encoded, Encoder

__all__ = ["Encoded", "Encoder"]
