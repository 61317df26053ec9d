"""Results of tool calls in a stream: told as they come, and their actions' own chunks once all of an answer are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from perdure.protocols.threadprotocol.live_calls import LiveCall, LiveCalls
from perdure.protocols.threadprotocol.models import AnyAction, ToolReturnAction
from perdure.protocols.threadprotocol.stream_chunk import SHOWN_ONLY
from perdure.protocols.threadprotocol.stream_notes import note_chunk
from perdure.protocols.threadprotocol.to_stream import action_chunks
from perdure.uap.content_refs import content_path
from perdure.upp.json_value import JSONObject, JSONValue, dumps


def result_chunks(call: LiveCall, result: JSONValue, *, is_error: bool) -> list[JSONObject]:
    """The chunk of a call's result.

    Args:
        call: it is over now.
        result: as the model is told it.
        is_error: whether it is an error.
    """
    call.is_over, call.waits = True, False
    head: JSONObject = {"toolCallId": call.id}
    if not is_error:
        call.told = result
        return [{"type": "tool-output-available"} | head | {"output": result}]
    if call.denied:
        return [{"type": "tool-output-denied"} | head]
    call.told = result if isinstance(result, str) else dumps(result).decode("utf-8", "surrogatepass")
    return [{"type": "tool-output-error"} | head | {"errorText": call.told}]


def result_notes(calls: LiveCalls, actions: Sequence[AnyAction]) -> list[JSONObject]:
    """The chunks of the actions of a message with results; results that were not told are told first."""
    chunks: list[JSONObject] = []
    for action in actions:
        call = calls.returned(action.tool_call_id) if isinstance(action, ToolReturnAction) else None
        if not isinstance(action, ToolReturnAction) or call is None:
            chunks += action_chunks(action, f"{action.action_type}-{action.sequence}")
            continue
        chunks += call.release()
        if not call.is_over:
            chunks += result_chunks(call, action.content, is_error=action.status != "success")
        untold = [] if call.told == action.content and not call.denied else ["content"]
        chunks.append(note_chunk(action, call.id, untold=untold))
    return chunks


def shown_files(data: JSONObject) -> list[JSONObject]:
    """The files that a tool shows to people.

    Args:
        data: of the row of its end: `contentItems`, and whether they are `presented`.
    """
    items = cast("list[JSONObject]", data.get("contentItems") or [])
    if data.get("presented") is not True:
        return []
    return [
        {
            "type": "file",
            "url": content_path(str(item["content_id"])),
            "mediaType": item.get("media_type") or "application/octet-stream",
            "providerMetadata": SHOWN_ONLY,
        }
        for item in items
        if item.get("content_id")
    ]
