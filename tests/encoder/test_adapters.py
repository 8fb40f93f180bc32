"""Adapters are merged as PEFT merges them, and Jina's task adapters as their equation says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

from conftest import save_classic, save_tiny
from likewise.encoder import Encoder
from likewise.errors import ModelError

TEXTS = ["A man is playing a flute.", "the cat sat", "Two dogs run."]
LORA: dict[str, dict[str, Any]] = {
    "queries and values": {"target_modules": ["query", "value"], "r": 3, "lora_alpha": 7},
    "everything": {"target_modules": "all-linear", "r": 2, "lora_alpha": 5},
    "embeddings": {"target_modules": ["word_embeddings", "dense"], "r": 4, "lora_alpha": 4},
    "rank by root": {"target_modules": ["key"], "r": 4, "lora_alpha": 6, "use_rslora": True},
    "patterns": {
        "target_modules": ["query", "value"], "r": 2, "lora_alpha": 3, "rank_pattern": {"value": 4},
        "alpha_pattern": {"layer.1.attention.self.value": 9},
    },
    "biases": {"target_modules": ["query"], "r": 2, "lora_alpha": 3, "bias": "all"},
}  # fmt: skip


def adapted(folder: Path, settings: dict[str, Any]) -> Any:
    """A PEFT model with random adapters over a tiny BERT."""
    from transformers import AutoModel

    torch.manual_seed(0)
    model = peft.get_peft_model(AutoModel.from_pretrained(folder), peft.LoraConfig(**settings))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora" in name or (settings.get("bias") == "all" and name.endswith("bias")):
                weight.normal_(std=0.3)
    return model.eval()


def load(folder: Path, **options: Any) -> Encoder:
    return Encoder.load(folder, device="cpu", **options)


@pytest.mark.parametrize("case", LORA)
def test_merged_weights_are_those_of_peft(case: str, tmp_path: Path) -> None:
    base = save_tiny(tmp_path / "base")
    model = adapted(base, LORA[case])
    model.save_pretrained(tmp_path / "adapter")
    merged = model.merge_and_unload().state_dict()
    ours = load(base, adapter=str(tmp_path / "adapter"))
    state = ours.model.state_dict()
    assert all(float((merged[name] - weight).abs().max()) < 1e-6 for name, weight in state.items())
    plain = load(base)
    assert np.abs(ours.encode(TEXTS) - plain.encode(TEXTS)).max() > 1e-2
    assert ours.hash != plain.hash and ours.config_hash == plain.config_hash


def test_the_folder_of_an_adapter_loads_with_its_base(tmp_path: Path) -> None:
    base = save_classic(tmp_path / "base", "max")
    settings = LORA["queries and values"]
    adapted(base, settings).save_pretrained(tmp_path / "adapter")
    ours = load(tmp_path / "adapter")
    assert ours.pooling_config.pooling == "max"
    assert np.array_equal(ours.encode(TEXTS), load(base, adapter=str(tmp_path / "adapter")).encode(TEXTS))


def test_a_sentence_transformer_with_an_adapter(tmp_path: Path) -> None:
    theirs = SentenceTransformer(str(save_classic(tmp_path / "base")), device="cpu")
    theirs.add_adapter(peft.LoraConfig(target_modules=["query", "dense"], r=3, lora_alpha=4))
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in theirs.named_parameters():
            if "lora" in name:
                weight.normal_(std=0.3)
    theirs.save(str(tmp_path / "saved"))
    assert not (tmp_path / "saved" / "config.json").exists()
    assert np.abs(load(tmp_path / "saved").encode(TEXTS) - theirs.encode(TEXTS)).max() < 1e-5


def with_task_adapters(folder: Path) -> tuple[Path, dict[str, torch.Tensor]]:
    """A tiny BERT whose file holds adapters of two tasks, as in Jina v3; and what task 1 adds to each weight."""
    save_tiny(folder)
    torch.manual_seed(2)
    state, stored, added = load_file(folder / "model.safetensors"), {}, {}
    for name, weight in state.items():
        stored[name] = weight
        if name.endswith(("query.weight", "word_embeddings.weight")):
            (out, width), rank = weight.shape, 2
            is_table = "embeddings" in name
            a = torch.randn(2, out, rank) if is_table else torch.randn(2, rank, width)
            b = torch.randn(2, rank, width) if is_table else torch.randn(2, out, rank)
            module = name.removesuffix(".weight")
            stored[f"{module}.parametrizations.weight.0.lora_A"] = a
            stored[f"{module}.parametrizations.weight.0.lora_B"] = b
            added[name] = (a[1] @ b[1] if is_table else b[1] @ a[1]) * 3 / rank
    save_file(stored, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    tasks = {"lora_adaptations": ["query", "passage"], "lora_rank": 2, "lora_alpha": 3}
    (folder / "config.json").write_text(json.dumps(config | tasks))
    return folder, added


def test_adapters_of_tasks(tmp_path: Path) -> None:
    folder, added = with_task_adapters(tmp_path / "model")
    before, after = load(folder).model.state_dict(), load(folder, adapter="passage").model.state_dict()
    for name, weight in before.items():
        expected = weight + added[name] if name in added else weight
        assert torch.allclose(after[name], expected, atol=1e-6), name
    with pytest.raises(ModelError, match="no adapter 'separation'; this model has query, passage"):
        load(folder, adapter="separation")


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "another kind": ({"peft_type": "IA3"}, "adapters of type IA3 are not supported; merge it"),
    "dora": ({"use_dora": True}, "an adapter with use_dora is not supported"),
    "no alpha": ({"lora_alpha": None}, "cannot be merged"),
    "another base": ({"base_model_name_or_path": ""}, "names no base model"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_cannot_be_merged_is_refused(case: str, tmp_path: Path) -> None:
    base = save_tiny(tmp_path / "base")
    adapted(base, LORA["queries and values"]).save_pretrained(tmp_path / "adapter")
    path = tmp_path / "adapter" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | BROKEN[case][0]))
    with pytest.raises(ModelError, match=BROKEN[case][1]) as raised:
        load(tmp_path / "adapter")
    assert "\n" not in str(raised.value)


def test_an_adapter_of_another_model_is_refused(tmp_path: Path) -> None:
    base, other = save_tiny(tmp_path / "base"), save_tiny(tmp_path / "other", hidden_size=8, num_attention_heads=2)
    adapted(base, LORA["queries and values"]).save_pretrained(tmp_path / "adapter")
    with pytest.raises(ModelError, match=r"cannot be merged .encoder.layer.0.attention.*has the shape"):
        load(other, adapter=str(tmp_path / "adapter"))
    with pytest.raises(ModelError, match="no adapter 'nowhere'; give a PEFT folder"):
        load(base, adapter="nowhere")
