"""The demo: its numbers and its page."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from conftest import save_tiny
from likewise.data import read_scored_pairs
from likewise.demo import TEXTS, demo
from likewise.encoder import Encoder
from likewise.evaluation.sts import evaluate_sts
from likewise.plotting.explained import explained_fragment
from likewise.sample import sample_sentences


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """Wide enough that each bias can be dealt out to all tokens of the demo's texts."""
    return Encoder.load(str(save_tiny(tmp_path_factory.mktemp("models") / "wide", hidden_size=64)), device="cpu")


def test_kinds_are_means_over_their_pairs(wide: Encoder) -> None:
    pairs = list(read_scored_pairs("sample/pairs"))
    found, cosines = demo(wide), evaluate_sts(wide, pairs).predicted
    assert {kind: count for kind, count, _, _ in found.kinds} == Counter(pair.meta["kind"] for pair in pairs)
    for kind, _, score, cosine in found.kinds:
        rows = [row for row, pair in enumerate(pairs) if pair.meta["kind"] == kind]
        assert score == pytest.approx(np.mean([pairs[row].score for row in rows]))
        assert cosine == pytest.approx(cosines[rows].mean(), abs=1e-6)
    order = [cosine for *_, cosine in found.kinds]
    assert order == sorted(order, reverse=True)


def test_similarities_are_the_encoder_s(wide: Encoder) -> None:
    found = demo(wide)
    assert found.texts == TEXTS and found.similarity.shape == (5, 5)
    np.testing.assert_allclose(found.similarity, wide.similarity(TEXTS, TEXTS), atol=1e-6)
    assert found.inspection.texts[0].text == TEXTS[0] and found.sts.n == 60


def test_explains_the_first_two_texts(wide: Encoder) -> None:
    found = demo(wide).explanation
    assert (found.left.text, found.right.text) == TEXTS[:2] and found.metadata.granularity == "word"
    assert found.similarity == pytest.approx(wide.similarity(TEXTS[0], TEXTS[1])[0, 0], abs=1e-5)
    assert abs(found.gap) < 1e-5 and "harbour" in found.left.labels


@pytest.mark.slow
def test_bundled_model_tells_the_story_of_the_page(minilm: Encoder) -> None:
    """The page says that near-misses cost: they score like other meanings and lie close."""
    found = demo(minilm)
    cosine = {kind: value for kind, _, _, value in found.kinds}
    assert found.sts.agreement["spearman"].value > 0.5
    assert min(cosine["negation"], cosine["number"], cosine["role-swap"]) > cosine["idiom"] > cosine["unrelated"]
    strongest = [(left.text, right.text) for left, right, _ in found.explanation.strongest(3)]
    assert ("harbour", "harbour") in strongest


@pytest.mark.slow
def test_page_shows_reasons_meanings_and_a_near_miss(minilm: Encoder) -> None:
    found = demo(minilm)
    page = found.to_html()
    # A fight comes before the volcano, and the page shows the word that is to blame.
    (start, end, _), *_ = sorted(found.hits[0].words, key=lambda word: -word[2])
    assert found.hits[0].text.startswith("A fight erupted") and found.hits[0].text[start:end] == "erupted"
    assert all(hit.meaning is not None for hit in found.hits) and str(found.hits[0].meaning) in page
    passage = found.documents[0].passage
    assert passage is not None and passage.of > 1 and found.documents[0].text in " ".join(sample_sentences())
    percentiles = [value for _, value in found.tables()["meanings"].rows]
    assert percentiles == sorted(percentiles) and percentiles[0] < 0.9 < 0.99 < percentiles[-1]
    assert 1 - found.near_miss.distance > 0.9, "a reader finds them different, the model does not"
    assert found.near_miss.left_words.words.text in page and found.near_miss.left and found.near_miss.right


def test_page_shows_the_study(wide: Encoder) -> None:
    study = demo(wide)
    page = study.to_html()
    assert f"{study.sts.agreement['spearman'].value:.3f}" in page
    for kind, count, score, cosine in study.kinds:
        cells = "".join(f"<td class=number>{value}</td>" for value in (count, f"{score:.3f}", f"{cosine:.3f}"))
        assert f"<tr><td>{kind}</td>{cells}</tr>" in page
    svg = re.search(r"<svg.*?</svg>", page, re.DOTALL)
    assert svg and len(re.findall("<rect", svg[0])) == len(TEXTS) ** 2
    ElementTree.fromstring(svg[0])


def test_texts_are_escaped_everywhere(wide: Encoder) -> None:
    attack = "<img src=x onerror=alert(1)>"
    page = demo(wide, (attack, "[bold]plain[/bold]")).to_html()
    assert "<img" not in page
    assert page.count("&lt;img src=x onerror=alert(1)&gt;") >= 3  # the text, the label, the hints
    assert "[bold]plain[/bold]" in page


def test_page_shows_the_explanation(wide: Encoder) -> None:
    study = demo(wide)
    page = study.to_html()
    assert explained_fragment(study.explanation.drawn()) in page
    assert f"{study.explanation.similarity:.4f}" in page and ">harbour<" in page


def test_page_needs_no_network(wide: Encoder) -> None:
    page = demo(wide).to_html().replace("http://www.w3.org/2000/svg", "")  # a name, never fetched
    assert not re.search(r"https?://|<script\s|<link|src=|@import|url\(", page)


def test_written_page(wide: Encoder, tmp_path: Path) -> None:
    study = demo(wide, ("ein Café", "naïve 日本"))
    folder = study.save(tmp_path / "a" / "b")
    assert (folder / "index.html").read_text(encoding="utf-8") == study.to_html()
    assert "日本" in (folder / "index.html").read_bytes().decode("utf-8")


def test_tables_are_the_numbers_of_the_study(wide: Encoder) -> None:
    study = demo(wide)
    tables = study.tables()
    assert [row[1:] for row in tables["similarity"].rows] == [tuple(row) for row in study.similarity.tolist()]
    assert [tuple(row) for row in tables["kinds"].rows] == study.kinds and len(tables["strongest"].rows) == 6
    assert study.to_dict()["similarity"] == study.similarity.tolist()
