"""Presence: a question whose asker has left is dropped before its turn, and no other."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from likewise.errors import Cancelled
from likewise.server.disconnect import Presence, has_left
from likewise.server.serial_executor import Turns

PATIENCE = 30.0


class Held:
    """Work that begins and then waits to be let go."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.began.set()
        assert self.go.wait(PATIENCE)
        return "done"


def asking(turns: Turns, work: Any, left: threading.Event | None) -> tuple[threading.Thread, list[Any]]:
    """Ask in a thread of its own, as a request does; what comes of it lands in the list."""
    found: list[Any] = []

    def ask() -> None:
        has_left.set(left)
        try:
            found.append(turns.answer(work))
        except Cancelled as error:
            found.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=[ask], daemon=True)
    thread.start()
    return thread, found


def test_a_question_that_nobody_waits_for_is_dropped() -> None:
    turns, first = Turns(4), Held()
    running, answer = asking(turns, first, None)
    assert first.began.wait(PATIENCE)
    left, asked = threading.Event(), []
    waiting, dropped = asking(turns, lambda: asked.append("worked on"), left)
    left.set()
    waiting.join(PATIENCE)
    assert isinstance(dropped[0], Cancelled) and turns.asking == 1
    first.go.set()
    running.join(PATIENCE)
    assert answer == ["done"] and turns.answer(lambda: "next") == "next" and asked == []
    turns.close()


def test_what_is_under_way_is_brought_to_its_end() -> None:
    turns, work, left = Turns(4), Held(), threading.Event()
    thread, found = asking(turns, work, left)
    assert work.began.wait(PATIENCE)
    left.set()
    work.go.set()
    thread.join(PATIENCE)
    assert found == ["done"]
    turns.close()


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
        left = has_left.get()
        assert left is not None
        for _ in range(1000):
            if left.is_set():
                break
            await asyncio.sleep(0.01)
        seen.append(left.is_set())

    async def send(message: Any) -> None:
        del message

    asyncio.run(Presence(app)({"type": "http", "method": method}, receive, send))
    assert seen == [b"a", b"b", True]
    assert has_left.get() is None
