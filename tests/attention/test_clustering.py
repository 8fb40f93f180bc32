from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.cluster import DBSCAN, AgglomerativeClustering, SpectralClustering
from sklearn.metrics import adjusted_rand_score, calinski_harabasz_score, davies_bouldin_score, silhouette_score

from likewise.attention.clustering import (
    NOISE,
    PARTITIONS,
    Candidate,
    Clustering,
    ClusterScores,
    LayerClusters,
    Space,
    agreement,
    best_first,
    cluster_scores,
    clusterings_of,
    fewest_points,
    gaussian_silhouettes,
    objection,
    rank_sums,
    variants_of,
    with_noise_assigned,
)
from likewise.attention.settings import ALGORITHMS, ClusterSettings
from likewise.errors import Cancelled, DataError

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
QUICK = ClusterSettings(most=5)


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    """Nothing that scikit-learn has to say reaches the user."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def planted(k: int, n: int, seed: int, width: int = 2) -> tuple[Array, Labels]:
    """Round clusters of unequal sizes and spreads, at least seven of their mean spreads apart."""
    rng = np.random.default_rng(seed)
    sizes = np.maximum(15, rng.dirichlet(np.full(k, 4.0)) * n).astype(int)
    spreads = rng.uniform(0.5, 1.5, k)
    side, places = 8.0, [np.zeros(width)]
    while len(places) < k:
        place = rng.uniform(0, side, width)
        gaps = [3.5 * (spreads[len(places)] + spreads[one]) for one in range(len(places))]
        if all(np.linalg.norm(place - other) > gap for other, gap in zip(places, gaps, strict=True)):
            places.append(place)
        side *= 1.02
    labels = rng.permutation(np.repeat(np.arange(k), sizes))
    return np.array(places)[labels] + rng.normal(size=(len(labels), width)) * spreads[labels, None], labels


def strips(seed: int) -> tuple[Array, Labels]:
    """A long heavy cluster beside a small one, which k-means cuts in the wrong place."""
    rng = np.random.default_rng(seed)
    long, small = rng.normal(size=(400, 2)) * [4, 0.6], rng.normal(size=(60, 2)) * [0.6, 0.6] + [0, 8]
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    return np.concatenate([long, small]) @ turn, np.repeat([0, 1], [400, 60])


def bests(found: LayerClusters) -> list[Clustering]:
    return [found.chosen, *found.alternatives]


def made(labels: list[int], scores: ClusterScores, algorithm: str = "kmeans") -> Candidate:
    return Candidate(Clustering(algorithm, np.array(labels), {}, scores), scores)


def plain_labels(algorithm: str, points: Array, k: int, **variant: object) -> Labels:
    return next(iter(PARTITIONS[algorithm](Space(points, 0), variant, [k])))


@pytest.mark.slow
@pytest.mark.parametrize(("k", "seed"), [(2, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 5)])
def test_planted_clusters_are_found(k: int, seed: int) -> None:
    points, truth = planted(k, 200 + 30 * seed, seed)
    found = clusterings_of(points, ClusterSettings(most=9), seed=seed)
    kept = found.chosen.labels != NOISE
    assert found.chosen.k == k
    assert found.chosen.noise <= 0.1
    assert adjusted_rand_score(truth[kept], found.chosen.labels[kept]) > 0.95
    assert {one.algorithm for one in bests(found)} == set(ALGORITHMS)


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3, 4, 5, 6])
def test_planted_clusters_are_found_for_many_seeds(k: int) -> None:
    for seed in (10, 11):
        points, truth = planted(k, 200 + 50 * (seed % 9), seed, width=2 + seed % 2)
        found = clusterings_of(points, seed=seed).chosen
        kept = found.labels != NOISE
        assert found.k == k
        assert adjusted_rand_score(truth[kept], found.labels[kept]) > 0.95


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_mixture_finds_long_clusters_that_k_means_cuts(seed: int) -> None:
    points, truth = strips(seed)
    settings = ClusterSettings(algorithms=("kmeans", "gaussian-mixture"), most=2)
    found = clusterings_of(points, settings)
    of = {one.algorithm: one for one in bests(found)}
    assert adjusted_rand_score(truth, of["kmeans"].labels) < 0.5
    assert adjusted_rand_score(truth, plain_labels("gaussian-mixture", points, 2, covariance="full")) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_scores_are_scikit_learns(offset: float) -> None:
    points, _ = planted(3, 150, 7)
    points = points + offset
    found = clusterings_of(points, ClusterSettings(most=6))
    for one in bests(found):
        kept = one.labels != NOISE
        rows, labels = points[kept], one.labels[kept]
        assert one.scores.silhouette == pytest.approx(silhouette_score(rows, labels), abs=1e-9)
        assert one.scores.davies_bouldin == pytest.approx(davies_bouldin_score(rows, labels), abs=1e-9)
        assert one.scores.calinski_harabasz == pytest.approx(calinski_harabasz_score(rows, labels), rel=1e-9)
        assert found.by_k[one.algorithm][one.k] == one.scores


def test_noise_has_no_part_in_the_scores() -> None:
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(60, 2)), rng.integers(-1, 3, 60)
    kept = labels != NOISE
    assert cluster_scores(points, labels) == cluster_scores(points[kept], labels[kept])
    assert cluster_scores(points, labels).silhouette == silhouette_score(points[kept], labels[kept])


@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 1, 2, 3], [-1, -1, -1, -1], [0, 1, -1, -1]])
def test_undefined_scores_are_nan(labels: list[int]) -> None:
    scores = cluster_scores([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [5.0, 5.0]], labels)
    assert all(math.isnan(one) for one in vars(scores).values())


@pytest.mark.parametrize(
    ("linkage", "distance"),
    [("ward", "euclidean"), *product(["complete", "average", "single"], ["euclidean", "manhattan", "cosine"])],
)
def test_a_tree_is_cut_as_scikit_learn_cuts_it(linkage: str, distance: str) -> None:
    points = np.random.default_rng(3).normal(size=(120, 2)) + 4
    labels = PARTITIONS["agglomerative"](Space(points, 0), {"linkage": linkage, "distance": distance}, range(2, 16))
    for k, mine in zip(range(2, 16), labels, strict=True):
        theirs = AgglomerativeClustering(k, metric=distance, linkage=linkage).fit_predict(points)
        assert len(np.unique(mine)) == k
        assert adjusted_rand_score(mine, theirs) == 1


def test_equal_heights_are_cut_into_exactly_k() -> None:
    grid = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), axis=-1).reshape(-1, 2)
    for linkage in ("ward", "complete", "average", "single"):
        variant = {"linkage": linkage, "distance": "euclidean"}
        found = PARTITIONS["agglomerative"](Space(grid, 0), variant, range(2, 36))
        assert [len(np.unique(one)) for one in found] == list(range(2, 36))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_spectral_is_scikit_learns(seed: int) -> None:
    points, truth = planted(4, 240, seed)
    found = PARTITIONS["spectral"](Space(points, seed), {"affinity": "nearest-neighbours"}, range(2, 9))
    labels = dict(zip(range(2, 9), found, strict=True))
    theirs = SpectralClustering(4, affinity="nearest_neighbors", n_neighbors=10, eigen_solver="arpack", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert adjusted_rand_score(labels[4], theirs.fit_predict(points)) == pytest.approx(1, abs=0.02)
    scale = np.median([np.linalg.norm(a - b) for a, b in combinations(points, 2)])
    theirs = SpectralClustering(4, gamma=1 / (2 * scale**2), random_state=0)
    mine = plain_labels("spectral", points, 4, affinity="rbf")
    assert adjusted_rand_score(mine, theirs.fit_predict(points)) == pytest.approx(1, abs=0.02)
    assert adjusted_rand_score(mine, truth) > 0.95


def test_spectral_beats_k_means_on_rings() -> None:
    rng = np.random.default_rng(0)
    angles, truth = rng.uniform(0, 2 * np.pi, 400), np.repeat([0, 1], 200)
    points = np.stack([np.cos(angles), np.sin(angles)], 1) * np.where(truth, 5, 1)[:, None]
    points += rng.normal(size=points.shape) * 0.1
    assert adjusted_rand_score(truth, plain_labels("spectral", points, 2, affinity="nearest-neighbours")) == 1
    assert adjusted_rand_score(truth, plain_labels("kmeans", points, 2)) < 0.5


def test_noise_stays_noise() -> None:
    rng = np.random.default_rng(1)
    blobs = [rng.normal(size=(size, 2)) * 0.3 + place for size, place in ((80, (0, 0)), (60, (9, 0)))]
    strays = np.array([[4.5, 30.0], [4.5, -30.0], [40.0, 1.0], [-30.0, 2.0], [-40.0, -40.0]])
    points = np.concatenate([*blobs, strays])
    found = clusterings_of(points, ClusterSettings(algorithms=("dbscan",)))
    assert found.chosen.sizes == [80, 60]
    assert found.chosen.labels[140:].tolist() == [NOISE] * 5
    assert found.chosen.noise == 5 / 145
    settings = found.chosen.settings
    again = DBSCAN(eps=settings["eps"], min_samples=settings["min_samples"], metric=settings["distance"]).fit(points)
    assert adjusted_rand_score(again.labels_, found.chosen.labels) == 1


def test_noise_is_no_way_to_win() -> None:
    points, _ = planted(3, 300, 5)
    found = clusterings_of(points, ClusterSettings(algorithms=("kmeans", "dbscan"), most=6))
    of = {one.algorithm: one for one in bests(found)}
    core = DBSCAN(eps=0.4, min_samples=5).fit_predict(points)
    # Without its fringe a cluster always looks better, which is why the ranks count the fringe.
    assert cluster_scores(points, core).davies_bouldin < of["kmeans"].scores.davies_bouldin
    judged = cluster_scores(points, with_noise_assigned(points, core))
    assert judged.davies_bouldin >= of["kmeans"].scores.davies_bouldin - 1e-12


def test_too_much_noise_is_rejected_with_a_reason() -> None:
    rng = np.random.default_rng(2)
    blobs = [rng.normal(size=(60, 2)) * 0.2 + place for place in ((0, 0), (9, 9))]
    angles = np.linspace(0, 2 * np.pi, 30, endpoint=False)
    points = np.concatenate([*blobs, 1000 * np.stack([np.cos(angles), np.sin(angles)], 1)])
    found = clusterings_of(points, ClusterSettings(algorithms=("kmeans", "dbscan"), min_samples=(10,)))
    assert found.chosen.algorithm == "kmeans"
    assert [one.algorithm for one in found.alternatives] == ["dbscan"]
    share = round(100 * found.alternatives[0].noise)
    assert 20 <= share <= 25
    assert found.rejected == {"dbscan": f"leaves {share} % of the points as noise"}


def test_small_clusters_are_rejected_with_a_reason() -> None:
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(96, 2)), rng.normal(size=(4, 2)) + 50])
    settings = ClusterSettings(algorithms=("kmeans", "agglomerative"), linkages=("single",), smallest=0.1, most=2)
    found = clusterings_of(points, settings)
    assert found.rejected == dict.fromkeys(settings.algorithms, "its smallest cluster holds 4 of 10 needed points")
    assert found.chosen.sizes == [96, 4]


def test_an_algorithm_that_finds_nothing_is_rejected() -> None:
    points = np.random.default_rng(0).normal(size=(12, 2))
    settings = ClusterSettings(algorithms=("kmeans", "dbscan"), min_samples=(12,))
    found = clusterings_of(points, settings)
    assert found.rejected["dbscan"] == "found no 2 to 11 clusters"
    assert found.alternatives == ()
    assert found.by_k["dbscan"] == {}
    with pytest.raises(DataError, match="dbscan found no 2 to 11 clusters; add kmeans"):
        clusterings_of(points, ClusterSettings(algorithms=("dbscan",), min_samples=(12,)))


@pytest.mark.parametrize("n", [3, 4, 5, 6, 9])
def test_few_points(n: int) -> None:
    points = np.random.default_rng(n).normal(size=(n, 2))
    found = clusterings_of(points)
    assert 2 <= found.chosen.k < n
    # Fewer than six points make no two clusters of three, which every clustering that may be chosen has.
    assert (found.chosen.algorithm in found.rejected) == (n < 6)


@pytest.mark.parametrize(
    "points", [np.ones((20, 2)), np.zeros((1, 2)), np.eye(2), np.zeros((0, 2)), np.ones(5), np.full((9, 2), np.nan)]
)
def test_points_that_cannot_be_clustered(points: Array) -> None:
    with pytest.raises(DataError) as error:
        clusterings_of(points)
    assert "\n" not in str(error.value)


def test_points_that_stand_on_each_other() -> None:
    points = np.repeat([[0.0, 0.0], [4.0, 0.0], [0.0, 9.0]], [30, 20, 10], axis=0)
    found = clusterings_of(points, ClusterSettings(most=5))
    assert found.chosen.sizes == [30, 20, 10]
    assert found.chosen.scores.silhouette == 1
    rng = np.random.default_rng(0)
    twice = np.tile(rng.normal(size=(30, 2)), (2, 1)) + 1000
    assert clusterings_of(twice, ClusterSettings(most=5)).chosen.k >= 2


@pytest.mark.slow
def test_the_same_seed_finds_the_same() -> None:
    points = np.random.default_rng(4).normal(size=(90, 3))
    settings = ClusterSettings(most=5)
    first, second = (clusterings_of(points, settings, seed=3) for _ in range(2))
    for one, other in zip(bests(first), bests(second), strict=True):
        assert one.settings == other.settings
        assert one.scores == other.scores
        np.testing.assert_array_equal(one.labels, other.labels)


@pytest.mark.slow
def test_clusters_are_numbered_from_the_largest_on() -> None:
    points, _ = planted(5, 300, 11)
    for one in bests(clusterings_of(points, ClusterSettings(most=6))):
        assert one.sizes == sorted(one.sizes, reverse=True)


def test_settings_name_every_hyper_parameter() -> None:
    points, _ = planted(3, 90, 2)
    settings = ClusterSettings(distances=("manhattan", "cosine"))
    more = {"dbscan": {"eps", "min_samples"}, "spectral": {"affinity"}}
    for name in ALGORITHMS:
        for variant in variants_of(name, Space(points, 0), settings):
            assert variant.keys() == {"distance", "linkage", "covariance"} | more.get(name, set())
            assert variant["linkage"] != "ward" or variant["distance"] == "euclidean"
    assert len(variants_of("agglomerative", Space(points, 0), settings)) == 7


def test_a_scale_changes_no_cluster() -> None:
    points, _ = planted(3, 120, 6)
    large, small = (clusterings_of(points * scale, ClusterSettings(most=5)) for scale in (1.0, 1e-3))
    for one, other in zip(bests(large), bests(small), strict=True):
        np.testing.assert_array_equal(one.labels, other.labels)


def test_agreement_is_over_what_both_cluster() -> None:
    scores = ClusterScores(0.0, 0.0, 0.0)
    labels = ([0, 0, 1, 1, -1, -1], [1, 1, 0, -1, 0, 0], [-1, -1, -1, -1, 0, 1])
    a, b, c = (Clustering("dbscan", np.array(one), {}, scores) for one in labels)
    assert agreement(a, b) == adjusted_rand_score([0, 0, 1], [1, 1, 0]) == 1
    assert math.isnan(agreement(a, c))
    points, _ = planted(3, 90, 2)
    found = clusterings_of(points, ClusterSettings(most=4))
    of = {one.algorithm: one for one in bests(found)}
    assert list(found.agreement) == list(combinations(ALGORITHMS, 2))
    assert all(value == agreement(of[a], of[b]) for (a, b), value in found.agreement.items())


def test_rank_sums_by_hand() -> None:
    table = [(0.7, 0.4, 90.0), (0.7, 0.5, 100.0), (0.2, 0.3, 50.0), (0.6, 0.5, 50.0)]
    sums = rank_sums([ClusterScores(*row) for row in table])
    #     silhouette 1.5 1.5 4 3, Davies-Bouldin 2 3.5 1 3.5, Calinski-Harabasz 2 1 3.5 3.5
    assert sums.tolist() == [5.5, 6.0, 8.5, 10.0]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rank_sums_equal_their_slow_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(1, 6, size=(12, 3)).astype(float)
    better = [lambda a, b: a > b, lambda a, b: a < b, lambda a, b: a > b]
    slow = []
    for row in table:
        total = 0.0
        for column, wins in enumerate(better):
            above = sum(wins(other[column], row[column]) for other in table)
            equal = sum(other[column] == row[column] for other in table)
            total += above + (equal + 1) / 2
        slow.append(total)
    assert rank_sums([ClusterScores(*row) for row in table]).tolist() == slow


def test_clusters_without_extent_have_the_best_ratio() -> None:
    # Scikit-learn's Calinski-Harabasz is 1 there.
    assert rank_sums([ClusterScores(0.9, 0.1, 80.0), ClusterScores(1.0, 0.0, 1.0)]).tolist() == [6, 3]


def test_ties_go_to_the_silhouette_then_to_fewer_clusters_then_to_less_noise() -> None:
    two, three = [0, 0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1, 2, 2, 2]
    settings = ClusterSettings(most_noise=0.5)
    low, high = made(two, ClusterScores(0.5, 0.2, 9.0)), made(three, ClusterScores(0.6, 0.2, 8.0))
    assert best_first([low, high], settings)[0] is high
    same = ClusterScores(0.5, 0.2, 9.0)
    assert best_first([made(three, same), fewer := made(two, same)], settings)[0] is fewer
    noisy, clean = made([*two[:-1], 1, -1], same), made([*two, 1], same)
    assert best_first([noisy, clean], settings)[0] is clean


def test_only_what_may_be_chosen_is_ranked() -> None:
    settings = ClusterSettings(most_noise=0.1)
    best = ClusterScores(0.99, 0.01, 999.0)
    noisy, tiny = made([0, 0, 0, 1, 1, 1, -1, -1], best), made([0, 0, 0, 0, 0, 0, 1, 1], best)
    plain = made([0, 0, 0, 0, 1, 1, 1, 1], ClusterScores(0.1, 3.0, 2.0))
    assert best_first([noisy, tiny, plain], settings)[0] is plain
    # Where none may be chosen, noise beyond the limit counts first.
    assert best_first([noisy, tiny], settings)[0] is tiny
    assert objection(plain.clustering, settings) is None
    assert objection(noisy.clustering, settings) == "leaves 25 % of the points as noise"
    assert objection(tiny.clustering, settings) == "its smallest cluster holds 2 of 3 needed points"
    assert fewest_points(301, ClusterSettings(smallest=0.01)) == 4


def test_noise_goes_to_the_nearest_point_for_the_ranks() -> None:
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(50, 3)), rng.integers(-1, 3, 50)
    given = with_noise_assigned(points, labels)
    clustered = np.flatnonzero(labels != NOISE)
    for place, label in enumerate(labels):
        nearest = min(clustered, key=lambda other: float(np.linalg.norm(points[place] - points[other])))
        assert given[place] == (labels[nearest] if label == NOISE else label)
    assert with_noise_assigned(points[:2], [-1, -1]).tolist() == [-1, -1]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_blob_has_lower_silhouettes_than_clusters(algorithm: str) -> None:
    points, _ = planted(3, 150, 8)
    found = clusterings_of(points, replace(QUICK, algorithms=(algorithm,))).chosen
    blobs = gaussian_silhouettes(points, found, QUICK, 4, seed=1)
    assert blobs.shape == (4,)
    assert not (blobs >= found.scores.silhouette).any()
    np.testing.assert_array_equal(blobs, gaussian_silhouettes(points, found, QUICK, 4, seed=1))


@pytest.mark.slow
def test_a_cloud_stands_out_from_clouds_as_rarely_as_by_chance() -> None:
    """The best of many K is held against the best of many K; held against one K a third of all clouds would."""
    quick, above = ClusterSettings(algorithms=("kmeans",), most=6), 0
    for seed in range(30):
        points = np.random.default_rng(seed).normal(size=(80, 2))
        found = clusterings_of(points, quick, seed).chosen
        above += found.scores.silhouette > np.quantile(gaussian_silhouettes(points, found, quick, 19, seed + 100), 0.95)
    # Of nineteen draws the quantile lies just below the largest, which one in twenty clouds passes.
    assert above <= binom.ppf(0.999, 30, 0.08)


def test_progress_counts_to_its_total_and_can_stop_the_work() -> None:
    points, _ = planted(2, 60, 0)
    seen: list[tuple[int, int | None]] = []
    clusterings_of(points, ClusterSettings(most=4), progress=lambda done, total, note: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]

    def stop(done: int, total: int | None, note: str) -> None:
        raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        clusterings_of(points, progress=stop)
    with pytest.raises(Cancelled):
        gaussian_silhouettes(points, clusterings_of(points, ClusterSettings(most=3)).chosen, progress=stop)


@pytest.mark.slow
def test_algorithms_that_agree_do_not_lose_to_one_that_does_not() -> None:
    # Two clusters stand near each other: two scores barely prefer K = 2, the third clearly K = 3.
    points, _ = planted(3, 320, 2)
    found = clusterings_of(points, ClusterSettings(most=10), seed=2)
    two, three = found.by_k["dbscan"][2], found.by_k["dbscan"][3]
    assert two.silhouette > three.silhouette
    assert two.davies_bouldin < three.davies_bouldin
    assert {one.k for one in bests(found)} == {3}
