"""Media on its way in: the body itself, or the one file of a form. Source: RFC 7578 and RFC 6266."""

from __future__ import annotations

from dataclasses import dataclass, field
from email.message import Message

from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect, Request

from perdure.api.problems import Refused

FORM = "multipart/form-data"
FORM_OVERHEAD_BYTES = 64 * 1024
"""What a form may have besides its file."""

UNKNOWN = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Upload:
    """What was sent.

    Attributes:
        media_type: as its sender says.
        body: the bytes.
        filename: as its sender says, or None.
    """

    media_type: str
    body: bytes = field(repr=False)
    filename: str | None


async def read_upload(request: Request, max_bytes: int) -> Upload:
    """The media of a request, read as it comes.

    Args:
        request: its body is not read yet.
        max_bytes: of the media.

    Raises:
        Refused: it is too large (413), ends early (400), or is a form without exactly one file (422).
    """
    kind = request.headers.get("content-type", "").strip()
    try:
        if kind.lower().startswith(FORM):
            return await _of_form(request, max_bytes)
        return Upload(kind or UNKNOWN, await _whole(request, max_bytes), _filename(request))
    except ClientDisconnect:
        raise Refused(400, "bad_request", "the body ended early; nothing was stored") from None


async def _whole(request: Request, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    return bytes(body)


async def _of_form(request: Request, max_bytes: int) -> Upload:
    async with request.form(max_files=1, max_fields=0) as form:
        files = form.getlist("file")
        file = files[0] if len(form) == len(files) == 1 else None
        if not isinstance(file, UploadFile):
            raise Refused(422, "invalid_input", "a form must hold one file, as the field `file`, and nothing else")
        if (file.size or 0) > max_bytes:
            raise _too_large(max_bytes)
        return Upload(file.content_type or UNKNOWN, await file.read(), file.filename or None)


def _filename(request: Request) -> str | None:
    told = Message()
    told["content-disposition"] = request.headers.get("content-disposition", "")
    return told.get_filename()


def _too_large(max_bytes: int) -> Refused:
    return Refused(413, "too_large", f"media may have {max_bytes} bytes (PERDURE_MAX_CONTENT_BYTES)")
