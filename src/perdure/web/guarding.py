"""What every request goes through before a page sees it: which host it names, who asks, whether it may change things.

The order matters: nothing is read of a request that the ones before have refused.
"""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request

from perdure.web.forms import parse_form
from perdure.web.problems import Problem
from perdure.web.settings import is_loopback
from perdure.web.spaces import HOME
from perdure.web.visitors import Doorman, same

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from perdure.web.settings import Settings, Visitor

LARGEST_BODY: Final = 1024 * 1024
"""Bytes of a request's body that are read at most."""
SAFE: Final = frozenset({"GET", "HEAD"})
CSRF_COOKIE: Final = "perdure_csrf"
CSRF_HEADER: Final = "x-csrf-token"
CSRF_FIELD: Final = "csrf"
_SESSION_PATHS = frozenset({"/login", "/logout", "/theme"})
"""What changes nothing but the visitor's own cookies."""
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")

HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Guard:
    """Stands before a dashboard's pages."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        doorman: Doorman,
        fail: Callable[[Request, Exception], Awaitable[Response]],
    ) -> None:
        self._app = app
        self._fail = fail
        self._settings = settings
        self._doorman = doorman

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        state: dict[str, Any] = scope.setdefault("state", {})
        given = _cookies(Headers(scope=scope))
        csrf = given.get(CSRF_COOKIE, "")
        is_new = len(csrf) < _CSRF_LENGTH
        state["csrf"] = csrf = secrets.token_urlsafe(24) if is_new else csrf
        state["theme"] = given.get("perdure_theme", "")

        began = False

        async def answer(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if is_new and headers.get("content-type", "").startswith("text/html"):
                    headers.append("set-cookie", cookie(scope, CSRF_COOKIE, csrf))
            await send(message)

        request = Request(scope, receive)
        try:
            body = await self._pass(request, given, csrf)
            await self._app(scope, receive if body is None else _again(body, receive), answer)
        except Exception as error:
            if began:
                raise
            response = await self._fail(request, error)
            await response(scope, receive, answer)

    async def _pass(self, request: Request, given: dict[str, str], csrf: str) -> bytes | None:
        """Let a request pass, and return its body if that was read.

        Raises:
            Problem: it is refused.
        """
        self._check_host(request)
        is_safe = request.method in SAFE
        body = None
        if not is_safe:
            _check_origin(request)
            body = await _body(request)
            request.state.form = parse_form(request.headers.get("content-type", ""), body)
        visitor, by_bearer = await self._doorman.who(request, given)
        if visitor is None and not self._doorman.is_public(request):
            raise self._doorman.stranger(request)
        request.state.visitor = visitor
        if not is_safe:
            self._check_change(request, visitor, csrf, by_bearer=by_bearer)
        return body

    def _check_host(self, request: Request) -> None:
        hosts = request.headers.getlist("host")
        host = host_of(hosts[0]) if len(hosts) == 1 else None
        if host is None or not self._settings.answers_to(host):
            raise Problem(
                421,
                "unknown_host",
                f"this dashboard does not answer under the name {host!r}" if host else "no host is named",
                "open it as localhost, or name the host when it is set up: `perdure ui --allow-host NAME`, "
                "dashboard(hosts=[…])",
            )
        if not self._settings.is_open:
            return
        client = request.client
        is_near = client is None or is_loopback(client.host)
        if not is_near or any(name in request.headers for name in _FORWARDED):
            raise Problem(
                403,
                "not_this_machine",
                "this dashboard asks nobody who they are, so it answers only this machine",
                "give it a token= or your own auth=",
            )

    def _check_change(self, request: Request, visitor: Visitor | None, csrf: str, *, by_bearer: bool) -> None:
        form: dict[str, str] | None = request.state.form
        told = request.headers.get(CSRF_HEADER) or (form.get(CSRF_FIELD) if form is not None else None)
        if not by_bearer and (told is None or not same(told, csrf)):
            raise Problem(
                403,
                "csrf",
                "the request does not prove that it comes from a page of this dashboard",
                "load the page again and repeat what you did; from a program, send an Authorization: Bearer header, "
                f"or the same text as cookie {CSRF_COOKIE} and as header {CSRF_HEADER}",
            )
        if path_of(request) in _SESSION_PATHS:
            return
        if self._settings.read_only or (visitor is not None and visitor.read_only):
            raise Problem(
                403,
                "read_only",
                "this dashboard only shows what there is" if self._settings.read_only else "you may only look",
                "change runs with the command line, or with a dashboard that is not read-only",
            )


_CSRF_LENGTH = 32


def path_of(request: Request) -> str:
    """Return the path of a request within the dashboard, wherever that is mounted."""
    path: str = request.scope["path"]
    root: str = request.scope.get("root_path", "")
    return path.removeprefix(root) if root else path


def cookie(scope: Scope, name: str, value: str, *, age: int | None = None) -> str:
    """Return a Set-Cookie header that no script reads and no other site's form sends."""
    home = scope.get("state", {}).get(HOME, scope.get("root_path", ""))
    parts = [f"{name}={value}", f"Path={home or '/'}", "HttpOnly", "SameSite=Lax"]
    if scope.get("scheme") == "https":
        parts.append("Secure")
    if age is not None:
        parts.append(f"Max-Age={age}")
    return "; ".join(parts)


def host_of(given: str) -> str | None:
    """Return the name in a Host header; None if that is none.

    >>> host_of("localhost:8123"), host_of("[::1]:80"), host_of("a b")
    ('localhost', '[::1]', None)
    """
    try:
        parts = urlsplit(f"//{given}")
        _ = parts.port
    except ValueError:
        return None
    name = parts.hostname
    if not name or parts.path or parts.query or parts.fragment or "@" in given or any(c.isspace() for c in given):
        return None
    return f"[{name}]" if ":" in name else name.rstrip(".")


def _check_origin(request: Request) -> None:
    """Refuse what another site's page has sent, as browsers tell it.

    The scheme is not compared: a proxy that speaks TLS may stand between.
    """
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    site = request.headers.get("sec-fetch-site")
    elsewhere = origin is not None and urlsplit(origin).netloc.lower() != host.lower()
    if elsewhere or site not in {None, "same-origin", "none"}:
        raise Problem(
            403,
            "foreign_origin",
            "the request was sent by a page of another site",
            "do it from the dashboard itself",
        )


async def _body(request: Request) -> bytes:
    length = request.headers.get("content-length", "0")
    size = 0
    chunks: list[bytes] = []
    if length.isdecimal() and int(length) <= LARGEST_BODY:
        async for chunk in request.stream():
            size += len(chunk)
            if size > LARGEST_BODY:
                break
            chunks.append(chunk)
        else:
            return b"".join(chunks)
    raise Problem(413, "too_large", f"a request has at most {LARGEST_BODY} bytes", "send less")


def _again(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read once more to whoever comes next."""
    pending = [body]

    async def again() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return again


def _cookies(headers: Headers) -> dict[str, str]:
    jar: SimpleCookie = SimpleCookie()
    for header in headers.getlist("cookie"):
        try:
            jar.load(header)
        except CookieError:
            continue
    return {name: morsel.value for name, morsel in jar.items()}


__all__ = ["CSRF_COOKIE", "CSRF_FIELD", "CSRF_HEADER", "HEADERS", "LARGEST_BODY", "Guard", "cookie", "path_of"]
