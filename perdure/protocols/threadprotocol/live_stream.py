"""The event log of a run as the AI SDK's UI message stream, as the run goes on, with what a client needs for the thread.

Rows come in order and whole, folded ones as `perdure.runtime` unfolds them. What is stored on the way is handed in with its
actions (`settle`): each action is followed by its `data-tp-action` chunk. The same rows and messages give the same chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import cast

from perdure.protocols.threadprotocol.live_answer import AnswerTelling
from perdure.protocols.threadprotocol.live_blocks import Kind, LiveAnswer
from perdure.protocols.threadprotocol.live_calls import APPROVAL, CLIENT_TOOL, LiveCall, LiveCalls
from perdure.protocols.threadprotocol.live_results import result_chunks, result_notes, shown_files
from perdure.protocols.threadprotocol.models import AnyAction, AssistantMessageAction
from perdure.protocols.threadprotocol.stream_notes import NOTE_TYPE, drop_chunk, status_chunk
from perdure.protocols.threadprotocol.to_stream import FINISH_REASONS
from perdure.protocols.threadprotocol.ui_message import user_chunks
from perdure.protocols.uamp_events.log_row import LogRow
from perdure.uap.ids import scaffold_id
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.stream import StreamEvent, StreamEventType

_TEXT = (StreamEventType.TEXT_DELTA, StreamEventType.OBJECT_DELTA)
_STORED = ("run.started", "tool_execution_start", "observation", "input.joined")
_MOST_SCAFFOLDS = 8
"""Of one step: so many answers of its own a strategy has at most."""


class LiveStream:
    """Reads the rows of one run, one after the other.

    Attributes:
        calls: the tool calls so far.
        is_over: the run has ended.
    """

    def __init__(self, run: str, *, is_sequential: Callable[[str], bool] = lambda _: False) -> None:
        """Read rows of `run`, whose id is that of the UI message.

        Args:
            run: its id; rows of other runs are passed over.
            is_sequential: whether a tool of this name runs alone.
        """
        self.calls = LiveCalls(is_sequential)
        self.is_over = False
        self._run = run
        self._step = ""
        self._answers: dict[str, LiveAnswer] = {}
        self._settled: set[str] = set()
        self._noted: list[tuple[str, str]] = []
        self._asked = False
        self._finish: str | None = None

    def begin(self) -> list[JSONObject]:
        """The chunk that begins the UI message."""
        return [{"type": "start", "messageId": self._run}]

    def know_ids(self, used: Collection[str]) -> None:
        """These ids are other calls' of the conversation."""
        self.calls.used |= set(used)

    def take(self, row: LogRow) -> list[JSONObject]:
        """The chunks of the next row, but for what it says of stored messages, and for the run's end."""
        if row.run != self._run or self.is_over:
            return []
        match row.source:
            case "upp":
                return self._stream(StreamEvent.from_json({"type": row.type, **row.data}), row)
            case "run":
                return self._of_run(row)
            case _:
                return []

    def settle(self, ident: str, message: Message, actions: Sequence[AnyAction]) -> list[JSONObject]:
        """The chunks of a message that is stored now, as far as they have not been sent, with its actions' own.

        Args:
            ident: of its row.
            message: as it is stored.
            actions: its own, and the system actions before it.
        """
        if isinstance(message, AssistantMessage):
            telling = AnswerTelling(ident, self._answers.pop(ident, LiveAnswer()), self.calls)
            chunks = [*self._enter(ident), *telling.tell(message, actions)]
            said = [action for action in actions if isinstance(action, AssistantMessageAction)]
            self._finish = FINISH_REASONS.get(str(said[-1].finish_reason)) if said else self._finish
        elif isinstance(message, ToolResultMessage):
            chunks = result_notes(self.calls, actions)
        else:
            chunks = user_chunks(message, actions, steers=self._asked)
            self._asked = True
        self._settled.add(ident)
        return self._note(chunks)

    def rest(self) -> list[JSONObject]:
        """The chunks that end the stream while the run waits for the client."""
        return [*self._drop_left(), *self._leave(), {"type": "finish", "finishReason": "tool-calls"}]

    def end(self, row: LogRow) -> list[JSONObject]:
        """The chunks of the row that ends the run, once all that it has stored is settled."""
        self.is_over = True
        chunks = [*self._drop_left(), *self._leave()]
        if row.type == "run.cancelled":
            return [*chunks, {"type": "abort", "reason": "cancelled"}]
        if row.type == "run.failed":
            error = cast(JSONObject, row.data.get("error") or {})
            told: JSONObject = {"type": "error", "errorText": str(error.get("message") or "the run failed")}
            chunks += [drop_chunk(*named) for named in self._noted]  # the thread has nothing of a run that failed
            return [*chunks, told, drop_chunk("system.error", ""), {"type": "finish", "finishReason": "error"}]
        reason: JSONObject = {"finishReason": self._finish} if self._finish else {}
        return [*chunks, {"type": "finish"} | reason]

    def _note(self, chunks: list[JSONObject]) -> list[JSONObject]:
        """The same chunks; what they say of actions would be taken back if the run failed."""
        notes = [cast(JSONObject, chunk["data"]) for chunk in chunks if chunk["type"] == NOTE_TYPE]
        self._noted += [(str(note["action_type"]), str(note["ref"])) for note in notes]
        return chunks

    def _drop_left(self) -> list[JSONObject]:
        """The chunks that end what was told and is no part of the conversation."""
        answers, self._answers = list(self._answers.values()), {}
        ends = [chunk for answer in answers for chunk in answer.end()]
        blocks = [block for answer in answers for block in answer.blocks.values()]
        return ends + [drop_chunk(_ACTION[block.kind], block.id) for block in blocks]

    def _stream(self, event: StreamEvent, row: LogRow) -> list[JSONObject]:
        message = str(row.data.get("message", ""))
        if event.type is StreamEventType.TOOL_EXECUTION_END:
            return self._ended(message, event, row)
        if message in self._settled or event.type is StreamEventType.TOOL_EXECUTION_START:
            return []
        if event.type in _TEXT:
            kind: Kind = "reasoning" if self._is_own(message, row) else "text"
            return self._said(message, event, kind)
        match event.type:
            case StreamEventType.REASONING_DELTA:
                return self._said(message, event, "reasoning")
            case StreamEventType.TOOL_CALL_DELTA:
                return self._fragment(message, event)
            case StreamEventType.CONTENT_BLOCK_STOP if message in self._answers:
                return self._answers[message].end(event.index)
            case StreamEventType.MESSAGE_STOP if message in self._answers:
                return self._answers[message].end()
            case _:
                return []

    def _said(self, message: str, event: StreamEvent, kind: Kind) -> list[JSONObject]:
        if not event.delta.text:
            return []
        entered = self._enter(message)
        answer = self._answers.setdefault(message, LiveAnswer())
        return [*entered, *answer.take(message, event.index, kind, event.delta.text)]

    def _fragment(self, message: str, event: StreamEvent) -> list[JSONObject]:
        delta = event.delta
        call = self.calls.draft(message, event.index, delta.tool_call_id or "", delta.tool_name or "")
        if call is None or self.calls.is_held(message, call):
            return []
        chunks = self._enter(message)
        if not call.began:
            call.began = True
            chunks.append({"type": "tool-input-start", "toolCallId": call.id, "toolName": call.name})
        if delta.arguments_json:
            piece: JSONObject = {"toolCallId": call.id, "inputTextDelta": delta.arguments_json}
            chunks.append({"type": "tool-input-delta"} | piece)
        return chunks

    def _ended(self, message: str, event: StreamEvent, row: LogRow) -> list[JSONObject]:
        call = self.calls.at(message, event.index)
        if call is None or call.is_over:
            return []
        told = result_chunks(call, event.delta.result, is_error=bool(event.delta.is_error))
        return [*told, *shown_files(row.data), *self._note(self.calls.begin(message))]

    def _of_run(self, row: LogRow) -> list[JSONObject]:
        wait = row.data.get("wait")
        call = self.calls.waiting(wait) if isinstance(wait, str) else None
        match row.type:
            case "message.reset":
                return self._reset(str(row.data.get("message", "")))
            case "run.parked":
                return self._parked(call, row)
            case "run.resumed" if row.data.get("reason") not in (APPROVAL, CLIENT_TOOL):
                return [status_chunk({"status": "running", "reason": row.data.get("reason")})]
            case "wait.answered" if call is not None:
                return self._answered(call, row)
            case _:
                return []

    def _reset(self, message: str) -> list[JSONObject]:
        """The model begins its answer anew: what was told of it is taken back."""
        told = self._answers.pop(message, None) is not None
        told = self.calls.forget(message) or told
        return [{"type": "reset-step"}] if told and self._step == message else []

    def _parked(self, call: LiveCall | None, row: LogRow) -> list[JSONObject]:
        reason, wait = str(row.data.get("reason") or "waiting"), row.data.get("wait")
        if call is None or reason not in (APPROVAL, CLIENT_TOOL):
            return [status_chunk({"status": "waiting", "reason": reason, "wait": wait})]
        call.wait, call.kind, call.waits = str(wait), reason, True
        if reason == CLIENT_TOOL:
            return []
        return [{"type": "tool-approval-request", "approvalId": call.wait, "toolCallId": call.id}]

    def _answered(self, call: LiveCall, row: LogRow) -> list[JSONObject]:
        call.waits = False
        if call.kind != APPROVAL:
            return []
        call.denied = row.data.get("decision") in ("reject", "expired")
        return [{"type": "tool-approval-response", "approvalId": call.wait, "approved": not call.denied}]

    def _is_own(self, message: str, row: LogRow) -> bool:
        """Whether an answer is the strategy's own, and no part of the conversation."""
        step = getattr(row, "step", None) or 0
        return any(scaffold_id(self._run, step, place) == message for place in range(_MOST_SCAFFOLDS))

    def _enter(self, message: str) -> list[JSONObject]:
        if self._step == message:
            return []
        chunks = self._leave()
        self._step = message
        return [*chunks, {"type": "start-step"}]

    def _leave(self) -> list[JSONObject]:
        if not self._step:
            return []
        answer, self._step = self._answers.get(self._step), ""
        return [*(answer.end() if answer else []), {"type": "finish-step"}]


_ACTION: dict[Kind, str] = {"text": "assistant_message", "reasoning": "thinking"}


def settled_by(row: LogRow) -> str | None:
    """The id of the message that was stored by the time of a row; None if the row tells of none.

    Of a run that has ended all are.
    """
    message = row.data.get("message")
    return message if row.type in _STORED and isinstance(message, str) else None
