"""Search hits as HTML; in explained hits each word is coloured by its share of the score."""

from __future__ import annotations

from collections.abc import Sequence

from likewise.plotting.html import safe
from likewise.plotting.terminal import WHITE_INK_FROM, DrawnHit, marked_words, signed, strength, strongest

STYLE = """
.likewise-hits { list-style: none; padding: 0; margin: 0; counter-reset: none; }
.likewise-hits > li { border-top: 1px solid var(--line, #d0d7de); padding: .8rem 0; display: grid;
  grid-template-columns: 7rem 1fr; gap: .2rem 1rem; }
.likewise-hits .score { font-variant-numeric: tabular-nums; font-weight: 600; }
.likewise-hits .id, .likewise-hits .why { color: var(--soft, #57606a); font-size: .88em; overflow-wrap: anywhere; }
.likewise-hits p { margin: 0 0 .3rem; overflow-wrap: anywhere; }
.likewise-hits mark { color: inherit; border-radius: .2em; padding: 0 .1em; background: none; }
.likewise-hits mark.p { background: rgb(178 24 43 / var(--s)); }
.likewise-hits mark.n { background: rgb(33 102 172 / var(--s)); }
.likewise-hits mark.x { color: #fff; }
.likewise-hits i { font-style: normal; font-variant-numeric: tabular-nums; }
"""


def hits_fragment(query: str, ranker: str, hits: Sequence[DrawnHit]) -> str:
    """A list of hits; all share one colour scale."""
    scale = strongest([share for hit in hits for *_, share in hit.words])
    items = "".join(_item(index, hit, scale) for index, hit in enumerate(hits, start=1))
    note = f"{safe(ranker)}."
    if any(hit.words for hit in hits):
        note += " Red words raise the score, blue ones lower it; hover for the share."
    return (
        f"<div><style>{STYLE}</style><p><b dir=auto>{safe(query)}</b> <span class=why>{note}</span></p>"
        f"<ol class=likewise-hits>{items}</ol></div>\n"
    )


def marked(text: str, words: Sequence[tuple[int, int, float]], scale: float) -> str:
    """A text, escaped, with its words (start, end, share) coloured."""
    parts = []
    for piece, share in marked_words(text, words):
        size = strength(share or 0.0, scale)
        kind = ("n" if (share or 0.0) < 0 else "p") + (" x" if size > WHITE_INK_FROM else "")
        mark = "" if share is None else f'<mark class="{kind}" style="--s:{size:.3g}" title="{share:+.4f}">'
        parts.append(f"{mark}{safe(piece)}{'</mark>' if mark else ''}")
    return "".join(parts)


def _item(index: int, hit: DrawnHit, scale: float) -> str:
    pairs = ", ".join(f"{safe(left)} × {safe(right)} <i>{signed(value)}</i>" for left, right, value in hit.pairs)
    above, sums = (
        ", ".join(f"{safe(name)} <i>{signed(value)}</i>" for name, value in terms)
        for terms in (hit.margin_terms, hit.sums)
    )
    margin = f"above the next by <i>{round(hit.margin, 4) + 0.0:.4f}</i>: {above}" if above else ""
    notes = (f"score: {sums}" if sums else "", pairs, margin)
    why = "".join(f"<p class=why>{note}</p>" for note in notes if note)
    return (
        f"<li><div><span class=score>{index}. {hit.score:.4f}</span><br><span class=id>{safe(hit.id)}</span></div>"
        f"<div><p dir=auto>{marked(hit.text, hit.words, scale)}</p>{why}</div></li>\n"
    )
