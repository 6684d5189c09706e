"""The tree as the house tests see it: files of the repository, modules of the package, names they import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "perdure"
OURS = {"perdure", "tests", "benchmarks", "examples"}
STDLIB = sys.stdlib_module_names | {"annotationlib"}  # what a later Python has may be imported under its version
IMPORTS = re.compile(
    r"(?:^|[;:])[ \t]*import[ \t\\]+([^\n;#]+)|\bfrom[ \t\\\n]+([\w.]+)[ \t\\\n]+import\b", flags=re.MULTILINE
)
"""What looks like an import: each is one, but for some in texts."""
PART_OF = {"openai": "agents", "pydantic_core": "pydantic"}  # pinned by its owner, or what its types are


@cache
def project() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@cache
def files() -> tuple[Path, ...]:
    """Every file that git tracks or would track, so that a new file is judged before it is committed."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],  # noqa: S607 - git is wherever it is
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    return tuple(path for name in sorted(listed) if name and (path := ROOT / name).is_file())


@cache
def modules() -> tuple[Path, ...]:
    """Every Python file of the package."""
    return tuple(path for path in files() if path.suffix == ".py" and path.is_relative_to(PACKAGE))


@cache
def python_files() -> tuple[Path, ...]:
    """Every Python file of the repository."""
    return tuple(path for path in files() if path.suffix == ".py")


@cache
def text(path: Path) -> str:
    """What is in the file."""
    return path.read_text(encoding="utf-8")


@lru_cache(maxsize=16)
def parsed(path: Path) -> ast.Module:
    """The file's syntax tree. To parse them all takes seconds, in each process: look first whether it can matter."""
    return ast.parse(text(path), filename=str(path))


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """Each module the file imports, wherever the import stands, with its line."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module, node.lineno
            for name in node.names:
                yield f"{node.module}.{name.name}", node.lineno


def third_party(paths: tuple[Path, ...]) -> dict[str, str]:
    """Top-level packages that these files import and that are neither Python's nor ours, with one place each."""
    found: dict[str, str] = {}
    known = OURS | STDLIB
    for path in paths:
        if looks_imported(path) <= known:
            continue  # there is nothing new in it
        for name, line in imported(path):
            top = name.partition(".")[0]
            if top not in known:
                known.add(top)
                found.setdefault(PART_OF.get(top, top), where(path, line))
    return found


def looks_imported(path: Path) -> set[str]:
    """Top-level packages that the file imports, and perhaps others, which a text in it names."""
    names = (name for plain, origin in IMPORTS.findall(text(path)) for name in (plain or origin).split(","))
    return {name.strip().partition(" ")[0].partition(".")[0] for name in names}


def where(path: Path, line: int | None = None) -> str:
    """A place as editors understand it."""
    name = str(path.relative_to(ROOT))
    return name if line is None else f"{name}:{line}"
