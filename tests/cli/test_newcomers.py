"""What somebody meets who has not done this before: one sentence that says what is wrong, and what to write instead."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from perdure.cli.main import cli

pytestmark = pytest.mark.only("sqlite")  # what they are about is not the store

FILES = {
    "novice.py": """
from perdure import step, workflow

@step
async def pay(n: int) -> str:
    return f"paid {n}"

@workflow
async def order(n: int) -> str:
    return await pay(n)

def plain(n: int) -> int:
    return n
""",
    "novice_pair.py": "from novice import order\nfrom perdure import workflow\n\n@workflow\ndef a() -> None: ...\n\n"
    "@workflow\ndef b() -> None: ...\n",
    "novice_empty.py": "",
    "novice_broken.py": "def oops(:\n",
    "novice_raising.py": "\nraise ValueError('no DATABASE_URL')\n",
    "novice_needy.py": "import nowhere_at_all\n",
}
RUN = ("run", "novice:order", "--input", "1")


@pytest.fixture
def perdure(tmp_path, monkeypatch):
    """Execute a command line in a folder that has these files."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield lambda *args: CliRunner().invoke(cli, args, prog_name="perdure", catch_exceptions=False)
    for name in [name for name in sys.modules if name.startswith("novice")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("rum", "novice"), 2, "there is no command 'rum': is run meant?"),
        (("run", "novice.py"), 2, "not by its file: write novice"),
        (("worker", "./shop/novice.py:order"), 2, "not by its file: write shop.novice"),
        (("run", "novice.order"), 2, "write novice:order"),
        (("run", "novise:order"), 2, "is novice meant?"),
        (("run", "novice:plain"), 2, "a plain function: write @workflow above it"),
        (("worker", "novice:pay"), 2, "a step, which a workflow calls"),
        (("run", "novice_pair"), 2, "it has order, a, b: write novice_pair:a"),
        (("run", "novice_empty"), 2, "there are no workflows in novice_empty: they are made with @workflow"),
        (("worker", "novice_empty"), 2, "there are no workflows in novice_empty: they are made with @workflow"),
        (("run", "novice_broken"), 2, "SyntaxError: invalid syntax (novice_broken.py, line 1)"),
        (("worker", "novice_raising"), 2, "novice_raising.py:2)"),
        (("worker", "novice_needy"), 2, "needs 'nowhere_at_all', which is not installed"),
        (("run", "novice:order", "--input", '"x"'), 2, "does not fit int: Input should be a valid integer"),
        ((*RUN, "--store", "postgresql:/host/name"), 3, "write sqlite:///relative.db"),
        ((*RUN, "--store", "sqlite:runs.db"), 3, "write sqlite:///relative.db"),
        (("ui", "--allow-host", "ops.example.com"), 2, "PERDURE_UI_TOKEN"),
    ],
)
def test_a_mistake_is_told_in_a_sentence_with_what_to_write_instead(perdure, tmp_path, args, code, said):
    told = perdure(*args)
    assert told.exit_code == code, told.stderr
    assert said in told.stderr
    assert told.stderr.count("\n") == 2
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == set(FILES)
