"""Where a PostgreSQL store is: the URL, with Perdure's own options taken out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from perdure.errors import StoreUnreachable

SCHEMES: Final = ("postgresql://", "postgres://")
DEFAULT_SCHEMA: Final = "perdure"

_LONGEST_NAME: Final = 63
"""Bytes of an identifier; PostgreSQL would silently cut a longer one."""
_SWITCH: Final = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}
_SECRETS: Final = frozenset({"password", "sslpassword"})


@dataclass(frozen=True, slots=True)
class Address:
    """A store's address.

    Attributes:
        conninfo: what libpq is given: the URL without ``schema`` and ``pooled``.
        schema: the schema that holds the store's tables.
        pooled: whether a pooler stands between, which gives every transaction another session; None: found out.
        label: the URL for messages, without passwords.
    """

    conninfo: str
    schema: str
    pooled: bool | None
    label: str


def parse_address(url: str) -> Address:
    """Take a URL apart.

    Raises:
        StoreUnreachable: it is no address of a store; the message never shows a password.
    """
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    own = {name: value for name, value in options if name in {"schema", "pooled"}}
    rest = [(name, value) for name, value in options if name not in own]
    shown = [(name, value) for name, value in options if name not in _SECRETS]
    label = _url(_without_password(parts.netloc), parts.path, shown)
    schema = own.get("schema", DEFAULT_SCHEMA)
    if not schema or len(schema.encode()) > _LONGEST_NAME or "\0" in schema or schema.startswith("pg_"):
        raise StoreUnreachable(
            f"{schema!r} cannot be the name of a schema ({label})",
            store=label,
            advice=f"name one of at most {_LONGEST_NAME} bytes that does not begin with pg_: ?schema=perdure",
        )
    pooled = _SWITCH.get(own.get("pooled", "0").lower())
    if pooled is None:
        raise StoreUnreachable(
            f"pooled={own['pooled']!r} says neither yes nor no ({label})",
            store=label,
            advice="write pooled=1 behind a pooler in transaction mode, pooled=0 elsewhere, or leave it out",
        )
    return Address(_url(parts.netloc, parts.path, rest), schema, pooled if "pooled" in own else None, label)


def _url(netloc: str, path: str, options: list[tuple[str, str]]) -> str:
    # Put together by hand: there may be no host. And libpq takes %20 for a space, but + for a plus.
    query = urlencode(options, quote_via=quote)
    return f"postgresql://{netloc}{path}" + (f"?{query}" if query else "")


def _without_password(netloc: str) -> str:
    user, at, hosts = netloc.rpartition("@")
    return user.partition(":")[0] + at + hosts
