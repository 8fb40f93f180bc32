"""Search: indexes, ranked and explained hits, baselines, retrieval metrics."""

from likewise.search.baselines import RankedCorpus, baseline
from likewise.search.hits import Hit, Hits
from likewise.search.index import Index
from likewise.search.passages import PassageSettings, cut_passages
from likewise.search.ranker import Corpus, Hybrid, ranked
from likewise.search.settings import IndexSettings

__all__ = [
    "Corpus", "Hit", "Hits", "Hybrid", "Index", "IndexSettings", "PassageSettings", "RankedCorpus", "baseline",
    "cut_passages", "ranked",
]  # fmt: skip
