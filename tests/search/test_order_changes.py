"""Margins of two models by query words: exact against the rows of each query, in float64 and by the index's scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from likewise.encoder import Encoder, forward
from likewise.encoder.forward import Batch
from likewise.errors import ModelError
from likewise.explain.texts import contributions
from likewise.search import Index, IndexSettings
from likewise.search.order_changes import OrderChange, StoredText, margin
from tiny_models import spelling_tokenizer, tiny_encoder

QUERY, CAME, WENT = "the cat sat down", "a cat sat on the mat.", "the sea is blue today"


def stored(index: Index, row: int) -> StoredText:
    rows = next(iter(index.store.windows()))
    return rows.ids[row], rows.texts[row], rows.vectors[row]


def change(first: Encoder, second: Encoder, similarity: str = "cosine") -> OrderChange:
    """The order of two texts by two models; it need not have turned."""
    settings = IndexSettings(similarity=similarity)
    indexes = [Index.from_texts(one, [CAME, WENT], settings) for one in (first, second)]
    margins = [margin(one, QUERY, stored(one, 0), stored(one, 1), 0.5 + place) for place, one in enumerate(indexes)]
    return OrderChange(0, 0, 1, ("1", CAME), ("2", WENT), *margins)


def plain_terms(encoder: Encoder, similarity: str) -> dict[str, float]:
    """<c_w, u> for each word of the query, where u is the difference of both texts' vectors: by rows, not columns."""
    [asked] = contributions(encoder, [QUERY], granularity="word", fold_special=True)
    came, went = (np.asarray(one.vector, np.float64) for one in contributions(encoder, [CAME, WENT]))
    if similarity == "cosine":
        came, went = came / np.linalg.norm(came), went / np.linalg.norm(went)
    direction = (came - went) / (asked.length if similarity == "cosine" else 1.0)
    terms = {unit.text: float(row @ direction) for unit, row in zip(asked.units, asked.values, strict=True)}
    specials = [name for unit in asked.units if unit.kind == "special" for name in (unit.text,)]
    renamed = {"(special tokens)" if name in specials else name: value for name, value in terms.items()}
    return renamed | {"(reference)": float(asked.bias @ direction)}


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_terms_are_those_of_the_rows(seed: int, similarity: str) -> None:
    first = tiny_encoder("bert", seed)
    second = tiny_encoder("mpnet", seed + 5, tokenizer=spelling_tokenizer())
    found = change(first, second, similarity)
    assert {name for name, _, _ in found.terms} == {*QUERY.split(), "(special tokens)", "(reference)"}
    for column, encoder in enumerate((first, second), start=1):
        plain = plain_terms(encoder, similarity)
        for term in found.terms:
            assert term[column] == pytest.approx(plain.get(term[0], 0.0), abs=1e-9)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_terms_sum_to_the_margins(seed: int) -> None:
    found = change(tiny_encoder("bert", seed), tiny_encoder("roberta", seed, tokenizer=spelling_tokenizer()))
    for column, one in enumerate((found.first, found.second), start=1):
        total = sum(float(term[column]) for term in found.terms)
        assert total == pytest.approx(one.contrast.difference, abs=1e-9)  # float64: the ledger is exact
        assert total + one.gap == pytest.approx(one.value, abs=1e-12)
        assert abs(one.gap) < 1e-5  # the index stores float32
    assert sum(found.change_of(term) for term in found.terms) == pytest.approx(found.change, abs=1e-5)
    assert found.change == pytest.approx(found.second.value / 1.5 - found.first.value / 0.5, abs=1e-12)
    sizes = [abs(found.change_of(term)) for term in found.terms]
    assert sizes == sorted(sizes, reverse=True)


@dataclass(frozen=True)
class Coarse:
    """A backend that gives torch's states, rounded."""

    kind: str = "coarse"

    def states(self, encoder: Any, ids: list[list[int]], batches: Iterable[list[int]]) -> Iterator[Any]:
        for indices in batches:
            batch = Batch(torch.tensor([ids[index] for index in indices]))
            *_, last = forward.layers(encoder.model_view, forward.embed(encoder.model_view, batch))
            yield indices, (last.states.detach() * 4).round() / 4


def test_another_backend_is_a_term_of_its_own() -> None:
    encoder = tiny_encoder("bert", 1)
    found = change(encoder, replace(encoder, backend=Coarse()))
    terms = {name: (before, after) for name, before, after in found.terms}
    before, after = terms.pop("(coarse)")
    assert before == 0 and abs(after) > 1e-4
    # The words are those of torch in both; the term is what rounding changed.
    assert all(one == pytest.approx(other, abs=1e-12) for one, other in terms.values())
    assert after + sum(other for _, other in terms.values()) == pytest.approx(found.second.value, abs=1e-9)


def test_an_index_by_other_weights_is_refused() -> None:
    index = Index.from_texts(tiny_encoder("bert", 0), [CAME, WENT])
    index.encoder = tiny_encoder("bert", 3)
    with pytest.raises(ModelError, match="build the index again"):
        margin(index, QUERY, stored(index, 0), stored(index, 1), 1.0)
