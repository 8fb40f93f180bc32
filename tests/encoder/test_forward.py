"""Our forward pass equals Hugging Face's, family by family."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
import transformers
from torch.overrides import TorchFunctionMode

from conftest import randomise
from likewise.encoder import Encoder
from likewise.encoder.families import FAMILIES, anatomy
from likewise.encoder.forward import Batch, Step, embed, layers

SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
}
RIM: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": 2}
CONFIGS = {
    "bert": lambda: transformers.BertConfig(**SIZES),
    "bert-relu": lambda: transformers.BertConfig(**SIZES, hidden_act="relu"),
    "roberta": lambda: transformers.RobertaConfig(**(SIZES | {"pad_token_id": 1})),
    "xlm-roberta": lambda: transformers.XLMRobertaConfig(**(SIZES | {"pad_token_id": 1})),
    "distilbert": lambda: transformers.DistilBertConfig(
        vocab_size=60, dim=32, n_layers=3, n_heads=4, hidden_dim=48, max_position_embeddings=40
    ),
    "mpnet": lambda: transformers.MPNetConfig(**(SIZES | {"pad_token_id": 1})),
    "albert": lambda: transformers.AlbertConfig(**SIZES, embedding_size=16, num_hidden_groups=1, inner_group_num=2),
    "albert-dropout": lambda: transformers.AlbertConfig(
        **SIZES, embedding_size=16, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
    ),
    "electra": lambda: transformers.ElectraConfig(**SIZES, embedding_size=16),
    "electra-same-width": lambda: transformers.ElectraConfig(**SIZES, embedding_size=32),
    "gpt_neo": lambda: transformers.GPTNeoConfig(
        vocab_size=60, hidden_size=32, num_layers=4, num_heads=4, attention_types=[[["global", "local"], 2]],
        window_size=4, max_position_embeddings=40, resid_dropout=0.1, embed_dropout=0.1, attention_dropout=0.1, **RIM,
    ),
    "modernbert": lambda: transformers.ModernBertConfig(
        **SIZES, local_attention=6, global_attn_every_n_layers=2, cls_token_id=1, sep_token_id=2,
        attention_dropout=0.1, mlp_dropout=0.1, embedding_dropout=0.1, **RIM,
    ),
    "qwen3": lambda: transformers.Qwen3Config(
        **SIZES, num_key_value_heads=2, head_dim=8, attention_dropout=0.1, **RIM
    ),
    "qwen3-sliding": lambda: transformers.Qwen3Config(
        **SIZES, num_key_value_heads=2, head_dim=8, use_sliding_window=True, sliding_window=4, max_window_layers=1,
        **RIM,
    ),
}  # fmt: skip
LENGTHS = (12, 7, 3)


class NoDowncast(TorchFunctionMode):
    """Lifts Hugging Face's casts to float32 (in GPT-Neo, ModernBERT, Qwen3), so that float64 stays float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def lifted(value: Any) -> Any:
            return torch.float64 if value is torch.float32 else value

        func = torch.Tensor.double if func is torch.Tensor.float else func
        return func(*map(lifted, args), **{name: lifted(value) for name, value in (kwargs or {}).items()})


def make_model(name: str, seed: int) -> Any:
    torch.manual_seed(seed)
    model = transformers.AutoModel.from_config(CONFIGS[name](), attn_implementation="eager").double()
    randomise(model)
    return model.eval()


def make_batch(model: Any, seed: int) -> Batch:
    torch.manual_seed(seed)
    ids = torch.randint(3, 60, (len(LENGTHS), max(LENGTHS)))
    mask = torch.ones_like(ids)
    for row, length in enumerate(LENGTHS):
        ids[row, length:] = model.config.pad_token_id or 0
        mask[row, length:] = 0
    return Batch(ids, None, mask)


def run_ours(model: Any, batch: Batch, maps: bool = True, training: bool = False) -> list[Step]:
    views = anatomy(model)
    with torch.no_grad():
        return list(layers(views, embed(views, batch, training), batch.mask, maps=maps, training=training))


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
@pytest.mark.parametrize("name", CONFIGS)
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


@pytest.mark.parametrize("name", CONFIGS)
def test_fused_attention_equals_plain(name: str) -> None:
    model = make_model(name, 3)
    batch = make_batch(model, 3)
    for plain, fused in zip(run_ours(model, batch), run_ours(model, batch, maps=False), strict=True):
        assert fused.maps is None
        assert largest_gap(plain.states, fused.states, batch.mask) < 1e-10


@pytest.mark.parametrize("name", CONFIGS)
def test_dropout_stands_where_hugging_face_has_it(name: str) -> None:
    model = make_model(name, 4)
    batch = make_batch(model, 4)
    model.train()
    torch.manual_seed(5)
    theirs = run_theirs(model, batch)
    torch.manual_seed(5)
    ours = run_ours(model, batch, training=True)
    model.eval()
    assert largest_gap(ours[-1].states, theirs.hidden_states[-1], batch.mask) < 1e-10
    plain = run_ours(model, batch)
    dropped = any(view.p > 0 for view in model.modules() if isinstance(view, torch.nn.Dropout))
    changed = largest_gap(ours[-1].states, plain[-1].states, batch.mask) > 1e-3
    # Qwen3 drops in its attention only, and holds the rate outside a module.
    assert changed == (dropped or name == "qwen3")


@pytest.mark.parametrize("name", CONFIGS)
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


@pytest.mark.parametrize("name", ["bert", "gpt_neo", "modernbert", "qwen3"])
def test_gradients_equal_hugging_face(name: str) -> None:
    model = make_model(name, 9)
    batch = make_batch(model, 9)
    views = anatomy(model)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    *_, last = layers(views, embed(views, batch), batch.mask)
    ours = torch.autograd.grad((last.states[:, 0] ** 2).sum(), weights, allow_unused=True)
    with NoDowncast():
        states = model(input_ids=batch.ids, attention_mask=batch.mask).last_hidden_state
    theirs = torch.autograd.grad((states[:, 0] ** 2).sum(), weights, allow_unused=True)
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine is None) == (other is None)
        if mine is not None:
            assert torch.allclose(mine, other, atol=1e-9)


def test_every_family_is_tested() -> None:
    assert {CONFIGS[name]().model_type for name in CONFIGS} == set(FAMILIES)


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
    encoder.model.set_attn_implementation("eager")
    ours, theirs = run_ours(encoder.model, batch), run_theirs(encoder.model, batch)
    for step, states in zip(ours, theirs.hidden_states, strict=True):
        bound = 1e-5 * max(1.0, float(states.abs().max()))
        assert largest_gap(step.states, states, batch.mask) < bound
    for step, maps in zip(ours[1:], theirs.attentions, strict=True):
        assert largest_gap(step.maps.transpose(1, 2), maps.transpose(1, 2), batch.mask) < 1e-5
