"""Heat maps: well-formed, escaped, symmetric around zero."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from likewise.plotting.html import LABEL_CHARACTERS, matrix_svg

SVG = "{http://www.w3.org/2000/svg}"


def colours(values: object) -> list[tuple[int, ...]]:
    """The cells' colours, row by row."""
    array = np.asarray(values)
    names = [[str(place) for place in range(size)] for size in array.shape]
    root = ElementTree.fromstring(matrix_svg(array, *names))
    return [tuple(map(int, re.findall(r"\d+", cell.get("fill", "")))) for cell in root.iter(f"{SVG}rect")]


def test_cells_and_labels() -> None:
    root = ElementTree.fromstring(matrix_svg([[1, -0.5, 0.25], [0, 0.125, 1]], ["up", "down"], ["a", "b", "c"]))
    cells = list(root.iter(f"{SVG}g"))
    assert [cell.find(f"{SVG}text").text for cell in cells] == ["1.00", "-0.50", "0.25", "0.00", "0.12", "1.00"]
    assert cells[1].find(f"{SVG}title").text == "up / b: -0.5000"
    assert {"1  up", "2  down"} <= {text.text for text in root.iter(f"{SVG}text")}


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "a & b", "\"quoted\" and 'single'", "]]>", "été"])
def test_names_are_escaped_and_come_back(name: str) -> None:
    made = matrix_svg([[0.5]], [name], [name])
    assert "<img" not in made
    root = ElementTree.fromstring(made)
    assert f"1  {name}" in [text.text for text in root.iter(f"{SVG}text")]
    assert f"{name} / {name}: 0.5000" in [title.text for title in root.iter(f"{SVG}title")]


@pytest.mark.parametrize("name", ["bell \x07", "escape \x1b[31m", "null \x00"])
def test_control_characters_leave_it_well_formed(name: str) -> None:
    ElementTree.fromstring(matrix_svg([[0.5]], [name], [name]))


def test_colours_are_symmetric_around_zero() -> None:
    """White at 0, as strong below as above, blue below and red above."""
    low, middle, zero, half, high = colours([[-2.0, -1.0, 0.0, 1.0, 2.0]])
    assert zero == (255, 255, 255)
    assert high == (178, 24, 43) and low == (33, 102, 172)
    for ends, strength in ((high, half), (low, middle)):
        for end, colour in zip(ends, strength, strict=True):
            assert colour == pytest.approx((255 + end) / 2, abs=1)


def test_colours_are_relative_to_the_strongest() -> None:
    assert colours([[0.1, -0.05]]) == colours([[10.0, -5.0]])


def test_zeros_are_white() -> None:
    assert colours(np.zeros((2, 3))) == [(255, 255, 255)] * 6


def test_missing_value_does_not_colour_the_others() -> None:
    """nan is no number to colour, and no reason to lose the scale of the rest."""
    assert colours([[1.0, 0.5, np.nan]])[:2] == colours([[1.0, 0.5]])


def test_long_names_are_cut_but_kept_in_the_hint() -> None:
    name = "x" * 100
    root = ElementTree.fromstring(matrix_svg([[1.0]], [name], ["c"]))
    shown = next(text.text for text in root.iter(f"{SVG}text") if text.get("text-anchor") == "end")
    assert shown == f"1  {'x' * (LABEL_CHARACTERS - 1)}…"
    assert any(name in (title.text or "") for title in root.iter(f"{SVG}title"))


def test_everything_lies_inside_the_picture() -> None:
    root = ElementTree.fromstring(matrix_svg(np.eye(3), ["a", "b", "c"], ["a", "b", "c"]))
    _, _, width, height = map(float, root.get("viewBox", "").split())
    cells = list(root.iter(f"{SVG}rect"))
    assert len(cells) == 9
    for cell in cells:
        x, y, across, down = (float(cell.get(name, "")) for name in ("x", "y", "width", "height"))
        assert x >= 0 and y >= 0 and x + across <= width and y + down <= height
