"""Other Pythons of this machine, each with an environment that has what the tests under it need.

``python -m tests.pythons FOLDER`` makes the environments. Where there is no other Python, or what is needed cannot be
installed for it, there is none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MINORS = ("3.11", "3.12", "3.13", "3.14")
MINE = f"{sys.version_info.major}.{sys.version_info.minor}"
OTHERS = tuple(minor for minor in MINORS if minor != MINE)
NEEDED = ("anyio", "apsw", "cronsim", "hypothesis", "pydantic", "pytest", "pytest-timeout", "uvloop")


def interpreters():
    """Paths at which a Python of each other minor version may be: a name on PATH may be a shim that leads nowhere."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for minor in OTHERS:
        if (named := shutil.which(f"python{minor}")) is not None:
            yield named
        yield from map(str, sorted(pyenv.glob(f"versions/{minor}.*/bin/python")))


def minor_of(python, needs=""):
    """The version of the Python at a path, like "3.12"; None if there is none, or it cannot import what it needs."""
    code = f"import sys{needs}; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def ready(minor):
    """A Python of this minor version that has what is needed; None if there is none. ``PERDURE_PYTHONS`` names more."""
    environment = Path(sys.prefix) / "pythons" / minor / "bin" / "python"
    named = [path for path in os.environ.get("PERDURE_PYTHONS", "").split(os.pathsep) if path]
    needs = "".join(f", {name.replace('-', '_')}" for name in NEEDED)
    for python in (str(environment), *named, *interpreters()):
        if minor_of(python, needs) == minor:
            return python
    return None


def make(folder):
    """Make an environment for each other minor version that is found, side by side."""
    found = {}
    for python in interpreters():
        if (minor := minor_of(python)) in OTHERS:
            found.setdefault(minor, python)
    installing = {}
    for minor, python in found.items():
        place = folder / minor
        shutil.rmtree(place, ignore_errors=True)
        # Without pip of its own, which would take longer than all the rest: ours installs into it.
        if subprocess.run([python, "-m", "venv", "--without-pip", place], check=False).returncode == 0:
            print(f"installing what tests under Python {minor} need")  # noqa: T201 - `make` shows it
            pip = [sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install"]
            options = ["-q", "--no-compile", "--disable-pip-version-check", "-c", ROOT / "constraints.txt"]
            installing[place] = subprocess.Popen([*pip, *options, *NEEDED])
    for place, process in installing.items():
        if process.wait() != 0:
            print(f"there will be no tests under Python {place.name}")  # noqa: T201 - `make` shows it
            shutil.rmtree(place)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
