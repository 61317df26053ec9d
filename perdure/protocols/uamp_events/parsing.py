"""Frames to events. Source: UAMP 1.0, sections 4 and 14.3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast, get_args

from pydantic import ValidationError

from perdure.protocols.uamp_events.client_events import ClientEvent
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.surrounding_events import ServerEvent
from perdure.protocols.uamp_events.wire import Event
from perdure.upp.json_value import JSONObject, JSONValue, loads, well_formed

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of a type that nobody here knows: it is logged, and nothing else happens."""

    type: str
    event_id: str
    session_id: str | None


def _leaves(union: object) -> list[type[Event]]:
    parts = get_args(union)
    return [leaf for part in parts for leaf in _leaves(part)] if parts else [cast("type[Event]", union)]


def by_type(union: object) -> dict[str, type[Event]]:
    """The models of a union of events, by their `type`."""
    return {str(model.model_fields["type"].default): model for model in _leaves(union)}


CLIENT_EVENTS = by_type(ClientEvent)
"""What a client may send, by `type`: the specification's twenty, and message.read."""

SERVER_EVENTS = by_type(ServerEvent)
"""What a server may send, by `type`: the specification's 32, and session.end, which its section 5.3 allows."""

Parsed: TypeAlias = ClientEvent | UnknownEvent


def parse_client_event(frame: str | bytes, *, draw_id: Callable[[], str]) -> Parsed:
    """The event of a client's frame.

    Args:
        frame: one JSON object.
        draw_id: gives an id to an event that has none.

    Raises:
        EventRefused: `invalid_json` if it is no JSON, `invalid_event` if it is no event or a member cannot be used.
    """
    return client_event(event_object(frame), draw_id=draw_id)


def client_event(source: JSONObject, *, draw_id: Callable[[], str]) -> Parsed:
    """As `parse_client_event`, of JSON that has been read."""
    if source.get("event_id") is None:
        source = {**source, "event_id": draw_id()}
    return cast(Parsed, _read(source, CLIENT_EVENTS))


def parse_server_event(frame: str | bytes) -> ServerEvent | UnknownEvent:
    """The event of a server's frame, as a client reads it; here `event_id` must be there.

    Raises:
        EventRefused: as `parse_client_event`.
    """
    return cast("ServerEvent | UnknownEvent", _read(event_object(frame), SERVER_EVENTS))


def event_object(frame: str | bytes) -> JSONObject:
    """The JSON object of a frame.

    Raises:
        EventRefused: `invalid_json` if it is no JSON, `invalid_event` if it is no object.
    """
    try:
        data = frame if isinstance(frame, bytes) else frame.encode("utf-8", "surrogatepass")
        value: JSONValue = well_formed(loads(data))
    except ValueError as error:
        raise EventRefused(Code.INVALID_JSON, f"the frame is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise EventRefused(Code.INVALID_EVENT, "an event is a JSON object with 'type' and 'event_id'")
    return value


def _read(source: JSONObject, known: dict[str, type[Event]]) -> Event | UnknownEvent:
    kind, ident, session = source.get("type"), source.get("event_id"), source.get("session_id")
    told_id = ident if isinstance(ident, str) else None
    told_session = session if isinstance(session, str) else None
    if not isinstance(kind, str) or not kind:
        raise EventRefused(
            Code.INVALID_EVENT, "'type' must be a string that is not empty", event_id=told_id, session_id=told_session
        )
    if not told_id:
        raise EventRefused(
            Code.INVALID_EVENT, f"{kind}: 'event_id' must be a string that is not empty", session_id=told_session
        )
    model = known.get(kind)
    if model is None:
        return UnknownEvent(kind, told_id, told_session)
    try:
        return model.model_validate(source)
    except ValidationError as error:
        raise EventRefused(
            Code.INVALID_EVENT, f"{kind}: {_problems(error)}", event_id=told_id, session_id=told_session
        ) from error


def _problems(error: ValidationError) -> str:
    """The first faults, each with its place; never a value, which may be a token."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [f"'{'.'.join(str(step) for step in fault['loc'])}': {fault['msg']}" for fault in found[:_SHOWN]]
    return "; ".join(told) + (f" (and {len(found) - _SHOWN} more)" if len(found) > _SHOWN else "")
