"""Tables and figures of the study of attention clusters that are about maps, points and clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from math import sqrt
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from likewise.attention.groups import LayerGroups
from likewise.attention.pipeline import attention_study, trained_stages
from likewise.attention.settings import AttentionSettings, AutoencoderSettings, ClusterSettings, Highlight
from likewise.attention.significance import eta_squared, length_strata, residual_ranks
from likewise.attention.study import AttentionStudy
from likewise.attention.survival import survival
from likewise.errors import MissingExtra, ModelError, UsageError
from likewise.grammar import Grammar
from likewise.metrics import Interval, bootstrap_means
from likewise.reproduce.attention_clusters_training import NO_VALUES, file_of, fine_tuned, tuned_encoder
from likewise.reproduce.published import side_by_side
from likewise.reproduce.study import Context, Finding
from likewise.reproduce.verdicts import HOLDS, Control, Verdict, above, below, not_comparable
from likewise.results import Column
from likewise.train.tasks import fixed_sample

Rows = NDArray[np.int64]
Labels = NDArray[np.int64]
SIMILAR = Highlight("similarity", ((0, 0), (5, 5)), (6, 8, 9, 10))  # layers in which the study finds similarity
GROUPS = 20  # of the jackknife
REJECTED = ("dbscan", "spectral")  # algorithms that the study rejects
EPOCHS = AutoencoderSettings().epochs
LEAST = 3  # pairs of a group by length alone
FEW = ClusterSettings(
    most=8, distances=("euclidean",), linkages=("ward", "average"), covariances=("full",), min_samples=(5,)
)  # clusterings of the small budgets
RANDOM = "random attention of the same shapes"


# The study of the fine-tuned model, shared by all items


def folder_of(context: Context, latent: int = 2) -> Path:
    """Where the stages of a study are."""
    return context.work / f"attention-{context.budget}-{context.language}-{latent}"


def maps_study(context: Context, latent: int = 2) -> AttentionStudy:
    """Maps of the fine-tuned model, their points of ``latent`` numbers, and the clusters with tests and controls."""
    return _maps_study(context, latent)


@cache  # behind the default, which would be another key
def _maps_study(context: Context, latent: int) -> AttentionStudy:
    pairs = fixed_sample(list(context.dataset(file_of(context, "test")).scored_pairs()), _pairs(context), 0)
    folder = folder_of(context, latent)
    grammar, settings = english(context), settings_of(context, latent)
    return attention_study(tuned_encoder(context), pairs, folder, settings, grammar, context.progress)


def _pairs(context: Context) -> int | None:
    return context.size(tiny=30, quick=100, standard=None)


def settings_of(context: Context, latent: int) -> AttentionSettings:
    """The settings of a study by budget."""
    is_small = context.budget in ("tiny", "quick")
    hidden, epochs = context.size(tiny=8, quick=32) or 32, context.size(tiny=1, quick=3, standard=EPOCHS) or EPOCHS
    rate = 4e-3 if is_small else 1e-3  # few steps must be large
    return AttentionSettings(
        compare=(),
        autoencoder=AutoencoderSettings(hidden=hidden, latent=latent, epochs=epochs, learning_rate=rate),
        clusters=FEW if is_small else ClusterSettings(),
        control_pairs=context.size(tiny=15, quick=40, standard=300) or 300,
    )


def english(context: Context) -> Grammar | None:
    """The English grammar; None for other languages, and where there is none."""
    with suppress(ModelError, MissingExtra):
        return context.grammar("en") if context.language == "en" else None
    return None


def structured(context: Context) -> AttentionStudy:
    """The study, if the structure of its pairs is known."""
    study = maps_study(context)
    if study.variables.structure is None:
        raise UsageError("structure needs English pairs and an English spaCy pipeline; give --grammar en=PIPELINE")
    return study


def about(context: Context) -> str:
    """What was studied, in one line."""
    train, test, rows = file_of(context, "train"), file_of(context, "test"), fine_tuned(context).rows
    return (
        f"Attention of {context.short} after fine-tuning on {rows} pairs of {train} (CLS, a pair as one sequence), on"
        f" {len(maps_study(context).pairs)} pairs of {test}. The autoencoder was trained for at most"
        f" {settings_of(context, 2).autoencoder.epochs} epochs."
    )


# Effects


def jackknifed(statistic: Callable[[Rows], float], n: int, seed: int = 0) -> Interval:
    """A statistic of rows (n,) with its interval by the grouped jackknife.

    Not by the bootstrap: repeated rows raise how much clusters seem to differ.
    """
    from scipy.stats import t

    every, order = np.arange(n), np.random.default_rng(seed).permutation(n)
    parts = np.array_split(order, min(GROUPS, n))
    value = statistic(every)
    left = np.array([statistic(np.setdiff1d(every, part)) for part in parts])
    reach = t.ppf(0.975, len(parts) - 1) * sqrt((len(parts) - 1) * np.var(left))
    return Interval(float(value), float(value - reach), float(value + reach))


def labels_of(study: AttentionStudy, layers: Iterable[int]) -> list[Labels]:
    """The chosen clusters (n,) of layers, from 1."""
    return [study.main.groups[layer - 1].clusters.chosen.labels for layer in layers]


def by_length(study: AttentionStudy, layers: Iterable[int]) -> list[Labels]:
    """As many groups as each layer has clusters, by length alone."""
    ks = [study.main.groups[layer - 1].clusters.chosen.k for layer in layers]
    return [length_strata(study.variables.length, k, LEAST) for k in ks]


def contrast(
    study: AttentionStudy,
    variable: str,
    more: Sequence[Labels],
    less: Sequence[Labels] = (),
    given_length: bool = False,
) -> Interval:
    """How much some groupings (n,) of the pairs differ in a variable, less how much others do: mean eta squared."""
    values, length = study.variables[variable], study.variables.length

    def effect(rows: Rows) -> float:
        own = residual_ranks(values[rows], length[rows]) if given_length else values[rows]
        first, second = ([eta_squared(own, labels[rows]) for labels in some] for some in (more, less))
        return float(np.mean(first)) - (float(np.mean(second)) if second else 0.0)

    return jackknifed(effect, len(length))


def thirds(study: AttentionStudy) -> tuple[list[int], list[int]]:
    """The first and the last third of the layers."""
    size = max(1, study.depth // 3)
    layers = list(range(1, study.depth + 1))
    return layers[:size], layers[-size:]


def length_control(study: AttentionStudy, variable: str, layers: Sequence[int]) -> Control:
    """Whether length alone gives clusters that differ as much, and nothing is left if it is held fixed."""
    alone = contrast(study, variable, by_length(study, layers))
    beyond = contrast(study, variable, labels_of(study, layers), given_length=True)
    left = beyond.low > 0 or bool(set(layers) & set(survival(study, variable).survives))
    return Control("as many groups by length alone", alone, alone.low > 0 and not left)


# Items: the autoencoder, tables 2, 4 and 5


def autoencoder_item(context: Context) -> Finding:
    """The loss of the autoencoder, and that of 1/n everywhere."""
    study, gain = maps_study(context), saved_share(context, 2)
    assert study.loss is not None and study.random_losses is not None
    loss, trivial = study.random_losses
    random = 1 - loss / trivial
    verdict = above(
        "The two numbers of the autoencoder describe a map.",
        "share of the squared error of 1/n everywhere that the autoencoder saves",
        gain,
        control=Control(f"{RANDOM} ({random:.3f})", None, random >= gain.low),
    )
    name = "mean squared error"
    measured = {("autoencoder", name): study.loss, ("1/n everywhere", name): study.trivial_loss}
    measured |= {("autoencoder, random attention", name): loss, ("1/n everywhere, random attention", name): trivial}
    table = side_by_side(context.published.of("autoencoder").values(), measured, context.short, "Loss")
    table = replace(table, columns=tuple(replace(one, format=".4f" if one.format else "") for one in table.columns))
    most = np.mean((1 - 1 / study.variables.length) / study.variables.length)
    value = not_comparable(
        "The loss is 0.0447.",
        f"a loss of other maps; whatever the attention, 1/n everywhere has at most {most:.4f} on these pairs (0.0415 on"
        f" all), so 0.0447 keeps nothing; here {study.loss:.4f} against {study.trivial_loss:.4f}",
    )
    return Finding(
        {"loss": table}, {"loss": study.figures()["loss"]}, (once_learned(verdict, study), value), (about(context),)
    )


def once_learned(verdict: Verdict, study: AttentionStudy) -> Verdict:
    """A verdict on what an autoencoder keeps; a short training can confirm it and cannot refute it."""
    epochs = study.settings.autoencoder.epochs
    if verdict.verdict == HOLDS or epochs >= EPOCHS:
        return verdict
    return not_comparable(verdict.claim, f"{epochs} epochs are too few to refute it; use --budget standard")


def losses(context: Context, latent: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each pair (n,) the squared error of the autoencoder, and that of 1/n everywhere."""
    study = maps_study(context, latent)
    maps, trained = trained_stages(tuned_encoder(context), study, folder_of(context, latent))
    own, even = [], []
    with torch.inference_mode():
        for index, n in enumerate(maps.lengths.tolist()):
            steps = maps.sequence(index)
            own.append(float(trained.model.loss(steps)))
            even.append(float((steps - 1 / n).square().mean()))
    return np.array(own), np.array(even)


def saved_share(context: Context, latent: int, base: int | None = None) -> Interval:
    """The share of the error of 1/n everywhere that an autoencoder saves, over that of ``base`` numbers if given."""
    own, even = losses(context, latent)
    start = even if base is None else losses(context, base)[0]
    [mean] = bootstrap_means([start - own])
    whole = float(even.mean())
    return Interval(mean.value / whole, mean.low / whole, mean.high / whole)


def algorithm_table(context: Context) -> Finding:
    """Table 2: the algorithm and the number of clusters that the scores choose."""
    study = maps_study(context)
    random = [_rejection(group) for group in study.random_groups]
    control = over_layers(random)
    verdict = below(
        "DBSCAN and spectral clustering are worse than k-means, agglomerative clustering and Gaussian mixtures.",
        "silhouette of the better of the two minus that of the best of the three, mean over the layers",
        over_layers([_rejection(group) for group in study.main.groups]),
        control=None if control is None else Control(RANDOM, control, control.high < 0),
    )
    ks = [group.clusters.chosen.k for group in study.main.groups]
    of_random = [group.clusters.chosen.k for group in study.random_groups]
    first = f"here layer 1 has {ks[0]}" + (f", random attention {of_random[0]}" if of_random else "")
    why = f"a number of clusters of another model; {first}, and at most {study.settings.clusters.most} are tried"
    layer_1 = not_comparable("Layer 1 has 15 clusters.", why)
    measured = {(f"layer {layer}", "K"): k for layer, k in enumerate(ks, start=1)}
    numbers = side_by_side(context.published.of("table-2").values(), measured, context.short, "Number of clusters")
    numbers = replace(numbers, columns=tuple(Column(one.name, one.heading) for one in numbers.columns))
    chosen = replace(study.tables()["algorithms"], detail=False)
    return Finding({"numbers": numbers, "algorithms": chosen}, {}, (verdict, layer_1), (about(context),))


def _rejection(group: LayerGroups) -> float:
    """The silhouette of the better rejected algorithm minus that of the best other one."""
    found = {one.algorithm: one.scores.silhouette for one in group.clusters.best}
    rejected = [value for name, value in found.items() if name in REJECTED]
    others = [value for name, value in found.items() if name not in REJECTED]
    return max(rejected) - max(others) if rejected and others else float("nan")


def over_layers(values: Sequence[float]) -> Interval:
    """The mean over layers that have the value, with its interval."""
    known = [value for value in values if value == value]
    return bootstrap_means([known])[0] if known else Interval(float("nan"), float("nan"), float("nan"))


def score_table(context: Context) -> Finding:
    """Table 4: silhouette, Davies-Bouldin and Calinski-Harabasz of each layer."""
    study = maps_study(context)
    null = np.nanmean([control.gaussian_null for control in study.controls], axis=0)
    own, random = (
        float(np.mean([group.clusters.chosen.scores.silhouette for group in groups])) if groups else float("nan")
        for groups in (study.main.groups, study.random_groups)
    )
    control = beyond(random, null)
    verdict = above(
        "The points of a layer form clusters.",
        "silhouette minus that of one Gaussian cloud, mean over the layers",
        beyond(own, null),
        control=Control(RANDOM, control, control.low > 0),
    )
    notes = (about(context), NO_VALUES.format("table 4"))
    return Finding({"scores": study.tables()["metrics"]}, {}, (verdict,), notes)


def beyond(observed: float, null: NDArray[np.float64]) -> Interval:
    """How far an observed value is above what chance gives (draws,), with the 95 % range of chance."""
    low, middle, high = np.nanpercentile(null, [2.5, 50, 97.5])
    return Interval(float(observed - middle), float(observed - high), float(observed - low))


def variable_table(context: Context) -> Finding:
    """Table 5: Kruskal-Wallis and Mann-Whitney for similarity, length and structure."""
    study = maps_study(context)
    verdicts, notes = [_similarity(study), _length(study)], [about(context)]
    if study.variables.structure is None:
        notes.append("Without an English grammar the structure of the pairs is unknown.")
    else:
        every = range(1, study.depth + 1)
        effect, control = (
            contrast(study, "structure", labels_of(study, every)),
            length_control(study, "structure", every),
        )
        claim = "The clusters differ in grammatical structure."
        verdicts.append(above(claim, "eta² of structure, mean over all layers", effect, control=control))
    tables = {name: study.tables()[name] for name in ("tests", "controls")}
    return Finding(tables, {"effects": study.figures()["effects"]}, tuple(verdicts), tuple(notes))


def _similarity(study: AttentionStudy) -> Verdict:
    layers = SIMILAR.layers_of(study.depth)
    effect = contrast(study, "similarity", labels_of(study, layers))
    name = f"eta² of similarity, mean over layers {listed(layers)}{depth_note(study)}"
    control = length_control(study, "similarity", layers)
    return above("The clusters of layers 6, 8, 9 and 10 differ in similarity.", name, effect, control=control)


def _length(study: AttentionStudy) -> Verdict:
    early, _ = thirds(study)
    effect = contrast(study, "length", labels_of(study, early))
    name = f"eta² of length, mean over layers {listed(early)}"
    known = [one.random.same_k["length"].eta2 for one in study.controls[: len(early)] if one.random is not None]
    random = float(np.mean(known)) if known else float("nan")
    control = Control(f"{RANDOM} (eta² {random:.3f})", None, random >= effect.low)
    return above("The clusters of the early layers differ in length.", name, effect, control=control)


def listed(layers: Sequence[int]) -> str:
    """Layers as text."""
    return ", ".join(map(str, layers))


def depth_note(study: AttentionStudy) -> str:
    """How layers of a 12-layer model became those of a model of another depth."""
    return "" if study.depth == 12 else f" of {study.depth}, at the same relative depth"
