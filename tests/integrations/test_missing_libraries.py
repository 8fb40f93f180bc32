"""A module whose library is not installed: one line that names the extra."""

from __future__ import annotations

import ast
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from likewise import integrations
from likewise.errors import MissingExtra

LIBRARIES = {
    "bertopic": "bertopic",
    "haystack": "haystack",
    "langchain": "langchain_core",
    "llama_index": "llama_index",
    "mteb": "mteb",
    "pandas_frames": "pandas",
    "polars_frames": "polars",
}
EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("module", LIBRARIES)
def test_one_line_names_the_extra(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"likewise.integrations.{module}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    for loaded in [one for one in sys.modules if one.partition(".")[0] == LIBRARIES[module]]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, LIBRARIES[module], None)
    with pytest.raises(MissingExtra) as raised:
        import_module(name)
    assert "\n" not in str(raised.value) and f'pip install "likewise[{raised.value.extra}]"' in str(raised.value)
    (requirement,) = EXTRAS[raised.value.extra]
    assert requirement.partition(">=")[0] == raised.value.package


def test_nothing_is_imported_without_being_asked_for() -> None:
    """The package itself is empty, so a user of one library needs no other."""
    (docstring,) = ast.parse(Path(integrations.__file__).read_text(encoding="utf-8")).body
    assert isinstance(docstring, ast.Expr)
