"""The Vercel AI SDK's UI message stream as actions, chunk by chunk.

Chunks are JSON objects; SSE and its framing are the caller's. Where the deltas are cut makes no difference. What the user
says is not in the stream: `take_user` takes it from the request's UI message.
Source: ThreadProtocol 1.0.0, Vercel AI SDK Stream → ThreadProtocol.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Literal

from perdure.protocols.threadprotocol.content import media_part
from perdure.protocols.threadprotocol.finished_stream import finished_actions
from perdure.protocols.threadprotocol.models import AnyAction
from perdure.protocols.threadprotocol.problem import refuse
from perdure.protocols.threadprotocol.recording import json_args
from perdure.protocols.threadprotocol.stream_chunk import data_type, is_shown_only, read_moment, read_text, unknown_call
from perdure.protocols.threadprotocol.stream_drafts import Block, Draft
from perdure.protocols.threadprotocol.stream_notes import DROP_TYPE, NOTE_TYPE, RESERVED, Note, read_drop, read_note
from perdure.protocols.threadprotocol.stream_thinking import read_provider_metadata
from perdure.protocols.threadprotocol.ui_message import read_user_message
from perdure.upp.json_value import JSONObject, JSONValue

_FINISH = {"stop": "stop", "length": "length", "content-filter": "content_filter", "tool-calls": "tool_call"}
DENIED = "The call was denied."


class StreamReader:
    """The actions of one stream: of one run, or of what a client saw of it.

    Attributes:
        ended: "finish" or "abort" when such a chunk came; None while the stream goes on, or if it broke off.
    """

    def __init__(self, *, agent_id: str, not_before: str, first: int = 1) -> None:
        """A reader at the stream's beginning.

        Args:
            agent_id: whose stream it is, where no `data-tp-action` chunk says so.
            not_before: the time of the thread's last action, or its creation.
            first: the first action's number, where no `data-tp-action` chunk says so.
        """
        self.ended: Literal["finish", "abort"] | None = None
        self._agent_id, self._not_before, self._first = agent_id, not_before, first
        self._at: str | None = None
        self._drafts: list[Draft] = []
        self._by_ref: dict[tuple[str, str], Draft] = {}
        self._step = 0
        self._has_steps = self._was_answered = False
        self._open: dict[tuple[str, str], tuple[Block, Draft]] = {}
        self._names: dict[str, str] = {}
        self._reasons: dict[str, str] = {}
        self._asked: dict[str, str] = {}
        self._notes: dict[tuple[str, str], Note] = {}

    def take_user(self, message: JSONObject) -> None:
        """Takes a user's UI message, as it stands in the request of the stream.

        Raises:
            InvalidThread: it is none.
        """
        self._drafts.append(Draft("user_message", [str(message.get("id", ""))], -1, read_user_message(message)))

    def take(self, chunk: JSONValue) -> None:
        """Takes the next chunk; types that are not known are passed over.

        Raises:
            InvalidThread: it is no chunk, or speaks of a block or call that was not begun.
        """
        if not isinstance(chunk, dict) or not isinstance(kind := chunk.get("type"), str):
            raise refuse("chunk", "stream", "it is no object with a type", "send UI message stream chunks")
        if kind.startswith("data-"):
            self._take_data(kind, chunk)
        elif kind in _TAKES:
            _TAKES[kind](self, chunk)

    def actions(self) -> list[AnyAction]:
        """The actions so far, in order.

        After `finish` a call without a return stays, since it may still be answered. If the stream was aborted or broke
        off, blocks that did not end and calls without a return are left out.

        Raises:
            InvalidThread: a chunk held something that no action can.
        """
        complete = self.ended == "finish"
        return finished_actions(
            self._drafts, self._notes, self._agent_id, self._at, self._not_before, self._first, complete=complete
        )

    def start_block(self, chunk: JSONObject) -> None:
        self._go_on()
        kind, name = str(chunk["type"]).removesuffix("-start"), read_text(chunk, "id")
        block = Block()
        draft = self._message(name) if kind == "text" else self._draft("thinking", name)
        draft.said.append(block)
        self._open[kind, name] = block, draft
        self._learn(draft, chunk)

    def add_delta(self, chunk: JSONObject) -> None:
        block, draft = self._opened(str(chunk["type"]).removesuffix("-delta"), read_text(chunk, "id"))
        block.deltas.append(read_text(chunk, "delta"))
        self._learn(draft, chunk)

    def end_block(self, chunk: JSONObject) -> None:
        kind, name = str(chunk["type"]).removesuffix("-end"), read_text(chunk, "id")
        block, draft = self._opened(kind, name)
        block.is_complete = True
        del self._open[kind, name]
        self._learn(draft, chunk)

    def start_input(self, chunk: JSONObject) -> None:
        self._names[read_text(chunk, "toolCallId")] = read_text(chunk, "toolName")

    def add_input(self, chunk: JSONObject) -> None:
        if read_text(chunk, "toolCallId") not in self._names:
            raise unknown_call(chunk)

    def call(self, chunk: JSONObject) -> None:
        call_id = read_text(chunk, "toolCallId")
        draft = self._find("tool_call", call_id)
        if draft is None:
            self._go_on()
            draft = self._draft("tool_call", call_id)
        self._names[call_id] = read_text(chunk, "toolName")
        fields: JSONObject = {"tool_name": self._names[call_id], "args": json_args(chunk.get("input"))}
        draft.fields |= {"tool_call_id": call_id, **fields}
        if chunk.get("providerExecuted") is True:
            draft.fields["provider_executed"] = True

    def refuse_input(self, chunk: JSONObject) -> None:
        self.call(chunk)
        self._give_back(chunk, "validation_error", chunk.get("errorText"))

    def give_back(self, chunk: JSONObject) -> None:
        if chunk.get("preliminary") is not True:
            self._give_back(chunk, "success", chunk.get("output"))

    def fail(self, chunk: JSONObject) -> None:
        before = self._find("tool_return", read_text(chunk, "toolCallId"))
        if before is None or before.fields["status"] != "validation_error":  # its refused input is told twice
            self._give_back(chunk, "error", chunk.get("errorText"))

    def deny(self, chunk: JSONObject) -> None:
        reason = self._reasons.get(read_text(chunk, "toolCallId"), DENIED)
        self._give_back(chunk, "error", reason).fields["outcome"] = "denied"

    def ask_approval(self, chunk: JSONObject) -> None:
        self._asked[read_text(chunk, "approvalId")] = read_text(chunk, "toolCallId")

    def note_approval(self, chunk: JSONObject) -> None:
        asked = self._asked.get(str(chunk.get("approvalId")))
        call_id, reason = chunk.get("toolCallId", asked), chunk.get("reason")
        if isinstance(call_id, str) and isinstance(reason, str):
            self._reasons[call_id] = reason

    def report(self, chunk: JSONObject) -> None:
        """A bare error: of the only open call if there is one, else of nobody."""
        calls = [draft.refs[0] for draft in self._drafts if draft.action_type == "tool_call"]
        open_calls = [call_id for call_id in calls if self._find("tool_return", call_id) is None]
        if len(open_calls) == 1:
            self._give_back({"toolCallId": open_calls[0]}, "error", chunk.get("errorText"))
        else:
            self._draft("system.error", "").fields["data"] = {"message": chunk.get("errorText")}

    def steer(self, chunk: JSONObject) -> None:
        self.take_user({"id": chunk.get("id"), "role": "user", "parts": chunk.get("parts")})

    def add_source(self, chunk: JSONObject) -> None:
        kind = "system.custom" if chunk["type"] == "custom" else "system.source"
        fields = chunk if kind == "system.source" else {k: v for k, v in chunk.items() if k != "type"}
        self._draft(kind, str(chunk.get("sourceId", ""))).fields["data"] = dict(fields)

    def add_file(self, chunk: JSONObject) -> None:
        if is_shown_only(chunk.get("providerMetadata")):
            return  # a tool's, whose return names it
        self._message("").said.append(media_part(read_text(chunk, "mediaType"), url=read_text(chunk, "url")))

    def start_step(self, _: JSONObject) -> None:
        self._has_steps = True
        self._step += 1

    def finish_step(self, _: JSONObject) -> None:
        for block, _draft in self._open.values():
            block.is_complete = True
        self._open.clear()
        self._step += 1

    def reset_step(self, _: JSONObject) -> None:
        self._drafts = [draft for draft in self._drafts if draft.step != self._step]
        self._by_ref = {(draft.action_type, draft.refs[0]): draft for draft in self._drafts}
        self._open.clear()

    def learn_metadata(self, chunk: JSONObject) -> None:
        self._at = read_moment(chunk.get("messageMetadata")) or self._at

    def finish(self, chunk: JSONObject) -> None:
        self.finish_step(chunk)
        self.learn_metadata(chunk)
        self.ended = "finish"
        said = [draft for draft in self._drafts if draft.action_type == "assistant_message"]
        reason = _FINISH.get(str(chunk.get("finishReason")))
        if said and reason is not None:
            said[-1].fields["finish_reason"] = reason

    def abort(self, _: JSONObject) -> None:
        self.ended = "abort"

    def _take_data(self, kind: str, chunk: JSONObject) -> None:
        if kind == NOTE_TYPE:
            key, note = read_note(chunk.get("data"))
            self._notes[key] = note
        elif kind == DROP_TYPE:
            named = read_drop(chunk.get("data"))
            self._drafts = [draft for draft in self._drafts if named not in draft.names]
        elif not kind.startswith(RESERVED) and chunk.get("transient") is not True:
            ref = chunk.get("id")
            draft = self._draft(data_type(kind), ref if isinstance(ref, str) else "")
            draft.fields["data"] = chunk.get("data")

    def _go_on(self) -> None:
        """In a stream that tells no steps, what comes after a tool's output is of another response."""
        if self._was_answered and not self._has_steps:
            self._step += 1
        self._was_answered = False

    def _draft(self, action_type: str, ref: str) -> Draft:
        draft = Draft(action_type, [ref], self._step)
        self._drafts.append(draft)
        self._by_ref[action_type, ref] = draft
        return draft

    def _message(self, ref: str) -> Draft:
        """The assistant message of the step, to which all its texts and files belong."""
        of_step = itertools.takewhile(lambda draft: draft.step == self._step, reversed(self._drafts))
        draft = next((draft for draft in of_step if draft.action_type == "assistant_message"), None)
        if draft is None:
            return self._draft("assistant_message", ref)
        draft.refs.append(ref)
        return draft

    def _find(self, action_type: str, ref: str) -> Draft | None:
        return self._by_ref.get((action_type, ref))

    def _give_back(self, chunk: JSONObject, status: str, content: JSONValue) -> Draft:
        call_id = read_text(chunk, "toolCallId")
        call = self._find("tool_call", call_id)
        if call is None:
            raise unknown_call(chunk)
        draft = self._find("tool_return", call_id) or self._draft("tool_return", call_id)
        known: JSONObject = {name: call.fields[name] for name in ("tool_call_id", "tool_name")}
        executed: JSONObject = {"provider_executed": True} if "provider_executed" in call.fields else {}
        draft.fields = known | {"status": status, "content": content} | executed
        self._was_answered = self._was_answered or not executed
        return draft

    def _opened(self, kind: str, name: str) -> tuple[Block, Draft]:
        opened = self._open.get((kind, name))
        if opened is None:
            raise refuse("chunk.id", "stream", f"no {kind} block {name!r:.80} is open", f"send {kind}-start before it")
        return opened

    def _learn(self, draft: Draft, chunk: JSONObject) -> None:
        if draft.action_type == "thinking":
            draft.fields |= read_provider_metadata(chunk.get("providerMetadata"))


_TAKES: dict[str, Callable[[StreamReader, JSONObject], None]] = {
    **dict.fromkeys(("text-start", "reasoning-start"), StreamReader.start_block),
    **dict.fromkeys(("text-delta", "reasoning-delta"), StreamReader.add_delta),
    **dict.fromkeys(("text-end", "reasoning-end"), StreamReader.end_block),
    "tool-input-start": StreamReader.start_input,
    "tool-input-delta": StreamReader.add_input,
    "tool-input-available": StreamReader.call,
    "tool-input-error": StreamReader.refuse_input,
    "tool-output-available": StreamReader.give_back,
    "tool-output-error": StreamReader.fail,
    "tool-output-denied": StreamReader.deny,
    "tool-approval-request": StreamReader.ask_approval,
    "tool-approval-response": StreamReader.note_approval,
    "error": StreamReader.report,
    "steering-message": StreamReader.steer,
    **dict.fromkeys(("source-url", "source-document", "custom"), StreamReader.add_source),
    **dict.fromkeys(("file", "reasoning-file"), StreamReader.add_file),
    "start-step": StreamReader.start_step,
    "finish-step": StreamReader.finish_step,
    "reset-step": StreamReader.reset_step,
    **dict.fromkeys(("start", "message-metadata"), StreamReader.learn_metadata),
    "finish": StreamReader.finish,
    "abort": StreamReader.abort,
}
