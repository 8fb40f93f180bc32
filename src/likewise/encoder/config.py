"""Settings on disk: ``config.json`` with the defaults of its family, and the modules of a sentence-transformers folder.

The keys and defaults of ``config.json`` are those of Hugging Face's config classes; tests compare them. Unsupported
settings are rejected. Two layouts of modules are read: the classic one and that of sentence-transformers 6. A plain
transformer folder gets mean pooling. A learned pooling, which such a folder cannot express, is in ``likewise.json``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from likewise.encoder.learned_pooling import LearnedPooling, learned_from
from likewise.encoder.model_view import HEAD_ACTIVATIONS, Dense, Rotary, Table
from likewise.encoder.pooling import ModulesConfig
from likewise.errors import ModelError, first_line

CONFIG = "config.json"
PIPELINE = "config_sentence_transformers.json"
ONNX_FILE = "model.onnx"
CROSS_ENCODER = "CrossEncoder"  # The class of sentence-transformers, as its folders name it
CLASSIFIER = "ForSequenceClassification"  # How the classes of transformers end that have a head
Config = dict[str, Any]

_BERT: Config = {
    "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
}  # fmt: skip

DEFAULTS: dict[str, Config] = {
    "albert": _BERT | {
        "vocab_size": 30000, "embedding_size": 128, "hidden_size": 4096, "num_attention_heads": 64,
        "intermediate_size": 16384, "hidden_act": "gelu_new", "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0, "num_hidden_groups": 1, "inner_group_num": 1,
    },
    "bert": _BERT,
    "distilbert": {
        "vocab_size": 30522, "max_position_embeddings": 512, "n_layers": 6, "n_heads": 12, "dim": 768,
        "hidden_dim": 3072, "dropout": 0.1, "attention_dropout": 0.1, "activation": "gelu", "pad_token_id": 0,
    },
    "electra": _BERT | {"embedding_size": 128, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024},
    "gpt_neo": {
        "vocab_size": 50257, "max_position_embeddings": 2048, "hidden_size": 2048, "num_layers": 24,
        "attention_types": [[["global", "local"], 12]], "num_heads": 16, "intermediate_size": None, "window_size": 256,
        "activation_function": "gelu_new", "resid_dropout": 0.0, "embed_dropout": 0.0, "attention_dropout": 0.0,
        "layer_norm_epsilon": 1e-5,
    },
    "modernbert": {
        "vocab_size": 50368, "hidden_size": 768, "intermediate_size": 1152, "num_hidden_layers": 22,
        "num_attention_heads": 12, "hidden_activation": "gelu", "max_position_embeddings": 8192, "norm_eps": 1e-5,
        "norm_bias": False, "pad_token_id": 50283, "attention_bias": False, "attention_dropout": 0.0,
        "layer_types": None, "global_attn_every_n_layers": 3, "rope_parameters": None, "local_attention": 128,
        "embedding_dropout": 0.0, "mlp_bias": False, "mlp_dropout": 0.0,
    },
    "mpnet": {name: value for name, value in _BERT.items() if name != "type_vocab_size"} | {
        "vocab_size": 30527, "pad_token_id": 1, "relative_attention_num_buckets": 32,
    },
    "qwen3": {
        "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128, "hidden_act": "silu",
        "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_parameters": None, "attention_bias": False,
        "use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28, "layer_types": None,
        "attention_dropout": 0.0, "pad_token_id": None,
    },
    "roberta": _BERT | {"vocab_size": 50265, "pad_token_id": 1},
    "xlm-roberta": _BERT | {"pad_token_id": 1},
}  # fmt: skip

ALIASES: dict[str, dict[str, str]] = {
    "distilbert": {"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"},
    "gpt_neo": {"num_attention_heads": "num_heads", "num_hidden_layers": "num_layers"},
}
"""Other names of the same keys in Hugging Face's classes."""

ROTARY_KEYS = ("rope_theta", "rope_scaling", "global_rope_theta", "local_rope_theta", "partial_rotary_factor",
               "original_max_position_embeddings")  # fmt: skip
"""Older keys of what is now in ``rope_parameters``."""

DECODERS = ("gpt_neo", "qwen3")


def read_config(folder: Path) -> Config:
    """The ``config.json`` of a transformer folder, unchanged."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        str(config["model_type"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{folder} has no {CONFIG} with a model_type; give the folder of a saved model") from error
    return dict(config)


def require_family(family: str) -> None:
    """Reject an unsupported family by its name."""
    if family not in DEFAULTS:
        raise ModelError(f"model family {family!r} is not supported; supported are {', '.join(sorted(DEFAULTS))}")


def completed(config: Mapping[str, Any]) -> Config:
    """All keys that the family's forward pass depends on; a config with unsupported settings is rejected."""
    family = str(config["model_type"])
    require_family(family)
    _refuse(family, config)
    given = {ALIASES.get(family, {}).get(name, name): value for name, value in config.items()}
    found = {name: given.get(name, default) for name, default in DEFAULTS[family].items()}
    if "rope_parameters" in found:
        found |= {name: given[name] for name in ROTARY_KEYS if given.get(name) is not None}
    if family == "modernbert" and given.get("sliding_window") is not None:
        found["local_attention"] = 2 * given["sliding_window"]  # half the window, by its other name
    if family == "qwen3" and found["num_key_value_heads"] is None:
        found["num_key_value_heads"] = found["num_attention_heads"]
    _check_numbers(family, found)
    return {"model_type": family, **found}


def _refuse(family: str, config: Mapping[str, Any]) -> None:
    if config.get("auto_map"):
        raise ModelError(
            f"this {family} model has its own code (auto_map in {CONFIG}), which may compute something else"
            " and is never run; use a model without it, or delete auto_map if the plain class computes the same"
        )
    if name := next((name for name in ("quantization_config", "compression_config") if config.get(name)), None):
        raise ModelError(f"quantized weights ({name} in {CONFIG}) are not supported; use the plain weights")
    if family not in DECODERS and (config.get("is_decoder") or config.get("add_cross_attention")):
        raise ModelError(f"a {family} model set up as a decoder is not supported; use it as an encoder")
    if (kind := config.get("position_embedding_type") or "absolute") != "absolute":
        raise ModelError(f"position_embedding_type {kind!r} is not supported; use a model with absolute positions")
    if family in DECODERS and (config.get("is_causal") is False or config.get("use_bidirectional_attention")):
        raise ModelError(f"a {family} model that attends in both directions is not supported; use a causal one")


def _check_numbers(family: str, config: Config) -> None:
    if family in ("roberta", "xlm-roberta") and not isinstance(config["pad_token_id"], int):
        raise ModelError(f"pad_token_id must be a whole number, since positions count from it; fix {CONFIG}")
    sizes = ("_size", "_layers", "_heads", "_embeddings", "_groups", "_buckets", "_num", "dim")
    for name, default in DEFAULTS[family].items():
        value, least = config[name], int(name != "max_window_layers")
        if name.endswith(sizes) and isinstance(default, int):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ModelError(f"{name} must be a whole number from {least}, not {value!r}; fix {CONFIG}")
        elif isinstance(default, float) and (not isinstance(value, (int, float)) or value < 0):
            raise ModelError(f"{name} must be a number from 0, not {value!r}; fix {CONFIG}")


Settings = Mapping[str, Any]
Frequencies = tuple[Tensor, float]  # Angles per position step, and the factor of cosines and sines
ROPE_THETA = 10_000.0


def rotary(config: Settings, width: int, word: Table) -> Rotary:
    """The rotary positions of a model whose layers share them, for heads of this width."""
    given = config.get("rope_scaling") or config["rope_parameters"] or {}
    # Some configs list them by layer type, although the layers share them.
    nested = [given[kind] for kind in dict.fromkeys(config.get("layer_types") or ()) if given.get(kind)]
    if any(other != nested[0] for other in nested):
        raise ModelError("rotary positions that differ from layer to layer are not supported; use another model")
    given = {"rope_theta": config.get("rope_theta", ROPE_THETA)} | _plain(nested[0] if nested else given)
    return Rotary(*_scaled_frequencies(given, config, width), word)


def rotary_by_kind(config: Settings, kind: str, width: int, word: Table) -> Rotary:
    """ModernBERT's rotary positions of full or sliding attention, for heads of this width."""
    old = {"full_attention": ("global_rope_theta", 160_000.0), "sliding_attention": ("local_rope_theta", ROPE_THETA)}
    theta = config.get(*old[kind])
    given = _plain((config["rope_parameters"] or {}).get(kind) or {}) | _plain(config.get("rope_scaling") or {})
    return Rotary(*_scaled_frequencies({"rope_theta": theta} | given, config, width), word)


def _plain(given: Settings) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _scaled_frequencies(given: Settings, config: Settings, width: int) -> Frequencies:
    kind = str(given.get("rope_type", given.get("type", "default")))
    if kind not in ROTARY_KINDS:
        known = ", ".join(ROTARY_KINDS)
        raise ModelError(f"rotary positions of type {kind!r} are not supported; supported are {known}")
    if float(given.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))) != 1.0:
        raise ModelError("rotary positions in a part of each head are not supported; use another model")
    limit = config["max_position_embeddings"]
    trained = config.get("original_max_position_embeddings", given.get("original_max_position_embeddings", limit))
    try:
        plain = 1.0 / (float(given["rope_theta"]) ** (torch.arange(0, width, 2, dtype=torch.float32) / width))
        return ROTARY_KINDS[kind](plain, dict(given) | {"trained": trained, "limit": limit})
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"rotary positions of type {kind!r} lack a setting ({error}); fix config.json") from error


def _llama3(plain: Tensor, given: Settings) -> Frequencies:
    """Long waves are stretched, short ones stay, those in between are blended."""
    factor, low, high, trained = (given[name] for name in ("factor", "low_freq_factor", "high_freq_factor", "trained"))
    waves = 2 * math.pi / plain
    stretched = torch.where(waves > trained / low, plain / factor, plain)
    smooth = (trained / waves - low) / (high - low)
    blended = (1 - smooth) * stretched / factor + smooth * stretched
    between = ~(waves < trained / high) & ~(waves > trained / low)
    return torch.where(between, blended, stretched), 1.0


def _yarn(plain: Tensor, given: Settings) -> Frequencies:
    """Peng et al. 2023: stretch dimensions of fewer than ``beta_slow`` rotations, not those beyond ``beta_fast``."""
    theta, trained, width = float(given["rope_theta"]), given["trained"], 2 * len(plain)
    factor = given.get("factor") or given["limit"] / trained

    def dimension(rotations: float) -> float:
        return width * math.log(trained / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low, high = dimension(given.get("beta_fast") or 32), dimension(given.get("beta_slow") or 1)
    if given.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    ramp = ((torch.arange(width // 2, dtype=torch.float32) - low) / ((high - low) or 0.001)).clamp(0, 1)
    original = 1 - ramp
    steps = theta ** (torch.arange(0, width, 2).to(torch.float32) / width)
    frequencies = 1.0 / (factor * steps) * (1 - original) + 1.0 / steps * original
    return frequencies, _yarn_scaling(factor, given)


def _yarn_scaling(factor: float, given: Settings) -> float:
    def scale(times: float = 1.0) -> float:
        return 1.0 if factor <= 1 else 0.1 * times * math.log(factor) + 1.0

    if given.get("attention_factor") is not None:
        return float(given["attention_factor"])
    first, second = given.get("mscale"), given.get("mscale_all_dim")
    return scale(first) / scale(second) if first and second else scale()


ROTARY_KINDS: dict[str, Callable[[Tensor, Settings], Frequencies]] = {
    "default": lambda plain, _: (plain, 1.0),
    # It differs from the default only beyond the model's positions, where texts are truncated.
    "dynamic": lambda plain, _: (plain, 1.0),
    "linear": lambda plain, given: (plain / given["factor"], 1.0),
    "llama3": _llama3,
    "yarn": _yarn,
}

MODULES = ("Transformer", "Pooling", "Dense", "Normalize")
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
    entries = _json(listing, list)
    try:
        modules = [(str(entry["type"]).rsplit(".", 1)[-1], folder / entry["path"]) for entry in entries]
    except (TypeError, KeyError) as error:
        raise ModelError(f"{listing} is not a list of modules; save the model again") from error
    _check_modules([kind for kind, _ in modules], str(listing))
    paths = {kind: path for kind, path in modules if kind != "Dense"}
    settings: dict[str, Any] = {}
    if "Transformer" in paths:
        config = optional_json(paths["Transformer"] / "sentence_bert_config.json")
        settings = {"max_length": config.get("max_seq_length"), "lower": bool(config.get("do_lower_case", False))}
        settings["transformer"] = next(entry["path"] for entry in entries if entry["type"].endswith("Transformer"))
    if "Pooling" in paths:
        settings |= _pooling_settings(paths["Pooling"] / "config.json")
    return ModulesConfig(
        heads=tuple(_dense(path) for kind, path in modules if kind == "Dense" and not _gives_scores(path)),
        normalizes="Normalize" in paths,
        **settings,
        **_pipeline_settings(folder / PIPELINE),
    )


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
    entries = _json(listing, list) if listing.exists() else []
    paths = [folder / entry["path"] for entry in entries if str(entry["type"]).endswith("Dense")]
    return next((_dense(path) for path in paths if _gives_scores(path)), None)


def _gives_scores(folder: Path) -> bool:
    return bool(_json(folder / "config.json").get("module_output_name") == SCORES)


def _check_modules(kinds: list[str], where: str) -> None:
    """Reject unknown modules, and an order other than that of ``Encoder.finish``."""
    for kind in kinds:
        if kind not in MODULES:
            raise ModelError(f"{where}: module {kind} is not supported; supported are {', '.join(MODULES)}")
    if kinds != sorted(kinds, key=MODULES.index):
        raise ModelError(f"{where}: modules must be in the order {', '.join(MODULES)}, not {', '.join(kinds)}")


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
        max_length=model.max_seq_length,
        truncate_dim=getattr(model, "truncate_dim", None),  # a cross-encoder has none
        lower=bool(getattr(model[0], "do_lower_case", False)),
        **(pooling[-1] if pooling else {}),
    )


def _json(path: Path, kind: type = dict) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({error}); save the model again") from error
    if not isinstance(content, kind):
        raise ModelError(f"{path} holds no JSON {'list' if kind is list else 'object'}; save the model again")
    return content


def optional_json(path: Path) -> dict[str, Any]:
    """The JSON object of a file; nothing if there is no such file."""
    return dict(_json(path)) if path.exists() else {}


def _pooling_settings(path: Path) -> dict[str, Any]:
    try:
        return _pooling_from(_json(path))
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
    settings = _json(path)
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
    return _dense_from(_json(folder / "config.json"), found)


def _dense_from(config: Mapping[str, Any], weights: Mapping[str, Any]) -> Dense:
    activation = str(config.get("activation_function", "torch.nn.Tanh")).rsplit(".", 1)[-1]
    if activation not in HEAD_ACTIVATIONS:
        raise ModelError(f"Dense activation {activation} is not supported; known are {', '.join(HEAD_ACTIVATIONS)}")
    reads = config.get("module_input_name", "sentence_embedding")
    if config.get("use_residual") or reads != "sentence_embedding":
        raise ModelError("a Dense head with a residual, or on token vectors, is not supported; use a plain Dense")
    bias = weights.get("linear.bias")
    return Dense(weights["linear.weight"].detach(), None if bias is None else bias.detach(), activation)
