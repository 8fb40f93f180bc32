"""Settings of an attention study; each ``Annotated`` field is a command-line option with its help text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from likewise.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

FEWEST_PAIRS, MOST_PAIRS = 10, 10_000  # fewer make no clusters; more need too much memory for their distances
LARGEST_SEED = 2**32 - 1  # scikit-learn's limit
SMALLEST_ALPHA = 1e-6
VARIABLES = ("similarity", "length", "structure")
REDUCERS = ("lstm", "pca", "umap")
ALGORITHMS = ("kmeans", "dbscan", "agglomerative", "spectral", "gaussian-mixture")
LINKAGES = ("ward", "complete", "average", "single")
COVARIANCES = ("full", "tied", "diag", "spherical")
DISTANCES = ("euclidean", "manhattan", "cosine")
PUBLISHED_DEPTH = 12  # layers of the model in the published figures
NUMBER = r"-?\d+(?:\.\d+)?"
RANGE = re.compile(rf"({NUMBER})(?:-({NUMBER})?)?")


@dataclass(frozen=True)
class Highlight:
    """Ranges of one variable, ends included, that scatter plots show in colour.

    >>> Highlight("length", ((9, 15), (20, 22))).names
    ('length 9-15', 'length 20-22')
    """

    variable: str
    ranges: tuple[tuple[float, float], ...]
    layers: tuple[int, ...] = ()  # of a 12-layer model that are drawn; empty: all layers

    def __post_init__(self) -> None:
        if self.variable not in VARIABLES:
            raise UsageError(f"unknown variable {self.variable!r}; choose from {', '.join(VARIABLES)}")
        if not self.ranges:
            raise UsageError(f"no range of {self.variable} to highlight; give one as {self.variable}:1-2")
        for low, high in self.ranges:
            if not low <= high:
                raise UsageError(f"the range {low:g}-{high:g} of {self.variable} is empty; put the smaller end first")

    @classmethod
    def parse(cls, text: str) -> Highlight:
        """Read ``length:9-15,20-22``, ``similarity:0,5`` or ``structure:0.95-``; a missing end is infinity.

        >>> Highlight.parse("structure:0.95-").ranges
        ((0.95, inf),)
        """
        variable, _, ranges = text.partition(":")
        found = [RANGE.fullmatch(part.strip()) for part in ranges.split(",")]
        if not ranges or None in found:
            raise UsageError(f"cannot read the highlight {text!r}; write it as length:9-15,20-22 or structure:0.95-")
        return cls(variable.strip(), tuple(_ends(match) for match in found if match))

    @property
    def names(self) -> tuple[str, ...]:
        """A label for each range."""
        return tuple(f"{self.variable} {_range_name(*ends)}" for ends in self.ranges)

    def marks(self, values: ArrayLike) -> list[NDArray[np.bool_]]:
        """For each range, which of the values (n,) are inside."""
        import numpy as np

        numbers = np.asarray(values, dtype=float)
        return [(numbers >= low) & (numbers <= high) for low, high in self.ranges]

    def layers_of(self, depth: int) -> list[int]:
        """The layers to draw, from 1, of a model of ``depth``; a shallower model's at the same relative depth.

        >>> Highlight("similarity", ((0, 0),), layers=(2, 7, 10, 12)).layers_of(6)
        [1, 4, 5, 6]
        """
        if not self.layers:
            return list(range(1, depth + 1))
        share = min(1.0, depth / PUBLISHED_DEPTH)
        return sorted({max(1, int(layer * share + 0.5)) for layer in self.layers})


def _ends(found: re.Match[str]) -> tuple[float, float]:
    low, high = float(found[1]), found[2]
    if high is not None:
        return low, float(high)
    return low, float("inf") if found[0].endswith("-") else low


def _range_name(low: float, high: float) -> str:
    if low == high:
        return f"{low:g}"
    return f">= {low:g}" if high == float("inf") else f"{low:g}-{high:g}"


PUBLISHED_HIGHLIGHTS = (
    Highlight("similarity", ((0, 0), (5, 5)), (2, 7, 10, 12)),
    Highlight("length", ((9, 15), (20, 22), (60, 81)), (1, 4, 8, 12)),
    Highlight("structure", ((0.95, float("inf")),), (2, 3, 8, 12)),
)


@dataclass(frozen=True)
class AutoencoderSettings:
    """The LSTM autoencoder that turns a map into a point, and its training.

    >>> AutoencoderSettings().hidden
    32
    """

    hidden: Annotated[int, "Width of the autoencoder's LSTMs."] = 32
    directions: Annotated[int, "Directions of the LSTMs: 2 read and write from both ends."] = 2
    latent: Annotated[int, "Numbers of a point; clusters use all of them, figures show two."] = 2
    epochs: Annotated[int, "The autoencoder's largest number of epochs."] = 10
    patience: Annotated[int, "Epochs without a lower held-out loss before training stops."] = 2
    learning_rate: Annotated[float, "The learning rate of the autoencoder's Adam."] = 1e-3
    held_out: Annotated[float, "Share of the pairs that the autoencoder is not trained on."] = 0.1

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
    """Which clusterings are tried, and which may be chosen.

    >>> ClusterSettings(most=4).least
    2
    """

    algorithms: Annotated[tuple[str, ...], "Clustering algorithms to try."] = ALGORITHMS
    least: int = 2  # the smallest number of clusters
    most: int = 15  # the largest number of clusters
    distances: Annotated[tuple[str, ...], "Distances of agglomerative and dbscan; also: cosine."] = DISTANCES[:2]
    linkages: Annotated[tuple[str, ...], "Linkages of agglomerative."] = LINKAGES
    covariances: Annotated[tuple[str, ...], "Covariances of gaussian-mixture."] = COVARIANCES
    min_samples: Annotated[tuple[int, ...], "Neighbours that make a core point of dbscan."] = (5, 10)
    eps: tuple[float, ...] = ()  # DBSCAN's radius; empty: quantiles of the points' distances
    smallest: Annotated[float, "Clusterings with a smaller cluster than this share are not chosen."] = 0.01
    most_noise: Annotated[float, "Clusterings with a larger share of noise are not chosen."] = 0.1

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
    """The settings of an attention study.

    >>> AttentionSettings().reducer
    'lstm'
    """

    reducer: Annotated[str, "What turns maps into points: lstm, pca or umap."] = "lstm"
    compare: Annotated[tuple[str, ...], "Other reducers to compare, as pca,umap; or none."] = ("pca",)
    autoencoder: AutoencoderSettings = field(default_factory=AutoencoderSettings)
    clusters: ClusterSettings = field(default_factory=ClusterSettings)
    alpha: Annotated[float, "The significance level of the tests."] = 0.05
    permutations: Annotated[int, "Draws of the permutation tests."] = 1000
    control_pairs: Annotated[int, "Pairs of the random-attention control; 0: none."] = 300
    max_tokens: Annotated[int, "Longer pairs are left out."] = 128
    prompt: Annotated[str, "Put before the first text of each pair."] = ""
    highlights: tuple[Highlight, ...] = PUBLISHED_HIGHLIGHTS  # what scatter plots show in colour
    seed: Annotated[int, "The seed of all random draws."] = 0

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
        """The reducer and the compared ones, each once."""
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
