"""Verdicts: what survives the controls, in words with their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.attention.significance import holm
from likewise.attention.study import AttentionStudy, LayerGroups

TRIVIAL = "a decoder that answers 1/n everywhere"


@dataclass(frozen=True)
class Survival:
    """The layers, from 1 on, in which the clusters differ in a variable, before and after each control."""

    variable: str
    tested: tuple[int, ...]
    """By Kruskal and Wallis, Holm over the layers."""
    permuted: tuple[int, ...]
    """Of these, by permutation of the labels as well."""
    given_length: tuple[int, ...] | None
    """Of these, with values permuted among pairs of like length; None for length itself."""
    random: tuple[int, ...] | None
    """Where random attention passes the same test: within like length, or plainly for length; None without it."""

    @property
    def survives(self) -> tuple[int, ...]:
        """The layers that every control leaves: what random attention shows as well says nothing of a model."""
        left = self.permuted if self.given_length is None else self.given_length
        return tuple(layer for layer in left if layer not in (self.random or ()))


def survival(study: AttentionStudy, variable: str) -> Survival:
    """Hold a variable's tests against the controls, layer by layer."""
    alpha, controls = study.settings.alpha, study.controls
    tested = _below([group.tests[variable].kruskal_p for group in study.main.groups], alpha)
    permuted = tested & _below([control.permutation[variable].p for control in controls], alpha)
    given = random = None
    if variable != "length":
        given = permuted & _below([control.within_length[variable].p for control in controls], alpha)
    if study.random_groups:
        ps = [group.tests[variable].kruskal_p for group in study.random_groups]
        if variable != "length":
            ps = [control.random_within_length[variable].p for control in controls]
        random = _below(ps, alpha)
    return Survival(variable, _sorted(tested), _sorted(permuted), _sorted(given), _sorted(random))


def verdicts(study: AttentionStudy) -> list[str]:
    """A few sentences on a whole study: its loss, its clusters, and each variable.

    >>> verdicts(study)[-1]  # doctest: +SKIP
    'Structure: the clusters differ in 2 of 6 layers (1, 2) ... Nothing of it survives every control.'
    """
    return [
        *_loss_words(study),
        _cluster_words(study),
        *(_variable_words(study, name) for name in study.variables.names),
    ]


def _loss_words(study: AttentionStudy) -> Iterator[str]:
    if study.loss is None:
        return
    share = 1 - study.loss / study.trivial_loss if study.trivial_loss else 0.0
    beside = f"The autoencoder's loss is {study.loss:.4f}, beside {study.trivial_loss:.4f} of {TRIVIAL}"
    said = f"{share:.0%} less" if share > 0 else "it is no better"
    follows = "the points hold little of what the maps show" if share < 0.25 else "the points hold part of the maps"
    yield f"{beside}: {said}, so {follows}." if share < 0.75 else f"{beside}: {said}."


def _cluster_words(study: AttentionStudy) -> str:
    groups, most = study.main.groups, study.settings.clusters.most
    apart = [
        group.layer
        for group, control in zip(groups, study.controls, strict=True)
        if _stands_out(group.clusters.chosen.scores.silhouette, control.blob)
    ]
    said = (
        f"The clusters are told apart better than parts of one Gaussian cloud in {_of(apart, study.depth)}: there the"
        " silhouette is above 95 % of what the same algorithm finds in a single cloud of the same covariance."
    )
    full = [group.layer for group in groups if group.clusters.chosen.k == most]
    if not full:
        return said
    return (
        f"{said} In {_of(full, study.depth)} the scores ask for the largest number that was tried, {most}, as they do"
        " where points lie along a thread without gaps: its parts are no groups."
    )


def _stands_out(silhouette: float, blob: np.ndarray) -> bool:
    found = blob[np.isfinite(blob)]
    return len(found) == 0 or silhouette > float(np.quantile(found, 0.95))


def _variable_words(study: AttentionStudy, variable: str) -> str:
    found, depth = survival(study, variable), study.depth
    said = [
        f"{variable.capitalize()}: the clusters differ in {_of(found.tested, depth)} (Kruskal-Wallis, Holm over the"
        f" layers); permuted labels leave {_of(found.permuted, depth)}."
    ]
    if found.given_length is not None:
        said.append(f"Among pairs of like length {_of(found.given_length, depth)} remain.")
    if found.random is not None:
        mean, random = (_mean_effect(groups, variable) for groups in (study.main.groups, study.random_groups))
        said.append(
            f"Random attention of the same shapes, which knows the length alone, passes this test in"
            f" {_of(found.random, depth)} (its eta^2 is {random:.3f} on average, beside {mean:.3f})."
        )
    if found.survives:
        sizes = [group.tests[variable].eta2 for group in study.main.groups if group.layer in found.survives]
        size = f"eta^2 {min(sizes):.3f}" if len(sizes) == 1 else f"eta^2 {min(sizes):.3f} to {max(sizes):.3f}"
        said.append(f"What survives every control: {_of(found.survives, depth)}, {size}.")
    else:
        said.append("Nothing of it survives every control.")
    return " ".join(said)


def _mean_effect(groups: Sequence[LayerGroups], variable: str) -> float:
    return float(np.mean([group.tests[variable].eta2 for group in groups]))


def _sorted(layers: set[int] | None) -> Any:
    return None if layers is None else tuple(sorted(layers))


def _below(ps: Sequence[float], alpha: float) -> set[int]:
    """The layers whose p, corrected for their number, is below alpha; one without a p is not."""
    return {layer for layer, p in enumerate(holm(np.nan_to_num(ps, nan=1.0)), start=1) if p < alpha}


def _of(layers: Sequence[int], depth: int) -> str:
    """Layers in words.

    >>> _of([1, 2, 5], 6), _of([], 6), _of([4], 6)
    ('3 of 6 layers (1, 2, 5)', 'no layer', '1 of 6 layers (4)')
    """
    return f"{len(layers)} of {depth} layers ({', '.join(map(str, layers))})" if layers else "no layer"
