"""A wire between a store and its server that tests cut at the worst moment."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit, urlunsplit


class Wire:
    """Passes bytes on between clients and a server, until it is told to cut."""

    def __init__(self, host, port):
        self._server = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends = []
        self._last_words = None
        self._deaf = False
        self._passes = threading.Event()
        self._passes.set()
        self.cuts = 0
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, words, *, for_good=False):
        """Once: let a client say something with these words in it, and lose the answer with the connection.

        With ``for_good`` nobody comes through any more until ``accept``.
        """
        self._last_words, self._deaf = words, for_good

    @contextmanager
    def held_up(self):
        """Meanwhile nothing that is said comes through."""
        self._passes.clear()
        try:
            yield
        finally:
            self._passes.set()

    def refuse(self):
        """Cut every connection, and let no new one through until ``accept``."""
        self._deaf = True
        for pair in list(self._ends):
            _close(*pair)

    def accept(self):
        self._deaf = False

    def close(self):
        self._listener.close()
        for pair in list(self._ends):
            _close(*pair)

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._deaf:
                    client.close()
                    continue
                server = socket.create_connection(self._server)
                self._ends.append((client, server))
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client, server):
        with suppress(OSError), selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            while all(self._said(client, key.fileobj, key.data) for key, _ in selector.select()):
                pass
        _close(client, server)
        self._ends.remove((client, server))

    def _said(self, client, speaker, listener):
        """Pass on what was said; whether the wire still stands."""
        self._passes.wait()
        data = speaker.recv(1 << 16)
        if not data:
            return False
        listener.sendall(data)
        if speaker is client and self._last_words is not None and self._last_words in data:
            self._last_words = None
            listener.recv(1)  # it has done what it was asked to
            self.cuts += 1
            return False
        return True


def _close(*ends):
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextmanager
def wired(url):
    """A wire to the server of an address, and the address at its other end."""
    parts = urlsplit(url)
    wire = Wire(parts.hostname, parts.port)
    user = parts.netloc.rpartition("@")[0]
    try:
        yield wire, urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{wire.port}"))
    finally:
        wire.close()
