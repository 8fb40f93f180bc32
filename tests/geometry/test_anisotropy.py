"""The expected cosine and its dimensions against loops over all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.errors import DataError
from likewise.geometry.anisotropy import dimension_contributions, expected_cosine, pair_sums, unit_rows


def plain_contributions(vectors: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The mean over all pairs of different groups of u_d v_d / (|u| |v|)."""
    products = []
    for u, of_u in zip(vectors, groups, strict=True):
        for v, of_v in zip(vectors, groups, strict=True):
            if of_u != of_v:
                lengths = np.linalg.norm(u) * np.linalg.norm(v)
                products.append(u * v / lengths if lengths > 0 else np.zeros_like(u))
    return np.mean(products, axis=0)


def cloud(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points off the origin, one of them zero, of sentences in no order."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(40, 6)) + rng.normal(size=6)
    vectors[7] = 0
    return vectors, rng.integers(-3, 5, 40)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_expected_cosine_is_the_mean_over_pairs(seed: int) -> None:
    vectors, groups = cloud(seed)
    assert expected_cosine(vectors, groups) == pytest.approx(plain_contributions(vectors, groups).sum(), abs=1e-10)
    alone = plain_contributions(vectors, np.arange(40)).sum()
    assert expected_cosine(vectors) == pytest.approx(alone, abs=1e-10)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_contributions_of_running_sums_over_layers(seed: int) -> None:
    clouds = [cloud(seed + shift) for shift in range(3)]
    layers, groups = np.stack([vectors for vectors, _ in clouds]), np.sort(clouds[0][1])
    whole = dimension_contributions(*pair_sums(layers, groups))
    expected = [plain_contributions(layer, groups) for layer in layers]
    np.testing.assert_allclose(whole, expected, atol=1e-10)
    streamed = [pair_sums(layers[:, groups == group], groups[groups == group]) for group in np.unique(groups)]
    total, within = sum(part[0] for part in streamed), sum(part[1] for part in streamed)
    pairs = len(groups) ** 2 - sum(int((groups == group).sum()) ** 2 for group in np.unique(groups))
    np.testing.assert_allclose(dimension_contributions(total, within, pairs), expected, atol=1e-10)


def test_order_and_names_of_groups_do_not_matter() -> None:
    vectors, groups = cloud(0)
    order = np.random.default_rng(1).permutation(40)
    names = np.array([f"sentence {group}" for group in groups])
    assert expected_cosine(vectors[order], names[order]) == pytest.approx(expected_cosine(vectors, groups), abs=1e-12)


def test_float32_is_computed_in_float64() -> None:
    vectors, groups = cloud(0)
    single = vectors.astype(np.float32)
    assert expected_cosine(single, groups) == expected_cosine(single.astype(np.float64), groups)


def test_one_direction_and_zeros() -> None:
    assert expected_cosine([[1.0, 1.0], [2.0, 2.0], [5.0, 5.0]]) == pytest.approx(1.0)
    assert expected_cosine(np.zeros((3, 2))) == 0.0
    assert expected_cosine([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("vectors", "groups"),
    [(np.ones((3, 2)), [4, 4, 4]), (np.ones((1, 2)), None), (np.zeros((0, 2)), None)],
    ids=["one group", "one row", "no row"],
)
def test_nan_without_two_groups(vectors: np.ndarray, groups: list[int] | None) -> None:
    assert np.isnan(expected_cosine(vectors, groups))


def test_shapes_are_checked() -> None:
    with pytest.raises(DataError, match="one group each"):
        expected_cosine(np.ones((3, 2)), [0, 1])
    with pytest.raises(DataError, match=r"\(n, D\)"):
        expected_cosine(np.ones((2, 3, 2)))


def test_unit_rows_leave_their_argument() -> None:
    vectors = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(np.linalg.norm(unit_rows(vectors), axis=1), [1.0, 0.0])
    assert vectors[0].tolist() == [3.0, 4.0]
