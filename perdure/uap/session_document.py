"""Reading a SessionJSON: all of it is looked at before anything is made of it. Source: UAP-1.0 section 13.

Ids and dates are kept as they are, since other systems write others than Perdure does. Metadata is free; what
Perdure itself writes there is taken where it is found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar, cast

from perdure.errors import InvalidInput
from perdure.uap.plan_steps import PlanStep
from perdure.uap.session_checkpoints import CURRENT, DONE, TOOL_EXECUTIONS, Checkpoint, CheckpointList
from perdure.uap.state import ExecutionState
from perdure.uap.thread_node import read_id, read_list, read_object, short, wrong
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONObject, JSONValue, jsonable, loads
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, message_from_json
from perdure.upp.timestamp import parse_timestamp
from perdure.upp.tool_call import ToolExecution
from perdure.upp.usage import TokenUsage, empty_usage

T = TypeVar("T")

_VERSION = re.compile(r"1\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class SessionDocument:
    """A SessionJSON, read.

    Attributes:
        created_at: ISO 8601 as it stands there; `updated_at` too.
        metadata: the session's own.
    """

    id: str
    agent_id: str
    created_at: str
    updated_at: str
    tree: ThreadTree
    checkpoints: CheckpointList
    metadata: JSONObject


def read_session(value: JSONValue) -> SessionDocument:
    """The session of a SessionJSON, or of its text; what is returned shares nothing with it.

    Raises:
        InvalidInput: it is none, or of another major version; the message begins with the JSON path of what is wrong,
            as `checkpoints[2].state.messages[0]`.
    """
    source = read_object(_plain(value), "session")
    _check_version(source.get("version"))
    tree = ThreadTree.from_json(source.get("threadTree"))
    session_id = read_id(source.get("id"), "id")
    checkpoints = _checkpoints(source, session_id, tree)
    return SessionDocument(
        id=session_id,
        agent_id=read_id(source.get("agentId"), "agentId"),
        created_at=_moment(source.get("createdAt"), "createdAt"),
        updated_at=_moment(source.get("updatedAt"), "updatedAt"),
        tree=tree,
        checkpoints=CheckpointList(checkpoints, _take_current(checkpoints)),
        metadata=_optional_object(source, "metadata", "metadata"),
    )


def _plain(value: JSONValue) -> JSONValue:
    """A copy of the value; also the bound to how deep it may be nested."""
    try:
        return jsonable(loads(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else value)
    except (TypeError, ValueError) as error:
        raise wrong("session", f"must be JSON: {error}") from error


def _check_version(value: JSONValue) -> None:
    if not isinstance(value, str):
        raise wrong("version", "must be UAP's version, as '1.0.0'")
    if not _VERSION.match(value):
        raise wrong("version", f"is {short(value)}; this version of Perdure reads UAP 1.x.y")


def _checkpoints(source: JSONObject, session_id: str, tree: ThreadTree) -> list[Checkpoint]:
    found: list[Checkpoint] = []
    known: set[str] = set()
    items = source.get("checkpoints")
    if not isinstance(items, list):
        raise wrong("checkpoints", "must be a list")
    for index, item in enumerate(items):
        path = f"checkpoints[{index}]"
        checkpoint = read_checkpoint(read_object(item, path), path)
        if checkpoint.id in known:
            raise wrong(f"{path}.id", f"two checkpoints have the id {short(checkpoint.id)}")
        if checkpoint.session_id != session_id:
            raise wrong(f"{path}.sessionId", f"is {short(checkpoint.session_id)}, the session is {short(session_id)}")
        if checkpoint.thread_id not in tree.nodes:
            raise wrong(f"{path}.threadId", f"there is no node {short(checkpoint.thread_id)}")
        known.add(checkpoint.id)
        found.append(checkpoint)
    return found


def read_checkpoint(source: JSONObject, path: str = "checkpoint") -> Checkpoint:
    """The checkpoint of a CheckpointJSON; ids and dates stay as they are.

    Args:
        source: the JSON.
        path: where it stands in its document, for errors.

    Raises:
        InvalidInput: it is none; the message begins with the JSON path of what is wrong.
    """
    metadata = _optional_object(source, "metadata", f"{path}.metadata")
    return Checkpoint(
        id=read_id(source.get("id"), f"{path}.id"),
        session_id=read_id(source.get("sessionId"), f"{path}.sessionId"),
        timestamp=_moment(source.get("timestamp"), f"{path}.timestamp"),
        step=_count(source.get("step"), f"{path}.step"),
        thread_id=read_id(source.get("threadId"), f"{path}.threadId"),
        state=_state(read_object(source.get("state"), f"{path}.state"), metadata, f"{path}.state"),
        sub_agent_states=_sub_agent_states(source, f"{path}.subAgentStates"),
        metadata=metadata,
    )


def _sub_agent_states(source: JSONObject, path: str) -> dict[str, JSONObject]:
    """The documents of sub-agents as they are; their agents may not be known here."""
    documents = _optional_object(source, "subAgentStates", path)
    for key, item in documents.items():
        document = read_object(item, f"{path}[{short(key)}]")
        try:
            read_session(document)
        except InvalidInput as error:
            raise InvalidInput(f"{path}[{short(key)}].{error}") from error
    return cast("dict[str, JSONObject]", documents)


def _state(source: JSONObject, more: JSONObject, path: str) -> ExecutionState:
    """The state; what its JSON has no field for is in the checkpoint's metadata, `more`."""
    items = enumerate(read_list(source, "messages", path))
    messages = [_read(message_from_json, item, f"{path}.messages[{index}]") for index, item in items]
    return ExecutionState(
        step=_count(source.get("step"), f"{path}.step"),
        messages=[*messages],
        metadata=read_object(source.get("metadata"), f"{path}.metadata"),
        tool_executions=_executions(more.get(TOOL_EXECUTIONS), messages),
        usage=_usage(more.get("usage")),
        cycles=_cycles(more.get("cycles")),
        done=more.get(DONE) is True,
        reasoning=_reasoning(source, path),
        plan=_plan(source, path),
    )


def _plan(source: JSONObject, path: str) -> list[PlanStep] | None:
    if source.get("plan") is None:
        return None
    items = enumerate(read_list(source, "plan", path))
    return [_read(PlanStep.from_json, item, f"{path}.plan[{index}]") for index, item in items]


def _reasoning(source: JSONObject, path: str) -> list[str]:
    items = [] if source.get("reasoning") is None else read_list(source, "reasoning", path)
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) < len(items):
        raise wrong(f"{path}.reasoning", "must be a list of texts")
    return texts


def _executions(value: JSONValue, messages: Sequence[Message]) -> list[ToolExecution]:
    """The records of the tool calls; where there are none, what the messages say of them."""
    try:
        return [ToolExecution.from_json(item) for item in cast("list[JSONValue]", value)]
    except (TypeError, UPPError):
        return executions_of(messages)


def executions_of(messages: Sequence[Message]) -> list[ToolExecution]:
    """What messages say of the tool calls in them; how long these took is not known."""
    found: list[ToolExecution] = []
    for answer, results in pairwise(messages):
        if isinstance(answer, AssistantMessage) and isinstance(results, ToolResultMessage):
            for call, result in zip(answer.tool_calls or (), results.results, strict=False):
                name, id_ = call.tool_name, call.tool_call_id
                found.append(ToolExecution(name, id_, call.arguments, result.result, result.is_error, duration_ms=0))
    return found


def _usage(value: JSONValue) -> TokenUsage:
    try:
        return empty_usage() if value is None else TokenUsage.from_json(value)
    except UPPError:
        return empty_usage()


def _cycles(value: JSONValue) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _take_current(checkpoints: list[Checkpoint]) -> Checkpoint | None:
    """The checkpoint that is marked as current, the mark taken off; the last if there is none."""
    for checkpoint in checkpoints[:-1]:
        if checkpoint.metadata.get(CURRENT) is True:
            del checkpoint.metadata[CURRENT]
            return checkpoint
    return checkpoints[-1] if checkpoints else None


def _optional_object(source: JSONObject, name: str, path: str) -> JSONObject:
    value = source.get(name)
    return {} if value is None else read_object(value, path)


def _count(value: JSONValue, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise wrong(path, "must be a whole number of at least 0")
    return value


def _moment(value: JSONValue, path: str) -> str:
    if not isinstance(value, str):
        raise wrong(path, "must be an ISO 8601 time with a time zone")
    _read(lambda _: parse_timestamp(value), value, path)
    return value


def _read(reader: Callable[[JSONValue], T], value: JSONValue, path: str) -> T:
    try:
        return reader(value)
    except UPPError as error:
        raise wrong(path, error.message) from error
