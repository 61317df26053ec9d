"""Actions as chunks of the Vercel AI SDK's UI message stream, each followed by its `data-tp-action` chunk.

For a run that is over. A live stream sends the same chunks as the run goes on, with `note_chunk` when an action is
complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from perdure.protocols.threadprotocol.content import parts_of, text_part
from perdure.protocols.threadprotocol.models import (
    AnyAction,
    AssistantMessageAction,
    SystemAction,
    ThinkingAction,
    ToolCallAction,
    ToolReturnAction,
    UserMessageAction,
)
from perdure.protocols.threadprotocol.stream_notes import note_chunk
from perdure.protocols.threadprotocol.stream_thinking import write_provider_metadata
from perdure.upp.json_value import JSONObject, dumps

STREAM_HEADERS: Mapping[str, str] = MappingProxyType({"x-vercel-ai-ui-message-stream": "v1"})
"""What tells the AI SDK that a response is such a stream. Its body is SSE, its last data `[DONE]`."""
FINISH_REASONS = {"stop": "stop", "length": "length", "content_filter": "content-filter", "tool_call": "tool-calls"}
"""The AI SDK's words for ThreadProtocol's."""
_BYTES = "application/octet-stream"


def stream_chunks(actions: Sequence[AnyAction], message_id: str, *, user_ref: str = "") -> list[JSONObject]:
    """The chunks of one run, from `start` to `finish`.

    Args:
        actions: of the run, in order. A user's message is told by its `data-tp-action` chunk only.
        message_id: of the UI message that the client makes of the stream; ids of blocks begin with it.
        user_ref: the id of the user's UI message.
    """
    chunks: list[JSONObject] = [{"type": "start", "messageId": message_id}]
    in_step = has_text = False
    for action in actions:
        if isinstance(action, UserMessageAction):
            chunks.append(note_chunk(action, user_ref))
            continue
        says = isinstance(action, AssistantMessageAction)
        ends = isinstance(action, ToolReturnAction) and action.extensions.get("provider_executed") is not True
        if in_step and not isinstance(action, SystemAction) and (says and has_text):
            chunks.append({"type": "finish-step"})
            in_step = False
        if not in_step and not ends and not isinstance(action, SystemAction):
            chunks.append({"type": "start-step"})
            in_step, has_text = True, False
        if in_step and ends:
            chunks.append({"type": "finish-step"})
            in_step = False
        has_text = has_text or says
        chunks += action_chunks(action, f"{message_id}-{action.sequence}")
    if in_step:
        chunks.append({"type": "finish-step"})
    return [*chunks, _finish(actions)]


def action_chunks(action: AnyAction, block_id: str) -> list[JSONObject]:
    """The chunks of one whole action, its `data-tp-action` chunk last.

    Args:
        action: any but a user's message, of which the stream has that last chunk only.
        block_id: the id of its text or reasoning block, or of its data chunk.
    """
    is_tool = isinstance(action, ToolCallAction | ToolReturnAction)
    ref = action.tool_call_id if is_tool else block_id
    return [*_told(action, block_id), note_chunk(action, ref)]


def _told(action: AnyAction, block_id: str) -> Iterator[JSONObject]:
    match action:
        case UserMessageAction():
            return
        case AssistantMessageAction():
            yield from _said(action, block_id)
        case ThinkingAction():
            yield {"type": "reasoning-start", "id": block_id}
            if action.content:
                yield {"type": "reasoning-delta", "id": block_id, "delta": action.content}
            yield {"type": "reasoning-end", "id": block_id} | write_provider_metadata(action)
        case ToolCallAction():
            head: JSONObject = {"toolCallId": action.tool_call_id, "toolName": action.tool_name}
            executed: JSONObject = {"providerExecuted": True} if action.extensions.get("provider_executed") else {}
            yield {"type": "tool-input-start"} | head | executed
            yield {"type": "tool-input-available"} | head | {"input": action.args} | executed
        case ToolReturnAction():
            yield _returned(action)
        case SystemAction():
            kind = f"data-{action.action_type.removeprefix('system.')}"
            yield {"type": kind, "id": block_id, "data": action.data}


def _said(action: AssistantMessageAction, block_id: str) -> Iterator[JSONObject]:
    parts = parts_of(action.content)
    texts = 0
    if all(part["type"] != "text" for part in parts):
        parts = [text_part(""), *parts]  # an empty block gives the message its name in the stream
    for part in parts:
        if part["type"] == "text":
            name = block_id if texts == 0 else f"{block_id}-{texts}"
            texts += 1
            yield {"type": "text-start", "id": name}
            yield {"type": "text-delta", "id": name, "delta": part["text"]}
            yield {"type": "text-end", "id": name}
        else:
            yield file_chunk(part)


def file_chunk(part: JSONObject) -> JSONObject:
    """The chunk of a part of content that is no text."""
    media_type = str(part.get("media_type") or ("image/png" if part["type"] == "image" else _BYTES))
    data, url = part.get("image_base64") or part.get("data"), part.get("image_url") or part.get("url")
    where = f"data:{media_type};base64,{data}" if data is not None else str(url or part.get("file_id"))
    return {"type": "file", "url": where, "mediaType": media_type}


def _returned(action: ToolReturnAction) -> JSONObject:
    head: JSONObject = {"toolCallId": action.tool_call_id}
    if action.status == "success":
        return {"type": "tool-output-available"} | head | {"output": action.content}
    if action.extensions.get("outcome") == "denied":
        return {"type": "tool-output-denied"} | head
    content = action.content
    text = content if isinstance(content, str) else dumps(content).decode("utf-8", "surrogatepass")
    return {"type": "tool-output-error"} | head | {"errorText": text}


def _finish(actions: Sequence[AnyAction]) -> JSONObject:
    said = [action for action in actions if isinstance(action, AssistantMessageAction)]
    reason = FINISH_REASONS.get(str(said[-1].finish_reason)) if said else None
    chunk: JSONObject = {"type": "finish"}
    return chunk | {"finishReason": reason} if reason else chunk
