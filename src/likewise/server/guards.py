"""Guards: what a request must be before any route sees it.

A page of somebody else's may make a browser send requests to this machine, and may even rename itself to it (DNS
rebinding). So the Host must be the studio's own, no request may come from another origin, and on any address that
others can reach a token is asked for.
"""

from __future__ import annotations

import json
import secrets
from urllib.parse import parse_qs, urlsplit

from fastapi import HTTPException
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from likewise.server.settings import StudioSettings

COOKIE = "likewise_token"
"""With the port: cookies of one host are shared by all of its ports."""
LOCAL = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline';"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
"""On every answer."""
UPLOADS = "/api/corpora"


class Guards:
    """Checks the host, the origin, the token and the size of each request."""

    def __init__(self, app: ASGIApp, settings: StudioSettings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a good request through; answer a bad one in one line."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refusal(scope, headers)
        if refused is not None:
            await _answer(send, *refused)
            return
        most = self._most_bytes(scope)
        declared = headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > most:
            await _answer(send, 413, _too_large(most))
            return
        await self.app(scope, _Counted(receive, most), self._guarded(scope, send))

    def _most_bytes(self, scope: Scope) -> int:
        limits = self.settings.limits
        return limits.upload_bytes if scope["path"] == UPLOADS else limits.body_bytes

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._own_host(host):
            return 421, f"this studio does not answer for the host {host[:80]!r}; open {self.settings.path}"
        origin = headers.get("origin")
        if origin is not None and _netloc(origin) != host:
            return 403, "requests from other pages are refused; open the studio itself"
        # A link may lead here from elsewhere; nothing else may.
        follows_link = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not follows_link:
            return 403, "requests from other pages are refused; open the studio itself"
        if self.settings.token and not secrets.compare_digest(
            self._token(scope, headers).encode(), self.settings.token.encode()
        ):
            return 401, "a token is needed; open the address that the studio printed when it started"
        return None

    def _own_host(self, host: str) -> bool:
        """Whether a Host header names this studio: its address, or, on loopback, any name of this machine."""
        name, _, port = host.rpartition(":") if not host.endswith("]") and ":" in host else (host, "", "")
        if port and port != str(self.settings.port):
            return False
        own = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        if self.settings.is_loopback:
            return name in (*LOCAL, own)
        # Where it listens on every address of the machine, the token is what keeps others out.
        return bool(name) and (own in ("0.0.0.0", "[::]") or name in (*LOCAL, own))

    def _token(self, scope: Scope, headers: dict[str, str]) -> str:
        bearer = headers.get("authorization", "")
        if bearer.lower().startswith("bearer "):
            return bearer[7:].strip()
        if asked := _asked(scope):
            return asked
        # Not by http.cookies, which gives up at the first cookie that it dislikes, though it may be somebody else's.
        return cookie_parser(headers.get("cookie", "")).get(f"{COOKIE}_{self.settings.port}", "")

    def _guarded(self, scope: Scope, send: Send) -> Send:
        """Add the headers of every answer, and remember a token that came in the address."""
        asked = _asked(scope)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message.get("headers", [])}
                added = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in own]
                if self.settings.token and asked:
                    cookie = f"{COOKIE}_{self.settings.port}={self.settings.token}; HttpOnly; SameSite=Lax; Path=/"
                    added.append((b"set-cookie", cookie.encode()))
                message = {**message, "headers": [*message.get("headers", []), *added]}
            await send(message)

        return answer


def _netloc(origin: str) -> str:
    """The host and port of an origin; none of what is no address."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _asked(scope: Scope) -> str:
    """The token in an address."""
    query: bytes = scope.get("query_string", b"")
    return parse_qs(query.decode("latin-1")).get("token", [""])[0]


class TooLarge(HTTPException):
    """A body that grew beyond what it may have; of a kind that FastAPI lets through where it reads bodies."""

    def __init__(self, most: int) -> None:
        super().__init__(413, _too_large(most))


class _Counted:
    """Receives a body and stops one that is larger than it said."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._left, self._most = receive, most, most

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise TooLarge(self._most)
        return message


def _too_large(most: int) -> str:
    return f"the request is larger than {most:,} bytes, which is the limit; send less"


async def _answer(send: Send, status: int, words: str) -> None:
    body = json.dumps({"error": words}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
