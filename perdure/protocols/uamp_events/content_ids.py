"""The ids by which media is known across agents. Source: UAMP 1.0, section 8.5.4."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from perdure.protocols.uamp_events.content_items import (
    AudioItem,
    ContentItem,
    FileItem,
    ImageItem,
    MediaItem,
    ToolResultItem,
    VideoItem,
)
from perdure.protocols.uamp_events.media import Media, url_of

_CONTENT_URL = re.compile(r"/api/content/([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?![0-9a-fA-F-])")

Item = TypeVar("Item", bound="ContentItem")


def media_of(item: MediaItem) -> Media:
    """The media of an item."""
    match item:
        case ImageItem():
            return item.image
        case AudioItem():
            return item.audio
        case VideoItem():
            return item.video
        case FileItem():
            return item.file


def stored_content(media: Media) -> str | None:
    """The id of content that is stored with us; None for media that is anywhere else."""
    url = url_of(media)
    found = _CONTENT_URL.search(url) if url is not None else None
    return found.group(1) if found else None


def identified(item: Item, draw_id: Callable[[], str]) -> Item:
    """The item with a content id: its own, else that of its content URL, else a new one. Only media has any.

    Args:
        item: any content item.
        draw_id: gives a new UUID.
    """
    if not isinstance(item, ImageItem | AudioItem | VideoItem | FileItem) or item.content_id is not None:
        return item
    return item.model_copy(update={"content_id": stored_content(media_of(item)) or draw_id()})


def find_content(items: Iterable[ContentItem], wanted: str) -> MediaItem | None:
    """The media of a content id, looked for also in what tools returned; the last one if there are several.

    An item without an id is found by its content URL.
    """
    found: MediaItem | None = None
    for item in items:
        if isinstance(item, ToolResultItem):
            found = find_content(item.tool_result.content_items or (), wanted) or found
        elif isinstance(item, ImageItem | AudioItem | VideoItem | FileItem):
            known = item.content_id or stored_content(media_of(item))
            found = item if known == wanted else found
    return found
