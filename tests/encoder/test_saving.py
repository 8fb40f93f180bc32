"""A saved encoder gives the same vectors in sentence-transformers and when it is loaded again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from transformers import AutoConfig, AutoModel, AutoTokenizer

from conftest import save_tiny, tiny_tokenizer
from likewise.encoder import Encoder, saving
from likewise.encoder.learned_pooling import LEARNED, new_learned_pooling
from likewise.encoder.pooling import Dense, ModulesConfig
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.encoder.saving import ExtraFiles, save_encoder
from likewise.errors import ModelError, UsageError
from tiny_models import EVERY, make_model, model_class

TEXTS = [
    "A man is playing a flute.",
    "a",
    "",
    "Ünknown 日本 wörds, and 😀!",
    "the cat sat on the mat while the dog ran over the hill and the bird sang in the tree",
    "Two dogs run.",
]
ASK = {"prompts": {"ask": "a question is ", "query": "who is "}, "default_prompt": "ask"}


def dense(width: int, out: int, activation: str = "Tanh", bias: bool = True) -> Dense:
    torch.manual_seed(width + out)
    return Dense(torch.randn(out, width) / 4, torch.randn(out) if bias else None, activation)


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "mean": ({}, {"pooling": "mean"}),
    "cls": ({}, {"pooling": "cls"}),
    "max": ({}, {"pooling": "max"}),
    "last": ({}, {"pooling": "last"}),
    "weighted": ({}, {"pooling": "weighted"}),
    "mean-sqrt-len": ({}, {"pooling": "mean-sqrt-len"}),
    "mean+cls": ({}, {"pooling": "mean+cls"}),
    "cls+mean": ({}, {"pooling": "cls+mean"}),
    "mean+mean": ({}, {"pooling": "mean+mean"}),
    "no normalize": ({"normalizes": False}, {}),
    "normalize off": ({}, {"normalize": False}),
    "dense": ({"heads": (dense(16, 8),)}, {}),
    "dense identity, no bias": ({"heads": (dense(16, 24, "Identity", bias=False),)}, {}),
    "two dense": ({"heads": (dense(16, 12, "GELU"), dense(12, 5, "ReLU")), "normalizes": False}, {}),
    "joined, dense": ({"heads": (dense(32, 8, "Sigmoid"),)}, {"pooling": "mean+max"}),
    "prompts": (ASK, {}),
    "prompt does not count": (ASK | {"include_prompt": False}, {"pooling": "weighted"}),
    "default prompt without a text": ({"default_prompt": "nothing"}, {}),
    "truncated": ({}, {"truncate_dim": 6}),
    "lower": ({"lower": True}, {}),
    "last layer by number": ({}, {"layer": [2, -1]}),
}


def case(tiny: Encoder, name: str) -> Encoder:
    modules_config, pooling_config = CASES[name]
    return replace(tiny, modules_config=replace(tiny.modules_config, **modules_config)).with_pooling(**pooling_config)


def load(folder: Path) -> Encoder:
    return Encoder.load(folder, device="cpu")


def largest_gap(ours: Any, theirs: Any) -> float:
    assert ours.shape == theirs.shape
    return float(np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max()))


@pytest.mark.parametrize("name", CASES)
def test_saved_vectors_are_the_same_everywhere(name: str, tiny: Encoder, tmp_path: Path) -> None:
    encoder = case(tiny, name)
    folder = save_encoder(encoder, tmp_path / "saved")
    again = load(folder)
    assert np.array_equal(again.encode(TEXTS), encoder.encode(TEXTS))
    assert np.array_equal(again.encode_query(TEXTS), encoder.encode_query(TEXTS))
    assert again.tokenizer.limit == encoder.tokenizer.limit
    theirs = SentenceTransformer(str(folder), device="cpu")
    assert largest_gap(encoder.encode(TEXTS), theirs.encode(TEXTS)) < 1e-6
    assert theirs.similarity_fn_name == "cosine"


@pytest.mark.parametrize("normalizes", [True, False])
def test_unit_vectors_that_were_asked_for(normalizes: bool, tiny: Encoder, tmp_path: Path) -> None:
    encoder = replace(tiny, modules_config=replace(tiny.modules_config, normalizes=normalizes)).with_pooling(
        normalize=True
    )
    folder = save_encoder(encoder, tmp_path / "saved")
    for found in (load(folder), SentenceTransformer(str(folder), device="cpu")):
        assert largest_gap(encoder.encode(TEXTS), found.encode(TEXTS)) < 1e-6


@pytest.mark.slow
def test_the_bundled_model(minilm: Encoder, tmp_path: Path) -> None:
    folder = save_encoder(minilm, tmp_path / "saved")
    assert np.array_equal(load(folder).encode(TEXTS), minilm.encode(TEXTS))
    theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    assert largest_gap(minilm.encode(TEXTS), theirs) < 1e-6


def test_trained_weights_are_written(tiny_folder: Path, tmp_path: Path) -> None:
    encoder = load(tiny_folder)
    before = encoder.encode(TEXTS)
    with torch.no_grad():
        for weight in encoder.model.parameters():
            weight.add_(0.01 * torch.ones_like(weight))
    again = load(save_encoder(encoder, tmp_path / "saved"))
    assert np.array_equal(again.encode(TEXTS), encoder.encode(TEXTS))
    assert not np.allclose(again.encode(TEXTS), before, atol=1e-4)


def test_a_sentence_transformer_from_memory(tiny_folder: Path, tmp_path: Path) -> None:
    encoder = Encoder.from_sentence_transformer(SentenceTransformer(str(tiny_folder), device="cpu"))
    assert np.array_equal(load(save_encoder(encoder, tmp_path / "saved")).encode(TEXTS), encoder.encode(TEXTS))


def test_saving_changes_nothing_and_is_silent(tiny: Encoder, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = tiny.hash, tiny.config_hash, tiny.heads_hash
    save_encoder(tiny, tmp_path / "saved")
    assert (tiny.hash, tiny.config_hash, tiny.heads_hash) == before
    assert tuple(capfd.readouterr()) == ("", "")


def test_safetensors_only_and_no_draft_is_left(tiny: Encoder, tmp_path: Path) -> None:
    folder = save_encoder(tiny, tmp_path / "deep" / "saved", card="# A model\n")
    assert [path.name for path in folder.parent.iterdir()] == ["saved"]
    assert not list(folder.rglob("*.bin"))
    assert (folder / "README.md").read_text() == "# A model\n"
    assert not (folder / "likewise.json").exists()


def test_a_pooler_that_is_random_is_not_written(tmp_path: Path) -> None:
    plain = save_tiny(tmp_path / "plain")
    state = {name: weight for name, weight in load_file(plain / "model.safetensors").items() if "pooler" not in name}
    save_file(state, plain / "model.safetensors", metadata={"format": "pt"})
    encoder = load(plain)
    again = load(save_encoder(encoder, tmp_path / "saved"))
    assert encoder.model_view.pooler is None and again.model_view.pooler is None
    assert np.array_equal(again.encode(TEXTS), encoder.encode(TEXTS))


def family_folder(name: str, folder: Path) -> Path:
    """A tiny folder of a family, as transformers saves it."""
    words = tiny_tokenizer()
    make_model(name, 0, vocab_size=len(words)).float().save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("memory", [False, True], ids=["from a folder", "from memory"])
@pytest.mark.parametrize("name", EVERY)
def test_every_family_opens_in_transformers(name: str, memory: bool, tmp_path: Path) -> None:
    first = family_folder(name, tmp_path / "first")
    encoder = load(first)
    if memory:
        encoder = Encoder.from_sentence_transformer(SentenceTransformer(str(first), device="cpu"))
    with torch.no_grad():
        for weight in encoder.model.parameters():
            weight.mul_(1.01)
    folder = save_encoder(encoder, tmp_path / "saved")
    kind = model_class(AutoConfig.from_pretrained(first))
    theirs, source = kind.from_pretrained(folder), kind.from_pretrained(first)
    state = encoder.model.state_dict()
    tied = {"encoder.embed_tokens.weight": "shared.weight"}
    assert all(torch.equal(weight, state[tied.get(key, key)]) for key, weight in theirs.state_dict().items())
    left, right = theirs.config.to_dict(), source.config.to_dict()
    # In memory sentence-transformers has switched the cache off, and set the tokenizer's limit.
    changed = {key for key in left.keys() | right.keys() if left.get(key) != right.get(key)}
    assert changed <= {"_name_or_path", *(["use_cache"] if memory else [])}
    words, known = AutoTokenizer.from_pretrained(folder), AutoTokenizer.from_pretrained(first)
    assert words(TEXTS)["input_ids"] == known(TEXTS)["input_ids"]
    assert words.special_tokens_map == known.special_tokens_map
    assert memory or words.model_max_length == known.model_max_length
    assert np.array_equal(load(folder).encode(TEXTS), encoder.encode(TEXTS))
    assert load(folder).config_hash == encoder.config_hash
    # Some families take this tokenizer's [UNK] for padding, by its id.
    texts = [text for text in TEXTS if 1 not in words(text)["input_ids"]]
    if name == "qwen2":
        # Transformers makes a tokenizer of its own kind from any file; both agree on these.
        texts = [text for text in texts if words(text)["input_ids"] == encoder.tokenizer.ids([text])[0][0]]
    assert len(texts) > (1 if name == "qwen2" else 3)
    assert largest_gap(encoder.encode(texts), SentenceTransformer(str(folder), device="cpu").encode(texts)) < 1e-5


def test_half_precision_is_saved_as_it_is(tiny_folder: Path, tmp_path: Path) -> None:
    folder = save_encoder(Encoder.load(tiny_folder, device="cpu", dtype="bfloat16"), tmp_path / "saved")
    assert {weight.dtype for weight in load_file(folder / "model.safetensors").values()} == {torch.bfloat16}
    assert AutoModel.from_pretrained(folder).dtype == torch.bfloat16


# A folder that is there already


def test_other_files_stay_and_a_former_model_goes(tiny: Encoder, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    learned = tiny.with_learned_pooling(new_learned_pooling("qkv", 16))
    save_encoder(learned, folder, card="old")
    (folder / "report").mkdir()
    (folder / "report" / "report.json").write_text("{}")
    (folder / "model-00001-of-00002.safetensors").write_text("of another model")
    save_encoder(case(tiny, "dense"), folder)
    assert np.array_equal(load(folder).encode(TEXTS), case(tiny, "dense").encode(TEXTS))
    assert (folder / "report" / "report.json").read_text() == "{}"
    assert (folder / "README.md").read_text() == "old"
    names = {path.name for path in folder.iterdir()}
    assert not names & {"likewise.json", "head.safetensors", "model-00001-of-00002.safetensors"}
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_saved_over_the_folder_that_it_came_from(tiny_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    encoder = load(folder)
    before = encoder.encode(TEXTS)
    save_encoder(encoder, folder)
    assert np.array_equal(encoder.encode(TEXTS), before)
    assert np.array_equal(load(folder).encode(TEXTS), before)


@pytest.mark.parametrize("there", [True, False])
def test_a_break_while_writing_leaves_what_was(
    there: bool, tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "saved"
    if there:
        save_encoder(tiny, folder)

    def broken(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(saving, "_write_pooling", broken)
    with pytest.raises(KeyboardInterrupt):
        save_encoder(case(tiny, "cls"), folder)
    assert [path.name for path in tmp_path.iterdir()] == (["saved"] if there else [])
    if there:
        assert np.array_equal(load(folder).encode(TEXTS), tiny.encode(TEXTS))


def test_a_break_while_moving_leaves_no_half_model(
    tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_encoder(tiny, tmp_path / "saved")
    left, plain = [0], Path.replace

    def breaking(self: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return plain(self, target)

    monkeypatch.setattr(Path, "replace", breaking)
    for moves in range(8):
        left[0] = moves
        with pytest.raises(KeyboardInterrupt):
            save_encoder(case(tiny, "dense"), folder)
        with pytest.raises(ModelError):
            load(folder)
        assert not (folder / "config.json").exists()
    monkeypatch.undo()
    save_encoder(case(tiny, "dense"), folder)
    assert np.array_equal(load(folder).encode(TEXTS), case(tiny, "dense").encode(TEXTS))


def test_a_place_that_cannot_be_written(tiny: Encoder, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file is a file; give the name of a folder"):
        save_encoder(tiny, tmp_path / "file")
    with pytest.raises(UsageError, match=r"cannot be written to .*; give another folder"):
        save_encoder(tiny, tmp_path / "file" / "inner")
    assert (tmp_path / "file").read_text() == ""


# What a folder cannot say


@pytest.mark.parametrize(
    ("pooling_config", "message"),
    [
        ({"layer": 1}, "pools its last layer, not 1; save it with layer=-1"),
        ({"layer": "first-last"}, "pools its last layer, not 'first-last'; save it with layer=-1"),
        ({"special_tokens": False}, "a saved model pools special tokens; save it with special_tokens=True"),
        ({"heads": False}, "uses its dense heads; save it with heads=True"),
        ({"pooling": "pooler", "heads": True}, "has no pooling 'pooler'; save it with one of cls, max, mean"),
        ({"normalize": True, "truncate_dim": 4}, "leave out truncate_dim or normalize"),
    ],
    ids=str,
)
def test_readings_that_are_refused(pooling_config: dict[str, Any], message: str, tiny: Encoder, tmp_path: Path) -> None:
    encoder = case(tiny, "dense").with_pooling(**pooling_config)
    with pytest.raises(UsageError, match=message) as raised:
        save_encoder(encoder, tmp_path / "saved")
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_postprocessing_and_odd_poolings_are_refused(tiny: Encoder, tmp_path: Path) -> None:
    fitted = tiny.with_postprocessing(fit_postprocessing("whitening", tiny.encode(TEXTS), 3))
    with pytest.raises(UsageError, match="post-processing is not part of a saved model; save it to its own file"):
        save_encoder(fitted, tmp_path / "saved")
    learned = tiny.with_learned_pooling(new_learned_pooling("qkv", 16))
    with pytest.raises(UsageError, match=r"no pooling 'mean\+qkv'; save it with one of .*, or qkv alone"):
        save_encoder(learned.with_pooling(pooling="mean+qkv"), tmp_path / "saved")
    wide = replace(tiny, modules_config=replace(tiny.modules_config, heads=(dense(24, 8),)))
    wide = wide.with_learned_pooling(new_learned_pooling("bilstm", 16, hidden=12))
    with pytest.raises(UsageError, match="16 dimensions to the dense head, which takes 24; use a bilstm"):
        save_encoder(wide, tmp_path / "saved")


# A learned pooling


@pytest.fixture(params=[("qkv", None), ("bilstm", None), ("bilstm", 5)], ids=str)
def learned(request: pytest.FixtureRequest, tiny: Encoder) -> Encoder:
    kind, hidden = request.param
    return tiny.with_learned_pooling(new_learned_pooling(kind, 16, hidden, seed=2))


def test_a_learned_pooling_is_read_back(learned: Encoder, tiny: Encoder, tmp_path: Path) -> None:
    folder = save_encoder(learned, tmp_path / "saved")
    again = load(folder)
    assert again.pooling_config.pooling == again.modules_config.pooling == learned.pooling_config.pooling
    assert np.array_equal(again.encode(TEXTS), learned.encode(TEXTS))
    assert again.heads_hash == learned.heads_hash
    assert np.array_equal(again.encode(TEXTS, pooling="mean"), tiny.encode(TEXTS))
    theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    assert largest_gap(tiny.encode(TEXTS), theirs) < 1e-6, "mean pooling there"


def test_what_is_written(tiny: Encoder, tmp_path: Path) -> None:
    folder = save_encoder(tiny.with_learned_pooling(new_learned_pooling("bilstm", 16, 5)), tmp_path / "saved")
    settings = json.loads((folder / "likewise.json").read_text())
    assert settings == {"format": 1, "pooling": {"kind": "bilstm", "width": 16, "hidden": 5}}
    assert all(name.startswith("pooling.lstm.") for name in load_file(folder / "head.safetensors"))


def test_heads_after_a_learned_pooling(tiny: Encoder, tmp_path: Path) -> None:
    for kind in LEARNED:
        encoder = case(tiny, "dense").with_learned_pooling(new_learned_pooling(kind, 16))
        folder = save_encoder(encoder, tmp_path / kind)
        assert np.array_equal(load(folder).encode(TEXTS), encoder.encode(TEXTS))
        assert SentenceTransformer(str(folder), device="cpu").encode(TEXTS).shape == (len(TEXTS), 8)


def test_a_learned_pooling_that_is_not_read_is_left_out(learned: Encoder, tmp_path: Path) -> None:
    folder = save_encoder(learned.with_pooling(pooling="mean"), tmp_path / "saved")
    assert not (folder / "likewise.json").exists()
    assert load(folder).modules_config.learned is None


def test_strangers_beside_the_own_settings_do_not_matter(learned: Encoder, tmp_path: Path) -> None:
    folder = save_encoder(learned, tmp_path / "saved")
    settings = json.loads((folder / "likewise.json").read_text())
    (folder / "likewise.json").write_text(json.dumps(settings | {"tasks": ["nli"]}))
    state = load_file(folder / "head.safetensors")
    save_file(state | {"tasks.nli.weight": torch.ones(3)}, folder / "head.safetensors")
    assert np.array_equal(load(folder).encode(TEXTS), learned.encode(TEXTS))


def test_what_others_write_beside_it(learned: Encoder, tiny: Encoder, tmp_path: Path) -> None:
    head = torch.arange(6.0)
    extra = ExtraFiles({"train": {"seed": 1}}, {"heads.a": head, "heads.b": head})
    for encoder, name in ((learned, "learned"), (tiny, "plain")):
        folder = save_encoder(encoder, tmp_path / name, extra=extra)
        assert np.array_equal(load(folder).encode(TEXTS), encoder.encode(TEXTS))
        settings, weights = json.loads((folder / "likewise.json").read_text()), load_file(folder / "head.safetensors")
        assert settings["format"] == 1 and settings["train"] == {"seed": 1}
        assert ("pooling" in settings) == any(key.startswith("pooling.") for key in weights) == (encoder is learned)
        assert torch.equal(weights["heads.a"], head) and torch.equal(weights["heads.b"], head)


def test_settings_without_a_pooling(tiny: Encoder, tmp_path: Path) -> None:
    folder = save_encoder(tiny, tmp_path / "saved")
    (folder / "likewise.json").write_text('{"format": 1, "tasks": []}')
    assert np.array_equal(load(folder).encode(TEXTS), tiny.encode(TEXTS))


QKV = {"kind": "qkv", "width": 16, "hidden": None}


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "null", "[]", '"qkv"', "{}", "\x00", '{"format": 2}', '{"format": "1"}', {"pooling": QKV},
        {"format": 1, "pooling": None}, {"format": 1, "pooling": "qkv"}, {"format": 1, "pooling": [QKV]},
        {"format": 1, "pooling": {}}, {"format": 1, "pooling": QKV | {"kind": "gru"}},
        {"format": 1, "pooling": QKV | {"width": 8}}, {"format": 1, "pooling": QKV | {"width": 10**15}},
        {"format": 1, "pooling": QKV | {"width": "16"}}, {"format": 1, "pooling": {"kind": "bilstm", "width": 16}},
        {"format": 1, "pooling": {"kind": "bilstm", "width": 16, "hidden": 8}},
    ],
    ids=str,
)  # fmt: skip
def test_hostile_settings_are_refused_in_one_line(content: Any, tiny: Encoder, tmp_path: Path) -> None:
    folder = save_encoder(tiny.with_learned_pooling(new_learned_pooling("qkv", 16)), tmp_path / "saved")
    (folder / "likewise.json").write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ModelError, match=r"likewise\.json") as raised:
        load(folder)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("harm", ["missing", "empty", "noise", "cut", "no tensors", "other tensors", "integers"])
def test_hostile_weights_are_refused_in_one_line(harm: str, tiny: Encoder, tmp_path: Path) -> None:
    folder = save_encoder(tiny.with_learned_pooling(new_learned_pooling("qkv", 16)), tmp_path / "saved")
    path = folder / "head.safetensors"
    state, whole = load_file(path), path.read_bytes()
    path.unlink()
    if harm in ("empty", "noise", "cut"):
        path.write_bytes({"empty": b"", "noise": bytes(range(256)), "cut": whole[:-9]}[harm])
    tensors = {
        "no tensors": {"tasks.nli": torch.ones(2)},
        "other tensors": {"pooling.query": state["pooling.query"]},
        "integers": {name: weight.int() for name, weight in state.items()},
    }
    if harm in tensors:
        save_file(tensors[harm], path)
    with pytest.raises(ModelError, match=r"save the model again") as raised:
        load(folder)
    assert "\n" not in str(raised.value)


def test_a_pooling_of_another_model_is_refused(tiny: Encoder, tmp_path: Path) -> None:
    folder = save_encoder(tiny.with_learned_pooling(new_learned_pooling("qkv", 16)), tmp_path / "saved")
    module = new_learned_pooling("qkv", 12)
    save_file({f"pooling.{name}": weight for name, weight in module.state_dict().items()}, folder / "head.safetensors")
    (folder / "likewise.json").write_text(json.dumps({"format": 1, "pooling": QKV | {"width": 12}}))
    with pytest.raises(ModelError, match=r"takes 12 dimensions, but .* has 16"):
        load(folder)


def test_a_plain_folder_may_tell_of_a_pooling_too(
    tiny: Encoder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saved = save_encoder(tiny.with_learned_pooling(new_learned_pooling("qkv", 16)), tmp_path / "saved")
    for name in ("modules.json", "config_sentence_transformers.json"):
        (saved / name).unlink()
    assert load(saved).pooling_config.pooling == "qkv"
    assert not caplog.messages


def test_recipes_without_a_learned_pooling_are_equal() -> None:
    assert ModulesConfig().learned is None and ModulesConfig() == ModulesConfig()
