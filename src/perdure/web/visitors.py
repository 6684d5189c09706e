"""Who asks: by a token, by the application's own check, or nobody in particular on this machine."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from inspect import isawaitable
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.responses import RedirectResponse

from perdure.errors import DefinitionError
from perdure.web.problems import Problem, wants_html
from perdure.web.settings import Visitor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from perdure.model.clock import Clock
    from perdure.web.settings import Settings

SESSION_COOKIE: Final = "perdure_session"
SESSION_AGE: Final = 12 * 3600
"""Seconds after which one has to log in again."""
LONGEST_NAME: Final = 80
_NOBODY = "somebody on this machine"


class Doorman:
    """Knows who asks.

    A session is its own proof: who it is and since when, signed with a key made of the token. So it holds in every
    process that has the token, also after a restart, and ends with the token.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._key = hashlib.sha256(b"perdure session\0" + (settings.token or "").encode()).digest()

    @property
    def has_login(self) -> bool:
        """Whether one logs in here."""
        return self._settings.token is not None

    async def who(self, request: Request, cookies: Mapping[str, str]) -> tuple[Visitor | None, bool]:
        """Return who asks, None if that is nobody known; and whether a header says so, which no other site can send."""
        settings = self._settings
        if settings.auth is not None:
            found = settings.auth(request)
            if isawaitable(found):
                found = await found
            return _visitor(found), False
        if settings.token is None:
            return Visitor(_NOBODY), False
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and same(credentials.strip(), settings.token):
            return Visitor("a program with the token"), True
        return self._of_session(cookies.get(SESSION_COOKIE, "")), False

    def log_in(self, token: str, name: str) -> str | None:
        """Return a session, to be kept as a cookie; None if the token is wrong."""
        if self._settings.token is None or not same(token, self._settings.token):
            return None
        name = "".join(char for char in name.strip() if char.isprintable())[:LONGEST_NAME]
        body = _encoded(json.dumps([name or "somebody with the token", self._seconds()]).encode())
        return f"{body}.{self._signed(body)}"

    def _of_session(self, session: str) -> Visitor | None:
        body, _, signature = session.partition(".")
        if not body or not same(signature, self._signed(body)):
            return None
        name, since = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return Visitor(name) if 0 <= self._seconds() - since < SESSION_AGE else None

    def is_public(self, request: Request) -> bool:
        """Whether anybody may ask for this: how to log in, and what that page is made of."""
        path: str = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        return path.startswith("/static/") or (self.has_login and path == "/login")

    def stranger(self, request: Request) -> Problem:
        """Return how somebody unknown is sent away."""
        problem = Problem(
            401,
            "unknown_visitor",
            "this dashboard has to know who asks",
            "send the token: Authorization: Bearer …" if self.has_login else "log in to the application first",
        )
        if self.has_login:
            problem.headers["www-authenticate"] = 'Bearer realm="perdure"'
            if request.method == "GET" and wants_html(request):
                root = request.scope.get("root_path", "")
                came = request.scope["path"].removeprefix(root)
                came += f"?{request.url.query}" if request.url.query else ""
                problem.instead = RedirectResponse(f"{root}/login?next={quote(came, safe='')}", status_code=303)
        return problem

    def _seconds(self) -> int:
        return self._clock.now() // 1_000_000

    def _signed(self, body: str) -> str:
        return _encoded(hmac.digest(self._key, body.encode(), "sha256"))


def same(given: str, known: str) -> bool:
    """Compare secrets in a time that tells nothing of them."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), known.encode("utf-8", "surrogatepass"))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _visitor(found: Visitor | str | None) -> Visitor | None:
    if found is None or isinstance(found, Visitor):
        return found
    if not isinstance(found, str) or not found:
        raise DefinitionError(
            f"auth= returned {type(found).__name__}", advice="return a name, a Visitor, or None if nobody is known"
        )
    return Visitor(found)


__all__ = ["SESSION_AGE", "SESSION_COOKIE", "Doorman", "same"]
