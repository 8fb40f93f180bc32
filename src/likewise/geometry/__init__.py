"""Geometry of hidden states: anisotropy by layer, trajectories and word senses."""

from likewise.geometry.geometry import Geometry
from likewise.geometry.measuring import compare_geometry, geometry_of
from likewise.geometry.occurrences import GeometrySettings
from likewise.geometry.trajectories import Trajectories, sentence_trajectories, word_trajectories

__all__ = [
    "Geometry",
    "GeometrySettings",
    "Trajectories",
    "compare_geometry",
    "geometry_of",
    "sentence_trajectories",
    "word_trajectories",
]
