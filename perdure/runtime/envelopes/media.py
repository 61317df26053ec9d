"""The media of an answer, as chunks of bytes: told before the answer's end, read only when a chunk is numbered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from perdure.errors import DamagedSession
from perdure.protocols.uamp_envelope.delta import bytes_chunk
from perdure.protocols.uamp_events.content_ids import media_of, stored_content
from perdure.protocols.uamp_events.content_items import AudioItem, ContentItem, FileItem, ImageItem, VideoItem
from perdure.protocols.uamp_events.media import mime_of, url_of
from perdure.runtime.envelopes.pieces import CHUNK_BYTES, Medium, Piece
from perdure.store.content.contents import ContentRow, find_contents, read_content
from perdure.store.database import Database
from perdure.upp.json_value import JSONObject

_BASE64_CHARS = CHUNK_BYTES // 3 * 4
_IMAGES = {"iVBORw0KGgo": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}
"""How the base64 of an image begins whose type nobody has said."""


async def find_media(database: Database, tenant: str, output: Sequence[ContentItem]) -> list[Medium]:
    """The media among what a run has put out; what is stored no more, or is elsewhere, is left out.

    Args:
        database: the store.
        tenant: whose media it must be.
        output: of the run.
    """
    items = [item for item in output if isinstance(item, ImageItem | AudioItem | VideoItem | FileItem)]
    stored = [stored_content(media_of(item)) for item in items]
    rows = await find_contents(database, tenant, [ident for ident in stored if ident is not None])
    found: list[Medium] = []
    for item, ident in zip(items, stored, strict=True):
        medium = _inline(item, len(found)) if ident is None else _stored(rows.get(ident), len(found))
        if medium is not None:
            found.append(medium)
    return found


def media_facts(media: Sequence[Medium]) -> JSONObject:
    """What the end of a stream says of the media before it: `mime` of a single one, and what to put each together from."""
    if not media:
        return {}
    facts: JSONObject = {
        "media": [{"item": medium.item, "mime": medium.mime, "bytes": medium.size} for medium in media]
    }
    return {"mime": media[0].mime, **facts} if len(media) == 1 else facts


async def filled(database: Database, tenant: str, pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces with the bytes that they carry; what is stored is read once for all of one medium.

    Raises:
        DamagedSession: stored media is gone.
    """
    made: list[Piece] = []
    for medium, group in groupby(pieces, lambda piece: None if piece.cut is None else piece.cut.medium):
        if medium is None:
            made += group
            continue
        body = b""
        if medium.content is not None:
            rows = await find_contents(database, tenant, [medium.content])
            if not rows:
                raise DamagedSession(f"the content {medium.content} was deleted while it was told")
            body = await read_content(database, rows[medium.content])
        made += [_with_bytes(piece, medium, body) for piece in group]
    return made


def _with_bytes(piece: Piece, medium: Medium, body: bytes) -> Piece:
    assert piece.cut is not None, "the group has cuts"
    start = piece.cut.start
    if medium.content is None:
        first = start // CHUNK_BYTES * _BASE64_CHARS
        carried: JSONObject = {"chunk_b64": medium.base64[first : first + _BASE64_CHARS]}
    else:
        carried = bytes_chunk(body[start : start + CHUNK_BYTES])
    return replace(piece, payload={**carried, **piece.payload}, cut=None)


def _inline(item: ImageItem | AudioItem | VideoItem | FileItem, place: int) -> Medium | None:
    media = media_of(item)
    if url_of(media) is not None or not isinstance(media, str):
        return None
    size = len(media) // 4 * 3 - media[-2:].count("=")
    return Medium(place, _mime(item, media), size, base64=media)


def _stored(row: ContentRow | None, place: int) -> Medium | None:
    return None if row is None else Medium(place, row.media_type, row.size, content=row.id)


def _mime(item: ImageItem | AudioItem | VideoItem | FileItem, base64: str) -> str:
    match item:
        case ImageItem():
            seen = next((mime for start, mime in _IMAGES.items() if base64.startswith(start)), "image/jpeg")
            return mime_of(item.format, "image", seen)
        case AudioItem():
            return mime_of(item.format, "audio", "audio/wav")
        case VideoItem():
            return mime_of(item.format, "video", "video/mp4")
        case FileItem():
            return item.mime_type
