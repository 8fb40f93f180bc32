"""The contract of every result (tables, figures, a document) and its renderers: terminal, page, folder, pandas."""

from likewise.results.result import Comparable, Figure, Result, ResultSet
from likewise.results.table import Column, Table

__all__ = ["Column", "Comparable", "Figure", "Result", "ResultSet", "Table"]
