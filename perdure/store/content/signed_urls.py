"""URLs that show one piece of media for a while to whoever has them: for models' vendors and for browsers' tags.

A URL is signed with HMAC-SHA256 over tenant, id and time of expiry, under a key of the deployment that all replicas read.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from urllib.parse import urlencode

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert as upsert

from perdure.errors import InvalidInput
from perdure.store.content.contents import ContentRow
from perdure.store.database import Database
from perdure.store.sealing import seal_in
from perdure.store.tables import url_keys
from perdure.uap.content_refs import content_path
from perdure.uap.session_key import SessionKey

EVERYBODY = "*"
LONGEST_S = 7 * 86_400
_KEY_ID = "content"
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class UrlSigner:
    """Signs and verifies. One of a process is enough: the key never changes."""

    secret: bytes

    def sign(self, row: ContentRow, *, for_s: float, now: float | None = None) -> tuple[str, int]:
        """The path and query that show a piece of media, and until when, in seconds since 1970.

        Args:
            row: the media.
            for_s: seconds that the URL is good for; at most seven days.
            now: seconds since 1970; the clock by default.

        Raises:
            InvalidInput: `for_s` is not above zero, or too long.
        """
        if not 0 < for_s <= LONGEST_S:
            raise InvalidInput(f"a URL can be good for at most {LONGEST_S} seconds, not {for_s:g}")
        expires = int((time.time() if now is None else now) + for_s)
        query = {"expires": expires, "signature": self._signature(row.tenant, row.id, expires)}
        return f"{content_path(row.id)}?{urlencode(query)}", expires

    def admits(self, row: ContentRow, expires: str, signature: str, *, now: float | None = None) -> bool:
        """Whether a URL was signed for this media, and is good still."""
        if not expires.isascii() or not expires.isdecimal() or len(expires) > 12 or not signature.isascii():
            return False
        right = self._signature(row.tenant, row.id, int(expires))
        is_same = hmac.compare_digest(right, signature)
        return is_same and (time.time() if now is None else now) < int(expires)

    def _signature(self, tenant: str, ident: str, expires: int) -> str:
        said = "\n".join((tenant, ident, str(expires))).encode("utf-8", "surrogatepass")
        return base64.urlsafe_b64encode(hmac.digest(self.secret, said, hashlib.sha256)).rstrip(b"=").decode()


async def read_signer(database: Database) -> UrlSigner:
    """The deployment's signer; its key is made by the first that asks."""
    key = SessionKey(EVERYBODY, _KEY_ID)
    mine = (url_keys.c.tenant_id == EVERYBODY) & (url_keys.c.id == _KEY_ID)
    values = {"tenant_id": EVERYBODY, "id": _KEY_ID, "secret": secrets.token_bytes(_KEY_BYTES)}
    async with database.transaction(key) as connection:
        found = await connection.scalar(select(url_keys.c.secret).where(mine))
        if found is None:
            row = {**seal_in(connection, key).row(url_keys, values), "made_at": func.clock_timestamp()}
            await connection.execute(upsert(url_keys).values(row).on_conflict_do_nothing())
            found = await connection.scalar(select(url_keys.c.secret).where(mine))
    assert isinstance(found, bytes), "the key is there now"
    return UrlSigner(found)
