"""A sentence-transformers folder, in the classic or the new layout, gives sentence-transformers' vectors."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling

from conftest import save_classic, save_tiny
from likewise.encoder import Encoder
from likewise.encoder.config import CLASSIC_POOLING_KEYS, read_modules_config
from likewise.encoder.pooling import ModulesConfig
from likewise.errors import ModelError, UsageError

TEXTS = [
    "A man is playing a flute.",
    "a",
    "",
    "Ünknown 日本 wörds, and 😀!",
    "the cat sat on the mat while the dog ran over the hill and the bird sang in the tree",
    "Two dogs run.",
]

tanh, identity = torch.nn.Tanh(), torch.nn.Identity()

RECIPES: dict[str, tuple[Callable[[], list[Any]], dict[str, Any]]] = {
    "mean": (lambda: [Pooling(16, "mean")], {}),
    "normalize": (lambda: [Pooling(16, "cls"), Normalize()], {}),
    "dense tanh": (lambda: [Pooling(16), Dense(16, 8, activation_function=tanh)], {}),
    "dense tanh, no bias": (lambda: [Pooling(16), Dense(16, 8, bias=False, activation_function=tanh)], {}),
    "dense identity": (lambda: [Pooling(16), Dense(16, 24, activation_function=identity), Normalize()], {}),
    "dense identity, no bias": (lambda: [Pooling(16), Dense(16, 8, bias=False, activation_function=identity)], {}),
    "two dense": (lambda: [Pooling(16), Dense(16, 12), Dense(12, 5), Normalize()], {}),
    "concatenated": (lambda: [Pooling(16, ("cls", "mean")), Normalize()], {}),
    "all poolings": (lambda: [Pooling(16, Pooling.POOLING_MODES)], {}),
    "concatenated, dense": (lambda: [Pooling(16, ("max", "mean")), Dense(32, 8)], {}),
    "prompts": (lambda: [Pooling(16)], {"prompts": {"ask": "a question is "}, "default_prompt_name": "ask"}),
    "prompts, no default": (lambda: [Pooling(16)], {"prompts": {"query": "a question is "}}),
    "prompt does not count": (
        lambda: [Pooling(16, ("cls", "mean", "weightedmean"), include_prompt=False)],
        {"prompts": {"ask": "a question is "}, "default_prompt_name": "ask"},
    ),
    "truncated": (lambda: [Pooling(16), Normalize()], {"truncate_dim": 6}),
}


def make_model(folder: Path, name: str, max_seq_length: int | None = None) -> SentenceTransformer:
    torch.manual_seed(1)
    modules, options = RECIPES[name]
    transformer = Transformer(str(folder), max_seq_length=max_seq_length)
    return SentenceTransformer(modules=[transformer, *modules()], device="cpu", **options)


def save_new(model: SentenceTransformer, folder: Path) -> Path:
    """As sentence-transformers 6 saves it."""
    model.save(str(folder), create_model_card=False)
    return folder


def save_old(model: SentenceTransformer, folder: Path) -> Path:
    """The same in the classic layout."""
    save_new(model, folder)
    modules = json.loads((folder / "modules.json").read_text())
    for module in modules:
        module["type"] = "sentence_transformers.models." + module["type"].rsplit(".", 1)[-1]
    (folder / "modules.json").write_text(json.dumps(modules))
    modes = [model[1].pooling_mode] if isinstance(model[1].pooling_mode, str) else model[1].pooling_mode
    chosen = {key: mode in modes for key, mode in CLASSIC_POOLING_KEYS.items()}
    pooling = {"word_embedding_dimension": 16, "include_prompt": model[1].include_prompt, **chosen}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    limits = {"max_seq_length": model.max_seq_length, "do_lower_case": False}
    (folder / "sentence_bert_config.json").write_text(json.dumps(limits))
    edit(folder / "tokenizer_config.json", model_max_length=64)
    return folder


LAYOUTS = {"new": save_new, "classic": save_old}


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def largest_gap(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, in units of the largest number or 1."""
    assert ours.shape == theirs.shape
    return float(np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max()))


def load(folder: Path, **options: Any) -> Encoder:
    return Encoder.load(str(folder), device="cpu", **options)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", RECIPES)
def test_vectors_equal_sentence_transformers(name: str, layout: str, tiny_folder: Path, tmp_path: Path) -> None:
    model = make_model(tiny_folder, name)
    encoder = load(LAYOUTS[layout](model, tmp_path / "saved"))
    assert largest_gap(encoder.encode(TEXTS), model.encode(TEXTS)) < 1e-6


@pytest.mark.parametrize("layout", LAYOUTS)
def test_max_seq_length(layout: str, tiny_folder: Path, tmp_path: Path) -> None:
    model = make_model(tiny_folder, "mean", max_seq_length=7)
    encoder = load(LAYOUTS[layout](model, tmp_path / "saved"))
    assert encoder.tokenizer.limit == 7
    assert largest_gap(encoder.encode(TEXTS), model.encode(TEXTS)) < 1e-6


def test_transformer_in_a_subfolder(tiny_folder: Path, tiny: Encoder, tmp_path: Path) -> None:
    inner = tmp_path / "0_Transformer"
    shutil.copytree(tiny_folder, inner)
    modules = json.loads((tiny_folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    shutil.copytree(tiny_folder / "1_Pooling", tmp_path / "1_Pooling")
    encoder = load(tmp_path)
    assert np.array_equal(encoder.encode(TEXTS), tiny.encode(TEXTS))
    assert encoder.hash == tiny.hash


def test_lower_casing(tiny_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "lower"
    shutil.copytree(tiny_folder, folder)
    edit(folder / "sentence_bert_config.json", do_lower_case=True)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["normalizer"]["lowercase"] = False
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    lower, upper = load(folder).encode(["the cat sat", "The CAT Sat"])
    assert np.array_equal(lower, upper)


def test_a_plain_folder_gets_mean_pooling_and_a_notice(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = save_tiny(tmp_path / "plain")
    with caplog.at_level(logging.INFO, logger="likewise"):
        encoder = load(folder)
    assert caplog.messages == ["plain names no pooling; mean pooling is used"]
    assert encoder.pooling_config.pooling == "mean"
    hidden = encoder.states(["A man is playing."])[0].hidden[-1]
    assert np.abs(encoder.encode("A man is playing.") - hidden.mean(0)).max() < 1e-6


def test_a_complete_folder_logs_nothing(tiny_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="likewise"):
        load(tiny_folder)
    assert caplog.messages == []


# What is refused


def test_an_unsupported_module_is_named(tmp_path: Path) -> None:
    folder = save_classic(tmp_path / "model")
    text = (folder / "modules.json").read_text().replace("models.Normalize", "models.LSTM")
    (folder / "modules.json").write_text(text)
    with pytest.raises(ModelError, match="module LSTM is not supported; supported are Transformer, Pooling, Dense"):
        load(folder)


@pytest.mark.parametrize("text", ["", "{not json", "[", '[{"path": ""}]', '"abc"', "[1]", "null"])
def test_a_corrupt_list_of_modules_is_named(text: str, tmp_path: Path) -> None:
    folder = save_classic(tmp_path / "model")
    (folder / "modules.json").write_text(text)
    with pytest.raises(ModelError, match=r"modules\.json"):
        load(folder)


def test_a_missing_pooling_config_is_named(tmp_path: Path) -> None:
    folder = save_classic(tmp_path / "model")
    (folder / "1_Pooling" / "config.json").unlink()
    with pytest.raises(ModelError, match=r"1_Pooling/config\.json cannot be read"):
        load(folder)


def test_an_unknown_pooling_is_named(tmp_path: Path) -> None:
    folder = save_classic(tmp_path / "model")
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "median"}')
    with pytest.raises(ModelError, match="unknown pooling 'median'; known are cls, max, mean"):
        load(folder)


def test_a_dense_head_in_a_pickle_needs_converting(tiny_folder: Path, tmp_path: Path) -> None:
    model = make_model(tiny_folder, "dense tanh")
    folder = save_new(model, tmp_path / "saved")
    (folder / "2_Dense" / "model.safetensors").unlink()
    torch.save(model[2].state_dict(), folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"has no model\.safetensors; run: likewise convert .*2_Dense"):
        load(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"activation_function": "torch.nn.modules.activation.Softplus"}, "Dense activation Softplus is not supported"),
        ({"use_residual": True}, "a Dense head with a residual"),
        ({"module_input_name": "token_embeddings"}, "on token vectors, is not supported"),
    ],
)
def test_strange_dense_heads_are_refused(
    changes: dict[str, Any], message: str, tiny_folder: Path, tmp_path: Path
) -> None:
    folder = save_new(make_model(tiny_folder, "dense tanh"), tmp_path / "saved")
    edit(folder / "2_Dense" / "config.json", **changes)
    with pytest.raises(ModelError, match=message):
        load(folder)


def test_modules_in_another_order_are_refused_or_run_in_their_order(tiny_folder: Path, tmp_path: Path) -> None:
    torch.manual_seed(1)
    modules = [Transformer(str(tiny_folder)), Pooling(16), Normalize(), Dense(16, 8)]
    model = SentenceTransformer(modules=modules, device="cpu")
    folder = save_new(model, tmp_path / "saved")
    try:
        encoder = load(folder)
    except ModelError:
        return
    assert largest_gap(encoder.encode(TEXTS), model.encode(TEXTS)) < 1e-6


def test_a_pooling_that_does_not_fit_the_head_names_the_cure(tiny_folder: Path, tmp_path: Path) -> None:
    encoder = load(save_new(make_model(tiny_folder, "dense tanh"), tmp_path / "saved"))
    with pytest.raises(UsageError, match=r"takes 16 dimensions, pooling 'cls\+mean' gives 32; use heads=False"):
        encoder.encode("a", pooling="cls+mean")
    assert encoder.encode("a", pooling="cls+mean", heads=False).shape == (32,)


# Prompts


def test_prompts_by_role() -> None:
    modules_config = ModulesConfig(
        prompts={"query": "q: ", "document": "d: ", "passage": "p: "}, default_prompt="passage"
    )
    assert [modules_config.prompt_for(role) for role in (None, "query", "document")] == ["p: ", "q: ", "d: "]
    assert [ModulesConfig().prompt_for(role) for role in (None, "query", "document")] == ["", "", ""]
    assert ModulesConfig(prompts={"corpus": "c: "}).prompt_for("document") == "c: "


def test_an_empty_document_prompt_gives_way_to_the_passage_prompt(tmp_path: Path) -> None:
    folder = save_classic(tmp_path / "model")
    prompts = {"query": "q: ", "document": "", "passage": "p: "}
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    modules_config = read_modules_config(folder)
    assert [modules_config.prompt_for(role) for role in (None, "query", "document")] == ["", "q: ", "p: "]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_queries_and_documents_get_their_prompts(layout: str, tiny_folder: Path, tmp_path: Path) -> None:
    model = make_model(tiny_folder, "mean")
    model.prompts = {"query": "who is ", "document": "here is "}
    encoder = load(LAYOUTS[layout](model, tmp_path / "saved"))
    assert largest_gap(encoder.encode_query(TEXTS), model.encode_query(TEXTS)) < 1e-6
    assert largest_gap(encoder.encode_document(TEXTS), model.encode_document(TEXTS)) < 1e-6
    assert np.array_equal(encoder.encode_query(["a dog"]), encoder.encode(["who is a dog"]))
    assert not np.allclose(encoder.encode_query(["a dog"]), encoder.encode(["a dog"]), atol=1e-3)


def test_an_empty_prompt_switches_the_default_one_off(tiny_folder: Path, tmp_path: Path) -> None:
    model = make_model(tiny_folder, "prompts")
    encoder = load(save_new(model, tmp_path / "saved"))
    assert largest_gap(encoder.encode(TEXTS, prompt=""), model.encode(TEXTS, prompt="")) < 1e-6
    assert np.array_equal(encoder.encode("a dog"), encoder.encode("a question is a dog", prompt=""))


# The tokenizer's own settings


def test_truncation_and_padding_stored_with_the_tokenizer_are_ignored(
    tiny_folder: Path, tiny: Encoder, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    padding = {"strategy": {"Fixed": 20}, "direction": "Right", "pad_to_multiple_of": None}
    tokenizer["padding"] = padding | {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    encoder = load(folder)
    assert [len(text) for text in encoder.tokenize(TEXTS)] == [len(text) for text in tiny.tokenize(TEXTS)]
    assert np.array_equal(encoder.encode(TEXTS), tiny.encode(TEXTS))


@pytest.mark.parametrize(
    ("file", "settings"),
    [
        ("sentence_bert_config.json", {"max_seq_length": -1}),
        ("sentence_bert_config.json", {"max_seq_length": "12"}),
        ("sentence_bert_config.json", []),
        ("1_Pooling/config.json", []),
        ("config_sentence_transformers.json", {"prompts": ["query: "]}),
        ("config_sentence_transformers.json", {"prompts": {"query": 3}}),
        ("config_sentence_transformers.json", {"truncate_dim": "8"}),
    ],
    ids=str,
)
def test_settings_of_the_wrong_kind_are_refused(file: str, settings: Any, tmp_path: Path) -> None:
    folder = save_classic(tmp_path / "model")
    (folder / file).write_text(json.dumps(settings))
    with pytest.raises(ModelError):
        Encoder.load(str(folder))
