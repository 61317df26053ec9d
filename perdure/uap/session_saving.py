"""Saving a session, on demand and by itself."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable

from perdure.uap.persistence import PersistenceAdapter, memory, storage_key
from perdure.upp.json_value import JSONObject

logger = logging.getLogger(__name__)


class SessionSaving:
    """One session's way to its adapter.

    Args:
        session_id: the session's id.
        document: makes its SessionJSON.
        adapter: the user's; without one there is one in memory, and nothing is saved unasked, since nobody could
            read it.
    """

    def __init__(self, session_id: str, document: Callable[[], JSONObject], adapter: PersistenceAdapter | None) -> None:
        self._session_id = session_id
        self._document = document
        self._adapter = memory() if adapter is None else adapter
        self._unasked = adapter is not None
        self._lock = asyncio.Lock()

    @property
    def is_readable(self) -> bool:
        """Whether the adapter is the user's."""
        return self._unasked

    async def save(self) -> None:
        """Save. Raises what the document's making or the adapter raises."""
        async with self._lock:  # an older text must not come after a newer one
            text = json.dumps(self._document(), allow_nan=False)
            await self._adapter.save(storage_key(self._session_id), text)

    async def save_unasked(self) -> None:
        """Save if somebody can read it. A run does not fail because its copy could not be stored."""
        if not self._unasked:
            return
        try:
            await self.save()
        except Exception:
            logger.exception("session.save_failed", extra={"session_id": self._session_id})
