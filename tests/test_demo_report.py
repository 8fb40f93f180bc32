"""The demo page."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from conftest import save_tiny
from likewise.demo import TEXTS, demo
from likewise.demo_report import demo_page, write_demo
from likewise.encoder import Encoder
from likewise.plotting.explained import explained_fragment


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """Wide enough that each bias can be dealt out to all tokens of the demo's texts."""
    return Encoder.load(str(save_tiny(tmp_path_factory.mktemp("models") / "wide", hidden_size=64)), device="cpu")


def test_page_shows_the_study(wide: Encoder) -> None:
    study = demo(wide)
    page = demo_page(study)
    assert f"{study.sts.agreement['spearman'].value:.3f}" in page
    for kind, count, score, cosine in study.kinds:
        cells = "".join(f"<td class=number>{value}</td>" for value in (count, f"{score:.3f}", f"{cosine:.3f}"))
        assert f"<tr><td>{kind}</td>{cells}</tr>" in page
    svg = re.search(r"<svg.*?</svg>", page, re.DOTALL)
    assert svg and len(re.findall("<rect", svg[0])) == len(TEXTS) ** 2
    ElementTree.fromstring(svg[0])


def test_texts_are_escaped_everywhere(wide: Encoder) -> None:
    attack = "<img src=x onerror=alert(1)>"
    page = demo_page(demo(wide, (attack, "[bold]plain[/bold]")))
    assert "<img" not in page
    assert page.count("&lt;img src=x onerror=alert(1)&gt;") >= 3  # the text, the label, the hints
    assert "[bold]plain[/bold]" in page


def test_page_shows_the_explanation(wide: Encoder) -> None:
    study = demo(wide)
    page = demo_page(study)
    assert explained_fragment(study.explanation.drawn()) in page
    assert f"{study.explanation.similarity:.4f}" in page and ">harbour<" in page


def test_page_needs_no_network(wide: Encoder) -> None:
    page = demo_page(demo(wide)).replace("http://www.w3.org/2000/svg", "")  # a name, never fetched
    assert not re.search(r"https?://|<script\s|<link|src=|@import|url\(", page)


def test_written_page(wide: Encoder, tmp_path: Path) -> None:
    study, path = demo(wide, ("ein Café", "naïve 日本")), tmp_path / "a" / "b" / "page.html"
    assert write_demo(study, path) == path
    assert path.read_text(encoding="utf-8") == demo_page(study)
    assert "日本" in path.read_bytes().decode("utf-8")
