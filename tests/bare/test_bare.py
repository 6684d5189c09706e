"""With the wheel and nothing else: it works, and whatever needs more says what."""

from __future__ import annotations

import subprocess

import pytest

from tests.bare.built import WARNINGS


@pytest.fixture
def bare(built, tmp_path):
    """Execute Python, or with ``-m perdure`` the command line, where only the wheel is installed."""

    def execute(*words):
        command = [built.python, *WARNINGS, *words]
        done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=50)
        assert "Traceback" not in done.stderr or "-c" in words, done.stderr
        return done

    return execute


def test_the_demonstration_is_carried_through(built, bare):
    told = bare(built.python.parent / "perdure", "demo")
    assert (told.returncode, told.stderr) == (0, "")
    assert "✓  fast-a was not scored again" in told.stdout


def test_the_package_is_a_command_and_loads_no_more_than_it_needs(bare):
    assert bare("-m", "perdure", "--version").stdout.startswith("perdure ")
    loaded = "import perdure, sys; print({'click', 'rich', 'psycopg', 'starlette'} & set(sys.modules))"
    assert bare("-c", loaded).stdout == "set()\n"


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("-m", "perdure", "ui"), "web"),
        (("-m", "perdure", "runs", "--store", "postgresql://localhost/app"), "postgres"),
        (("-c", "from perdure.codecs import Zstandard; Zstandard()"), "codecs"),
        (("-m", "perdure", "worker", "perdure.demo.review", "--metrics", "0"), "prometheus"),
        (("-c", "import perdure.contrib.starlette"), "starlette"),
        (("-c", "import perdure.contrib.pydantic_ai"), "pydantic-ai"),
        (("-c", "import perdure.contrib.django"), "django"),
        (("-c", "import perdure.web"), "web"),
    ],
)
def test_what_is_not_installed_is_named_with_the_command_that_installs_it(bare, words, extra):
    told = bare(*words)
    assert told.returncode != 0
    assert f"pip install 'perdure[{extra}]'" in told.stderr
