"""The secrets that this process knows, and text without them.

A secret's value is never stored, streamed or logged: `[redacted:NAME]` stands in its place, also where the value is
written as JSON, as a part of an address, in HTML or in base64. What is known is known to the whole process: its log and
what it sends away are one. Where values are taken out is said in `docs/secrets.md`.
"""

from __future__ import annotations

import base64
import html
import json
import re
import threading
from collections.abc import Iterator
from functools import cached_property
from typing import TypeVar, cast
from urllib.parse import quote, quote_plus

from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONValue

J = TypeVar("J", bound=JSONValue)

SHORTEST = 6
"""Characters of the shortest value that can be a registered secret."""

_SHORTEST_DIGITS = 12
_SHORTEST_WORD = 16
_FEWEST_DIFFERENT = 5
_SHORTEST_UNASKED = 16
_MOST_UNASKED = 50
_DIGITS = re.compile(r"[0-9A-Fa-f:.-]+")
_WORD = re.compile(r"[A-Za-z_. -]+")
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class Redaction:
    """Values to be taken out, and one matcher for all of them. Safe to use from several threads."""

    def __init__(self) -> None:
        """Know no secret: nothing is looked for then."""
        self._lock = threading.Lock()
        self._registered: dict[str, str] = {}
        self._unasked: dict[str, str] = {}
        self._matcher: _Matcher | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no secret is known."""
        return self._matcher is None

    def register(self, name: str, value: str) -> None:
        """Take a value out from now on.

        Args:
            name: shown in the value's place.
            value: the secret.

        Raises:
            InvalidInput: the value is so short or so plain that ordinary text and hashes would hold it by chance. The
                message has the name, never the value.
        """
        weakness = _weakness(value)
        if weakness:
            raise InvalidInput(
                f"the secret {name!r} {weakness}, which ordinary text holds by chance; use a longer one, at least "
                f"{SHORTEST} characters, {_SHORTEST_DIGITS} if they are all digits, {_SHORTEST_WORD} if all letters"
            )
        self._learn(self._registered, name, value)

    def learn(self, name: str, value: str, *, declared: bool = False) -> None:
        """Take a value out from now on that nobody has registered, such as a provider's key, if it is one that can be.

        Args:
            name: shown in the value's place.
            value: the secret.
            declared: somebody has said that it is one. Else a short one stays: keys of local servers are often plain
                words, such as "ollama-2".
        """
        if value in self._registered or _weakness(value) or (not declared and len(value) < _SHORTEST_UNASKED):
            return
        self._learn(self._unasked, name, value)

    def text(self, text: str) -> str:
        """The text without secrets; the same object if there are none in it."""
        matcher = self._matcher
        return text if matcher is None else matcher.text(text)

    def json(self, value: J) -> J:
        """The JSON value without secrets, keys of objects included; the same object if there are none in it."""
        matcher = self._matcher
        return value if matcher is None or not matcher.may_hold(value) else cast(J, matcher.json(value))

    def encoded(self, data: bytes) -> bool:
        """Whether there may be a secret in the UTF-8 text of a JSON value."""
        matcher = self._matcher
        return matcher is not None and matcher.finds_in_json(data.decode("utf-8", "surrogatepass"))

    def told(self, text: str) -> tuple[str, str]:
        """Of a text that goes on: what may be shown of it, without secrets, and the rest, in which one may have begun."""
        matcher = self._matcher
        return (text, "") if matcher is None else matcher.told(text)

    def _learn(self, known: dict[str, str], name: str, value: str) -> None:
        with self._lock:
            if known.get(value) == name:
                return
            known[value] = name
            while len(self._unasked) > _MOST_UNASKED:  # keys that a secret manager changes each hour
                self._unasked.pop(next(iter(self._unasked)))
            self._matcher = _Matcher({**self._unasked, **self._registered})


class _Matcher:
    """A compiled set of values. It never changes."""

    def __init__(self, names: dict[str, str]) -> None:
        self._marks = {
            form: f"[redacted:{_NO_NAME.sub('-', name)}]" for value, name in names.items() for form in _forms(value)
        }
        self._forms = sorted(self._marks, key=len, reverse=True)  # a secret may be the beginning of another
        self._in_json = {json.dumps(form, ensure_ascii=plain)[1:-1] for form in self._forms for plain in (True, False)}
        self._by_first: dict[str, list[str]] = {}
        for form in self._forms:
            self._by_first.setdefault(form[0], []).append(form)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Compiled for the first secret that is found."""
        return re.compile("|".join(re.escape(form) for form in self._forms))

    def finds_in_json(self, text: str) -> bool:
        return any(form in text for form in self._in_json)

    def may_hold(self, value: object) -> bool:
        """Whether it is worth to look at each text of a value: to write it down and look once is much faster."""
        if isinstance(value, dict | list):
            try:
                return self.finds_in_json(json.dumps(value, ensure_ascii=False, check_circular=False))
            except (TypeError, ValueError, RecursionError):  # what is no JSON is looked at as far as it is
                return True
        return True

    def finds(self, text: str) -> bool:
        return any(form in text for form in self._forms)  # on a long text many times faster than the pattern

    def text(self, text: str) -> str:
        return self._pattern.sub(lambda found: self._marks[found[0]], text) if self.finds(text) else text

    def json(self, value: JSONValue) -> JSONValue:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            items = [self.json(item) for item in value]
            return value if all(new is old for new, old in zip(items, value, strict=True)) else items
        if isinstance(value, dict):
            members = {self.text(name): self.json(item) for name, item in value.items()}
            same = all(new is old for new, old in zip(members.values(), value.values(), strict=False))
            return value if same and members.keys() == value.keys() else members
        if isinstance(value, int | float) and str(value) in self._marks:
            return self._marks[str(value)]
        return value

    def told(self, text: str) -> tuple[str, str]:
        end = self._beginning(text)
        for found in self._pattern.finditer(text) if self.finds(text) else ():
            if found.start() < end < found.end():
                end = found.start()
        return self.text(text[:end]), text[end:]

    def _beginning(self, text: str) -> int:
        """Where the longest end of the text begins that a secret, too, begins with."""
        for at in range(max(0, len(text) - len(self._forms[0]) + 1), len(text)):
            forms = self._by_first.get(text[at])
            if forms is not None and any(len(form) > len(text) - at and form.startswith(text[at:]) for form in forms):
                return at
        return len(text)


def _weakness(value: str) -> str:
    if len(value) < SHORTEST:
        return f"has {len(value)} characters"
    if len(value) < _SHORTEST_DIGITS and _DIGITS.fullmatch(value):
        return f"is {len(value)} digits"
    if len(value) < _SHORTEST_WORD and _WORD.fullmatch(value):
        return f"is {len(value)} letters"
    if len(set(value)) < _FEWEST_DIFFERENT:
        return f"has {len(set(value))} different characters"
    return ""


def _forms(value: str) -> Iterator[str]:
    """How a value may be written."""
    yield value
    for escaped in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield escaped
        yield json.dumps(escaped)[1:-1]  # JSON in a text that is JSON
    raw = value.encode("utf-8", "surrogatepass")
    for quoted in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield quoted
        yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)
    yield html.escape(value)
    yield from _base64_forms(raw)


def _base64_forms(raw: bytes) -> Iterator[str]:
    """The value alone, and the characters that it alone decides wherever it stands in something longer."""
    whole = base64.b64encode(raw).decode("ascii")
    for text in (whole, whole.rstrip("=")):
        yield text
        yield _url_safe(text)
    for before in range(3):
        text = base64.b64encode(bytes(before) + raw).decode("ascii")
        core = text[-(-8 * before // 6) : 8 * (before + len(raw)) // 6]
        yield core
        yield _url_safe(core)


def _url_safe(text: str) -> str:
    return text.replace("+", "-").replace("/", "_")


known_secrets = Redaction()
"""What this process knows."""
