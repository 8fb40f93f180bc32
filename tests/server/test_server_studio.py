"""The executor drops work whose client disconnects before it starts, and no other work."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from likewise.errors import Cancelled
from likewise.server.guards import DisconnectMiddleware, disconnected
from likewise.server.studio import SerialExecutor

PATIENCE = 30.0


class Held:
    """Work that begins and then waits to be let go."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.began.set()
        assert self.go.wait(PATIENCE)
        return "done"


def asking(executor: SerialExecutor, work: Any, gone: Future[None] | None) -> tuple[threading.Thread, list[Any]]:
    """Ask in a thread of its own, as a request does; what comes of it lands in the list."""
    found: list[Any] = []

    def ask() -> None:
        disconnected.set(gone)
        try:
            found.append(executor.run(work))
        except Cancelled as error:
            found.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=[ask], daemon=True)
    thread.start()
    return thread, found


def test_a_question_that_nobody_waits_for_is_dropped() -> None:
    executor, first = SerialExecutor(4), Held()
    running, answer = asking(executor, first, None)
    assert first.began.wait(PATIENCE)
    gone: Future[None] = Future()
    request: list[str] = []
    waiting, dropped = asking(executor, lambda: request.append("worked on"), gone)
    gone.set_result(None)
    waiting.join(PATIENCE)
    assert isinstance(dropped[0], Cancelled) and executor.pending == 1
    first.go.set()
    running.join(PATIENCE)
    assert answer == ["done"] and executor.run(lambda: "next") == "next" and request == []
    executor.close()


def test_what_is_under_way_is_brought_to_its_end() -> None:
    executor, work = SerialExecutor(4), Held()
    gone: Future[None] = Future()
    thread, found = asking(executor, work, gone)
    assert work.began.wait(PATIENCE)
    gone.set_result(None)
    work.go.set()
    thread.join(PATIENCE)
    assert found == ["done"]
    executor.close()


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_the_page_is_listened_to_while_its_question_is_worked_on(method: str) -> None:
    messages = [
        {"type": "http.request", "body": b"a", "more_body": True},
        {"type": "http.request", "body": b"b", "more_body": False},
        {"type": "http.disconnect"},
    ]
    seen: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0) if messages else await asyncio.Event().wait()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        del scope, send
        seen.extend([(await receive())["body"], (await receive())["body"]])
        gone = disconnected.get()
        assert gone is not None
        for _ in range(1000):
            if gone.done():
                break
            await asyncio.sleep(0.01)
        seen.append(gone.done())

    async def send(message: Any) -> None:
        del message

    asyncio.run(DisconnectMiddleware(app)({"type": "http", "method": method}, receive, send))
    assert seen == [b"a", b"b", True]
    assert disconnected.get() is None
