"""Ids that Perdure makes, and what it accepts as names. Idempotency keys are part of the format.

Randomness is passed in as ``random``, a function from a number of bytes to that many random bytes
(``os.urandom``), so that ids are pure functions of their sources.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b32encode
from hashlib import sha256
from typing import TYPE_CHECKING

from perdure.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable

UID_SIZE = 16
NAME_LIMIT = 200
"""Characters in the name of a workflow, step or signal."""
RUN_ID_LIMIT = 500
"""Bytes (UTF-8) in a run id."""

_RESERVED = frozenset("@/#[]")
_KEY_BYTES = 20
_CODEC_NAME = re.compile(r"[A-Za-z0-9-]{1,32}")
_MILLISECONDS = (1 << 48) - 1


def run_id(now: int, random: Callable[[int], bytes]) -> str:
    """Make a run id: a UUID of version 7, whose text sorts by the time it was made.

    Args:
        now: the wall clock in µs; the id keeps it to a quarter of a microsecond's rounding.
        random: source of random bytes.
    """
    milliseconds, rest = divmod(max(now, 0), 1000)
    high = ((milliseconds & _MILLISECONDS) << 16) | 0x7000 | (rest * 4096 // 1000)
    low = (0b10 << 62) | (int.from_bytes(random(8), "big") >> 2)
    digits = f"{high << 64 | low:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def run_id_of_key(namespace: str, key: str) -> str:
    """Return the id of a run that is started under an idempotency key where nobody can look whether it is there.

    It is the same for the same key, so that all who use the key speak of one run.
    """
    digest = sha256(b"perdure run of key ")
    for part in (namespace.encode(), key.encode()):
        digest.update(b"%d:" % len(part) + part)
    return b32encode(digest.digest()[:_KEY_BYTES]).decode("ascii").lower()


def new_uid(random: Callable[[int], bytes]) -> bytes:
    """Make the uid of a run: 16 random bytes, kept for ever, on which its idempotency keys hang."""
    return random(UID_SIZE)


def worker_key(random: Callable[[int], bytes]) -> int:
    """Make the key of a worker: a random number of 62 bits, never nought.

    It names a byte of a file to lock, so it must be small enough for an offset.
    """
    return int.from_bytes(random(8), "big") >> 2 or 1


def idempotency_key(uid: bytes, step_key: str) -> str:
    """Return the idempotency key of a step: 32 characters, the same for every attempt and for ever."""
    digest = sha256(b"perdure step " + uid + step_key.encode("utf-8", "surrogatepass")).digest()
    return b32encode(digest[:_KEY_BYTES]).decode("ascii").lower()


def valid_name(name: object, what: str = "name") -> str:
    """Return a name of a workflow, step or signal if it can be one.

    Args:
        name: the candidate.
        what: what it would name, for the error.

    Raises:
        DefinitionError: not text, empty, too long, or with characters that have a meaning in step keys.
    """
    text = _text(name, what)
    if len(text) > NAME_LIMIT:
        raise DefinitionError(
            f"{what} is {len(text)} characters long",
            advice=f"use at most {NAME_LIMIT} characters",
            name=text[:NAME_LIMIT],
        )
    found = sorted(_RESERVED.intersection(text))
    if found:
        raise DefinitionError(
            f"{what} {text!r} has {' '.join(found)} in it",
            name=text,
            advice="@ / # [ ] have a meaning in step keys: give another name with name=",
        )
    return text


def valid_codec_name(name: object) -> str:
    """Return a codec's name if it can be one.

    Raises:
        DefinitionError: not text of 1 to 32 letters, digits and hyphens (ASCII).
    """
    if not isinstance(name, str) or not _CODEC_NAME.fullmatch(name):
        raise DefinitionError(f"{name!r:.80} is no name of a codec", advice="use up to 32 letters, digits and hyphens")
    return name


def valid_namespace(name: object) -> str:
    """Return the name of a namespace if it can be one; the empty text names the one that has no name.

    Raises:
        DefinitionError: as for ``valid_run_id``.
    """
    return "" if name == "" else valid_run_id(name, "namespace")


def valid_run_id(value: object, what: str = "run id") -> str:
    """Return a run id (or an idempotency key of one) if it can be one.

    Raises:
        DefinitionError: not text, empty, longer than 500 bytes, or with characters that no store and no terminal bears.
    """
    text = _text(value, what)
    size = len(text.encode())
    if size > RUN_ID_LIMIT:
        raise DefinitionError(
            f"{what} is {size} bytes long",
            advice=f"use at most {RUN_ID_LIMIT} bytes, or a hash of the rest",
            run_id=text[:80],
        )
    return text


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise DefinitionError(f"{what} must be a str, not {type(value).__name__}", advice="give it as text", name=value)
    text = str.__str__(value)  # exact, also for members of a str enum
    if not text.strip():
        raise DefinitionError(f"{what} is empty", advice="give it at least one visible character", name=text)
    for char in text:
        if unicodedata.category(char) in {"Cc", "Cs"}:
            raise DefinitionError(
                f"{what} {text[:80]!r} has the character {char!r} in it",
                name=text,
                advice="leave out control characters, NUL and lone surrogates",
            )
    return text
