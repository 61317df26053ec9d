"""A session as it is stored between two events of its client, and as any process makes it again. Without any token.

Source: UAMP 1.0, sections 5 and 8.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from perdure.protocols.uamp_events.capabilities import Capabilities
from perdure.protocols.uamp_events.client_events import InputEvent, SessionCreate
from perdure.protocols.uamp_events.input_buffer import InputBuffer, TurnInput
from perdure.protocols.uamp_events.live_session import LiveSession
from perdure.protocols.uamp_events.parsing import client_event
from perdure.protocols.uamp_events.session_config import SessionConfig
from perdure.uap.ids import derive_id
from perdure.upp.json_value import JSONObject, JSONValue

PAYMENT_EXTENSION = "X-Payment-Token"
"""Of a session's extensions: where some clients put the payment token."""


def preloaded_token(event: SessionCreate) -> str | None:
    """The payment token that a session is opened with, wherever its client put it."""
    extension = (event.session.extensions or {}).get(PAYMENT_EXTENSION)
    return event.payment_token or (extension if isinstance(extension, str) else None)


def without_tokens(event: SessionCreate) -> SessionCreate:
    """The event as it may be kept and told."""
    return event.model_copy(update={"token": None, "payment_token": None, "session": _plain(event.session)})


def _plain(config: SessionConfig) -> SessionConfig:
    if config.extensions is None or PAYMENT_EXTENSION not in config.extensions:
        return config
    kept = {name: value for name, value in config.extensions.items() if name != PAYMENT_EXTENSION}
    return config.model_copy(update={"extensions": kept})


def state_of(session: LiveSession) -> JSONObject:
    """What is stored of a session; its inputs are rows of their own."""
    return {
        "created": without_tokens(session.created).to_json(),
        "config": _plain(session.config).to_json(),
        "client": None if session.client is None else _declared(session.client),
        "server": session.server.to_json(),
        "system": cast("list[JSONValue]", session.system),
        "voice": cast(JSONObject, session.voice),
        "own_token": session.has_own_token,
        "ending": session.is_ending,
    }


def session_of(session_id: str, state: JSONObject, inputs: Iterable[JSONObject], *, version: int = -1) -> LiveSession:
    """The session that was stored.

    Args:
        session_id: its id.
        state: see `state_of`.
        inputs: the events of its next turn, in order.
        version: of the state.
    """
    created = SessionCreate.model_validate(state["created"])
    client = state.get("client")
    return LiveSession(
        session_id,
        created,
        SessionConfig.model_validate(state["config"]),
        _buffer(session_id, inputs),
        None if client is None else Capabilities.model_validate(client),
        server=Capabilities.model_validate(state["server"]),
        system=cast("list[str]", list(cast("list[JSONValue]", state["system"]))),
        voice=cast("dict[str, int]", dict(cast(JSONObject, state["voice"]))),
        has_own_token=bool(state["own_token"]),
        is_ending=bool(state["ending"]),
        version=version,
    )


def stored_turn(session_id: str, inputs: Iterable[JSONObject]) -> TurnInput:
    """All of a turn's input, of the events that were stored. The same events give the same content ids."""
    return _buffer(session_id, inputs).drain()


def _buffer(session_id: str, inputs: Iterable[JSONObject]) -> InputBuffer:
    events = list(inputs)
    buffer = InputBuffer(_content_ids(session_id, str(events[0]["event_id"]) if events else ""))
    for source in events:
        buffer.add(cast(InputEvent, client_event(source, draw_id=_no_id)))
    return buffer


def _content_ids(session_id: str, first: str) -> Callable[[], str]:
    """Gives the ids of a turn's media, the same ones whoever reads the turn."""
    given = 0

    def draw() -> str:
        nonlocal given
        given += 1
        return derive_id("uamp", session_id, "content", first, given)

    return draw


def _no_id() -> str:
    raise AssertionError("stored events have their ids")


def _declared(capabilities: Capabilities) -> JSONObject:
    """What a client has said: what it left out is not what it has denied."""
    return capabilities.model_dump(exclude_none=True, exclude_unset=True, by_alias=True)
