"""Middleware: checks every request before a route handles it, and detects clients that disconnect.

A malicious page can make a browser send requests to this machine, even under the page's own host name (DNS rebinding).
So the Host must be the studio's own, requests from other origins are refused, and any address that other machines can
reach needs a token.
"""

from __future__ import annotations

import asyncio
import secrets
from concurrent.futures import Future
from contextvars import ContextVar
from urllib.parse import parse_qs, urlsplit

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.datastructures import MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from likewise.server.settings import EVERYWHERE, StudioSettings

COOKIE = "likewise_token"  # the port is appended, since all ports of a host share its cookies
LOCAL = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline';"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
"""Of every response."""
UPLOADS = "/api/corpora"
disconnected: ContextVar[Future[None] | None] = ContextVar("disconnected", default=None)
"""Done once the client of the current request has closed its connection; None outside of requests."""


class TooLarge(HTTPException):
    """A body beyond its limit; an HTTPException, since FastAPI passes these through where it reads bodies."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"the request is larger than {limit:,} bytes, which is the limit; send less")


class Guards:
    """Checks the host, the origin, the token and the size of each request."""

    def __init__(self, app: ASGIApp, settings: StudioSettings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a good request on; answer a bad one in one line."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        limits = self.settings.limits
        limit = limits.upload_bytes if scope["path"] == UPLOADS else limits.body_bytes
        declared = headers.get("content-length", "0")
        refusal = self._refusal(scope, headers)
        if refusal is None and declared.isdigit() and int(declared) > limit:
            refusal = 413, TooLarge(limit).detail
        if refusal is not None:
            status, words = refusal
            await JSONResponse({"error": words}, status, HEADERS)(scope, receive, send)
            return
        await self.app(scope, _limited(receive, limit), self._with_headers(scope, send))

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._is_own_host(host):
            return 421, f"this studio does not answer for the host {host[:80]!r}; open {self.settings.url}"
        origin = headers.get("origin")
        # A link may lead here from elsewhere; no other request may.
        follows_link = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        is_foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site") and not follows_link
        if is_foreign or (origin is not None and _netloc(origin) != host):
            return 403, "requests from other pages are refused; open the studio itself"
        token = self.settings.token
        if token and not secrets.compare_digest(self._token(scope, headers).encode(), token.encode()):
            return 401, "a token is needed; open the address that the studio printed when it started"
        return None

    def _is_own_host(self, host: str) -> bool:
        """Whether a Host header names this studio: its address, or on loopback any name of this machine."""
        name, _, port = host.rpartition(":") if not host.endswith("]") and ":" in host else (host, "", "")
        if port and port != str(self.settings.port):
            return False
        own = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        # Where the studio listens on every address of the machine, the token is the guard.
        return name in (*LOCAL, own) or (bool(name) and self.settings.host in EVERYWHERE)

    def _token(self, scope: Scope, headers: dict[str, str]) -> str:
        bearer = headers.get("authorization", "")
        if bearer.lower().startswith("bearer "):
            return bearer[7:].strip()
        # http.cookies stops at the first cookie that it cannot parse, which may belong to another port.
        return _query_token(scope) or cookie_parser(headers.get("cookie", "")).get(self._cookie, "")

    @property
    def _cookie(self) -> str:
        return f"{COOKIE}_{self.settings.port}"

    def _with_headers(self, scope: Scope, send: Send) -> Send:
        """Add the headers of every response, and a cookie for a token that came in the address."""
        remember = bool(self.settings.token and _query_token(scope))

        async def respond(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if remember:
                    headers.append(
                        "set-cookie", f"{self._cookie}={self.settings.token}; HttpOnly; SameSite=Lax; Path=/"
                    )
            await send(message)

        return respond


def _netloc(origin: str) -> str:
    """The host and port of an origin; empty where it is no address."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _query_token(scope: Scope) -> str:
    """The token in an address."""
    query: bytes = scope.get("query_string", b"")
    return parse_qs(query.decode("latin-1")).get("token", [""])[0]


def _limited(receive: Receive, limit: int) -> Receive:
    """Receive a body, and stop one that is larger than the limit."""
    left = limit

    async def receive_limited() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise TooLarge(limit)
        return message

    return receive_limited


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
