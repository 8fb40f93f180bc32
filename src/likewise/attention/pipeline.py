"""The pipeline: pairs -> maps -> points -> clusters -> tests; every finished stage is cached in the study's folder."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from likewise.attention.clustering import LayerClusters, clusterings_of, gaussian_silhouettes
from likewise.attention.groups import (
    LayerControls,
    LayerGroups,
    RandomLayer,
    ReducedMaps,
    Structures,
    Variables,
    dependency_labels,
    layer_controls,
    layer_groups,
    random_layer,
    structures_of,
)
from likewise.attention.maps import MAP_TOKENS, AttentionMaps, MapSource, RandomMaps, trivial_loss, write_maps
from likewise.attention.reduction import Reduction, TrainingCurve, plane_view, reduced, require_reducers
from likewise.attention.settings import FEWEST_PAIRS, MOST_PAIRS, AttentionSettings
from likewise.attention.study import AttentionStudy
from likewise.data import Dataset, ScoredPair
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.grammar import Grammar
from likewise.progress import Progress
from likewise.storage import atomic_write, only_writer

log = logging.getLogger("likewise")

GAUSSIAN_DRAWS = 20
FORMAT = 2
"""Raised when stages of an older version cannot be read or would be different now."""
MARK = "about.txt"
DAMAGED = (ValueError, KeyError, TypeError, EOFError, OSError, BadZipFile)
"""Errors of reading a missing or damaged file."""
DEFAULTS = AttentionSettings()


def study_dataset(
    dataset: Dataset,
    load: Callable[[], Encoder],
    grammar: Grammar | None,
    settings: AttentionSettings,
    folder: Path,
    progress: Progress | None = None,
) -> AttentionStudy:
    """Read pairs with human scores, then run the study in ``folder``; the model is loaded after the file is checked."""
    pairs = [pair for pair in dataset.pairs() if isinstance(pair, ScoredPair)]
    if not pairs:
        raise DataError(f"{dataset.name} has no scores; name their column with --score-column")
    return replace(attention_study(load(), pairs, folder, settings, grammar, progress), data=dataset.name)


def attention_study(
    encoder: Encoder,
    pairs: Sequence[ScoredPair],
    folder: Path,
    settings: AttentionSettings = DEFAULTS,
    grammar: Grammar | None = None,
    progress: Progress | None = None,
) -> AttentionStudy:
    """Run the whole study. Finished stages are cached in ``folder``: the same call resumes there, and a call with other
    settings repeats only what they change. Without a grammar there is no structure.

    >>> import tempfile
    >>> from likewise.attention.settings import ClusterSettings
    >>> from likewise.data import read_scored_pairs
    >>> settings = AttentionSettings("pca", (), clusters=ClusterSettings(("kmeans",), most=3), control_pairs=0)
    >>> pairs = list(read_scored_pairs("sample/pairs"))[:12]
    >>> attention_study(Encoder.load("minilm"), pairs, Path(tempfile.mkdtemp()), settings).main.points.shape
    (12, 6, 2)
    """
    require_reducers(settings.reducers)
    _check_draws(settings, encoder.model_view.layers)
    tokens = encoder.tokenize([(pair.left, pair.right) for pair in pairs], settings.prompt)
    short = [index for index, text in enumerate(tokens) if 0 < len(text) <= settings.max_tokens]
    _check_count(len(short), settings)
    if len(short) < len(pairs):
        log.warning("left out %d pairs of no or more than %d tokens", len(pairs) - len(short), settings.max_tokens)
    metadata = {"left_out": len(pairs) - len(short), "truncated": sum(tokens[index].truncated for index in short)}
    folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder / ".lock", folder):
        kept = tuple(pairs[index] for index in short)
        texts = [(tokens[index].ids, tokens[index].types, tokens[index].sides) for index in short]
        pipeline = _Pipeline(encoder, kept, key_of(texts), Stages(folder / "stages"), settings, progress)
        return pipeline.study(grammar, metadata)


def _check_draws(settings: AttentionSettings, layers: int) -> None:
    """Rejects so few draws that no p can be significant after Holm's correction."""
    needed = math.ceil(layers / settings.alpha)
    if settings.permutations < needed:
        raise UsageError(
            f"permutations must be at least {needed} for {layers} layers at a level of {settings.alpha:g}, got"
            f" {settings.permutations}"
        )


def _check_count(count: int, settings: AttentionSettings) -> None:
    least, control = settings.clusters.least, min(settings.control_pairs, count) or count
    if count < FEWEST_PAIRS:
        raise DataError(
            f"{count} pairs of at most {settings.max_tokens} tokens, and clusters need {FEWEST_PAIRS}; give more pairs,"
            " or raise --max-tokens"
        )
    if count > MOST_PAIRS:
        raise DataError(f"{count:,} pairs are too many for their clusters; take {MOST_PAIRS:,} with --limit")
    if least >= control:
        raise UsageError(
            f"{least} clusters of {control} pairs are too many; lower --clusters, or raise --control-pairs"
        )


@dataclass(frozen=True, eq=False)
class _Pipeline:
    """The stages of one study."""

    encoder: Encoder
    pairs: tuple[ScoredPair, ...]
    tokens_key: str
    """the key of the model's input"""
    stages: Stages
    settings: AttentionSettings
    progress: Progress | None

    def study(self, grammar: Grammar | None, metadata: dict[str, Any]) -> AttentionStudy:
        """All stages in order."""
        structure = None if grammar is None else self._structures(grammar)
        maps, key = self._maps()
        similarity = np.array([pair.score for pair in self.pairs], dtype=np.float64)
        variables = Variables(similarity, maps.lengths.astype(np.float64), structure)
        found = {name: self._reduction(name, maps, key) for name in self.settings.reducers}
        main, *others = (self._grouped(name, reduction, variables) for name, reduction in found.items())
        random = self._random(maps, variables) if self.settings.control_pairs else None
        return AttentionStudy(
            model=self.encoder.name,
            data="pairs",
            pairs=self.pairs,
            variables=variables,
            main=main,
            others=tuple(others),
            controls=tuple(self._controls(groups, main, variables, random) for groups in main.groups),
            heads=maps.head_measures(),
            trivial_loss=self._trivial_loss("trivial", maps, key),
            curve=found[main.reducer].curve,
            random_curve=None if random is None else random.curve,
            random_losses=None if random is None else random.losses,
            settings=self.settings,
            metadata=metadata | {"grammar": None if grammar is None else grammar.name},
        )

    @property
    def _texts(self) -> list[tuple[str, str]]:
        return [(pair.left, pair.right) for pair in self.pairs]

    def _structures(self, grammar: Grammar) -> Structures:
        texts = self._texts
        key = key_of(texts, grammar.name, grammar.nlp.meta)
        labels = self.stages.document("labels", key, lambda: dependency_labels(texts, grammar, self.progress))
        return structures_of([(tuple(first), tuple(second)) for first, second in labels])

    def _maps(self) -> tuple[AttentionMaps, str]:
        encoder, texts, prompt = self.encoder, self._texts, self.settings.prompt
        # A run with another batch size could not be resumed.
        key = key_of(self.tokens_key, MAP_TOKENS, encoder.hash, encoder.config_hash, str(encoder.model_view.dtype))
        return write_maps(encoder, texts, self.stages.path("maps", key), prompt, self.progress), key

    def _trivial_loss(self, name: str, maps: MapSource, key: str) -> float:
        return float(self.stages.document(name, key, lambda: trivial_loss(maps)))

    def _reduction(self, reducer: str, maps: MapSource, maps_key: str, prefix: str = "") -> Reduction:
        settings, seed = self.settings.autoencoder, self.settings.seed
        known = asdict(settings) if reducer == "lstm" else {"latent": settings.latent}
        # More epochs or patience continue the same training.
        learnt = {name: value for name, value in known.items() if name not in ("epochs", "patience")}

        def make() -> dict[str, Any]:
            path = self.stages.path(f"{prefix}{reducer}", key_of(maps_key, reducer, learnt, seed))
            found = reduced(maps, reducer, settings, seed, path / "autoencoder.pt", self.progress)
            curve = ((), ()) if found.curve is None else (found.curve.train, found.curve.held_out)
            return {"points": found.points, "loss": [] if found.loss is None else [found.loss], "curve": curve}

        kept = self.stages.arrays(f"{prefix}points-{reducer}", key_of(maps_key, reducer, known, seed), make)
        if reducer != "lstm":
            return Reduction(kept["points"])
        train, held_out = kept["curve"].tolist()
        return Reduction(kept["points"], float(kept["loss"][0]), TrainingCurve(tuple(train), tuple(held_out)))

    def _clusters(self, name: str, points: NDArray[np.float64]) -> LayerClusters:
        settings, seed = self.settings.clusters, self.settings.seed
        key = key_of(points.tolist(), asdict(settings), seed)
        kept = self.stages.document(name, key, lambda: clusterings_of(points, settings, seed, self.progress).to_json())
        return LayerClusters.from_json(kept)

    def _grouped(self, name: str, reduction: Reduction, variables: Variables) -> ReducedMaps:
        points = reduction.points
        groups = [
            layer_groups(layer, self._clusters(f"clusters-{name}-{layer}", of_layer), variables, self.settings.alpha)
            for layer, of_layer in enumerate(points.swapaxes(0, 1), start=1)
        ]
        return ReducedMaps(name, points, plane_view(points), tuple(groups), reduction.loss)

    def _random(self, maps: AttentionMaps, variables: Variables) -> _RandomAttention | None:
        """The whole pipeline on attention that depends on the length only."""
        seed, count = self.settings.seed, min(self.settings.control_pairs, len(self.pairs))
        indices = np.sort(np.random.default_rng(seed).choice(len(self.pairs), count, replace=False))
        drawn = RandomMaps(maps.lengths[indices], maps.layers, maps.heads, seed)
        key = key_of("random", drawn.lengths.tolist(), drawn.layers, drawn.heads, seed)
        reduction, some = self._reduction(self.settings.reducer, drawn, key, "random-"), variables.of(indices)
        try:
            groups = self._grouped(f"random-{self.settings.reducer}", reduction, some)
        except DataError as error:
            log.warning("random attention is left out, since it has no clusters (%s)", error)
            return None
        return _RandomAttention(groups, some, reduction.curve, self._trivial_loss("random-trivial", drawn, key))

    def _controls(
        self, groups: LayerGroups, main: ReducedMaps, variables: Variables, random: _RandomAttention | None
    ) -> LayerControls:
        points, chosen, seed = main.points[:, groups.layer - 1], groups.clusters.chosen, self.settings.seed
        clusters = self.settings.clusters
        key = key_of(points.tolist(), chosen.to_dict(), asdict(clusters), seed, GAUSSIAN_DRAWS)

        def make() -> dict[str, Any]:
            draws = gaussian_silhouettes(points, chosen, clusters, GAUSSIAN_DRAWS, seed, self.progress)
            return {"silhouettes": draws}

        kept = self.stages.arrays(f"gaussian-{groups.layer}", key, make)
        control = None if random is None else random.layer(groups, self.settings)
        return layer_controls(groups, points, variables, self.settings, kept["silhouettes"], control)


@dataclass(frozen=True, eq=False)
class _RandomAttention:
    """The pipeline's results on random attention."""

    reduced: ReducedMaps
    variables: Variables
    curve: TrainingCurve | None
    trivial_loss: float

    def layer(self, model: LayerGroups, settings: AttentionSettings) -> RandomLayer:
        """The random layer that a layer of the model is compared with."""
        groups, points = self.reduced.groups[model.layer - 1], self.reduced.points[:, model.layer - 1]
        return random_layer(groups, points, model.clusters.chosen.k, self.variables, settings)

    @property
    def losses(self) -> tuple[float, float] | None:
        loss = self.reduced.loss
        return None if loss is None else (loss, self.trivial_loss)


def key_of(*parts: Any) -> str:
    """A hash of everything that a stage's result depends on.

    >>> key_of("minilm", {"seed": 1}) == key_of("minilm", {"seed": 1}), key_of(1) == key_of(2)
    (True, False)
    """
    return hashlib.sha256(json.dumps([FORMAT, *parts], sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class Stages:
    """The folder of a study's finished stages."""

    folder: Path

    def path(self, name: str, key: str) -> Path:
        """A stage's own folder; files of another key are removed."""
        self._owned()
        folder, note = self.folder / name, self.folder / name / "key.txt"
        if not note.exists() or note.read_bytes() != key.encode():
            # The key goes first: an interruption must not leave it with half of its files.
            note.unlink(missing_ok=True)
            if folder.exists():
                shutil.rmtree(folder)
            folder.mkdir()
            note.write_text(key)
        return folder

    def _owned(self) -> None:
        """Creates the folder and marks it; a folder with other files is rejected."""
        mark = self.folder / MARK
        if mark.exists():
            return
        if self.folder.exists() and any(self.folder.iterdir()):
            raise UsageError(f"{self.folder} holds files that are not of this command; choose another --out")
        self.folder.mkdir(parents=True, exist_ok=True)
        mark.write_text("Finished stages of a study; they may be deleted and are made again.\n")

    def document(self, name: str, key: str, make: Callable[[], Any]) -> Any:
        """The JSON value of ``make``, or the cached one."""
        # Wrapped, because half of a bare number is a number too.
        return self._cached(
            self.path(name, key) / "result.json",
            lambda path: json.loads(path.read_text(encoding="utf-8"))["result"],
            lambda path: path.write_text(json.dumps({"result": make()}), encoding="utf-8"),
        )

    def arrays(self, name: str, key: str, make: Callable[[], dict[str, Any]]) -> dict[str, NDArray[Any]]:
        """The arrays of ``make``, or the cached ones."""
        found: dict[str, NDArray[Any]] = self._cached(
            self.path(name, key) / "result.npz", _arrays, lambda path: _save_arrays(path, make())
        )
        return found

    def _cached(self, path: Path, read: Callable[[Path], Any], write: Callable[[Path], Any]) -> Any:
        """A file's content; a missing or damaged file is made again."""
        try:
            return read(path)
        except DAMAGED:
            atomic_write(path, write)
            return read(path)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    with np.load(path) as arrays:
        return dict(arrays)


def _save_arrays(path: Path, arrays: dict[str, Any]) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)
