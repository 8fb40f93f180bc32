"""Verdicts: what survives the controls, in words with their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from likewise.attention.significance import holm
from likewise.attention.study import AttentionStudy

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
    beyond_random: tuple[int, ...] | None
    """Of the layers that are left, those with a larger eta^2 than random attention has; None without that control."""

    @property
    def survives(self) -> tuple[int, ...]:
        """The layers that every control leaves."""
        left = self.permuted if self.given_length is None else self.given_length
        return left if self.beyond_random is None else self.beyond_random


def survival(study: AttentionStudy, variable: str) -> Survival:
    """Hold a variable's tests against the controls, layer by layer."""
    alpha, controls = study.settings.alpha, study.controls
    tested = _below([group.tests[variable].kruskal_p for group in study.main.groups], alpha)
    permuted = tested & _below([control.permutation[variable].p for control in controls], alpha)
    given, left = None, permuted
    if variable != "length":
        left = given = permuted & _below([control.within_length[variable].p for control in controls], alpha)
    beyond = None
    if all(control.random is not None for control in controls):
        beyond = {layer for layer in left if _effect(study, variable)[layer] > _random_effect(study, variable)[layer]}
    return Survival(
        variable,
        *(None if layers is None else tuple(sorted(layers)) for layers in (tested, permuted, given, beyond)),  # type: ignore[arg-type]
    )


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
    apart = [
        group.layer
        for group, control in zip(study.main.groups, study.controls, strict=True)
        if _stands_out(group.clusters.chosen.scores.silhouette, control.blob)
    ]
    return (
        f"Clusters stand out from one Gaussian cloud in {_of(apart, study.depth)}: there the silhouette is above 95 %"
        " of what the same algorithm finds in a single cloud of the same covariance. Elsewhere the points may be one"
        " cloud cut into parts."
    )


def _stands_out(silhouette: float, blob: np.ndarray) -> bool:
    found = blob[np.isfinite(blob)]
    return len(found) == 0 or silhouette > float(np.quantile(found, 0.95))


def _variable_words(study: AttentionStudy, variable: str) -> str:
    found = survival(study, variable)
    said = [
        f"{variable.capitalize()}: the clusters differ in {_of(found.tested, study.depth)}"
        f" (Kruskal-Wallis, Holm over the layers); permuted labels leave {_of(found.permuted, study.depth)}."
    ]
    if found.given_length is not None:
        said.append(f"Among pairs of like length {_of(found.given_length, study.depth)} remain.")
    if found.beyond_random is not None:
        mean, random = (float(np.mean(list(effect(study, variable).values()))) for effect in (_effect, _random_effect))
        said.append(
            f"Random attention of the same shapes, which knows the length alone, has an eta^2 of {random:.3f} on"
            f" average, beside {mean:.3f}."
        )
    effects = _effect(study, variable)
    if found.survives:
        sizes = [effects[layer] for layer in found.survives]
        size = f"eta^2 {min(sizes):.3f}" if len(sizes) == 1 else f"eta^2 {min(sizes):.3f} to {max(sizes):.3f}"
        said.append(f"What survives every control: {_of(found.survives, study.depth)}, {size}.")
    else:
        said.append("Nothing of it survives every control.")
    return " ".join(said)


def _effect(study: AttentionStudy, variable: str) -> Mapping[int, float]:
    return {group.layer: group.tests[variable].eta2 for group in study.main.groups}


def _random_effect(study: AttentionStudy, variable: str) -> Mapping[int, float]:
    beside = [control.random for control in study.controls]
    return {group.layer: group.tests[variable].eta2 for group in beside if group is not None}


def _below(ps: Sequence[float], alpha: float) -> set[int]:
    """The layers whose p, corrected for their number, is below alpha; one without a p is not."""
    return {layer for layer, p in enumerate(holm(np.nan_to_num(ps, nan=1.0)), start=1) if p < alpha}


def _of(layers: Sequence[int], depth: int) -> str:
    """Layers in words.

    >>> _of([1, 2, 5], 6), _of([], 6), _of([4], 6)
    ('3 of 6 layers (1, 2, 5)', 'no layer', '1 of 6 layers (4)')
    """
    return f"{len(layers)} of {depth} layers ({', '.join(map(str, layers))})" if layers else "no layer"
