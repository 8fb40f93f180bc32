"""Pairs of texts with marked spans, as terminal lines and as HTML; every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.style import Style
from rich.text import Text

from likewise.plotting.html import safe
from likewise.plotting.terminal import marked_words, one_line, printable, shortened

MOST_CHARACTERS = 600  # Of a text that is shown
Spans = Sequence[tuple[int, int, float]]  # Start, end and weight

STYLE = """
.likewise-pairs { list-style: none; padding: 0; margin: 0; }
.likewise-pairs > li { border-top: 1px solid var(--line, #d0d7de); padding: .7rem 0; display: grid;
  grid-template-columns: 7.5rem 1fr; gap: .2rem 1rem; }
.likewise-pairs .score { font-variant-numeric: tabular-nums; font-weight: 600; }
.likewise-pairs .id, .likewise-pairs .note { opacity: .8; font-size: .85em; overflow-wrap: anywhere; }
.likewise-pairs p { margin: 0 0 .25rem; overflow-wrap: anywhere; }
.likewise-pairs mark { color: inherit; border-radius: .2em; padding: 0 .1em; background: rgb(230 159 0 / .35); }
.likewise-pairs .flag { border: 1px solid #b2182b; color: #b2182b; border-radius: .7em; padding: 0 .5em;
  font-size: .8em; white-space: nowrap; }
@media (prefers-color-scheme: dark) { .likewise-pairs .flag { border-color: #f4a582; color: #f4a582; } }
"""


@dataclass(frozen=True)
class MarkedText:
    """A text with its id and the spans that are marked."""

    id: str
    text: str
    spans: Spans = ()


@dataclass(frozen=True)
class MarkedPair:
    """Two texts, their score, flags with their evidence, and a note under the score."""

    left: MarkedText
    right: MarkedText
    score: float
    flags: Sequence[tuple[str, str]] = ()
    note: str = ""


def pairs_fragment(pairs: Sequence[MarkedPair]) -> str:
    """A list of pairs as HTML.

    >>> pair = MarkedPair(MarkedText("1", "Two cats", [(0, 3, 1.0)]), MarkedText("2", "Five cats"), 0.9)
    >>> "<mark>Two</mark> cats" in pairs_fragment([pair])
    True
    """
    items = "".join(map(_item, pairs))
    return f"<div><style>{STYLE}</style><ol class=likewise-pairs>{items}</ol></div>\n"


def _item(pair: MarkedPair) -> str:
    flags = "".join(
        f"<span class=flag>{safe(name)}</span> <span class=note>{safe(evidence)}</span> "
        for name, evidence in pair.flags
    )
    note = f"<br><span class=note>{safe(pair.note)}</span>" if pair.note else ""
    texts = "".join(
        f"<p dir=auto>{_marked(one)} <span class=id>{safe(shortened(one.id, 80))}</span></p>"
        for one in (pair.left, pair.right)
    )
    return f"<li><div><span class=score>{pair.score:.4f}</span>{note}</div><div>{texts}{flags}</div></li>\n"


def _marked(one: MarkedText) -> str:
    text, spans = _shown(one)
    pieces = marked_words(text, spans)
    parts = [safe(piece) if weight is None else f"<mark>{safe(piece)}</mark>" for piece, weight in pieces]
    return "".join(parts) + ("…" if len(text) < len(one.text) else "")


def _shown(one: MarkedText) -> tuple[str, list[tuple[int, int, float]]]:
    """The start of a text that is shown, and the spans in it."""
    text = one.text[:MOST_CHARACTERS]
    return text, [(start, min(end, len(text)), weight) for start, end, weight in one.spans if start < len(text)]


def pairs_lines(pairs: Sequence[MarkedPair]) -> list[Text]:
    """A list of pairs for a terminal; without colours, marked spans are named in a line of their own."""
    lines: list[Text] = []
    for pair in pairs:
        note = f"  {printable(pair.note)}" if pair.note else ""
        flags = "".join(f"  {printable(name)}: {printable(evidence)}" for name, evidence in pair.flags)
        head = Text(f"{pair.score:.4f}", Style(bold=True)).append(note, Style(dim=True, bold=False))
        lines.append(head.append(flags, Style(color="red", bold=False)))
        lines += [_text_line(one) for one in (pair.left, pair.right)]
        differing = [" … ".join(one_line(part) for part in _parts(one)) or "-" for one in (pair.left, pair.right)]
        if differing != ["-", "-"]:
            lines.append(Text(f"  differ in: {differing[0]}  |  {differing[1]}", Style(dim=True)))
    return lines


def _text_line(one: MarkedText) -> Text:
    text, spans = _shown(one)
    line = Text(f"  {one_line(shortened(one.id, 40))}  ", Style(dim=True))
    for piece, weight in marked_words(text, spans):
        shown = one_line(piece) if piece.strip() else piece
        line.append(shown, Style(dim=False, reverse=weight is not None))
    return line.append("…" if len(text) < len(one.text) else "")


def _parts(one: MarkedText) -> list[str]:
    text, spans = _shown(one)
    return [text[start:end] for start, end, _ in sorted(spans)]
