"""The application: routes, guards, errors as one line each, and the built front end."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from likewise.errors import Cancelled, DamagedIndex, DataError, LikewiseError, MissingExtra, ModelError, first_line
from likewise.results.folder import versions
from likewise.server.disconnect import Presence
from likewise.server.guards import HEADERS, Guards
from likewise.server.jobs import QueueFull
from likewise.server.model_registry import NotAllowed
from likewise.server.redaction import without_paths
from likewise.server.routes import attention, corpora, corpus, jobs, layers, pair, search, start, training
from likewise.server.settings import StudioSettings
from likewise.server.studio import Studio, TooLong

log = logging.getLogger("likewise")

STATIC = Path(__file__).parent / "static"
STATUSES: tuple[tuple[type[LikewiseError], int], ...] = (
    (QueueFull, 429), (TooLong, 413), (NotAllowed, 403), (MissingExtra, 501), (Cancelled, 409), (ModelError, 422),
    (DamagedIndex, 409), (DataError, 422), (LikewiseError, 422),
)  # fmt: skip
"""What an error is to HTTP; the first that fits."""
ROUTES = (start, pair, corpora, search, layers, attention, corpus, training, jobs)


def create_app(settings: StudioSettings) -> FastAPI:
    """The studio's application; what is wrong with the settings is said now and not to the first visitor."""
    studio = Studio.opened(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        threading.Thread(target=_warmed, args=[studio], name="likewise-warm", daemon=True).start()
        yield
        studio.close()

    app = FastAPI(
        title="Likewise studio", version=versions()["likewise"], lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.state.studio = studio
    for room in ROUTES:
        app.include_router(room.router, prefix="/api")
    app.add_middleware(Guards, settings=settings)
    app.add_middleware(Presence)
    app.add_exception_handler(LikewiseError, _told)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(Exception, _unknown)
    _serve_front_end(app)
    return app


def _warmed(studio: Studio) -> None:
    """Load the first model while the page opens, so that the first question need not wait for it."""
    try:
        studio.model_registry.encoder(studio.model_registry.offers()[0].name)
    except LikewiseError as error:
        log.warning("%s", first_line(error))


def _serve_front_end(app: FastAPI) -> None:
    """The page at /, whatever view its address names; its parts carry a hash in their names and may be kept."""
    app.mount("/assets", StaticFiles(directory=STATIC / "assets", check_dir=False), name="assets")

    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})


def _status(error: Exception) -> int:
    return next(status for kind, status in STATUSES if isinstance(error, kind))


async def _told(request: Request, error: Exception) -> Response:
    paths = request.app.state.studio.settings.paths
    return JSONResponse({"error": without_paths(first_line(error), paths)}, status_code=_status(error))


async def _invalid(request: Request, error: Exception) -> Response:
    """One line for the first thing that does not fit."""
    del request
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first.get("loc", ()) if part != "body")
    return JSONResponse({"error": f"{where or 'the request'}: {first.get('msg', 'does not fit')}"}, status_code=422)


async def _refused(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": str(error.detail)}, status_code=error.status_code, headers=error.headers)


async def _unknown(request: Request, error: Exception) -> Response:
    """The server stays up, the cause goes to the log."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    # This answer is made outside of the guards, which add these to all others.
    words = "something went wrong inside; the studio's log says what"
    return JSONResponse({"error": words}, status_code=500, headers=HEADERS)
