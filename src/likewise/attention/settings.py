"""Settings of an attention study: the reducer, the clusterings, the tests, the controls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from likewise.attention.highlights import STUDY_HIGHLIGHTS, Highlight
from likewise.errors import UsageError

FEWEST_PAIRS, MOST_PAIRS = 10, 10_000
"""Fewer make no clusters, and more are too many for the distances of all to all."""
LARGEST_SEED = 2**32 - 1
"""What scikit-learn takes."""
SMALLEST_ALPHA = 1e-6
REDUCERS = ("lstm", "pca", "umap")
ALGORITHMS = ("kmeans", "dbscan", "agglomerative", "spectral", "gaussian-mixture")
LINKAGES = ("ward", "complete", "average", "single")
COVARIANCES = ("full", "tied", "diag", "spherical")
DISTANCES = ("euclidean", "manhattan", "cosine")


@dataclass(frozen=True)
class AutoencoderSettings:
    """The LSTM autoencoder that turns a map into a point, and how it is trained.

    >>> AutoencoderSettings().hidden
    32
    """

    hidden: int = 32
    """Width of an LSTM's state."""
    directions: int = 2
    """2 reads and writes a map from both ends, 1 from its beginning alone."""
    latent: int = 2
    """Numbers that a map becomes. Clusters are made in all of them; pictures show two."""
    epochs: int = 10
    """The most epochs."""
    patience: int = 2
    """Epochs without a lower held-out loss after which training stops; the best epoch's weights count."""
    learning_rate: float = 1e-3
    """Of Adam."""
    held_out: float = 0.1
    """Share of the sequences that training does not see."""

    def __post_init__(self) -> None:
        if self.directions not in (1, 2):
            raise UsageError(f"directions is 1 or 2, got {self.directions}")
        _at_least(self, {"hidden": 1, "latent": 2, "epochs": 1, "patience": 1})
        if not 0 < self.learning_rate <= 1:
            raise UsageError(f"learning-rate lies above 0 and up to 1, got {self.learning_rate}")
        if not 0 <= self.held_out <= 0.5:
            raise UsageError(f"held-out is a share from 0 to 0.5, got {self.held_out}")


@dataclass(frozen=True)
class ClusterSettings:
    """Which clusterings are tried, and which of them may be chosen.

    >>> ClusterSettings(most=4).least
    2
    """

    algorithms: tuple[str, ...] = ALGORITHMS
    """Algorithms to try."""
    least: int = 2
    """The smallest number of clusters."""
    most: int = 15
    """The largest number of clusters."""
    distances: tuple[str, ...] = ("euclidean", "manhattan")
    """Distances of agglomerative clustering and DBSCAN; ward linkage knows the Euclidean one alone."""
    linkages: tuple[str, ...] = LINKAGES
    """Linkages of agglomerative clustering."""
    covariances: tuple[str, ...] = COVARIANCES
    """Covariances of the Gaussian mixture."""
    min_samples: tuple[int, ...] = (5, 10)
    """Neighbours that make a DBSCAN core point."""
    eps: tuple[float, ...] = ()
    """How far DBSCAN reaches; none: quantiles of the points' own distances."""
    smallest: float = 0.01
    """A clustering with a smaller cluster than this share of the points (or fewer than 3 points) is not chosen."""
    most_noise: float = 0.1
    """A clustering that leaves a larger share of the points as noise is not chosen."""

    def __post_init__(self) -> None:
        _at_least(self, {"least": 2, "most": self.least})
        known = {"algorithms": ALGORITHMS, "distances": DISTANCES, "linkages": LINKAGES, "covariances": COVARIANCES}
        for name, choices in known.items():
            _among(name, getattr(self, name), choices)
        if not self.min_samples or min(self.min_samples) < 1:
            raise UsageError(f"min-samples takes numbers from 1 on, got {self.min_samples}")
        if any(not 0 < each < float("inf") for each in self.eps):
            raise UsageError(f"eps takes numbers above 0, got {self.eps}")
        for name in ("smallest", "most_noise"):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"{name.replace('_', '-')} is a share from 0 to below 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class AttentionSettings:
    """The whole study.

    >>> AttentionSettings().reducer
    'lstm'
    """

    reducer: str = "lstm"
    """What turns maps into points: lstm, or pca or umap of a fixed-size summary."""
    compare: tuple[str, ...] = ("pca",)
    """Reducers that go through the same clusters and tests beside it."""
    autoencoder: AutoencoderSettings = field(default_factory=AutoencoderSettings)
    clusters: ClusterSettings = field(default_factory=ClusterSettings)
    alpha: float = 0.05
    """The level of the tests."""
    permutations: int = 1000
    """Draws of the permutation tests."""
    control_pairs: int = 300
    """Pairs whose shapes the random attention has, at least 10; 0 leaves this control out."""
    max_tokens: int = 128
    """Longer pairs are left out: a map of n tokens has n^2 steps to learn."""
    prompt: str = ""
    """Put before the first text of each pair."""
    highlights: tuple[Highlight, ...] = STUDY_HIGHLIGHTS
    """Ranges of the variables that scatter plots light up."""
    seed: int = 0
    """Of all that is drawn at random."""

    def __post_init__(self) -> None:
        _among("reducer", (self.reducer,), REDUCERS)
        if self.compare:
            _among("compare", self.compare, REDUCERS)
        _at_least(self, {"permutations": 1, "control_pairs": 0, "max_tokens": 4, "seed": 0})
        if 0 < self.control_pairs < FEWEST_PAIRS:
            raise UsageError(f"control-pairs must be 0 or at least {FEWEST_PAIRS}, got {self.control_pairs}")
        if self.seed > LARGEST_SEED:
            raise UsageError(f"seed must be at most {LARGEST_SEED}, got {self.seed}")
        if not SMALLEST_ALPHA <= self.alpha < 1:
            raise UsageError(f"alpha lies between {SMALLEST_ALPHA:g} and 1, got {self.alpha}")

    @property
    def reducers(self) -> tuple[str, ...]:
        """The reducer and those it is compared with, each once."""
        return tuple(dict.fromkeys((self.reducer, *self.compare)))


def _at_least(settings: Any, least: dict[str, int]) -> None:
    for name, low in least.items():
        if getattr(settings, name) < low:
            raise UsageError(f"{name.replace('_', '-')} must be at least {low}, got {getattr(settings, name)}")


def _among(name: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    if not given:
        raise UsageError(f"{name} is empty; choose from {', '.join(known)}")
    for one in given:
        if one not in known:
            raise UsageError(f"unknown {name.removesuffix('s')} {one!r}; choose from {', '.join(known)}")
