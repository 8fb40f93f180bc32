"""Search: indexes, ranked and explained hits, baselines, retrieval metrics."""

from likewise.search.baselines import RankedCorpus, baseline
from likewise.search.hits import Hit, Hits
from likewise.search.index import Index, IndexSettings
from likewise.search.ranker import Corpus, Hybrid, ranked

__all__ = ["Corpus", "Hit", "Hits", "Hybrid", "Index", "IndexSettings", "RankedCorpus", "baseline", "ranked"]
