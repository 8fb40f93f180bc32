"""The document of a study: what ``results.json`` holds."""

from __future__ import annotations

from typing import Any

from likewise.attention.cluster_choice import RULE
from likewise.attention.significance import ClusterTest
from likewise.attention.study import AttentionStudy, LayerControls, LayerGroups, RandomLayer, ReducedMaps
from likewise.attention.verdicts import survival, verdicts


def study_document(study: AttentionStudy) -> dict[str, Any]:
    """The whole study but for points and labels, which have tables of their own."""
    structure = study.variables.structure
    return {
        "model": study.model,
        "data": study.data,
        "n": len(study.pairs),
        "reducer": study.main.reducer,
        "loss": study.loss,
        "trivial_loss": study.trivial_loss,
        "curve": None if study.curve is None else study.curve.to_dict(),
        "verdicts": verdicts(study),
        "survives": {name: list(survival(study, name).survives) for name in study.variables.names},
        "rule": RULE,
        "structure": None if structure is None else structure.to_dict(),
        "layers": [
            _layer(group) | {"controls": _controls(control)}
            for group, control in zip(study.main.groups, study.controls, strict=True)
        ],
        "reducers": [_reducer(each) for each in study.others],
        "random_attention": _random(study),
        "heads": study.heads.to_dict(),
        **study.metadata,
    }


def _layer(group: LayerGroups) -> dict[str, Any]:
    clusters = group.clusters
    return {
        "layer": group.layer,
        **clusters.chosen.to_dict(),
        "tests": {name: _test(test) for name, test in group.tests.items()},
        "alternatives": [
            one.to_dict() | {"why_not": clusters.rejected.get(one.algorithm)} for one in clusters.alternatives
        ],
        "rejected": dict(clusters.rejected),
        "agreement": [
            {"first": first, "second": second, "ari": value} for (first, second), value in clusters.agreement.items()
        ],
    }


def _controls(control: LayerControls) -> dict[str, Any]:
    return {
        "permutation": {name: test.to_dict() for name, test in control.permutation.items()},
        "given_length": {
            name: _test(test) | {"permutation": control.within_length[name].to_dict()}
            for name, test in control.given_length.items()
        },
        "points": {name: tie.to_dict() for name, tie in control.points.items()},
        "random_attention": None if control.random is None else _random_layer(control.random),
        "single_gaussian": {"silhouette": control.blob_mean, "high": control.blob_high},
    }


def _random_layer(layer: RandomLayer) -> dict[str, Any]:
    return _brief(layer.groups) | {
        "same_k": {name: _test(test) for name, test in layer.same_k.items()},
        "within_length": {name: test.to_dict() for name, test in layer.within_length.items()},
        "points": {name: tie.to_dict() for name, tie in layer.points.items()},
    }


def _brief(group: LayerGroups) -> dict[str, Any]:
    chosen = group.clusters.chosen
    metadata = {"n": len(chosen.labels), "algorithm": chosen.algorithm, "k": chosen.k, "noise": chosen.noise}
    return metadata | vars(chosen.scores) | {"tests": {name: _test(test) for name, test in group.tests.items()}}


def _reducer(each: ReducedMaps) -> dict[str, Any]:
    return {
        "reducer": each.reducer,
        "loss": each.loss,
        "layers": [{"layer": group.layer, **_brief(group)} for group in each.groups],
    }


def _random(study: AttentionStudy) -> dict[str, Any] | None:
    if not study.random_groups:
        return None
    losses = (None, None) if study.random_losses is None else study.random_losses
    curve = None if study.random_curve is None else study.random_curve.to_dict()
    return {"loss": losses[0], "trivial_loss": losses[1], "curve": curve}


def _test(test: ClusterTest) -> dict[str, Any]:
    """A test without its pairs of clusters, which have a table of their own."""
    return {name: value for name, value in test.to_dict().items() if name != "pairs"}
