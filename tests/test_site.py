"""The site's own check, on small made-up sites, and the pages that are made from files of the root."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs" / "site"))

import check  # noqa: E402


def site(folder: Path, **pages: str) -> Path:
    folder.mkdir()
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


def test_a_good_site_has_no_flaw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = site(
        tmp_path / "good",
        index="<h1 id=top>A</h1><a href=b.html#part>b</a><a href='#top'>up</a><a href=https://example.org>out</a>",
        b="<h2 id=part>B</h2><img src=data:image/png;base64,AA==><a href=./>home</a>",
    )
    assert check.main(good) == 0
    assert "2 pages: no dead link" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("<a href=missing.html>x</a>", "missing.html leads nowhere"),
        ("<a href='#part'>x</a>", "#part has no such anchor"),
        ("<img src=missing.png>", "missing.png leads nowhere"),
        ("<script src=https://example.org/x.js></script>", "loads https://example.org/x.js"),
        ("<link rel=stylesheet href=//example.org/x.css>", "loads //example.org/x.css"),
        ("<link rel=preconnect href=https://example.org>", "loads https://example.org"),
    ],
)
def test_each_flaw_is_found(text: str, flaw: str, tmp_path: Path) -> None:
    (found,) = check.flaws(site(tmp_path / "bad", index=text))
    assert flaw in found


def test_a_stylesheet_that_loads_a_font_is_found(tmp_path: Path) -> None:
    folder = site(tmp_path / "css", index="")
    (folder / "x.css").write_text("@font-face { src: url('https://example.org/f.woff2') } a { background: url(x.png) }")
    assert list(check.flaws(folder)) == ["x.css loads https://example.org/f.woff2"]


def test_an_empty_site_is_no_success(tmp_path: Path) -> None:
    assert check.main(site(tmp_path / "empty")) == 1


class Config(yaml.SafeLoader):
    """Reads mkdocs.yml without the functions that it may name."""


def pages_of(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    parts = entry if isinstance(entry, list) else list(entry.values()) if isinstance(entry, dict) else []
    return [page for part in parts for page in pages_of(part)]


def test_every_page_of_a_reader_is_in_the_navigation() -> None:
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader=Config)
    listed = pages_of(config["nav"])
    written = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in written if page not in listed and not page.startswith("results/")] == []
    assert len(listed) == len(set(listed))


def test_links_of_the_front_page_are_those_of_the_readme() -> None:
    pytest.importorskip("mkdocs", reason="MkDocs is not installed (extra: docs)")
    import pages

    assert pages.from_root("[a](docs/tutorial.md#x) [b](CHANGELOG.md)") == "[a](tutorial.md#x) [b](changelog.md)"
