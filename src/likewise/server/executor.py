"""One worker thread for questions, and the detection of clients that disconnect before they are answered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from likewise.errors import Cancelled
from likewise.server.jobs import QueueFull

T = TypeVar("T")

disconnected: ContextVar[Future[None] | None] = ContextVar("disconnected", default=None)
"""Done once the client of the current request has closed its connection; None outside of requests."""


class DisconnectMiddleware:
    """Listens for the client while its request is worked on, and completes ``disconnected`` when it leaves."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass every message on and note the end of the connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        gone: Future[None] = Future()
        # One message at a time, so that a client cannot send faster than the application reads.
        messages: asyncio.Queue[Message] = asyncio.Queue(maxsize=1)

        async def listen() -> None:
            while not gone.done():
                message = await receive()
                if message["type"] == "http.disconnect":
                    gone.set_result(None)
                await messages.put(message)

        listener, before = asyncio.create_task(listen()), disconnected.set(gone)
        try:
            await self.app(scope, messages.get, send)
        finally:
            disconnected.reset(before)
            listener.cancel()


class SerialExecutor:
    """Runs questions one after the other in one thread; refuses those beyond a limit.

    One worker thread bounds torch's per-thread memory.

    >>> SerialExecutor(1).run(lambda: 6 * 7)
    42
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="likewise-questions")
        self.pending = 0

    def run(self, work: Callable[[], T]) -> T:
        """The result of some work; work whose client disconnects before it starts is dropped."""
        with self._lock:
            if self.pending >= self._limit:
                raise QueueFull(f"{self._limit} questions are waiting already; ask again in a moment")
            self.pending += 1
        try:
            future, gone = self._worker.submit(work), disconnected.get()
            if gone is not None:
                gone.add_done_callback(lambda _: future.cancel())
            return future.result()
        except CancelledError as error:
            raise Cancelled("the client has disconnected") from error
        finally:
            with self._lock:
                self.pending -= 1

    def close(self) -> None:
        """Take no more questions."""
        self._worker.shutdown(wait=False, cancel_futures=True)
