"""Plans: a config, ready-made or from a file, is one run or, with [[row]] tables, a table of runs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from likewise.errors import UsageError
from likewise.results import Result, Table
from likewise.train.config import TrainConfig, config_from, toml_table

ROW_KEYS = ("name", "published", "every_task", "task")
"""Keys of a row that are not settings of a run."""


def presets() -> dict[str, str]:
    """The TOML text of each ready-made config, by name.

    >>> "sts-mean" in presets()
    True
    """
    folder = files("likewise.train") / "presets"
    found = [each for each in folder.iterdir() if each.name.endswith(".toml")]
    return {each.name.removesuffix(".toml"): each.read_text(encoding="utf-8") for each in sorted(found, key=str)}


def described(text: str) -> str:
    """The first comment of a config.

    >>> described("# A bi-encoder.\\nmodel = 'minilm'")
    'A bi-encoder.'
    """
    first = text.partition("\n")[0]
    return first.lstrip("# ").strip() if first.startswith("#") else ""


class PresetList(Result):
    """The ready-made configs and their first comments."""

    def to_dict(self) -> dict[str, Any]:
        """The name and the comment of each."""
        return {"configs": [{"name": name, "about": described(text)} for name, text in presets().items()]}

    def tables(self) -> dict[str, Table]:
        """A row for each."""
        return {"configs": Table.of(("config", "about"), [tuple(each.values()) for each in self.to_dict()["configs"]])}


def config_text(name: str) -> str:
    """The text of a ready-made config or of a file."""
    known, path = presets(), Path(name).expanduser()
    if name in known:
        return known[name]
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{name} is no TOML file that can be read; give one, or a ready-made one of {', '.join(known)}"
        ) from error


@dataclass(frozen=True)
class Row:
    """One run of a table."""

    name: str
    config: TrainConfig
    published: tuple[float, ...] = ()
    """results that others report for it: each task's measure, then their mean"""

    @property
    def slug(self) -> str:
        """Its name as that of a folder.

        >>> from likewise.train.config import parse_config
        >>> Row("mean, SW+WL", parse_config('[[task]]\\nkind = "similarity"\\ntrain = "a"')).slug
        'mean-sw-wl-1'
        """
        return f"{re.sub(r'[^a-z0-9]+', '-', self.name.lower()).strip('-')}-{self.config.seed}"


@dataclass(frozen=True)
class Plan:
    """The runs of a config file: one, or the rows of a table, each with every seed."""

    rows: tuple[Row, ...]
    table: bool
    out: str

    @property
    def single(self) -> TrainConfig:
        """The config of a plan that is one run."""
        return self.rows[0].config


def parse_plan(text: str, where: str = "config", **changes: Any) -> Plan:
    """The plan that a TOML text holds, with some settings changed in all of its rows.

    >>> run_plan = parse_plan('[[task]]\\nkind = "similarity"\\ntrain = "a"\\n[[row]]\\nname = "b"\\nepochs = 2')
    >>> run_plan.table, run_plan.rows[0].config.epochs
    (True, 2)
    """
    table = toml_table(text, where)
    rows, seeds = table.pop("row", []), table.pop("seeds", None)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{where}: write rows as [[row]] tables, with two brackets")
    given = {name: value for name, value in changes.items() if value is not None}
    base = {**table, **given}
    if seeds is not None and not rows:
        raise UsageError(f"{where}: seeds needs [[row]] tables; one run takes seed = 1")
    if not rows:
        single = config_from(base, where)
        return Plan((Row("", single),), False, single.out)
    numbers = [given["seed"]] if "seed" in given else _seeds(seeds, table, where)
    made = tuple(_row(base, row, given | {"seed": seed}, where) for row in rows for seed in numbers)
    slugs = [row.slug for row in made]
    if len(set(slugs)) < len(slugs):
        raise UsageError(f"{where}: two rows are called {max(slugs, key=slugs.count)}; give each its own name")
    return Plan(made, True, os.path.expanduser(str(base.get("out", ""))))


def _seeds(seeds: Any, table: Mapping[str, Any], where: str) -> list[int]:
    if seeds is None:
        return [table.get("seed", 1)]
    if not isinstance(seeds, list) or not seeds or not all(type(seed) is int for seed in seeds):
        raise UsageError(f"{where}: seeds takes whole numbers as [1, 2, 3], got {seeds!r}")
    return seeds


def _row(base: Mapping[str, Any], row: Mapping[str, Any], given: Mapping[str, Any], where: str) -> Row:
    name = row.get("name")
    if not isinstance(name, str) or not name.strip():
        raise UsageError(f"{where}: a [[row]] needs a name")
    if "seed" in row:
        raise UsageError(f"{where}, row {name}: a row has no seed of its own; give seeds = [1, 2, 3] above the rows")
    changed = deepcopy(dict(base))
    changed |= {key: value for key, value in row.items() if key not in ROW_KEYS} | dict(given)
    _change_tasks(changed, row, f"{where}, row {name}")
    config = config_from(changed, f"{where}, row {name}")
    published = row.get("published", [])
    if not isinstance(published, list) or not all(type(each) in (int, float) for each in published):
        raise UsageError(f"{where}, row {name}: published takes numbers as [0.5, 0.7], got {published!r}")
    return Row(name, replace(config, out=""), tuple(float(each) for each in published))


def _change_tasks(config: Mapping[str, Any], row: Mapping[str, Any], where: str) -> None:
    tasks = config.get("task", [])
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise UsageError(f"{where}: write tasks as [[task]] tables, with two brackets")
    known = {task.get("name", task.get("kind")): task for task in tasks}
    every, single = row.get("every_task", {}), row.get("task", {})
    changes = {"every_task": every, "task": single}
    if isinstance(single, dict):
        changes |= {f"task.{key}": table for key, table in single.items()}
    for key, table in changes.items():
        if not isinstance(table, dict):
            raise UsageError(f"{where}: {key} takes a table as {{ head = 'linear' }}, got {table!r}")
    for task in tasks:
        task.update(every)
    for key, table in single.items():
        if key not in known:
            raise UsageError(f"{where}: no task {key!r}; choose from {', '.join(map(str, known))}")
        known[key].update(table)
