"""What all routes answer with when something is wrong."""

from __future__ import annotations

from typing import Any

from likewise.server.schemas import ErrorAnswer

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": words}
    for status, words in {
        401: "no token", 403: "another origin, or a model that is not offered", 404: "not there", 409: "not now",
        413: "too large", 421: "another host", 422: "does not fit", 429: "too much is waiting",
        501: "needs a package that is not installed",
    }.items()
}  # fmt: skip
