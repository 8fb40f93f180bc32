"""The result of a search for duplicates: pairs, flags, groups, the rows to keep, and their drawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from likewise.errors import UsageError
from likewise.plotting.axes import PALETTE, axes_or_new, frame, legend
from likewise.plotting.html import paragraph, section
from likewise.plotting.marked_pairs import MarkedPair, MarkedText, pairs_fragment, pairs_lines
from likewise.results import Column, Figure, Result, Table
from likewise.results.result import figure_section
from likewise.search.hits import ScoreMeaning
from likewise.search.ranker import Rows

if TYPE_CHECKING:
    from rich.text import Text

    from likewise.explain.text_differences import Differences, DifferentSpan
    from likewise.search.calibration import Calibration

KEEP = ("first", "longest")
SIDES = ("left", "right")
SHOWN_PAIRS = 300  # Of a page
SHOWN_GROUPS = 20
BINS = 100
READ_CHARACTERS = 100_000  # Flags and spans are of the first characters of a text, which bounds their memory


@dataclass(frozen=True)
class PairDifferences:
    """The spans of two texts in which they differ; everything else they share."""

    left: tuple[DifferentSpan, ...] = ()
    right: tuple[DifferentSpan, ...] = ()

    @classmethod
    def of(cls, found: Differences) -> PairDifferences:
        """The spans alone, without the vectors that they come from."""
        return cls(found.left, found.right)

    def to_dict(self) -> dict[str, Any]:
        """The spans of both sides."""
        return {side: [span.to_dict() for span in getattr(self, side)] for side in SIDES}

    def shared(self, side: str, text: str) -> list[dict[str, Any]]:
        """The pieces of a side's text outside its differing spans, with their characters."""
        text = text[:READ_CHARACTERS]
        ends = [0, *(end for span in self._ordered(side) for end in (span.start, span.end)), len(text)]
        pieces = [(start, end) for start, end in zip(ends[::2], ends[1::2], strict=True) if text[start:end].strip()]
        return [{"start": start, "end": end, "text": text[start:end]} for start, end in pieces]

    def _ordered(self, side: str) -> list[DifferentSpan]:
        return sorted(getattr(self, side), key=lambda span: int(span.start))


@dataclass(frozen=True)
class DuplicatePair:
    """Two rows whose texts are the same or nearly the same."""

    left: str  # the id of the earlier row
    right: str
    left_text: str = field(repr=False)
    right_text: str = field(repr=False)
    score: float
    flags: Mapping[str, str] = field(default_factory=dict)  # rules that find another meaning, with their evidence
    differences: PairDifferences | None = None  # None if it was not computed
    meaning: ScoreMeaning | None = None  # None without a calibration

    @classmethod
    def of(cls, left: tuple[str, str], right: tuple[str, str], score: float) -> DuplicatePair:
        """Two rows (id, text); identical texts differ nowhere."""
        differences = PairDifferences() if left[1] == right[1] else None
        return cls(left[0], right[0], left[1], right[1], score, differences=differences)

    @property
    def read_texts(self) -> tuple[str, str]:
        """The parts of both texts that flags and spans are of."""
        return self.left_text[:READ_CHARACTERS], self.right_text[:READ_CHARACTERS]

    @property
    def is_identical(self) -> bool:
        """Whether the texts are equal, character by character."""
        return self.left_text == self.right_text

    def to_dict(self) -> dict[str, Any]:
        """Ids, score, flags and differences, and what they are taken from."""
        found: dict[str, Any] = {
            "left": self.left, "right": self.right, "score": self.score, "flags": list(self.flags),
            "differences": None if self.differences is None else self.differences.to_dict(),
            "shared": None if self.differences is None else {
                "left": self.differences.shared("left", self.left_text),
                "right": self.differences.shared("right", self.right_text),
            },
            "evidence": dict(self.flags), "left_text": self.left_text, "right_text": self.right_text,
        }  # fmt: skip
        return found if self.meaning is None else found | {"meaning": self.meaning.to_dict()}

    @property
    def drawn(self) -> MarkedPair:
        """What pages and terminals show."""
        sides = ((), ()) if self.differences is None else (self.differences.left, self.differences.right)
        left, right = ([(span.start, span.end, span.weight) for span in spans] for spans in sides)
        note = "" if self.meaning is None else str(self.meaning)
        texts = MarkedText(self.left, self.left_text, left), MarkedText(self.right, self.right_text, right)
        return MarkedPair(*texts, self.score, tuple(self.flags.items()), note)


@dataclass(frozen=True, eq=False)
class CorpusRows:
    """The n rows of a corpus: the group of each (n,), and the length of each text (n,)."""

    groups: Rows
    lengths: Rows

    def chosen(self, keep: str) -> NDArray[np.bool_]:
        """Which rows stay, (n,): the first or the longest of each group.

        >>> CorpusRows(np.array([0, 1, 0]), np.array([3, 5, 8])).chosen("longest")
        array([False,  True,  True])
        """
        if keep not in KEEP:
            raise UsageError(f"unknown choice {keep!r} of --keep; choose from {', '.join(KEEP)}")
        order = np.arange(len(self.groups))
        if keep == "longest":
            order = np.lexsort((order, -self.lengths))
        first = np.unique(self.groups[order], return_index=True)[1]
        stays = np.zeros(len(self.groups), bool)
        stays[order[first]] = True
        return stays


@dataclass(frozen=True)
class DuplicateMetadata:
    """What was compared, and how."""

    data: str
    model: str
    pooling: str
    threshold: float
    basis: str  # where the threshold comes from: given, or what it means by the calibration
    engine: str
    recall: float | None  # the share of pairs that an approximate engine finds, by a sample
    rules: tuple[str, ...]  # the rules that ran
    missing_rules: tuple[str, ...] = ()  # rules that need a parser
    truncated: int = 0  # texts that were cut at the model's limit
    skipped: int = 0  # bad rows
    long: int = 0  # texts of pairs that are longer than what flags and spans are of
    strict: bool = False  # flagged pairs make no group


@dataclass(frozen=True, eq=False, repr=False)
class Duplicates(Result):
    """The pairs of a corpus from a threshold on, the highest score first, and their groups."""

    metadata: DuplicateMetadata
    rows: CorpusRows
    distinct: int  # the number of different texts
    pairs: tuple[DuplicatePair, ...]
    groups: tuple[tuple[str, ...], ...]  # ids, the largest group first
    sampled: NDArray[np.float32]  # scores of a sample of all pairs of distinct texts
    shown: int = 10  # pairs that the terminal lists

    run_key = "result"

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.rows.groups)

    @property
    def near(self) -> list[DuplicatePair]:
        """The pairs of different texts."""
        return [pair for pair in self.pairs if not pair.is_identical]

    @property
    def removable(self) -> int:
        """How many rows could go: all but one of each group."""
        return sum(len(group) - 1 for group in self.groups)

    def with_meanings(self, calibration: Calibration) -> Duplicates:
        """The same with what each score means."""
        meanings = calibration.meanings([pair.score for pair in self.pairs])
        pairs = (replace(pair, meaning=one) for pair, one in zip(self.pairs, meanings, strict=True))
        return replace(self, pairs=tuple(pairs))

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"Duplicates: {self.metadata.data}"

    @property
    def notes(self) -> list[str]:
        """What was compared, and what a pair is."""
        about = self.metadata
        found = "" if about.recall is None else f", which finds {about.recall:.1%} of the pairs, by a sample"
        return [
            f"{about.data}, {about.model}, {about.pooling}; pairs from a cosine of {about.threshold:.4g} on"
            f" ({about.basis}), engine {about.engine}{found}"
        ]

    @property
    def cautions(self) -> list[str]:
        """Skipped rows, cut texts, and rules that did not run."""
        about = self.metadata
        rules = " and ".join(about.missing_rules)
        every = {
            f"bad rows skipped: {about.skipped}": about.skipped,
            f"texts cut at the model's limit: {about.truncated}; what follows is not compared": about.truncated,
            f"texts of pairs with over {READ_CHARACTERS:,} characters: {about.long}; flags and spans are of these"
            " first characters": about.long,
            f"rules that need a parser did not run: {rules}; give a spaCy pipeline with --grammar": rules,
            "precisions and probabilities are those of pairs like the labelled ones; among all pairs of a corpus"
            " matches are rarer, and both are lower": about.basis.startswith(("precision", "probability")),
        }
        return [f"{about.data}: {line}" for line, holds in every.items() if holds]

    def to_dict(self) -> dict[str, Any]:
        """Pairs and groups by id, and what was compared."""
        about = {name: value for name, value in vars(self.metadata).items() if name != "missing_rules"}
        counts = {"n": self.n, "distinct": self.distinct, "removable": self.removable}
        return {
            **about, **counts, "rules": list(self.metadata.rules), "rules_left_out": list(self.metadata.missing_rules),
            "pairs": [pair.to_dict() for pair in self.pairs], "groups": [list(group) for group in self.groups],
        }  # fmt: skip

    def tables(self) -> dict[str, Table]:
        """The counts, the flags; and for files all pairs and groups."""
        flagged = Counter(rule for pair in self.pairs for rule in pair.flags)
        flags = [(f"flag: {rule}", flagged[rule]) for rule in self.metadata.rules]
        counts = [
            ("texts", self.n), ("different texts", self.distinct), ("pairs", len(self.pairs)),
            ("of identical texts", len(self.pairs) - len(self.near)), *flags, ("groups", len(self.groups)),
            ("rows that can go", self.removable),
        ]  # fmt: skip
        named = [Column(name) for name in ("left", "right", "score", "flags", "evidence", "left_text", "right_text")]
        rows = [
            (pair.left, pair.right, pair.score, " ".join(pair.flags), "; ".join(pair.flags.values()), pair.left_text,
             pair.right_text)
            for pair in self.pairs
        ]  # fmt: skip
        members = [(number, name) for number, group in enumerate(self.groups, start=1) for name in group]
        return {
            "counts": Table.of(["what", "count"], counts),
            "pairs": Table.of(named, rows, detail=True),
            "groups": Table.of(["group", "id"], members, detail=True),
            "largest": Table.of(["size", "rows"], self._largest(), "the largest groups", summary=True),
        }

    def _largest(self) -> list[tuple[int, str]]:
        large = [group for group in self.groups[:SHOWN_GROUPS] if len(group) > 2][: self.shown]
        return [(len(group), ", ".join(group[:8]) + (" …" if len(group) > 8 else "")) for group in large]

    def lines(self, width: int) -> list[Text]:  # noqa: ARG002
        """The first pairs of different texts with the spans in which they differ."""
        return pairs_lines([pair.drawn for pair in self.near[: self.shown]])

    def fragments(self) -> list[str]:
        """The figure, the counts and the first pairs of different texts, with the spans in which they differ."""
        note = "Marked: what has no counterpart in the other text, or one of another meaning."
        if len(self.near) > SHOWN_PAIRS:
            note += f" The first {SHOWN_PAIRS} of {len(self.near):,} pairs; --out writes all of them to pairs.csv."
        drawn = pairs_fragment([pair.drawn for pair in self.near[:SHOWN_PAIRS]])
        listed = [section("Pairs of different texts", [paragraph(note, note=True), drawn])] if self.near else []
        figures = [figure_section(name, one) for name, one in self.figures().items()]
        return [*figures, *self._table_fragments(), *listed]

    def figures(self) -> dict[str, Figure]:
        """How the scores lie."""
        return {"scores": Figure(self.plot, "Scores of pairs")} if len(self.sampled) else {}

    def plot(self, ax: Any = None) -> Any:
        """The scores of all pairs, by a sample, those of the found pairs, and the threshold; on a log scale."""
        ax = axes_or_new(ax, (7.0, 3.8))
        found = np.array([pair.score for pair in self.near])
        edges = np.linspace(min(-0.2, float(self.sampled.min())), 1.0, BINS + 1)
        # Each pair of the sample stands for so many.
        weight = self.distinct * (self.distinct - 1) / 2 / len(self.sampled)
        every = ax.hist(self.sampled, edges, weights=np.full(len(self.sampled), weight), color="#cccccc")[2][0]
        above = ax.hist(found, edges, color=PALETTE[0])[2][0]
        line = ax.axvline(self.metadata.threshold, color=PALETTE[1], linewidth=1.4)
        ax.set_yscale("log")
        frame(ax, ("cosine", "pairs"), f"{self.metadata.data}, {self.distinct:,} different texts", "y")
        names = ["all pairs, by a sample", f"{len(found):,} found", f"threshold {self.metadata.threshold:.4g}"]
        legend(ax, [every, above, line], names, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return ax


def numbered(groups: Rows, ids: Sequence[str] | Mapping[int, str]) -> tuple[tuple[str, ...], ...]:
    """The ids of the rows of each group with at least two, the largest first.

    >>> numbered(np.array([0, 1, 0]), ["a", "b", "c"])
    (('a', 'c'),)
    """
    order = np.argsort(groups, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    large = sorted((part for part in parts if len(part) > 1), key=lambda part: (-len(part), int(part[0])))
    return tuple(tuple(ids[int(row)] for row in part) for part in large)
