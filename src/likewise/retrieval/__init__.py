"""Retrieval: texts and a query -> ranked hits; baselines; recall."""

from likewise.retrieval.baselines import baseline
from likewise.retrieval.corpus import Corpus
from likewise.retrieval.hits import Hits
from likewise.retrieval.hybrid import Hybrid
from likewise.retrieval.index import Index, IndexSettings
from likewise.retrieval.ranker import ranked
from likewise.retrieval.store import Hit

__all__ = ["Corpus", "Hit", "Hits", "Hybrid", "Index", "IndexSettings", "baseline", "ranked"]
