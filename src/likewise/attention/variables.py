"""Variables: what may explain why sequences lie together: similarity, length and grammatical structure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.attention.highlights import VARIABLES
from likewise.grammar import Grammar
from likewise.progress import Progress

Labels = tuple[tuple[str, ...], tuple[str, ...]]
"""The ordered dependency labels of a pair's two texts."""


@dataclass(frozen=True, eq=False)
class Variables:
    """The variables of n pairs; nan where a pair lacks one.

    >>> found = Variables(np.array([0.0, 5.0]), np.array([9.0, 12.0]), None)
    >>> found.names
    ('similarity', 'length')
    """

    similarity: NDArray[np.float64]
    """(n,): the human label."""
    length: NDArray[np.float64]
    """(n,): tokens of the pair as one sequence, special ones included."""
    structure: Structures | None
    """None where no grammar was at hand."""

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that are known."""
        return VARIABLES if self.structure is not None else VARIABLES[:2]

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        if name == "structure":
            assert self.structure is not None
            return self.structure.cosines
        return self.similarity if name == "similarity" else self.length

    def of(self, indices: ArrayLike) -> Variables:
        """The variables of some of the pairs; structures stay measured against the same one."""
        some = np.asarray(indices)
        structure = None if self.structure is None else self.structure.of(some)
        return Variables(self.similarity[some], self.length[some], structure)


@dataclass(frozen=True, eq=False)
class Structures:
    """How alike each pair's grammar is to the most frequent one."""

    cosines: NDArray[np.float64]
    """(n,): the cosine of a pair's label counts with those of the most frequent structure."""
    most_frequent: Labels
    shared_by: int
    """Pairs with exactly this structure."""
    distinct: int
    """Different structures."""

    def to_dict(self) -> dict[str, Any]:
        """The most frequent structure and how many pairs share it."""
        first, second = (list(labels) for labels in self.most_frequent)
        return {"most_frequent": [first, second], "shared_by": self.shared_by, "distinct": self.distinct}

    def of(self, indices: NDArray[np.int64]) -> Structures:
        """Those of some of the pairs."""
        return Structures(self.cosines[indices], self.most_frequent, self.shared_by, self.distinct)


def structures_of(labels: Sequence[Labels]) -> Structures:
    """Compare each pair's counts of dependency labels, both texts together, with those of the most frequent structure.

    Of structures that are equally frequent the first one in the file counts.

    >>> one, other = (("nsubj", "root"), ("root",)), (("root",), ("root",))
    >>> found = structures_of([one, other, one])
    >>> found.shared_by, found.cosines.round(3).tolist()
    (2, [1.0, 0.894, 1.0])
    """
    tally = Counter(labels)
    most_frequent, shared_by = tally.most_common(1)[0]
    counts = [Counter(first + second) for first, second in labels]
    target = Counter(most_frequent[0] + most_frequent[1])
    cosines = np.array([_cosine(count, target) for count in counts])
    return Structures(cosines, most_frequent, shared_by, len(tally))


def _cosine(left: Counter[str], right: Counter[str]) -> float:
    shared = sum(count * right[name] for name, count in left.items())
    sizes = sum(count**2 for count in left.values()) * sum(count**2 for count in right.values())
    return shared / float(np.sqrt(sizes)) if sizes else 0.0


def dependency_labels(
    pairs: Sequence[tuple[str, str]], grammar: Grammar, progress: Progress | None = None
) -> list[Labels]:
    """The dependency labels of both texts of each pair, in the order of their words."""
    parsed = grammar.parse([text for pair in pairs for text in pair], progress)
    labels = [tuple(word.dep for word in text.words) for text in parsed]
    return list(zip(labels[::2], labels[1::2], strict=True))
