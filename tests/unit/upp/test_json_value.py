"""JSON values and their bytes."""

from __future__ import annotations

import math
import uuid
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from perdure.upp.json_value import MAX_DEPTH, JSONValue, dumps, encode_base64, jsonable, loads, sha256_hex, well_formed
from tests.unit.upp import strategies as upp


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Pair(Enum):
    BOTH = (1, "two")


@dataclass
class Row:
    when: datetime
    blob: bytes
    made_later: int = field(init=False, default=7)


class Person(BaseModel):
    name: str
    scores: dict[int, str] = {7: "x"}
    secret: SecretStr = SecretStr("s")
    anything: Any = None


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@given(upp.json_values(20))
def test_bytes_are_read_back_as_the_same_value(value: JSONValue) -> None:
    """Every JSON value survives its bytes, NUL and lone surrogates too."""
    assert loads(dumps(value)) == value


@given(upp.json_values(20))
def test_equal_values_have_equal_bytes(value: JSONValue) -> None:
    """What was read is written as the same bytes, so hashes hold."""
    data = dumps(value)
    assert dumps(loads(data)) == data


def test_bytes_are_compact_and_not_escaped() -> None:
    """No spaces, and characters stand as UTF-8."""
    assert dumps({"a": [1, "é"], "b": None}) == '{"a":[1,"é"],"b":null}'.encode()


def test_a_split_pair_stays_split() -> None:
    """Two surrogates that make a pair are not joined by storage."""
    assert loads(dumps("\ud83c\udf78")) == "\ud83c\udf78"


@pytest.mark.parametrize("value", [{1: "x"}, {"a": [{None: 1}]}, (1, 2), {"a": (1,)}, [{"a": b"x"}], {1, 2}])
def test_dumps_refuses_what_it_would_change(value: Any) -> None:
    """Integer keys and tuples are refused, not turned into strings and lists."""
    with pytest.raises(TypeError):
        dumps(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [1, {"a": math.nan}]])
def test_dumps_refuses_numbers_that_json_has_not(value: Any) -> None:
    """NaN and infinities are refused."""
    with pytest.raises(ValueError, match="JSON"):
        dumps(value)


def test_dumps_refuses_a_value_that_contains_itself() -> None:
    """A loop is an error, not a crash."""
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        dumps(loop)


@pytest.mark.parametrize("text", [b"NaN", b"Infinity", b"[-Infinity]", b"1e999", b"[" * 100_000, b"{", b"\xff", b""])
def test_loads_refuses_what_is_not_json(text: bytes) -> None:
    """Python's extensions, numbers beyond floats and bottomless nesting are refused as ValueError."""
    with pytest.raises(ValueError, match=r".+"):
        loads(text)


def test_sha256_is_lower_case_hex() -> None:
    """The hash of nothing is the well-known one."""
    assert sha256_hex(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_base64_is_the_standard_alphabet() -> None:
    """UPP's base64 has + and /, and padding."""
    assert encode_base64(b"\xfb\xff") == "+/8="


@given(upp.json_values(20))
def test_json_stands_for_itself(value: JSONValue) -> None:
    """Jsonable changes nothing that is JSON already."""
    assert jsonable(value) == value


@given(upp.json_values(20))
def test_what_is_made_json_can_be_written(value: JSONValue) -> None:
    """Whatever jsonable returns, dumps takes, also wrapped in what it converts."""
    made = jsonable({"wrapped": (value, {value} if isinstance(value, str) else b"")})
    assert loads(dumps(made)) == made


def test_made_json_shares_nothing_with_the_value() -> None:
    """A tool that goes on changing its list does not change the stored result."""
    inner: list[JSONValue] = [1]
    made = jsonable({"a": inner})
    inner.append(2)
    assert made == {"a": [1]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, "a"), [1, "a"]),
        (b"\xfb\xff", "+/8="),
        (bytearray(b"a"), "YQ=="),
        (memoryview(b"a"), "YQ=="),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        (frozenset({3, 1}), [1, 3]),
        (defaultdict(int, a=1), {"a": 1}),
        (OrderedDict([("b", 1), ("a", 2)]), {"b": 1, "a": 2}),
        ({Colour.RED: Level.HIGH}, {"red": 3}),
        (Pair.BOTH, [1, "two"]),
        (datetime(2026, 1, 6, 17, 27, tzinfo=UTC), "2026-01-06T17:27:00Z"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.50"), "1.50"),
        (Path("/tmp/x"), "/tmp/x"),
        (
            Person(name="a", scores={1: "x"}),
            {"name": "a", "scores": {"1": "x"}, "secret": "**********", "anything": None},
        ),
        (
            Row(datetime(2026, 1, 6, tzinfo=UTC), b"a"),
            {"when": "2026-01-06T00:00:00Z", "blob": "YQ==", "made_later": 7},
        ),
        ([Person(name="\ud83c")], [{"name": "\ud83c", "scores": {"7": "x"}, "secret": "**********", "anything": None}]),
    ],
)
def test_values_of_the_library_have_a_json_form(value: object, expected: JSONValue) -> None:
    """What tools usually return becomes the JSON that one expects."""
    assert jsonable(value) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [{1: "x"}]}, r"^\$\.a\[0\]: key 1 is of type int"),
        ([0, math.nan], r"^\$\[1\]: float nan"),
        ({"x": math.inf}, r"^\$\.x: float inf"),
        (object(), r"^\$: a value of type builtins\.object"),
        ({"f": [print]}, r"^\$\.f\[0\]: .*builtin_function_or_method"),
        (iter([1]), r"list_iterator"),
        ((item for item in [1]), r"generator"),
        ([10**5000], r"^\$\[0\]: .*bits is too large"),
        (Row(datetime(2026, 1, 6, tzinfo=UTC), object()), r"^\$\.blob: .*object"),  # pyright: ignore[reportArgumentType]
        (Person(name="a", anything=object()), r"Person has no JSON form"),
        (Person(name="a", anything=math.nan), r"^\$\.anything: float nan"),
        (Person(name="a", anything=[{"x": iter([1])}]), r"^\$\.anything\[0\]\.x: .*list_iterator"),
        (ValueError("x"), r"ValueError"),
        (int, r"builtins\.type"),
    ],
)
def test_values_without_json_form_are_refused_by_path(value: object, message: str) -> None:
    """What cannot be JSON is an error that names the type and where it is."""
    with pytest.raises(TypeError, match=message):
        jsonable(value)


def test_an_open_file_is_refused(tmp_path: Path) -> None:
    """A file is not read out in silence."""
    path = tmp_path / "x"
    path.write_text("line")
    with path.open() as file, pytest.raises(TypeError, match=r"^\$\.log: .*TextIOWrapper"):
        jsonable({"log": file})


@pytest.mark.parametrize("in_model", [False, True])
def test_a_value_that_contains_itself_is_refused(in_model: bool) -> None:
    """A loop is an error, not a crash."""
    loop: dict[str, Any] = {}
    loop["again"] = loop
    with pytest.raises(TypeError, match=r"contains itself|has no JSON form"):
        jsonable(Person(name="a", anything=loop) if in_model else loop)


def test_nesting_has_a_limit_that_can_be_written() -> None:
    """The deepest value that is accepted can be written and read; one more level is refused."""
    deepest = jsonable(nested(MAX_DEPTH))
    assert loads(dumps(deepest)) == deepest
    with pytest.raises(TypeError, match="levels deep"):
        jsonable(nested(MAX_DEPTH + 1))


@given(upp.json_values(20))
def test_well_formed_text_is_utf8(value: JSONValue) -> None:
    """Repaired values can be sent anywhere, and repairing twice changes nothing."""
    repaired = well_formed(value)
    dumps(repaired).decode("utf-8")
    assert well_formed(repaired) == repaired


@given(st.recursive(st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_valid_text_is_left_alone(value: JSONValue) -> None:
    """Text without surrogates is not touched."""
    assert well_formed(value) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\ud83cb", "a\ufffdb"),
        ("\ud83c\udf78", "\U0001f378"),
        ("\udf78\ud83c", "\ufffd\ufffd"),
        ("\ud83c\ud83c\udf78", "\ufffd\U0001f378"),
        ("a\x00b", "a\x00b"),
    ],
)
def test_surrogates_are_joined_or_replaced(text: str, expected: str) -> None:
    """A pair becomes its character, a lone surrogate U+FFFD; NUL stays."""
    assert well_formed({text: [text]}) == {expected: [expected]}
