"""The event log of a run as its agent's stream events.

What the log holds as a preview or a reference is made whole. Rows of source "run" are no part of an agent's stream, but
for the one that says that a model call begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from perdure.errors import DamagedSession
from perdure.runtime.unfolding import Unfolding
from perdure.store.database import Database
from perdure.store.events import Event
from perdure.store.messages import read_message
from perdure.store.payloads import read_payloads
from perdure.uap.agent_stream import AgentStreamEvent, UAPEvent, UAPEventType, of_step
from perdure.uap.session_key import SessionKey
from perdure.uap.viewer import step_usage
from perdure.upp.json_value import JSONObject, JSONValue, loads
from perdure.upp.messages import AssistantMessage
from perdure.upp.stream import StreamEvent, StreamEventType
from perdure.upp.usage import TokenUsage

RESET = "message.reset"
_OF_TOOLS = (StreamEventType.TOOL_EXECUTION_START, StreamEventType.TOOL_EXECUTION_END)
_KEPT = {
    UAPEventType.STEP_START: ("stepNumber",),
    UAPEventType.REASONING: ("text",),
    UAPEventType.CHECKPOINT: ("checkpointId",),
}


@dataclass(slots=True)
class OpenAnswer:
    """A model's answer as far as it came.

    Attributes:
        message: its id.
        given: how many of its events the reader has been given.
        text: in pieces.
    """

    message: str = ""
    given: int = 0
    text: list[str] = field(default_factory=list[str])


class AgentEvents:
    """Reads the rows of one run, one after the other."""

    def __init__(self, database: Database, key: SessionKey, run: str, agent_id: str) -> None:
        """Read rows of a run of an agent."""
        self._database = database
        self._key = key
        self._run = run
        self._agent_id = agent_id
        self._action: Event | None = None
        self._own: int | None = (
            None  # the last event that a strategy of the user's own told; None if there is none such
        )
        self._streamed: set[str] = set()
        self._unfolding = Unfolding()
        self.answer = OpenAnswer()

    async def read(self, row: Event) -> list[AgentStreamEvent]:
        """The stream events of the next row: none, one, or also that of a row that was held back until now.

        Raises:
            DamagedSession: what a row refers to is not there.
        """
        match row.source:
            case "own":
                return self._told(row)
            case "upp" if self._own is None:
                return [*await self._held_action(row), await self._upp(row)]
            case "upp":
                return [await self._upp(row)] if self._is_streamed(row) else []
            case "uap":
                return await self._uap(row) if self._own is None else []
            case _:
                return self._reset(row) if row.type == RESET else []

    def _told(self, row: Event) -> list[AgentStreamEvent]:
        """What the stream of a strategy of the user's own yielded; one that began again says the same once more."""
        number, before = cast(int, row.data["n"]), -1 if self._own is None else self._own
        self._own = max(number, before)
        if number <= before:
            return []
        if "uap" in row.data:
            return [AgentStreamEvent(uap=UAPEvent.from_json(row.data["uap"]))]
        return [AgentStreamEvent(upp=StreamEvent.from_json(row.data["upp"]))] if "upp" in row.data else []

    def _is_streamed(self, row: Event) -> bool:
        """Whether such a strategy asked for the message by `llm.stream`; else nobody is told of its tools either."""
        message = str(row.data.get("message", ""))
        if row.type not in _OF_TOOLS:
            self._streamed.add(message)
        return message in self._streamed

    def _reset(self, row: Event) -> list[AgentStreamEvent]:
        if row.data.get("message") != self.answer.message:
            return []
        given, self.answer = self.answer.given, OpenAnswer(self.answer.message)
        return [self._of(UAPEventType.RESET, row, {"events": given})] if given else []

    async def _upp(self, row: Event) -> AgentStreamEvent:
        row = self._unfolding.new_in(row)
        event = StreamEvent.from_json({"type": row.type, **row.data})
        cut = cast("dict[str, str] | None", row.data.get("cut"))
        if cut is not None:
            found = await read_payloads(self._database, self._key, [cut["sha256"]])
            event = replace(event, delta=replace(event.delta, result=loads(found[cut["sha256"]])))
        if event.type not in _OF_TOOLS:
            self._note(str(row.data.get("message", "")), event)
        return AgentStreamEvent(upp=event)

    def _note(self, message: str, event: StreamEvent) -> None:
        if message != self.answer.message:
            self.answer = OpenAnswer(message)
        self.answer.given += 1
        if event.type is StreamEventType.TEXT_DELTA and event.delta.text:
            self.answer.text.append(event.delta.text)

    async def _uap(self, row: Event) -> list[AgentStreamEvent]:
        if row.type not in set(UAPEventType):
            return []
        kind = UAPEventType(row.type)
        match kind:
            case UAPEventType.ACTION:
                if any("cut" in call for call in cast("Sequence[JSONObject]", row.data["toolCalls"])):
                    if "message" in row.data:
                        return [await self._whole_action(row, str(row.data["message"]))]
                    self._action = row  # the next row names the message that has the calls whole
                    return []
                data: JSONObject = {"toolCalls": row.data["toolCalls"]}
            case UAPEventType.OBSERVATION:
                if row.data.get("settled"):
                    return []  # calls that were never run: nothing was observed
                data = {"results": await self._results(cast("Sequence[JSONObject]", row.data["results"]))}
            case UAPEventType.STEP_END:
                usage = TokenUsage.from_json(row.data.get("usage") or {})
                data = {"stepNumber": row.data["stepNumber"], "usage": step_usage(usage)}
            case _:
                data = {name: row.data[name] for name in _KEPT.get(kind, ())}
        return [self._of(kind, row, data)]

    async def _held_action(self, row: Event) -> list[AgentStreamEvent]:
        if self._action is None:
            return []
        held, self._action = self._action, None
        return [await self._whole_action(held, str(row.data["message"]))]

    async def _whole_action(self, row: Event, message: str) -> AgentStreamEvent:
        stored = await read_message(self._database, self._key, message)
        if stored is None or not isinstance(stored.message, AssistantMessage):
            raise DamagedSession(f"session {self._key.session} lacks message {message}", run_id=self._run)
        calls: list[JSONValue] = [call.to_json() for call in stored.message.tool_calls or ()]
        return self._of(UAPEventType.ACTION, row, {"toolCalls": calls})

    async def _results(self, references: Sequence[JSONObject]) -> list[JSONValue]:
        hashes = [cast("dict[str, str]", item["ref"])["sha256"] for item in references]
        found = await read_payloads(self._database, self._key, hashes)
        return [
            {"toolCallId": item["toolCallId"], "result": loads(found[sha256]), "isError": item["isError"]}
            for item, sha256 in zip(references, hashes, strict=True)
        ]

    def _of(self, kind: UAPEventType, row: Event, data: JSONObject) -> AgentStreamEvent:
        return of_step(kind, self._run, row.step or 0, self._agent_id, data)
