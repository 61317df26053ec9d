"""Following the mail of UAMP's sessions."""

from __future__ import annotations

from perdure.runtime.event_stream import EventStream
from perdure.store.database import Database
from perdure.store.events import Event
from perdure.store.uamp.mail import CHANNEL, read_last_mail, read_mail
from perdure.uap.session_key import SessionKey

_PAGE_BYTES = 256 * 1024


class MailStream(EventStream):
    """As a stream of event logs, but of mail: a key is a tenant and the id of a session of UAMP, an event's data the wire's event."""

    def __init__(self, database: Database) -> None:
        """Follow the mail in `database`; nothing is connected before the first viewer."""
        super().__init__(database, CHANNEL)

    async def _read(self, key: SessionKey, after: int) -> list[Event]:
        tenant, ident = key
        return await self.until_there(
            lambda: read_mail(self.database, tenant, ident, after=after, max_bytes=_PAGE_BYTES)
        )

    async def _last_seqs(self, keys: list[SessionKey]) -> dict[SessionKey, int]:
        return await self.until_there(lambda: read_last_mail(self.database, keys))
