"""Pydantic AI's `ModelMessages` as actions, read from their JSON form.

All kinds of parts are taken: those of the mapping below, instructions and system prompts (which belong to the agent's
configuration and are left out), and any other kind, also one that is not known yet, as a `system.` action.
Source: ThreadProtocol 1.0.0, Pydantic AI → ThreadProtocol.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perdure.protocols.threadprotocol.models import AnyAction, ThinkingAction
from perdure.protocols.threadprotocol.problem import refuse
from perdure.protocols.threadprotocol.pydantic_ai_content import read_file, read_prompt, read_speech
from perdure.protocols.threadprotocol.pydantic_ai_returns import (
    LEGACY_RETRY,
    read_feedback,
    read_legacy_retry,
    read_return,
)
from perdure.protocols.threadprotocol.recording import Recording, json_args
from perdure.protocols.threadprotocol.response import add_message, shown_parts, system_type
from perdure.upp.json_value import JSONObject, JSONValue

_FINISH = ("stop", "tool_call", "length", "content_filter")
_CONFIGURATION = ("system-prompt", "instruction")


def actions_from_messages(
    messages: Sequence[JSONValue], *, agent_id: str, not_before: str, first: int = 1, strict_seed: bool = False
) -> list[AnyAction]:
    """The actions of one agent's messages, in order.

    Args:
        messages: as `ModelMessagesTypeAdapter.dump_python(..., mode="json")` gives them, of this or an older version.
        agent_id: the agent whose messages they are.
        not_before: the thread's creation, or the last action's time; an ISO 8601 time.
        first: the first action's number.
        strict_seed: a retry is always `error`, as the specification's rule has it; else one that is about validation is
            `validation_error`, as its list of statuses has it.

    Raises:
        InvalidThread: a message or part is none.
    """
    reading = _Reading(agent_id, strict_seed, Recording(first=first, not_before=not_before))
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        if not isinstance(message, dict) or not isinstance(parts := message.get("parts"), list):
            raise refuse(path, "messages", "it is no model message", "send Pydantic AI's JSON form of messages")
        read = [_part(part, f"{path}.parts[{place}]") for place, part in enumerate(parts)]
        if message.get("kind") == "response":
            reading.response(message, read)
        elif message.get("kind") == "request":
            reading.request(message, read)
        else:
            raise refuse(
                f"{path}.kind", "messages", f"{message.get('kind')!r:.80} is unknown", "use request or response"
            )
    return reading.recording.actions


def _part(part: JSONValue, path: str) -> JSONObject:
    if not isinstance(part, dict) or not isinstance(part.get("part_kind"), str):
        raise refuse(path, "messages", "it has no part_kind", "send Pydantic AI's JSON form of messages")
    return part


@dataclass(frozen=True, slots=True)
class _Reading:
    agent_id: str
    strict_seed: bool
    recording: Recording

    def request(self, message: JSONObject, parts: Sequence[JSONObject]) -> None:
        for part in parts:
            at = _moment(part) or _moment(message)
            match part["part_kind"]:
                case "user-prompt":
                    self.recording.add("user_message", {"content": read_prompt(part.get("content"))}, at)
                case "speech":
                    spoken = read_speech(part)
                    said: JSONObject = {"content": spoken if isinstance(spoken, str) else [*spoken]}
                    self.recording.add("user_message", said, at)
                case "tool-return":
                    self.give_back(part, read_return(part, strict_seed=self.strict_seed), at)
                case kind if kind == LEGACY_RETRY and part.get("tool_name") is not None:
                    self.give_back(part, read_legacy_retry(part, strict_seed=self.strict_seed), at)
                case "retry-feedback" | "retry-prompt":
                    data: JSONObject = {"agent_id": self.agent_id, **read_feedback(part)}
                    self.recording.add("system.retry_feedback", {"data": data}, at)
                case _:
                    self.other(part, at)

    def response(self, message: JSONObject, parts: Sequence[JSONObject]) -> None:
        at = _moment(message)
        shown = shown_parts([_said(part) for part in parts])
        before = len(self.recording.actions)
        for index, part in enumerate(parts):
            if index == shown.place:
                add_message(self.recording, self.agent_id, shown.content, at, _finish(message), _usage(message))
            if _said(part) is None:
                _RESPONSE.get(str(part["part_kind"]), _Reading.other_of)(self, part, message, at)
        self._count_thinking(message, before)

    def _count_thinking(self, message: JSONObject, before: int) -> None:
        usage = message.get("usage")
        tokens = usage.get("output_reasoning_tokens") if isinstance(usage, dict) else None
        details = usage.get("details") if isinstance(usage, dict) else None
        tokens = tokens or (details.get("reasoning_tokens") if isinstance(details, dict) else None)
        if not isinstance(tokens, int) or tokens <= 0:
            return
        actions = self.recording.actions
        for place in range(before, len(actions)):
            action = actions[place]
            if isinstance(action, ThinkingAction):
                counted: JSONObject = {**action.to_json(), "usage": {"thinking_tokens": tokens}}
                actions[place] = ThinkingAction.model_validate(counted)
                return

    def thinking(self, part: JSONObject, message: JSONObject, at: str | None) -> None:
        provider = part.get("provider_name") or message.get("provider_name") or "unknown"
        fields: JSONObject = {
            "agent_id": self.agent_id,
            "content": part.get("content") or None,
            "signature": part.get("signature"),
            "provider_name": provider,
            "thinking_id": part.get("id"),
        }
        if fields["content"] is None:
            del fields["content"]
        self.recording.add("thinking", fields, at)

    def call(self, part: JSONObject, _: JSONObject, at: str | None) -> None:
        fields: JSONObject = {
            "agent_id": self.agent_id,
            "tool_name": part.get("tool_name"),
            "args": json_args(part.get("args")),
            **_executed(part),
        }
        self.recording.call(str(part.get("tool_call_id")), fields, at)

    def builtin_return(self, part: JSONObject, _: JSONObject, at: str | None) -> None:
        fields = read_return(part, strict_seed=self.strict_seed) | _executed(part)
        self.give_back(part, fields, _moment(part) or at)

    def give_back(self, part: JSONObject, fields: JSONObject, at: str | None) -> None:
        named: JSONObject = {"tool_name": part.get("tool_name"), **fields}
        self.recording.give_back(str(part.get("tool_call_id")), named, at)

    def other_of(self, part: JSONObject, _: JSONObject, at: str | None) -> None:
        self.other(part, at)

    def other(self, part: JSONObject, at: str | None) -> None:
        kind = str(part["part_kind"])
        if kind.startswith(_CONFIGURATION):
            return
        rest = {name: value for name, value in part.items() if name not in ("part_kind", "timestamp")}
        data: JSONObject = {"agent_id": self.agent_id}
        data |= {name: value for name, value in rest.items() if value is not None}
        self.recording.add(system_type(kind), {"data": data}, at)


_RESPONSE: dict[str, Callable[[_Reading, JSONObject, JSONObject, str | None], None]] = {
    "thinking": _Reading.thinking,
    "tool-call": _Reading.call,
    "builtin-tool-call": _Reading.call,
    "builtin-tool-return": _Reading.builtin_return,
}


def _said(part: JSONObject) -> list[JSONObject] | None:
    """What a part says: parts of content; None if it is something else."""
    match part["part_kind"]:
        case "text":
            return [{"type": "text", "text": str(part.get("content") or "")}]
        case "file":
            return [read_file(part.get("content"))]
        case "speech":
            spoken = read_speech(part)
            return [{"type": "text", "text": spoken}] if isinstance(spoken, str) else spoken
        case _:
            return None


def _executed(part: JSONObject) -> JSONObject:
    if not str(part["part_kind"]).startswith("builtin-"):
        return {}
    return {"provider_executed": True, "provider_name": part.get("provider_name")}


def _moment(source: JSONObject) -> str | None:
    value = source.get("timestamp")
    return value if isinstance(value, str) else None


def _finish(message: JSONObject) -> JSONValue:
    reason = message.get("finish_reason")
    return reason if reason in _FINISH else None


def _usage(message: JSONObject) -> JSONObject | None:
    usage = message.get("usage")
    if not isinstance(usage, dict):
        return None
    given, made = usage.get("input_tokens") or 0, usage.get("output_tokens") or 0
    if not isinstance(given, int) or not isinstance(made, int) or not given + made:
        return None
    return {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}
