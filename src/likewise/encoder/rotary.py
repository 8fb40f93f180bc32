"""Rotary positions: a config's settings, in their old and new places -> angles per step, as Hugging Face has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from likewise.encoder.model_view import Rotary, Table
from likewise.errors import ModelError

Settings = Mapping[str, Any]
Turn = tuple[Tensor, float]
"""Angles per step, and what cosines and sines are multiplied by."""
THETA = 10_000.0


def rotary(config: Settings, width: int, beside: Table) -> Rotary:
    """The one rotation of a whole model, for heads of this width."""
    given = config.get("rope_scaling") or config["rope_parameters"] or {}
    # Saved by layer type, though the layers share it.
    nested = [given[kind] for kind in dict.fromkeys(config.get("layer_types") or ()) if given.get(kind)]
    if nested:
        if any(other != nested[0] for other in nested):
            raise ModelError("rotary positions that differ from layer to layer are not supported; use another model")
        given = nested[0]
    return Rotary(*_turn({"rope_theta": config.get("rope_theta", THETA)} | _plain(given), config, width), beside)


def rotary_by_kind(config: Settings, kind: str, width: int, beside: Table) -> Rotary:
    """ModernBERT's rotation of full or sliding attention, for heads of this width."""
    old = {"full_attention": ("global_rope_theta", 160_000.0), "sliding_attention": ("local_rope_theta", THETA)}
    theta = config.get(old[kind][0], old[kind][1])
    given = (config["rope_parameters"] or {}).get(kind) or {}
    given = _plain(given) | _plain(config.get("rope_scaling") or {})
    return Rotary(*_turn({"rope_theta": theta} | given, config, width), beside)


def _plain(given: Settings) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _turn(given: Settings, config: Settings, width: int) -> Turn:
    kind = str(given.get("rope_type", given.get("type", "default")))
    if kind not in KINDS:
        raise ModelError(f"rotary positions of type {kind!r} are not supported; supported are {', '.join(KINDS)}")
    if float(given.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))) != 1.0:
        raise ModelError("rotary positions in a part of each head are not supported; use another model")
    limit = config["max_position_embeddings"]
    trained = config.get("original_max_position_embeddings", given.get("original_max_position_embeddings", limit))
    try:
        plain = _frequencies(float(given["rope_theta"]), width)
        return KINDS[kind](plain, dict(given) | {"trained": trained, "limit": limit})
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"rotary positions of type {kind!r} lack a setting ({error}); fix config.json") from error


def _frequencies(theta: float, width: int) -> Tensor:
    return 1.0 / (theta ** (torch.arange(0, width, 2, dtype=torch.float32) / width))


def _default(plain: Tensor, _: Settings) -> Turn:
    return plain, 1.0


def _linear(plain: Tensor, given: Settings) -> Turn:
    return plain / given["factor"], 1.0


def _llama3(plain: Tensor, given: Settings) -> Turn:
    """Long waves are stretched, short ones kept, those between blended."""
    factor, low, high, trained = (given[name] for name in ("factor", "low_freq_factor", "high_freq_factor", "trained"))
    waves = 2 * math.pi / plain
    stretched = torch.where(waves > trained / low, plain / factor, plain)
    smooth = (trained / waves - low) / (high - low)
    blended = (1 - smooth) * stretched / factor + smooth * stretched
    between = ~(waves < trained / high) & ~(waves > trained / low)
    return torch.where(between, blended, stretched), 1.0


def _yarn(plain: Tensor, given: Settings) -> Turn:
    """Peng et al. 2023: stretch dimensions that turn less than ``beta_slow`` times, keep those beyond ``beta_fast``."""
    theta, trained, width = float(given["rope_theta"]), given["trained"], 2 * len(plain)
    factor = given.get("factor") or given["limit"] / trained

    def dimension(turns: float) -> float:
        return width * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = dimension(given.get("beta_fast") or 32), dimension(given.get("beta_slow") or 1)
    if given.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    ramp = ((torch.arange(width // 2, dtype=torch.float32) - low) / ((high - low) or 0.001)).clamp(0, 1)
    kept = 1 - ramp
    turning = theta ** (torch.arange(0, width, 2).to(torch.float32) / width)
    frequencies = 1.0 / (factor * turning) * (1 - kept) + 1.0 / turning * kept
    return frequencies, _yarn_scaling(factor, given)


def _yarn_scaling(factor: float, given: Settings) -> float:
    def scale(times: float = 1.0) -> float:
        return 1.0 if factor <= 1 else 0.1 * times * math.log(factor) + 1.0

    if given.get("attention_factor") is not None:
        return float(given["attention_factor"])
    first, second = given.get("mscale"), given.get("mscale_all_dim")
    return scale(first) / scale(second) if first and second else scale()


KINDS: dict[str, Callable[[Tensor, Settings], Turn]] = {
    "default": _default,
    # It differs from the default beyond the model's positions only, where texts are cut.
    "dynamic": _default,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
}
