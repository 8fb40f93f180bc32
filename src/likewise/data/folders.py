"""Documents of a folder: the texts of its .txt, .md and .html files, in the order of their paths."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path

from likewise.data.rows import BadRow, Location, OnBad, Row, check_text, foreign_byte
from likewise.errors import DataError
from likewise.storage import file_hash

TYPES = {".txt": "txt", ".md": "md", ".markdown": "md", ".html": "html", ".htm": "html"}
MOST_BYTES = 2**24
BLOCKS = {
    "address", "article", "aside", "blockquote", "body", "br", "caption", "dd", "details", "dialog", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "html",
    "legend", "li", "main", "nav", "ol", "option", "p", "pre", "section", "select", "summary", "table", "tbody",
    "tfoot", "thead", "tr", "ul",
}  # fmt: skip
"""Elements that begin a new line; all others are within one."""
LINES = {"br", "li", "tr", "option"}  # No empty line before them
DROPPED = {"script", "style", "template", "noscript", "title"}


@dataclass(frozen=True)
class DocumentFolder:
    """A folder of documents. Hidden files and folders are not part of it; links must not lead out of it."""

    path: Path
    name: str  # as errors show it

    @cached_property
    def _entries(self) -> list[str]:
        """The paths of all files and links below the folder, relative to it, in order."""
        found = []
        for base, folders, files in os.walk(self.path, followlinks=False):
            folders[:] = [name for name in folders if not name.startswith(".")]
            links = [name for name in folders if os.path.islink(os.path.join(base, name))]
            names = [name for name in (*files, *links) if not name.startswith(".")]
            found += [Path(base, name).relative_to(self.path).as_posix() for name in names]
        return sorted(found)

    @property
    def documents(self) -> list[str]:
        """The relative paths of the documents, and of links to other folders, in order."""
        return [path for path in self._entries if _type(path) is not None or self._is_outer_folder(path)]

    @property
    def others(self) -> list[str]:
        """The relative paths of files that are no documents."""
        documents = set(self.documents)
        return [path for path in self._entries if path not in documents]

    def _is_outer_folder(self, path: str) -> bool:
        return (self.path / path).is_dir() and self._leaves(path)

    def _leaves(self, path: str) -> bool:
        return not (self.path / path).resolve().is_relative_to(self.path.resolve())

    def fingerprint(self) -> str:
        """A hash of the paths and bytes of all documents."""
        files = [(path, (self.path / path).is_file() and not self._leaves(path)) for path in self.documents]
        made_of = [f"{path!a} {file_hash(self.path / path) if good else ''}" for path, good in files]
        return hashlib.sha256("\n".join(made_of).encode()).hexdigest()

    def rows(self, report: OnBad) -> Iterator[Row]:
        """A row for each document; one that cannot be read goes to ``report``."""
        paths = self.documents
        if not paths:
            raise Location(self.name).error(f"holds no documents; add some of {', '.join(TYPES)}")
        for number, path in enumerate(paths, start=1):
            try:
                values = self._values(path)
            except DataError as error:
                report(error if isinstance(error, BadRow) else BadRow(str(error)))
            else:
                yield Row(values, number, number)

    def _values(self, path: str) -> dict[str, object]:
        """The text of a document, its id and its metadata."""
        file, full = f"{self.name.rstrip('/')}/{path}", self.path / path
        kind, location = _type(path), Location(file)
        if self._leaves(path):
            raise location.error("is a link that leaves the folder; copy the file instead")
        if not full.is_file():
            raise location.error("is not a file; remove it")
        if foreign_byte(path) is not None:
            raise location.error("has a name that is not UTF-8; rename it")
        if full.stat().st_size > MOST_BYTES:
            raise location.error(f"has more than {MOST_BYTES:,} bytes; split it")
        if full.stat().st_size:
            check_text(full, file)
        text, title = full.read_bytes().decode("utf-8-sig", "surrogateescape"), ""
        if (byte := foreign_byte(text)) is not None:
            raise location.error(f"byte 0x{byte:02x} is not UTF-8; convert the file to UTF-8")
        if kind == "html":
            text, title = visible_text(text)
        if not text.strip():
            raise location.error("holds no text; add some or remove it")
        parent, metadata = Path(path).parent.as_posix(), {"title": title} if title else {}
        return {"id": path, "text": text, "type": kind, "folder": parent, **metadata}


def folder_rows(path: Path, file: str, report: OnBad) -> Iterator[Row]:
    """The rows of a folder, as ``rows`` gives those of a file."""
    return DocumentFolder(path, file).rows(report)


def _type(path: str) -> str | None:
    return TYPES.get(Path(path).suffix.lower())


def visible_text(html: str) -> tuple[str, str]:
    """The text that a browser shows, a line for each block, and the title; scripts and styles are left out.

    >>> visible_text("<title>News</title><p>Ash <b>fell</b>.<script>x = 1</script></p><p>It was grey.</p>")
    ('Ash fell.\\n\\nIt was grey.', 'News')
    """
    parser = _VisibleText()
    parser.feed(html)
    parser.close()
    lines = [re.sub(r"[ \t\r\f\v]+", " ", line).strip(" ") for line in "".join(parser.parts).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip(), " ".join("".join(parser.title).split())


class _VisibleText(HTMLParser):
    """Collects the text of a page. Tags may be left open or out of order, as on the web."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.title: list[str] = []
        self.open: list[str] = []  # dropped elements that are open, and pre

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        """Begin a line, or begin to drop."""
        if tag in DROPPED or tag == "pre":
            self.open.append(tag)
        if tag in BLOCKS:
            self.parts.append("\n" if tag in LINES else "\n\n")
        elif tag in ("td", "th"):
            self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        """End a line, or end to drop."""
        if tag in self.open:
            del self.open[len(self.open) - 1 - self.open[::-1].index(tag) :]
        if tag in BLOCKS and tag not in LINES:
            self.parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        """Text that is shown; line breaks count only in pre."""
        if "title" in self.open:
            self.title.append(data)
        elif not DROPPED.intersection(self.open):
            self.parts.append(data if "pre" in self.open else re.sub(r"\s+", " ", data))
