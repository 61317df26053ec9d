"""Stored media for what takes conversations in: large media is stored, references are checked, bytes are fetched.

Nothing here fetches from anywhere but the store: media that is elsewhere has to be uploaded first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from perdure.errors import InvalidInput, KeyConflict
from perdure.protocols.uamp_events.content_ids import media_of
from perdure.protocols.uamp_events.content_items import ContentItem, FileItem, ImageItem, WireMessage
from perdure.protocols.uamp_events.input_buffer import TurnInput
from perdure.protocols.uamp_events.media import MediaUrl, data_uri, decode, mime_of, url_of
from perdure.protocols.uamp_events.upp_blocks import Fetched
from perdure.runtime.tenant_servers import TenantServers
from perdure.store.content.contents import ContentRow, NewContent, find_contents, keep_content, read_content
from perdure.store.content.tenant_contents import check_all_there
from perdure.uap.content_refs import (
    PDF,
    content_of,
    content_path,
    is_content_id,
    is_text,
    references,
    with_plain_references,
)
from perdure.uap.ids import derive_id
from perdure.upp.json_value import sha256_hex
from perdure.upp.media_names import checked_filename
from perdure.upp.messages import Message

M = TypeVar("M", bound=Message)

LARGE_BYTES = 16 * 1024
"""Media above this is stored apart, where a message may refer to it."""


async def fetch_media(servers: TenantServers, urls: Iterable[str]) -> dict[str, Fetched]:
    """The media that messages must hold themselves, by URL: what `upp_blocks.urls_to_fetch` names.

    Args:
        servers: of the tenant whose media it must be.
        urls: of content that is stored here, or `data:`.

    Raises:
        InvalidInput: a URL of anything else.
        UnknownContent: there is no such content.
        EventRefused: a data URI that cannot be read.
    """
    fetched: dict[str, Fetched] = {}
    stored: dict[str, str] = {}
    for url in urls:
        inline, ident = data_uri(url), content_of(url)
        if inline is not None:
            fetched[url] = Fetched(*inline)
        elif ident is not None:
            stored[url] = ident
        else:
            raise InvalidInput(
                f"media at {url[:200]!r} is not fetched; upload it to /api/content and send the URL of that"
            )
    rows = await _known(servers, list(stored.values()))
    for url, ident in stored.items():
        fetched[url] = Fetched(rows[ident].media_type, await read_content(servers.database, rows[ident]))
    return fetched


async def known_references(servers: TenantServers, messages: Sequence[M]) -> list[M]:
    """Messages whose references to stored media are plain, without host and signature, and name what is there.

    Raises:
        UnknownContent: something is not there.
    """
    wanted = references(messages)
    if not wanted:
        return list(messages)
    await _known(servers, wanted)
    return [with_plain_references(message) for message in messages]


async def keep_turn(servers: TenantServers, given: TurnInput, *, made_by: str) -> TurnInput:
    """A turn's input whose large media is stored; see `keep_media`."""
    messages = await keep_media(servers, given.messages, made_by=made_by)
    history = None if given.history is None else await keep_media(servers, given.history, made_by=made_by)
    return replace(given, messages=messages, history=history)


async def keep_media(servers: TenantServers, messages: Sequence[WireMessage], *, made_by: str) -> list[WireMessage]:
    """Messages whose large images, PDFs and texts are stored, so that they refer to them; once, however often it is said.

    Media of other kinds stays where it is: the messages of an agent must hold it themselves.

    Args:
        servers: of the tenant whose media it becomes.
        messages: of the wire.
        made_by: who sends it, as the authenticator names them.

    Raises:
        EventRefused: base64 that is none.
        InvalidInput: a media type that cannot be one.
    """
    kept: list[WireMessage] = []
    for message in messages:
        if message.content_items is None:
            kept.append(message)
            continue
        items = [await _kept(servers, item, made_by) for item in message.content_items]
        kept.append(message.model_copy(update={"content_items": items}))
    return kept


async def _kept(servers: TenantServers, item: ContentItem, made_by: str) -> ContentItem:
    if not isinstance(item, ImageItem | FileItem):
        return item
    url = url_of(media_of(item))
    kind = item.mime_type if isinstance(item, FileItem) else mime_of(item.format, "image", "image/jpeg")
    inline = (kind, decode(str(media_of(item)), f"{item.type} input")) if url is None else data_uri(url)
    if inline is None or len(inline[1]) <= LARGE_BYTES or not _can_be_referred_to(item, inline[0]):
        return item
    media_type = kind if isinstance(item, FileItem) else inline[0]
    name = _name_of(item.filename) if isinstance(item, FileItem) else None
    row = await _store(servers, NewContent(media_type, inline[1], made_by, id=item.content_id, filename=name))
    where = MediaUrl(url=content_path(row.id))
    changed = {"file": where} if isinstance(item, FileItem) else {"image": where}
    return item.model_copy(update={**changed, "content_id": item.content_id or row.id})


async def _store(servers: TenantServers, new: NewContent) -> ContentRow:
    """Store media under its sender's id if that can be one and is free, else under one that follows from the bytes."""
    if new.id is not None and is_content_id(new.id):
        with suppress(KeyConflict):
            return (await keep_content(servers.database, servers.tenant, new))[0]
    derived = derive_id(servers.tenant, "content", new.media_type, sha256_hex(new.body))
    return (await keep_content(servers.database, servers.tenant, replace(new, id=derived)))[0]


def _can_be_referred_to(item: ImageItem | FileItem, media_type: str) -> bool:
    return isinstance(item, ImageItem) or media_type.startswith("image/") or media_type == PDF or is_text(media_type)


def _name_of(filename: str) -> str | None:
    """The name of a file if it can be stored; the item has it in any case."""
    try:
        return checked_filename(filename)
    except InvalidInput:
        return None


async def _known(servers: TenantServers, wanted: Sequence[str]) -> dict[str, ContentRow]:
    rows = await find_contents(servers.database, servers.tenant, wanted) if wanted else {}
    check_all_there(wanted, rows)
    return rows
