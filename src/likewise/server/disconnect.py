"""Presence: whether who asked is still there, so that questions that nobody waits for are dropped."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

has_left: ContextVar[threading.Event | None] = ContextVar("has_left", default=None)
"""Set once who asked the question at hand has closed the connection; None outside of one."""


class Presence:
    """Listens on while a question is worked on: a page that is typed into gives up one question for the next."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on, and note when who asked has left."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        left = threading.Event()
        # One message at a time, so that nobody can send faster than is read.
        messages: asyncio.Queue[Message] = asyncio.Queue(maxsize=1)

        async def listen() -> None:
            while not left.is_set():
                message = await receive()
                if message["type"] == "http.disconnect":
                    left.set()
                await messages.put(message)

        listener, before = asyncio.create_task(listen()), has_left.set(left)
        try:
            await self.app(scope, messages.get, send)
        finally:
            has_left.reset(before)
            listener.cancel()
