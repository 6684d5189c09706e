from __future__ import annotations

import asyncio
import concurrent.futures
import json
import queue
import sys
import threading
import time
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import (
    DriftError,
    NotSerializable,
    PerdureError,
    RetryAfter,
    RunGone,
    StepFailed,
    StepInterrupted,
    StepTimeout,
    Undecodable,
)
from perdure.model.equality import same
from perdure.model.failures import TEXT_LIMIT, decode_failure, encode_failure, failure_text
from tests.model.values import Order, values


class Rejected(Exception):
    pass


class Coded(Exception):
    """Its constructor takes other arguments than it hands on."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code = code


class Keyed(Exception):
    def __init__(self, *, order: str) -> None:
        super().__init__(order)
        self.order = order


class Slotted(Exception):
    __slots__ = ("place",)


class Holding(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Irreducible(Exception):
    def __reduce__(self):
        raise RuntimeError("no reduce")


class Exiting(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Explosive(Exception):
    armed = False

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        if Explosive.armed:
            raise SystemExit(1)


class Custom(BaseException):
    pass


class Batch(ExceptionGroup):
    def derive(self, excs):
        return Batch(self.message, excs)


def slotted() -> Slotted:
    error = Slotted("x")
    error.place = (1, 2)
    return error


def noted() -> ValueError:
    error = ValueError("x")
    error.add_note("first")
    error.add_note("second\nline")
    error.extra = {1: {2}}
    return error


def import_error() -> BaseException:
    try:
        import nowhere_at_all  # noqa: F401
    except ImportError as error:
        return error


def file_error() -> BaseException:
    try:
        open("/nowhere/at all").close()  # noqa: PTH123
    except OSError as error:
        return error


def unicode_error() -> BaseException:
    try:
        b"\xff".decode()
    except UnicodeDecodeError as error:
        return error


BATCH = Batch("b", [ValueError()])
REBUILT = [
    ValueError("x"),
    ValueError(),
    Rejected("42", 1, (2,)),
    Coded(404, "gone"),
    Keyed(order="42"),
    slotted(),
    noted(),
    KeyError("k"),
    file_error(),
    unicode_error(),
    import_error(),
    OSError(2, "no"),
    TimeoutError(),
    concurrent.futures.TimeoutError(),
    queue.Empty(),
    Irreducible("x"),
    ValueError("\ud800", "a\x00b", "\\u0000", "🎉"),
    Rejected(Order(id="1", amount=2)),
    Rejected(10**400),
    RetryAfter(2.5, "slow down"),
    StepTimeout("late", step="charge", timeout=3.0),
    StepInterrupted("x", step="s", advice="look"),
    DriftError("d", run_id="r", key="k", recorded=b"1", found=b"2"),
    StepFailed("x", type="t", text="u", traceback="v"),
    PerdureError(),
    ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [KeyError("k"), Coded(1, "x")])]),
    BATCH,
    AssertionError(),
    ZeroDivisionError("division by zero"),
    SyntaxError("bad", ("f.py", 1, 2, "text", 1, 3)),
]


@pytest.mark.parametrize("error", REBUILT, ids=[f"{i}-{type(error).__name__}" for i, error in enumerate(REBUILT)])
def test_an_exception_comes_back_as_itself(error):
    data = encode_failure(error)
    back = decode_failure(data)
    assert type(back) is type(error)
    if not isinstance(error, ExceptionGroup):
        assert same(back.args, error.args)
    assert str(back) == str(error)
    assert back.__dict__.keys() == error.__dict__.keys()
    assert all(same(back.__dict__[name], item) for name, item in error.__dict__.items())
    assert getattr(back, "__notes__", []) == getattr(error, "__notes__", [])
    assert encode_failure(decode_failure(encode_failure(back))) == encode_failure(back)
    json.loads(data)


def test_what_c_code_keeps_beside_the_args_comes_back():
    assert decode_failure(encode_failure(file_error())).filename == "/nowhere/at all"
    assert decode_failure(encode_failure(import_error())).name == "nowhere_at_all"
    assert decode_failure(encode_failure(slotted())).place == (1, 2)
    assert decode_failure(encode_failure(RetryAfter(2.5))).delay == 2.5


def test_a_group_comes_back_with_its_members():
    back = decode_failure(encode_failure(BATCH))
    assert isinstance(back, Batch)
    group = decode_failure(encode_failure(ExceptionGroup("g", [ValueError(1), KeyError("k")])))
    assert [(type(member), member.args) for member in group.exceptions] == [(ValueError, (1,)), (KeyError, ("k",))]


def cyclic() -> Exception:
    one, other = ValueError("one"), KeyError("other")
    one.__cause__, other.__cause__ = other, one
    one.__context__ = one
    return one


class Local(Exception):
    pass


def local() -> Exception:
    class Local(Exception):
        pass

    return Local("x")


STOOD_IN = [
    (Exception(threading.Lock()), "Exception", "lock"),
    (Holding("held"), "Holding", "held"),
    (Mute("x"), "Mute", "RuntimeError"),
    (Exiting("x"), "Exiting", "SystemExit"),
    (local(), "Local", "x"),
    (Exception("x" * 50_000_000), "Exception", "characters cut"),
    (SystemExit(0), "SystemExit", "0"),
    (SystemExit("x"), "SystemExit", "x"),
    (KeyboardInterrupt(), "KeyboardInterrupt", ""),
    (GeneratorExit(), "GeneratorExit", ""),
    (asyncio.CancelledError(), "CancelledError", ""),
    (StopIteration(5), "StopIteration", "5"),
    (StopAsyncIteration(), "StopAsyncIteration", ""),
    (Custom("x"), "Custom", "x"),
    (BaseException("x"), "BaseException", "x"),
    (RunGone(), "RunGone", ""),
    (BaseExceptionGroup("g", [SystemExit(1)]), "BaseExceptionGroup", "g"),
    (ExceptionGroup("g", [ValueError(), local()]), "ExceptionGroup", "g"),
    (Rejected(lambda: 0), "Rejected", "lambda"),
    (Rejected(10**5000), "Rejected", "ValueError"),
]


@pytest.mark.parametrize(
    ("error", "name", "text"), STOOD_IN, ids=[f"{i}-{name}" for i, (_, name, _) in enumerate(STOOD_IN)]
)
def test_what_cannot_be_rebuilt_is_told_by_a_step_failed(error, name, text):
    error.add_note("a note")
    started = time.perf_counter()
    data = encode_failure(error)
    back = decode_failure(data)
    assert time.perf_counter() - started < 2
    assert type(back) is StepFailed
    assert back.type.endswith(name)
    assert text in back.text
    assert isinstance(back.traceback, str)
    assert back.__notes__[0] == "a note"
    assert len(data) < 3 * TEXT_LIMIT
    assert name in failure_text(data)
    assert "\n" not in failure_text(data)
    # And it is what handlers see on every replay, also after having been raised on.
    again = decode_failure(encode_failure(back))
    assert (type(again), again.args, again.fields) == (type(back), back.args, back.fields)


def test_the_chain_is_kept_and_cycles_end():
    back = decode_failure(encode_failure(cyclic()))
    assert (type(back), type(back.__cause__), back.__cause__.__cause__) == (ValueError, KeyError, None)
    try:
        try:
            raise KeyError("k")  # noqa: TRY301 - to be caught
        except KeyError as error:
            raise Rejected("r") from error
    except Rejected as error:
        data = encode_failure(error)
    back = decode_failure(data)
    assert isinstance(back.__cause__, KeyError)
    assert back.__suppress_context__
    assert failure_text(data) == "Rejected: r (caused by KeyError: 'k')"


def test_a_context_that_was_suppressed_stays_so():
    try:
        try:
            raise KeyError("k")  # noqa: TRY301 - to be caught
        except KeyError:
            raise Rejected("r") from None
    except Rejected as error:
        back = decode_failure(encode_failure(error))
    assert back.__suppress_context__
    assert back.__cause__ is None


def test_long_chains_and_wide_groups_are_bounded():
    error: Exception = ValueError("x" * 10**6)
    for _ in range(500):
        deeper = ValueError("x" * 10**5)
        deeper.__cause__ = error
        error = deeper
    assert len(encode_failure(error)) < 10 * TEXT_LIMIT
    wide = ExceptionGroup("g", [ExceptionGroup("h", [ValueError(i) for i in range(50)]) for _ in range(50)])
    data = encode_failure(wide)
    assert len(data) < 10 * TEXT_LIMIT
    assert type(decode_failure(data)) is StepFailed


def test_the_traceback_names_the_line_and_is_bounded():
    def deep(n: int) -> None:
        if n == 0:
            raise Holding("deep")
        deep(n - 1)

    try:
        deep(300)
    except Holding as error:
        back = decode_failure(encode_failure(error))
    assert 'raise Holding("deep")' in back.traceback
    assert len(back.traceback) <= TEXT_LIMIT + 100


def test_a_class_that_is_gone_or_changed_is_told_by_a_step_failed():
    module = types.ModuleType("tests_model_fleeting")
    exec("class Fleeting(Exception): pass", module.__dict__)  # noqa: S102 - a module made for this
    sys.modules[module.__name__] = module
    try:
        data = encode_failure(module.Fleeting("x"))
        assert type(decode_failure(data)) is module.Fleeting
    finally:
        del sys.modules[module.__name__]
    assert type(decode_failure(data)) is StepFailed
    assert decode_failure(data).text == "x"
    assert module.__name__ not in sys.modules


def test_a_constructor_that_turns_nasty_later_is_told_by_a_step_failed():
    data = encode_failure(Explosive("x"))
    assert type(decode_failure(data)) is Explosive
    Explosive.armed = True
    try:
        assert type(decode_failure(data)) is StepFailed
        assert type(decode_failure(encode_failure(Explosive.__new__(Explosive, "y")))) is Explosive
    finally:
        Explosive.armed = False


def test_notes_of_any_kind_do_no_harm():
    error = ValueError("x")
    error.__notes__ = "not a list"
    assert type(decode_failure(encode_failure(error))) is ValueError
    error.__notes__ = [1, "two", None]
    assert decode_failure(encode_failure(error)).__notes__ == ["two"]


@given(st.sampled_from([ValueError, Rejected, Slotted, OSError, KeyError]), st.lists(values, max_size=2), values)
def test_any_exception_comes_back_equal_or_as_step_failed(kind, args, extra):
    error = kind(*args)
    if kind is not Slotted:
        error.extra = extra
    back = decode_failure(encode_failure(error))
    assert type(back) is StepFailed or (type(back) is kind and same(back.args, error.args))
    assert type(decode_failure(encode_failure(back))) is type(back)


@given(st.sampled_from(REBUILT[:8]), st.integers(0, 10**6), st.integers(0, 255))
def test_damaged_bytes_are_a_failure_or_undecodable_and_nothing_else(error, position, byte):
    data = bytearray(encode_failure(error))
    data[position % len(data)] = byte
    for read in (decode_failure, failure_text):
        try:
            read(bytes(data))
        except Undecodable:
            continue


@pytest.mark.parametrize("data", [b"", b"null", b"{}", b'{"type":1,"text":"","traceback":""}', b"[]", b"\xff"])
def test_what_is_no_failure_is_undecodable(data):
    for read in (decode_failure, failure_text):
        with pytest.raises(Undecodable):
            read(data)


def test_a_refused_result_names_its_step_type_and_path_after_the_store_too():
    back = decode_failure(
        encode_failure(NotSerializable("$.x: function", path="$.x", type="function", advice="return data"))
    )
    assert (type(back), back.path, back.type, back.advice) == (NotSerializable, "$.x", "function", "return data")
    assert back.__notes__ == ["return data"]
