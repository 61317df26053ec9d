"""A user's message as the Vercel AI SDK's `useChat` sends it: a UI message with text and file parts."""

from __future__ import annotations

from perdure.protocols.threadprotocol.content import media_part, text_part
from perdure.protocols.threadprotocol.problem import refuse
from perdure.upp.json_value import JSONObject, JSONValue


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


def _add_file(part: JSONObject, content: list[JSONValue], attachments: list[JSONValue]) -> None:
    media_type, name = str(part.get("mediaType") or "application/octet-stream"), part.get("filename")
    if not isinstance(name, str) or not name:
        content.append(media_part(media_type, url=str(part.get("url", ""))))
        return
    file = media_part(media_type, url=str(part.get("url", "")), kind="file")
    attachments.append({"name": name} | {key: value for key, value in file.items() if key != "type"})
