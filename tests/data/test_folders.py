"""Folders of documents: which files are read, in which order, what is refused, and the visible text of HTML."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from likewise.data import Dataset, read_pairs, read_texts
from likewise.data.folders import MOST_BYTES, DocumentFolder, visible_text
from likewise.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three documents, a file of another kind, and hidden ones."""
    root = tmp_path / "docs"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "b.txt").write_text("A ferry left.\r\nIt was noon.\n", newline="")
    (root / "sub" / "deep" / "a.md").write_text("# Bread\n\n*Knead* it.\n")
    (root / "sub" / "Z.HTML").write_text("<title>News</title><p>Ash &amp; stones</p>")
    for hidden in (".git/x.txt", ".hidden.md", "sub/.x.html"):
        (root / hidden).write_text("hidden")
    (root / "picture.png").write_bytes(b"\x89PNG")
    return root


def test_documents_in_the_order_of_their_paths(folder: Path) -> None:
    found = list(read_texts(folder))
    assert [(text.id, text.text) for text in found] == [
        ("b.txt", "A ferry left.\r\nIt was noon.\n"),
        ("sub/Z.HTML", "Ash & stones"),
        ("sub/deep/a.md", "# Bread\n\n*Knead* it.\n"),
    ]
    assert [text.meta for text in found] == [
        {"type": "txt", "folder": "."},
        {"type": "html", "folder": "sub", "title": "News"},
        {"type": "md", "folder": "sub/deep"},
    ]
    assert DocumentFolder(folder, "docs").others == ["picture.png"]
    assert [text.id for text in Dataset(str(folder), limit=2).texts()] == ["b.txt", "sub/Z.HTML"]


@pytest.mark.parametrize(
    ("name", "content", "flaw"),
    [
        ("c.txt", b"", "holds no text; add some or remove it"),
        ("c.md", b" \n\t", "holds no text"),
        ("c.html", b"<p> <script>x = 1</script>", "holds no text"),
        ("c.txt", b"caf\xe9", "byte 0xe9 is not UTF-8; convert the file to UTF-8"),
        ("c.txt", b"\x89PNG\r\n\x1a\n" + bytes(100), "is a PNG file, not text"),
        ("c.txt", "text".encode("utf-16"), "is UTF-16; convert it"),
        ("c.txt", b"x" * (MOST_BYTES + 1), "has more than 16,777,216 bytes; split it"),
    ],
    ids=str,
)
def test_bad_documents(folder: Path, name: str, content: bytes, flaw: str) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=flaw) as caught:
        list(read_texts(folder))
    assert "\n" not in str(caught.value) and f"docs/{name}" in str(caught.value)
    found = Dataset(str(folder), skip_bad=True).texts()
    assert (len(found), found.skipped) == (3, 1)


def test_links_that_leave_the_folder_are_refused(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (tmp_path / "outside").mkdir()
    for name, target in {"link.txt": secret, "sub/out": tmp_path / "outside", "gone.md": tmp_path / "none"}.items():
        (folder / name).symlink_to(target)
        with pytest.raises(DataError, match=f"{name}: is a link that leaves the folder; copy the file instead"):
            list(read_texts(folder))
        assert len(Dataset(str(folder), skip_bad=True).texts()) == 3
        (folder / name).unlink()


def test_links_within_the_folder(folder: Path) -> None:
    (folder / "again.txt").symlink_to(folder / "b.txt")
    (folder / "sub" / "loop").symlink_to(folder)
    assert [text.id for text in read_texts(folder)] == ["again.txt", "b.txt", "sub/Z.HTML", "sub/deep/a.md"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_refused(folder: Path) -> None:
    os.mkfifo(folder / "pipe.txt")
    with pytest.raises(DataError, match=r"pipe\.txt: is not a file; remove it"):
        list(read_texts(folder))


def test_a_folder_without_documents(tmp_path: Path) -> None:
    (tmp_path / "x.pdf").write_text("x")
    with pytest.raises(DataError, match=r"holds no documents; add some of \.txt, \.md, \.markdown, \.html, \.htm"):
        read_texts(tmp_path)
    with pytest.raises(DataError, match="is a folder"):
        read_pairs(tmp_path)


def test_the_fingerprint_is_that_of_paths_and_bytes(folder: Path) -> None:
    def now() -> str:
        return DocumentFolder(folder, "docs").fingerprint()

    first = now()
    (folder / "picture.png").write_bytes(b"other")
    os.utime(folder / "b.txt")
    assert now() == first
    (folder / "b.txt").rename(folder / "c.txt")
    renamed = now()
    (folder / "c.txt").write_text("other")
    assert len({first, renamed, now()}) == 3


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>one <b>two</b><i>three</i></p>four", "one twothree\n\nfour"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<ul><li>one<li>two</ul>three", "one\ntwo\n\nthree"),
        ("<ul> <li>one</li> <li>two</li> </ul>", "one\ntwo"),
        ("<table><tr><td>a<td>b<tr><th>c</th><th>d</th></table>", "a b\nc d"),
        ("<script>var x = '<p>no</p>';</script>yes<style>p {}</style><noscript>no</noscript>", "yes"),
        ("<p>a\n   b\t c</p>", "a b c"),
        ("<pre>a\n  b</pre>", "a\nb"),
        ("&lt;b&gt; &eacute; &#128512;", "<b> é 😀"),
        ("<!-- no --><!DOCTYPE html><?php no ?>yes", "yes"),
        ("<p>unclosed <b>tags </i></p></div> stay", "unclosed tags\n\nstay"),
        ("yes<script>never closed", "yes"),
        ("plain text", "plain text"),
        ("<" * 1000, "<" * 1000),
        ("<div>" * 5000 + "deep", "deep"),
    ],
)
def test_visible_text(html: str, text: str) -> None:
    assert visible_text(html)[0] == text
