"""A tenant's stored media as tools and model calls reach it, with the bytes that were read last at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from perdure.errors import UnknownContent
from perdure.store.content.contents import ContentRow, find_content, find_contents, read_content
from perdure.store.database import Database, keep_trying
from perdure.uap.content_refs import references, with_content
from perdure.uap.recent_bodies import RecentBodies
from perdure.upp.messages import Message
from perdure.upp.tool_media import ToolMedia

MAX_CONTENT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TenantContents:
    """The media of one tenant; a `ContentSource`.

    Attributes:
        cache: bytes by tenant and hash; whether media is there, and whose, is asked of the database each time.
        max_bytes: of one piece.
        patience: how long a database that is away is waited for.
    """

    database: Database
    tenant: str
    cache: RecentBodies
    max_bytes: int = MAX_CONTENT_BYTES
    patience: timedelta = timedelta(0)

    async def find(self, content_id: str) -> ToolMedia | None:
        """See `ContentSource`."""
        row = await self._row(content_id)
        return None if row is None else facts_of(row)

    async def read(self, content_id: str) -> ToolMedia | None:
        """See `ContentSource`."""
        row = await self._row(content_id)
        return None if row is None else await self._whole(row)

    async def resolved(self, messages: Sequence[Message]) -> list[Message]:
        """Messages with the bytes that they refer to, as a model is shown them; the very objects if they refer to none.

        Raises:
            UnknownContent: something is not there, or not this tenant's.
            InvalidInput: media is of a kind that the block which refers to it cannot be.
        """
        wanted = references(messages)
        if not wanted:
            return list(messages)
        rows = await keep_trying(lambda: find_contents(self.database, self.tenant, wanted), deadline=self.patience)
        check_all_there(wanted, rows)
        media = {ident: await self._whole(rows[ident]) for ident in wanted}
        return [with_content(message, media) for message in messages]

    async def there(self, wanted: Sequence[str]) -> dict[str, ToolMedia]:
        """Media with its bytes, by id; what is not there is left out."""
        if not wanted:
            return {}
        rows = await keep_trying(lambda: find_contents(self.database, self.tenant, wanted), deadline=self.patience)
        return {ident: await self._whole(row) for ident, row in rows.items()}

    async def _row(self, content_id: str) -> ContentRow | None:
        return await keep_trying(lambda: find_content(self.database, content_id, self.tenant), deadline=self.patience)

    async def _whole(self, row: ContentRow) -> ToolMedia:
        name = f"{self.tenant}/{row.sha256}"
        body = self.cache.get(name)
        if body is None:
            body = await keep_trying(lambda: read_content(self.database, row), deadline=self.patience)
            self.cache.put(name, body)
        return ToolMedia(row.media_type, body, content_id=row.id, filename=row.filename)


def facts_of(row: ContentRow) -> ToolMedia:
    """What there is to know of media without its bytes."""
    return ToolMedia(row.media_type, content_id=row.id, filename=row.filename, size_bytes=row.size)


def check_all_there(wanted: Sequence[str], rows: dict[str, ContentRow]) -> None:
    """Refuse references to what is not there. Raises UnknownContent."""
    lacking = [ident for ident in wanted if ident not in rows]
    if lacking:
        raise unknown_content(lacking[0])


def unknown_content(ident: str) -> UnknownContent:
    """The error for an id that names nothing."""
    return UnknownContent(
        f"there is no content {ident[:60]!r}: it was never stored, or is deleted or over; upload it to /api/content again, "
        "or leave it out"
    )
