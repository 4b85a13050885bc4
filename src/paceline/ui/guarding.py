"""Who may ask the server for anything: pages of its own, under a name that is its own.

A browser lets any page of the web send requests to 127.0.0.1. So the name by which the server is asked must be one
that no stranger can point here (else a page of ``evil.example`` could have that name lead to this machine and read
what is answered), and whoever sends a form must be a page of this server that was given its secret.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SHELL = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What our own pages may load: files of this server."""
REPORT = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts allow-downloads"
)
"""What a report may do: it carries all that it needs, and is a stranger to this server."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Gate:
    """By which names the server may be asked, and the secret of its forms."""

    host: str
    """The address that it listens at."""
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def is_open(self) -> bool:
        """Whether other machines can reach it."""
        return not is_loopback(self.host)

    def lets_in(self, header: str) -> bool:
        """Whether a Host header names this server: an address, or a name that only this machine has."""
        name = _without_port(header)
        if name in ("localhost", self.host.lower()) or is_loopback(name):
            return True
        if not self.is_open:
            return False
        return _is_address(name) or name in {socket.gethostname().lower(), socket.getfqdn().lower()}

    def is_own_form(self, request: Request, form: dict[str, list[str]]) -> bool:
        """Whether a form was sent by a page of this server."""
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
            return False
        return secrets.compare_digest("".join(form.get("secret", ())).encode(), self.secret.encode())


class Guard:
    """Refuses whoever asks by a strange name, or from a strange page, and puts the headers on every answer."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] != "http":  # its beginning and end; no page asks for anything else
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refused = self._refused(request)

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                _complete(message)
            await send(message)

        await (refused or self._app)(scope, receive, send_on)

    def _refused(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if not self._gate.lets_in(host):
            text = "This server does not answer to that name. Ask for it by the address that it printed.\n"
            return PlainTextResponse(text, 421)
        headers = request.headers
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return PlainTextResponse("Pages of other servers are not answered.\n", 403)
        return None


def is_loopback(name: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _without_port(header: str) -> str:
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]


def _complete(message: dict[str, Any] | Message) -> None:
    headers = list(message.get("headers", ()))
    there = {name.lower() for name, _ in headers}
    more = {**HEADERS, "Content-Security-Policy": SHELL}
    headers += [(k.encode(), v.encode()) for k, v in more.items() if k.lower().encode() not in there]
    message["headers"] = headers
