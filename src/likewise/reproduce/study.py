"""Studies, their items (tables, figures, analyses), and what running an item finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from likewise.data import Dataset
from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.grammar import Grammar
from likewise.progress import Progress
from likewise.reproduce.published import PublishedStudy, published_study
from likewise.reproduce.verdicts import Verdict
from likewise.results import Figure, Table

BUDGETS = ("tiny", "quick", "standard", "full")


@dataclass(frozen=True)
class Finding:
    """What an item found with one model."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Context:
    """What an item may use: the model, the data, the budget, and a folder for what it computes on the way.

    Equal to itself alone, so that items can cache what they share by context.
    """

    study: str
    model: str
    work: Path  # intermediate results, such as training runs, from which an interrupted item continues
    budget: str = "quick"
    seeds: int = 1
    data_dir: Path | None = None
    grammars: Mapping[str, str] = field(default_factory=dict)  # language -> spaCy pipeline
    vectors: Path | None = None  # a text file of word vectors
    language: str = "en"
    threads: int | None = None
    progress: Progress | None = None

    @cached_property
    def encoder(self) -> Encoder:
        """The model, loaded once."""
        return Encoder.load(self.model, threads=self.threads)

    @property
    def short(self) -> str:
        """The model's name in tables and files."""
        return Path(self.model).name

    @property
    def published(self) -> PublishedStudy:
        """The published numbers of the study."""
        return published_study(self.study)

    @property
    def is_plain(self) -> bool:
        """Whether the model was never fine-tuned for similarity: a transformer without modules that pool."""
        folder = self.encoder.folder
        return folder is not None and not (Path(folder) / "modules.json").exists()

    @property
    def is_original(self) -> bool:
        """Whether the model is one that the study itself used."""
        return self.model in self.published.models

    def size(self, **by_budget: int | None) -> int | None:
        """The number for this budget; None is everything.

        >>> Context("retrieval", "minilm", Path("out"), "quick").size(tiny=10, quick=300, standard=None)
        300
        """
        steps = [name for name in BUDGETS[: BUDGETS.index(self.budget) + 1] if name in by_budget]
        return by_budget[steps[-1]]

    def dataset(self, name: str, limit: int | None = None) -> Dataset:
        """A public data set."""
        return Dataset(name, data_dir=self.data_dir, limit=limit)

    def grammar(self, language: str = "en") -> Grammar:
        """The spaCy pipeline of a language."""
        return Grammar.load(self.grammars.get(language))


@dataclass(frozen=True)
class Item:
    """A table, figure or analysis of a study, and the claim that it carries."""

    name: str
    claim: str
    run: Callable[[Context], Finding]
    data: tuple[str, ...] = ()  # public files that it reads
    grammars: tuple[str, ...] = ()  # languages that it parses
    original: str = ""  # where it is in the study, such as table 3
    cost: Mapping[str, float] = field(default_factory=dict)  # budget -> as many million tokens as encoding takes
    version: int = 1  # raised when the same settings give other numbers
    other_data: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # language -> files in their place
    takes_vectors: bool = False  # whether word vectors change its numbers

    def tokens(self, budget: str) -> float | None:
        """The cost at a budget in million tokens: the last one that is stated up to it, since sizes stop growing."""
        known = [self.cost[name] for name in BUDGETS[: BUDGETS.index(budget) + 1] if name in self.cost]
        return known[-1] if known else None

    def files(self, language: str) -> tuple[str, ...]:
        """The public files that it reads for models of a language."""
        return self.other_data.get(language, self.data)


@dataclass(frozen=True)
class Study:
    """A published study."""

    name: str
    title: str
    items: tuple[Item, ...]

    @property
    def published(self) -> PublishedStudy:
        """Its citation and its numbers."""
        return published_study(self.name)

    def item(self, name: str) -> Item:
        """An item by its name."""
        for one in self.items:
            if one.name == name:
                return one
        raise UsageError(f"{self.name} has no item {name!r}; choose from {', '.join(one.name for one in self.items)}")

    def chosen(self, names: list[str]) -> Study:
        """The study with some of its items; with all of them if none is named."""
        return self if not names else replace(self, items=tuple(map(self.item, names)))

    def to_dict(self) -> dict[str, Any]:
        """The name, and each item with its claim."""
        items = [{"name": one.name, "claim": one.claim} for one in self.items]
        return {"name": self.name, "title": self.title, "items": items}
