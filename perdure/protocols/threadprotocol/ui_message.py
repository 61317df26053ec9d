"""A user's message as the Vercel AI SDK has it: a UI message with text and file parts."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.protocols.threadprotocol.content import media_part, parts_of, text_part
from perdure.protocols.threadprotocol.models import AnyAction, UserMessageAction
from perdure.protocols.threadprotocol.problem import refuse
from perdure.protocols.threadprotocol.stream_notes import note_chunk
from perdure.protocols.threadprotocol.to_stream import action_chunks, file_chunk
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import Message

NAMESPACE = "ai-sdk"
"""Of what a user's message has in its metadata: the client's `id` for it."""


def read_user_message(message: JSONObject) -> JSONObject:
    """The members of a `user_message`: content, and as attachments the files that have a name.

    Raises:
        InvalidThread: it is no user's UI message.
    """
    parts = message.get("parts")
    if message.get("role") != "user" or not isinstance(parts, list):
        raise refuse("message", "ui_message", "it is no UI message of a user", "send role 'user' and a list of parts")
    content: list[JSONValue] = []
    attachments: list[JSONValue] = []
    for part in parts:
        source = part if isinstance(part, dict) else {}
        if source.get("type") == "text":
            content.append(text_part(str(source.get("text", ""))))
        elif source.get("type") == "file":
            _add_file(source, content, attachments)
    texts = [part for part in content if isinstance(part, dict) and part["type"] == "text"]
    said: JSONValue = str(texts[0]["text"]) if len(content) == 1 and texts else content
    fields: JSONObject = {"content": "" if said == [] else said}
    if attachments:
        fields["attachments"] = attachments
    return fields


def ui_id_of(message: Message) -> str:
    """The id that the client gave a user's message; the message's own if it gave none."""
    own = (message.metadata or {}).get(NAMESPACE, {}).get("id")
    return own if isinstance(own, str) and own else message.id


def user_chunks(message: Message, actions: Sequence[AnyAction], *, steers: bool) -> list[JSONObject]:
    """The chunks of a user's message that is stored.

    Args:
        message: as it is stored.
        actions: its own, and the system actions before it.
        steers: the run goes on with it; else the client has sent it, and it is in its list.
    """
    ref = ui_id_of(message)
    chunks: list[JSONObject] = []
    for action in actions:
        if not isinstance(action, UserMessageAction):
            chunks += action_chunks(action, f"{action.action_type}-{action.sequence}")
            continue
        if steers:
            parts: list[JSONValue] = [*(ui_part(part) for part in parts_of(action.content))]
            chunks.append({"type": "steering-message", "id": ref, "parts": parts})
        chunks.append(note_chunk(action, ref, whole=not isinstance(action.content, str)))
    return chunks


def ui_part(part: JSONObject) -> JSONObject:
    """A part of content as a part of a UI message."""
    return {"type": "text", "text": part["text"]} if part["type"] == "text" else file_chunk(part)


def _add_file(part: JSONObject, content: list[JSONValue], attachments: list[JSONValue]) -> None:
    media_type, name = str(part.get("mediaType") or "application/octet-stream"), part.get("filename")
    if not isinstance(name, str) or not name:
        content.append(media_part(media_type, url=str(part.get("url", ""))))
        return
    file = media_part(media_type, url=str(part.get("url", "")), kind="file")
    attachments.append({"name": name} | {key: value for key, value in file.items() if key != "type"})
