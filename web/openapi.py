"""Write the part of the studio's OpenAPI document from which ``npm run types`` generates ``src/types.ts``.

    python web/openapi.py web/openapi.json

Error responses and titles are left out: they are the same everywhere. A test compares the file with the routes.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from likewise.server.app import create_app
from likewise.server.settings import StudioSettings


def document() -> dict[str, Any]:
    """Paths and schemas of the studio."""
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(StudioSettings(folder=Path(folder)))
        found = app.openapi()
        app.state.studio.close()
    for path in found["paths"].values():
        for operation in path.values():
            operation["responses"] = {code: each for code, each in operation["responses"].items() if code < "300"}
    info = {"title": found["info"]["title"], "version": "0"}  # a release changes no type
    slim: dict[str, Any] = without_titles({"paths": found["paths"], "components": found["components"]})
    return {"openapi": found["openapi"], "info": info} | slim


def without_titles(value: Any) -> Any:
    """A schema without the titles that repeat the names of its fields."""
    if isinstance(value, list):
        return [without_titles(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: without_titles(each) for key, each in value.items() if key != "title" or not isinstance(each, str)}


def text() -> str:
    """The document as it is written to the file."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), encoding="utf-8")
