"""Types and strategies shared by the tests of the model's value side."""

from __future__ import annotations

import enum
import uuid
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar
from zoneinfo import ZoneInfo

from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel
from pydantic.dataclasses import dataclass as checked_dataclass

T = TypeVar("T")
BERLIN = ZoneInfo("Europe/Berlin")


class Colour(enum.Enum):
    RED = "red"
    BLUE = object()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"


class OldWord(str, enum.Enum):  # noqa: UP042 - this spelling is common, and another class
    NO = "no"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - the untyped spelling is the point


class Point(NamedTuple):
    x: int
    y: float = 0.5


class Row(TypedDict):
    id: int
    tags: list[str]


@dataclass
class Plain:
    name: str
    when: datetime | None = None
    extra: Any = None


@dataclass(frozen=True, slots=True)
class Frozen:
    key: int
    values: tuple[int, ...] = ()


@dataclass
class Box(Generic[T]):
    content: T


@dataclass
class Late:
    given: int
    made: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.made = [self.given]


@checked_dataclass
class Checked:
    amount: int


class Order(BaseModel):
    id: str
    amount: int
    at: datetime | None = None


class Rush(Order):
    hours: int = 1


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    value: Any = None
    _secret: int = PrivateAttr(default=0)


class Camel(BaseModel):
    order_id: int = Field(alias="orderId")
    price: int = Field(validation_alias="p", serialization_alias="q")


class Crate(BaseModel, Generic[T]):
    content: T


class Names(RootModel[list[str]]):
    pass


class TextKey(str):
    __slots__ = ()


SOLO = [
    None,
    True,
    False,
    0,
    -1,
    2**63,
    -(2**64),
    10**400,
    10**5000,
    -(10**5000),
    0.1,
    1e300,
    -0.0,
    float("inf"),
    float("-inf"),
    float("nan"),
    "",
    "a\x00b",
    "\ud800",
    "\ud83d\ude00",
    "\\u0000",
    "🎉",
    "שלום",
    '{"~tuple":[1]}',
    b"",
    b"\x00\xff",
    bytearray(b"x"),
    1 + 2j,
    complex(float("nan"), -0.0),
    Decimal("1.10"),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("-0"),
    Fraction(1, 3),
    uuid.UUID(int=7),
    Path("a/b"),
    PurePosixPath("/x"),
    PureWindowsPath("c:\\x"),
    range(1, 9, 2),
    date(2026, 2, 28),
    time(1, 2, 3, 4),
    time(1, tzinfo=UTC, fold=1),
    timedelta.max,
    timedelta(-1, 5, 7),
    datetime(2026, 1, 1, 2, 3, 4, 5),  # noqa: DTZ001 - naive ones are values too
    datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
    datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=0),
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=45), "NPT")),
]

COMPOSED = [
    [],
    {},
    (),
    [1, [2, ()]],
    (1, 2),
    {1: "a"},
    {(1, 2): 3},
    {"~tuple": [1]},
    {"~x": 1, "y": 2},
    {"~dict": []},
    {None: 1, True: 2},
    {TextKey: 1}.keys() and {"k": {2: (3,)}},
    {1, 2.5, "x", None},
    frozenset({(1, 2), frozenset()}),
    {float("nan")},
    OrderedDict([("b", 1), ("a", 2)]),
    defaultdict(list, {1: [2]}),
    defaultdict(None, a=1),
    Counter("hello"),
    Counter({"a": -1, "b": 0}),
    deque([1, 2], maxlen=3),
    deque(),
    Colour.RED,
    Colour.BLUE,
    Level.HIGH,
    Word.YES,
    OldWord.NO,
    Right.READ | Right.WRITE,
    Right(0),
    [Level.LOW, 1],
    Pair(1, [2]),
    Point(1),
    Row(id=1, tags=["a"]),
    Plain("a"),
    Plain("b", datetime(2026, 1, 1, tzinfo=BERLIN), extra={1: {2}}),
    Frozen(1, (2, 3)),
    {Frozen(1): Frozen(2)},
    Box(1),
    Box[int]((1,)),
    Late(3),
    Checked(4),
    Order(id="42", amount=7),
    Order(id="1", amount=1, at=datetime(2026, 1, 1, tzinfo=UTC)),
    Rush(id="1", amount=1, hours=3),
    Loose(value=(1, 2)),
    Loose(value=Word.YES, more={3}),
    Camel(orderId=1, p=2),
    Crate[int](content=5),
    Crate(content=(1,)),
    Names(["x"]),
    [Order(id="1", amount=1), Plain("x")],
]


def with_secret() -> Loose:
    value = Loose(value=1)
    value._secret = 7
    return value


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=12),
    st.binary(max_size=12),
    st.decimals(allow_nan=False),
    st.fractions(),
    st.complex_numbers(),
    st.uuids(),
    st.dates(),
    st.timedeltas(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.timezones()),
    st.sampled_from([*Level, *Word, *Colour, Right.READ]),
    st.builds(timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23))).map(
        lambda zone: datetime(2026, 1, 1, tzinfo=zone)
    ),
)

hashables = st.recursive(
    scalars,
    lambda inner: st.one_of(st.tuples(inner, inner), st.frozensets(inner, max_size=3), st.builds(Frozen, inner)),
    max_leaves=4,
)

values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(hashables, inner, max_size=3),
        st.dictionaries(st.text("~ab", max_size=3), inner, max_size=2),
        st.sets(hashables, max_size=3),
        st.builds(deque, st.lists(inner, max_size=3), st.none() | st.integers(3, 5)),
        st.builds(Pair, inner, inner),
        st.builds(Plain, st.text(max_size=3), st.none(), inner),
        st.builds(Loose, value=inner),
        st.dictionaries(hashables, inner, max_size=3).map(OrderedDict),
    ),
    max_leaves=12,
)


def numbered(table: list[Any]) -> list[str]:
    """Ids for a table of values; some of them have no repr."""
    return [f"{i}-{type(value).__name__}" for i, value in enumerate(table)]
