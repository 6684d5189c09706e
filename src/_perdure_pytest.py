"""Perdure's plugin for pytest. It is a module of its own, so that pytest loads Perdure only for tests that use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path
    from typing import Unpack

    from perdure.testing import EnvFactory, EnvOptions, Opening

HISTORIES = "histories"
"""The folder, beside a test's file, that has its histories, unless a marker says otherwise."""

_opened = pytest.StashKey["list[Opening]"]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        f"perdure_histories(folder): where perdure_history looks, from the test's file; by default {HISTORIES!r}",
    )


@pytest.fixture
def perdure_env(request: pytest.FixtureRequest) -> EnvFactory:
    """``perdure.testing.env``; what its runs did is reported with a test that fails in its block.

    For every kind of test: ``async with perdure_env(workflows=[…]) as env:``, without ``async`` a plain ``with``.
    """
    from perdure.testing import env

    opened = request.node.stash.setdefault(_opened, [])

    def perdure_env(**options: Unpack[EnvOptions]) -> Opening:
        opening = env(**options)
        opened.append(opening)
        return opening

    return perdure_env


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have a test that asks for ``perdure_history`` once for each history of its folder."""
    if "perdure_history" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("perdure_histories")
    folder = metafunc.definition.path.parent / (marker.args[0] if marker is not None else HISTORIES)
    found = sorted(folder.glob("*.json"))
    if not found:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid} asks for perdure_history, and there are no histories in {folder}: "
            "write some with `perdure export RUN > FILE.json`, or name the folder with "
            "@pytest.mark.perdure_histories(…)"
        )
    metafunc.parametrize("perdure_history", found, ids=[path.stem for path in found])


@pytest.fixture
def perdure_history(request: pytest.FixtureRequest) -> Path:
    """One history after the other, as a path to give to ``perdure.testing.replay_history``."""
    path: Path = request.param
    return path


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failed test's report what its runs did."""
    report = yield
    if report.failed:
        for opening in item.stash.get(_opened, []):
            if opening.env.log:
                report.sections.append(("runs of perdure_env", opening.env.log))
        item.stash[_opened] = []
    return report
