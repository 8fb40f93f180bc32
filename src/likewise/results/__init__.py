"""The contract of every result (tables, figures, a document) and its renderers: terminal, page, folder, pandas."""

from likewise.results.result import Column, Comparable, Figure, Result, ResultSet, Table

__all__ = ["Column", "Comparable", "Figure", "Result", "ResultSet", "Table"]
