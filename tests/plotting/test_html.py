"""Pages: every text escaped, well-formed tables, nothing from the network."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from likewise.plotting.html import hits_fragment, page, paragraph, section, table

ATTACK = "<img src=x onerror=alert(1)>\"'&"
ESCAPED = "&lt;img src=x onerror=alert(1)&gt;"


@pytest.mark.parametrize(
    "made",
    [
        page(ATTACK, []),
        section(ATTACK, []),
        paragraph(ATTACK),
        paragraph(ATTACK, note=True),
        table([ATTACK], []),
        table(["x"], [[ATTACK]]),
    ],
    ids=["page", "section", "paragraph", "note", "header", "cell"],
)
def test_texts_are_escaped(made: str) -> None:
    assert ESCAPED in made and "<img" not in made and "&amp;" in made


def test_parts_are_kept_as_they_are() -> None:
    assert "<h1>t</h1>\n<p>a</p>\n<p>b</p>\n" in page("t", [paragraph("a"), paragraph("b")])


def test_page_is_self_contained() -> None:
    assert not re.search(r"https?://|<script|<link|@import|url\(", page("t", [table(["x"], [[1]])]))


def test_cells_by_kind() -> None:
    made = table(["a", "b", "c"], [[1, 0.12345, "x"]])
    assert "<td class=number>1</td><td class=number>0.123</td><td>x</td>" in made


def test_tags_are_closed() -> None:
    class Balance(HTMLParser):
        open: tuple[str, ...] = ()

        def handle_starttag(self, tag: str, attrs: object) -> None:
            self.open += () if tag == "meta" else (tag,)

        def handle_endtag(self, tag: str) -> None:
            assert self.open[-1] == tag
            self.open = self.open[:-1]

    balance = Balance()
    balance.feed(page("t", [section("s", [paragraph("p"), table(["h"], [[1], ["x"]])])]))
    assert balance.open == ()


def test_a_page_has_the_style_of_pages_and_hits_have_their_own() -> None:
    drawn = page("t", [hits_fragment("query", "ranker", [])])
    assert "max-width" in drawn.partition("</head>")[0]
    assert ".likewise-hits" in drawn.partition("</head>")[2]
