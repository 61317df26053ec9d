"""Sealing what a session's rows hold, and opening it when it is read.

What SQL looks at stays clear: ids, numbers, states. The rest of an object is sealed as one part of it, so that functions of
the database copy it without knowing. Opening needs no plan: whatever is sealed says so.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from sqlalchemy import Table
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import DamagedSession
from perdure.store.json_text import SEALED, escaped_json
from perdure.store.keyring import Keyring, header_of, scope_of
from perdure.store.sealed_columns import (
    ANSWER_CLEAR,
    BODY,
    DETAIL_CLEAR,
    ERROR_CLEAR,
    EVENT_CLEAR,
    PROGRESS_CLEAR,
    RECORD_CLEAR,
    RESULT_CLEAR,
    SEALED_COLUMNS,
    WHOLE,
)
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue

BODIES = b"body"
"""What a body is sealed as; and"""
PARTS = b"part"
"""a part of JSON."""
OPTION = "perdure_keyring"
"""The option of an engine's connections that holds the keyring."""

_OWN_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(-\d+)?")

Shape: TypeAlias = "Callable[[Seal, Any], Any]"


@dataclass(frozen=True, slots=True)
class Seal:
    """Seals for one session. With a keyring that has no keys everything comes back as it is."""

    keyring: Keyring
    key: SessionKey

    def body(self, body: bytes) -> bytes:
        """A body of bytes."""
        if not self.keyring:
            return body
        return self.keyring.seal(body, scope=scope_of(self.key.tenant, self.key.session), purpose=BODIES)

    def bodies(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Several of them."""
        return [self.body(body) for body in bodies]

    def value(self, value: Any) -> Any:
        """A whole JSON value; None stays None."""
        return {SEALED: self._part(value)} if self.keyring and value is not None else value

    def but(self, value: Mapping[str, Any] | None, clear: Collection[str]) -> Any:
        """An object without some of its fields, which stay clear."""
        if not self.keyring or value is None:
            return value
        kept = {name: item for name, item in value.items() if name in clear}
        rest = {name: item for name, item in value.items() if name not in clear}
        return {**kept, SEALED: self._part(rest)} if rest else kept

    def event(self, event: JSONObject) -> JSONObject:
        """An entry of the event log, as writers make it. Of its data only numbers and ids of ours may stay clear."""
        data = cast("JSONObject | None", event.get("d"))
        return {**event, "d": self.data(data)} if self.keyring and data else event

    def data(self, data: JSONObject) -> Any:
        """The data of such an entry."""
        return self.but(data, {name for name in EVENT_CLEAR if name in data and _is_plain(data[name])})

    def record(self, record: JSONObject) -> JSONObject:
        """A record that waits for the next transaction."""
        inner = record.get("r")
        if not self.keyring or not isinstance(inner, dict):
            return record
        return {**record, "r": self.but(inner, RECORD_CLEAR)}

    def detail(self, detail: Mapping[str, Any] | None) -> Any:
        """What an input's row remembers. Where its run went on from is looked at by the database."""
        if not self.keyring or detail is None:
            return detail
        progress = cast("dict[str, Any] | None", detail.get("progress"))
        kept = self.but({name: value for name, value in detail.items() if name != "progress"}, DETAIL_CLEAR)
        return kept if progress is None else {**kept, "progress": self.but(progress, PROGRESS_CLEAR)}

    def answer(self, answer: JSONObject) -> Any:
        """What a wait was answered."""
        return self.but(answer, ANSWER_CLEAR)

    def result(self, result: JSONObject) -> JSONObject:
        """What middleware left: the database puts its fields together anew, so each is sealed alone."""
        return {name: item if name in RESULT_CLEAR else self.value(item) for name, item in result.items()}

    def wait(self, wait: JSONObject) -> JSONObject:
        """A wait that is to be opened."""
        return {**wait, "asked": self.value(wait.get("asked"))}

    def event_text(self, events: Sequence[JSONValue]) -> str:
        """Entries of the event log as the database takes them."""
        return escaped_json([self.event(cast(JSONObject, event)) for event in events])

    def record_text(self, records: Sequence[JSONObject]) -> str:
        """Records as the database takes them."""
        return escaped_json([self.record(record) for record in records])

    def error_text(self, error: JSONObject | None) -> str | None:
        """An error as the database takes it."""
        return None if error is None else escaped_json(self.but(error, ERROR_CLEAR))

    def row(self, table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
        """A row's values, those sealed that the table has sealed."""
        if not self.keyring:
            return dict(values)
        shapes = SEALED_COLUMNS.get(table.name, {})
        return {
            name: value if value is None or name not in shapes else _SHAPES[shapes[name]](self, value)
            for name, value in values.items()
        }

    def _part(self, value: Any) -> str:
        plain = json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
        scope = scope_of(self.key.tenant, self.key.session)
        return to_token(self.keyring.seal(plain, scope=scope, purpose=PARTS))


def to_token(sealed: bytes) -> str:
    """What was sealed, as a text within JSON: the key's id, so that a query can tell it, and base64."""
    return f"{header_of(sealed)[0]}:{base64.b64encode(sealed).decode()}"


def from_token(token: str) -> bytes:
    """What `to_token` was given.

    Raises:
        DamagedSession: it is no such text.
    """
    try:
        return base64.b64decode(token.rpartition(":")[2], validate=True)
    except ValueError:
        raise DamagedSession("a sealed part of JSON is cut off or changed; it is not used") from None


def seal_in(connection: AsyncConnection, key: SessionKey) -> Seal:
    """What seals a session's values in a transaction of this connection."""
    return Seal(cast(Keyring, connection.sync_connection.get_execution_options()[OPTION]), key)  # type: ignore[union-attr]


def joined(clear: dict[str, Any], part: Any) -> Any:
    """A value put together from what was clear and what was sealed."""
    return {**clear, **part} if clear else part


def _is_plain(value: object) -> bool:
    if value is None or isinstance(value, int | float):
        return True
    return isinstance(value, str) and _OWN_ID.fullmatch(value) is not None


_SHAPES: dict[str, Shape] = {
    BODY: Seal.body,
    WHOLE: Seal.value,
    "event": Seal.data,
    "error": lambda seal, error: seal.but(error, ERROR_CLEAR),
    "record": lambda seal, record: seal.but(record, RECORD_CLEAR),
    "answer": Seal.answer,
    "detail": Seal.detail,
    "result": Seal.result,
}
