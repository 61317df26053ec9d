"""The state machine of a connection: which event is allowed when; checks 1 to 34, 43 to 50, 57 to 66, 74, 75, 79."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.protocols.uamp_events.capabilities import Capabilities, ImageCapabilities, common_modalities
from perdure.protocols.uamp_events.client_events import SessionEnd
from perdure.protocols.uamp_events.commands import (
    AnswerCall,
    CancelResponse,
    CloseSession,
    EndVoice,
    Ignored,
    InviteVoice,
    MarkRead,
    OpenSession,
    QueryCapabilities,
    RefreshTokens,
    ShowTyping,
    SubmitPayment,
)
from perdure.protocols.uamp_events.server_events import (
    Response,
    ResponseCancelled,
    ResponseCreated,
    ResponseDelta,
    ResponseDone,
    TextDelta,
    Thinking,
    ToolCallEvent,
)
from perdure.protocols.uamp_events.surrounding_events import VoiceAccept
from tests.unit.protocols.uamp_events.client_line import NOW_MS, SERVER, ClientLine, only, shown

PLAIN: dict[str, Any] = {"modalities": ["text"]}
ASK: dict[str, Any] = {"uamp_version": "1.0", "session": PLAIN}


def created(line: ClientLine, session: str, response: str) -> ResponseCreated:
    return ResponseCreated(**line.connection.head(session), response_id=response)


def delta(line: ClientLine, session: str, response: str, text: str = "x") -> ResponseDelta:
    return ResponseDelta(**line.connection.head(session), response_id=response, delta=TextDelta(text=text))


def done(line: ClientLine, session: str, response: str) -> ResponseDone:
    ended = Response(id=response, status="completed", output=[])
    return ResponseDone(**line.connection.head(session), response_id=response, response=ended)


def call(line: ClientLine, session: str, response: str, call_id: str = "c1") -> ToolCallEvent:
    head = line.connection.head(session)
    return ToolCallEvent(**head, call_id=call_id, name="search", arguments="{}", response_id=response)


def test_01_02_events_have_a_type_a_unique_id_and_milliseconds() -> None:
    line = ClientLine()
    line.open()
    for _ in range(5):
        line.send("ping")
    assert len({event["event_id"] for event in line.told}) == len(line.told) == 7
    assert all(event["timestamp"] == NOW_MS and event["type"] for event in line.told)


def test_03_an_unknown_event_is_logged_and_answered_with_nothing() -> None:
    line = ClientLine()
    assert only(line.send("input.smell"), Ignored).type == "input.smell"
    assert line.told == []
    line.open()


@pytest.mark.parametrize(("frame", "code"), [("{", "invalid_json"), ("{}", "invalid_event"), ("[]", "invalid_event")])
def test_05_06_the_connection_survives_a_frame_that_is_no_event(frame: str, code: str) -> None:
    line = ClientLine()
    session = line.open()
    line.frame(frame)
    assert (line.last["type"], line.last["error"]["code"]) == ("response.error", code)
    line.send("input.text", text="hi")
    assert line.respond().session_id == session


@pytest.mark.parametrize(
    ("kind", "members"),
    [("input.text", {"text": "hi"}), ("response.create", {}), ("session.update", {"token": "t"}), ("session.end", {})],
)
def test_07_nothing_comes_before_the_session(kind: str, members: dict[str, Any]) -> None:
    line = ClientLine()
    line.send(kind, **members)
    assert line.last["type"] == "response.error"
    assert line.last["error"]["code"] == "session_required"
    assert line.last["in_reply_to"] == "evt_1"


def test_08_the_same_event_is_applied_once() -> None:
    line = ClientLine()
    line.open()
    for _ in range(2):
        line.frame('{"type":"input.text","event_id":"one","text":"hi"}')
    assert line.respond().given.messages[0].text() == "hi"
    again = line.frame('{"type":"session.create","event_id":"evt_1","session":{"modalities":["text"]}}')
    only(again, Ignored)


def test_10_11_12_a_session_is_created_then_its_capabilities_are_told() -> None:
    line = ClientLine()
    config = {"modalities": ["text", "audio"], "instructions": "Be kind.", "extensions": {"x": {"y": None}}}
    session = line.open(session=config, agent="weather-bot", chat="chat_abc")
    told, capable = line.told
    assert (told["type"], capable["type"]) == ("session.created", "capabilities")
    assert told["session"] == {"id": session, "created_at": NOW_MS // 1000, "config": config, "status": "active"}
    assert (told["session_id"], told["agent"], told["chat"]) == (session, "weather-bot", "chat_abc")
    assert told["uamp_version"] == "1.0"
    assert told["in_reply_to"] == "evt_1"


def test_13_a_later_minor_version_and_none_are_answered_with_ours() -> None:
    line = ClientLine()
    line.open(uamp_version="1.3")
    assert line.told[0]["uamp_version"] == "1.0"
    only(line.frame('{"type":"session.create","session":{"modalities":["text"]}}'), OpenSession)


def test_14_another_major_version_is_refused_and_may_be_tried_again() -> None:
    line = ClientLine()
    line.send("session.create", uamp_version="2.0", session=PLAIN)
    assert line.types() == ["response.error"]
    error = line.last["error"]
    assert (error["code"], error["details"]) == ("version_mismatch", {"supported": ["1.0"], "received": "2.0"})
    line.open()


@pytest.mark.parametrize("code", ["unauthorized", "agent_offline"])
def test_15_16_a_session_that_cannot_be_opened(code: str) -> None:
    line = ClientLine()
    opening = only(line.send("session.create", **ASK, token="bad"), OpenSession)
    line.keep(line.connection.refused(opening.session_id, code, "no"))
    assert (line.last["type"], line.last["error"]["code"]) == ("session.error", code)
    assert line.connection.sessions == []


def test_17_18_instructions_tools_and_format_reach_the_run() -> None:
    line = ClientLine()
    tool = {"type": "function", "function": {"name": "search", "description": "d", "parameters": {"type": "object"}}}
    form = {"type": "json_schema", "json_schema": {"name": "w", "schema": {"type": "object"}, "strict": True}}
    extensions = {"openai": {"model": "gpt-4o", "temperature": 0.7}, "anthropic": {"temperature": 1}}
    config = {**PLAIN, "instructions": "A", "tools": [tool], "response_format": form, "extensions": extensions}
    line.open(session=config)
    line.send("input.text", text="B", role="system")
    options = line.respond().options
    assert options.instructions == "A\n\nB"
    assert options.client_tools == [{"name": "search", "description": "d", "parameters": {"type": "object"}}]
    assert options.response_format == form
    assert options.params == {"temperature": 0.7}


def test_19_20_new_tokens_are_for_one_session() -> None:
    line = ClientLine()
    first, _ = line.open(token="a"), line.open(token="b")
    update = only(line.send("session.update", session_id=first, token="new", payment_token="p"), RefreshTokens)
    assert (update.session_ids, update.token, update.payment_token) == ([first], "new", "p")
    assert "new" not in repr(update)
    (told,) = line.connection.updated(update)
    assert (told.type, told.session_id) == ("session.updated", first)


def test_29_a_token_of_the_connection_is_for_sessions_without_their_own() -> None:
    line = ClientLine()
    plain, _ = line.open(), line.open(token="own")
    update = only(line.send("session.update", token="new"), RefreshTokens)
    assert (update.session_ids, update.is_of_connection) == ([plain], True)
    (told,) = line.connection.updated(update)
    assert told.session_id is None


def test_21_22_the_end_of_a_session_ends_its_response_and_nothing_else() -> None:
    line = ClientLine()
    first, second = line.open(), line.open()
    line.send("input.text", session_id=first, text="hi")
    response = line.respond(session_id=first).response_id
    line.admit(first, created(line, first, response), delta(line, first, response, "so "), delta(line, first, response))
    line.told.clear()
    closing = only(line.send("session.end", session_id=first, reason="user_left"), CloseSession)
    assert (closing.session_id, closing.responses, closing.reason) == (first, [response], "user_left")
    assert line.types() == []
    only(line.send("session.end", session_id=first), Ignored)
    line.send("input.text", session_id=first, text="hi")
    assert (line.last["type"], line.last["error"]["code"]) == ("session.error", "session_not_found")
    cancelled = ResponseCancelled(**line.connection.head(first), response_id=response)
    end = SessionEnd(**line.connection.head(first), reason="user_left")
    assert line.admit(first, cancelled, end, end) == ["response.cancelled", "session.end"]
    only(line.send("session.end", session_id=first), Ignored)
    assert line.admit(first, delta(line, first, response)) == []
    line.send("input.text", session_id=second, text="hi")
    line.respond(session_id=second)


def test_23_the_server_ends_a_session() -> None:
    line = ClientLine()
    session = line.open()
    line.admit(session, SessionEnd(**line.connection.head(session), reason="timeout"))
    assert (line.last["type"], line.last["reason"], line.last["session_id"]) == ("session.end", "timeout", session)
    assert line.connection.sessions == []


def test_24_25_26_sessions_of_one_connection_are_apart() -> None:
    line = ClientLine()
    first, second = line.open(), line.open()
    assert first != second
    line.send("input.text", session_id=first, text="for the first")
    line.send("input.text", session_id=second, text="for the second")
    one, two = line.respond(session_id=first), line.respond(session_id=second)
    assert one.response_id != two.response_id
    assert [one.given.messages[0].text(), two.given.messages[0].text()] == ["for the first", "for the second"]
    line.told.clear()
    for session, start in ((first, one), (second, two), (first, one), (second, two)):
        line.admit(session, created(line, session, start.response_id), delta(line, session, start.response_id))
    assert [event["session_id"] for event in line.told] == [first, first, second, second, first, second]


def test_24_sessions_are_answered_in_the_order_in_which_they_were_asked_for() -> None:
    line = ClientLine()
    first = only(line.send("session.create", **ASK, agent="a"), OpenSession).session_id
    second = only(line.send("session.create", **ASK, agent="b"), OpenSession).session_id
    third = only(line.send("session.create", **ASK, agent="c"), OpenSession).session_id
    line.agree(third)
    line.keep(line.connection.refused(second, "agent_offline", "no"))
    assert line.told == []
    assert line.admit(third, created(line, third, "r")) == []
    line.agree(first)
    assert line.types() == ["session.created", "capabilities", "session.error", "session.created", "capabilities"]
    assert [event.get("agent") for event in line.told if event["type"] == "session.created"] == ["a", "c"]


def test_events_may_be_sent_before_the_session_is_answered() -> None:
    line = ClientLine()
    session = only(line.send("session.create", **ASK), OpenSession).session_id
    line.send("input.text", text="hi")
    line.send("response.create")
    assert line.told == []
    line.agree(session)
    assert line.types() == ["session.created", "capabilities"]
    assert line.respond_code() == "response_in_progress"


def test_27_28_an_event_must_name_one_of_several_sessions() -> None:
    line = ClientLine()
    line.open()
    line.open()
    line.send("input.text", text="hi")
    assert line.last["error"]["code"] == "session_id_required"
    line.send("input.text", text="hi", session_id="none")
    assert (line.last["type"], line.last["error"]["code"]) == ("session.error", "session_not_found")
    assert len(line.connection.sessions) == 2


def test_30_capabilities_have_their_six_required_members() -> None:
    line = ClientLine()
    line.open()
    told = line.last["capabilities"]
    required = {"id", "provider", "modalities", "supports_streaming", "supports_thinking", "supports_caching"}
    assert required <= set(told)
    assert "model_id" not in told


def test_31_33_capabilities_are_told_when_asked_and_when_they_change() -> None:
    line = ClientLine()
    session = line.open()
    line.respond()
    assert only(line.send("capabilities.query", model="m"), QueryCapabilities).model == "m"
    (told,) = line.connection.capabilities(session, SERVER)
    assert shown(told)["capabilities"]["id"] == "scripted"


def test_32_a_client_without_use_for_thinking_gets_none() -> None:
    line = ClientLine()
    session = line.open()
    response = line.respond().response_id
    head = line.connection.head(session)
    thought = Thinking(**head, content="hm", response_id=response)
    assert line.admit(session, created(line, session, response), thought) == ["response.created", "thinking"]
    line.send("client.capabilities", capabilities={"id": "w"})
    assert line.admit(session, thought) == ["thinking"]
    line.send("client.capabilities", capabilities={"id": "w", "supports_thinking": False})
    assert line.admit(session, thought) == []


DRAWS = SERVER.model_copy(update={"image": ImageCapabilities(output_formats=["png"])})


def test_modalities_that_both_have() -> None:
    client = Capabilities(id="w", modalities=["audio", "image"])
    asked = ["audio", "text", "image"]
    assert common_modalities(asked, DRAWS, client) == ["image"]
    assert common_modalities(asked, DRAWS, None) == ["text", "image"]
    assert common_modalities(asked, SERVER, None) == ["text"]
    assert common_modalities(["text"], DRAWS, None) == ["text"]


@pytest.mark.parametrize(
    ("session", "response", "client", "wanted"),
    [
        (["text"], None, None, None),
        (["text", "image"], None, None, ["text", "image"]),
        (["text"], ["image"], None, ["image"]),
        (["text", "image"], None, {"id": "w", "modalities": ["text"]}, None),
        (["text", "image"], None, {"id": "w"}, ["text", "image"]),
    ],
)
def test_a_run_is_asked_for_the_modalities_that_both_have(
    session: list[str], response: list[str] | None, client: dict[str, Any] | None, wanted: list[str] | None
) -> None:
    line = ClientLine()
    ident = line.open(session={"modalities": session})
    line.connection.capabilities(ident, DRAWS)
    if client is not None:
        line.send("client.capabilities", capabilities=client)
    start = line.respond(**({} if response is None else {"response": {"modalities": response}}))
    assert start.options.modalities == wanted


def test_34_inputs_alone_are_answered_with_nothing() -> None:
    line = ClientLine()
    line.open()
    line.told.clear()
    reaction = line.send("input.text", text="hi")
    line.send("input.audio", audio="AAAA", format="pcm16", is_final=True)
    assert (reaction.commands, line.told) == ([], [])


def test_43_78_typing_and_receipts_are_for_the_others() -> None:
    line = ClientLine()
    session = line.open(chat="chat_abc")
    assert only(line.send("input.typing", is_typing=True), ShowTyping) == ShowTyping(session, "chat_abc", True)
    assert only(line.send("message.read", message_id="m"), MarkRead) == MarkRead(session, "chat_abc", "m")
    assert line.types() == ["session.created", "capabilities"]


def test_44_46_a_response_begins_once_and_ends_once() -> None:
    line = ClientLine()
    session = line.open()
    response = line.respond().response_id
    assert line.admit(session, delta(line, session, response)) == []
    assert line.admit(session, done(line, session, "other")) == []
    began = created(line, session, response)
    assert line.admit(session, began, began, delta(line, session, response)) == ["response.created", "response.delta"]
    cancelled = ResponseCancelled(**line.connection.head(session), response_id=response)
    ended = [done(line, session, response), cancelled, delta(line, session, response), began]
    assert line.admit(session, *ended) == ["response.done"]


def test_47_a_response_overrides_the_session_once() -> None:
    line = ClientLine()
    tool = {"type": "function", "function": {"name": "search"}}
    session = line.open(session={**PLAIN, "instructions": "A", "tools": [tool]})
    start = line.respond(response={"instructions": "B", "tools": []}, response_format={"type": "json_object"})
    assert (start.options.instructions, start.options.client_tools) == ("B", [])
    assert start.options.response_format == {"type": "json_object"}
    line.admit(session, created(line, session, start.response_id), done(line, session, start.response_id))
    again = line.respond().options
    assert (again.instructions, len(again.client_tools), again.response_format) == ("A", 1, None)


def test_48_one_response_at_a_time() -> None:
    line = ClientLine()
    session = line.open()
    response = line.respond().response_id
    line.send("input.text", text="next")
    assert line.respond_code() == "response_in_progress"
    line.admit(session, created(line, session, response), done(line, session, response))
    assert line.respond().given.messages[0].text() == "next"


def test_49_50_cancel_is_for_what_is_in_progress() -> None:
    line = ClientLine()
    session = line.open()
    only(line.send("response.cancel"), Ignored)
    response = line.respond().response_id
    only(line.send("response.cancel", response_id="other"), Ignored)
    assert only(line.send("response.cancel"), CancelResponse) == CancelResponse(session, response)
    only(line.send("response.cancel", response_id=response), Ignored)


def test_an_answer_in_sound_is_refused_without_a_voice() -> None:
    line = ClientLine()
    line.open(session={"modalities": ["text", "audio"]})
    assert line.respond_code(response={"modalities": ["audio"]}) == "unsupported_modality"
    line.respond()


def test_57_to_62_a_result_goes_to_its_call_once() -> None:
    line = ClientLine()
    session = line.open()
    response = line.respond().response_id
    line.admit(session, created(line, session, response), call(line, session, response))
    line.admit(session, call(line, session, response, "c2"))
    line.send("tool.result", call_id="c9", result="1")
    assert line.last["error"]["code"] == "unknown_call_id"
    answer = only(line.send("tool.result", call_id="c2", result="no", is_error=True), AnswerCall)
    assert (answer.response_id, answer.call_id, answer.result, answer.is_error) == (response, "c2", "no", True)
    assert only(line.send("tool.result", call_id="c1", result='{"t":22}'), AnswerCall).is_error is False
    only(line.send("tool.result", call_id="c1", result="again"), Ignored)


def test_57_an_id_that_comes_again_in_another_response_is_another_call() -> None:
    line = ClientLine()
    session = line.open()
    for _ in range(2):
        response = line.respond().response_id
        line.admit(session, created(line, session, response), call(line, session, response))
        assert only(line.send("tool.result", call_id="c1", result="1"), AnswerCall).response_id == response
        line.admit(session, done(line, session, response))


def test_62_a_result_that_could_not_be_taken_may_be_sent_again() -> None:
    line = ClientLine()
    session = line.open()
    response = line.respond().response_id
    line.admit(session, created(line, session, response), call(line, session, response))
    line.send("tool.result", call_id="c1", result="1")
    line.connection.session(session).gate.reopen("c1")
    only(line.send("tool.result", call_id="c1", result="1"), AnswerCall)


def test_66_a_result_after_the_end_is_ignored() -> None:
    line = ClientLine()
    session = line.open()
    response = line.respond().response_id
    line.admit(session, created(line, session, response), call(line, session, response))
    line.admit(session, ResponseCancelled(**line.connection.head(session), response_id=response))
    only(line.send("tool.result", call_id="c1", result="late"), Ignored)


def test_64_a_response_that_began_elsewhere_goes_on_here() -> None:
    line = ClientLine()
    session = line.open()
    line.connection.session(session).gate.resume("resp_1")
    assert line.admit(session, call(line, session, "resp_1"), delta(line, session, "resp_1")) == [
        "tool.call",
        "response.delta",
    ]
    only(line.send("tool.result", call_id="c1", result="1"), AnswerCall)


def test_68_71_a_payment_is_for_the_response_or_kept() -> None:
    line = ClientLine()
    line.open()
    payment = {"scheme": "token", "token": "tok", "amount": "1.00"}
    assert only(line.send("payment.submit", payment=payment), SubmitPayment).response_id is None
    response = line.respond().response_id
    submit = only(line.send("payment.submit", payment=payment), SubmitPayment)
    assert submit.response_id == response
    assert "tok'" not in repr(submit)


def test_74_voice_is_declined_without_a_backend() -> None:
    line = ClientLine()
    line.open()
    line.send("voice.invite", call_id="v")
    assert (line.last["type"], line.last["call_id"], line.last["reason"]) == ("voice.decline", "v", "unsupported")
    line.respond()


def test_74_voice_ends_once_and_the_session_goes_on() -> None:
    line = ClientLine(voice=True)
    session = line.open()
    invite = only(line.send("voice.invite", sdp="v=0"), InviteVoice)
    line.admit(session, VoiceAccept(**line.connection.head(session), call_id=invite.call_id))
    line.told.clear()
    assert only(line.send("voice.end"), EndVoice).call_id == invite.call_id
    assert (line.last["type"], line.last["duration_ms"]) == ("voice.end", 0)
    only(line.send("voice.end", call_id=invite.call_id), Ignored)
    assert len(line.told) == 1
    line.respond()


@pytest.mark.parametrize("kind", ["voice.accept", "voice.decline"])
def test_75_a_stray_answer_is_ignored(kind: str) -> None:
    line = ClientLine()
    line.open()
    only(line.send(kind, call_id="v"), Ignored)


def test_79_a_ping_is_answered_always() -> None:
    line = ClientLine()
    line.send("ping")
    assert line.types() == ["pong"]
    line.open()
    line.respond()
    line.send("ping")
    assert line.last["type"] == "pong"


def test_a_connection_holds_so_many_sessions() -> None:
    line = ClientLine(max_sessions=1)
    line.open()
    line.send("session.create", **ASK)
    assert (line.last["type"], line.last["error"]["code"]) == ("session.error", "rate_limited")


def test_a_retried_response_create_has_the_same_response() -> None:
    """The door keys the inbox by the event; so what is told of it must have the same name."""
    ids: set[str] = set()
    for _ in range(2):
        line = ClientLine()
        line.open(session={**PLAIN, "id": "sess_1"})
        ids.add(line.respond().response_id)
    assert len(ids) == 1
