"""A grid of rankers on one retrieval task: models x poolings x layers, baselines and hybrids, in one table.

Each cell of the grid is kept in the user's cache as soon as it is computed, so that a run that was stopped goes on at
the next missing cell.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from likewise.encoder import Encoder
from likewise.encoder.encoder import identity
from likewise.encoder.pooling import pooling_parts
from likewise.encoder.pooling_head import Layer, PoolingConfig
from likewise.errors import UsageError
from likewise.metrics import Interval
from likewise.paths import user_cache
from likewise.progress import Progress, Ticker
from likewise.search.baselines import RANKERS, baseline, check_ranker
from likewise.search.evaluation import RetrievalTask, dense_setting, encoded_rankers, evaluate_ranker
from likewise.search.hybrid import Hybrid
from likewise.search.ranker import Ranker
from likewise.search.recall import KS, RetrievalResult, RetrievalTable, Setting, checked_ks

log = logging.getLogger("likewise")

DENSE, HYBRID, STATIC, RANDOM = "dense", "hybrid", "static", "random"
INPUTS = "input-embeddings"
NEED_A_MODEL = (DENSE, INPUTS, HYBRID)
WORDS = "bm25"
"""What a hybrid fuses a model's vectors with."""

ALL_LAYERS = "all"
COMPARED_POOLINGS = ("mean", "cls", "max")

FORMAT = 1
"""Of kept results; raise it when ranks come to be counted otherwise."""
VECTOR_BYTES = 2**31
"""What the vectors of one forward pass may take; more readings than that take another pass."""

Load = Callable[[str], Encoder]


@dataclass(frozen=True)
class RetrievalGrid:
    """What is compared; a hybrid fuses BM25 with each model's first pooling and last layer of those given.

    >>> RetrievalGrid(rankers=("dense", "bm25")).ks
    (1, 5, 10, 20, 50)
    """

    models: tuple[str, ...] = ("minilm",)
    poolings: tuple[str | None, ...] = (None,)
    """None is the model's own"""
    layers: tuple[Layer, ...] = (-1,)
    """a layer, several to average, first-last, or all: each layer by itself"""
    rankers: tuple[str, ...] = (DENSE,)
    ks: tuple[int, ...] = KS
    vectors: Path | None = None
    """the word vectors of the static baseline"""
    seed: int = 0
    """of the random baseline"""
    fresh: bool = False
    """compute anew what earlier runs have kept"""

    def __post_init__(self) -> None:
        for ranker in self.rankers:
            check_ranker(ranker)
        for pooling in self.poolings:
            if pooling is not None:
                pooling_parts(pooling)
        if STATIC in self.rankers and self.vectors is None:
            raise UsageError("the static ranker needs word vectors; give a file of them with --vectors")
        object.__setattr__(self, "ks", checked_ks(self.ks))

    @property
    def compared(self) -> RetrievalGrid:
        """The same with three poolings, unless some are given, and with every ranker, unless others than dense are."""
        rankers = tuple(name for name in RANKERS if name != STATIC or self.vectors is not None)
        poolings = COMPARED_POOLINGS if self.poolings == (None,) else self.poolings
        return replace(self, poolings=poolings, rankers=rankers if self.rankers == (DENSE,) else self.rankers)


@dataclass(frozen=True)
class Cell:
    """One ranker of a grid, and the key under which its result is kept."""

    setting: Setting
    key: str
    model: str | None = None
    """what to load"""
    pooling_config: PoolingConfig | None = None


def compare_retrieval(
    task: RetrievalTask, grid: RetrievalGrid, load: Load = Encoder.load, progress: Progress | None = None
) -> RetrievalTable:
    """Every cell of the grid in one table; what an earlier run has kept is taken from there.

    >>> from likewise.search.evaluation import RetrievalSource
    >>> table = compare_retrieval(RetrievalSource("sample/pairs").read(), RetrievalGrid(rankers=("bow", "random")))
    >>> [result.setting.ranker for result in table.results]
    ['bow', 'random']
    """
    run = _Run(task, grid, lru_cache(maxsize=1)(load))
    # All models are looked at before any of them works: a layer that one does not have is told at once.
    cells = list(dict.fromkeys(run.cells()))
    found = {} if grid.fresh else {cell.key: kept for cell in cells if (kept := run.kept(cell)) is not None}
    ticker = Ticker(progress, len(cells), "rankers")
    ticker.add(len(found))
    missing = {cell.key: cell for cell in cells if cell.key not in found}
    for cell, result in run.computed(list(missing.values()), progress):
        found[cell.key] = result
        run.keep(cell, result)
        ticker.add()
    ticker.close()
    # One model under two names has one result.
    return RetrievalTable(tuple(replace(found[cell.key], setting=cell.setting) for cell in cells))


@dataclass(frozen=True, eq=False)
class _Run:
    """A grid at work on a task."""

    task: RetrievalTask
    grid: RetrievalGrid
    load: Load

    # Which cells there are

    def cells(self) -> Iterator[Cell]:
        """All cells, in the order of the table: model by model, then what needs none."""
        for model in self.grid.models:
            if any(ranker in NEED_A_MODEL for ranker in self.grid.rankers):
                yield from self._model_cells(model, self.load(model))
        for ranker in self.grid.rankers:
            if ranker not in NEED_A_MODEL:
                made_of = {"vectors": _file_hash(self.grid.vectors)} if ranker == STATIC else {}
                made_of |= {"seed": str(self.grid.seed)} if ranker == RANDOM else {}
                yield Cell(Setting(ranker), self._key(ranker, made_of))

    def _model_cells(self, model: str, encoder: Encoder) -> Iterator[Cell]:
        metadata = _model_facts(encoder)
        for ranker in self.grid.rankers:
            if ranker == INPUTS:
                yield Cell(Setting(ranker, encoder.name), self._key(ranker, metadata), model)
            elif ranker in NEED_A_MODEL:
                for reader in self._readers(encoder, ranker):
                    key = self._key(ranker, metadata | vars(reader.pooling_config))
                    yield Cell(dense_setting(reader, ranker), key, model, reader.pooling_config)

    def _readers(self, encoder: Encoder, ranker: str) -> Iterator[Encoder]:
        depth = encoder.model_view.layers
        layers: list[Layer] = []
        for layer in self.grid.layers:
            layers += range(depth + 1) if layer == ALL_LAYERS else [layer]
        one = ranker == HYBRID
        for name in self.grid.poolings[:1] if one else self.grid.poolings:
            pooling = name or encoder.pooling_config.pooling
            for layer in layers[-1:] if one else layers:
                # As numbers: -1 and 6 are one cell of a model of six layers.
                numbers = tuple(sorted(set(PoolingConfig(pooling, layer).layers_of(depth))))
                yield encoder.with_pooling(pooling=pooling, layer=numbers)

    def _key(self, ranker: str, made_of: dict[str, Any]) -> str:
        metadata = {"format": FORMAT, "version": version("likewise"), "task": self.task.key, "ks": self.grid.ks}
        document = json.dumps(metadata | {"ranker": ranker, "made of": made_of}, sort_keys=True)
        return hashlib.sha256(document.encode()).hexdigest()

    # What they give

    def computed(self, cells: Sequence[Cell], progress: Progress | None) -> Iterator[tuple[Cell, RetrievalResult]]:
        """The result of each cell, as soon as it is there; the cells of a model come together."""
        for model in dict.fromkeys(cell.model for cell in cells):
            own = [cell for cell in cells if cell.model == model]
            for cell in own:
                if cell.pooling_config is None:
                    yield cell, self._evaluated(self._baseline(cell), cell, 0, progress)
            read = [cell for cell in own if cell.pooling_config is not None]
            if read and model is not None:
                yield from self._dense(self.load(model), read, progress)

    def _dense(
        self, encoder: Encoder, cells: Sequence[Cell], progress: Progress | None
    ) -> Iterator[tuple[Cell, RetrievalResult]]:
        variants = list(dict.fromkeys(cell.pooling_config for cell in cells if cell.pooling_config is not None))
        texts = len(self.task.corpus) + len(self.task.queries)
        widest = max(encoder.with_pooling(**vars(pooling_config)).dimension for pooling_config in variants)
        size = max(1, VECTOR_BYTES // (4 * widest * texts))
        for start in range(0, len(variants), size):
            some = variants[start : start + size]
            rankers, truncated = encoded_rankers(encoder, some, self.task, progress)
            for pooling_config, ranker in zip(some, rankers, strict=True):
                for cell in cells:
                    if cell.pooling_config == pooling_config:
                        used = Hybrid([self._words, ranker]) if cell.setting.ranker == HYBRID else ranker
                        yield cell, self._evaluated(used, cell, truncated, progress)

    def _evaluated(self, ranker: Ranker, cell: Cell, truncated: int, progress: Progress | None) -> RetrievalResult:
        return evaluate_ranker(ranker, self.task, cell.setting, self.grid.ks, truncated, progress)

    def _baseline(self, cell: Cell) -> Ranker:
        name, texts, grid = cell.setting.ranker, self.task.corpus.texts, self.grid
        if name == WORDS:
            return self._words
        encoder = None if cell.model is None else self.load(cell.model)
        return baseline(name, texts, encoder=encoder, vectors=grid.vectors, seed=grid.seed)

    @cached_property
    def _words(self) -> Ranker:
        return baseline(WORDS, self.task.corpus.texts)

    # What is kept of them

    def kept(self, cell: Cell) -> RetrievalResult | None:
        """The result of an earlier run, where there is one that can be read."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(_file_of(cell).read_text(encoding="utf-8"))
            indices = np.array(found["places"], np.int64)
            recall = {int(k): Interval(*ends) for k, ends in found["recall"].items()}
            ends = Interval(*found["mrr"]), Interval(*found["ndcg"])
            if indices.shape == self.task.judged.rows.shape:
                metadata = self.task.metadata | {"truncated": found["truncated"]}
                return RetrievalResult(
                    self.task.name, cell.setting, indices, self.task.judged, recall, *ends, metadata, True
                )
        return None

    def keep(self, cell: Cell, result: RetrievalResult) -> None:
        """Write a result beside and rename it; a cache that cannot be written costs time, nothing else."""
        ends = {"mrr": result.mrr, "ndcg": result.ndcg}
        document: dict[str, Any] = {name: list(vars(interval).values()) for name, interval in ends.items()}
        document["recall"] = {k: list(vars(interval).values()) for k, interval in result.recall.items()}
        document |= {"data": self.task.name, "setting": cell.setting.to_dict()}
        document |= {"truncated": result.metadata["truncated"], "places": result.indices.tolist()}
        path = _file_of(cell)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as draft:
                json.dump(document, draft)
            os.replace(draft.name, path)
        except OSError as error:
            log.warning("results cannot be kept in %s (%s)", path.parent, error.strerror)


def _file_of(cell: Cell) -> Path:
    return user_cache() / "retrieval" / f"{cell.key}.json"


def _model_facts(encoder: Encoder) -> dict[str, Any]:
    """All that an encoder's vectors depend on, but not what the model is called."""
    metadata = identity(encoder) | {
        "prompts": [encoder.modules_config.prompt_for(role) for role in ("document", "query")],
    }
    del metadata["model"]
    return metadata


def _file_hash(path: Path | None) -> str:
    if path is None:
        return ""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
