"""The attention room: pairs -> attention maps -> points -> clusters -> tests, beside their controls."""

from likewise.attention.autoencoder import LstmAutoencoder, train_autoencoder
from likewise.attention.clustering import clusterings_of
from likewise.attention.highlights import Highlight
from likewise.attention.maps import AttentionMaps, RandomMaps, write_maps
from likewise.attention.pipeline import attention_study
from likewise.attention.reducing import reduced
from likewise.attention.settings import AttentionSettings, AutoencoderSettings, ClusterSettings
from likewise.attention.significance import cluster_test
from likewise.attention.study import AttentionStudy
from likewise.attention.verdicts import verdicts

__all__ = [
    "AttentionMaps",
    "AttentionSettings",
    "AttentionStudy",
    "AutoencoderSettings",
    "ClusterSettings",
    "Highlight",
    "LstmAutoencoder",
    "RandomMaps",
    "attention_study",
    "cluster_test",
    "clusterings_of",
    "reduced",
    "train_autoencoder",
    "verdicts",
    "write_maps",
]
