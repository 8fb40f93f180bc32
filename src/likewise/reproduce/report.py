"""The report of a run of studies: verdicts, tables and figures, item by item, from run files alone."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likewise.plotting.html import paragraph, safe, section
from likewise.reproduce.records import Record, short
from likewise.reproduce.running import NotRun
from likewise.reproduce.study import Item, Study
from likewise.reproduce.verdicts import RULE, Verdict
from likewise.results import Column, Result, Table
from likewise.results.result import table_section


@dataclass(frozen=True, repr=False)
class StudyList(Result):
    """The studies and their items, each with the claim that it carries."""

    studies: tuple[Study, ...]

    def to_dict(self) -> dict[str, Any]:
        """The documented JSON."""
        return {"studies": [study.to_dict() for study in self.studies]}

    def tables(self) -> dict[str, Table]:
        """A table for each study."""
        found = {}
        for study in self.studies:
            rows = [(one.name, one.original, one.claim) for one in study.items]
            title = f"{study.name}: {study.title}"
            found[study.name] = Table.of(["item", Column("original", "in the study"), "claim"], rows, title)
        return found


@dataclass(frozen=True, repr=False)
class Reproduction(Result):
    """What was run, from run files, and what was not."""

    studies: tuple[Study, ...]
    done: tuple[Record, ...]
    missing: tuple[NotRun, ...] = ()
    folder: Path = Path()

    title = "Five studies, reproduced"

    @property
    def notes(self) -> list[str]:
        """The rule of all verdicts."""
        return [RULE]

    def to_dict(self) -> dict[str, Any]:
        """Each item with its verdicts, and what did not run."""
        done = [
            {
                "study": one.study, "item": one.item, "model": one.model, "seconds": one.seconds,
                "verdicts": [{"claim": each.claim, "verdict": each.verdict} for each in one.verdicts],
            }
            for one in self.done
        ]  # fmt: skip
        missing = [{"study": one.study, "item": one.item, "model": one.model, "why": one.why} for one in self.missing]
        return {"items": done, "not_run": missing}

    def tables(self) -> dict[str, Table]:
        """All verdicts in one table, and the items that did not run."""
        header = ["study", "item", "model", "claim", "verdict", "effect", "measured", "control", "seeds"]
        rows = [(one.study, one.item, short(one.model), *_cells(each)) for one in self.done for each in one.verdicts]
        found = {"verdicts": Table.of(header, rows, "Verdicts")}
        if self.missing:
            why = [(one.study, one.item, short(one.model), one.why) for one in self.missing]
            found["not_run"] = Table.of(["study", "item", "model", "why"], why, "Not run")
        return found

    def _overview(self) -> dict[str, Table]:
        """The verdicts of each study, and what did not run, without what the items below say."""
        found = {}
        for study in self.studies:
            own = [one for one in self.done if one.study == study.name]
            rows = [(one.item, short(one.model), each.claim, each.verdict) for one in own for each in one.verdicts]
            if rows:
                found[study.name] = Table.of(["item", "model", "claim", "verdict"], rows, f"Verdicts: {study.title}")
        tables = self.tables()
        return found | {name: tables[name] for name in tables if name == "not_run"}

    def fragments(self) -> list[str]:
        """The verdicts, then every study from top to bottom."""
        parts = [table_section(name, table) for name, table in self._overview().items()]
        for study in self.studies:
            parts.append(f"<h1>{safe(study.title)}</h1>\n{paragraph(study.published.citation, note=True)}")
            for item in study.items:
                parts += self._item(study, item)
        return parts

    def _item(self, study: Study, item: Item) -> list[str]:
        runs = [one for one in self.done if (one.study, one.item) == (study.name, item.name)]
        why = [one for one in self.missing if (one.study, one.item) == (study.name, item.name)]
        if not runs and not why:
            return []
        heading = f"{item.name} ({item.original})" if item.original else item.name
        parts = [paragraph(f"Claim: {item.claim}")]
        parts += [paragraph(f"Not run with {short(one.model)}: {one.why}") for one in why]
        for run in runs:
            parts += self._run(run)
        return [section(heading, parts)]

    def _run(self, run: Record) -> list[str]:
        parts = [paragraph(run.stand_in, note=True)] if run.stand_in else []
        parts += [_marked(each) for each in run.verdicts]
        parts += [paragraph(note) for note in run.notes]
        for name, figure in run.figures.items():
            title = figure.title or name.replace("-", " ")
            image = base64.b64encode((self.folder / run.study / figure.file).read_bytes()).decode()
            parts.append(
                f"<figure><figcaption>{safe(title)}</figcaption>"
                f"<img alt='{safe(title)}' src='data:image/svg+xml;base64,{image}'></figure>\n"
            )
            parts += [paragraph(figure.note, note=True)] if figure.note else []
        parts += [table_section(name, table, level=4) for name, table in run.tables.items() if not table.detail]
        return [section(short(run.model), [*parts, paragraph(f"{run.command}; {run.made}", note=True)], level=3)]


def sentence(verdict: Verdict) -> str:
    """A verdict in one line."""
    measured, control = (cell for cell in _cells(verdict)[3:5])
    shown = ": ".join(part for part in (verdict.effect, measured) if part)
    ends = [f"control: {control}"] if control else []
    ends += [f"{verdict.seeds} seeds"] if verdict.seeds > 1 else []
    return f"{verdict.verdict.capitalize()}: {verdict.claim} ({'; '.join([shown, *ends])})"


def _marked(verdict: Verdict) -> str:
    """The same as a paragraph that begins in bold."""
    first, colon, rest = sentence(verdict).partition(":")
    return f"<p><b>{safe(first)}</b>{colon}{safe(rest)}</p>\n"


def _cells(verdict: Verdict) -> tuple[str, str, str, str, str, int]:
    """The cells of a verdict: claim, verdict, effect, what was measured, control, seeds."""
    measured = control = ""
    if (found := verdict.interval) is not None:
        measured = f"{found.value:.3g} [{found.low:.3g}, {found.high:.3g}]"
        measured += "" if verdict.alternative is None else f" against {verdict.alternative:g}"
    if verdict.control is not None:
        control = f"{verdict.control.name} {'shows it too' if verdict.control.shows_it else 'does not show it'}"
        if (ends := verdict.control.interval) is not None:
            control += f" ({ends.value:.3g} [{ends.low:.3g}, {ends.high:.3g}])"
    return verdict.claim, verdict.verdict, verdict.effect, measured, control, verdict.seeds


def reproduction(studies: Sequence[Study], found: Sequence[Record | NotRun], folder: Path) -> Reproduction:
    """The report of what ran and what did not."""
    done = tuple(one for one in found if isinstance(one, Record))
    missing = tuple(one for one in found if isinstance(one, NotRun))
    return Reproduction(tuple(studies), done, missing, folder)
