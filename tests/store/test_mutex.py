"""Whoever waits for a connection gets it, however soon somebody else would take it again."""

from __future__ import annotations

from threading import Event, Thread

from perdure.store.postgres.mutex import Mutex

PATIENCE = 10


def test_what_somebody_waits_for_is_not_taken_again():
    mutex, go_on = Mutex(), Event()

    def waits():
        with mutex:
            go_on.wait(PATIENCE)

    assert mutex.take()
    assert not mutex.take()
    assert not mutex.acquire(timeout=0)
    waiting = Thread(target=waits)
    waiting.start()
    while not mutex.is_wanted:
        pass
    mutex.release()
    assert not mutex.take()
    go_on.set()
    waiting.join(PATIENCE)
    assert not mutex.is_wanted
    assert mutex.take()
