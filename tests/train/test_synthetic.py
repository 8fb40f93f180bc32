"""Nouns: true interactions, how methods are compared with them, and a model that counts."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import SHARED
from likewise.data import Pair, read_pairs
from likewise.encoder import Encoder
from likewise.errors import DataError
from likewise.explain import explain
from likewise.grammar import Grammar, ParsedText, Word
from likewise.train.synthetic import matrix_cosine, synthetic_benchmark, true_interactions


def words(text: str, nouns: set[str]) -> ParsedText:
    """Words between blanks; those of ``nouns`` are nouns."""
    made, start = [], 0
    for each in text.split():
        start = text.index(each, start)
        made.append(Word(each, start, start + len(each), "NOUN" if each in nouns else "X", "dep", 0, each))
        start += len(each)
    return ParsedText(text, tuple(made))


def test_the_truth_is_one_where_both_tokens_are_the_same_noun(minilm: Encoder) -> None:
    # zygodactyl is several tokens, each of which is the noun.
    left, right = "the zygodactyl cat sat", "a cat and a zygodactyl"
    found = explain(minilm, left, right)
    truth = true_interactions(found, words(left, {"zygodactyl", "cat"}), words(right, {"zygodactyl", "cat"}))
    labels = found.left.labels, found.right.labels
    pieces = [label for label in labels[0] if label not in ("[CLS]", "the", "cat", "sat", "[SEP]")]
    assert len(pieces) > 1 and truth.sum() == len(pieces) ** 2 + 1
    assert truth[labels[0].index("cat"), labels[1].index("cat")] == 1
    assert truth[0].sum() == truth[-1].sum() == truth[:, 0].sum() == truth[:, -1].sum() == 0


@pytest.mark.parametrize("seed", range(3))
def test_the_cosine_of_matrices_is_that_of_flat_vectors(seed: int) -> None:
    one, other = np.random.default_rng(seed).standard_normal((2, 3, 4))
    pairs = list(zip(one.flatten().tolist(), other.flatten().tolist(), strict=True))
    sizes = [math.sqrt(sum(each**2 for each in matrix.flatten().tolist())) for matrix in (one, other)]
    assert matrix_cosine(one, other) == pytest.approx(sum(a * b for a, b in pairs) / sizes[0] / sizes[1], abs=1e-12)
    assert matrix_cosine(one, np.zeros((3, 4))) == 0


@pytest.mark.slow
@pytest.mark.data
def test_a_study_counts_and_compares(minilm: Encoder, english: Grammar, tmp_path: Path) -> None:
    pairs = list(read_pairs("sample/pairs"))
    found = synthetic_benchmark(minilm, {"pairs": pairs, "again": pairs[:10]}, english)
    assert found.counting["pairs"].n == 60 and found.counting["again"].n == 10
    assert 0 < found.compared <= 60 and found.agreement["bilrp"].value > found.agreement["random"].value + 0.2
    assert abs(found.agreement["random"].value) < 0.2
    # The prediction is the plain dot product, of vectors that are no unit vectors.
    example = found.examples[0].explanations["bilrp"]
    assert example.similarity > 1.5 and abs(example.gap) < 1e-3
    found.save(tmp_path, {"command": "likewise synthetic"})
    assert (tmp_path / "examples.png").exists()
    assert json.loads((tmp_path / "run.json").read_text())["results"]["compared"]


@pytest.mark.data
def test_pairs_without_a_shared_noun_are_refused(minilm: Encoder, english: Grammar) -> None:
    with pytest.raises(DataError, match="no two texts share a noun"):
        synthetic_benchmark(minilm, {"pairs": [Pair("A cat sat.", "It rains.", "1")] * 2}, english)


@pytest.mark.data
def test_the_target_of_a_source_is_the_number_of_shared_nouns(english: Grammar, tmp_path: Path) -> None:
    from likewise.train.examples import Source, read_examples

    file = tmp_path / "pairs.csv"
    file.write_text("sentence1,sentence2\nThe dog chased a cat.,A cat saw the dog.\nThe dog ran.,A cat sat.\n")
    options: Any = {"target": "shared-nouns", "grammar": str(SHARED / "models" / "en_ud")}
    assert [each.target for each in read_examples(Source(str(file), **options), "count")] == [2.0, 0.0]
