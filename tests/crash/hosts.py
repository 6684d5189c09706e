"""Hosts of their own for workers: network namespaces on a bridge, whose cables tests cut and mend."""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.procs import work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.crash.ledger import Ledger

CLONE_NEWNET = 0x40000000
_numbers = itertools.count()


@dataclass(frozen=True)
class Host:
    """A network namespace, connected to the network by a cable."""

    name: str
    bridge: str

    def cut(self) -> None:
        """Lose every packet from here on, in both directions; nobody is told."""
        _ip("link", "set", f"{self.name}-b", "nomaster")

    def mend(self) -> None:
        """Let packets through again."""
        _ip("link", "set", f"{self.name}-b", "master", self.bridge)


@dataclass(frozen=True)
class Network:
    """A bridge with this machine on it, at ``address``."""

    bridge: str
    address: str
    hosts: list[Host]


@contextmanager
def network(count: int) -> Iterator[Network]:
    """A network with so many hosts besides this machine; skips where it cannot be made."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("hosts are network namespaces, which only root can make, with the program ip (iproute2)")
    number = 7 * os.getpid() + next(_numbers)
    bridge = f"pd{number % 1_000_000}"
    net = f"198.{18 + (number >> 8 & 1)}.{number & 255}"  # set apart for measuring networks: nobody has them
    made: list[tuple[str, ...]] = []
    try:
        _ip("link", "add", bridge, "type", "bridge")
        made.append(("link", "del", bridge))
        _ip("addr", "add", f"{net}.1/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        hosts = []
        for n in range(count):
            host = Host(f"{bridge}{chr(97 + n)}", bridge)
            _ip("netns", "add", host.name)
            made.append(("netns", "del", host.name))
            _ip("link", "add", f"{host.name}-b", "type", "veth", "peer", "name", "eth0", "netns", host.name)
            _ip("link", "set", f"{host.name}-b", "master", bridge, "up")
            _ip("-n", host.name, "link", "set", "lo", "up")
            _ip("-n", host.name, "addr", "add", f"{net}.{n + 2}/24", "dev", "eth0")
            _ip("-n", host.name, "link", "set", "eth0", "up")
            hosts.append(host)
        yield Network(bridge, f"{net}.1", hosts)
    finally:
        for undo in reversed(made):
            _ip(*undo)


def work_on(host: Host, store: str, ledger: Ledger, options: dict[str, Any]) -> None:
    """Be a worker on a host."""
    with Path(f"/run/netns/{host.name}").open() as namespace:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.setns(namespace.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
    work(store, ledger, options, 30.0, 5.0)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
