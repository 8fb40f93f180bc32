"""Name or path -> Encoder; texts -> tokens, hidden states, attention maps, vectors."""

from likewise.encoder.encoder import Encoded, Encoder, as_encoder, takes_encoder

__all__ = ["Encoded", "Encoder", "as_encoder", "takes_encoder"]
