"""A run's events as a person reads them."""

from __future__ import annotations

from datetime import UTC, datetime

from perdure.cli.transcript import Transcript
from perdure.store.events import Event
from perdure.uap.events import action_data
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage
from perdure.upp.stream import StreamEvent, text_delta, tool_execution_end
from perdure.upp.tool_call import ToolCall


def event(kind: str, data: JSONObject) -> Event:
    return Event("s", 1, "r", 1, 1, "run", kind, data, datetime(2026, 1, 1, tzinfo=UTC))


def streamed(part: StreamEvent, message: str = "m") -> Event:
    return event(part.type.value, {"message": message, "index": part.index, "delta": part.delta.to_json()})


def shown(*events: Event) -> str:
    """What a reader of a terminal sees: what is said in brackets, lines apart from the text."""
    seen: list[str] = []
    transcript = Transcript(seen.append, lambda line: seen.append(f"[{line}]\n"))
    for item in events:
        transcript.show(item)
    return "".join(seen)


END = event("run.completed", {})


def test_pieces_make_a_line() -> None:
    assert shown(streamed(text_delta("Hel")), streamed(text_delta("lo")), END) == "Hello\n"


def test_a_text_that_ends_its_line_gets_no_other() -> None:
    assert shown(streamed(text_delta("Hello\n")), END) == "Hello\n"


def test_messages_and_blocks_are_apart() -> None:
    events = [streamed(text_delta("one", 0)), streamed(text_delta("two", 1)), streamed(text_delta("three"), "n")]
    assert shown(*events, END) == "one\ntwo\nthree\n"


def test_tools_have_lines_of_their_own() -> None:
    """What is said never stands in the middle of the answer's line."""
    message = AssistantMessage([], [ToolCall("c", "add", {"a": 1})])
    events = [
        streamed(text_delta("Adding")),
        event("action", action_data(message)),
        streamed(tool_execution_end("c", "add", 3, False, 0)),
        streamed(tool_execution_end("d", "add", "no", True, 0)),
    ]
    assert shown(*events) == 'Adding\n[-> add {"a": 1}]\n[<- add 3]\n[<- add error: no]\n'


def test_a_reset_makes_the_text_so_far_void() -> None:
    reset = event("message.reset", {"message": "m", "attempt": 2})
    seen = shown(streamed(text_delta("Hel")), reset, streamed(text_delta("Hello")), END)
    assert seen.startswith("Hel\n[the text")
    assert "void" in seen
    assert seen.endswith("]\nHello\n")


def test_a_reset_before_any_text_voids_nothing() -> None:
    reset = event("message.reset", {"message": "n", "attempt": 2})
    seen = shown(streamed(text_delta("one")), reset)
    assert "void" not in seen
    assert "asked again" in seen


def test_a_parked_run_says_what_to_do() -> None:
    assert "perdure sessions resume s" in shown(event("run.parked", {"reason": "paused"}))
    assert "perdure waits list --session s" in shown(event("run.parked", {"reason": "outcome", "wait": "w"}))
    assert shown(event("run.resumed", {"reason": "paused"})) == "[the run goes on]\n"


def test_other_events_are_silent() -> None:
    assert shown(event("step_start", {"stepNumber": 1}), event("of a later version", {})) == ""
