"""The pipeline: pairs -> maps -> points -> clusters -> tests, each stage kept as soon as it is done."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.attention.clustering import blob_silhouettes, clusterings_of
from likewise.attention.clusterings import LayerClusters
from likewise.attention.grouping import layer_controls, layer_groups, random_layer
from likewise.attention.maps import MAP_TOKENS, AttentionMaps, MapSource, RandomMaps, trivial_loss, write_maps
from likewise.attention.reducing import Reduction, plane_view, reduced, require_reducers
from likewise.attention.settings import FEWEST_PAIRS, MOST_PAIRS, AttentionSettings
from likewise.attention.stages import Stages, key_of
from likewise.attention.study import AttentionStudy, LayerControls, LayerGroups, RandomLayer, ReducedMaps
from likewise.attention.training_curve import TrainingCurve
from likewise.attention.variables import Structures, Variables, dependency_labels, structures_of
from likewise.data import ScoredPair
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.grammar import Grammar
from likewise.locks import only_writer
from likewise.progress import Progress

log = logging.getLogger("likewise")

BLOB_DRAWS = 20
USUAL = AttentionSettings()


def attention_study(
    encoder: Encoder,
    pairs: Sequence[ScoredPair],
    folder: Path,
    settings: AttentionSettings = USUAL,
    grammar: Grammar | None = None,
    progress: Progress | None = None,
) -> AttentionStudy:
    """Run the whole study. What is done is kept in ``folder``: the same call again goes on where the last one ended,
    and one with other settings makes again only what these change. Without a grammar there is no structure.

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
    short = [path for path, text in enumerate(tokens) if 0 < len(text) <= settings.max_tokens]
    _check_count(len(short), settings)
    if len(short) < len(pairs):
        log.warning("left out %d pairs of no or more than %d tokens", len(pairs) - len(short), settings.max_tokens)
    metadata = {"left_out": len(pairs) - len(short), "truncated": sum(tokens[path].truncated for path in short)}
    folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder / ".lock", folder):
        kept = tuple(pairs[path] for path in short)
        texts = [(tokens[path].ids, tokens[path].types, tokens[path].sides) for path in short]
        pipeline = _Pipeline(encoder, kept, key_of(texts), Stages(folder / "stages"), settings, progress)
        return pipeline.study(grammar, metadata)


def _check_draws(settings: AttentionSettings, layers: int) -> None:
    """With few draws even the smallest p is no find once it is corrected for the number of layers."""
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
    """what the model is given"""
    stages: Stages
    settings: AttentionSettings
    progress: Progress | None

    def study(self, grammar: Grammar | None, metadata: dict[str, Any]) -> AttentionStudy:
        """All stages, one after the other."""
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

    # The stages

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
        # Batches of another size would be resumed in the wrong place.
        key = key_of(self.tokens_key, MAP_TOKENS, encoder.hash, encoder.config_hash, str(encoder.model_view.dtype))
        return write_maps(encoder, texts, self.stages.path("maps", key), prompt, self.progress), key

    def _trivial_loss(self, name: str, maps: MapSource, key: str) -> float:
        return float(self.stages.document(name, key, lambda: trivial_loss(maps)))

    def _reduction(self, reducer: str, maps: MapSource, maps_key: str, prefix: str = "") -> Reduction:
        settings, seed = self.settings.autoencoder, self.settings.seed
        known = asdict(settings) if reducer == "lstm" else {"latent": settings.latent}
        # More epochs or patience go on with what is learnt.
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
        kept = self.stages.document(name, key, lambda: clusterings_of(points, settings, seed, self.progress).kept())
        return LayerClusters.from_kept(kept)

    def _grouped(self, name: str, reduction: Reduction, variables: Variables) -> ReducedMaps:
        points = reduction.points
        groups = [
            layer_groups(layer, self._clusters(f"clusters-{name}-{layer}", of_layer), variables, self.settings.alpha)
            for layer, of_layer in enumerate(points.swapaxes(0, 1), start=1)
        ]
        return ReducedMaps(name, points, plane_view(points), tuple(groups), reduction.loss)

    def _random(self, maps: AttentionMaps, variables: Variables) -> _RandomAttention | None:
        """The whole way again, with attention that knows nothing but the length."""
        seed, count = self.settings.seed, min(self.settings.control_pairs, len(self.pairs))
        indices = np.sort(np.random.default_rng(seed).choice(len(self.pairs), count, replace=False))
        drawn = RandomMaps(maps.lengths[indices], maps.layers, maps.heads, seed)
        key = key_of("random", drawn.lengths.tolist(), drawn.layers, drawn.heads, seed)
        reduction, some = self._reduction(self.settings.reducer, drawn, key, "random-"), variables.of(indices)
        try:
            token_groups = self._grouped(f"random-{self.settings.reducer}", reduction, some)
        except DataError as error:
            log.warning("random attention is left out, since it has no clusters (%s)", error)
            return None
        return _RandomAttention(token_groups, some, reduction.curve, self._trivial_loss("random-trivial", drawn, key))

    def _controls(
        self, groups: LayerGroups, main: ReducedMaps, variables: Variables, random: _RandomAttention | None
    ) -> LayerControls:
        points, chosen, seed = main.points[:, groups.layer - 1], groups.clusters.chosen, self.settings.seed
        clusters = self.settings.clusters
        key = key_of(points.tolist(), chosen.to_dict(), asdict(clusters), seed, BLOB_DRAWS)
        kept = self.stages.arrays(
            f"blob-{groups.layer}",
            key,
            lambda: {"silhouettes": blob_silhouettes(points, chosen, clusters, BLOB_DRAWS, seed, self.progress)},
        )
        beside = None if random is None else random.layer(groups, self.settings)
        return layer_controls(groups, points, variables, self.settings, kept["silhouettes"], beside)


@dataclass(frozen=True, eq=False)
class _RandomAttention:
    """What the pipeline makes of random attention."""

    reduced: ReducedMaps
    variables: Variables
    curve: TrainingCurve | None
    trivial_loss: float

    def layer(self, model: LayerGroups, settings: AttentionSettings) -> RandomLayer:
        """What stands beside a layer of the model."""
        groups, points = self.reduced.groups[model.layer - 1], self.reduced.points[:, model.layer - 1]
        return random_layer(groups, points, model.clusters.chosen.k, self.variables, settings)

    @property
    def losses(self) -> tuple[float, float] | None:
        loss = self.reduced.loss
        return None if loss is None else (loss, self.trivial_loss)
