"""The ids by which media is known across agents. Source: UAMP 1.0, section 8.5.4."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from perdure.protocols.uamp_events.content_items import (
    AudioItem,
    ContentItem,
    FileItem,
    ImageItem,
    MediaItem,
    VideoItem,
)
from perdure.protocols.uamp_events.media import Media, url_of
from perdure.uap.content_refs import content_of

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
    return None if url is None else content_of(url)


def identified(item: Item, draw_id: Callable[[], str]) -> Item:
    """The item with a content id: its own, else that of its content URL, else a new one. Only media has any.

    Args:
        item: any content item.
        draw_id: gives a new UUID.
    """
    if not isinstance(item, ImageItem | AudioItem | VideoItem | FileItem) or item.content_id is not None:
        return item
    return item.model_copy(update={"content_id": stored_content(media_of(item)) or draw_id()})
