"""The pipeline of a study: pairs -> maps -> points -> clusters -> tests; finished stages are cached in its folder."""

from __future__ import annotations

import json
import logging
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from likewise.attention.clustering import LayerClusters, clusterings_of, gaussian_silhouettes
from likewise.attention.groups import (
    LayerControls,
    LayerGroups,
    ReducedMaps,
    Structures,
    Variables,
    dependency_labels,
    layer_controls,
    layer_groups,
    random_layer,
    structures_of,
)
from likewise.attention.maps import MAP_TOKENS, AttentionMaps, Maps, RandomMaps, trivial_loss, write_maps
from likewise.attention.reduction import (
    Reduction,
    TrainedAutoencoder,
    TrainingCurve,
    plane_view,
    reduced,
    require_reducers,
    train_autoencoder,
)
from likewise.attention.settings import FEWEST_PAIRS, MOST_PAIRS, AttentionSettings
from likewise.attention.study import AttentionStudy
from likewise.data import Dataset, ScoredPair
from likewise.encoder import Encoder, takes_encoder
from likewise.errors import DataError, UsageError
from likewise.grammar import Grammar
from likewise.progress import Progress
from likewise.storage import DAMAGED, atomic_write, content_key, only_writer

log = logging.getLogger("likewise")
T = TypeVar("T")
GAUSSIAN_DRAWS = 20
STAGES, CHECKPOINT = "stages", "autoencoder.pt"
FORMAT = 2  # raised when stages of an older version cannot be read or would be different now
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


@takes_encoder
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
    tokens = encoder.tokenize([(pair.left, pair.right) for pair in pairs], settings.prompt)
    kept = [(pair, text) for pair, text in zip(pairs, tokens, strict=True) if 0 < len(text) <= settings.max_tokens]
    left_out = len(pairs) - len(kept)
    _require_feasible(settings, encoder.model_view.layers, len(kept))
    if left_out:
        log.warning("left out %d pairs of no or more than %d tokens", left_out, settings.max_tokens)
    metadata = {"left_out": left_out, "truncated": sum(text.truncated for _, text in kept)}
    folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder / ".lock", folder):
        key = key_of([(text.ids, text.types, text.sides) for _, text in kept])
        stages, some = Stages(folder / STAGES), tuple(pair for pair, _ in kept)
        return _Pipeline(encoder, some, key, stages, settings, progress).study(grammar, metadata)


def trained_stages(encoder: Encoder, study: AttentionStudy, folder: Path) -> tuple[AttentionMaps, TrainedAutoencoder]:
    """The maps and the trained autoencoder that a finished study by ``lstm`` left in its folder."""
    stages, settings = folder / STAGES, study.settings
    texts = [(pair.left, pair.right) for pair in study.pairs]
    maps = write_maps(encoder, texts, stages / "maps", settings.prompt)
    return maps, train_autoencoder(maps, settings.autoencoder, settings.seed, stages / "lstm" / CHECKPOINT)


def _require_feasible(settings: AttentionSettings, layers: int, count: int) -> None:
    """Reject what cannot work: too few draws to be significant after Holm's correction, too few or too many pairs."""
    needed = math.ceil(layers / settings.alpha)
    if settings.permutations < needed:
        raise UsageError(
            f"permutations must be at least {needed} for {layers} layers at a level of {settings.alpha:g}, got"
            f" {settings.permutations}"
        )
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
    tokens_key: str  # the key of the model's input
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
        loss = None if random is None else random.reduced.loss
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
            random_losses=None if random is None or loss is None else (loss, random.trivial_loss),
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

    def _trivial_loss(self, name: str, maps: Maps, key: str) -> float:
        return float(self.stages.document(name, key, lambda: trivial_loss(maps)))

    def _reduction(self, reducer: str, maps: Maps, maps_key: str, prefix: str = "") -> Reduction:
        settings, seed = self.settings.autoencoder, self.settings.seed
        known = asdict(settings) if reducer == "lstm" else {"latent": settings.latent}
        # More epochs or patience continue the same training.
        learnt = {name: value for name, value in known.items() if name not in ("epochs", "patience")}

        def make() -> dict[str, Any]:
            path = self.stages.path(f"{prefix}{reducer}", key_of(maps_key, reducer, learnt, seed))
            found = reduced(maps, reducer, settings, seed, path / CHECKPOINT, self.progress)
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
        index, chosen, seed = groups.layer - 1, groups.clusters.chosen, self.settings.seed
        points, clusters, control = main.points[:, index], self.settings.clusters, None
        key = key_of(points.tolist(), chosen.to_dict(), asdict(clusters), seed, GAUSSIAN_DRAWS)

        def make() -> dict[str, Any]:
            draws = gaussian_silhouettes(points, chosen, clusters, GAUSSIAN_DRAWS, seed, self.progress)
            return {"silhouettes": draws}

        kept = self.stages.arrays(f"gaussian-{groups.layer}", key, make)
        if random is not None:
            own, of_layer = random.reduced.groups[index], random.reduced.points[:, index]
            control = random_layer(own, of_layer, chosen.k, random.variables, self.settings)
        return layer_controls(groups, points, variables, self.settings, kept["silhouettes"], control)


@dataclass(frozen=True, eq=False)
class _RandomAttention:
    """The pipeline's results on random attention."""

    reduced: ReducedMaps
    variables: Variables
    curve: TrainingCurve | None
    trivial_loss: float


def key_of(*parts: Any) -> str:
    """A hash of everything that a stage's result depends on."""
    return content_key(FORMAT, *parts)


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
        mark = self.folder / "about.txt"
        if mark.exists():
            return
        if self.folder.exists() and any(self.folder.iterdir()):
            raise UsageError(f"{self.folder} holds files that are not of this command; choose another --out")
        self.folder.mkdir(parents=True, exist_ok=True)
        mark.write_text("Finished stages of a study; they may be deleted and are made again.\n")

    def document(self, name: str, key: str, make: Callable[[], Any]) -> Any:
        """The JSON value of ``make``, or the cached one."""

        def read(path: Path) -> Any:
            return json.loads(path.read_text(encoding="utf-8"))["result"]

        # Wrapped, because half of a bare number is a number too.
        return _cached(self.path(name, key) / "result.json", read, lambda: json.dumps({"result": make()}).encode())

    def arrays(self, name: str, key: str, make: Callable[[], dict[str, Any]]) -> dict[str, NDArray[Any]]:
        """The arrays of ``make``, or the cached ones."""

        def read(path: Path) -> dict[str, NDArray[Any]]:
            with np.load(path) as arrays:
                return dict(arrays)

        def content() -> bytes:
            np.savez(file := BytesIO(), **make())
            return file.getvalue()

        return _cached(self.path(name, key) / "result.npz", read, content)


def _cached(path: Path, read: Callable[[Path], T], content: Callable[[], bytes]) -> T:
    """A file's content; a missing or damaged file is made again."""
    try:
        return read(path)
    except DAMAGED:
        atomic_write(path, lambda draft: draft.write_bytes(content()))
        return read(path)
