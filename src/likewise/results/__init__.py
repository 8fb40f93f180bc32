"""The base class of all results (tables, figures, JSON document), and their output: terminal, page, folder, pandas."""

from likewise.results.result import Column, Comparable, Figure, Result, ResultSet, Table

__all__ = ["Column", "Comparable", "Figure", "Result", "ResultSet", "Table"]
