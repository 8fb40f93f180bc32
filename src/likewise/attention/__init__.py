"""An attention study: pairs -> maps -> points -> clusters -> tests and controls."""

from typing import TYPE_CHECKING, Any

from likewise.attention.settings import AttentionSettings, AutoencoderSettings, ClusterSettings, Highlight

if TYPE_CHECKING:
    from likewise.attention.clustering import clusterings_of
    from likewise.attention.maps import AttentionMaps, RandomMaps, write_maps
    from likewise.attention.pipeline import attention_study
    from likewise.attention.reduction import LstmAutoencoder, reduced, train_autoencoder
    from likewise.attention.significance import cluster_test
    from likewise.attention.study import AttentionStudy
    from likewise.attention.survival import verdicts

__all__ = [
    "AttentionMaps", "AttentionSettings", "AttentionStudy", "AutoencoderSettings", "ClusterSettings", "Highlight",
    "LstmAutoencoder", "RandomMaps", "attention_study", "cluster_test", "clusterings_of", "reduced",
    "train_autoencoder", "verdicts", "write_maps",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Loads the other names on first use: the command line reads the settings and must not import torch."""
    if name not in __all__:
        raise AttributeError(f"module 'likewise.attention' has no attribute {name!r}")
    from likewise.attention import clustering, maps, pipeline, reduction, significance, study, survival

    modules = (clustering, maps, pipeline, reduction, significance, study, survival)
    return next(getattr(module, name) for module in modules if hasattr(module, name))
