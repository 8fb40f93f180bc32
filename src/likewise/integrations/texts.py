"""Texts as other libraries hold them: lists, arrays, columns and frames with one column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from likewise.data.rows import shown
from likewise.errors import DataError


def text_list(given: Any, name: str = "") -> list[str]:
    """Texts from a list, an array, a column of a frame, or a frame with one column; ``name`` is the column's.

    >>> text_list(np.array([["A cat sat."], ["It rains."]], dtype=object))
    ['A cat sat.', 'It rains.']
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise DataError(f"the texts are a list, an array or a column of a frame, got {shown(given)}")
    shape: tuple[int, ...] = getattr(given, "shape", ())
    if len(shape) == 2:
        if shape[1] != 1:
            raise DataError(f"texts are one column, got {shape[1]}; choose one, for example with a ColumnTransformer")
        given = np.asarray(given)[:, 0]
    texts = list(given)
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            where = f"row {number} of {name!r}" if name else f"row {number}"
            raise DataError(f"{where} is {shown(text)}, not a text; leave it out or fill it")
    return texts
