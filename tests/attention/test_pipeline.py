"""The whole study on a tiny model: what it holds, that it goes on after a break, and what other settings make again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from likewise.attention import AttentionSettings, AttentionStudy, AutoencoderSettings, ClusterSettings, attention_study
from likewise.attention.clustering import clusterings_of
from likewise.data import ScoredPair, read_scored_pairs
from likewise.encoder import Encoder
from likewise.encoder.tokens import Tokenizer
from likewise.errors import Cancelled, DataError, UsageError

QUICK = AttentionSettings(
    autoencoder=AutoencoderSettings(hidden=4, epochs=2),
    clusters=ClusterSettings(("kmeans", "agglomerative"), most=4, distances=("euclidean",), linkages=("ward",)),
    permutations=49,
    control_pairs=20,
    max_tokens=24,
)


@pytest.fixture(scope="module")
def pairs() -> list[ScoredPair]:
    """Short pairs, so that maps have few steps."""
    found = list(read_scored_pairs("sample/pairs"))[:40]
    # The tiny model's tokens are letters, for most words.
    return [
        replace(pair, left=pair.left[: 4 + place % 7], right=pair.right[: 5 + place % 5])
        for place, pair in enumerate(found)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studies") / "whole"


@pytest.fixture(scope="module")
def study(tiny: Encoder, pairs: list[ScoredPair], folder: Path) -> AttentionStudy:
    return attention_study(tiny, pairs, folder, QUICK)


@pytest.mark.slow
def test_a_point_for_every_pair_and_layer(study: AttentionStudy) -> None:
    n, depth = len(study.pairs), 2
    assert study.main.points.shape == (n, depth, 2) and study.main.view is study.main.points
    assert [each.reducer for each in study.others] == ["pca"]
    assert len(study.main.groups) == len(study.controls) == study.depth == depth
    assert study.loss is not None and study.curve is not None
    assert study.loss > 0 and study.trivial_loss > 0 and len(study.curve.train) == 2


def test_results_can_be_computed_again_from_points_and_labels(study: AttentionStudy) -> None:
    similarity = np.array([pair.score for pair in study.pairs])
    for group in study.main.groups:
        points, chosen = study.main.points[:, group.layer - 1], group.clusters.chosen
        kept = chosen.labels >= 0
        again = metrics.silhouette_score(points[kept], chosen.labels[kept])
        assert chosen.scores.silhouette == pytest.approx(again, abs=1e-9)
        values = [similarity[chosen.labels == cluster] for cluster in range(chosen.k)]
        expected = stats.kruskal(*values)
        test = group.tests["similarity"]
        assert test.kruskal_p == pytest.approx(expected.pvalue) and test.h == pytest.approx(expected.statistic)
        assert test.epsilon2 == pytest.approx(expected.statistic / (kept.sum() - 1))


def test_the_random_attention_has_the_shapes_of_some_of_the_pairs(study: AttentionStudy) -> None:
    for group, control in zip(study.main.groups, study.controls, strict=True):
        assert control.random is not None
        assert control.random.same_k["length"].k == group.clusters.chosen.k
        assert len(control.random.groups.clusters.chosen.labels) == 20
        assert control.random.groups.tests["length"].n == control.random.same_k["length"].n == 20
        assert set(control.random.within_length) == {"similarity"}
        assert set(control.given_length) == set(control.within_length) == {"similarity"}
        assert set(control.permutation) == {"similarity", "length"}
        assert len(control.gaussian_null) == 20
    assert study.random_losses is not None and study.random_losses[1] > 0


def same(one: AttentionStudy, other: AttentionStudy) -> bool:
    """Whether two studies say the same, to the last digit."""
    return str(one.to_dict()) == str(other.to_dict()) and np.array_equal(one.main.points, other.main.points)


def interrupt(note: str, calls: int) -> Callable[[int, int | None, str], None]:
    """Break off at the n-th report that holds a note."""
    seen: list[str] = []

    def progress(done: int, total: int | None, said: str) -> None:
        seen.append(said)
        if sum(note in each for each in seen) >= calls:
            raise Cancelled("stop")

    return progress


@pytest.mark.slow
@pytest.mark.parametrize(
    ("note", "calls"),
    [("attention maps", 2), ("epoch 2", 5), ("points", 3), ("clusterings", 2), ("summarised", 4), ("Gaussians", 3)],
)
def test_a_break_in_any_stage_leaves_the_same_study(
    note: str,
    calls: int,
    tiny: Encoder,
    pairs: list[ScoredPair],
    study: AttentionStudy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0.0)
    with pytest.raises(Cancelled):
        attention_study(tiny, pairs, tmp_path, QUICK, progress=interrupt(note, calls))
    assert same(attention_study(tiny, pairs, tmp_path, QUICK), study)


def test_what_is_done_is_not_done_again(
    tiny: Encoder, pairs: list[ScoredPair], study: AttentionStudy, folder: Path
) -> None:
    heard: list[str] = []
    again = attention_study(tiny, pairs, folder, QUICK, progress=lambda done, total, note: heard.append(note))
    assert same(again, study)
    assert set(heard) == {"attention maps"}  # which finds every map there


@pytest.mark.slow
def test_other_settings_make_again_what_they_change(
    tiny: Encoder, pairs: list[ScoredPair], study: AttentionStudy, tmp_path: Path
) -> None:
    attention_study(tiny, pairs, tmp_path, QUICK)
    heard: list[str] = []
    fewer = replace(QUICK, clusters=replace(QUICK.clusters, most=3))
    attention_study(tiny, pairs, tmp_path, fewer, progress=lambda done, total, note: heard.append(note))
    assert "clusterings" in heard and not any("learnt" in note for note in heard)
    other = replace(QUICK, autoencoder=replace(QUICK.autoencoder, hidden=5))
    attention_study(tiny, pairs, tmp_path, other, progress=lambda done, total, note: heard.append(note))
    assert any("learnt" in note for note in heard)
    assert same(attention_study(tiny, pairs, tmp_path, QUICK), study)


@pytest.mark.slow
def test_more_numbers_to_a_point_and_no_control(tiny: Encoder, pairs: list[ScoredPair], tmp_path: Path) -> None:
    settings = replace(QUICK, autoencoder=replace(QUICK.autoencoder, latent=3), control_pairs=0, compare=())
    study = attention_study(tiny, pairs, tmp_path, settings)
    assert study.main.points.shape[2] == 3 and study.main.view.shape[2] == 2
    assert study.others == () and study.controls[0].random is None and study.random_losses is None
    document = study.to_dict()
    assert document["random_attention"] is None and document["layers"][0]["controls"]["random_attention"] is None


@pytest.mark.slow
def test_a_reducer_without_a_loss(tiny: Encoder, pairs: list[ScoredPair], tmp_path: Path) -> None:
    study = attention_study(tiny, pairs, tmp_path, replace(QUICK, reducer="pca", compare=()))
    document = study.to_dict()
    assert document["loss"] is None and document["curve"] is None and document["trivial_loss"] > 0
    assert document["random_attention"]["loss"] is None


def test_the_document_has_one_entry_for_each_layer(study: AttentionStudy) -> None:
    document = study.to_dict()
    assert document["n"] == len(study.pairs) and [layer["layer"] for layer in document["layers"]] == [1, 2]
    for layer in document["layers"]:
        assert {"algorithm", "k", "silhouette", "davies_bouldin", "calinski_harabasz", "controls"} <= set(layer)
        assert set(layer["tests"]) == {"similarity", "length"}
        assert {"kruskal_p", "epsilon2", "pairs_significant"} <= set(layer["tests"]["similarity"])
        names = [layer["algorithm"], *(other["algorithm"] for other in layer["alternatives"])]
        assert sorted(names) == ["agglomerative", "kmeans"]
        expected = {"random_attention", "given_length", "permutation", "points", "single_gaussian"}
        assert set(layer["controls"]) == expected


@pytest.mark.slow
def test_long_pairs_are_left_out_and_told(
    tiny: Encoder, pairs: list[ScoredPair], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    long = replace(pairs[0], left="a cat " * 20)
    study = attention_study(tiny, [long, *pairs], tmp_path, replace(QUICK, control_pairs=0, compare=()))
    assert study.metadata["left_out"] >= 1 and study.variables.length.max() <= 24
    assert "left out" in caplog.text and "no or more than 24 tokens" in caplog.text


def test_too_few_pairs_are_refused(tiny: Encoder, pairs: list[ScoredPair], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="raise --max-tokens"):
        attention_study(tiny, pairs[:3], tmp_path / "few", QUICK)
    assert not (tmp_path / "few").exists()


def test_two_runs_do_not_write_to_one_folder(tiny: Encoder, pairs: list[ScoredPair], tmp_path: Path) -> None:
    from likewise.storage import only_writer

    with only_writer(tmp_path / ".lock", tmp_path), pytest.raises(UsageError, match="another process is writing"):
        attention_study(tiny, pairs, tmp_path, QUICK)


@pytest.mark.slow
def test_more_epochs_go_on_with_what_is_learnt(tiny: Encoder, pairs: list[ScoredPair], tmp_path: Path) -> None:
    def studied(folder: Path, epochs: int) -> tuple[AttentionStudy, list[str]]:
        how = replace(QUICK, autoencoder=replace(QUICK.autoencoder, epochs=epochs), control_pairs=0, compare=())
        heard: list[str] = []
        return attention_study(tiny, pairs, folder, how, None, lambda done, total, note: heard.append(note)), heard

    whole, _ = studied(tmp_path / "whole", 4)
    studied(tmp_path / "steps", 2)
    more, heard = studied(tmp_path / "steps", 4)
    assert same(more, whole) and not any("epoch 1" in note for note in heard)
    less, _ = studied(tmp_path / "steps", 1)
    assert same(less, studied(tmp_path / "fresh", 1)[0])


@pytest.mark.slow
def test_another_tokenizer_makes_other_maps(
    tiny: Encoder, pairs: list[ScoredPair], study: AttentionStudy, tmp_path: Path
) -> None:
    short = replace(tiny, tokenizer=Tokenizer(tiny.tokenizer.vocabulary, 12))
    quick = replace(QUICK, control_pairs=0, compare=())
    attention_study(tiny, pairs, tmp_path, quick)
    found = attention_study(short, pairs, tmp_path, quick)
    assert found.metadata["truncated"] > 0 and found.variables.length.max() == 12
    assert same(found, attention_study(short, pairs, tmp_path / "fresh", quick))


@pytest.mark.slow
def test_random_attention_without_clusters_is_left_out(
    tiny: Encoder, pairs: list[ScoredPair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    real = clusterings_of

    def none_of_few(points: Any, *others: Any) -> Any:
        if len(points) == QUICK.control_pairs:
            raise DataError("dbscan found no 2 to 4 clusters")
        return real(points, *others)

    monkeypatch.setattr("likewise.attention.pipeline.clusterings_of", none_of_few)
    study = attention_study(tiny, pairs, tmp_path, QUICK)
    assert study.random_groups == () and "random attention is left out" in caplog.text
    assert study.to_dict()["random_attention"] is None


def test_what_cannot_work_is_refused_at_once(tiny: Encoder, pairs: list[ScoredPair], tmp_path: Path) -> None:
    many = [pairs[0]] * 10_001
    for changes, given, said in (
        ({"permutations": 49, "alpha": 0.01}, pairs, "permutations must be at least 200 for 2 layers"),
        ({"clusters": ClusterSettings(least=30, most=35)}, pairs, "lower --clusters"),
        ({"control_pairs": 0}, many, "take 10,000 with --limit"),
    ):
        with pytest.raises((UsageError, DataError), match=said):
            attention_study(tiny, given, tmp_path / "new", replace(QUICK, **changes))  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"control_pairs": 5}, "control-pairs must be 0 or at least 10"),
        ({"reducer": "tsne"}, "unknown reducer 'tsne'; choose from lstm, pca, umap"),
        ({"compare": ("tsne",)}, "unknown compare 'tsne'"),
        ({"alpha": 0.0}, "alpha lies between 1e-06 and 1"),
        ({"permutations": 0}, "permutations must be at least 1"),
        ({"control_pairs": -1}, "control-pairs must be at least 0"),
    ],
)
def test_settings_of_a_study_name_the_cure(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        AttentionSettings(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"algorithms": ("birch",)}, "unknown algorithm 'birch'; choose from kmeans, dbscan"),
        ({"algorithms": ()}, "algorithms is empty"),
        ({"least": 1}, "least must be at least 2"),
        ({"least": 5, "most": 4}, "most must be at least 5"),
        ({"linkages": ("median",)}, "unknown linkage 'median'"),
        ({"min_samples": (0,)}, "min-samples takes numbers from 1 on"),
        ({"most_noise": 1.0}, "most-noise is a share"),
    ],
)
def test_settings_of_clusters_name_the_cure(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ClusterSettings(**changes)  # type: ignore[arg-type]
