"""Shapes of answers about stored media, for the OpenAPI document. `perdure.runtime.shown` makes what they show."""

from __future__ import annotations

from pydantic import AwareDatetime

from perdure.api.shapes import Shape


class Content(Shape):
    """A piece of media; its bytes are at `url`."""

    content_id: str
    url: str
    media_type: str
    filename: str | None
    size_bytes: int
    sha256: str
    made_by: str
    made_at: AwareDatetime
    expires_at: AwareDatetime | None


class Contents(Shape):
    """A page of media, the newest first."""

    contents: list[Content]
    next: str | None


class SignedUrl(Shape):
    """An address that shows media to whoever has it."""

    url: str
    expires_at: AwareDatetime
