"""Search: indexes, ranked and explained hits, baselines, retrieval metrics."""

from likewise.search.baselines import RankedCorpus, baseline
from likewise.search.calibration import Calibration, CalibrationSettings, calibrate
from likewise.search.calibration_store import Least
from likewise.search.explained_hits import explain_hits
from likewise.search.hits import Hit, Hits
from likewise.search.index import Index, IndexSettings
from likewise.search.passages import PassageSettings, cut_passages
from likewise.search.ranker import Corpus, Hybrid, ranked

__all__ = [
    "Calibration", "CalibrationSettings", "Corpus", "Hit", "Hits", "Hybrid", "Index", "IndexSettings", "Least",
    "PassageSettings", "RankedCorpus", "baseline", "calibrate", "cut_passages", "explain_hits", "ranked",
]  # fmt: skip
