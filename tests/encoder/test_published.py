"""The file of published models: its form, its short names, and the page and the table that are made from it."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from likewise.encoder import Encoder, weights
from likewise.encoder.families import FAMILIES
from likewise.encoder.published import FILE, KINDS, PublishedModel, published_models, short_names

MODELS = published_models()
KNOWN_FAMILIES = {
    "bert", "roberta", "xlm-roberta", "distilbert", "mpnet", "albert", "electra", "camembert", "modernbert",
    "nomic_bert", "gte", "eurobert", "llama", "mistral", "qwen2", "qwen3", "gemma3_text", "embedding_gemma2", "t5",
    "mt5", "deberta-v2", "jina_embeddings_v3", "gpt_neo", "StaticEmbedding",
}  # fmt: skip
TYPES = {
    "name": str, "short": str, "kind": str, "family": str, "dimensions": int, "limit": int, "prompts": dict,
    "licence": str, "own_code": bool, "loads": bool, "instead": str, "source": list,
}  # fmt: skip
REQUIRED = {"name", "kind", "own_code", "loads", "source"}
HUB_ID = re.compile(r"[\w.-]+/[\w.-]*\w")


def entries() -> list[dict[str, Any]]:
    return list(json.loads(FILE.read_text(encoding="utf-8")))


def test_the_fields_of_an_entry_are_those_of_the_class() -> None:
    assert TYPES.keys() == {field.name for field in fields(PublishedModel)}


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry["name"])
def test_an_entry_has_the_right_types(entry: dict[str, Any]) -> None:
    assert entry.keys() >= REQUIRED and entry.keys() <= TYPES.keys()
    assert {name: type(value) for name, value in entry.items()} == {name: TYPES[name] for name in entry}
    assert HUB_ID.fullmatch(entry["name"]) and entry["kind"] in KINDS
    assert all(entry.get(size, 1) > 0 for size in ("dimensions", "limit"))
    assert all(isinstance(text, str) and text for pair in entry.get("prompts", {}).items() for text in pair)
    assert entry["source"] and all(re.fullmatch(r"https://\S+", address) for address in entry["source"])


def test_names_and_short_names_are_unique() -> None:
    names = [model.name.lower() for model in MODELS]
    shorts = [model.short.lower() for model in MODELS if model.short]
    assert len(set(names)) == len(names) and len(set(shorts)) == len(shorts)


def test_a_short_name_is_no_hub_id_and_not_the_bundled_model() -> None:
    assert not [short for short in short_names() if "/" in short or short == weights.BUNDLED]


@pytest.mark.parametrize("model", [model for model in MODELS if model.loads], ids=lambda model: model.name)
def test_a_model_that_loads_is_of_a_known_family(model: PublishedModel) -> None:
    assert model.family in KNOWN_FAMILIES | FAMILIES.keys()
    assert (model.family == "StaticEmbedding") == (model.kind == "static")
    assert model.instead is None


@pytest.mark.parametrize("model", [model for model in MODELS if not model.loads], ids=lambda model: model.name)
def test_a_model_that_does_not_load_names_one_that_does(model: PublishedModel) -> None:
    assert model.short is None and model.instead
    first = HUB_ID.search(model.instead)
    other = next((other for other in MODELS if first and other.name == first[0]), None)
    assert other is not None and other.loads and other.kind == model.kind


@pytest.mark.parametrize("short", ["bge-m3", "SGPT-125M", "gte-multilingual-base"])
def test_a_short_name_finds_its_model(
    short: str, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub's cache holds the model under its full name only."""
    place = tmp_path / f"models--{short_names()[short].replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("1" * 40)
    (place / "snapshots").mkdir()
    (place / "snapshots" / ("1" * 40)).symlink_to(tiny_folder, target_is_directory=True)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert Encoder.load(short, device="cpu").name == short


def test_the_table_shows_what_loads() -> None:
    table = weights.Catalogue().tables()["short_names"]
    assert table.headings == ["short name", "hub id", "kind", "family", "dimensions", "limit", "licence"]
    assert [row[1] for row in table.rows] == [model.name for model in MODELS if model.loads]
    assert ("bge-m3", "BAAI/bge-m3", "embedding", "xlm-roberta", 1024, 8192, "MIT") in table.rows


def test_the_document_holds_every_entry() -> None:
    document = weights.Catalogue().to_dict()
    assert document["short_names"] == short_names()
    assert [entry["name"] for entry in document["published"]] == [model.name for model in MODELS]
    assert "intfloat/e5-mistral-7b-instruct" in json.dumps(document)


def test_a_folder_loads_without_the_file(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only names of the hub need it, so that other commands start as fast as before."""
    monkeypatch.setattr("likewise.encoder.published.FILE", Path("absent.json"))
    published_models.cache_clear()
    short_names.cache_clear()
    assert weights.locate(str(tiny_folder)) == tiny_folder
    with pytest.raises(FileNotFoundError):
        published_models()
