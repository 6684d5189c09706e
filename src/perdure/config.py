"""Settings of a project, for when nobody says: from ``PERDURE_*`` variables, else a file, else a default.

The file is ``perdure.toml``, or the table ``[tool.perdure]`` of ``pyproject.toml``, in the nearest folder that has one
of them. The store's default is ``.perdure`` in that folder. Paths in the file are relative to it.
"""

from __future__ import annotations

import os
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.codecs import Encryption, Zstandard, check_codecs
from perdure.errors import DefinitionError

if TYPE_CHECKING:
    from perdure.model.coding import Codec

FOLDER = ".perdure"
PROJECT_FILES = ("perdure.toml", "pyproject.toml")


class Setting(NamedTuple):
    """Something that can be set for a whole project.

    Attributes:
        name: in a file; in the environment it is ``PERDURE_`` and this in capitals.
        about: what it says.
        kind: "text", "path", "flag", "number", or "list" (in the environment, with commas).
        default: what holds where nobody says.
        is_secret: whether its value is never shown, and not taken from a file of the project.
    """

    name: str
    about: str
    kind: str = "text"
    default: Any = None
    is_secret: bool = False

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return f"PERDURE_{self.name.upper()}"


class Found(NamedTuple):
    """A setting's value and where it comes from: a variable, a file, or "default"."""

    value: Any
    origin: str


SETTINGS = (
    Setting("store", "the store: a file, a directory or a URL", "path"),
    Setting("namespace", "the namespace of runs, schedules and ids"),
    Setting("codecs", "codecs of your own: module:object, applied before those below", "list"),
    Setting("compress", "whether values over 1 KiB are compressed (Zstandard)", "flag", default=False),
    Setting("encryption_keys", "master keys for encryption, the newest first", "list", is_secret=True),
    Setting("encryption_keys_file", "a file with these keys, one a line", "path"),
    Setting("concurrency", "runs in execution at once in an engine", "number", 100),
    Setting("threads", "sync steps in execution at once in an engine", "number", 32),
    Setting("lease", "how long a claim holds without a heartbeat", default="30s"),
    Setting("heartbeat", "how often it is renewed", default="10s"),
    Setting("crash_cap", "a run whose workers died so often without progress is blocked", "number", 5),
    Setting("on_drift", "what becomes of a run that its code departs from: block or warn", default="block"),
    Setting(
        "durability", "what is committed survives: a power cut (disk) or the process only (process)", default="disk"
    ),
    Setting("metrics", "where a worker answers Prometheus's scrapes: a port, or host:port"),
    Setting("redact", "paths of values that the command line and the dashboard do not show", "list"),
    Setting("drain", "how long steps may finish when a worker stops", default="30s"),
    Setting("grace", "how long they may clean up after that", default="5s"),
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}
_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


class Settings:
    """The settings of a project, as they are at one moment: its file is looked for once, and only if it is needed.

    Args:
        start: the folder to look from; by default the working directory.
    """

    def __init__(self, start: Path | None = None) -> None:
        self._start = start

    @cached_property
    def _file(self) -> Path | None:
        return project_file(self._start)

    @cached_property
    def _in_file(self) -> dict[str, Any]:
        return {} if self._file is None else _read_file(self._file)

    def find(self, name: str) -> Found:
        """Return a setting and where it comes from; the name is of one of ``SETTINGS``.

        Raises:
            DefinitionError: it is set to something that it cannot be, or the file cannot be read.
        """
        setting = _BY_NAME[name]
        said = os.environ.get(setting.variable)
        if said:
            return Found(_read(setting, said, setting.variable), setting.variable)
        if name not in self._in_file:
            return Found(setting.default, "default")
        file = self._file
        assert file is not None
        if setting.is_secret:
            raise DefinitionError(
                f"{name} in {file} would be a secret in a file of the project",
                advice=f"set {setting.variable}, or name a file elsewhere with {name}_file",
            )
        return Found(_read(setting, self._in_file[name], f"{name} in {file}", file.parent), str(file))

    def get(self, name: str, given: Any = None) -> Any:
        """Return what is given, or else what the setting of this name says; raises as ``find`` does."""
        return self.find(name).value if given is None else given

    @property
    def store(self) -> str:
        """The store to use when none is named: a path or URL."""
        named: str | None = self.find("store").value
        if named:
            return named
        return str((_here(self._start) if self._file is None else self._file.parent) / FOLDER) + os.sep

    @property
    def namespace(self) -> str:
        """The namespace to use when none is named."""
        named: str | None = self.find("namespace").value
        return named or ""

    def codecs(self) -> tuple[Codec, ...]:
        """Return what stored payloads go through when nobody says.

        Raises:
            DefinitionError: a codec or a key is none, or a library is missing.
        """
        codecs: list[Codec] = [_imported(one) for one in self.get("codecs") or ()]
        if self.get("compress"):
            codecs.append(Zstandard())
        keys: list[str] = list(self.get("encryption_keys") or ())
        file: str | None = self.get("encryption_keys_file")
        if file:
            keys += _keys_in(file)
        if keys:
            codecs.append(Encryption(keys))
        return check_codecs(codecs)


def setting(name: str, given: Any = None) -> Any:
    """Return what is given, or else what the setting of this name says; raises as ``Settings.find`` does."""
    return Settings().get(name, given)


def default_store(start: Path | None = None) -> str:
    """Return the store to use when none is named; see ``Settings.store``."""
    return Settings(start).store


def default_namespace() -> str:
    """Return the namespace to use when none is named."""
    return Settings().namespace


def default_codecs() -> tuple[Codec, ...]:
    """Return what stored payloads go through when nobody says; see ``Settings.codecs``."""
    return Settings().codecs()


def project_file(start: Path | None = None) -> Path | None:
    """Return the nearest file that marks a project: the one that settings are read from, if it has any."""
    here = _here(start)
    for folder in (here, *here.parents):
        for name in PROJECT_FILES:
            if (folder / name).is_file():
                return folder / name
    return None


def _here(start: Path | None) -> Path:
    return (start or Path.cwd()).resolve()


def _read_file(file: Path) -> dict[str, Any]:
    try:
        seen = file.stat()
        return _table(file, seen.st_mtime_ns, seen.st_size)
    except (OSError, ValueError) as error:
        raise DefinitionError(f"{file} cannot be read: {error}", advice="mend it, or set variables") from error


@lru_cache(8)
def _table(file: Path, _changed: int, _size: int) -> dict[str, Any]:
    """Read the settings in a file; once, for as long as it is what it was."""
    import tomllib

    said: Any = tomllib.loads(file.read_text("utf-8"))
    table: dict[str, Any] = said if file.name == PROJECT_FILES[0] else said.get("tool", {}).get("perdure", {})
    unknown = sorted(set(table) - set(_BY_NAME)) if isinstance(table, dict) else ["tool.perdure"]
    if unknown:
        raise DefinitionError(
            f"{file} sets {', '.join(unknown)}, which is no setting", advice=f"settings are {', '.join(_BY_NAME)}"
        )
    return table


def _read(setting: Setting, said: Any, where: str, folder: Path | None = None) -> Any:
    if setting.kind == "flag":
        flag = said if isinstance(said, bool) else _FLAGS.get(str(said).lower())
        if flag is None:
            raise DefinitionError(f"{where} is {said!r:.80}", advice="say true or false")
        return flag
    if setting.kind == "list":
        several = [one.strip() for one in said.replace("\n", ",").split(",")] if isinstance(said, str) else said
        if not isinstance(several, list) or not all(isinstance(one, str) for one in several):
            raise DefinitionError(f"{where} is no list of texts", advice="separate them by commas")
        return [one for one in several if one]
    if setting.kind == "number":
        if isinstance(said, bool) or not str(said).strip().isdecimal():
            raise DefinitionError(f"{where} is {said!r:.80}", advice="say a whole number")
        return int(said)
    if not isinstance(said, str):
        raise DefinitionError(f"{where} is {type(said).__name__}, not text")
    if setting.kind == "path" and folder is not None and "://" not in said:
        return str(folder / said) + (os.sep if said.endswith(("/", os.sep)) else "")
    return said


def _keys_in(file: str) -> list[str]:
    try:
        lines = Path(file).read_text("ascii").split()
    except (OSError, ValueError) as error:
        raise DefinitionError(f"the file with keys for encryption, {file}, cannot be read: {error}") from error
    return lines


def _imported(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute) if colon else None
    except (ImportError, AttributeError) as error:
        raise DefinitionError(f"no codec can be imported as {name!r}: {error}", advice="write module:object") from error


__all__ = [
    "FOLDER",
    "PROJECT_FILES",
    "SETTINGS",
    "Found",
    "Setting",
    "Settings",
    "default_codecs",
    "default_namespace",
    "default_store",
    "project_file",
    "setting",
]
