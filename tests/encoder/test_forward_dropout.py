"""What a text loses is its own: independent of padding, neighbours and order."""

from __future__ import annotations

import pytest
import torch

from likewise.encoder import Encoder
from likewise.encoder.forward import Batch, TextDropout
from likewise.encoder.model_view import no_dropout


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_share_and_the_scale(rate: float) -> None:
    x = torch.ones(4, 100, 50, dtype=torch.float64)
    dropped = TextDropout([(1, place) for place in range(4)], [100] * 4)(x, rate)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / (1 - rate)])
    assert float((dropped == 0).double().mean()) == pytest.approx(rate, abs=0.01)
    assert not torch.equal(dropped[0], dropped[1])


def test_calls_go_on_in_the_stream() -> None:
    dropout = TextDropout([(1,)], [20])
    x = torch.ones(1, 20, 8)
    assert not torch.equal(dropout(x, 0.5), dropout(x, 0.5))


def test_without_a_rate_nothing_changes() -> None:
    x = torch.randn(2, 3, 4)
    assert TextDropout([(1,), (2,)], [3, 3])(x, 0.0) is x
    assert no_dropout(x, 0.5) is x


def test_a_step_is_the_same_in_any_batch(tiny: Encoder) -> None:
    texts = ["two dogs run", "a cat", "the cat sat on the mat and slept"]
    tokens = tiny.tokenize(texts)
    longest = max(len(text) for text in tokens)
    ids = torch.tensor([[*text.ids, *[0] * (longest - len(text))] for text in tokens])
    mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in tokens])
    keys = [(3, place) for place in range(len(texts))]
    with torch.no_grad():
        together = tiny.layer_states(Batch(ids, None, mask), TextDropout(keys, [len(text) for text in tokens]))
        for place, text in enumerate(tokens):
            alone = tiny.layer_states(Batch(torch.tensor([text.ids])), TextDropout([keys[place]], [len(text)]))
            assert torch.allclose(together[place, : len(text)], alone[0], atol=1e-5)
            plain = tiny.layer_states(Batch(torch.tensor([text.ids])))
            assert not torch.allclose(plain, alone, atol=1e-2)


def test_the_rate_of_a_whole_model(tiny: Encoder) -> None:
    views = tiny.model_view.with_dropout(0.3)
    rates = {view.map_dropout for block in views.blocks for view in [block.attention]}
    assert rates == {0.3} and views.embeddings.dropout == 0.3
    assert tiny.model_view.embeddings.dropout != 0.3
