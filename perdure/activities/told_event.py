"""The event of which a run's middleware is told, with its data as the rows have them."""

from __future__ import annotations

from typing import cast

from perdure.activities.contracts import AroundInput
from perdure.errors import DamagedSession
from perdure.store.answers import Writer
from perdure.store.database import Database
from perdure.store.messages import read_message
from perdure.store.views import RunView
from perdure.uap.agent_stream import UAPEvent, UAPEventType
from perdure.uap.ids import derive_id
from perdure.uap.scaffold import NAMESPACE
from perdure.uap.viewer import step_usage
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.usage import TokenUsage


async def read_event(database: Database, writer: Writer, agent_id: str, call: AroundInput, view: RunView) -> UAPEvent:
    """The event that a call names, with the data that it has in process.

    Raises:
        DamagedSession: the message that it is about is missing.
    """
    named = call.event or {}
    kind, step = UAPEventType(str(named["type"])), int(named["step"])
    data: JSONObject = {"stepNumber": step}
    if kind is UAPEventType.STEP_END:
        data["usage"] = step_usage(TokenUsage.from_json(named.get("usage") or {}))
    elif "message" in named:
        data = _about(await _message(database, writer, str(named["message"])))
    ids: JSONObject = {"stepId": derive_id(writer.run, "step", step), "turnId": writer.run}
    return UAPEvent(kind, step, agent_id, {**data, **ids, **_parents(view)})


def _parents(view: RunView) -> JSONObject:
    """Whose sub-agent's run it is, as its context was told when it was entered."""
    ids: object = view.metadata.get(NAMESPACE)
    known = cast(JSONObject, ids) if isinstance(ids, dict) else {}
    return {name: known[name] for name in ("parentAgentId", "parentTurnId") if name in known}


async def _message(database: Database, writer: Writer, ident: str) -> Message:
    stored = await read_message(database, writer.key, ident)
    if stored is None:
        raise DamagedSession(f"session {writer.key.session} lacks message {ident}", run_id=writer.run)
    return stored.message


def _about(message: Message) -> JSONObject:
    if isinstance(message, ToolResultMessage):
        return {"results": [result.to_json() for result in message.results]}
    if isinstance(message, AssistantMessage) and message.tool_calls:
        return {"toolCalls": [call.to_json() for call in message.tool_calls]}
    return {"text": message.text}
