"""A session as it is stored: the same session again, without its tokens."""

from __future__ import annotations

import json
from typing import Any

from perdure.protocols.uamp_events.live_session import new_session
from perdure.protocols.uamp_events.parsing import client_event
from perdure.protocols.uamp_events.stored_session import (
    preloaded_token,
    session_of,
    state_of,
    stored_turn,
    without_tokens,
)
from perdure.upp.json_value import JSONObject
from tests.unit.protocols.uamp_events.client_line import SERVER, uuids

SESSION = "7f0c1f3a-3c5e-4c0e-9b57-0f6f0f0c2f11"
ASKED: dict[str, Any] = {
    "type": "session.create", "event_id": "evt_1", "uamp_version": "1.0", "agent": "a", "chat": "c",
    "token": "secret-1", "payment_token": "secret-2",
    "session": {"modalities": ["text"], "instructions": "Be brief.", "extensions": {"X-Payment-Token": "secret-3", "openai": {"seed": 1}}},
    "client_capabilities": {"modalities": ["text"]},
}  # fmt: skip


def inputs(*events: dict[str, Any]) -> list[JSONObject]:
    return [{"event_id": f"evt_{place}", **event} for place, event in enumerate(events)]


def test_a_stored_session_is_the_same_session_again_without_its_tokens() -> None:
    event: Any = client_event(ASKED, draw_id=uuids())
    live = new_session(SESSION, event, uuids())
    live.server, live.system, live.voice = SERVER, ["Speak Latin."], {"call": 5}
    state = state_of(live)
    assert "secret" not in json.dumps(state)
    again = session_of(SESSION, json.loads(json.dumps(state)), (), version=3)
    assert (again.id, again.chat, again.system, again.voice, again.version) == (
        SESSION,
        "c",
        live.system,
        live.voice,
        3,
    )
    assert (again.server, again.has_own_token, again.is_ending) == (SERVER, True, False)
    assert again.config.extensions == {"openai": {"seed": 1}}
    assert again.client is not None
    assert "supports_thinking" not in again.client.model_fields_set, "what was left out was not denied"
    assert state_of(again) == state


def test_the_payment_token_is_found_wherever_a_client_puts_it() -> None:
    event: Any = client_event(ASKED, draw_id=uuids())
    assert preloaded_token(event) == "secret-2"
    kept = without_tokens(event)
    assert (kept.token, kept.payment_token, kept.session.extensions) == (None, None, {"openai": {"seed": 1}})
    assert preloaded_token(event.model_copy(update={"payment_token": None})) == "secret-3"
    assert preloaded_token(kept) is None


def test_a_stored_turn_is_read_alike_by_all_and_unlike_the_next_one() -> None:
    events = inputs({"type": "input.text", "text": "look"}, {"type": "input.image", "image": "aGk=", "format": "png"})
    one, two = stored_turn(SESSION, events), stored_turn(SESSION, events)
    assert one == two
    later = stored_turn(SESSION, [{**event, "event_id": f"later_{place}"} for place, event in enumerate(events)])
    ids = [turn.messages[0].items()[1].to_json()["content_id"] for turn in (one, later)]
    assert ids[0] != ids[1]
    assert stored_turn(SESSION, []).messages == []
