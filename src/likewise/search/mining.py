"""Hard negatives: texts that are near an anchor and no match of it, without those that are likely matches.

As in ``mine_hard_negatives`` of sentence-transformers, a candidate too near to the anchor is taken for a positive that
nobody labelled. The limit is a calibrated probability of a match, or a margin below the score of the known positive
(the positive-aware limit of NV-Retriever, de Souza P. Moreira et al. 2024).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from likewise.data import Pair, ScoredPair
from likewise.encoder import Encoder, as_encoder
from likewise.encoder.cross_encoder import pooling_of
from likewise.encoder.encoder import Source
from likewise.encoder.similarity import paired_similarity, similarity_blocks
from likewise.errors import DataError, UsageError
from likewise.plotting.axes import PALETTE, axes_or_new, frame, legend
from likewise.plotting.html import paragraph, section
from likewise.plotting.marked_pairs import MarkedPair, MarkedText, pairs_fragment, pairs_lines
from likewise.progress import Progress, Ticker
from likewise.results import Column, Figure, Result, Table
from likewise.search.cached_vectors import cached_vectors
from likewise.search.engines import Vectors
from likewise.search.ranker import Rows, best
from likewise.search.similar_pairs import components
from likewise.storage import atomic_write, content_key

if TYPE_CHECKING:
    from rich.text import Text

    from likewise.search.calibration import Calibration

MARGIN = 0.05
BINS = 40
SHOWN_TRIPLETS = 100  # Of a page


@dataclass(frozen=True)
class MiningSettings:
    """How many negatives an anchor gets, from which ranks, and which candidates are likely matches."""

    per_anchor: int = 1  # negatives of each anchor
    rank_from: int = 1  # the first rank of candidates, from 1 on, known positives not counted
    rank_to: int = 50  # the last one
    max_probability: float | None = None  # reject candidates with a higher calibrated probability of a match
    margin: float | None = None  # reject candidates above (1 - margin) of the positive's score
    filtered: bool = True  # whether likely matches are rejected at all

    def __post_init__(self) -> None:
        if self.per_anchor < 1:
            raise UsageError(f"--per-anchor is at least 1, got {self.per_anchor}")
        if not 1 <= self.rank_from <= self.rank_to:
            raise UsageError(f"ranks go from 1 on and up, got {self.rank_from} to {self.rank_to}; give --ranks 1-50")
        if self.max_probability is not None and not 0 < self.max_probability < 1:
            raise UsageError(f"--max-probability is between 0 and 1, got {self.max_probability:g}")
        if self.margin is not None and not 0 <= self.margin < 1:
            raise UsageError(f"--margin is a share from 0 to below 1, got {self.margin:g}")
        if self.max_probability is not None and self.margin is not None:
            raise UsageError("--margin does not go with --max-probability; leave one of them out")
        if not self.filtered and (self.max_probability is not None or self.margin is not None):
            raise UsageError("--no-filter does not go with --margin or --max-probability; leave one of them out")

    @property
    def limit(self) -> str:
        """The filter in words."""
        if not self.filtered:
            return "no filter"
        if self.max_probability is not None:
            return f"probability of a match at most {self.max_probability:g}"
        return f"score at most {1 - self.used_margin:.4g} of the positive's"

    @property
    def used_margin(self) -> float:
        """The margin, where nothing else is given."""
        return MARGIN if self.margin is None else self.margin


USUAL = MiningSettings()


@dataclass(frozen=True)
class Triplet:
    """An anchor, its known positive and a mined negative, with their scores."""

    anchor: str
    positive: str
    negative: str
    positive_score: float
    negative_score: float
    rank: int  # of the negative among the candidates, from 1 on
    probability: float | None = None  # of a match; None without a calibration

    @property
    def drawn(self) -> MarkedPair:
        """What pages and terminals show: the anchor and the negative."""
        texts = MarkedText("anchor", self.anchor), MarkedText("negative", self.negative)
        return MarkedPair(*texts, self.negative_score, note=f"positive {self.positive_score:.4f}")


@dataclass(frozen=True)
class MiningCounts:
    """How many candidates were seen and why some were not taken."""

    anchors: int  # pairs of an anchor and a positive
    texts: int  # different texts that negatives come from
    candidates: int  # candidates in the ranks that were looked at, until an anchor had enough
    rejected: int  # likely false negatives among them
    known: int  # known positives, also by way of others, that ranked above the last candidate
    without: int  # anchors without any negative
    fewer: int  # anchors with fewer negatives than wanted


@dataclass(frozen=True, eq=False, repr=False)
class MinedNegatives(Result):
    """Triplets for training, and what was rejected."""

    data: str
    model: str
    pooling: str
    settings: MiningSettings
    counts: MiningCounts
    triplets: tuple[Triplet, ...]
    rejected_scores: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    skipped: int = 0
    shown: int = 5

    run_key = "result"

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"Hard negatives: {self.data}"

    @property
    def notes(self) -> list[str]:
        """What was mined, and with which limit."""
        return [f"{self.data}, {self.model}, {self.pooling}; {self.settings.limit}"]

    @property
    def cautions(self) -> list[str]:
        """Skipped rows, anchors without enough negatives, and a missing filter."""
        wanted, counts = self.settings.per_anchor, self.counts
        every = {
            f"bad rows skipped: {self.skipped}": self.skipped,
            f"anchors with fewer than {wanted} negatives: {counts.fewer} of {counts.anchors}, {counts.without} with"
            " none; widen --ranks or the limit": counts.fewer,
            "likely matches are not rejected": not self.settings.filtered,
        }
        return [f"{self.data}: {line}" for line, holds in every.items() if holds]

    def to_dict(self) -> dict[str, Any]:
        """The counts, the settings and all triplets."""
        return {
            "data": self.data, "model": self.model, "pooling": self.pooling, "settings": asdict(self.settings),
            "limit": self.settings.limit, **asdict(self.counts), "skipped": self.skipped,
            "triplets": [asdict(one) for one in self.triplets],
        }  # fmt: skip

    def tables(self) -> dict[str, Table]:
        """The counts, and for files the triplets, as ``likewise train`` reads them."""
        counts = self.counts
        rows = [
            ("pairs of anchor and positive", counts.anchors), ("different texts", counts.texts),
            ("candidates", counts.candidates), ("rejected as likely matches", counts.rejected),
            ("known positives", counts.known), ("triplets", len(self.triplets)),
            ("anchors without a negative", counts.without),
        ]  # fmt: skip
        return {"counts": Table.of(["what", "count"], rows), "triplets": self.triplet_table()}

    def triplet_table(self) -> Table:
        """The triplets: a contrastive task with ``views = "triplets"`` learns from them."""
        names = ["anchor", "positive", "negative", "positive_score", "negative_score", "rank", "probability"]
        rows = [tuple(asdict(one).values()) for one in self.triplets]
        return Table.of([Column(name) for name in names], rows, detail=True)

    def write(self, path: Path) -> None:
        """Write the triplets as CSV, whole or not at all."""
        atomic_write(path, self.triplet_table().to_csv, unique=True)

    def lines(self, width: int) -> list[Text]:  # noqa: ARG002
        """The first triplets: anchor and negative."""
        return pairs_lines([one.drawn for one in self.triplets[: self.shown]])

    def fragments(self) -> list[str]:
        """The figure, the counts and the first triplets."""
        note = f"The first {min(SHOWN_TRIPLETS, len(self.triplets))} of {len(self.triplets):,}; --out has all of them."
        drawn = pairs_fragment([one.drawn for one in self.triplets[:SHOWN_TRIPLETS]])
        return [*super().fragments(), section("Anchors and negatives", [paragraph(note, note=True), drawn])]

    def figures(self) -> dict[str, Figure]:
        """How the scores of positives, negatives and rejected candidates lie."""
        return {"scores": Figure(self.plot, "Scores with the anchor")} if self.triplets else {}

    def plot(self, ax: Any = None) -> Any:
        """Histograms of the scores of positives, mined negatives and rejected candidates."""
        ax = axes_or_new(ax, (7.0, 3.6))
        every = {
            "positives": np.array([one.positive_score for one in self.triplets]),
            "mined negatives": np.array([one.negative_score for one in self.triplets]),
            "rejected as likely matches": self.rejected_scores,
        }
        series = {name: values for name, values in every.items() if len(values)}
        edges = np.linspace(min(0.0, *(float(values.min()) for values in series.values())), 1.0, BINS + 1)
        drawn = [
            ax.hist(values, edges, histtype="stepfilled", color=PALETTE[index], alpha=0.5)[2][0]
            for index, values in enumerate(series.values())
        ]
        frame(ax, ("cosine with the anchor", "texts"), f"{self.data}, {self.model}", "y")
        legend(ax, drawn, list(series), fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return ax


def positives_from(pairs: Sequence[Pair | ScoredPair], min_score: float | None, data: str) -> list[tuple[str, str]]:
    """The anchors and positives of a file; pairs with scores need a lowest score of a positive."""
    scored = [pair for pair in pairs if isinstance(pair, ScoredPair)]
    if scored and min_score is None:
        raise UsageError(f"{data} has scores; give --min-score, the lowest score of a pair that is a match")
    if min_score is None:
        return [(pair.left, pair.right) for pair in pairs]
    if not scored:
        raise UsageError(f"{data} has no scores; leave --min-score out")
    found = [(pair.left, pair.right) for pair in scored if pair.score >= min_score]
    if not found:
        raise DataError(f"{data}: no pair has a score of {min_score:g} or more; lower --min-score")
    return found


def mine_negatives(
    encoder: Encoder | Source,
    positives: Sequence[tuple[str, str]],
    texts: Iterable[str] = (),
    settings: MiningSettings = USUAL,
    calibration: Calibration | None = None,
    progress: Progress | None = None,
) -> MinedNegatives:
    """Near texts that are no known positives of an anchor, for each pair of an anchor and a positive.

    Negatives come from the texts of all pairs and from ``texts``. Positives of positives count as known too.

    >>> pairs = [("Two cats sleep.", "A pair of cats sleeps."), ("The bank cut rates.", "Rates were cut by the bank.")]
    >>> mine_negatives("minilm", pairs, ["Two dogs sleep."]).triplets[0].negative
    'Two dogs sleep.'
    """
    if not positives:
        raise DataError("no pair of an anchor and a positive; give at least one")
    if settings.max_probability is not None:
        if calibration is None:
            raise UsageError("--max-probability needs a calibration; give --calibration, or --margin in its place")
        calibration.required_match()
    encoder, corpus = as_encoder(encoder), list(dict.fromkeys(text for pair in positives for text in pair))
    corpus = list(dict.fromkeys([*corpus, *texts]))
    items = [(str(number), text) for number, text in enumerate(corpus)]
    vectors = cached_vectors(encoder, content_key(corpus), lambda: items, len(items), None, progress).vectors
    row_of = {text: row for row, text in enumerate(corpus)}
    ends = np.array([(row_of[anchor], row_of[positive]) for anchor, positive in positives], np.int64)
    miner = _Miner(vectors, ends, components(len(corpus), *ends.T), settings, calibration)
    found = list(miner.mined(progress))
    triplets = tuple(_triplet(corpus, one) for one in found)
    return MinedNegatives(
        f"{len(positives)} pairs", encoder.name, pooling_of(encoder), settings, miner.counts(found), triplets,
        np.array(miner.rejected),
    )  # fmt: skip


@dataclass(frozen=True)
class _Mined:
    """A negative of one pair, by rows."""

    pair: int
    anchor: int
    positive: int
    negative: int
    scores: tuple[float, float]
    rank: int
    probability: float | None


def _triplet(corpus: Sequence[str], one: _Mined) -> Triplet:
    anchor, positive, negative = (corpus[row] for row in (one.anchor, one.positive, one.negative))
    return Triplet(anchor, positive, negative, *one.scores, one.rank, one.probability)


@dataclass(eq=False)
class _Miner:
    """Mines the negatives of pairs (p, 2) of rows of vectors (n, d), and counts what it sees."""

    vectors: Vectors
    pairs: Rows
    matches: Rows  # rows of one number are known to match (n,)
    settings: MiningSettings
    calibration: Calibration | None
    rejected: list[float] = field(default_factory=list)
    candidates: int = 0
    known: int = 0

    def mined(self, progress: Progress | None) -> Iterator[_Mined]:
        """The negatives of each pair, the nearest first."""
        ticker = Ticker(progress, len(self.pairs), "anchors")
        # Deep enough that known positives do not use up the ranks; the anchor itself is one of them.
        depth = self.settings.rank_to + int(np.bincount(self.matches).max())
        anchors = self.vectors[self.pairs[:, 0]]
        scores = paired_similarity(anchors, self.vectors[self.pairs[:, 1]])
        for start, block in similarity_blocks(anchors, self.vectors):
            near = best(block, depth)
            for index in range(len(block)):
                pair = start + index
                yield from self._of_pair(pair, float(scores[pair]), near.rows[index], near.scores[index])
                ticker.add()
        ticker.close()

    def _of_pair(self, pair: int, score: float, rows: Rows, near: NDArray[np.float32]) -> Iterator[_Mined]:
        """The negatives among the nearest rows (k,) with their scores (k,); ``score`` is that of the positive."""
        anchor, positive = self.pairs[pair].tolist()
        is_known = self.matches[rows] == self.matches[anchor]
        positions = np.flatnonzero(~is_known)[self.settings.rank_from - 1 : self.settings.rank_to]
        scores, meaning = near[positions].astype(np.float64), self.calibration
        chances = None if meaning is None or meaning.match is None else meaning.probabilities(scores)
        likely = self._likely(score, scores, chances)
        taken = np.flatnonzero(~likely)[: self.settings.per_anchor]
        last = int(taken[-1]) + 1 if len(taken) == self.settings.per_anchor else len(positions)
        self._count(scores[:last][likely[:last]], last, is_known & (rows != anchor), positions[:last])
        for index in taken.tolist():
            chance = None if chances is None else float(chances[index])
            both, rank = (score, float(scores[index])), index + self.settings.rank_from
            yield _Mined(pair, anchor, positive, int(rows[positions[index]]), both, rank, chance)

    def _count(self, rejected: NDArray[np.float64], seen: int, is_known: NDArray[np.bool_], positions: Rows) -> None:
        self.rejected += rejected.tolist()
        self.candidates += seen
        self.known += int(is_known[: positions[-1]].sum()) if seen else 0

    def _likely(
        self, positive: float, scores: NDArray[np.float64], chances: NDArray[np.float64] | None
    ) -> NDArray[np.bool_]:
        """Which candidates (k,) are likely matches."""
        if not self.settings.filtered:
            return np.zeros(len(scores), bool)
        if self.settings.max_probability is not None and chances is not None:
            return chances > self.settings.max_probability
        return scores > (1 - self.settings.used_margin) * positive

    def counts(self, found: Sequence[_Mined]) -> MiningCounts:
        """What was seen."""
        each = np.bincount([one.pair for one in found], minlength=len(self.pairs))
        short = each < self.settings.per_anchor
        return MiningCounts(
            len(self.pairs), len(self.vectors), self.candidates, len(self.rejected), self.known,
            int((each == 0).sum()), int(short.sum()),
        )  # fmt: skip
