"""Hits drawn: escaped, on one colour scale, with their reasons, as a page's fragment and as a terminal's lines."""

from __future__ import annotations

import re
from html import unescape

import pytest
from rich.text import Text

from likewise.plotting.html import hits_fragment, marked
from likewise.plotting.terminal import DrawnHit, coloured_text, hits_lines

HOSTILE = "<script>alert('1')</script> & \"x\" <img src=x onerror=y> --> </style>"


def inner(html: str) -> str:
    """What a reader sees of a piece of HTML."""
    return unescape(re.sub(r"<[^>]+>", "", html))


def marks(html: str) -> list[tuple[str, str, str, str]]:
    """Class, strength, title and content of each mark."""
    return re.findall(r'<mark class="([^"]*)" style="--s:([^"]*)" title="([^"]*)">(.*?)</mark>', html)


def painted(line: Text) -> list[tuple[str, str]]:
    """The pieces of a line that have a background, each with it."""
    return [(line.plain[span.start : span.end], str(span.style)) for span in line.spans if "on #" in str(span.style)]


class TestMarked:
    def test_the_text_stays_what_it_is(self) -> None:
        words = [(0, 8, 0.5), (9, 14, -0.25), (20, 26, 0.0)]
        found = marked(HOSTILE, words, 0.5)
        assert inner(found) == HOSTILE and not re.search(r"<(?!/?mark\b)", found)
        assert [(kind, title) for kind, _, title, _ in marks(found)] == [
            ("p", "+0.5000"), ("n", "-0.2500"), ("p", "+0.0000")
        ]  # fmt: skip

    def test_strength_is_on_the_scale(self) -> None:
        assert [size for _, size, _, _ in marks(marked("a b c", [(0, 1, 0.1), (2, 3, -0.2), (4, 5, 0.4)], 0.4))] == [
            "0.25", "0.5", "1"
        ]  # fmt: skip
        assert marks(marked("a", [(0, 1, 9.0)], 0.4))[0][1] == "1"

    @pytest.mark.parametrize(
        "words", [[(0, 3, 0.1), (0, 3, 0.2)], [(0, 3, 0.1), (1, 2, 0.2)], [(0, 3, 0.1), (2, 5, 1)]]
    )
    def test_overlapping_words_do_not_double_letters(self, words: list[tuple[int, int, float]]) -> None:
        assert inner(marked("the cat", words, 1.0)) == "the cat"
        assert coloured_text("the cat", words, 1.0).plain == "the cat"

    @pytest.mark.parametrize("words", [[], [(0, 0, 1.0)], [(7, 7, 1.0)]])
    def test_no_words(self, words: list[tuple[int, int, float]]) -> None:
        assert marked("the cat", words, 1.0) == "the cat" and coloured_text("the cat", words, 1.0).spans == []

    def test_words_in_any_order(self) -> None:
        assert marked("a b", [(2, 3, 0.1), (0, 1, 0.2)], 1.0) == marked("a b", [(0, 1, 0.2), (2, 3, 0.1)], 1.0)

    def test_what_is_no_number_has_no_colour(self) -> None:
        assert marks(marked("a", [(0, 1, float("nan"))], 1.0))[0][1] == "0"
        assert painted(coloured_text("a", [(0, 1, float("nan"))], 1.0)) == []


class TestFragment:
    def test_everything_is_escaped(self) -> None:
        hit = DrawnHit(HOSTILE, 0.5, HOSTILE, [(0, 8, 0.4)], [(HOSTILE, HOSTILE, 0.4)], 0.1, [(HOSTILE, 0.1)])
        found = hits_fragment(HOSTILE, HOSTILE, [hit])
        assert "<script" not in found and "<img" not in found and found.count("</style>") == 1
        assert inner(found).count(HOSTILE) == 7
        tags = {"div", "style", "p", "b", "span", "ol", "li", "br", "mark", "i"}
        assert set(re.findall(r"</?([a-z]+)", found)) <= tags

    def test_one_scale_for_all_hits(self) -> None:
        hits = [DrawnHit("1", 0.9, "a", [(0, 1, 0.4)]), DrawnHit("2", 0.8, "b", [(0, 1, -0.1)])]
        assert [size for _, size, _, _ in marks(hits_fragment("q", "m", hits))] == ["1", "0.25"]
        lines = hits_lines("q", "m", hits)
        strong, weak = painted(lines[1]), painted(lines[2])
        assert strong == [("a", "#ffffff on #b2182b")] and weak[0][1].startswith("#000000 on #c")

    def test_numbers_and_reasons(self) -> None:
        hit = DrawnHit("7", 0.51234, "a cat", [(2, 5, 0.4)], [("cats", "cat", 0.41234)], 0.02, [("cats", -0.0312)])
        found = inner(hits_fragment("cats", "minilm, exact", [hit]))
        for words in ("1. 0.5123", "cats × cat +0.412", "above the next by 0.0200: cats -0.031", "minilm, exact."):
            assert words in found
        assert "Red words raise the score" in found

    def test_plain_hits_have_no_legend_and_no_reasons(self) -> None:
        found = hits_fragment("cats", "bm25", [DrawnHit("7", 3.5, "a cat")])
        assert "Red words" not in found and "class=why></p>" not in found and "above the next" not in found
        assert marks(found) == [] and "<p dir=auto>a cat</p>" in found

    def test_no_hits(self) -> None:
        found = hits_fragment("cats", "bm25", [])
        assert "<li>" not in found and "cats" in found and "Red words" not in found
        assert [line.plain for line in hits_lines("cats", "bm25", [])] == ["cats  (bm25)", "no hits"]

    def test_all_shares_zero(self) -> None:
        hits = [DrawnHit("1", 0.0, "a", [(0, 1, 0.0)])]
        assert marks(hits_fragment("q", "m", hits))[0][1] == "0" and painted(hits_lines("q", "m", hits)[1]) == []

    def test_many_and_long(self) -> None:
        """Nothing is cut: a page scrolls and a terminal wraps."""
        margin_terms = [(f"word{place}" * 20, 0.01) for place in range(50)]
        hits = [DrawnHit(str(place), 0.5, "cat " * 2000, [], [], 0.1, margin_terms) for place in range(120)]
        found, lines = hits_fragment("q", "m", hits), hits_lines("q", "m", hits)
        assert "120. 0.5000" in found and found.count("word49" * 20) == 120
        assert lines[-2].plain.startswith("120  0.5000  119  cat") and "word49" in lines[-1].plain

    def test_a_tie_leads_by_nothing(self) -> None:
        hit = DrawnHit("1", 0.5, "a", [], [], -1e-9, [("a", -1e-9)])
        assert "-0.000" not in hits_fragment("q", "m", [hit]) + str(hits_lines("q", "m", [hit]))

    def test_the_legend_stands_wherever_there_is_colour(self) -> None:
        hits = [DrawnHit("1", 0.9, ""), DrawnHit("2", 0.8, "cat", [(0, 3, 0.1)])]
        assert "Red words" in hits_fragment("q", "m", hits)

    @pytest.mark.parametrize("letter", ["\x1b", "\x00", "\x07", "\u202e", "\u2066", "\ud83e"], ids=ascii)
    def test_letters_that_no_page_may_hold(self, letter: str) -> None:
        text = f"a {letter} cat"
        hit = DrawnHit(text, 0.5, text, [(4, 7, 0.4)], [(text, text, 0.4)], 0.1, [(text, 0.1)])
        found = hits_fragment(text, text, [hit])
        assert letter not in found and marks(found)[0][3] == "cat"


class TestLines:
    def test_of_explained_hits(self) -> None:
        hit = DrawnHit("7", 0.51234, "a cat", [(2, 5, 0.4)], [("cats", "cat", 0.41234)], 0.02, [("cats", -0.0312)])
        assert [line.plain for line in hits_lines("cats", "minilm", [hit])] == [
            "cats  (minilm)", " 1  0.5123  7  a cat", "      pairs: cats × cat +0.412",
            "      above the next by 0.0200: cats -0.031",
        ]  # fmt: skip

    def test_each_hit_is_one_line_that_drives_no_terminal(self) -> None:
        text = "one\ntwo\u2028three\x1b[31m\rfour\tfive \u202e [bold]x[/bold]"
        hit = DrawnHit(text, 0.5, text, [(0, 3, 0.4)], [(text, text, 0.4)], 0.1, [(text, 0.1)])
        lines = hits_lines(text, text, [hit])
        assert len(lines) == 4
        for line in lines:
            assert not re.search("[\x00-\x1f\x7f\u2028\u202a-\u202e]", line.plain) and "[bold]x[/bold]" in line.plain
        assert painted(lines[1]) == [("one", "#ffffff on #b2182b")]

    def test_blanks_at_the_ends_of_words_stay(self) -> None:
        assert coloured_text(" a  cat\n", [(1, 2, 0.4), (4, 8, -0.4)], 0.4).plain == " a  cat "

    def test_faint_shares_keep_the_terminals_own_background(self) -> None:
        assert painted(coloured_text("a b", [(0, 1, 0.01), (2, 3, 0.1)], 1.0)) == [("b", "#000000 on #f7e8ea")]
