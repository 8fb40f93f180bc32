"""Retrieval: texts and a query -> ranked hits; baselines; recall."""

from likewise.search.baselines import baseline
from likewise.search.corpus import Corpus
from likewise.search.hits import Hits
from likewise.search.hybrid import Hybrid
from likewise.search.index import Index, IndexSettings
from likewise.search.ranker import ranked
from likewise.search.store import Hit

__all__ = ["Corpus", "Hit", "Hits", "Hybrid", "Index", "IndexSettings", "baseline", "ranked"]
