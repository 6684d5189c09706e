"""How a dashboard is set up, and what that must not leave open."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from perdure.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from starlette.requests import Request

    from perdure.model.redaction import Redaction

SHORTEST_TOKEN: Final = 16
"""Characters that a token has at least: nothing counts how often one is guessed."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks.

    Attributes:
        name: what the process's log and the reasons in event logs call them.
        read_only: whether they may only look.
    """

    name: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """How a dashboard is set up; made by ``settings``."""

    hosts: tuple[str, ...]
    token: str | None
    auth: Callable[[Request], Visitor | str | Awaitable[Visitor | str | None] | None] | None
    read_only: bool
    redaction: Redaction

    @property
    def is_open(self) -> bool:
        """Whether nobody has to say who they are: then only this machine is answered."""
        return self.token is None and self.auth is None

    def answers_to(self, host: str) -> bool:
        """Whether a request may name this host, without port: it is this machine, or is allowed."""
        return is_loopback(host) or any(fnmatchcase(host, allowed) for allowed in self.hosts)


def settings(
    *,
    hosts: Iterable[str],
    token: str | None,
    auth: Callable[[Request], Visitor | str | Awaitable[Visitor | str | None] | None] | None,
    read_only: bool,
    redaction: Redaction,
) -> Settings:
    """Check and keep how a dashboard is set up.

    Raises:
        DefinitionError: it would answer others than this machine without asking who they are; or a token is short.
    """
    if isinstance(hosts, str):
        raise DefinitionError("hosts are a list", advice=f"write hosts=[{hosts!r}]")
    allowed = tuple(host.lower().rstrip(".") for host in hosts)
    if any(not host or host.strip("*.") == "" for host in allowed):
        raise DefinitionError(
            "a host that stands for all of them lets any web page reach the dashboard under a name of its own",
            advice='name the hosts under which it is reached: hosts=["ops.example.com"]',
        )
    if token is not None and auth is not None:
        raise DefinitionError("token= and auth= are two ways to know who asks", advice="give one of them")
    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isprintable()):
        raise DefinitionError(
            f"a token has at least {SHORTEST_TOKEN} printable characters",
            advice="make one: python -c 'import secrets; print(secrets.token_urlsafe())'",
        )
    made = Settings(allowed, token, auth, read_only, redaction)
    if made.is_open and not all(is_loopback(host) for host in allowed):
        raise DefinitionError(
            "a dashboard that others than this machine can reach has to know who asks",
            advice="give it a token= (perdure ui: --token, or PERDURE_UI_TOKEN) or your own auth=",
        )
    return made


def is_loopback(host: str) -> bool:
    """Whether a name or address, without port, always means this machine."""
    name = host.lower().rstrip(".").removeprefix("[").removesuffix("]")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


__all__ = ["Settings", "Visitor", "is_loopback", "settings"]
