"""Pages of the site that are files elsewhere: README, changelog, contributing, security, notebooks; results listed.

MkDocs calls these functions. Each such page is made from its file, so that nothing is written twice.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))

import outputs

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "build" / "notebooks"
SHOWN: dict[str, list[str]] = {}
"""The outputs of each notebook's page."""
PAGES = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
RESULTS = "Studies and results"


def on_config(config: Any) -> Any:
    """Add every page of results to its section, whatever pages there are."""
    found = sorted(f"results/{path.name}" for path in (ROOT / "docs" / "results").glob("*.md"))
    for section in config.nav:
        if isinstance(section, dict) and RESULTS in section:
            section[RESULTS] = [*section[RESULTS], *found]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages whose files are outside of docs/."""
    for page, name in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=from_root(text)))
    for path in sorted((ROOT / "examples").glob("[0-9]*.ipynb")):
        ran = NOTEBOOKS / path.name  # with output; `make docs` runs the notebooks first
        page = f"examples/{path.stem}.md"
        text, SHOWN[page] = outputs.page(ran if ran.is_file() else path)
        files.append(File.generated(config, page, content=text))
    return files


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Put the outputs of a notebook into its page."""
    return outputs.filled(html, SHOWN.get(page.file.src_uri, []))


def from_root(text: str) -> str:
    """The text of a file of the root with links as they are inside docs/.

    >>> from_root("[a](docs/tutorial.md), [b](CHANGELOG.md)")
    '[a](tutorial.md), [b](changelog.md)'
    """
    text = re.sub(r"\]\(docs/", "](", text).replace("](examples)", "](examples/01_first_explanation.md)")
    for page, name in PAGES.items():
        text = text.replace(f"]({name})", f"]({page})")
    return text


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links from pages of docs/ to files of the root lead to their pages."""
    depth = page.file.src_uri.count("/")
    for target, name in PAGES.items():
        there, here = "../" * (depth + 1) + name, "../" * depth + target
        markdown = re.sub(rf"\]\({re.escape(there)}(?=[)#])", f"]({here}", markdown)
    return markdown


def on_post_page(output: str, **_: Any) -> str:
    """Name the theme's search dialog for screen readers."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )
