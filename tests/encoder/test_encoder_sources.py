"""Every function that takes an encoder takes a name, a folder, an Encoder or a SentenceTransformer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.data import ScoredPair
from likewise.encoder import Encoder
from likewise.evaluation.sts import evaluate_sts
from likewise.explain import attribute, compare, contrast, explain, explain_many

LEFT, RIGHT = "the cat sat", "a dog ran"
PAIRS = [ScoredPair(LEFT, RIGHT, "1", 1.0), ScoredPair(LEFT, LEFT, "2", 5.0), ScoredPair(RIGHT, "red", "3", 2.0)]
CALLS: dict[str, Any] = {
    "explain": lambda source: explain(source, LEFT, RIGHT).relevance,
    "explain by name": lambda source: explain(encoder=source, left=LEFT, right=RIGHT).relevance,
    "explain_many": lambda source: [one.similarity for one in explain_many(source, [(LEFT, RIGHT)])],
    "attribute": lambda source: attribute(source, LEFT, RIGHT).to_dict()["texts"][0]["shares"],
    "contrast": lambda source: contrast(source, LEFT, RIGHT, "red").difference,
    "compare": lambda source: compare(source, source, LEFT, RIGHT).first.relevance,
    "evaluate_sts": lambda source: evaluate_sts(source, PAIRS).predicted,
}


@pytest.mark.parametrize("name", CALLS)
def test_a_folder_gives_what_its_encoder_gives(tiny: Encoder, tiny_folder: Path, name: str) -> None:
    call = CALLS[name]
    assert np.allclose(call(str(tiny_folder)), call(tiny))


def test_a_sentence_transformer_is_taken_as_it_is(tiny: Encoder, tiny_folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(tiny_folder), device="cpu")
    assert np.allclose(explain(model, LEFT, RIGHT).relevance, explain(tiny, LEFT, RIGHT).relevance, atol=1e-6)
