"""A folder loads without transformers as transformers loads it: every family, old names, shards, defaults, refusals."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel
from transformers.conversion_mapping import get_checkpoint_conversion_mapping
from transformers.core_model_loading import PrefixChange, WeightConverter

from conftest import save_tiny
from likewise.encoder import Encoder
from likewise.encoder.config import completed, config_of
from likewise.encoder.families import FAMILIES
from likewise.encoder.forward import Batch, embed, layers
from likewise.encoder.model_view import ModelView, Transformer, linear
from likewise.encoder.weights import load_transformer, model_view, usual_names
from likewise.errors import ModelError
from tiny_models import BIASES, EVERY, NoDowncast, make_model, model_class

Change = Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]


def states(views: ModelView, batch: Batch) -> list[torch.Tensor]:
    with torch.no_grad():
        found = [step.states for step in layers(views, embed(views, batch), batch.mask)]
        return found if views.output is None else [*found[:-1], linear(views.output, found[-1])]


def theirs(model: Any, batch: Batch) -> list[torch.Tensor]:
    with torch.no_grad(), NoDowncast():
        return list(model(input_ids=batch.ids, output_hidden_states=True).hidden_states)


def a_batch(seed: int = 0, length: int = 12) -> Batch:
    torch.manual_seed(seed)
    return Batch(torch.randint(3, 60, (2, length)))


def rewrite(folder: Path, change: Change) -> None:
    state = change(load_file(folder / "model.safetensors"))
    save_file({name: weight.clone() for name, weight in state.items()}, folder / "model.safetensors")


def set_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def assert_equal_to_transformers(folder: Path, batch: Batch | None = None) -> None:
    """Our loading and forward pass against AutoModel's, in float64."""
    batch = batch or a_batch()
    ours = states(load_transformer(folder, "float64")[1], batch)
    kind = model_class(AutoConfig.from_pretrained(folder))
    model = kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    for mine, other in zip(ours, theirs(model, batch), strict=True):
        assert float((mine - other).abs().max()) < 1e-10


# Every family


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", EVERY)
def test_a_saved_folder_loads_as_transformers_loads_it(name: str, seed: int, tmp_path: Path) -> None:
    make_model(name, seed).save_pretrained(tmp_path)
    assert_equal_to_transformers(tmp_path, a_batch(seed))


@pytest.mark.parametrize("name", ["modernbert", "qwen3"])
def test_biases_that_a_config_asks_for(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = EVERY[name]()
    for setting in BIASES:
        setattr(config, setting, True)
    model = AutoModel.from_config(config).double()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    model.save_pretrained(tmp_path)
    assert_equal_to_transformers(tmp_path)


@pytest.mark.parametrize("name", EVERY)
def test_names_and_shapes_are_those_of_transformers(name: str) -> None:
    """Without files: what a config declares is what transformers' own class has."""
    model = make_model(name, 0)
    ours = Transformer(json.loads(model.config.to_json_string(use_diff=False)))
    model_view(ours)
    tied = {"encoder.embed_tokens.weight"}
    shapes = {name: tuple(weight.shape) for name, weight in model.state_dict().items() if name not in tied}
    assert {name: tuple(weight.shape) for name, weight in ours.state_dict().items()} == shapes
    trained = {name for name, _ in model.named_parameters()}
    assert {name for name, _ in ours.named_parameters()} == trained
    assert all(weight.is_meta for weight in ours.parameters())


HEADED = {
    "albert": transformers.AlbertForMaskedLM,
    "bert": transformers.BertForSequenceClassification,
    "distilbert": transformers.DistilBertForMaskedLM,
    "electra": transformers.ElectraForPreTraining,
    "gpt_neo": transformers.GPTNeoForCausalLM,
    "modernbert": transformers.ModernBertForMaskedLM,
    "mpnet": transformers.MPNetForMaskedLM,
    "qwen3": transformers.Qwen3ForCausalLM,
    "camembert": transformers.CamembertForMaskedLM,
    "deberta-v2": transformers.DebertaV2ForSequenceClassification,
    "eurobert": transformers.EuroBertForMaskedLM,
    "gemma3_text": transformers.Gemma3ForCausalLM,
    "gte": transformers.GteForMaskedLM,
    "jina_embeddings_v3": transformers.JinaEmbeddingsV3ForMaskedLM,
    "llama": transformers.LlamaForCausalLM,
    "mistral": transformers.MistralForCausalLM,
    "mt5": transformers.MT5ForConditionalGeneration,
    "nomic_bert": transformers.NomicBertForMaskedLM,
    "qwen2": transformers.Qwen2ForCausalLM,
    "roberta": transformers.RobertaForTokenClassification,
    "t5": transformers.T5Model,
    "xlm-roberta": transformers.XLMRobertaForMaskedLM,
}


@pytest.mark.parametrize("name", HEADED)
def test_a_model_with_a_head_loads_without_it(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    HEADED[name](EVERY[name]()).double().save_pretrained(tmp_path)
    assert_equal_to_transformers(tmp_path)


def old_norms(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    renamed = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    return {
        next((name.replace(new, old) for new, old in renamed.items() if new in name), name): weight
        for name, weight in state.items()
    }


def with_prefix(prefix: str) -> Change:
    return lambda state: {prefix + name: weight for name, weight in state.items()}


@pytest.mark.parametrize(
    ("name", "prefix"),
    [(name, f"{name}.") for name in ("albert", "bert", "distilbert", "electra", "mpnet", "roberta")]
    + [("xlm-roberta", "roberta."), ("gpt_neo", "transformer."), ("modernbert", "model."), ("qwen3", "model.")]
    + [("bert", "0.auto_model."), ("distilbert", "0.auto_model."), ("bert", "0.auto_model.bert.")],
)
def test_prefixes(name: str, prefix: str, tmp_path: Path) -> None:
    make_model(name, 0).save_pretrained(tmp_path)
    plain = states(load_transformer(tmp_path, "float64")[1], a_batch())
    rewrite(tmp_path, with_prefix(prefix))
    rewrite(tmp_path, lambda state: state | {"classifier.weight": torch.ones(2, 32), "cls.seq.bias": torch.ones(2)})
    again = states(load_transformer(tmp_path, "float64")[1], a_batch())
    assert all(torch.equal(one, other) for one, other in zip(plain, again, strict=True))


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_old_names_of_norms(prefix: str, tmp_path: Path) -> None:
    make_model("bert", 0).save_pretrained(tmp_path)
    plain = states(load_transformer(tmp_path, "float64")[1], a_batch())
    rewrite(tmp_path, lambda state: with_prefix(prefix)(old_norms(state)))
    assert "gamma" in str(load_file(tmp_path / "model.safetensors").keys())
    assert_equal_to_transformers(tmp_path)
    assert torch.equal(states(load_transformer(tmp_path, "float64")[1], a_batch())[-1], plain[-1])


@pytest.mark.parametrize("name", ["bert", "gpt_neo", "qwen3"])
def test_shards(name: str, tmp_path: Path) -> None:
    make_model(name, 0).save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert_equal_to_transformers(tmp_path)


def test_heads_are_no_part_of_the_encoder() -> None:
    wanted, family = {"pooler.dense.weight", "transformer.layer.0.ffn.lin1.weight"}, FAMILIES["distilbert"]
    for stored in ("cls.predictions.bias", "lm_head.weight", "classifier.dense.weight", "bert.pooler.weight", "model"):
        assert usual_names(stored, wanted, family) == ()
    found = usual_names("distilbert.transformer.layer.0.ffn.lin1.weight", wanted, family)
    assert found == ("transformer.layer.0.ffn.lin1.weight",)


# Layouts in which a family was first published


def published_names(state: dict[str, torch.Tensor], family: str) -> dict[str, torch.Tensor]:
    """The tensors of transformers' class under the names of the first files, by its own mapping turned round."""
    for rule in reversed(get_checkpoint_conversion_mapping(family)):
        if isinstance(rule, PrefixChange):
            state = {f"{rule.prefix_to_remove}.{name}": weight for name, weight in state.items()}
        elif isinstance(rule, WeightConverter):
            state = joined(state, rule.target_patterns, rule.source_patterns[0])
        else:
            (new,), (old,) = rule.target_patterns, rule.source_patterns
            state = {name.replace(new, old): weight for name, weight in state.items()}
    return state


def joined(state: dict[str, torch.Tensor], parts: list[str], whole: str) -> dict[str, torch.Tensor]:
    found = {name: weight for name, weight in state.items() if not any(part in name for part in parts)}
    firsts = [name for name in state if parts[0] in name]
    return found | {
        name.replace(parts[0], whole): torch.cat([state[name.replace(parts[0], part)] for part in parts])
        for name in firsts
    }


def old_nomic(config: dict[str, Any]) -> dict[str, Any]:
    return {
        "model_type": "nomic_bert", "n_embd": config["hidden_size"], "n_layer": config["num_hidden_layers"],
        "n_head": config["num_attention_heads"], "n_inner": config["intermediate_size"], "n_positions": 40,
        "vocab_size": config["vocab_size"], "type_vocab_size": 2, "layer_norm_epsilon": 1e-12, "prenorm": False,
        "activation_function": "swiglu", "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "qkv_proj_bias": False,
        "auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"},
    }  # fmt: skip


def old_gte(config: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in config.items() if name not in ("rope_parameters", "model_type")}
    code = {"auto_map": {"AutoModel": "Alibaba-NLP/new-impl--modeling.NewModel"}}
    return kept | code | {
        "model_type": "new", "position_embedding_type": "rope", "rope_theta": 160000, "pack_qkv": True,
        "layer_norm_type": "layer_norm", "logn_attention_scale": False,
    }  # fmt: skip


def old_jina(config: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in config.items() if name not in ("rope_parameters", "model_type")}
    return kept | {
        "model_type": "xlm-roberta", "position_embedding_type": "rotary", "rotary_emb_base": 20000.0,
        "lora_adaptations": ["retrieval.query"], "lora_rank": 4, "lora_alpha": 1,
        "auto_map": {"AutoModel": "jinaai/xlm-roberta-flash-implementation--modeling_lora.XLMRobertaLoRA"},
    }  # fmt: skip


PUBLISHED = {"nomic_bert": old_nomic, "gte": old_gte, "jina_embeddings_v3": old_jina}


@pytest.mark.parametrize("family", PUBLISHED)
def test_a_folder_as_it_was_first_published(family: str, tmp_path: Path) -> None:
    model = make_model(family, 0)
    model.save_pretrained(tmp_path)
    save_file(published_names(model.state_dict(), family), tmp_path / "model.safetensors", metadata={"format": "pt"})
    # Transformers maps the names by itself, with the present config.
    assert_equal_to_transformers(tmp_path)
    present = states(load_transformer(tmp_path, "float64")[1], a_batch())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED[family](config)))
    loaded, views = load_transformer(tmp_path, "float64")
    for old, new in zip(states(views, a_batch()), present, strict=True):
        assert torch.equal(old, new)
    assert loaded.config["model_type"] == family and "auto_map" not in loaded.config


def test_scaled_rotary_positions_of_the_first_gte(tmp_path: Path) -> None:
    """NTK scaling by Su (2023): the base grows by the factor, and each frequency falls by factor^(2 / width)."""
    model = make_model("gte", 0)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config.pop("rope_parameters")
    scaling = {"rope_theta": 20000, "rope_scaling": {"type": "ntk", "factor": 8.0}}
    (tmp_path / "config.json").write_text(json.dumps(config | scaling))
    turn = load_transformer(tmp_path)[1].blocks[0].attention.rotary
    assert turn is not None
    expected = [(20000 * 8.0) ** (-2 * pair / 8) / 8.0 ** (2 / 8) for pair in range(4)]
    assert torch.allclose(turn.frequencies, torch.tensor(expected), rtol=1e-6)


OTHER_CODE: dict[str, tuple[str, dict[str, Any], str]] = {
    "experts": ("nomic_bert", {"moe_every_n_layers": 2}, "with experts .v2-moe. is not supported; use"),
    "norms before": ("nomic_bert", {"prenorm": True}, "prenorm True is not supported"),
    "absolute positions": ("gte", {"position_embedding_type": "absolute"}, "position_embedding_type 'absolute'"),
    "another class": ("gte", {"auto_map": {"AutoModel": "modeling.OtherModel"}}, "this new model has its own code"),
}


@pytest.mark.parametrize("case", OTHER_CODE)
def test_published_code_that_the_class_does_not_know_is_refused(case: str, tmp_path: Path) -> None:
    family, changes, message = OTHER_CODE[case]
    make_model(family, 0).save_pretrained(tmp_path)
    config = PUBLISHED[family](json.loads((tmp_path / "config.json").read_text()))
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(ModelError, match=message):
        load_transformer(tmp_path)


def test_the_text_part_of_a_model_for_texts_and_images(tmp_path: Path) -> None:
    text = EVERY["embedding_gemma2"]()
    torch.manual_seed(0)
    model = transformers.EmbeddingGemma2Model(transformers.EmbeddingGemma2Config(text_config=text)).double().eval()
    model.save_pretrained(tmp_path)
    ours = states(load_transformer(tmp_path, "float64")[1], a_batch())
    found = theirs(model.language_model, a_batch())
    # The scale of the embeddings is rounded to float32 there.
    assert all(float((one - other).abs().max()) < 1e-6 for one, other in zip(ours, found, strict=True))


# Weights as they lie in memory


def test_weights_are_aligned_and_writable(tmp_path: Path) -> None:
    make_model("bert", 0).float().save_pretrained(tmp_path)
    model, _ = load_transformer(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    with torch.no_grad():
        for weight in model.parameters():
            assert weight.data_ptr() % 64 == 0 and weight.is_contiguous() and weight.requires_grad
            weight.add_(1)
    assert (tmp_path / "model.safetensors").read_bytes() == before


def test_views_see_moves_and_new_dtypes(tmp_path: Path) -> None:
    make_model("qwen3", 0).save_pretrained(tmp_path)
    model, views = load_transformer(tmp_path, "float64")
    wide = states(views, a_batch())[-1]
    model.to(torch.float32)
    assert views.dtype == torch.float32
    assert torch.allclose(states(views, a_batch())[-1].double(), wide, atol=1e-4)
    model.to("meta")
    assert views.device == torch.device("meta")


def test_a_model_in_memory_that_is_moved_or_trained_is_seen() -> None:
    model = make_model("modernbert", 0)
    views = model_view(model)
    before = states(views, a_batch())[-1]
    with torch.no_grad():
        model.layers[1].mlp.Wi.weight.mul_(2)
    assert float((states(views, a_batch())[-1] - before).abs().max()) > 1e-3
    model.float()
    assert views.dtype == torch.float32


# Configs


CLASSES = {family: AutoConfig.for_model(family).__class__ for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
def test_defaults_are_those_of_transformers(family: str) -> None:
    config = CLASSES[family]()
    theirs = config.to_dict() | {"global_attn_every_n_layers": 3}
    ours = completed({"model_type": family})
    # From others, there and here.
    derived = {"rope_parameters", "layer_types", "sliding_window", "num_key_value_heads", "head_dim"}
    for name in ours.keys() - derived:
        assert ours[name] == theirs[name], name
    assert FAMILIES[family].aliases == CLASSES[family].attribute_map


@pytest.mark.parametrize("name", EVERY)
def test_a_config_that_leaves_out_its_defaults(name: str, tmp_path: Path) -> None:
    """Transformers' own short form, and the long one, give the same settings as the class in memory."""
    config = EVERY[name]()
    model = make_model(name, 0)
    for diff in (True, False):
        (tmp_path / "config.json").write_text(config.to_json_string(use_diff=diff))
        ours = Transformer(json.loads((tmp_path / "config.json").read_text()))
        first, second = model_view(ours), model_view(model)
        assert (first.layers, first.hidden_size, first.max_positions) == (
            second.layers, second.hidden_size, second.max_positions,
        )  # fmt: skip
        for mine, other in zip(first.blocks, second.blocks, strict=True):
            assert (mine.attention.reach, mine.attention.scale, mine.attention.causal) == (
                other.attention.reach, other.attention.scale, other.attention.causal,
            )  # fmt: skip
            if mine.attention.rotary is not None and other.attention.rotary is not None:
                assert torch.equal(mine.attention.rotary.steps, other.attention.rotary.steps)


def test_other_names_for_the_same_settings(tmp_path: Path) -> None:
    make_model("distilbert", 0).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    old = {name: config.pop(key) for name, key in FAMILIES["distilbert"].aliases.items()}
    (tmp_path / "config.json").write_text(json.dumps(config | old))
    assert_equal_to_transformers(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 0},
        {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 2},
        {"use_sliding_window": False, "sliding_window": 3, "max_window_layers": 1},
        {
            "use_sliding_window": True, "sliding_window": 3,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ],
    ids=str,
)  # fmt: skip
def test_sliding_windows_of_qwen3(changes: dict[str, Any], tmp_path: Path) -> None:
    make_model("qwen3", 0).save_pretrained(tmp_path)
    set_config(tmp_path, **({"layer_types": None} | changes))
    assert_equal_to_transformers(tmp_path)


def test_as_many_key_heads_as_heads(tmp_path: Path) -> None:
    make_model("qwen3", 0, num_key_value_heads=4).save_pretrained(tmp_path)
    set_config(tmp_path, num_key_value_heads=None)
    assert_equal_to_transformers(tmp_path)


LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
ROTARY: dict[str, dict[str, Any]] = {
    "theta at the top": {"rope_theta": 1e6},
    "theta in rope_parameters": {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
    "linear, old": {"rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 4.0}},
    "linear, new": {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}},
    "dynamic": {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
    "llama3": {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **LLAMA3}},
    "yarn": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}},
    "yarn, all set": {
        "rope_theta": 1e6,
        "rope_scaling": {
            "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 20, "beta_fast": 8.0,
            "beta_slow": 2.0, "mscale": 0.7, "mscale_all_dim": 1.2, "truncate": False,
        },
    },
    "yarn, attention factor": {"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "attention_factor": 1.3}},
    "null": {"rope_scaling": None, "rope_theta": 2e4},
}  # fmt: skip


@pytest.mark.parametrize("case", ROTARY)
def test_rotary_positions_of_qwen3(case: str, tmp_path: Path) -> None:
    make_model("qwen3", 0).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config.pop("rope_parameters", None)
    (tmp_path / "config.json").write_text(json.dumps(config | ROTARY[case]))
    views = load_transformer(tmp_path, "float64")[1]
    model = AutoModel.from_pretrained(tmp_path, attn_implementation="eager")
    turn = views.blocks[0].attention.rotary
    assert turn is not None and turn.scaling == model.rotary_emb.attention_scaling
    assert torch.equal(turn.frequencies, model.rotary_emb.inv_freq)
    assert_equal_to_transformers(tmp_path, a_batch(length=30))


MODERN_ROTARY: dict[str, dict[str, Any]] = {
    "old": {"global_rope_theta": 5e4, "local_rope_theta": 2e3, "global_attn_every_n_layers": 2},
    "old, defaults": {},
    "new": {
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 7e4},
            "sliding_attention": {"rope_type": "linear", "rope_theta": 3e3, "factor": 2.0},
        },
    },
    "new, one left out": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 7e4}}},
    "scaled": {"rope_scaling": {"rope_type": "linear", "factor": 3.0}},
    "window by its other name": {"sliding_window": 2},
}


@pytest.mark.parametrize("case", MODERN_ROTARY)
def test_rotary_positions_of_modernbert(case: str, tmp_path: Path) -> None:
    make_model("modernbert", 0).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for name in ("rope_parameters", "layer_types", "global_attn_every_n_layers", "sliding_window"):
        config.pop(name, None)
    if case == "window by its other name":
        config.pop("local_attention")
    (tmp_path / "config.json").write_text(json.dumps(config | MODERN_ROTARY[case]))
    assert_equal_to_transformers(tmp_path, a_batch(length=30))


# Refusals


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "relative positions": (
        "bert",
        {"position_embedding_type": "relative_key"},
        "position_embedding_type 'relative_key'",
    ),
    "decoder": ("roberta", {"is_decoder": True}, "a roberta model set up as a decoder is not supported"),
    "cross-attention": ("bert", {"add_cross_attention": True}, "set up as a decoder"),
    "activation": ("electra", {"hidden_act": "quick_gelu"}, "activation 'quick_gelu' is not supported"),
    "quantized": ("qwen3", {"quantization_config": {"quant_method": "awq"}}, "use the plain weights"),
    "rope type": ("qwen3", {"rope_scaling": {"rope_type": "longrope"}}, "type 'longrope' are not supported"),
    "rope without factor": ("qwen3", {"rope_scaling": {"rope_type": "linear"}}, "lack a setting"),
    "partial rope": ("qwen3", {"partial_rotary_factor": 0.5}, "in a part of each head"),
    "both directions": ("gpt_neo", {"is_causal": False}, "attends in both directions"),
    "both directions by a key of Gemma": ("llama", {"use_bidirectional_attention": True}, "attends in both directions"),
    "capped scores": ("gemma3_text", {"attn_logit_softcapping": 50.0}, "caps its attention scores"),
    "convolution": ("deberta-v2", {"conv_kernel_size": 3}, "with a convolution"),
    "embeddings of another width": ("deberta-v2", {"embedding_size": 16}, "embeddings of another width"),
    "gate": ("t5", {"feed_forward_proj": "half-gelu"}, "feed_forward_proj 'half-gelu' is not supported"),
    "too many layers": ("llama", {"num_hidden_layers": 10**9}, "num_hidden_layers must be at most 1,000"),
    "too wide": ("qwen2", {"hidden_size": 10**12}, "hidden_size must be at most 131,072"),
    "layer type": ("modernbert", {"layer_types": ["full_attention", "chunked", "full_attention"]}, "type 'chunked'"),
    "too few layer types": ("modernbert", {"layer_types": ["full_attention"]}, "types for 1 layers, but 3 layers"),
    "too few patterns": ("gpt_neo", {"attention_types": [[["global"], 2]]}, "types for 2 layers, but 4 layers"),
    "uneven heads": ("bert", {"num_attention_heads": 5}, "32 dimensions cannot be split into 5 heads"),
    "a word for a number": ("bert", {"hidden_size": "32"}, "hidden_size must be a whole number from 1, not '32'"),
    "no padding": ("roberta", {"pad_token_id": None}, "pad_token_id must be a whole number"),
    "padding beyond the vocabulary": ("bert", {"pad_token_id": 10**6}, "pad_token_id must be the id of a token"),
    "a list as padding": ("bert", {"pad_token_id": [0]}, "pad_token_id must be the id of a token"),
    "a truth value as padding": ("bert", {"pad_token_id": True}, "pad_token_id must be the id of a token"),
    "no pattern": ("gpt_neo", {"attention_types": 3}, "config.json does not fit a gpt_neo model"),
    "no layers": ("bert", {"num_hidden_layers": 0}, "num_hidden_layers must be a whole number from 1"),
    "another shape": ("bert", {"intermediate_size": 24}, r"dense\.\w+ has the shape \(48.*by config.json"),
    "more layers": ("bert", {"num_hidden_layers": 4}, r"lacks weights, encoder\.layer\.3\.attention"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_configs_that_are_refused(case: str, tmp_path: Path) -> None:
    name, changes, message = REFUSED[case]
    make_model(name, 0).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(
        json.dumps({k: v for k, v in config.items() if k != "rope_parameters"} | changes)
    )
    with pytest.raises(ModelError, match=message) as raised:
        load_transformer(tmp_path)
    assert "\n" not in str(raised.value) and str(tmp_path) in str(raised.value)


def test_code_of_its_own_is_refused(tmp_path: Path) -> None:
    """A Qwen3 whose class attends in both directions: as the plain class it would give other vectors."""
    folder = tmp_path / "both-ways"
    make_model("qwen3", 0).save_pretrained(folder)
    (folder / "modeling_both.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass BothWays: pass\n")
    set_config(folder, auto_map={"AutoModel": "modeling_both.BothWays"}, architectures=["BothWays"])
    with pytest.raises(ModelError, match=r"has its own code .auto_map in config.json.*never run; use") as raised:
        Encoder.load(str(folder))
    assert "\n" not in str(raised.value) and not (tmp_path / "ran").exists()


def test_another_class_in_memory_is_refused() -> None:
    class BothWays(transformers.Qwen3Model):
        """Not one of transformers' own."""

    model = BothWays(EVERY["qwen3"]())
    with pytest.raises(ModelError, match="BothWays is not a class of transformers"):
        model_view(model)


def test_whole_numbers_are_no_weights(tmp_path: Path) -> None:
    make_model("bert", 0).save_pretrained(tmp_path)
    rewrite(tmp_path, lambda state: state | {"pooler.dense.weight": torch.ones(32, 32, dtype=torch.int8)})
    with pytest.raises(ModelError, match=r"pooler.dense.weight holds torch.int8, not floating-point"):
        load_transformer(tmp_path)


def test_half_a_pooler_is_none(tmp_path: Path) -> None:
    make_model("bert", 0).save_pretrained(tmp_path)
    rewrite(tmp_path, lambda state: {name: weight for name, weight in state.items() if name != "pooler.dense.bias"})
    model, views = load_transformer(tmp_path)
    assert views.pooler is None and not any("pooler" in name for name in model.state_dict())
    assert model_view(model).pooler is None, "nor do new views make one"


def test_settings_of_a_folder_and_of_the_same_model_in_memory_are_the_same(tmp_path: Path) -> None:
    for name in EVERY:
        model = make_model(name, 0)
        model.save_pretrained(tmp_path / name)
        assert config_of(load_transformer(tmp_path / name)[0]) == config_of(model), name


# Without the world


def run_python(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


ABSENT = "print(sorted({'transformers', 'scipy', 'sklearn', 'huggingface_hub', 'pandas'} & sys.modules.keys()))"


@pytest.mark.slow
@pytest.mark.process
def test_a_local_model_needs_no_transformers(minilm: Encoder, tmp_path: Path) -> None:
    code = f"import sys; from likewise import Encoder; Encoder.load('minilm').encode('A cat sat.'); {ABSENT}"
    assert run_python(code) == "[]"
    folder = save_tiny(tmp_path / "tiny")
    code = (
        "import sys; from likewise import Encoder; from likewise.encoder.saving import save_encoder\n"
        "encoder = Encoder.load(sys.argv[1]); encoder.encode('a cat'); save_encoder(encoder, sys.argv[2]); "
    )
    assert run_python(code + ABSENT, str(folder), str(tmp_path / "saved")) == "[]"
    assert Encoder.load(tmp_path / "saved", device="cpu").encode("a cat").shape == (16,)


@pytest.mark.process
def test_a_folder_of_older_files_needs_the_extra(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "old")
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)) + "\n")
    with_json = Encoder.load(shutil.copytree(folder, tmp_path / "new"), device="cpu")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    assert torch.equal(
        torch.tensor(Encoder.load(folder, device="cpu").encode("the cat sat")),
        torch.tensor(with_json.encode("the cat sat")),
    )
    code = (
        "import sys; sys.modules['transformers'] = None\n"
        "from likewise import Encoder\n"
        "try: Encoder.load(sys.argv[1])\n"
        "except Exception as error: print(error)"
    )
    assert 'run: pip install "likewise[transformers]"' in run_python(code, str(folder))
