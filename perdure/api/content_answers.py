"""Stored media as the body of an answer: whole, a part of it, or none where the client has it already."""

from __future__ import annotations

from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import Response

from perdure.api.byte_ranges import Unsatisfiable, names_tag, wanted_range
from perdure.api.problems import Refused
from perdure.store.content.contents import ContentRow, read_content
from perdure.store.database import Database

_SHOWN = ("audio/", "video/", "image/")
_ALSO_SHOWN = frozenset({"text/plain", "application/pdf"})
_ACTIVE = frozenset({"image/svg+xml"})
_MOST_ASCII = 126


async def content_answer(database: Database, row: ContentRow, headers: Headers, *, with_body: bool = True) -> Response:
    """The answer to a request for media.

    Args:
        database: the store.
        row: the media.
        headers: of the request; Range, If-Range and If-None-Match are looked at.
        with_body: not for HEAD, which is told the size of the whole.

    Raises:
        Refused: 416, there are none of the bytes that are wanted.
        DamagedSession: the bytes are not those that the row names.
    """
    tag = f'"{row.sha256}"'
    told = {**_headers_of(row), "ETag": tag}
    if names_tag(headers.get("if-none-match"), tag):
        return Response(status_code=304, headers={"ETag": tag, "Cache-Control": told["Cache-Control"]})
    if not with_body:
        return Response(headers={**told, "Content-Length": str(row.size)})
    same = headers.get("if-range") in (None, tag)
    try:
        wanted = wanted_range(headers.get("range"), row.size) if same else None
    except Unsatisfiable:
        detail = f"content {row.id} has {row.size} bytes; ask for some of them"
        raise Refused(416, "range_not_satisfiable", detail, {"Content-Range": f"bytes */{row.size}"}) from None
    body = await read_content(database, row)
    if wanted is None:
        return Response(body, headers=told)
    part = memoryview(body)[wanted.first : wanted.last + 1]
    return Response(part, 206, {**told, "Content-Range": wanted.of(row.size)})


def _headers_of(row: ContentRow) -> dict[str, str]:
    kind = row.media_type.partition(";")[0]
    is_shown = (kind.startswith(_SHOWN) or kind in _ALSO_SHOWN) and kind not in _ACTIVE
    headers = {
        "Content-Type": row.media_type,
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-cache",
        "X-Content-Type-Options": "nosniff",
        "Content-Disposition": _disposition("inline" if is_shown else "attachment", row.filename),
    }
    return headers if is_shown else {**headers, "Content-Security-Policy": "default-src 'none'; sandbox"}


def _disposition(kind: str, filename: str | None) -> str:
    """Source: RFC 6266."""
    if filename is None:
        return kind
    plain = "".join(c if c >= " " and ord(c) <= _MOST_ASCII and c not in '"\\%' else "_" for c in filename)
    exact = "" if plain == filename else f"; filename*=UTF-8''{quote(filename, safe='')}"
    return f'{kind}; filename="{plain}"{exact}'
