"""Rotary positions: a model's config -> angles per position step, with every kind of scaling that is supported."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from likewise.encoder.model_view import Rotary, Table
from likewise.errors import ModelError

Settings = Mapping[str, Any]
Frequencies = tuple[Tensor, float]  # Angles per position step, and the factor of cosines and sines
ROPE_THETA = 10_000.0
FULL, SLIDING = KINDS = ("full_attention", "sliding_attention")  # Kinds of attention, by their names in `layer_types`


def rotary(config: Settings, width: int, word: Table, theta: float = ROPE_THETA) -> Rotary:
    """The rotary positions of a model whose layers share them, for heads of this width."""
    given = config.get("rope_scaling") or config["rope_parameters"] or {}
    # Some configs list them by layer type, although the layers share them.
    nested = [given[kind] for kind in dict.fromkeys(config.get("layer_types") or ()) if given.get(kind)]
    if any(other != nested[0] for other in nested):
        raise ModelError("rotary positions that differ from layer to layer are not supported; use another model")
    given = {"rope_theta": config.get("rope_theta", theta)} | _plain(nested[0] if nested else given)
    return Rotary(*_scaled_frequencies(given, config, width), word)


def rotary_of_kind(config: Settings, kind: str, theta: float, width: int, word: Table, scaled: bool = True) -> Rotary:
    """The rotary positions of full or of sliding attention; ``scaled`` if an older ``rope_scaling`` holds for them."""
    given = _plain((config["rope_parameters"] or {}).get(kind) or {})
    given |= _plain(config.get("rope_scaling") or {}) if scaled else {}
    return Rotary(*_scaled_frequencies({"rope_theta": theta} | given, config, width), word)


def check_kinds(kinds: Sequence[str], known: tuple[str, ...], layers: int) -> None:
    """Reject a list of layer types that is unknown or too short."""
    for kind in kinds:
        if kind not in known:
            raise ModelError(f"layers of type {kind!r} are not supported; supported are {', '.join(known)}")
    if len(kinds) != layers:
        raise ModelError(f"the config has types for {len(kinds)} layers, but {layers} layers; fix config.json")


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


def _ntk(plain: Tensor, given: Settings) -> Frequencies:
    """A larger base, and all waves a little longer, as gte was first published."""
    factor, width = float(given["factor"]), 2 * len(plain)
    scaled = 1.0 / ((float(given["rope_theta"]) * factor) ** (torch.arange(0, width, 2, dtype=torch.float32) / width))
    return scaled / factor ** (2 / width), 1.0


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
    "ntk": _ntk,
    "llama3": _llama3,
    "yarn": _yarn,
}
