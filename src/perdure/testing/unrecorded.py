"""Catch workflow code in the act of reading the clock or drawing random numbers: what no log can give back to it."""

from __future__ import annotations

import datetime as dt
import os
import random
import sys
import sysconfig
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import perdure
from perdure.steps import Step

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

_OURS = str(Path(perdure.__file__).parent) + os.sep
_LIBRARY = tuple(
    str(Path(sysconfig.get_paths()[name]).resolve()) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_SHARED_RANDOM = random.random.__self__  # type: ignore[attr-defined]  # behind random.random() and its kin
_CLOCKS = {getattr(time, name): f"time.{name}()" for name in ("time", "time_ns")}
_DATES = {"now", "today", "utcnow"}
_INVOKE = Step.invoke.__code__
_LOGGING = os.sep + "logging" + os.sep


class Read(NamedTuple):
    """Something unrecorded that a line of a workflow's code did."""

    what: str
    where: str

    def __str__(self) -> str:
        return f"{self.where} {self.what}"


@contextmanager
def reads_noted() -> Generator[list[Read]]:
    """Note what code outside Python's library and Perdure reads from the clock or draws at random, in this block.

    Also which steps' bodies it runs by itself, on a thread the engine knows nothing of: in a rehearsal none may run.
    Log lines take the time as well; that is harmless and not noted. Not noted either: what compiled code reads.
    """
    found: dict[Read, None] = {}

    def profile(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and (what := _unrecorded(function)) is not None:
            where = _caller(frame)
            if where is not None:
                found[Read(what, where)] = None
        elif event == "call" and frame.f_back is not None and frame.f_back.f_code is _INVOKE:
            found[Read(f"runs the body of step {frame.f_code.co_name}", _line(frame.f_back))] = None

    reads: list[Read] = []
    before = sys.getprofile()
    if before is not None:  # somebody is measuring: there is only one such place, and it is theirs
        yield reads
        return
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield reads
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        reads.extend(found)


def _unrecorded(function: Any) -> str | None:
    try:
        clock = _CLOCKS.get(function)
    except TypeError:  # it has no hash
        return None
    if clock is not None:
        return f"reads the clock ({clock})"
    owner = getattr(function, "__self__", None)
    if owner is _SHARED_RANDOM or function is os.urandom:
        return "draws a random number"
    if isinstance(owner, type) and issubclass(owner, dt.date) and function.__name__ in _DATES:
        return f"reads the clock ({owner.__name__}.{function.__name__}())"
    return None


def _caller(frame: FrameType | None) -> str | None:
    """The line of the user's that asked, or None if it is none of the workflow's doing."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_OURS) or _LOGGING in file:
            return None
        if not file.startswith(_LIBRARY) and not file.startswith("<"):
            return f"{file}:{frame.f_lineno} in {frame.f_code.co_qualname}"
        frame = frame.f_back
    return None


def _line(frame: FrameType | None) -> str:
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"


__all__ = ["Read", "reads_noted"]
