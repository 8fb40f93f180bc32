"""The demo page: the bundled model on a few texts, as one self-contained HTML file."""

from __future__ import annotations

from pathlib import Path

from likewise.demo import Demo
from likewise.plotting.html import matrix_svg, page, paragraph, section, table


def write_demo(demo: Demo, path: Path) -> Path:
    """Write the page; the folder is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(demo_page(demo), encoding="utf-8")
    return path


def demo_page(demo: Demo) -> str:
    """Inspection, similarity and agreement with hand-given scores, on one page."""
    metadata = demo.inspection.model
    tokens = [(token.token, token.id, "special" if token.special else "") for token in demo.inspection.texts[0].tokens]
    return page(
        "Likewise demo",
        [
            paragraph(f"Model {metadata.name}: {metadata.layers} layers, {metadata.parameters:,} parameters, on this machine."),
            section("How the model reads a text", [
                paragraph(demo.inspection.texts[0].text),
                table(("token", "id", ""), tokens),
            ]),
            section("How similar it finds texts", [
                paragraph("Cosine of every pair of sentence vectors."),
                matrix_svg(demo.similarity, demo.texts, demo.texts),
            ]),
            section("Why it finds the first two similar", [
                paragraph("Each pair of words with what it adds to the cosine; the parts sum to the whole."),
                demo.explanation._repr_html_(),
            ]),
            section("How well that agrees with a reader", [
                paragraph(
                    f"On {demo.sts.n} built-in pairs with scores given by hand, Spearman's correlation is"
                    f" {demo.sts.agreement['spearman'].value:.3f}. The near-misses are what costs: negations,"
                    " numbers and swapped roles change the meaning and hardly the vector."
                ),
                table(("kind of pair", "pairs", "mean score, 0 to 5", "mean cosine"), demo.kinds),
            ]),
        ],
    )  # fmt: skip
