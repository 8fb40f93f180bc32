"""Retrieval: texts and a query -> ranked hits; baselines; recall."""

from likewise.retrieval.corpus import Corpus
from likewise.retrieval.hits import Hits
from likewise.retrieval.index import Index, IndexSettings
from likewise.retrieval.store import Hit

__all__ = ["Corpus", "Hit", "Hits", "Index", "IndexSettings"]
