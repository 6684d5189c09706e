"""The program as far as it is looked at: source files, parsed and never executed."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.checking.findings import ignored_in
from perdure.checking.scopes import scope_of
from perdure.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from perdure.checking.findings import Ignored
    from perdure.checking.scopes import Scope


class Module:
    """A source file.

    Attributes:
        program: the program that it is part of.
        name: its dotted name below the program's root.
        path: where it is.
        file: the same as it is shown: relative to the working directory where that is shorter.
        tree: what it was parsed into.
        ignored: its comments that let findings stay, by line.
    """

    def __init__(self, program: Program, name: str, path: Path) -> None:
        self.program = program
        self.name = name
        self.path = path
        self.file = _shown(path)
        self._top: Scope | None = None
        try:
            source = path.read_text("utf-8")
            self.tree = ast.parse(source, str(path))
            self.ignored: dict[int, Ignored] = ignored_in(source)
        except OSError as error:
            raise DefinitionError(f"{self.file} cannot be read: {error.strerror}") from error
        except (SyntaxError, UnicodeDecodeError, ValueError) as error:
            raise DefinitionError(f"{self.file} is no Python source: {error}") from error

    def __repr__(self) -> str:
        return f"<module {self.name}>"

    @property
    def top(self) -> Scope:
        """The scope of its global names."""
        if self._top is None:
            self._top = scope_of(self.tree, self, None)
        return self._top

    def absolute(self, name: str, level: int) -> str:
        """Return the dotted name that ``from ..name import`` means here; ``level`` counts the dots."""
        if level == 0:
            return name
        parts = self.name.split(".")
        drop = level - (self.path.name == "__init__.py")
        return ".".join([*(parts[:-drop] if drop else parts), *([name] if name else [])])


class Program:
    """Source files below one root, read when they are asked for."""

    def __init__(self, root: Path, package: str) -> None:
        self._root = root
        self._package = package
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """Return a module of the same package (or beside a single file) by its dotted name; None if there is none."""
        if name not in self._modules:
            path = self._path(name)
            self._modules[name] = None if path is None else Module(self, name, path)
        return self._modules[name]

    def _path(self, name: str) -> Path | None:
        top, *rest = name.split(".")
        if top == "perdure" or (self._package and top != self._package):
            return None
        base = self._root.joinpath(top, *rest)
        for path in (base / "__init__.py", base.with_name(f"{base.name}.py")):
            if path.is_file():
                return path
        return None


class Sources:
    """What is to be checked, by what users give: names of modules, files, folders or modules themselves."""

    def __init__(self) -> None:
        self._programs: dict[tuple[Path, str], Program] = {}

    def modules(self, target: str | Path | ModuleType) -> Iterator[Module]:
        """Iterate over the modules that a target means; for a package, all that are in it.

        Raises:
            DefinitionError: there is none, or a file cannot be parsed.
        """
        path = _path_of(target)
        if path.is_dir():
            for inner in sorted(path.rglob("*.py")):
                yield self._module(inner)
        elif path.name == "__init__.py":
            yield from self.modules(path.parent)
        else:
            yield self._module(path)

    def _module(self, path: Path) -> Module:
        path = path.resolve()
        root, names = path.parent, [] if path.name == "__init__.py" else [path.stem]
        while (root / "__init__.py").is_file():
            names.insert(0, root.name)
            root = root.parent
        package = names[0] if len(names) > 1 or path.name == "__init__.py" else ""
        program = self._programs.setdefault((root, package), Program(root, package))
        found = program.module(".".join(names))
        # A file with a name that nothing could import, or one of Perdure's own.
        return found if found is not None and found.path == path else Module(program, ".".join(names), path)


def _path_of(target: str | Path | ModuleType) -> Path:
    if isinstance(target, Path):
        found = target
    elif not isinstance(target, str):
        file: str | None = getattr(target, "__file__", None)
        if file is None:
            raise DefinitionError(f"{target!r} has no source file", advice="give a module, a file or a folder")
        found = Path(file)
    elif target.endswith(".py") or "/" in target or Path(target).is_dir():
        found = Path(target)
    else:
        return _find(target)
    if not found.exists():
        raise DefinitionError(f"there is no {found}", advice="give a module's name, a file or a folder")
    return found


def _find(name: str) -> Path:
    """Find a module's file without importing anything, its packages included."""
    below = Path(*name.split("."))
    folders = [Path(entry, below) for entry in (str(Path.cwd()), *sys.path)]
    for folder in folders:
        for path in (folder / "__init__.py", folder.with_name(f"{folder.name}.py")):
            if path.is_file():
                return path
    for folder in folders:
        if folder.is_dir():
            return folder
    raise DefinitionError(
        f"there is no source of a module {name!r} in {Path.cwd()} or on the path",
        advice="give a module's name, a file or a folder",
    )


def _shown(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


__all__ = ["Module", "Program", "Sources"]
