"""Geometry: hidden states -> one value per layer, with intervals."""
