"""The canonical form against a second implementation, in Node: whatever a text holds, both hash the same bytes or it is refused."""

from __future__ import annotations

import json
import random
import struct
import subprocess
from pathlib import Path
from typing import Any

from perdure.protocols.uamp_envelope.canonical import canonical_json
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.strict_json import parse_object
from tests.clients.node import NODE
from tests.scale import scaled

SCRIPT = Path(__file__).with_name("canonical.mjs")
ODD_TEXT = '\x00\x08\x1f"\\/\x7f\x80é\u0301דּ\u2028\u2029\ud7ff\ue000\ufffd\uffff\U00010000\U0001f600\U0010ffff$_aA0 '
ODD_NUMBERS = (
    *("0", "-0", "-0.0", "1.0", "1E2", "1e+2", "100e-2", "0.1", "1e-6", "1e-7", "0.000001", "5e-324", "2.5e-323"),
    *(
        "9007199254740991",
        "-9007199254740991",
        "9007199254740991.0",
        "1e21",
        "1.7976931348623157e308",
        "123456789012345.6",
    ),
    *("0.30000000000000004", "333333333.33333329", "4.50", "2e-3", "0.000000000000000000000000001", "1e-400"),
)
REFUSED_NUMBERS = (
    "9007199254740992",
    "1e400",
    "-1e400",
    "1e20",
    "NaN",
    "Infinity",
    "-Infinity",
    "123456789012345678901",
)


class Texts:
    """JSON texts by chance: numbers and strings in every spelling."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def object(self, depth: int = 0) -> str:
        # Not a backslash in a name: after one V8 reads other names with escapes wrongly (nodejs/node, issue 63785).
        names = dict.fromkeys(self.characters().replace("\\", "") for _ in range(self.chance.randint(0, 5)))
        members = [f"{self.spelled(name)}{self.space()}:{self.value(depth + 1)}" for name in names]
        return "{" + self.space() + f"{self.space()},".join(members) + self.space() + "}"

    def value(self, depth: int) -> str:
        kind = self.chance.randrange(8 if depth < 5 else 6)
        if kind < 2:
            return self.spelled(self.characters())
        if kind < 5:
            return self.space() + self.number() + self.space()
        if kind == 5:
            return self.chance.choice(("true", "false", "null"))
        if kind == 6:
            return "[" + ",".join(self.value(depth + 1) for _ in range(self.chance.randint(0, 4))) + "]"
        return self.object(depth)

    def number(self) -> str:
        kind = self.chance.randrange(5)
        if kind == 0:
            return self.chance.choice(ODD_NUMBERS)
        if kind == 1:
            return str(self.chance.randint(-(2**53) + 1, 2**53 - 1))
        if kind == 2:
            return repr(self.chance.uniform(-1e6, 1e6))
        value = self.any_double()
        return repr(value) if kind == 3 else f"{value:.17E}"

    def any_double(self) -> float:
        """A double of any bits that both readers take."""
        while True:
            value: float = struct.unpack("<d", self.chance.randbytes(8))[0]
            if abs(value) < 2**53 or 1e21 <= abs(value) < float("inf"):
                return value

    def characters(self) -> str:
        odd = self.chance.random() < 0.7
        choose = (lambda: self.chance.choice(ODD_TEXT)) if odd else self.any_character
        return "".join(choose() for _ in range(self.chance.randint(0, 6)))

    def any_character(self) -> str:
        code = self.chance.choice((0x80, 0x800, 0xD800, 0x110000))
        found = self.chance.randrange(code)
        return chr(found if not 0xD800 <= found <= 0xDFFF else 0xE000)

    def spelled(self, text: str) -> str:
        """A string of JSON: each character as it is, or by an escape."""
        made = ""
        for one in text:
            units = one.encode("utf-16-be")
            escaped = "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
            must = one < " " or one in '"\\'
            made += escaped.upper().replace("\\U", "\\u") if must or self.chance.random() < 0.3 else one
        return f'"{made}"'

    def space(self) -> str:
        return self.chance.choice(("", "", " ", "\n\t", "\r"))


def by_node(texts: list[str]) -> list[str]:
    """Their canonical forms by the other implementation."""
    done = subprocess.run([str(NODE), str(SCRIPT)], input=json.dumps(texts), capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_e15_both_implementations_make_the_same_bytes_of_any_text() -> None:
    texts = [Texts(seed).object() for seed in range(scaled(60_000))]
    for text, other in zip(texts, by_node(texts), strict=True):
        assert canonical_json(parse_object(text.encode())).decode() == other, text


def test_e15_what_readers_would_read_differently_is_refused() -> None:
    for number in REFUSED_NUMBERS:
        try:
            parse_object(f'{{"n":{number}}}'.encode())
        except UAMPError as error:
            assert error.code == "4.00"  # noqa: PT017 the number must be in the message of a failure
        else:
            raise AssertionError(number)


def test_e12_the_vector_is_the_same_in_node() -> None:
    """Of the reference: a name beyond U+FFFF sorts before U+FB33, 1.0 is 1, and nothing is normalised."""
    value: dict[str, Any] = {
        "to": ["did:web:worker.example"],
        "ts": "2025-07-10T13:37:05Z",
        "ext": {"\ufb33": 2, "😀": 1, "n": 1.0},
        "body": {"type": "text/plain", "content": "2+2 € 😀 é e\u0301"},
    }
    text = json.dumps(value)
    (other,) = by_node([text])
    assert canonical_json(parse_object(text.encode())).decode() == other
    assert other.index('"n":1,') < other.index('"😀":1') < other.index('"\ufb33":2')
