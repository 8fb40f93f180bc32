"""Post-processing does to a corpus what its name says, and survives a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from likewise.encoder import Encoder
from likewise.encoder.postprocessing import POSTPROCESSORS, PostProcessing, fit_from_moments, fit_postprocessing
from likewise.encoder.similarity import unit
from likewise.errors import DataError, UsageError
from likewise.sample import sample_sentences

SEEDS = [0, 1, 2]


def corpus(seed: int, count: int = 200, width: int = 8) -> np.ndarray:
    """Correlated vectors far from the origin."""
    random = np.random.default_rng(seed)
    mixing = random.normal(size=(width, width))
    return (random.normal(size=(count, width)) @ mixing + 3 * random.normal(size=width)).astype(np.float32)


@pytest.mark.parametrize("seed", SEEDS)
def test_whitening_gives_identity_covariance(seed: int) -> None:
    vectors = corpus(seed)
    white = fit_postprocessing("whitening", vectors)(vectors)
    assert white.dtype == np.float32
    assert np.abs(white.mean(0)).max() < 1e-4
    assert np.abs(np.cov(white, rowvar=False) - np.eye(8)).max() < 1e-4


@pytest.mark.parametrize("seed", SEEDS)
def test_cut_whitening_keeps_the_strongest_directions(seed: int) -> None:
    vectors = corpus(seed)
    cut = fit_postprocessing("whitening", vectors, 3)
    white = cut(vectors)
    assert white.shape == (200, 3)
    assert np.abs(np.cov(white, rowvar=False) - np.eye(3)).max() < 1e-4
    assert np.allclose(white, fit_postprocessing("whitening", vectors)(vectors)[:, :3], atol=1e-5)
    # The variance along each kept direction, strongest first, is that of the principal components.
    strongest = np.linalg.svd(vectors - vectors.mean(0), compute_uv=False)[:3] ** 2 / 199
    assert np.allclose(1 / np.linalg.norm(cut.matrix, axis=0) ** 2, strongest, rtol=1e-4)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_all_but_the_top_removes_exactly_the_top_directions(seed: int, count: int) -> None:
    vectors = corpus(seed)
    centred = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    variances, directions = np.linalg.eigh(centred.T @ centred)
    top, rest = np.split(directions[:, np.argsort(-variances)], [count], axis=1)
    result = fit_postprocessing("all-but-the-top", vectors, count)(vectors)
    assert np.allclose(result @ rest, centred @ rest, atol=1e-4), "the other directions stay"
    assert count == 0 or np.abs(result @ top).max() < 1e-4


def test_all_but_the_top_removes_a_hundredth_by_default() -> None:
    # The trace of a projection is the number of directions that it keeps.
    assert np.trace(fit_postprocessing("all-but-the-top", corpus(3, count=30, width=250)).matrix) == pytest.approx(248)
    assert np.trace(fit_postprocessing("all-but-the-top", corpus(4)).matrix) == pytest.approx(7)


@pytest.mark.parametrize("seed", SEEDS)
def test_standardisation(seed: int) -> None:
    vectors = corpus(seed)
    vectors[:, 2] = 0.1
    result = fit_postprocessing("standardisation", vectors)(vectors)
    deviations = np.array([1, 1, 0, 1, 1, 1, 1, 1])
    assert np.abs(result.mean(0)).max() < 1e-5
    assert np.abs(result.std(0) - deviations).max() < 1e-5


@pytest.mark.parametrize("seed", SEEDS)
def test_mean_removal_only_shifts(seed: int) -> None:
    vectors = corpus(seed)
    fitted = fit_postprocessing("mean-removal", vectors)
    assert np.allclose(fitted(vectors), vectors - vectors.mean(0), atol=1e-5)
    assert np.array_equal(fitted.matrix, np.eye(8))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", POSTPROCESSORS)
def test_moments_are_all_that_a_fit_needs(kind: str, seed: int) -> None:
    """As running sums would give them: no vector is seen twice."""
    vectors = corpus(seed).astype(np.float64)
    mean = sum(vectors) / len(vectors)
    squares = sum(np.outer(vector, vector) for vector in vectors)
    spread = squares - len(vectors) * np.outer(mean, mean)
    covariance = spread / (len(vectors) - (kind == "whitening"))
    fitted, expected = fit_from_moments(kind, mean, covariance), fit_postprocessing(kind, vectors)
    assert fitted.kind == kind
    assert np.allclose(fitted.center, expected.center, atol=1e-10)
    # A direction may point either way: the products of vectors are what counts.
    assert np.allclose(fitted.matrix @ fitted.matrix.T, expected.matrix @ expected.matrix.T, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_standardisation_and_whitening_are_those_of_the_books(seed: int) -> None:
    vectors = corpus(seed).astype(np.float64)
    standard, white = (fit_postprocessing(kind, vectors) for kind in ("standardisation", "whitening"))
    assert np.abs(np.diag(standard.matrix) - 1 / vectors.std(0)).max() < 1e-10
    inverse = np.linalg.inv(np.cov(vectors, rowvar=False))
    assert np.abs(white.matrix @ white.matrix.T - inverse).max() < 1e-8 * np.abs(inverse).max()


def test_a_dimension_that_only_rounding_moves_is_constant() -> None:
    covariance = np.diag([4.0, 1e-16])  # as sums of squares of vectors at 3 may leave it
    fitted = fit_from_moments("standardisation", np.array([0.0, 3.0]), covariance)
    assert np.array_equal(fitted.matrix, np.diag([0.5, 1.0]))


def test_moments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(
        UsageError, match=r"a mean \(d,\) and a covariance \(d, d\) are needed, got \(3,\) and \(2, 2\)"
    ):
        fit_from_moments("whitening", np.zeros(3), np.eye(2))


@pytest.mark.parametrize("kind", POSTPROCESSORS)
@pytest.mark.parametrize(("count", "width"), [(2, 8), (5, 64), (3, 1)])
def test_small_corpora_give_finite_numbers(kind: str, count: int, width: int) -> None:
    vectors = corpus(5, count, width)
    dim = 0 if kind == "all-but-the-top" and width == 1 else None
    fitted = fit_postprocessing(kind, vectors, dim)
    others = corpus(6, 20, width)
    assert np.isfinite(fitted(vectors)).all() and np.isfinite(fitted(others)).all()
    if kind == "whitening":
        assert np.abs(fitted(others)).max() < 1e4, "directions outside the corpus must not be blown up"


@pytest.mark.parametrize("kind", POSTPROCESSORS)
def test_a_corpus_of_one_text_repeated_gives_zeros(kind: str) -> None:
    vectors = np.repeat(corpus(7, 1), 10, axis=0)
    assert np.abs(fit_postprocessing(kind, vectors)(vectors)).max() < 1e-6


# Files


@pytest.mark.parametrize("kind", POSTPROCESSORS)
def test_round_trip(kind: str, tmp_path: Path) -> None:
    vectors = corpus(8)
    fitted = fit_postprocessing(kind, vectors)
    fitted.save(tmp_path / "post.safetensors")
    loaded = PostProcessing.load(tmp_path / "post.safetensors")
    assert loaded.kind == kind and loaded.name == fitted.name
    assert np.array_equal(loaded(vectors), fitted(vectors))


def test_the_name_tells_fits_apart() -> None:
    first, second = (fit_postprocessing("whitening", corpus(seed)) for seed in (1, 2))
    assert first.name.startswith("whitening-") and first.name != second.name


@pytest.mark.parametrize("bad", ["absent", "text", "folder", "other tensors", "no kind"])
def test_a_bad_file_names_the_cure(bad: str, tmp_path: Path) -> None:
    path = tmp_path / "post.safetensors"
    if bad == "text":
        path.write_text("these are no tensors")
    elif bad == "folder":
        path.mkdir()
    elif bad == "other tensors":
        save_file({"weight": np.ones(2)}, path, metadata={"kind": "whitening"})
    elif bad == "no kind":
        save_file({"shift": np.ones(2), "matrix": np.eye(2)}, path)
    with pytest.raises(DataError, match=r"is not a post-processing file .* make one with: likewise fit"):
        PostProcessing.load(path)


# What is refused


def test_other_dimensions_are_refused() -> None:
    message = "post-processing was fitted on 8 dimensions, these vectors have 5; fit it again"
    with pytest.raises(DataError, match=message):
        fit_postprocessing("whitening", corpus(9))(corpus(9, width=5))


@pytest.mark.parametrize(
    ("kind", "dim", "message"),
    [
        ("whitening", 0, "whitening can keep 1 to 8 dimensions, not 0"),
        ("whitening", 9, "whitening can keep 1 to 8 dimensions, not 9"),
        ("all-but-the-top", 8, "all-but-the-top can remove 0 to 7 directions, not 8"),
        ("all-but-the-top", -1, "all-but-the-top can remove 0 to 7 directions, not -1"),
        ("standardisation", 3, "standardisation keeps every dimension; use whitening to cut dimensions"),
        ("mean-removal", 3, "mean-removal keeps every dimension; use whitening to cut dimensions"),
        ("pca", None, "unknown post-processing 'pca'; choose from all-but-the-top, mean-removal, standardisation,"),
    ],
)
def test_wrong_settings_are_refused(kind: str, dim: int | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fit_postprocessing(kind, corpus(10), dim)


def test_one_text_is_too_few() -> None:
    with pytest.raises(DataError, match="needs at least 2 texts to fit on, got 1"):
        fit_postprocessing("whitening", corpus(11, 1))


# In an encoder


@pytest.mark.parametrize(("kind", "dim"), [("whitening", 5), ("all-but-the-top", 2), ("standardisation", None)])
def test_an_encoder_applies_it_last(kind: str, dim: int | None, tiny: Encoder) -> None:
    texts = sample_sentences()[:40]
    plain = tiny.encode(texts)
    fitted = fit_postprocessing(kind, plain, dim)
    encoder = tiny.with_postprocessing(fitted)
    assert np.allclose(encoder.encode(texts), fitted(plain), atol=1e-5)
    assert np.allclose(encoder.encode(texts, normalize=True), unit(fitted(plain)), atol=1e-5)
    assert encoder.dimension == (5 if kind == "whitening" else 16)
    assert np.array_equal(encoder.with_postprocessing(None).encode(texts), plain)


def test_an_encoder_read_in_another_width_is_refused(tiny: Encoder) -> None:
    fitted = fit_postprocessing("whitening", tiny.encode(sample_sentences()[:40]))
    with pytest.raises(DataError, match="fitted on 16 dimensions, these vectors have 4"):
        tiny.with_postprocessing(fitted).encode("a", truncate_dim=4)
