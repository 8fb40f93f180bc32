"""A grid of rankers on one retrieval task: models x poolings x layers, baselines and hybrids, in one table.

Each result is cached as soon as it is computed, so an interrupted run resumes with the next missing one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from likewise.encoder import Encoder, load_scoring
from likewise.encoder.cross_encoder import Scoring
from likewise.encoder.pooling import Layer, PoolingConfig, pooling_parts
from likewise.encoder.weights import identity
from likewise.errors import UsageError
from likewise.metrics import Interval
from likewise.progress import Progress, Ticker
from likewise.search.baselines import RANKERS, baseline, check_ranker
from likewise.search.evaluation import RetrievalTask, dense_setting, encoded_rankers, evaluate_ranker
from likewise.search.ranker import Hybrid, Ranker
from likewise.search.recall import KS, RetrievalResult, RetrievalTable, Setting, checked_ks
from likewise.search.reranking import CANDIDATES, JOIN, Reranked
from likewise.storage import FileCache, content_key, file_hash, user_cache

DENSE, HYBRID, STATIC, INPUTS = "dense", "hybrid", "static", "input-embeddings"
NEED_A_MODEL = (DENSE, INPUTS, HYBRID)
COMPARED_POOLINGS = ("mean", "cls", "max")
FORMAT = 1  # Version of cached results; raise it when ranks are counted in another way
VECTOR_BYTES = 2**31  # The memory for the vectors of one forward pass; poolings beyond that take another pass
Load = Callable[[str], Encoder]


@dataclass(frozen=True)
class RetrievalGrid:
    """What is compared; a hybrid fuses BM25 with each model's first pooling and last layer of those given."""

    models: tuple[str, ...] = ("minilm",)
    poolings: tuple[str | None, ...] = (None,)  # None is the model's own
    layers: tuple[Layer, ...] = (-1,)  # a layer, several to average, first-last, or all: each layer by itself
    rankers: tuple[str, ...] = (DENSE,)
    ks: tuple[int, ...] = KS
    vectors: Path | None = None  # the word vectors of the static baseline
    seed: int = 0  # of the random baseline
    fresh: bool = False  # compute anew what earlier runs have cached
    rerank: str | None = None  # a model that also reranks each ranker's first texts
    candidates: int = CANDIDATES  # how many of them

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise UsageError(f"candidates must be at least 1, got {self.candidates}")
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
    """One ranker of a grid, and the key of its result in the cache."""

    setting: Setting
    key: str
    model: str | None = None  # what to load
    pooling_config: PoolingConfig | None = None
    reranked: bool = False

    @property
    def ranker(self) -> str:
        """The ranker of the first stage."""
        return self.setting.ranker.split(JOIN)[0]


def compare_retrieval(
    task: RetrievalTask,
    grid: RetrievalGrid,
    load: Load = Encoder.load,
    progress: Progress | None = None,
    load_reranker: Callable[[str], Scoring] = load_scoring,
) -> RetrievalTable:
    """Every cell of the grid in one table; results of earlier runs come from the cache."""
    reranker = None if grid.rerank is None else load_reranker(grid.rerank)
    run = _Run(task, grid, lru_cache(maxsize=1)(load), reranker)
    # All models are looked at first: a layer that one of them lacks is an error before any work.
    cells = list(dict.fromkeys(run.cells()))
    found = {} if grid.fresh else {cell.key: known for cell in cells if (known := run.cached(cell)) is not None}
    ticker = Ticker(progress, len(cells), "rankers")
    ticker.add(len(found))
    missing = {cell.key: cell for cell in cells if cell.key not in found}
    for cell, result in run.computed(list(missing.values()), progress):
        found[cell.key] = result
        run.store(cell, result)
        ticker.add()
    ticker.close()
    # One model under two names has one result.
    return RetrievalTable(tuple(replace(found[cell.key], setting=cell.setting) for cell in cells))


@dataclass(frozen=True, eq=False)
class _Run:
    """A grid on a task."""

    task: RetrievalTask
    grid: RetrievalGrid
    load: Load
    reranker: Scoring | None = None

    def cells(self) -> Iterator[Cell]:
        """All cells, in the order of the table: model by model, then rankers that need none; reranked ones follow."""
        for cell in self._first_stages():
            yield cell
            if self.reranker is not None:
                name = f"{cell.setting.ranker}{JOIN}{self.reranker.name}"
                key = content_key(cell.key, _scoring_identity(self.reranker), self.grid.candidates)
                yield replace(cell, setting=replace(cell.setting, ranker=name), key=key, reranked=True)

    def _first_stages(self) -> Iterator[Cell]:
        for model in self.grid.models:
            if any(ranker in NEED_A_MODEL for ranker in self.grid.rankers):
                yield from self._model_cells(model, self.load(model))
        for ranker in self.grid.rankers:
            if ranker not in NEED_A_MODEL:
                made_of = {"vectors": file_hash(self.grid.vectors)} if ranker == STATIC and self.grid.vectors else {}
                made_of |= {"seed": str(self.grid.seed)} if ranker == "random" else {}
                yield Cell(Setting(ranker), self._key(ranker, made_of))

    def _model_cells(self, model: str, encoder: Encoder) -> Iterator[Cell]:
        made_of = _model_identity(encoder)
        for ranker in self.grid.rankers:
            if ranker == INPUTS:
                yield Cell(Setting(ranker, encoder.name), self._key(ranker, made_of), model)
            elif ranker in NEED_A_MODEL:
                for variant in self._variants(encoder, ranker):
                    key = self._key(ranker, made_of | vars(variant.pooling_config))
                    yield Cell(dense_setting(variant, ranker), key, model, variant.pooling_config)

    def _variants(self, encoder: Encoder, ranker: str) -> Iterator[Encoder]:
        depth = encoder.model_view.layers
        layers: list[Layer] = []
        for layer in self.grid.layers:
            layers += range(depth + 1) if layer == "all" else [layer]
        one = ranker == HYBRID
        for name in self.grid.poolings[:1] if one else self.grid.poolings:
            pooling = name or encoder.pooling_config.pooling
            for layer in layers[-1:] if one else layers:
                # As numbers: -1 and 6 are one cell of a model of six layers.
                numbers = tuple(sorted(set(PoolingConfig(pooling, layer).layers_of(depth))))
                yield encoder.with_pooling(pooling=pooling, layer=numbers)

    def _key(self, ranker: str, made_of: dict[str, Any]) -> str:
        return content_key(FORMAT, version("likewise"), self.task.key, self.grid.ks, ranker, made_of)

    def computed(self, cells: Sequence[Cell], progress: Progress | None) -> Iterator[tuple[Cell, RetrievalResult]]:
        """The result of each cell, as soon as it is computed; the cells of a model come together."""
        for model in dict.fromkeys(cell.model for cell in cells):
            own = [cell for cell in cells if cell.model == model]
            for cell in own:
                if cell.pooling_config is None:
                    encoder = None if model is None else self.load(model)
                    yield cell, self._evaluated(self._baseline(cell.ranker, encoder), cell, 0, progress)
            dense = [cell for cell in own if cell.pooling_config is not None]
            if dense and model is not None:
                yield from self._dense(self.load(model), dense, progress)

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
                        used = Hybrid([self._bm25, ranker]) if cell.ranker == HYBRID else ranker
                        yield cell, self._evaluated(used, cell, truncated, progress)

    def _evaluated(self, ranker: Ranker, cell: Cell, truncated: int, progress: Progress | None) -> RetrievalResult:
        if cell.reranked:
            assert self.reranker is not None
            ranker = Reranked(ranker, self.reranker, self.task.corpus.texts, self.grid.candidates, progress)
        return evaluate_ranker(ranker, self.task, cell.setting, self.grid.ks, truncated, progress)

    def _baseline(self, name: str, encoder: Encoder | None) -> Ranker:
        if name == "bm25":
            return self._bm25
        texts, grid = self.task.corpus.texts, self.grid
        return baseline(name, texts, encoder=encoder, vectors=grid.vectors, seed=grid.seed)

    @cached_property
    def _bm25(self) -> Ranker:
        """Built once: every hybrid needs it."""
        return baseline("bm25", self.task.corpus.texts)

    def cached(self, cell: Cell) -> RetrievalResult | None:
        """The result of an earlier run, if there is one that can be read."""

        def load(path: Path) -> RetrievalResult:
            found = json.loads(path.read_text(encoding="utf-8"))
            positions = np.array(found["places"], np.int64)
            if positions.shape != self.task.relevant.rows.shape:
                raise ValueError("a result of another task")
            recall = {int(k): Interval(*ends) for k, ends in found["recall"].items()}
            ranked = self.task.name, cell.setting, positions, self.task.relevant, recall
            metadata = self.task.metadata | {"truncated": found["truncated"]}
            return RetrievalResult(*ranked, Interval(*found["mrr"]), Interval(*found["ndcg"]), metadata, True)

        return _cache().read(cell.key, load)

    def store(self, cell: Cell, result: RetrievalResult) -> None:
        """Write a result; a cache that cannot be written costs only time."""
        ends = {"mrr": result.mrr, "ndcg": result.ndcg}
        document: dict[str, Any] = {name: list(vars(interval).values()) for name, interval in ends.items()}
        document["recall"] = {k: list(vars(interval).values()) for k, interval in result.recall.items()}
        document |= {"data": self.task.name, "setting": cell.setting.to_dict()}
        document |= {"truncated": result.metadata["truncated"], "places": result.positions.tolist()}
        _cache().write(cell.key, lambda draft: draft.write_text(json.dumps(document), encoding="utf-8"))


def _cache() -> FileCache:
    return FileCache(user_cache() / "retrieval", ".json")


def _scoring_identity(scoring: Scoring) -> dict[str, Any]:
    """Everything that the scores of pairs depend on, without the model's name."""
    if isinstance(scoring, Encoder):
        return _model_identity(scoring)
    made_of = {} if scoring.encoder is None else _model_identity(scoring.encoder)
    return made_of | {"hash": scoring.hash, "label": scoring.label, "prompts": scoring.modules_config.prompt_for(None)}


def _model_identity(encoder: Encoder) -> dict[str, Any]:
    """Everything that an encoder's vectors depend on, without the model's name."""
    own = {name: value for name, value in identity(encoder).items() if name != "model"}
    return own | {"prompts": [encoder.modules_config.prompt_for(role) for role in ("document", "query")]}
