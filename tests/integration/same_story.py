"""What each view tells of one run, brought to one form so that views can be compared: who said what, in order.

A view leaves out what its protocol has no place for (`spoken`), and stored messages hold the results of parallel calls in
the order of the calls, where streams tell them as they come (`settled`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

COMPLETED, CANCELLED, FAILED = "completed", "cancelled", "failed"

Item = dict[str, Any]
Fact = tuple[Any, ...]
"""("thinking", text), ("text", text), ("call", id, tool, arguments) or ("result", id, text, whether it failed)."""

_ENDS = {
    "response.done": COMPLETED, "response.cancelled": CANCELLED, "response.error": FAILED,
    "run.completed": COMPLETED, "run.cancelled": CANCELLED, "run.failed": FAILED,
    "abort": CANCELLED, "error": FAILED,
}  # fmt: skip


@dataclass
class Told:
    """What a view has told.

    Attributes:
        facts: in order; what is said in several pieces is one.
        usage: tokens in, and out, of all model calls; of those that the view tells.
        end: how the run ended; "" if the view does not say.
        error: what it says of a failure.
    """

    facts: list[Fact] = field(default_factory=list[Fact])
    usage: tuple[int, int] = (0, 0)
    end: str = ""
    error: str = ""
    _pieces: dict[Any, int] = field(default_factory=dict[Any, int], repr=False, compare=False)

    def say(self, kind: str, text: str) -> None:
        """Text or thinking goes on."""
        if self.facts and self.facts[-1][0] == kind:
            text = self.facts.pop()[1] + text
        self.facts.append((kind, text))

    def piece(self, place: Any, ident: str, name: str, text: str) -> None:
        """A piece of a call's arguments; the first one names the call."""
        if place not in self._pieces:
            self._pieces[place] = len(self.facts)
            self.facts.append(("call", ident, name, ""))
        at = self._pieces[place]
        self.facts[at] = (*self.facts[at][:3], self.facts[at][3] + text)

    def call(self, ident: str, name: str, arguments: Mapping[str, Any]) -> None:
        """A whole call."""
        self.facts.append(("call", ident, name, dict(arguments)))

    def result(self, ident: str, text: str, *, failed: bool) -> None:
        """A call has come back."""
        self.facts.append(("result", ident, text, failed))

    def use(self, tokens_in: int, tokens_out: int) -> None:
        """More was used."""
        self.usage = (self.usage[0] + tokens_in, self.usage[1] + tokens_out)

    def read(self) -> Told:
        """The same with arguments as JSON's values, however they were written."""
        whole = [
            (*fact[:3], json.loads(fact[3])) if fact[0] == "call" and isinstance(fact[3], str) else fact
            for fact in self.facts
        ]
        return Told(whole, self.usage, self.end, self.error)

    @property
    def settled(self) -> list[Fact]:
        """The facts with results that stand together in the order of their calls."""
        calls = [fact[1] for fact in self.facts if fact[0] == "call"]
        found: list[Fact] = []
        for fact in self.facts:
            place = len(found)
            while (
                fact[0] == "result"
                and place
                and found[place - 1][0] == "result"
                and calls.index(found[place - 1][1]) > calls.index(fact[1])
            ):
                place -= 1
            found.insert(place, fact)
        return found

    def spoken(self, *tools: str) -> list[Fact]:
        """What a client is told that is told no more than text, and the calls of these tools, which it runs."""
        told = Told()
        for fact in self.facts:
            if fact[0] == "text":
                told.say(*fact)
            elif fact[0] == "call" and fact[2] in tools:
                told.facts.append(("call", *fact[2:]))
        return told.facts

    @property
    def text(self) -> str:
        """All text."""
        return "".join(fact[1] for fact in self.facts if fact[0] == "text")


def of_uamp(events: Iterable[Item], sent: Mapping[str, str]) -> Told:
    """The events of a response; its client knows the results that it `sent` itself."""
    told = Told()
    for event in events:
        match event:
            case {"type": "thinking", "content": text}:
                told.say("thinking", text)
            case {"type": "response.delta", "delta": {"type": "text", "text": text}}:
                told.say("text", text)
            case {"type": "response.delta", "delta": {"type": "tool_call", "tool_call": made}}:
                told.piece(made["id"], made["id"], made["name"], made["arguments"])
            case {"type": "response.delta", "delta": {"type": "tool_result", "tool_result": made}}:
                told.result(made["call_id"], made["result"], failed=made["status"] == "error")
            case {"type": "tool.call", "call_id": ident}:
                told.piece(ident, ident, event["name"], event["arguments"])
                if ident in sent:
                    told.result(ident, sent[ident], failed=False)
            case {"type": "usage.delta", "delta": used}:
                told.use(used.get("input_tokens", 0), used.get("output_tokens", 0))
            case _:
                told.end = _ENDS.get(event["type"], told.end)
                told.error = event["error"]["message"] if event["type"] == "response.error" else told.error
    return told.read()


def of_log(rows: Iterable[Item]) -> Told:
    """The rows of the run's own stream, folded ones too."""
    told = Told()
    for row in rows:
        data, kind = row["data"], row["type"]
        delta = data.get("delta", {})
        match kind:
            case "reasoning_delta" | "text_delta":
                told.say("thinking" if kind == "reasoning_delta" else "text", delta["text"])
            case "tool_call_delta":
                place = (data["message"], data["index"])
                told.piece(place, delta.get("toolCallId", ""), delta.get("toolName", ""), delta["argumentsJson"])
            case "tool_execution_end":
                told.result(delta["toolCallId"], delta["result"], failed=delta["isError"])
            case "run.completed" | "run.cancelled" | "run.failed":
                told.end, told.error = _ENDS[kind], data.get("error", {}).get("message", "")
                told.use(data["usage"]["inputTokens"], data["usage"]["outputTokens"])
            case _:
                pass
    return told.read()


def of_chat(chunks: Iterable[Any]) -> Told:
    """A UI message stream of the AI SDK, with its notes of a thread's actions."""
    told = Told()
    for chunk in chunks:
        match chunk:
            case {"type": "reasoning-delta" | "text-delta" as kind, "delta": text}:
                told.say("thinking" if kind == "reasoning-delta" else "text", text)
            case {"type": "tool-input-start", "toolCallId": ident, "toolName": name}:
                told.piece(ident, ident, name, "")
            case {"type": "tool-input-delta", "toolCallId": ident, "inputTextDelta": text}:
                told.piece(ident, ident, "", text)
            case {"type": "tool-output-available", "toolCallId": ident, "output": output}:
                told.result(ident, output, failed=False)
            case {"type": "tool-output-error", "toolCallId": ident, "errorText": output}:
                told.result(ident, output, failed=True)
            case {"type": "data-tp-action", "data": {"fields": {"usage": used}}}:
                told.use(used["input_tokens"], used["output_tokens"])
            case {"type": "abort"} | {"type": "error"}:
                told.end, told.error = _ENDS[chunk["type"]], chunk.get("errorText", "")
            case {"type": "finish", "finishReason": "stop"}:
                told.end = COMPLETED
            case _:
                pass
    return told.read()


def of_completions(chunks: Iterable[Any]) -> Told:
    """The chunks of a streamed completion, of all of its parts; a call's id is not the model's."""
    told = Told()
    for chunk in chunks:
        match chunk:
            case {"error": {"code": code, "message": text}}:
                told.end = CANCELLED if code == "cancelled" else FAILED
                told.error = text
            case {"choices": [{"delta": delta, "finish_reason": reason}]}:
                _said(told, delta)
                told.end = COMPLETED if reason == "stop" else told.end
            case {"choices": [], "usage": used}:
                told.use(used["prompt_tokens"], used["completion_tokens"])
            case _:
                pass
    return told.read()


def of_bodies(bodies: Iterable[Item]) -> Told:
    """The bodies of completions that are not streamed, of all parts."""
    told = Told()
    for body in bodies:
        (choice,) = body["choices"]
        _said(told, choice["message"])
        told.end = COMPLETED if choice["finish_reason"] == "stop" else told.end
        told.use(body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"])
    return told.read()


def of_thread(actions: Iterable[Item]) -> Told:
    """A thread of ThreadProtocol."""
    told = Told()
    for action in actions:
        match action["action_type"]:
            case "thinking":
                told.say("thinking", action["content"])
            case "assistant_message":
                told.say("text", action["content"])
                told.use(action["usage"]["input_tokens"], action["usage"]["output_tokens"])
            case "tool_call":
                told.call(action["tool_call_id"], action["tool_name"], action["args"])
            case "tool_return":
                told.result(action["tool_call_id"], action["content"], failed=action["status"] == "error")
            case _:
                pass
    return told


def of_messages(messages: Iterable[Item]) -> Told:
    """Messages of UPP."""
    told = Told()
    for message in messages:
        if message["type"] == "assistant":
            for block in message["content"]:
                told.say("thinking" if block["type"] == "reasoning" else "text", block["text"])
        for call in message.get("toolCalls") or ():
            told.call(call["toolCallId"], call["toolName"], call["arguments"])
        for result in message.get("results") or ():
            told.result(result["toolCallId"], result["result"], failed=result["isError"])
    return told


def of_page(messages: Sequence[Item]) -> Told:
    """The messages that a page of the AI SDK begins with; a part has the call and its result."""
    told = Told()
    results: list[Fact] = []
    for part in [part for message in messages if message["role"] == "assistant" for part in message["parts"]]:
        match part:
            case {"type": "reasoning" | "text" as kind, "text": text}:
                told.say("thinking" if kind == "reasoning" else "text", text)
            case {"toolCallId": ident, "type": kind, "input": given}:
                told.call(ident, kind.removeprefix("tool-"), given)
                failed = part["state"] == "output-error"
                results.append(("result", ident, part["errorText"] if failed else part["output"], failed))
                continue
            case _:
                told.facts += results
                results.clear()
    told.facts += results
    return told


def _said(told: Told, said: Item) -> None:
    if said.get("content"):
        told.say("text", said["content"])
    for call in said.get("tool_calls") or ():
        told.piece(call["id"], call["id"], call["function"]["name"], call["function"]["arguments"])
