"""A build is told from another by the code of its workflows and all that this reaches, and by nothing else."""

from __future__ import annotations

import subprocess
import sys
from functools import reduce
from types import CodeType
from typing import TYPE_CHECKING

import pytest

from perdure.model.builds import build_of_all, codes_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROGRAM = """
from __future__ import annotations
import enum
import models
from dataclasses import dataclass
from pydantic import BaseModel
from perdure import step, workflow
from models import helper

RATE = 3
KINDS = frozenset({"a", "b", "c"})
STARTED = object()

class Colour(enum.Enum):
    RED = "red"

class Line(BaseModel):
    size: int = 1

class Order(BaseModel):
    lines: list[Line]

    def total(self) -> int:
        return sum(line.size for line in self.lines)

@dataclass
class Receipt:
    total: int

def rounded(n: int) -> int:
    return n // RATE

@step(upcast=lambda old: old_charge(old))
async def charge(order: Order) -> Receipt:
    return Receipt(rounded(order.total()) + models.second(1))

def unused() -> int:
    return 1

def old_charge(old: int) -> Receipt:
    return Receipt(old)

def old_order(old: list[int]) -> Order:
    return Order(lines=[Line(size=one) for one in old])

@workflow(upcast=old_order)
async def fulfil(order: Order) -> Receipt:
    '''Sell.'''
    if Colour.RED in KINDS or STARTED is None:
        helper()
    return await charge(order)

@workflow
async def again(order: Order) -> Receipt:
    return await fulfil(order)

print(fulfil.build, again.build)
"""
MODELS = """
def helper() -> int:
    return 1

def second(n: int) -> int:
    return n + 2
"""

Change = tuple[str, str]


@pytest.fixture
def built(tmp_path: Path) -> Callable[..., list[str]]:
    """The builds of a program's two workflows, found in a process of its own."""

    def build(*changes: Change, seed: str = "0") -> list[str]:
        for name, text in (("program", PROGRAM), ("models", MODELS)):
            changed = reduce(lambda code, change: code.replace(*change), changes, text)
            (tmp_path / f"{name}.py").write_text(changed)
        done = subprocess.run(
            [sys.executable, "-B", "program.py"],
            cwd=tmp_path,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.split()

    return build


def test_it_is_the_same_in_every_process_and_for_what_changes_nothing(built: Callable[..., list[str]]) -> None:
    fulfil, again = built(seed="1")
    assert fulfil != again
    assert built(seed="2") == [fulfil, again]
    assert built(("Sell", "Sell it"), ("RATE = 3", "# a comment\n\nRATE = 3")) == [fulfil, again]
    assert built(("def unused() -> int:\n    return 1", "def unused() -> int:\n    return 2")) == [fulfil, again]


@pytest.mark.parametrize(
    "change",
    [
        ("RATE = 3", "RATE = 4"),
        ('"a", "b"', '"a", "z"'),
        ("n // RATE", "n * RATE"),
        ("size: int = 1", "size: int = 2"),
        ("size: int = 1", "size: int"),
        ("size: int = 1", "size: str = 1"),
        ("sum(line.size", "max(line.size"),
        ("total: int", "total: float"),
        ("lines: list[Line]", "lines: tuple[Line, ...]"),
        ("def helper() -> int:\n    return 1", "def helper() -> int:\n    return 2"),
        ("return n + 2", "return n + 3"),
        ("if Colour.RED", "if not Colour.RED"),
        ("return Receipt(old)", "return Receipt(old + 1)"),
    ],
)
def test_what_a_workflow_reaches_changes_it(built: Callable[..., list[str]], change: Change) -> None:
    before, after = built(), built(change)
    assert before[0] != after[0]
    assert before[1] != after[1], "the other workflow reaches it through the first"


def test_what_makes_old_inputs_fit_is_part_of_the_workflow_that_takes_them(built: Callable[..., list[str]]) -> None:
    before, after = built(), built(("Line(size=one)", "Line(size=-one)"))
    assert before[0] != after[0]
    assert built(("(upcast=old_order)", ""))[0] not in {before[0], after[0]}


def reached() -> str:
    return "".join(sorted(one for one in "ba"))


def not_reached() -> str:
    return "c"


def test_the_code_that_a_build_is_made_of_is_known() -> None:
    def root() -> str:
        return reached()

    codes = codes_of(root)
    inner = next(one for one in reached.__code__.co_consts if isinstance(one, CodeType))
    assert {root.__code__, reached.__code__, inner} <= codes
    assert not_reached.__code__ not in codes
    assert not_reached.__code__ in codes_of(root, not_reached)


def test_an_engine_has_one_build_for_all_its_workflows() -> None:
    one, two = ("a", "1", "x"), ("b", "1", "y")
    assert build_of_all([one, two]) == build_of_all([two, one])
    others = [[], [one], [two], [one, two], [("a", "1", "y"), ("b", "1", "x")]]
    assert len({build_of_all(some) for some in others}) == len(others)
