"""Broken and hostile model folders: one line each, nothing is written, and no memory is taken by what they claim."""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import save_classic
from likewise.encoder import Encoder
from likewise.errors import LikewiseError

Breaking = Callable[[Path], None]
MOST_GROWTH = 200_000_000  # bytes


def config(**changes: Any) -> Breaking:
    """Change keys of config.json; None removes one."""

    def change(folder: Path) -> None:
        old = json.loads((folder / "config.json").read_text())
        new = {key: value for key, value in (old | changes).items() if value is not None}
        (folder / "config.json").write_text(json.dumps(new))

    return change


def text(name: str, content: str | bytes) -> Breaking:
    def write(folder: Path) -> None:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


def weights(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Breaking:
    def write(folder: Path) -> None:
        state = {name: weight.clone() for name, weight in load_file(folder / "model.safetensors").items()}
        save_file(change(state), folder / "model.safetensors")

    return write


def cut(name: str, share: float) -> Breaking:
    def write(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(len(content) * share)])

    return write


def shards(weight_map: Any) -> Breaking:
    def write(folder: Path) -> None:
        shutil.copy(folder / "model.safetensors", folder.parent / "outside.safetensors")
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))

    return write


def without(*names: str) -> Breaking:
    def remove(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return remove


def archive(folder: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("model.safetensors", "x" * 1000)
    (folder / "model.safetensors").write_bytes(packed.getvalue())


def huge_header(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes((2**62).to_bytes(8, "little") + b"{}")


def huge_tensor(folder: Path) -> None:
    """A header that claims a tensor of 4 terabytes."""
    header = {"embeddings.word_embeddings.weight": {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 4]}}
    raw = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(raw).to_bytes(8, "little") + raw + b"\0" * 4)


def first(state: dict[str, torch.Tensor]) -> str:
    return next(name for name in state if name.endswith("query.weight"))


def spoiled(value: float) -> Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]:
    def change(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        state[first(state)][1, 2] = value
        return state

    return change


def modules(*kinds: str) -> Breaking:
    listed = [{"idx": place, "name": str(place), "path": "", "type": kind} for place, kind in enumerate(kinds)]
    return text("modules.json", json.dumps(listed))


JINA = {"AutoModel": "jinaai/jina-bert-implementation--modeling_bert.JinaBertModel"}
BROKEN: dict[str, tuple[Breaking, str]] = {
    "config: none": (without("config.json"), "has no config.json with a model_type"),
    "config: not JSON": (text("config.json", "{'model_type': bert}"), "has no config.json with a model_type"),
    "config: a list": (text("config.json", "[]"), "has no config.json with a model_type"),
    "config: binary": (text("config.json", b"\xff\xfe\x00\x01"), "has no config.json with a model_type"),
    "config: no type": (config(model_type=None), "has no config.json with a model_type"),
    "config: unknown type": (config(model_type="bloom"), "model family 'bloom' is not supported"),
    "config: type is a list": (config(model_type=["bert"]), r"model family .*is not supported"),
    "config: absurd width": (config(hidden_size=10**15), "hidden_size must be at most"),
    "config: absurd vocabulary": (config(vocab_size=10**18), "vocab_size must be at most"),
    "config: absurd depth": (config(num_hidden_layers=10**9), "num_hidden_layers must be at most"),
    "config: negative": (config(intermediate_size=-4), "intermediate_size must be a whole number from 1"),
    "config: other shapes": (config(hidden_size=32), "save the model again"),
    "config: no heads": (config(num_attention_heads=0), "num_attention_heads must be a whole number from 1"),
    "config: quantized": (config(quantization_config={"quant_method": "gptq"}), "quantized weights"),
    "config: own code": (config(auto_map={"AutoModel": "x.Other"}), "has its own code"),
    "config: Jina v2": (config(auto_map=JINA), "Jina v2.*use"),
    "config: NV-Embed": (config(auto_map={"AutoModel": "modeling_nvembed.NVEmbedModel"}), "NV-Embed.*use"),
    "config: NeoBERT": (config(model_type="neobert", auto_map={"AutoModel": "model.NeoBERT"}), "NeoBERT.*use"),
    "config: auto_map is text": (config(auto_map="x.Other"), "has its own code"),
    "weights: none": (without("model.safetensors"), "has no model.safetensors"),
    "weights: empty": (text("model.safetensors", b""), "weights cannot be loaded"),
    "weights: truncated": (cut("model.safetensors", 0.6), "weights cannot be loaded"),
    "weights: truncated in the header": (cut("model.safetensors", 0.01), "weights cannot be loaded"),
    "weights: an archive": (archive, "weights cannot be loaded"),
    "weights: huge header": (huge_header, "weights cannot be loaded"),
    "weights: huge tensor": (huge_tensor, "weights cannot be loaded"),
    "weights: one missing": (
        weights(lambda state: {name: weight for name, weight in state.items() if name != first(state)}), "lacks weights"
    ),
    "weights: another shape": (weights(lambda state: state | {first(state): torch.ones(3, 5)}), "has the shape"),
    "weights: NaN": (weights(spoiled(float("nan"))), "is not finite"),
    "weights: infinite": (weights(spoiled(float("inf"))), "is not finite"),
    "weights: whole numbers": (
        weights(lambda state: {name: weight.to(torch.int8) for name, weight in state.items()}), "holds torch.int8"
    ),
    "shards: outside the folder": (shards({"a": "../outside.safetensors"}), "leaves the folder"),
    "shards: an absolute path": (shards({"a": "/etc/passwd"}), "leaves the folder"),
    "shards: missing": (shards({"a": "model-00001-of-00002.safetensors"}), "weights cannot be loaded"),
    "shards: no names": (shards([1, 2]), "lists no weights"),
    "shards: numbers": (shards({"a": 7}), "lists no weights"),
    "tokenizer: none": (without("tokenizer.json", "tokenizer_config.json"), "tokenizer"),
    "tokenizer: truncated": (cut("tokenizer.json", 0.5), "tokenizer"),
    "tokenizer: not JSON": (text("tokenizer.json", "no"), "tokenizer"),
    "modules: unknown": (modules("sentence_transformers.models.CLIPModel"), "module CLIPModel is not supported"),
    "modules: not a list": (text("modules.json", "{}"), "holds no JSON list"),
    "modules: a path outside": (
        text("modules.json", json.dumps([{"idx": 0, "path": "../..", "type": "Transformer"}])), "leaves the folder"
    ),
}  # fmt: skip


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_folder_gives_one_line(case: str, tmp_path: Path) -> None:
    folder = save_classic(tmp_path / "model")
    BROKEN[case][0](folder)
    before, memory = files_of(tmp_path), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LikewiseError, match=BROKEN[case][1]) as raised:
        Encoder.load(folder, device="cpu")
    assert "\n" not in str(raised.value)
    assert files_of(tmp_path) == before
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) * 1024 < MOST_GROWTH


def test_a_tokenizer_that_knows_more_words_than_the_model(tmp_path: Path) -> None:
    folder = save_classic(tmp_path / "model")
    weights(lambda state: state | {WORDS: state[WORDS][:20]})(folder)
    config(vocab_size=20)(folder)
    with pytest.raises(LikewiseError, match="the tokenizer does not fit the model"):
        Encoder.load(folder, device="cpu").encode("the cat sat on the mat")


WORDS = "embeddings.word_embeddings.weight"


def test_links_as_the_hub_has_them_are_fine(tmp_path: Path) -> None:
    folder = save_classic(tmp_path / "blobs")
    linked = tmp_path / "snapshot"
    for path in sorted(folder.rglob("*")):
        target = linked / path.relative_to(folder)
        if path.is_dir():
            target.mkdir(parents=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(path, target)
    assert Encoder.load(linked, device="cpu").encode("a cat").shape == (16,)


def test_an_archive_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_bytes(b"PK")
    with pytest.raises(LikewiseError, match=r"model\.zip is a file; give the folder that holds it"):
        Encoder.load(tmp_path / "model.zip")
