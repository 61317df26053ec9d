"""What a message is given, in the form in which it keeps it: content as blocks, metadata as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from perdure.upp.content import ContentBlock, StandsForBlock, TextBlock
from perdure.upp.json_field import invalid
from perdure.upp.json_value import JSONValue, jsonable

Metadata = Mapping[str, Mapping[str, object]]
"""A message's metadata by namespace: the provider's name, or an application's own."""


def copy_metadata(metadata: Metadata) -> JSONValue:
    """Returns a copy that shares nothing.

    Raises:
        UPPError: INVALID_REQUEST if it is not JSON, or a namespace is no object.
    """
    try:
        copied = jsonable(metadata)
    except TypeError as error:
        raise invalid("message metadata", str(error)) from error
    namespaces = copied if isinstance(copied, dict) else {}
    wrong = next((name for name, value in namespaces.items() if not isinstance(value, dict)), None)
    if wrong is not None:
        raise invalid("message metadata", f"the namespace {wrong!r} must be an object")
    return copied


def to_blocks(content: object) -> list[ContentBlock]:
    """Returns the blocks of a message's content: strings as text blocks, media as their blocks.

    Raises:
        UPPError: INVALID_REQUEST if something is neither of these nor a block.
    """
    if isinstance(content, str | Mapping) or not isinstance(content, Iterable):
        return [_to_block(cast(object, content))]
    return [_to_block(item) for item in cast("Iterable[object]", content)]


def _to_block(item: object) -> ContentBlock:
    match item:
        case str():
            return TextBlock(item)
        case _ if isinstance(item, ContentBlock):
            return item
        case StandsForBlock():
            return _to_block(cast(object, item.to_block()))
        case _:
            raise invalid("message", f"content must be text or content blocks or media, got {type(item).__name__}")
