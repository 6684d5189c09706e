"""The keys of a run's calls and timers; the grammar is part of the format and lives here only.

    key    = [scope "/"] name "#" n        the n-th call of that name in its scope, from 1
           | [scope "/"] name "[" key "]"  a call with an explicit key
           | [scope "/"] "@timer#" n       a timer
           | [scope "/"] "@signal." name "#" n   a wait for a signal
           | [scope "/"] "@send#" n        a message to another run
           | [scope "/"] "@undo#" n        the beginning of an unwinding
           | "@patch[" name "]"            a patch, one for the whole run
           | [scope "/"] "@emit:" stream "#" n   the n-th value that a scope's code emits to that stream
    scope  = part {"/" part}               tasks from the run's root down; the root itself has no part
    part   = name "#" n                    the n-th task of that name under its parent
           | "@failure#" n                 what is done because the run has failed for the n-th time

A scope is a task's place, so a task added elsewhere moves no key. Scopes that would make a key long (recursion) are
replaced by their hash.
"""

from __future__ import annotations

from hashlib import sha256

from perdure.errors import DefinitionError

TIMER = "@timer"
SIGNAL = "@signal."
SEND = "@send"
UNDO = "@undo"
_FAILURE = "@failure#"
_PATCH = "@patch["
LONGEST_SCOPE = 200
LONGEST_KEY = 200

_FORBIDDEN = frozenset("@/#[]")
_COMPREHENSIONS = ("<listcomp>.", "<dictcomp>.", "<setcomp>.", "<genexpr>.")


class Scope:
    """A task's place, handing out the keys of what is called in it and the scopes of its child tasks."""

    __slots__ = ("_counts", "_prefix", "path")

    def __init__(self, path: str = "") -> None:
        self.path = path
        self._prefix = f"{path}/" if path else ""
        self._counts: dict[str, int] = {}

    def key(self, name: str, explicit: str | None = None) -> str:
        """Return the next key for ``name``, or the one with the ``explicit`` key."""
        if explicit is not None:
            return f"{self._prefix}{name}[{explicit}]"
        counts = self._counts
        n = counts[name] = counts.get(name, 0) + 1
        return f"{self._prefix}{name}#{n}"

    def child(self, name: str) -> Scope:
        """Return the scope of the next child task of that name."""
        # Tasks and calls count apart: a step and a coroutine may share a name.
        counted = f"/{name}"
        n = self._counts[counted] = self._counts.get(counted, 0) + 1
        path = f"{self._prefix}{name}#{n}"
        if len(path) > LONGEST_SCOPE:
            path = f"@{sha256(path.encode()).hexdigest()[:24]}"
        return Scope(path)


def task_name(qualname: str) -> str:
    """Return what a coroutine's qualified name contributes to a scope: what follows the last ``<locals>.``.

    Comprehensions are left out: from Python 3.12 on most of them have no place of their own.

    >>> task_name("outer.<locals>.branch"), task_name("outer.<locals>.<listcomp>.<lambda>")
    ('branch', '<lambda>')
    """
    name = qualname.rpartition("<locals>.")[2] or "task"
    while name.startswith(_COMPREHENSIONS):
        name = name.partition(".")[2]
    if _FORBIDDEN.isdisjoint(name):
        return name
    return "".join("_" if c in _FORBIDDEN else c for c in name)


def step_name(key: str) -> str:
    """Return the name in a key: ``charge`` of ``fulfil.branch#2/charge#1``.

    >>> step_name("fulfil.branch#2/charge#1"), step_name("charge[a]")
    ('charge', 'charge')
    """
    if key.endswith("]"):
        return key[: key.index("[")].rpartition("/")[2]
    return key.rpartition("/")[2].rpartition("#")[0]


def failure_scope(number: int) -> Scope:
    """Return the place of what is done because a run has failed for the ``number``-th time.

    >>> failure_scope(2).key("tell")
    '@failure#2/tell#1'
    """
    return Scope(f"{_FAILURE}{number}")


def is_of_failure(key: str) -> bool:
    """Whether a key is of something that was done because the run had failed."""
    return key.startswith(_FAILURE)


def patch_key(name: str) -> str:
    """Return the key of a patch's mark.

    >>> patch_key("new-rates")
    '@patch[new-rates]'
    """
    return f"{_PATCH}{name}]"


def patch_name(key: str) -> str:
    """Return the name in the key of a patch's mark.

    >>> patch_name("@patch[new-rates]")
    'new-rates'
    """
    return key.removeprefix(_PATCH)[:-1]


def emit_name(stream: str) -> str:
    """Return the name under which a scope counts what its code emits to a stream.

    >>> Scope("fulfil.branch#2").key(emit_name("tokens"))
    'fulfil.branch#2/@emit:tokens#1'
    """
    return f"@emit:{stream}"


def check_explicit(key: object, what: str = "a step's key") -> str:
    """Validate an explicit key, or another name that becomes part of keys; ``what`` it is, for the message.

    Raises:
        DefinitionError: not a str, empty, too long, or with characters that keys reserve.
    """
    if not isinstance(key, str):
        raise DefinitionError(f"{what} is text, not {type(key).__name__}", advice="use str(…)")
    if not key or len(key) > LONGEST_KEY:
        raise DefinitionError(f"{what} has 1 to {LONGEST_KEY} characters, not {len(key)}")
    if not _FORBIDDEN.isdisjoint(key) or not key.isprintable():
        raise DefinitionError(
            f"{what} has no character that keys reserve (@ / # [ ]) and none that does not print: {key!r}",
            advice="use letters, digits, '-', '_', '.', ':' or spaces",
        )
    return key
