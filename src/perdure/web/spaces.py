"""Which namespace a request is about: the dashboard's own, or one that stands in the address, as ``/in/billing/runs``.

A dashboard that was given a namespace shows that one alone. Others show whichever the store has; all addresses that are
made for a page stay in its namespace, since it is a part of the root of those.
"""

from __future__ import annotations

import base64
import binascii
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from perdure.errors import DefinitionError
from perdure.model.ids import valid_namespace

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from perdure.web.reading import Reader

PREFIX: Final = "/in/"
_PLAIN: Final = re.compile(r"[A-Za-z0-9._-][A-Za-z0-9._~-]*")
_DOTS: Final = frozenset({".", ".."})
HOME: Final = "perdure_home"
"""Where in a request's state the root of the dashboard is, whatever namespace is asked for."""


class Spaces:
    """Stands before all else and takes the namespace out of the address."""

    def __init__(self, app: ASGIApp, reader: Reader) -> None:
        self._app = app
        self._reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with the namespace that it is about."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        root: str = scope.get("root_path", "")
        state = scope.setdefault("state", {})
        state[HOME], state["namespace"] = root, self._reader.namespace
        path = scope["path"].removeprefix(root)
        if path.startswith(PREFIX) and not self._reader.is_fixed:
            segment, slash, _ = path.removeprefix(PREFIX).partition("/")
            name = name_of(segment)
            if slash and name is not None:
                state["namespace"] = name
                scope = {**scope, "root_path": root + PREFIX + segment}
        await self._app(scope, receive, send)


def segment_of(name: str) -> str:
    """Return what stands for a namespace in addresses: its name where that is plain, else a code of it.

    >>> segment_of("billing"), segment_of(""), segment_of("a/b")
    ('billing', '~', '~YS9i')
    """
    if _PLAIN.fullmatch(name) and name not in _DOTS:
        return name
    return "~" + base64.urlsafe_b64encode(name.encode()).decode("ascii").rstrip("=")


def name_of(segment: str) -> str | None:
    """Return the namespace that a part of an address stands for; None: it stands for none."""
    if not segment.startswith("~"):
        return segment if segment and segment_of(segment) == segment else None
    code = segment[1:]
    with suppress(ValueError, binascii.Error, DefinitionError):
        name = valid_namespace(base64.urlsafe_b64decode(code + "=" * (-len(code) % 4)).decode())
        return name if segment_of(name) == segment else None
    return None


def namespace_of(request: Request) -> str:
    """Return the namespace that a request is about."""
    name: str = request.state.namespace
    return name


__all__ = ["HOME", "PREFIX", "Spaces", "name_of", "namespace_of", "segment_of"]
