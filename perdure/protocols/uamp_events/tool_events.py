"""The events of a response's tool calls: those that the server runs are told, those of the client are asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from perdure.protocols.uamp_events.content_items import MediaItem
from perdure.protocols.uamp_events.conversation import arguments_text
from perdure.protocols.uamp_events.log_row import RowHeads
from perdure.protocols.uamp_events.server_events import (
    Progress,
    ResponseDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallEvent,
    ToolOutcome,
    ToolResultDelta,
)
from perdure.protocols.uamp_events.tool_story import Call, ToolStory
from perdure.upp.json_value import JSONValue
from perdure.upp.stream import EventDelta
from perdure.upp.tool_call import ToolCall, ToolResult

Told: TypeAlias = list[ResponseDelta | ToolCallDone | ToolCallEvent | Progress]


class ToolEvents:
    """The calls of one response, and what is told of them."""

    def __init__(self, response_id: str, client_tools: Collection[str], runs_alone: Callable[[str], bool]) -> None:
        """Tell of calls in a response; see `ToolStory`."""
        self._response_id = response_id
        self._story = ToolStory(client_tools, runs_alone)
        self._asked: dict[str, ToolCallEvent] = {}

    @property
    def open_waits(self) -> dict[str, str]:
        """By call id, the wait that the client's result answers."""
        return {call.id: str(call.wait) for call in self._story.open_calls()}

    @property
    def asked(self) -> dict[str, bool]:
        """By id, the calls that the client was asked to run, and whether there is a result."""
        owed = self.open_waits
        return {call: call not in owed for call in self._asked}

    @property
    def waits_for_client(self) -> bool:
        """Whether the calls that run now are over or asked for, and at least one is asked for."""
        return self._story.waits_for_client()

    def reminders(self) -> list[ToolCallEvent]:
        """The tool.call events that are still to be answered, as they were."""
        return [self._asked[call.id] for call in self._story.open_calls()]

    def take_back(self, message: str) -> None:
        """A message begins anew: its fragments count no more."""
        self._story.take_back(message)

    def fragment(self, heads: RowHeads, delta: EventDelta, message: str, index: int) -> Told:
        """A piece of a call's arguments."""
        call = self._story.streamed(message, index, delta.tool_call_id or "", delta.tool_name or "")
        if call is None:
            return []
        call.pieces.append(delta.arguments_json or "")
        return [] if call.is_clients else [self._piece(heads, call, call.pieces[-1])]

    def action(self, heads: RowHeads, calls: list[JSONValue]) -> Told:
        """The calls of a message, whole; told to those who were given no pieces."""
        told: Told = []
        for item in calls:
            asked = ToolCall.from_json(item)
            call = self._story.call(asked.tool_call_id, asked.tool_name)
            call.whole = asked
            if not call.is_clients and not call.pieces:
                call.pieces.append(arguments_text(asked))
                told.append(self._piece(heads, call, call.pieces[0]))
        return told

    def began(self, heads: RowHeads, delta: EventDelta, message: str, index: int) -> Told:
        """A call is being run, or waited for."""
        call = self._story.call(delta.tool_call_id or "", delta.tool_name or "")
        self._story.placed(message, index, call)
        return [] if call.is_clients else [self._progress(heads, call, "started")]

    def ended(self, heads: RowHeads, delta: EventDelta, media: Sequence[MediaItem] = ()) -> Told:
        """A call has its result, and perhaps media with it; the client knows its own."""
        call = self._story.call(delta.tool_call_id or "", delta.tool_name or "")
        call.is_over = True
        if call.is_clients:
            return []
        failed = bool(delta.is_error)
        text = ToolResult(call.id, delta.result, failed).text
        status = "error" if failed else "success"
        outcome = ToolOutcome(call_id=call.id, result=text, status=status, content_items=[*media] or None)
        done = ToolResultDelta(tool_result=outcome)
        return [
            ResponseDelta(**heads.next(), response_id=self._response_id, delta=done),
            ToolCallDone(**heads.next(), call_id=call.id),
        ]

    def parked(self, heads: RowHeads, wait: str) -> Told | None:
        """The run waits for a call: for its result if the client runs it. None if it waits for something else."""
        call = self._story.waiting(wait)
        if call is None:
            return None
        if not call.is_clients:
            return [self._progress(heads, call, "waiting")]
        call.wait = wait
        if call.id in self._asked:
            return []
        arguments = "".join(call.pieces) if call.whole is None else arguments_text(call.whole)
        asked = ToolCallEvent(
            **heads.next(),
            call_id=call.id,
            name=call.name,
            arguments=arguments or "{}",
            response_id=self._response_id,
        )
        self._asked[call.id] = asked
        return [asked]

    def _piece(self, heads: RowHeads, call: Call, text: str) -> ResponseDelta:
        delta = ToolCallDelta(tool_call=call.called(text))
        return ResponseDelta(**heads.next(), response_id=self._response_id, delta=delta)

    def _progress(self, heads: RowHeads, call: Call, stage: str) -> Progress:
        return Progress(**heads.next(), target="tool", target_id=call.id, stage=stage, message=call.name)
