"""Checks of a model's scores on a corpus of pairs: lint findings, and relevance by part of speech."""
