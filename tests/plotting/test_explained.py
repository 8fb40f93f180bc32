"""Explained pairs as HTML: escaping, sizes, the embedded values, plain tables that add up, and a script that draws."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.errors import UsageError
from likewise.plotting.explained import ExplainedPair, explained_fragment
from likewise.plotting.html import page

MOST_BYTES = 300_000


def random_pair(rows: int, columns: int, label: str = "token", **fields: object) -> ExplainedPair:
    rng = np.random.default_rng(rows + columns)
    cells, left, right = rng.normal(size=(rows, columns)), rng.normal(size=rows), rng.normal(size=columns)
    similarity = cells.sum() + left.sum() + right.sum() + 0.06 + 3e-7
    given = {"left": [label] * rows, "right": [label] * columns} | fields
    return ExplainedPair(
        relevance=cells, bias_left=left, bias_right=right, bias_both=0.06, similarity=similarity, **given
    )


def embedded(fragment: str) -> dict[str, Any]:
    """What the script draws."""
    return json.loads(unescape(re.search("data-pair='([^']*)'", fragment)[1]))


def decoded(fragment: str, name: str) -> np.ndarray:
    scale, body = embedded(fragment)[name].split(";")
    levels = np.frombuffer(base64.b64decode(body), "<i2")
    return np.where(levels < -32767, np.nan, levels / 32767 * float(scale))


def table_numbers(fragment: str, head: str) -> dict[str, list[float]]:
    """The rows of a plain table by their names."""
    body = re.search(rf"<th>{head}</th>.*?<tbody>(.*?)</tbody>", fragment, re.S)[1]
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in body.splitlines()]
    return {name: [float(number) for number in numbers] for name, *numbers in rows}


class Outline(HTMLParser):
    """Checks that tags close in order, and gathers them."""

    VOID = ("meta", "br")

    def __init__(self, document: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.feed(document)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open += [] if tag in self.VOID else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


class TestPair:
    def test_ledger_adds_up(self) -> None:
        pair = random_pair(4, 7)
        terms = pair.ledger()
        assert sum(terms.values()) == pytest.approx(pair.similarity, abs=1e-12)
        assert terms["gap"] == pytest.approx(3e-7, rel=1e-3)

    def test_shares_leave_only_the_other_bias(self) -> None:
        pair = random_pair(4, 7)
        left, right = pair.shares()
        assert left.sum() + pair.biases[1].sum() + pair.bias_both == pytest.approx(pair.similarity, abs=1e-6)
        assert right.sum() + pair.biases[0].sum() + pair.bias_both == pytest.approx(pair.similarity, abs=1e-6)

    @pytest.mark.parametrize("steps", [(1, 1), (2, 3), (5, 1), (99, 99)])
    def test_merging_keeps_every_term(self, steps: tuple[int, int]) -> None:
        pair = random_pair(5, 8, left=list("abcde"))
        merged = pair.merged(*steps)
        assert merged.cells.shape == (-(-5 // steps[0]), -(-8 // steps[1]))
        assert merged.ledger() == pytest.approx(pair.ledger())
        assert " ".join(merged.left) == "a b c d e"
        assert merged.cells[0, 0] == pytest.approx(pair.cells[: steps[0], : steps[1]].sum())

    def test_strongest_pairs(self) -> None:
        pair = ExplainedPair(["a", "b"], ["c", "d"], [[0.1, -0.9], [np.nan, 0.5]], [0, 0], [0, 0], 0, 0)
        assert pair.strongest_pairs(2) == [(0, 1, -0.9), (1, 1, 0.5)]

    def test_wrong_shapes_are_refused(self) -> None:
        with pytest.raises(UsageError, match=r"bias_left has the shape \(2,\); 1 and 1 labels need \(1,\)"):
            ExplainedPair(["a"], ["b"], [[1]], [1, 2], [1], 0, 0)
        with pytest.raises(UsageError, match="at least one unit"):
            ExplainedPair([], ["b"], np.zeros((0, 1)), [], [1], 0, 0)


class TestEscaping:
    UNITS = ("<script>alert(1)</script>", "</script>", "\"'&", "a\x1b[31m\x00b", "\n", "\ud800", "\u202eabc")

    def test_units_are_texts_only(self) -> None:
        pair = random_pair(7, 7, left=self.UNITS, right=self.UNITS, metadata={"<i>": "</script><script>"}, units="<u>")
        fragment = explained_fragment(pair)
        assert fragment.count("<script>") == fragment.count("</script>") == 1
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in fragment
        assert not {tag for tag, _ in Outline(fragment).tags} & {"i>", "u"}
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\ud800-\udfff]", fragment)
        fragment.encode("utf-8")

    def test_quotes_stay_inside_no_attribute(self) -> None:
        pair = random_pair(1, 1, left=['" onfocus="alert(1)'], metadata={'"': '" x="'})
        names = {name for _, attributes in Outline(explained_fragment(pair)).tags for name in attributes}
        assert not {"onfocus", "x"} & names

    def test_blank_units_can_be_seen(self) -> None:
        fragment = explained_fragment(random_pair(3, 1, left=["\n", " ", ""]))
        assert "⏎" in fragment and fragment.count("␣") >= 2


class TestFragment:
    @pytest.mark.parametrize("shape", [(1, 1), (5, 6), (14, 14), (20, 30), (60, 60), (300, 2)])
    def test_is_well_formed_alone_and_in_a_page(self, shape: tuple[int, int]) -> None:
        fragment = explained_fragment(random_pair(*shape))
        Outline(fragment)
        tags = [tag for tag, _ in Outline(page("t", [fragment, fragment])).tags]
        assert tags.count("script") == 2
        without_names = fragment.replace("http://www.w3.org/2000/svg", "")  # a name, never fetched
        assert not re.search(r"https?://|@import|url\(|\ssrc=|\sid=", without_names)

    def test_rules_of_style_are_scoped(self) -> None:
        style = "".join(re.findall("`([^`]*likewise-explained[^`]*{[^`]*)`", explained_fragment(random_pair(1, 1))))
        style = re.sub(r"@media[^{]*\{(.*?\})\s*\}", r"\1", style, flags=re.S)
        selectors = [one for rule in re.findall(r"([^{}]+)\{", style) for one in rule.split(",")]
        assert len(selectors) > 40
        assert [one for one in selectors if ".likewise-explained" not in one] == []

    def test_the_script_draws_what_is_given(self) -> None:
        pair = random_pair(2, 2, left=["a", "b"], units="words", rest="reference", metadata={"model": "all-MiniLM"})
        data = embedded(explained_fragment(pair))
        assert data["units"] == [["a", "b"], ["token", "token"]]
        assert (data["kind"], data["rest"], data["metadata"]) == ("words", "reference", {"model": "all-MiniLM"})
        *terms, (last, total) = data["ledger"].items()
        assert dict(terms) == pytest.approx(pair.ledger()) and (last, total) == ("similarity", pair.similarity)
        assert [(row, column, value) for row, column, _, _, value in data["strongest"]] == pair.strongest_pairs()

    @pytest.mark.parametrize("shape", [(3, 4), (60, 60), (128, 128)])
    def test_data_are_the_values(self, shape: tuple[int, int]) -> None:
        pair = random_pair(*shape)
        fragment = explained_fragment(pair)
        within = np.abs(pair.cells).max() / 32767
        assert decoded(fragment, "relevance") == pytest.approx(pair.cells.ravel(), abs=within)
        assert decoded(fragment, "shares") == pytest.approx(np.concatenate(pair.shares()), abs=1e-2)
        assert len(decoded(fragment, "bias")) == sum(shape) + 1

    def test_what_is_no_number_stays_none(self) -> None:
        fragment = explained_fragment(ExplainedPair(["a"], ["b", "c"], [[np.nan, 0.5]], [0], [0, 0], 0, 0.5))
        assert np.isnan(decoded(fragment, "relevance")).tolist() == [True, False]
        data = embedded(fragment)
        assert data["ledger"]["gap"] is None and data["ledger"]["similarity"] == 0.5
        assert data["strongest"] == [[0, 1, "a", "c", 0.5]]


class TestPlain:
    """What readers without scripts see."""

    def test_ledger_adds_up(self) -> None:
        fragment = explained_fragment(random_pair(5, 6, units="words"))
        rows = {name: value for name, [value] in table_numbers(fragment, "ledger").items()}
        assert list(rows) == [
            "words × words",
            "left words × right bias",
            "left bias × right words",
            "bias × bias",
            "gap",
            "similarity",
        ]
        *terms, total = rows.values()
        assert sum(terms) == pytest.approx(total, abs=5e-3)
        assert float(re.search(r"<b>([^<]+)</b> similarity", fragment)[1]) == pytest.approx(total, abs=1e-3)

    def test_matrix_has_biases_and_shares(self) -> None:
        pair = ExplainedPair(["a", "b"], ["c"], [[0.4], [-0.2]], [0.1, 0.0], [0.05], 0.01, 0.36)
        rows = table_numbers(explained_fragment(pair), "c")
        assert rows == {"a": [0.4, 0.1, 0.5], "b": [-0.2, 0.0, -0.2], "bias": [0.05, 0.01], "sum": [0.25]}

    def test_strongest_pairs_are_listed_in_order(self) -> None:
        fragment = explained_fragment(random_pair(9, 9, left=list("abcdefghi"), right=list("jklmnopqr")))
        sizes = [abs(value) for [value] in table_numbers(fragment, "strongest pairs").values()]
        assert len(sizes) == 10 and sizes == sorted(sizes, reverse=True)

    def test_facts(self) -> None:
        fragment = explained_fragment(random_pair(2, 2, metadata={"model": "all-MiniLM", "pooling": "mean"}))
        assert "<dt>model</dt><dd>all-MiniLM</dd>" in fragment and "<dt>pooling</dt><dd>mean</dd>" in fragment

    def test_matrix_of_short_texts_and_words_of_long_ones(self) -> None:
        short, long = explained_fragment(random_pair(40, 40)), explained_fragment(random_pair(41, 40))
        assert "needs JavaScript" not in short and len(re.findall("<td class=number>", short)) > 41 * 41
        assert "needs JavaScript" in long and "token token" in long


class TestSize:
    @pytest.mark.parametrize("shape", [(128, 128), (256, 256), (512, 512), (512, 100), (3000, 1), (2000, 700)])
    @pytest.mark.parametrize("label", ["hospital", "'<&>\"" * 40, "火災病院" * 30])
    def test_bound(self, shape: tuple[int, int], label: str) -> None:
        metadata = {"method": "<" * 1000, "model": "'" * 1000}
        fragment = explained_fragment(random_pair(*shape, label=label, metadata=metadata, units="tokens"))
        assert len(fragment.encode()) < MOST_BYTES

    def test_merging_is_said_and_exact(self) -> None:
        pair = random_pair(512, 512, units="tokens")
        fragment = explained_fragment(pair)
        assert "512 × 512 tokens are too many" in fragment and "2 on the left and 2 on the right" in fragment
        shown, exact = decoded(fragment, "relevance"), pair.merged(2, 2).cells
        assert shown == pytest.approx(exact.ravel(), abs=np.abs(exact).max() / 32767)

    def test_nothing_is_merged_nor_said_without_need(self) -> None:
        fragment = explained_fragment(random_pair(256, 256))
        assert embedded(fragment)["notes"] == []
        assert len(decoded(fragment, "relevance")) == 256 * 256

    def test_cut_labels_are_said(self) -> None:
        fragment = explained_fragment(random_pair(100, 100, label="x" * 500, units="sentences"))
        characters = int(re.search(r"Longer sentences are cut to (\d+) letters", fragment)[1])
        assert "x" * (characters - 1) + "…" in fragment and "x" * characters not in fragment


@pytest.mark.browser
class TestScript:
    SNIPPET = "<script>document.querySelectorAll('.coloured')[0].children[%d].focus()</script></body>"

    def document(self, tmp_path: Path, parts: list[str], focus: int = 0) -> str:
        """A page after its script has run."""
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        if chromium is None:
            pytest.skip("Chromium is not installed")
        path = tmp_path / "a.html"
        path.write_text(page("t", parts).replace("</body>", self.SNIPPET % focus), "utf-8")
        flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom"]
        done = subprocess.run([chromium, *flags, path.as_uri()], capture_output=True, text=True, timeout=90)
        return done.stdout

    @pytest.mark.parametrize("size", [6, 60])
    def test_focus_on_a_unit_shows_its_partners(self, tmp_path: Path, size: int) -> None:
        names = [f"w{place}" for place in range(size)]
        pair = random_pair(size, size, left=names, right=names)
        shown = self.document(tmp_path, [explained_fragment(pair)], 2)
        said = unescape(re.sub(r"<[^>]+>", "", re.search(r'class="readout".*?>(.*?)</p>', shown, re.S)[1]))
        strongest = int(np.argmax(np.abs(pair.cells[2])))
        pattern = r"w2 adds (\S+), .*? Strongest with (w\d+) ([^,]+),"
        added, partner, amount = re.match(pattern, said.replace("−", "-")).groups()
        assert partner == f"w{strongest}"
        assert float(amount) == pytest.approx(pair.cells[2, strongest], abs=2e-4)
        assert float(added) == pytest.approx(pair.shares()[0][2], abs=1e-3)

    def test_every_pair_of_a_page_is_drawn_once_and_texts_stay_texts(self, tmp_path: Path) -> None:
        hostile = "<img src=x onerror=alert(1)>"
        pair = random_pair(2, 3, left=[hostile, "b"], metadata={hostile: hostile}, units="words")
        merged = random_pair(520, 2, units="words")
        shown = self.document(tmp_path, [explained_fragment(pair), explained_fragment(merged), "<p>between</p>"])
        assert shown.count('<svg class="heatmap') == shown.count('<svg class="ledger"') == 2
        assert shown.count('<svg class="lines"') == 1, "not of long texts"
        assert "<img" not in shown and "&lt;img src=x onerror=alert(1)&gt;" in shown
        assert "<dl>" in shown and "520 × 2 words are too many" in shown
        drawn = re.sub("data-pair='.*?'|<script>.*?</script>", "", shown, flags=re.S)
        assert "<table>" not in drawn, "the plain tables are replaced"
