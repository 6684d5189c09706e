"""The dashboard's few static files, by a fixed table: nothing else is served, whatever a path says."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.requests import Request

TYPES: Final = {
    "app.css": "text/css; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


@cache
def content(name: str) -> bytes:
    """Return a static file."""
    return (files("perdure.web") / "static" / name).read_bytes()


@cache
def versioned(name: str) -> str:
    """Return a file's name with a digest of what is in it, so that browsers may keep it for good."""
    stem, _, suffix = name.rpartition(".")
    return f"{stem}.{sha256(content(name)).hexdigest()[:12]}.{suffix}"


def serve(request: Request) -> Response:
    """Answer with a static file."""
    name = next((one for one in TYPES if versioned(one) == request.path_params["name"]), None)
    if name is None:
        raise HTTPException(404)
    return Response(
        content(name),
        headers={"content-type": TYPES[name], "cache-control": "public, max-age=31536000, immutable"},
    )


__all__ = ["TYPES", "content", "serve", "versioned"]
