"""A run's rows and messages as the UI message stream: told once, taken back where they began anew, read back as the thread."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from perdure.protocols.threadprotocol.canonical import canonical_bytes
from perdure.protocols.threadprotocol.from_stream import StreamReader
from perdure.protocols.threadprotocol.from_tree import Reading, Telling
from perdure.protocols.threadprotocol.live_stream import LiveStream, settled_by
from perdure.protocols.threadprotocol.models import AgentConfig, AnyAction
from perdure.protocols.threadprotocol.recording import Recording
from perdure.protocols.threadprotocol.ui_parts import ui_parts
from perdure.uap.ids import scaffold_id, wait_id
from perdure.upp.content import ReasoningBlock, TextBlock
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult
from tests.unit.protocols.threadprotocol.threads import FRED, START

RUN, ANSWER, LATER = "run-1", "answer-1", "answer-2"
AT = datetime(2025, 1, 15, 10, tzinfo=UTC)
ASKED: JSONObject = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}


@dataclass(frozen=True)
class Row:
    """A row of the log."""

    source: str
    type: str
    data: JSONObject = field(default_factory=dict[str, Any])
    run: str | None = RUN
    seq: int = 1
    step: int = 1
    at: datetime = AT


def upp(kind: str, message: str = ANSWER, index: int = 0, **delta: Any) -> Row:
    return Row("upp", kind, {"message": message, "index": index, "delta": delta})


def says(text: str, message: str = ANSWER, index: int = 0) -> list[Row]:
    return [upp("text_delta", message, index, text=text)]


def run(event: str, **data: Any) -> Row:
    return Row("run", event, data)


class Told:
    """A run as it goes: rows and stored messages in, chunks out."""

    def __init__(self, *sequential: str) -> None:
        agent = AgentConfig(agent_id=FRED, agent_identifier="fred", agent_name="Fred", created_at=START)
        self.reading = Reading(Telling([agent]), Recording(not_before=START))
        self.live = LiveStream(RUN, is_sequential=sequential.__contains__)
        self.chunks = self.live.begin()
        self.store("input", UserMessage("hi", metadata={"ai-sdk": {"id": "u1"}}, timestamp=AT))

    def rows(self, *rows: Row) -> None:
        for row in rows:
            self.chunks += self.live.take(row)

    def store(self, ident: str, message: Message) -> None:
        before = len(self.reading.recording.actions)
        self.reading.take(message, ident)
        self.chunks += self.live.settle(ident, message, self.reading.recording.actions[before:])

    def answer(self, *content: Any, calls: Sequence[ToolCall] = (), ident: str = ANSWER) -> None:
        self.store(ident, AssistantMessage(list(content), list(calls) or None, timestamp=AT))

    def end(self, event: str = "run.completed", **data: Any) -> None:
        self.chunks += self.live.end(run(event, **data))

    @property
    def kinds(self) -> list[str]:
        return [str(chunk["type"]) for chunk in self.chunks if chunk.get("transient") is not True]

    def read(self) -> list[AnyAction]:
        reader = StreamReader(agent_id="nobody", not_before=START)
        reader.take_user(ASKED)
        for chunk in self.chunks:
            reader.take(json.loads(json.dumps(chunk)))
        return reader.actions()

    def check_same(self) -> None:
        """A reader makes the thread's own actions."""
        made = [canonical_bytes(action) for action in self.reading.recording.actions]
        assert [canonical_bytes(action) for action in self.read()] == made

    @property
    def shown(self) -> str:
        return "".join(str(part["text"]) for part in ui_parts(self.chunks) if part["type"] == "text")


CALL = ToolCall("c1", "search", {"q": 1})


def test_an_answer_is_told_as_it_comes_and_once() -> None:
    told = Told()
    told.rows(upp("reasoning_delta", text="hm"), upp("content_block_stop"), *says("Hel", index=1), *says("lo", index=1))
    told.rows(upp("message_stop"))
    told.answer(ReasoningBlock("hm"), TextBlock("Hello"))
    told.end()
    assert told.kinds == [
        "start", "start-step", "reasoning-start", "reasoning-delta", "reasoning-end", "text-start", "text-delta", "text-delta",
        "text-end", "data-agent_join", "finish-step", "finish",
    ]  # fmt: skip
    told.check_same()


def test_an_answer_of_which_nothing_came_is_told_whole() -> None:
    told = Told()
    told.answer(ReasoningBlock("hm"), TextBlock("Hello"), calls=[CALL])
    told.store("results", ToolResultMessage([ToolResult("c1", {"n": 1})], timestamp=AT))
    told.end()
    assert told.shown == "Hello"
    told.check_same()


def test_what_began_anew_is_taken_back() -> None:
    told = Told()
    told.rows(*says("Wrong"), run("message.reset", message=ANSWER), *says("Right"))
    told.answer(TextBlock("Right"))
    told.end()
    assert "reset-step" in told.kinds
    told.check_same()


def test_a_reset_of_what_was_not_told_takes_nothing_back() -> None:
    told = Told()
    told.rows(*says("One"))
    told.answer(TextBlock("One"), calls=[CALL])
    told.rows(run("message.reset", message=LATER))
    assert "reset-step" not in told.kinds


def test_an_answer_that_is_stored_otherwise_is_told_anew() -> None:
    told = Told()
    told.rows(*says("What the model said"))
    told.answer(TextBlock("What the guard made of it"))
    told.end()
    assert "reset-step" in told.kinds
    told.check_same()


def test_a_strategys_own_answer_is_shown_as_reasoning_and_is_no_action() -> None:
    told = Told()
    told.rows(*says("I ought to", scaffold_id(RUN, 1)), *says("Hello"))
    told.answer(TextBlock("Hello"))
    told.end()
    assert told.shown == "Hello"
    assert "reasoning-delta" in told.kinds
    told.check_same()


def test_a_run_that_failed_leaves_no_action() -> None:
    told = Told()
    told.rows(*says("Hello"))
    told.answer(TextBlock("Hello"), calls=[CALL])
    told.end("run.failed", error={"message": "no more money"})
    assert told.chunks[-1] == {"type": "finish", "finishReason": "error"}
    assert {"type": "error", "errorText": "no more money"} in told.chunks
    assert told.read() == []


def test_a_cancelled_run_ends_with_an_abort_and_keeps_what_is_stored() -> None:
    told = Told()
    told.rows(*says("Hel"))
    told.answer(TextBlock("Hel"))
    told.end("run.cancelled")
    assert told.chunks[-1]["type"] == "abort"
    told.check_same()


def test_an_approval_is_asked_for_answered_and_told_as_denied() -> None:
    told, wait = Told(), wait_id(ANSWER, 0)
    told.answer(calls=[CALL])
    told.rows(run("run.parked", reason="approval", wait=wait))
    assert [call.wait for call in told.live.calls.resting()] == [wait]
    told.rows(
        run("wait.answered", wait=wait, kind="approval", decision="reject"), run("run.resumed", reason="approval")
    )
    told.rows(upp("tool_execution_end", toolCallId="c1", toolName="search", result="A person said no", isError=True))
    assert told.live.calls.resting() == []
    told.store("results", ToolResultMessage([ToolResult("c1", "A person said no", True)], timestamp=AT))
    told.end()
    assert told.kinds[-6:-1] == [
        "tool-input-available", "tool-approval-request", "tool-approval-response", "tool-output-denied", "finish-step",
    ]  # fmt: skip
    told.check_same()


def test_a_run_rests_only_when_nothing_else_can_go_on() -> None:
    told = Told()
    told.answer(calls=[CALL, ToolCall("c2", "look", {})])
    told.rows(run("run.parked", reason="client_tool", wait=wait_id(ANSWER, 0)))
    assert told.live.calls.resting() == []
    told.rows(upp("tool_execution_end", index=1, toolCallId="c2", toolName="look", result=1, isError=False))
    assert len(told.live.calls.resting()) == 1


def test_a_call_that_has_not_begun_is_held_until_its_turn() -> None:
    """A client that answers by itself waits for all calls of a step that it knows of."""
    told = Told("search")
    told.answer(calls=[CALL, ToolCall("c2", "search", {})])
    assert told.kinds.count("tool-input-available") == 1
    told.rows(run("run.parked", reason="approval", wait=wait_id(ANSWER, 0)))
    assert len(told.live.calls.resting()) == 1
    told.rows(upp("tool_execution_end", toolCallId="c1", toolName="search", result=1, isError=False))
    assert told.kinds.count("tool-input-available") == 2
    told.rows(upp("tool_execution_end", index=1, toolCallId="c2", toolName="search", result=2, isError=False))
    told.store("results", ToolResultMessage([ToolResult("c1", 1), ToolResult("c2", 2)], timestamp=AT))
    told.end()
    told.check_same()


def test_ids_that_come_again_are_kept_apart() -> None:
    told = Told()
    told.live.know_ids({"c1"})
    told.answer(calls=[CALL, CALL])
    asked = [chunk["toolCallId"] for chunk in told.chunks if chunk["type"] == "tool-input-available"]
    assert asked == ["c1~2", "c1~3"]
    told.store("results", ToolResultMessage([ToolResult("c1", 1), ToolResult("c1", 2)], timestamp=AT))
    told.end()
    told.check_same()


def test_a_message_that_joins_the_run_is_told_as_steering() -> None:
    told = Told()
    told.answer(TextBlock("One"), calls=[CALL])
    told.store("results", ToolResultMessage([ToolResult("c1", 1)], timestamp=AT))
    told.store("steer", UserMessage("and now?", id="m9", timestamp=AT))
    told.answer(TextBlock("Two"), ident=LATER)
    told.end()
    assert "steering-message" in told.kinds
    told.check_same()


def test_urls_of_stored_content_are_not_shown_and_the_thread_keeps_its_words() -> None:
    url = "/api/content/0a4c9d6e-52a1-4c8e-8a34-8c3e7f1f2a10"
    told = Told()
    told.rows(*says(f"See ![it]({url[:20]}"), *says(f"{url[20:]}) now"))
    told.answer(TextBlock(f"See ![it]({url}) now"))
    told.end()
    assert told.shown == "See it now"
    told.check_same()


def test_what_a_tool_shows_is_a_file_and_no_ones_words() -> None:
    told = Told()
    told.answer(calls=[CALL])
    item: JSONObject = {
        "type": "image",
        "content_id": "0a4c9d6e-52a1-4c8e-8a34-8c3e7f1f2a10",
        "media_type": "image/png",
    }
    end = upp("tool_execution_end", toolCallId="c1", toolName="search", result=1, isError=False)
    told.rows(Row("upp", end.type, {**end.data, "contentItems": [item], "presented": True}))
    told.store("results", ToolResultMessage([ToolResult("c1", 1)], timestamp=AT))
    told.end()
    assert "file" in told.kinds
    told.check_same()


def test_rows_of_other_runs_and_after_the_end_tell_nothing() -> None:
    told = Told()
    told.answer(TextBlock("a"))
    told.end()
    before = list(told.chunks)
    told.rows(*says("more"), Row("upp", "text_delta", says("x")[0].data, run="other"))
    assert told.chunks == before
    assert settled_by(run("run.started", message="m")) == "m"
    assert settled_by(run("run.parked", message="m")) is None
