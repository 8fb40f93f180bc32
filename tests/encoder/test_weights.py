"""Weights on disk: conversion without running code, refusal of what is missing, hashes that are remembered."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertModel

from likewise.encoder import Encoder
from likewise.encoder.weights import convert, tensors_hash, weight_files, weights_hash, write_tensors
from likewise.errors import ModelError
from twins import twin_model

TEXTS = ["A man is playing a flute.", "a", "Two dogs run."]


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model to spoil."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "model"))


def to_pickle(folder: Path, change: Callable[[dict[str, Any]], Any] = dict) -> Path:
    """Replace a folder's safetensors by an old pytorch_model.bin."""
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(change(state), folder / "pytorch_model.bin")
    return folder


def drop(folder: Path, prefix: str) -> None:
    """Take the tensors of a prefix out of a folder's safetensors."""
    state = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in state.items() if not name.startswith(prefix)}
    assert len(kept) < len(state)
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


class Code:
    """A pickle of this makes a file when it is opened."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self.marker,)


# Converting


@pytest.mark.parametrize("change", [dict, lambda state: {"state_dict": state}], ids=["plain", "in a checkpoint"])
def test_converted_weights_give_the_same_vectors(change: Any, folder: Path, tiny: Encoder) -> None:
    to_pickle(folder, change)
    assert convert(folder) == [folder / "model.safetensors"]
    assert (folder / "pytorch_model.bin").exists(), "the old file must stay"
    assert np.array_equal(Encoder.load(str(folder), device="cpu").encode(TEXTS), tiny.encode(TEXTS))


def test_heads_are_converted_too(folder: Path) -> None:
    head = folder / "2_Dense"
    head.mkdir()
    torch.save({"linear.weight": torch.ones(4, 16)}, head / "pytorch_model.bin")
    assert convert(folder) == [head / "model.safetensors"]
    assert torch.equal(load_file(head / "model.safetensors")["linear.weight"], torch.ones(4, 16))


def test_tied_weights_are_converted(tmp_path: Path) -> None:
    shared = torch.randn(3, 4)
    torch.save({"first": shared, "second": shared.T}, tmp_path / "pytorch_model.bin")
    convert(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert torch.equal(stored["first"], shared) and torch.equal(stored["second"], shared.T)


@pytest.mark.parametrize("kind", ["torch", "pickle", "beside tensors"])
def test_code_in_a_pickle_never_runs(kind: str, tmp_path: Path) -> None:
    marker, path = tmp_path / "ran", tmp_path / "pytorch_model.bin"
    if kind == "pickle":
        path.write_bytes(pickle.dumps(Code(marker)))
    else:
        torch.save(Code(marker) if kind == "torch" else {"weight": torch.ones(2), "code": Code(marker)}, path)
    with pytest.raises(ModelError, match=r"pytorch_model\.bin is not a plain file of weights; it is not opened"):
        convert(tmp_path)
    assert not marker.exists()
    assert not (tmp_path / "model.safetensors").exists()


def test_the_pickle_of_that_test_would_have_run(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Code(tmp_path / "ran")))
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [[torch.ones(2)], {"weight": torch.ones(2), "epoch": 3}])
def test_only_named_tensors_are_converted(content: Any, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="holds more than named tensors; only a plain state dict can be converted"):
        convert(tmp_path)


def test_nothing_to_convert(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"has no pytorch_model\.bin; there is nothing to convert"):
        convert(folder)


def test_converting_needs_a_folder(folder: Path) -> None:
    for path in (folder / "config.json", folder / "nowhere"):
        with pytest.raises(ModelError, match="is not a folder; give the folder of a saved model"):
            convert(path)


# Loading


def test_a_pickle_is_not_loaded(folder: Path) -> None:
    to_pickle(folder)
    with pytest.raises(ModelError) as raised:
        Encoder.load(str(folder))
    assert str(raised.value) == (
        f"{folder} holds only pytorch_model.bin, which is not loaded; run: likewise convert {folder}"
    )


def test_a_folder_without_weights_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has no model\.safetensors; give the folder of a saved model"):
        Encoder.load(str(folder))


def test_missing_weights_are_refused(folder: Path) -> None:
    drop(folder, "encoder.layer.0.output.dense")
    message = r"lacks weights, encoder\.layer\.0\.output\.dense\.bias among 2; save the model again"
    with pytest.raises(ModelError, match=message):
        Encoder.load(str(folder))


def test_a_missing_pooler_is_only_refused_where_it_is_read(folder: Path, tiny: Encoder) -> None:
    drop(folder, "pooler")
    encoder = Encoder.load(str(folder), device="cpu")
    assert np.array_equal(encoder.encode(TEXTS), tiny.encode(TEXTS))
    with pytest.raises(ModelError, match="has no pooler; choose from cls, last, max, mean"):
        encoder.encode(TEXTS, pooling="pooler")
    with pytest.raises(ModelError, match="has no pooler"):
        Encoder.load(str(folder), pooling="pooler")
    assert tiny.encode(TEXTS, pooling="pooler").shape == (3, 16)


@pytest.mark.parametrize("size", [0, 5, 500, 20_000])
def test_a_cut_weights_file_is_refused(size: int, folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ModelError, match="cannot be loaded"):
        Encoder.load(str(folder))


@pytest.mark.parametrize("text", ["", "{not json", "[]", "{}"])
def test_a_bad_config_is_refused(text: str, folder: Path) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"has no config\.json with a model_type"):
        Encoder.load(str(folder))


def test_an_unknown_family_is_told_before_its_weights_load(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "no-such-family"}')
    (folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="'no-such-family' is not supported; supported are albert, bert"):
        Encoder.load(str(folder))


def test_converting_overwrites_nothing(tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(2)}, tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").write_bytes(b"precious")
    with pytest.raises(ModelError, match="exists already; remove it"):
        convert(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == b"precious"


def test_an_empty_pickle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(ModelError, match="not a plain file of weights"):
        convert(tmp_path)


@pytest.mark.parametrize("index", ["{}", "[]", "{", '{"weight_map": 3}'])
def test_a_broken_list_of_shards_is_refused(index: str, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ModelError, match="lists no weights"):
        Encoder.load(str(folder))


def test_the_hash_follows_trained_weights(folder: Path) -> None:
    encoder = Encoder.load(folder, device="cpu")
    before = encoder.hash
    with torch.no_grad():
        next(encoder.model.parameters()).mul_(2)
    assert encoder.hash != before == Encoder.load(folder, device="cpu").hash


def test_half_precision_on_disk_loads_as_float32(folder: Path, tiny: Encoder) -> None:
    BertModel.from_pretrained(folder).half().save_pretrained(folder)
    assert load_file(folder / "model.safetensors")["pooler.dense.weight"].dtype == torch.float16
    encoder = Encoder.load(str(folder), device="cpu")
    assert {weight.dtype for weight in encoder.model.parameters()} == {torch.float32}
    gap = np.abs(encoder.encode(TEXTS) - tiny.encode(TEXTS)).max()
    assert 0 < gap < 5e-3


def test_shards_load_and_hash(folder: Path, tiny: Encoder) -> None:
    (folder / "model.safetensors").unlink()
    twin_model(tiny).save_pretrained(folder, max_shard_size="10KB")
    shards = weight_files(folder)
    assert len(shards) > 1 and not (folder / "model.safetensors").exists()
    encoder = Encoder.load(str(folder), device="cpu")
    assert np.array_equal(encoder.encode(TEXTS), tiny.encode(TEXTS))
    assert encoder.hash == encoder.hash.lower() and len(encoder.hash) == 64
    before = weights_hash(folder)
    state = load_file(shards[-1])
    save_file({name: tensor + 1 for name, tensor in state.items()}, shards[-1], metadata={"format": "pt"})
    os.utime(shards[-1], ns=(1, 1))
    assert weights_hash(folder) != before


def test_no_code_from_a_folder_is_trusted(folder: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    (folder / "modeling_own.py").write_text(f"open({str(marker)!r}, 'w')\n")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "modeling_own.C", "AutoModel": "modeling_own.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="this own model has its own code"):
        Encoder.load(str(folder))
    assert not marker.exists()


# Hashes


def test_the_hash_is_the_files_own(folder: Path) -> None:
    assert weights_hash(folder) == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def test_the_hash_is_remembered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> Any:
        raise AssertionError("the file was read again")

    before = weights_hash(folder)
    monkeypatch.setattr("likewise.encoder.weights.file_hash", refuse)
    assert weights_hash(folder) == before
    os.utime(folder / "model.safetensors", ns=(1, 1))
    with pytest.raises(AssertionError, match="read again"):
        weights_hash(folder)


def test_the_hash_changes_with_the_file(folder: Path) -> None:
    before = weights_hash(folder)
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))
    assert weights_hash(folder) != before


def test_a_cache_that_cannot_be_written_is_no_error(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("LIKEWISE_CACHE", str(blocked))
    assert len(weights_hash(folder)) == 64


def test_the_hash_of_tensors_sees_names_and_values() -> None:
    tensors = {"a": torch.ones(2), "b": torch.zeros(3)}
    assert tensors_hash(tensors) == tensors_hash(dict(reversed(tensors.items())))
    assert tensors_hash(tensors) != tensors_hash({"a": torch.ones(2), "c": torch.zeros(3)})
    assert tensors_hash(tensors) != tensors_hash({"a": torch.ones(2), "b": torch.tensor([0, 0, 1e-30])})
    assert len(tensors_hash({"half": torch.ones(2, dtype=torch.bfloat16)})) == 64


@pytest.mark.process
def test_several_threads_may_load_at_once_in_a_new_process(folder: Path) -> None:
    program = """
import sys, threading
from likewise.encoder import Encoder
loaded = []
threads = [threading.Thread(target=lambda: loaded.append(Encoder.load(sys.argv[1], threads=1))) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(loaded))
"""
    done = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("4\n", "")


def test_tensors_that_cannot_be_written_are_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"weights\.safetensors"):
        write_tensors(tmp_path / "none" / "weights.safetensors", {"a": torch.zeros(2)})
