"""What user code, models and vendors have said, without the secrets that this process knows: as it is stored.

Each function returns the very object that it was given if there is no secret in it. It comes before hashes are made: a
row and its hash are of the redacted value, and so are a tool call's arguments. A tool is called with the arguments that
are stored, so it gets `[redacted:NAME]` where its model has repeated a secret; secrets reach a tool by its context alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from perdure.activities.border import describe
from perdure.uap.cut import NAMESPACE as OURS
from perdure.uap.options import RunOptions
from perdure.uap.scaffold import NAMESPACE as UAPS
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import Message, message_from_json
from perdure.upp.provider import LLMResponse
from perdure.upp.redaction import known_secrets
from perdure.upp.tool_call import ToolExecution
from perdure.upp.turn import Turn

M = TypeVar("M", bound=Message)


def clean_message(message: M) -> M:
    """A message without secrets.

    A vendor's own metadata goes with them: it holds signatures over what was said, or repeats it.
    """
    if known_secrets.is_empty:
        return message
    document = message.to_json()
    clean = known_secrets.json(document)
    if clean is document:
        return message
    metadata = clean.get("metadata")
    if isinstance(metadata, dict):
        clean["metadata"] = {name: value for name, value in metadata.items() if name in (OURS, UAPS)}
    return cast(M, message_from_json(clean))


def clean_messages(messages: Sequence[M], *, but: Sequence[Message] = ()) -> list[M]:
    """Messages without secrets.

    Args:
        messages: in order.
        but: objects that come from the store; they are as they are.
    """
    stored = {id(message) for message in but}
    return [message if id(message) in stored else clean_message(message) for message in messages]


def clean_response(response: LLMResponse) -> LLMResponse:
    """A model's answer without secrets."""
    message, data = clean_message(response.message), known_secrets.json(response.data)
    if message is response.message and data is response.data:
        return response
    return dataclasses.replace(response, message=message, data=data)


def clean_execution(execution: ToolExecution) -> ToolExecution:
    """The record of a tool call without secrets."""
    arguments, result = known_secrets.json(execution.arguments), known_secrets.json(execution.result)
    if arguments is execution.arguments and result is execution.result:
        return execution
    return dataclasses.replace(execution, arguments=arguments, result=result)


def clean_options(options: RunOptions) -> RunOptions:
    """What a run is told to do otherwise, without secrets."""
    if known_secrets.is_empty or known_secrets.json(given := options.to_json()) is given:
        return options
    return RunOptions.from_json(known_secrets.json(given))


def clean_metadata(metadata: Mapping[str, JSONValue] | None) -> Mapping[str, JSONValue] | None:
    """A session's metadata without secrets."""
    return metadata if metadata is None or known_secrets.is_empty else known_secrets.json(dict(metadata))


def described(error: Exception) -> JSONObject:
    """An error as `describe` has it, without secrets."""
    return known_secrets.json(describe(error))


def clean_turn(turn: Turn) -> Turn:
    """A turn without secrets."""
    if known_secrets.is_empty or known_secrets.json(document := turn.to_json()) is document:
        return turn
    return dataclasses.replace(
        turn,
        messages=clean_messages(turn.messages),
        tool_executions=[clean_execution(execution) for execution in turn.tool_executions],
        data=known_secrets.json(turn.data),
    )
