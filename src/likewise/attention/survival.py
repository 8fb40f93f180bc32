"""Which findings survive the controls, and a summary of a study in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from likewise.attention.groups import StudyData
from likewise.attention.significance import holm

Layers = tuple[int, ...]
TRIVIAL = "a decoder that answers 1/n everywhere"


@dataclass(frozen=True)
class Survival:
    """The layers, from 1, in which the clusters differ in a variable, before and after each control."""

    variable: str
    tested: Layers  # Kruskal-Wallis, Holm over the layers
    permuted: Layers  # of these, also by permutation of the labels
    given_length: Layers | None  # of these, permuted among pairs of similar length; None for length itself
    careful: Layers | None  # of these, with length partialled out, which is conservative if clusters follow length
    random: Layers | None  # where random attention passes the same test; None without random attention

    @property
    def survives(self) -> Layers:
        """The layers that pass every control; what random attention shows too is no finding about the model."""
        left = self.permuted if self.given_length is None else self.given_length
        return tuple(layer for layer in left if layer not in (self.random or ()))


def survival(study: StudyData, variable: str) -> Survival:
    """Compare a variable's tests with the controls, layer by layer."""
    alpha, controls, is_length = study.settings.alpha, study.controls, variable == "length"
    tested = _below([group.tests[variable].kruskal_p for group in study.main.groups], alpha)
    permuted = _below([control.permutation[variable].p for control in controls], alpha, tested)
    given = careful = random = None
    if not is_length:
        given = _below([control.within_length[variable].p for control in controls], alpha, permuted)
        careful = _below([control.given_length[variable].kruskal_p for control in controls], alpha, given)
    if found := [control.random for control in controls if control.random is not None]:
        ps = [one.groups.tests[variable].kruskal_p if is_length else one.within_length[variable].p for one in found]
        random = _below(ps, alpha)
    return Survival(variable, tested, permuted, given, careful, random)


def verdicts(study: StudyData) -> list[str]:
    """A few sentences on a whole study: its loss, its clusters and each variable.

    >>> verdicts(study)[-1]  # doctest: +SKIP
    'Structure: the clusters differ in 2 of 6 layers (1, 2) ... Of the clusters nothing survives.'
    """
    return [
        *_loss_words(study),
        *_cluster_words(study),
        *(_variable_words(study, name) for name in study.variables.names),
    ]


def _loss_words(study: StudyData) -> Iterator[str]:
    if study.loss is None:
        return
    share = 1 - study.loss / study.trivial_loss if study.trivial_loss else 0.0
    found = f"The autoencoder's loss over all pairs is {study.loss:.4f}, against {study.trivial_loss:.4f} of {TRIVIAL}"
    gain = f"{share:.0%} less" if share > 0 else "it is no better"
    follows = "the points hold little of what the maps show" if share < 0.25 else "the points hold part of the maps"
    yield f"{found}: {gain}, so {follows}." if share < 0.75 else f"{found}: {gain}."


def _cluster_words(study: StudyData) -> Iterator[str]:
    groups, most = study.main.groups, study.settings.clusters.most
    silhouettes = [(group.layer, group.clusters.chosen.scores.silhouette) for group in groups]
    nulls = [control.null_high for control in study.controls]
    apart = [layer for (layer, own), null in zip(silhouettes, nulls, strict=True) if not own <= null]
    yield (
        f"The points are more than one Gaussian cloud in {_of(apart, study.depth)}: there the silhouette is above what"
        " the same algorithm, its K chosen anew, finds in 95 % of single clouds of the same covariance. A bent or"
        " striped cloud is enough for that."
    )
    full = [group.layer for group in groups if group.clusters.chosen.k == most]
    if full:
        yield (
            f"In {_of(full, study.depth)} the scores ask for the largest K that was tried, {most}, as they do where"
            " points lie along a thread without gaps, whose parts are no groups."
        )
    bad = [group.layer for group in groups if group.clusters.chosen.algorithm in group.clusters.rejected]
    if bad:
        yield f"In {_of(bad, study.depth)} no clustering keeps to the rule, and the least bad one was taken."


def _variable_words(study: StudyData, variable: str) -> str:
    found, depth = survival(study, variable), study.depth
    sentences = [
        f"{variable.capitalize()}: the clusters differ in {_of(found.tested, depth)} (Kruskal-Wallis, Holm over the"
        f" layers), by permutation in {_of(found.permuted, depth)}."
    ]
    if found.given_length is not None and found.careful is not None:
        sentences.append(
            f"With length held fixed: {_of(found.given_length, depth)} by permutation among pairs of like length,"
            f" {_of(found.careful, depth)} by the rank test of what length leaves, which is more careful."
        )
        sentences.append(_point_words(study, variable))
    if found.random is not None:
        sentences.append(_random_words(study, found))
    if found.survives:
        sizes = [group.tests[variable].eta2 for group in study.main.groups if group.layer in found.survives]
        low, high = f"{min(sizes):.3f}", f"{max(sizes):.3f}"
        size = low if low == high else f"{low} to {high}"
        sentences.append(f"What survives of the clusters: {_of(found.survives, depth)}, eta^2 {size}.")
    else:
        sentences.append("Of the clusters nothing survives.")
    return " ".join(sentences)


def _point_words(study: StudyData, variable: str) -> str:
    ties, alpha = [control.points[variable] for control in study.controls], study.settings.alpha
    layers = _below([tie.p for tie in ties], alpha)
    if not layers:
        return "Before any clustering, the points tell nothing of it that length does not."
    best = max(layers, key=lambda layer: ties[layer - 1].r2)
    sentence = (
        f"Before any clustering, the points tell some of it beyond length in {_of(layers, study.depth)}, at most"
        f" {ties[best - 1].r2:.1%} of what length leaves, in layer {best}; clusters cut along length need not show it."
    )
    if not study.random_groups:
        return sentence
    random = _below([control.random.points[variable].p for control in study.controls if control.random], alpha)
    return f"{sentence} Random attention's points tell it in {_of(random, study.depth)}."


def _random_words(study: StudyData, found: Survival) -> str:
    name, controls = found.variable, [control.random for control in study.controls if control.random is not None]
    own = float(np.mean([group.tests[name].eta2 for group in study.main.groups]))
    random = float(np.mean([layer.same_k[name].eta2 for layer in controls]))
    test = "differs as well" if found.given_length is None else "differs among pairs of like length"
    sentence = (
        f"Random attention of the same shapes, which knows the length alone, {test} in"
        f" {_of(found.random or (), study.depth)}"
    )
    if not np.isfinite([own, random]).all():
        return f"{sentence}."
    return f"{sentence}; its eta^2 with as many clusters is {random:.3f} on average, against {own:.3f}."


def _below(ps: Sequence[float], alpha: float, among: Layers | None = None) -> Layers:
    """The layers, all or among some, with p below alpha after Holm's correction; nan is not."""
    passed = [layer for layer, p in enumerate(holm(np.nan_to_num(ps, nan=1.0)), start=1) if p < alpha]
    return tuple(layer for layer in passed if among is None or layer in among)


def _of(layers: Sequence[int], depth: int) -> str:
    """Layers as text.

    >>> _of([1, 2, 5], 6), _of([], 6), _of([1, 2], 2)
    ('3 of 6 layers (1, 2, 5)', 'no layer', 'all 2 layers')
    """
    if len(layers) == depth:
        return "the one layer" if depth == 1 else f"all {depth} layers"
    return f"{len(layers)} of {depth} layers ({', '.join(map(str, layers))})" if layers else "no layer"
