"""User content and files in Pydantic AI's JSON form, to and from ThreadProtocol's parts.

Pydantic AI writes bytes as URL-safe base64, ThreadProtocol as standard base64. Cache points, identifiers and vendors'
metadata are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perdure.protocols.threadprotocol.content import MessageContent, media_part, parts_of, text_part
from perdure.protocols.threadprotocol.models import Attachment
from perdure.upp.json_value import JSONObject, JSONValue, dumps

_KIND_OF_URL = {"image-url": "image", "audio-url": "audio", "video-url": "video", "document-url": "file"}
_URL_OF_KIND = {kind: url for url, kind in _KIND_OF_URL.items()}
_TO_STANDARD = str.maketrans("-_", "+/")
_TO_URL_SAFE = str.maketrans("+/", "-_")
_BYTES = "application/octet-stream"


def read_prompt(content: JSONValue) -> list[JSONValue] | str:
    """The content of a user prompt: a string if it is nothing else."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else _text(content)
    if len(content) == 1 and isinstance(content[0], str):
        return content[0]
    return [part for item in content for part in _read_item(item)]


def read_file(content: JSONValue) -> JSONObject:
    """A file that a model made."""
    return next(_read_item(content), text_part(""))


def read_speech(part: JSONObject) -> list[JSONObject] | str:
    """What was spoken: the transcript, and the sound if it was kept."""
    transcript = part.get("transcript")
    said = transcript if isinstance(transcript, str) else ""
    if not isinstance(part.get("audio"), dict):
        return said
    return [*([text_part(said)] if said else []), read_file(part["audio"])]


def _read_item(item: JSONValue) -> Iterator[JSONObject]:
    if not isinstance(item, dict):
        yield text_part(_text(item))
        return
    kind, media_type = str(item.get("kind")), item.get("media_type")
    media_type = media_type if isinstance(media_type, str) else ""
    if kind in _KIND_OF_URL:
        yield media_part(media_type, url=str(item.get("url")), kind=_KIND_OF_URL[kind])
    elif kind == "binary":
        yield media_part(media_type or _BYTES, data=str(item.get("data")).translate(_TO_STANDARD))
    elif kind == "uploaded-file":
        fields = {name: item.get(name) for name in ("file_id", "provider_name", "media_type")}
        part: JSONObject = {"type": "file"}
        yield part | {name: value for name, value in fields.items() if value is not None}
    elif kind != "cache-point":
        yield text_part(_text(item.get("content")))


def write_prompt(content: MessageContent, attachments: Sequence[Attachment] = ()) -> JSONValue:
    """The content of a user prompt in Pydantic AI's JSON form."""
    if isinstance(content, str) and not attachments:
        return content
    said: list[JSONValue] = [write_part(part) for part in parts_of(content)]
    return said + [_write_media(_attached(attachment)) for attachment in attachments]


def write_part(part: JSONObject) -> JSONValue:
    """One part in Pydantic AI's JSON form; a text is a plain string."""
    return str(part["text"]) if part["type"] == "text" else _write_media(part)


def write_binary(part: JSONObject) -> JSONObject | None:
    """A part that has its bytes as Pydantic AI's binary content; None for all others."""
    data = part.get("image_base64") or part.get("data")
    if not isinstance(data, str):
        return None
    media_type = part.get("media_type") or ("image/png" if part["type"] == "image" else _BYTES)
    return {"kind": "binary", "data": data.translate(_TO_URL_SAFE), "media_type": media_type}


def _write_media(part: JSONObject) -> JSONValue:
    binary = write_binary(part)
    if binary is not None:
        return binary
    kind, url = str(part["type"]), part.get("image_url") or part.get("url")
    media_type: JSONObject = {"media_type": part["media_type"]} if part.get("media_type") else {}
    if isinstance(url, str):
        return {"kind": _URL_OF_KIND[kind], "url": url} | media_type
    if isinstance(part.get("file_id"), str):
        provider = str(part.get("provider_name") or "unknown")
        return {"kind": "uploaded-file", "file_id": part["file_id"], "provider_name": provider} | media_type
    return f"[{kind} {part.get('name') or 'without a source'}]"


def _attached(attachment: Attachment) -> JSONObject:
    return media_part(attachment.media_type, url=attachment.url, data=attachment.data, name=attachment.name)


def _text(value: JSONValue) -> str:
    return value if isinstance(value, str) else dumps(value).decode("utf-8", "surrogatepass")
