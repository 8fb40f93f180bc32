"""Serving: a place to listen on, and the server there until it is told to end."""

from __future__ import annotations

import socket
from dataclasses import replace

import uvicorn
from fastapi import FastAPI

from likewise.errors import UsageError
from likewise.server.settings import StudioSettings

SECONDS_TO_END = 2
"""Pages that follow a job would else keep the server from ending."""


def listening(settings: StudioSettings) -> tuple[socket.socket, StudioSettings]:
    """A socket at the studio's address, and the settings with its port; port 0 takes any that is free."""
    try:
        family, _, _, _, path = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        here = socket.socket(family, socket.SOCK_STREAM)
        # Else a studio that has just ended keeps its port for a minute.
        here.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        here.bind(path)
        here.listen()  # who comes before the server is ready waits, and is not turned away
    except OSError as error:
        raise UsageError(
            f"cannot listen on {settings.host}:{settings.port} ({error.strerror or error});"
            " choose another --host or --port, 0 for any that is free"
        ) from error
    return here, replace(settings, port=here.getsockname()[1])


def serve(app: FastAPI, here: socket.socket) -> None:
    """Answer at a socket until Ctrl-C."""
    config = uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=SECONDS_TO_END)
    uvicorn.Server(config).run(sockets=[here])
