"""Serving the dashboard by itself, until it is asked to stop."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

import uvicorn

from perdure.errors import DefinitionError
from perdure.web.settings import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from starlette.applications import Starlette

_BACKLOG: Final = 128


def listen(host: str, port: int, *, knows_who_asks: bool) -> socket.socket:
    """Return a socket that listens.

    Raises:
        DefinitionError: others than this machine could connect, and nobody would know who they are; or the port is
            taken, or not to be had.
    """
    if not is_loopback(host) and not knows_who_asks:
        raise DefinitionError(
            f"{host} is reached by others than this machine, and nobody would know who they are",
            advice="give a token (PERDURE_UI_TOKEN, --token), or stay on this machine and reach it through a tunnel: "
            f"ssh -L {port}:localhost:{port} HOST",
        )
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _taken(host, port, error) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise _taken(host, port, error) from error
    return listening


def _taken(host: str, port: int, error: OSError) -> DefinitionError:
    return DefinitionError(
        f"cannot listen on {host}, port {port}: {error.strerror or error}",
        advice="take another one with --port; --port 0 takes any that is free",
    )


def serve(application: Starlette, listening: socket.socket, ready: Callable[[], object]) -> None:
    """Answer requests until SIGINT or SIGTERM; then at once no more, whoever still listens to a stream.

    Args:
        application: the dashboard.
        listening: a socket that listens; it is closed.
        ready: told when it answers.
    """
    config = uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=1,
        ws="none",
    )
    server = _Server(config, application, ready)
    try:
        server.run([listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()


class _Server(uvicorn.Server):
    """Says when it is there, and lets streams go when it stops."""

    def __init__(self, config: uvicorn.Config, application: Starlette, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._application = application
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop."""
        self._application.state.live.end()
        super().handle_exit(sig, frame)


__all__ = ["listen", "serve"]
