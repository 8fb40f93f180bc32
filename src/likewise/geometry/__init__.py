"""The geometry room: hidden states -> one value per layer, with intervals."""

from likewise.geometry.geometry import Geometry
from likewise.geometry.measuring import geometry_of
from likewise.geometry.settings import GeometrySettings
from likewise.geometry.trajectories import Trajectories, sentence_trajectories, word_trajectories

__all__ = [
    "Geometry",
    "GeometrySettings",
    "Trajectories",
    "geometry_of",
    "sentence_trajectories",
    "word_trajectories",
]
