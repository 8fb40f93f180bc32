"""The script that follows documents word for word, on small made-up documents."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / ".ci"))

import follow


@pytest.mark.parametrize(
    ("shown", "line"), [("a\nc", None), ("a\n...\n  c", "  c"), ("b\na", "a"), ("  x  1  -0.000\n", None), ("d", "d")]
)
def test_shown_lines_are_printed_in_their_order(shown: str, line: str | None) -> None:
    assert follow.missing(shown, "a \n\nb\nc\n  x  1   0.000\n") == line


def test_lines_that_are_run() -> None:
    text = "pip install .\nlikewise models  # a note\nlikewise studio\nlikewise a \\\n  b\nlikewise x ../shared/y\n"
    assert follow.commands(text) == ["likewise models  # a note", "likewise a    b"]


@pytest.mark.process
def test_a_document_that_shows_something_else_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = "```python\nx = 1\n```\n```python\nprint(x + 1)\n```\nPrints:\n```text\n{}\n```\n"
    monkeypatch.setattr(follow, "ROOT", tmp_path)
    (tmp_path / "good.md").write_text(document.format(2))
    (tmp_path / "bad.md").write_text(document.format(3))
    assert follow.follow("good.md") == 1
    with pytest.raises(SystemExit, match=r"bad\.md shows\n3\n"):
        follow.follow("bad.md")
