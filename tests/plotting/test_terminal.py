"""Terminal lines: never wider than the terminal, never markup, and readable without colour."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from likewise.plotting.terminal import matrix_lines, unit_line

ODD = ["hospital", "火災病院火災病院", "🔥", "👨‍👩‍👧", "שריפה", "[bold]x[/bold]", "a\x1b[31mb\nc", "", "x" * 300]


def plain(lines: list) -> list[str]:
    return [line.plain for line in lines]


@pytest.mark.parametrize("width", [1, 6, 10, 16, 20, 37, 80, 200])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (9, 9), (60, 60), (512, 512)])
def test_no_line_is_wider_than_the_terminal(width: int, shape: tuple[int, int]) -> None:
    values = np.random.default_rng(0).normal(size=shape)
    rows, columns = ([ODD[place % len(ODD)] for place in range(count)] for count in shape)
    lines = matrix_lines(values, rows, columns, width)
    assert max(cell_len(line) for line in plain(lines)) <= width
    assert not any(letter in line for line in plain(lines) for letter in "\x1b\n\t")


def test_labels_and_numbers_stand_in_their_places() -> None:
    lines = plain(matrix_lines([[0.5, -0.25], [0.0, 0.125]], ["Fire", "in"], ["fire", "[b]dead"], 80))
    assert [line.split() for line in lines] == [
        ["fire", "[b]dead"],
        ["Fire", "+0.500", "-0.250"],
        ["in", "·", "+0.125"],
    ]


def test_long_column_names_are_numbered_with_a_legend() -> None:
    lines = plain(matrix_lines([[0.5, -0.25]], ["a"], ["a very long sentence", "another long sentence"], 60))
    assert lines[0].split() == ["1", "2"]
    assert lines[-1] == "1 a very long sentence  2 another long sentence"


def test_narrow_cells_say_what_one_stands_for() -> None:
    values = np.full((1, 10), 0.01)
    values[0, 3] = -0.0996  # rounds to 100 steps of 0.001, which would not fit
    lines = plain(matrix_lines(values, ["a"], list("abcdefghij"), 50))
    assert lines[1].split() == ["a", "+1", "+1", "+1", "-10", *["+1"] * 6]
    assert lines[-1] == "1 stands for 0.01."


@pytest.mark.parametrize("scale", [1e-6, 0.0123, 0.999, 9.99, 99.6, 12345.0])
@pytest.mark.parametrize("width", [25, 34, 90])
def test_printed_numbers_are_the_values(scale: float, width: int) -> None:
    values = np.random.default_rng(1).uniform(-scale, scale, size=(3, 3))
    lines = plain(matrix_lines(values, list("abc"), list("def"), width))
    said = [line for line in lines if line.startswith("1 stands for")]
    step = float(said[0].removeprefix("1 stands for ").rstrip(".")) if said else 1.0
    shown = [[0.0 if cell == "·" else float(cell) * step for cell in line.split()[1:]] for line in lines[1:4]]
    columns = len(shown[0])
    kept = np.sort(np.argsort(-np.abs(values).sum(0), kind="stable")[:columns])
    assert np.array(shown) == pytest.approx(values[:, kept], abs=0.06 * scale)


def test_hidden_rows_and_columns_are_counted() -> None:
    values = np.zeros((50, 40))
    values[7, 33], values[45, 2] = 1.0, -0.5
    rows, columns = [f"r{place}" for place in range(50)], [f"c{place}" for place in range(40)]
    lines = plain(matrix_lines(values, rows, columns, 20))
    assert any(line.startswith("r7 ") and "+10" in line for line in lines)
    assert any(line.startswith("r45") and "-5" in line for line in lines)
    legend = " ".join(lines)
    assert "c33" in legend and "c2" in legend
    assert "10 of 50 rows and 36 of 40 columns hidden: the weakest." in legend


def test_nothing_is_said_to_be_hidden_without_need() -> None:
    assert "hidden" not in " ".join(plain(matrix_lines(np.ones((3, 3)), list("abc"), list("def"), 80)))


def printed(renderable: object, **options: object) -> str:
    console = Console(file=io.StringIO(), width=80, **options)
    console.print(renderable)
    return console.file.getvalue()


def test_colours_show_signs() -> None:
    [_, row] = matrix_lines([[1.0, -1.0, 0.01]], ["a"], list("bcd"), 80)
    backgrounds = [span.style.bgcolor.triplet for span in row.spans if span.style.bgcolor]
    assert [tuple(each) for each in backgrounds] == [(178, 24, 43), (33, 102, 172)]
    assert "\x1b[" in printed(row, force_terminal=True, color_system="truecolor")


def test_without_colour_the_numbers_stay() -> None:
    line = unit_line(["Fire", "[red]in[/red]"], [0.5, -0.25])
    assert printed(line) == "Fire +0.50  [red]in[/red] -0.25\n"
    assert printed(line, force_terminal=True, no_color=True).count("48;2") == 0


def test_unit_line() -> None:
    assert unit_line(["a\x1b", "b"], [1, 0]).plain == "a\ufffd +1.00  b +0.00"
    assert unit_line([], []).plain == ""
    assert [span.style.bgcolor.triplet.hex for span in unit_line(["a"], [2.0]).spans[:1]] == ["#b2182b"]


def test_right_to_left_labels_do_not_turn_their_numbers() -> None:
    line = unit_line(["שריפה", "a"], [0.5, 0.1]).plain
    assert line.startswith("\u200e\u2068שריפה\u2069\u200e +0.50")
    assert cell_len(line) == len("שריפה +0.50  a +0.10")
