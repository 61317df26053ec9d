"""Media of tools in a response: told with the result, put out if it is presented; and no URL of it in text."""

from __future__ import annotations

from perdure.protocols.uamp_events.conversation import from_upp
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, ToolResultMessage
from perdure.upp.stream import StreamEventType, message_stop
from perdure.upp.tool_call import ToolResult
from perdure.upp.tool_media import ToolContent, ToolMedia
from tests.unit.protocols.uamp_events.logged_run import LoggedRun, Row
from tests.unit.protocols.uamp_events.test_response_flow import deltas, told, types

A, B = "550e8400-e29b-41d4-a716-446655440000", "123e4567-e89b-42d3-a456-426614174000"
CALL = ("c1", "draw", "{}")
CONTENT = ToolContent((
    ToolMedia("image/png", b"png", content_id=A, description="a red square"),
    ToolMedia("application/zip", b"zip", content_id=B, filename="a.zip"),
))  # fmt: skip
IMAGE = {
    "type": "image", "image": {"url": f"/api/content/{A}"}, "format": "png", "alt_text": "a red square", "content_id": A,
}  # fmt: skip
FILE = {
    "type": "file", "file": {"url": f"/api/content/{B}"}, "filename": "a.zip", "mime_type": "application/zip",
    "size_bytes": 3, "content_id": B,
}  # fmt: skip


def returned(log: LoggedRun, *, presented: bool = False) -> Row:
    """The row of a tool that has returned the media."""
    delta: JSONObject = {"toolCallId": "c1", "toolName": "draw", "result": CONTENT.result("ok"), "isError": False}
    data: JSONObject = {
        "message": "m1",
        "index": 0,
        "delta": {**delta, "timestamp": 1},
        "contentItems": CONTENT.to_json(),
    }
    return log.row(
        "upp", StreamEventType.TOOL_EXECUTION_END.value, {**data, **({"presented": True} if presented else {})}
    )


def test_media_is_told_with_the_result_that_it_came_with() -> None:
    log = LoggedRun()
    events = told([*log.calls(CALL), returned(log), *log.says("Done.", message="m2"), log.completed()])
    (result,) = deltas(events, "tool_result")
    assert result["content_items"] == [IMAGE, FILE]
    assert result["status"] == "success"
    assert events[-1]["response"]["output"] == [{"type": "text", "text": "Done."}]


def test_what_is_presented_is_output_once() -> None:
    log = LoggedRun()
    events = told([
        *log.calls(CALL), returned(log, presented=True), returned(log, presented=True), *log.says("Done.", message="m2"),
        log.completed(),
    ])  # fmt: skip
    assert events[-1]["response"]["output"] == [{"type": "text", "text": "Done."}, IMAGE, FILE]


def test_a_url_that_is_split_over_deltas_is_in_none_of_them() -> None:
    """45: and the deltas are the output all the same."""
    log = LoggedRun()
    text = f"See ![the square](/api/content/{A}?signature=x) and http"
    rows = [*log.says(*text), log.upp(message_stop()), log.completed()]
    events = told(rows)
    said = "".join(deltas(events, "text"))
    assert said == "See the square and http"
    assert events[-1]["response"]["output"] == [{"type": "text", "text": said}]
    assert told(rows) == events


def test_held_text_is_told_before_what_follows_it() -> None:
    log = LoggedRun()
    events = told([*log.says("I draw /api/"), *log.calls(CALL), log.completed()])
    kinds = types(events)
    assert "".join(deltas(events, "text")) == "I draw /api/"
    first = next(place for place, event in enumerate(events) if event.get("delta", {}).get("type") == "tool_call")
    assert all(event.get("delta", {}).get("type") != "text" for event in events[first:])
    assert kinds[-1] == "response.done"


def test_a_message_that_begins_anew_takes_back_what_was_held() -> None:
    log = LoggedRun()
    again = log.of_run("message.reset", message="m1", attempt=2)
    events = told([*log.says("See /api/"), again, *log.says("Fine."), log.completed()])
    assert events[-1]["response"]["output"] == [{"type": "text", "text": "Fine."}]


def test_the_stored_answer_is_told_without_urls_too() -> None:
    log = LoggedRun()
    answer = AssistantMessage(f"It is at /api/content/{A}.", id="m1")
    from tests.unit.protocols.uamp_events.test_response_flow import flow

    reader = flow()
    rows = [log.of_run("run.started"), log.completed()]
    events = [event for row in rows for event in reader.take(row, answer=answer)]
    assert "/api/content/" not in "".join(str(event.to_json()) for event in events)
    assert reader.text == f"It is at content:{A}."


def test_a_stored_result_shows_its_media_as_items() -> None:
    """Where a whole conversation is told, so that delegation finds the ids."""
    wire = from_upp(ToolResultMessage([ToolResult("c1", CONTENT.result("ok"))])).to_json()
    (item,) = wire["content_items"]  # type: ignore[misc]
    assert item["tool_result"]["content_items"] == [IMAGE, FILE]  # type: ignore[index, call-overload]
