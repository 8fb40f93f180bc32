"""Our forward pass equals Hugging Face's, family by family."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
import transformers

from likewise.encoder import Encoder
from likewise.encoder.families import FAMILIES
from likewise.encoder.forward import Batch, Step, embed, layers
from likewise.encoder.model_view import Dropout, linear, no_dropout
from likewise.encoder.weights import model_view
from tiny_models import EVERY, SIZES, NoDowncast, make_model
from twins import twin_model

LENGTHS = (12, 7, 3)


def make_batch(model: Any, seed: int) -> Batch:
    torch.manual_seed(seed)
    ids = torch.randint(3, 60, (len(LENGTHS), max(LENGTHS)))
    mask = torch.ones_like(ids)
    for row, length in enumerate(LENGTHS):
        ids[row, length:] = model.config.pad_token_id or 0
        mask[row, length:] = 0
    return Batch(ids, None, mask)


def run_ours(model: Any, batch: Batch, maps: bool = True, dropout: Dropout = no_dropout) -> list[Step]:
    views = model_view(model)
    with torch.no_grad():
        steps = list(layers(views, embed(views, batch, dropout), batch.mask, maps=maps, dropout=dropout))
        if views.output is not None:
            steps[-1] = Step(linear(views.output, steps[-1].states), steps[-1].maps)
        return steps


def run_theirs(model: Any, batch: Batch) -> Any:
    kinds = {} if batch.types is None else {"token_type_ids": batch.types}
    wide = model.dtype is torch.float64
    with torch.no_grad(), NoDowncast() if wide else nullcontext():
        return model(
            input_ids=batch.ids, attention_mask=batch.mask, output_hidden_states=True, output_attentions=True, **kinds
        )


def largest_gap(ours: torch.Tensor, theirs: torch.Tensor, mask: torch.Tensor) -> float:
    """The largest difference at real tokens; what stands at padding is nobody's business."""
    return float((ours - theirs)[mask.bool()].abs().max())


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", EVERY)
def test_states_and_maps_equal_hugging_face(name: str, seed: int) -> None:
    model = make_model(name, seed)
    batch = make_batch(model, seed)
    ours, theirs = run_ours(model, batch), run_theirs(model, batch)
    assert len(ours) == len(theirs.hidden_states)
    for step, states in zip(ours, theirs.hidden_states, strict=True):
        assert largest_gap(step.states, states, batch.mask) < 1e-10
    for step, maps in zip(ours[1:], theirs.attentions, strict=True):
        assert largest_gap(step.maps.transpose(1, 2), maps.transpose(1, 2), batch.mask) < 1e-10
    assert ours[1].maps[0].std() > 0.02, "the maps are too even to tell a right from a wrong one"


@pytest.mark.parametrize("name", EVERY)
def test_fused_attention_equals_plain(name: str) -> None:
    model = make_model(name, 3)
    batch = make_batch(model, 3)
    for plain, fused in zip(run_ours(model, batch), run_ours(model, batch, maps=False), strict=True):
        assert fused.maps is None
        assert largest_gap(plain.states, fused.states, batch.mask) < 1e-10


@pytest.mark.parametrize("name", EVERY)
def test_dropout_stands_where_hugging_face_has_it(name: str) -> None:
    model = make_model(name, 4)
    batch = make_batch(model, 4)
    model.train()
    for part in model.modules():
        if hasattr(part, "pos_dropout"):
            part.pos_dropout.p = 0.0  # of DeBERTa's distances, which we leave out
    torch.manual_seed(5)
    theirs = run_theirs(model, batch)
    torch.manual_seed(5)
    # Where an architecture drops nothing there is no draw either.
    ours = run_ours(model, batch, dropout=lambda x, rate: x if rate is None else torch.nn.functional.dropout(x, rate))
    model.eval()
    assert largest_gap(ours[-1].states, theirs.hidden_states[-1], batch.mask) < 1e-10
    plain = run_ours(model, batch)
    dropped = any(view.p > 0 for view in model.modules() if isinstance(view, torch.nn.Dropout))
    changed = largest_gap(ours[-1].states, plain[-1].states, batch.mask) > 1e-3
    # Decoders drop in their attention only, and hold the rate outside a module.
    assert changed == (dropped or bool(getattr(model.config, "attention_dropout", 0)))


@pytest.mark.parametrize("name", EVERY)
def test_padding_changes_nothing(name: str) -> None:
    model = make_model(name, 6)
    batch = make_batch(model, 6)
    padded = run_ours(model, batch)
    for row, length in enumerate(LENGTHS):
        alone = run_ours(model, Batch(batch.ids[row : row + 1, :length]))
        assert float((padded[-1].states[row, :length] - alone[-1].states[0]).abs().max()) < 1e-10


@pytest.mark.parametrize("name", ["bert", "albert", "electra"])
def test_type_ids(name: str) -> None:
    model = make_model(name, 7)
    plain = make_batch(model, 7)
    batch = Batch(plain.ids, (torch.arange(12) > 4).long().expand(3, -1), plain.mask)
    ours, theirs = run_ours(model, batch), run_theirs(model, batch)
    assert largest_gap(ours[-1].states, theirs.hidden_states[-1], batch.mask) < 1e-10
    assert largest_gap(ours[-1].states, run_ours(model, plain)[-1].states, batch.mask) > 1e-3


def test_long_mpnet_uses_far_buckets() -> None:
    torch.manual_seed(8)
    config = transformers.MPNetConfig(**(SIZES | {"pad_token_id": 1, "max_position_embeddings": 320}))
    model = transformers.AutoModel.from_config(config, attn_implementation="eager").double().eval()
    torch.nn.init.normal_(model.encoder.relative_attention_bias.weight)
    batch = Batch(torch.randint(3, 60, (1, 300)), None, torch.ones(1, 300, dtype=torch.long))
    ours, theirs = run_ours(model, batch), run_theirs(model, batch)
    assert largest_gap(ours[-1].states, theirs.hidden_states[-1], batch.mask) < 1e-10


@pytest.mark.parametrize("name", EVERY)
def test_gradients_equal_hugging_face(name: str) -> None:
    model = make_model(name, 9)
    batch = make_batch(model, 9)
    views = model_view(model)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    *_, last = layers(views, embed(views, batch), batch.mask)
    first = last.states[:, 0] if views.output is None else linear(views.output, last.states[:, 0])
    ours = torch.autograd.grad((first**2).sum(), weights, allow_unused=True)
    with NoDowncast():
        states = model(input_ids=batch.ids, attention_mask=batch.mask).last_hidden_state
    theirs = torch.autograd.grad((states[:, 0] ** 2).sum(), weights, allow_unused=True)
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine is None) == (other is None)
        if mine is not None:
            assert torch.allclose(mine, other, atol=1e-9)


def test_every_family_is_tested() -> None:
    assert {EVERY[name]().model_type for name in EVERY} == set(FAMILIES)


@pytest.mark.parametrize("which", ["minilm", "e5"])
def test_real_models_equal_hugging_face(which: str, request: pytest.FixtureRequest) -> None:
    encoder: Encoder = request.getfixturevalue(which)
    texts = [
        "A man is playing a flute.",
        "Café 😀 at noon?",
        "one",
        "A very much longer sentence, with commas, at the end.",
    ]
    rows = [list(text.ids) for text in encoder.tokenize(texts)]
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    batch = Batch(ids, None, (ids != 0).long())
    ours, theirs = run_ours(encoder.model, batch), run_theirs(twin_model(encoder), batch)
    for step, states in zip(ours, theirs.hidden_states, strict=True):
        bound = 1e-5 * max(1.0, float(states.abs().max()))
        assert largest_gap(step.states, states, batch.mask) < bound
    for step, maps in zip(ours[1:], theirs.attentions, strict=True):
        assert largest_gap(step.maps.transpose(1, 2), maps.transpose(1, 2), batch.mask) < 1e-5
