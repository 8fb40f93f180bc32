"""The FastAPI application: routes, middleware, one-line errors, the built front end; and the server that runs it."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from likewise.errors import Cancelled, DamagedIndex, LikewiseError, MissingExtra, UsageError, first_line
from likewise.results.result import versions
from likewise.server.guards import HEADERS, DisconnectMiddleware, Guards
from likewise.server.jobs import QueueFull
from likewise.server.offers import NotAllowed
from likewise.server.routes import attention, corpus, jobs, layers, pair, search, start, training
from likewise.server.schemas import ERRORS
from likewise.server.settings import StudioSettings
from likewise.server.studio import Studio, TooLong

log = logging.getLogger("likewise")
STATIC = Path(__file__).parent / "static"
STATUSES = {QueueFull: 429, TooLong: 413, NotAllowed: 403, MissingExtra: 501, Cancelled: 409, DamagedIndex: 409}
"""The HTTP status of an error; all other errors of the library are 422."""
ROUTES = (start, pair, search, layers, attention, corpus, training, jobs)
SECONDS_TO_END = 2  # open event streams must not keep the server from ending
SECONDS_TO_WARM_UP = 10


def create_app(settings: StudioSettings) -> FastAPI:
    """The studio's application; raises where the settings are wrong."""
    studio = Studio.open(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        warm_up = threading.Thread(target=_warm_up, args=[studio], name="likewise-warm", daemon=True)
        warm_up.start()
        yield
        studio.close()
        warm_up.join(SECONDS_TO_WARM_UP)  # torch aborts the process if it ends while a model is loaded

    version = versions()["likewise"]
    app = FastAPI(title="Likewise studio", version=version, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.studio = studio
    for module in ROUTES:
        app.include_router(module.router, prefix="/api", responses=ERRORS)
    app.add_middleware(Guards, settings=settings)
    app.add_middleware(DisconnectMiddleware)
    app.add_exception_handler(LikewiseError, _library_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unknown_error)
    # The assets carry a hash in their names and may be cached.
    app.mount("/assets", StaticFiles(directory=STATIC / "assets", check_dir=False), name="assets")

    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})

    return app


def _warm_up(studio: Studio) -> None:
    """Load the first model while the page opens."""
    try:
        studio.models.encoder(next(iter(studio.models.models())))
    except LikewiseError as error:
        log.warning("%s", first_line(error))


async def _library_error(request: Request, error: Exception) -> Response:
    words = request.app.state.studio.settings.redact(first_line(error))
    status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 422)
    return JSONResponse({"error": words}, status_code=status)


async def _invalid_request(_: Request, error: Exception) -> Response:
    """One line for the first invalid value."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first.get("loc", ()) if part != "body")
    return JSONResponse({"error": f"{where or 'the request'}: {first.get('msg', 'does not fit')}"}, status_code=422)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": str(error.detail)}, status_code=error.status_code, headers=error.headers)


async def _unknown_error(request: Request, error: Exception) -> Response:
    """The server stays up, the cause goes to the log."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    # This response is made outside of the guards, which add the headers to all others.
    words = "something went wrong inside; the studio's log says what"
    return JSONResponse({"error": words}, status_code=500, headers=HEADERS)


def listen(settings: StudioSettings) -> tuple[socket.socket, StudioSettings]:
    """A socket at the studio's address, and the settings with its port; port 0 takes any free one."""
    try:
        family, _, _, _, path = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        # A studio that has just ended would hold its port for a minute.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(path)
        listener.listen()  # requests that come before the server is ready wait
    except OSError as error:
        raise UsageError(
            f"cannot listen on {settings.host}:{settings.port} ({error.strerror or error});"
            " choose another --host or --port, 0 for any that is free"
        ) from error
    return listener, replace(settings, port=listener.getsockname()[1])


def serve(app: FastAPI, listener: socket.socket) -> None:
    """Serve at a socket until Ctrl-C."""
    config = uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=SECONDS_TO_END)
    uvicorn.Server(config).run(sockets=[listener])
