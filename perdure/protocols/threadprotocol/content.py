"""Content of messages: a text, or a list of parts. Source: ThreadProtocol 1.0.0, Content Types.

The specification names no members for file, audio and video; here they have one of `url`, `data` (base64) and
`file_id`, and may have `media_type` and `name`. Parts are plain JSON, so that what nobody here knows is kept.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from perdure.upp.json_value import JSONObject, JSONValue

MessageContent: TypeAlias = str | list[dict[str, JSONValue]]
PART_TYPES = ("text", "image", "file", "audio", "video")
SOURCES = ("url", "data", "file_id")


def check_base64(text: str) -> str:
    """The text itself. Raises ValueError if it is not base64 of the standard alphabet with padding."""
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"it is not standard base64: {error}") from error
    return text


def check_content(content: JSONValue) -> MessageContent:
    """The content itself. Raises ValueError if it is none, or a part is none that the specification knows."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError("it must be a text or a list of parts")
    for index, part in enumerate(content):
        if not isinstance(part, dict):
            raise ValueError(f"part {index}: it is not a JSON object")
        for problem in _faults(part):
            raise ValueError(f"part {index}: {problem}")
    return [part for part in content if isinstance(part, dict)]


def _faults(part: JSONObject) -> Iterator[str]:
    kind = part.get("type")
    if kind not in PART_TYPES:
        yield f"type {kind!r:.80} is unknown; known are {', '.join(PART_TYPES)}"
    elif kind == "text":
        if not isinstance(part.get("text"), str):
            yield "a text needs `text`, a string"
    else:
        sources = ("image_url", "image_base64") if kind == "image" else SOURCES
        given = [name for name in sources if part.get(name) is not None]
        yield from (f"`{name}` must be a string" for name in given if not isinstance(part[name], str))
        if len(given) > 1 or (kind == "image" and not given):
            yield f"exactly one of {', '.join(sources)} is needed, {len(given)} are given"
        yield from (_base64_fault(part, name) for name in ("image_base64", "data") if _base64_fault(part, name))


def _base64_fault(part: JSONObject, name: str) -> str:
    value = part.get(name)
    try:
        check_base64(value if isinstance(value, str) else "")
    except ValueError as error:
        return f"`{name}`: {error}"
    return ""


def text_part(text: str) -> JSONObject:
    """A part of text."""
    return {"type": "text", "text": text}


def media_part(
    media_type: str,
    *,
    url: str | None = None,
    data: str | None = None,
    kind: str | None = None,
    name: str | None = None,
) -> JSONObject:
    """A part of anything but text.

    Args:
        media_type: such as `image/png`; it decides the part's type. Empty if it is not known.
        url: where it is; a `data:` URL becomes `data`.
        data: standard base64.
        kind: the part's type, if the media type does not say.
        name: of the file.
    """
    if url is not None and url.startswith("data:") and ";base64," in url:
        head, _, data = url.partition(";base64,")
        media_type, url = media_type or head.removeprefix("data:").partition(";")[0], None
    family = media_type.partition("/")[0]
    kind = kind or (family if family in ("image", "audio", "video") else "file")
    prefix = ("image_url", "image_base64") if kind == "image" else ("url", "data")
    fields: list[tuple[str, str | None]] = [(prefix[0], url), (prefix[1], data), ("media_type", media_type or None)]
    part: JSONObject = {"type": kind}
    return part | {key: value for key, value in [*fields, ("name", name)] if value is not None}


def joined(parts: Sequence[JSONObject]) -> MessageContent:
    """The content of the parts of one message: adjacent texts are one; text alone is a string."""
    merged: list[JSONObject] = []
    for part in parts:
        if part["type"] == "text" and merged and merged[-1]["type"] == "text":
            merged[-1] = text_part(f"{merged[-1]['text']}{part['text']}")
        else:
            merged.append(part)
    if all(part["type"] == "text" for part in merged):
        return str(merged[0]["text"]) if merged else ""
    return [part for part in merged if part.get("text") != ""]


def parts_of(content: MessageContent) -> list[JSONObject]:
    """The content as parts."""
    return [text_part(content)] if isinstance(content, str) else list(content)


def text_of(content: MessageContent) -> str:
    """All text of the content, joined with nothing between."""
    return "".join(str(part["text"]) for part in parts_of(content) if part["type"] == "text")


def is_streamed(content: MessageContent) -> bool:
    """Whether chunks of texts and of files alone give the very same content."""
    if isinstance(content, str):
        return True
    return joined(content) == content and all(_is_plain(part) for part in content)


def _is_plain(part: JSONObject) -> bool:
    if part["type"] == "text":
        return set(part) == {"type", "text"}
    url, data = part.get("image_url", part.get("url")), part.get("image_base64", part.get("data"))
    texts = [item if isinstance(item, str) else None for item in (url, data)]
    return part == media_part(str(part.get("media_type") or ""), url=texts[0], data=texts[1]) and "media_type" in part
