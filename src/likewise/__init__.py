"""Likewise: a microscope for text similarity."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from likewise.explain import Explanation
    from likewise.interface import CrossEncoder, Encoder, Scorer
    from likewise.search import Index, explain_hits

__version__ = "0.2.0"
__all__ = ["CrossEncoder", "Encoder", "Explanation", "Index", "Scorer", "__version__", "explain_hits"]

# Loaded on first use, so that `import likewise` stays free of torch.
_HOMES = {
    "CrossEncoder": "likewise.interface",
    "Encoder": "likewise.interface",
    "Explanation": "likewise.explain",
    "Index": "likewise.search",
    "Scorer": "likewise.interface",
    "explain_hits": "likewise.search",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'likewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
