"""Model configs: ``config.json`` with the defaults of its family, and the modules of a sentence-transformers folder.

The keys and defaults of ``config.json`` are those of Hugging Face's config classes; tests compare them. Unsupported
settings are rejected. Modules are read in the classic layout and in that of sentence-transformers 6; a folder without
modules gets mean pooling. ``likewise.json`` holds a learned pooling, if there is one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from likewise.encoder.families import FAMILIES, LAYOUTS
from likewise.encoder.learned_pooling import LearnedPooling, learned_from
from likewise.encoder.model_view import Config
from likewise.encoder.pooling import HEAD_ACTIVATIONS, Dense, ModulesConfig
from likewise.errors import ModelError, first_line

CONFIG = "config.json"
PIPELINE = "config_sentence_transformers.json"
ONNX_FILE = "model.onnx"
CROSS_ENCODER = "CrossEncoder"  # The class of sentence-transformers, as its folders name it
CLASSIFIER = "ForSequenceClassification"  # How the classes of transformers end that have a head
ROTARY_KEYS = ("rope_theta", "rope_scaling", "global_rope_theta", "local_rope_theta", "partial_rotary_factor",
               "original_max_position_embeddings")  # fmt: skip
"""Older keys of what is now in ``rope_parameters``."""
SIZES = ("_size", "_layers", "_heads", "_embeddings", "_groups", "_buckets", "_num", "dim", "d_model", "d_kv", "d_ff")
"""How the names of whole numbers end."""
OWN_CODE = {
    "JinaBertModel": ("Jina v2", "nomic-ai/modernbert-embed-base"),
    "NVEmbedModel": ("NV-Embed", "intfloat/e5-mistral-7b-instruct"),
    "NeoBERT": ("NeoBERT", "Alibaba-NLP/gte-modernbert-base"),
}  # fmt: skip
"""Classes of published code: what they are, and what to use instead."""
MOST_LAYERS, MOST_ROWS, MOST_WIDTH = 1_000, 2**28, 2**17  # Larger numbers in a config are wrong
STATIC = "static"  # The family of models without layers; see `static`


def read_config(folder: Path) -> Config:
    """The ``config.json`` of a transformer folder, unchanged."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        str(config["model_type"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{folder} has no {CONFIG} with a model_type; give the folder of a saved model") from error
    return dict(config)


def native_config(config: Mapping[str, Any]) -> Config:
    """The config in the keys of transformers, for a folder in the layout in which its family was first published."""
    code = config.get("auto_map")
    published = code.get("AutoModel") if isinstance(code, Mapping) else config["model_type"]
    layout = LAYOUTS.get(str(published).rsplit(".", 1)[-1])
    return dict(config) if layout is None else layout(config)


def config_of(model: nn.Module) -> Config:
    """All that a model's forward pass depends on besides its weights."""
    config: Any = model.config
    if isinstance(config, Mapping):
        return completed(config)
    require_family(config.model_type)
    if not type(model).__module__.startswith("transformers."):
        kind = type(model).__name__
        raise ModelError(f"{kind} is not a class of transformers, so its forward pass is unknown; use a plain model")
    # The class is known, so the folder's own code does not matter.
    return completed({name: value for name, value in config.to_dict().items() if name != "auto_map"})


def saved_config(model: nn.Module) -> Config:
    """The ``config.json`` of a model, with the class and the dtype that are saved."""
    config: Any = model.config
    given = config if isinstance(config, Mapping) else json.loads(config.to_json_string(use_diff=True))
    saved = {name: value for name, value in given.items() if name not in ("_name_or_path", "torch_dtype", "auto_map")}
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    return saved | {"architectures": [FAMILIES[saved["model_type"]].architecture], "dtype": dtype}


def require_family(name: str) -> None:
    """Reject an unsupported family by its name."""
    if name not in FAMILIES:
        raise ModelError(f"model family {name!r} is not supported; supported are {', '.join(sorted(FAMILIES))}")


def completed(config: Mapping[str, Any]) -> Config:
    """All keys that the family's forward pass depends on; a config with unsupported settings is rejected."""
    config = native_config(config)
    name = str(config["model_type"])
    if name == STATIC:
        return dict(config)
    if config.get("auto_map"):
        _refuse_code(name, config["auto_map"])
    require_family(name)
    _refuse(name, config)
    family = FAMILIES[name]
    given = {family.aliases.get(key, key): value for key, value in config.items()}
    found = {key: given.get(key, default) for key, default in family.defaults.items()}
    passed = (*family.passed, *(ROTARY_KEYS if "rope_parameters" in found else ()))
    found |= {key: given[key] for key in passed if given.get(key) is not None}
    if "num_key_value_heads" in found and found["num_key_value_heads"] is None:
        found["num_key_value_heads"] = found["num_attention_heads"]
    _check_numbers(name, found)
    return {"model_type": name, **found}


def _refuse_code(family: str, code: Any) -> None:
    named = code.get("AutoModel") if isinstance(code, Mapping) else code
    what, instead = OWN_CODE.get(str(named).rsplit(".", 1)[-1], (f"this {family} model", None))
    plain = "a model without it, or delete auto_map if the plain class computes the same"
    raise ModelError(
        f"{what} has its own code (auto_map in {CONFIG}), which may compute something else and is never run;"
        f" use {instead or plain}"
    )


def _refuse(family: str, config: Mapping[str, Any]) -> None:
    if name := next((name for name in ("quantization_config", "compression_config") if config.get(name)), None):
        raise ModelError(f"quantized weights ({name} in {CONFIG}) are not supported; use the plain weights")
    if not FAMILIES[family].decoder and (config.get("is_decoder") or config.get("add_cross_attention")):
        raise ModelError(f"a {family} model set up as a decoder is not supported; use it as an encoder")
    if (kind := config.get("position_embedding_type") or "absolute") != "absolute":
        raise ModelError(f"position_embedding_type {kind!r} is not supported; use a model with absolute positions")
    known = {**FAMILIES[family].defaults, **dict.fromkeys(FAMILIES[family].passed)}
    both = config.get("is_causal") is False and "is_causal" not in known
    if FAMILIES[family].decoder and (
        both or (config.get("use_bidirectional_attention") and "use_bidirectional_attention" not in known)
    ):
        raise ModelError(f"a {family} model that attends in both directions is not supported; use a causal one")


def _check_numbers(family: str, config: Config) -> None:
    if family in ("camembert", "roberta", "xlm-roberta") and not isinstance(config["pad_token_id"], int):
        raise ModelError(f"pad_token_id must be a whole number, since positions count from it; fix {CONFIG}")
    for name, default in FAMILIES[family].defaults.items():
        value, least = config[name], int(name not in FAMILIES[family].may_be_zero)
        if name.endswith(SIZES) and isinstance(default, int) and default >= 0:
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ModelError(f"{name} must be a whole number from {least}, not {value!r}; fix {CONFIG}")
            if value > (most := _most(name)):
                raise ModelError(f"{name} must be at most {most:,}, not {value:,}; fix {CONFIG}")
        elif isinstance(default, float) and (not isinstance(value, (int, float)) or value < 0):
            raise ModelError(f"{name} must be a number from 0, not {value!r}; fix {CONFIG}")
    pad, rows = config.get("pad_token_id"), config.get("vocab_size", MOST_ROWS)
    if pad is not None and (not isinstance(pad, int) or isinstance(pad, bool) or not -rows <= pad < rows):
        raise ModelError(f"pad_token_id must be the id of a token, from 0 to {rows - 1:,}, not {pad!r}; fix {CONFIG}")


def _most(name: str) -> int:
    if name.endswith(("_layers", "_groups", "_num")):
        return MOST_LAYERS
    return MOST_ROWS if name in ("vocab_size", "max_position_embeddings") else MOST_WIDTH


STATIC_MODULE = "StaticEmbedding"
MODULES = ("Transformer", "Pooling", "Dense", "Normalize")
STATIC_MODULES = (STATIC_MODULE, "Dense", "Normalize")
SCORES = "scores"  # The output of the dense module that gives a cross-encoder's scores

# In the order in which sentence-transformers concatenates them.
POOLING_NAMES = {
    "cls": "cls", "max": "max", "mean": "mean", "mean_sqrt_len_tokens": "mean-sqrt-len", "weightedmean": "weighted",
    "lasttoken": "last",
}  # fmt: skip
CLASSIC_POOLING_KEYS = {
    "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max", "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}  # fmt: skip

OWN_SETTINGS, OWN_WEIGHTS, OWN_FORMAT = "likewise.json", "head.safetensors", 1
"""Files beyond those of sentence-transformers; other packages may add keys and tensors of their own."""
POOLING_PREFIX = "pooling."  # The prefix of a learned pooling's weights


def read_modules_config(folder: Path) -> ModulesConfig:
    """Read a folder's pooling, heads, prompts and limits."""
    listed, learned = _listed_modules(folder), _learned(folder)
    return listed if learned is None else replace(listed, pooling=learned.kind, learned=learned, note="")


def _listed_modules(folder: Path) -> ModulesConfig:
    listing = folder / "modules.json"
    if not listing.exists():
        return ModulesConfig(note=f"{folder.resolve().name} names no pooling; mean pooling is used")
    entries = json_file(listing, list)
    try:
        modules = [(str(entry["type"]).rsplit(".", 1)[-1], inside(folder, entry["path"])) for entry in entries]
    except (TypeError, KeyError) as error:
        raise ModelError(f"{listing} is not a list of modules; save the model again") from error
    _check_modules([kind for kind, _ in modules], str(listing))
    paths = {kind: path for kind, path in modules if kind != "Dense"}
    settings: dict[str, Any] = {}
    if "Transformer" in paths:
        config = optional_json(paths["Transformer"] / "sentence_bert_config.json")
        settings = {"max_length": config.get("max_seq_length"), "lower": bool(config.get("do_lower_case", False))}
        settings["transformer"] = next(entry["path"] for entry in entries if entry["type"].endswith("Transformer"))
    if STATIC_MODULE in paths:
        settings = {"transformer": str(paths[STATIC_MODULE].relative_to(folder)), "is_static": True}
    if "Pooling" in paths:
        settings |= _pooling_settings(paths["Pooling"] / "config.json")
    return ModulesConfig(
        heads=tuple(_dense(path) for kind, path in modules if kind == "Dense" and not _gives_scores(path)),
        normalizes="Normalize" in paths,
        **settings,
        **_pipeline_settings(folder / PIPELINE),
    )


def inside(folder: Path, name: str) -> Path:
    """A file or folder by its name in a model's folder; a name that leaves the folder is rejected."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise ModelError(f"{name!r} leaves the folder {folder}; such a model is not opened")
    return folder / name


def holds_cross_encoder(folder: Path) -> bool:
    """Whether a folder holds a cross-encoder: sentence-transformers says so, or its class has a head."""
    if (folder / "modules.json").exists():
        return bool(optional_json(folder / PIPELINE).get("model_type") == CROSS_ENCODER)
    if not (folder / CONFIG).exists():
        return (folder / ONNX_FILE).exists()
    architectures = optional_json(folder / CONFIG).get("architectures")
    return isinstance(architectures, list) and any(str(each).endswith(CLASSIFIER) for each in architectures)


def read_score_head(folder: Path) -> Dense | None:
    """The dense module whose output is a cross-encoder's scores, if a folder has one."""
    listing = folder / "modules.json"
    entries = json_file(listing, list) if listing.exists() else []
    paths = [folder / entry["path"] for entry in entries if str(entry["type"]).endswith("Dense")]
    return next((_dense(path) for path in paths if _gives_scores(path)), None)


def _gives_scores(folder: Path) -> bool:
    return bool(json_file(folder / "config.json").get("module_output_name") == SCORES)


def _check_modules(kinds: list[str], where: str) -> None:
    """Reject unknown modules, and an order other than that of ``Encoder.finish``."""
    known = STATIC_MODULES if STATIC_MODULE in kinds else MODULES
    for kind in kinds:
        if kind not in known:
            raise ModelError(f"{where}: module {kind} is not supported; supported are {', '.join(known)}")
    if kinds != sorted(kinds, key=known.index):
        raise ModelError(f"{where}: modules must be in the order {', '.join(known)}, not {', '.join(kinds)}")


def modules_config_of(model: Any) -> ModulesConfig:
    """The modules of a SentenceTransformer in memory."""
    modules = [(type(module).__name__, module) for module in model]
    _check_modules([kind for kind, _ in modules], "this model")
    pooling = [_pooling_from(module.get_config_dict()) for kind, module in modules if kind == "Pooling"]
    dense = [module for kind, module in modules if kind == "Dense"]
    return ModulesConfig(
        heads=tuple(_dense_from(module.get_config_dict(), dict(module.state_dict())) for module in dense),
        normalizes="Normalize" in dict(modules),
        prompts={name: text for name, text in (model.prompts or {}).items() if text},
        default_prompt=model.default_prompt_name,
        max_length=None if STATIC_MODULE in dict(modules) else model.max_seq_length,
        truncate_dim=getattr(model, "truncate_dim", None),  # a cross-encoder has none
        lower=bool(getattr(model[0], "do_lower_case", False)),
        is_static=STATIC_MODULE in dict(modules),
        **(pooling[-1] if pooling else {}),
    )


def json_file(path: Path, kind: type = dict) -> Any:
    """The content of a JSON file, an object or a list."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({error}); save the model again") from error
    if not isinstance(content, kind):
        raise ModelError(f"{path} holds no JSON {'list' if kind is list else 'object'}; save the model again")
    return content


def optional_json(path: Path) -> dict[str, Any]:
    """The JSON object of a file; nothing if there is no such file."""
    return dict(json_file(path)) if path.exists() else {}


def _pooling_settings(path: Path) -> dict[str, Any]:
    try:
        return _pooling_from(json_file(path))
    except KeyError as error:
        raise ModelError(f"{path}: unknown pooling {error}; known are {', '.join(POOLING_NAMES)}") from error


def _pooling_from(config: Mapping[str, Any]) -> dict[str, Any]:
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [mode for key, mode in CLASSIC_POOLING_KEYS.items() if config.get(key)] or ["mean"]
    modes = [modes] if isinstance(modes, str) else modes
    names = "+".join(POOLING_NAMES[mode] for mode in modes)
    return {"pooling": names, "include_prompt": config.get("include_prompt", True)}


def _learned(folder: Path) -> LearnedPooling | None:
    """The learned pooling of ``likewise.json``, if it has one."""
    path = folder / OWN_SETTINGS
    if not path.exists():
        return None
    settings = json_file(path)
    if (found := settings.get("format")) != OWN_FORMAT:
        cure = "save the model again, or update likewise"
        raise ModelError(f"{path} has format {found!r}, known is {OWN_FORMAT}; {cure}")
    if "pooling" not in settings:
        return None
    try:
        return learned_from(settings["pooling"], _own_weights(folder / OWN_WEIGHTS, POOLING_PREFIX))
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error


def _own_weights(path: Path, prefix: str) -> dict[str, torch.Tensor]:
    """The tensors of a file under a prefix, by their names without it."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118
            return {name.removeprefix(prefix): file.get_tensor(name) for name in names}
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path.name} cannot be read ({first_line(error)}); save the model again") from error


def _pipeline_settings(path: Path) -> dict[str, Any]:
    config = optional_json(path)
    # Version 6 writes an empty prompt for every role that a model does not have.
    prompts = config.get("prompts") or {}
    if isinstance(prompts, dict):
        prompts = {name: text for name, text in prompts.items() if text}
    name = config.get("default_prompt_name")
    return {"prompts": prompts, "default_prompt": name, "truncate_dim": config.get("truncate_dim")}


def _dense(folder: Path) -> Dense:
    from safetensors.torch import load_file

    weights = folder / "model.safetensors"
    if not weights.exists():
        raise ModelError(f"{folder} has no model.safetensors; run: likewise convert {folder}")
    # Copies: tensors of a file may be unaligned, and products of unaligned rows round differently.
    found = {name: tensor.clone() for name, tensor in load_file(str(weights)).items()}
    return _dense_from(json_file(folder / "config.json"), found)


def _dense_from(config: Mapping[str, Any], weights: Mapping[str, Any]) -> Dense:
    activation = str(config.get("activation_function", "torch.nn.Tanh")).rsplit(".", 1)[-1]
    if activation not in HEAD_ACTIVATIONS:
        raise ModelError(f"Dense activation {activation} is not supported; known are {', '.join(HEAD_ACTIVATIONS)}")
    reads = config.get("module_input_name", "sentence_embedding")
    if config.get("use_residual") or reads != "sentence_embedding":
        raise ModelError("a Dense head with a residual, or on token vectors, is not supported; use a plain Dense")
    bias = weights.get("linear.bias")
    return Dense(weights["linear.weight"].detach(), None if bias is None else bias.detach(), activation)
