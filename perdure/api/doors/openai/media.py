"""Media of a request: large pieces are stored once however often a client sends them, and files by id are what is stored."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.api.access import Caller
from perdure.protocols.openai_chat.conversation import wire_messages
from perdure.protocols.openai_chat.faults import ChatFault
from perdure.protocols.openai_chat.request import ChatRequest
from perdure.protocols.uamp_events.content_ids import stored_content
from perdure.protocols.uamp_events.content_items import ContentItem, FileItem, WireMessage
from perdure.protocols.uamp_events.faults import EventRefused
from perdure.protocols.uamp_events.upp_blocks import Fetched, urls_to_fetch
from perdure.runtime.content import fetch_media, keep_media
from perdure.store.content.contents import ContentRow, find_contents
from perdure.uap.ids import derive_id
from perdure.upp.json_value import sha256_hex


async def read_messages(caller: Caller, request: ChatRequest) -> tuple[list[WireMessage], Mapping[str, Fetched]]:
    """The messages of a request with content items, and the media that they must hold themselves, by URL.

    Raises:
        ChatFault: 400, a part that cannot be used.
        UnknownContent: a file or an image that is not stored.
        InvalidInput: sound, video or a file that is elsewhere.
    """

    def content_id(media: str) -> str:
        return derive_id(caller.tenant, "content", sha256_hex(media.encode("utf-8", "replace")))

    told = wire_messages(request, content_id)
    stored = await find_contents(caller.database, caller.tenant, _files_in(told))
    told = [
        _with_items(message, [_as_stored(item, stored) for item in message.content_items or ()]) for message in told
    ]
    try:
        kept = await keep_media(caller.sessions, told, made_by=caller.principal.name)
        items = [item for message in kept for item in message.content_items or ()]
        return kept, await fetch_media(caller.sessions, urls_to_fetch(items))
    except EventRefused as refused:
        raise ChatFault(str(refused), param="messages") from refused


def _files_in(messages: list[WireMessage]) -> list[str]:
    items = [item for message in messages for item in message.content_items or ()]
    named = [stored_content(item.file) for item in items if isinstance(item, FileItem)]
    return [ident.lower() for ident in named if ident is not None]


def _as_stored(item: ContentItem, stored: Mapping[str, ContentRow]) -> ContentItem:
    """A file by its id is of the type that it was stored with, whatever its name looks like."""
    ident = stored_content(item.file) if isinstance(item, FileItem) else None
    row = None if ident is None else stored.get(ident.lower())
    return item if row is None else item.model_copy(update={"mime_type": row.media_type})


def _with_items(message: WireMessage, items: list[ContentItem]) -> WireMessage:
    return message if message.content_items is None else message.model_copy(update={"content_items": items})
