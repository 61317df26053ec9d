"""Where sessions in process are kept, and copies of durable ones: a port of three methods, and the adapter that forgets.

Source: UAP-1.0 section 14.2, PersistenceAdapter.
"""

from __future__ import annotations

from typing import Protocol


class PersistenceAdapter(Protocol):
    """Keeps texts by key. What it raises reaches the caller of `Session.save`."""

    async def save(self, key: str, data: str) -> None:
        """Keep `data`, ASCII text, in place of what the key had before."""
        ...

    async def load(self, key: str) -> str | None:
        """What was saved under the key; None if there is nothing."""
        ...

    async def delete(self, key: str) -> None:
        """Forget the key; no error if it is not there."""
        ...


class MemoryAdapter:
    """Keeps texts as long as it lives. Made by `memory()`."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    async def save(self, key: str, data: str) -> None:
        """See `PersistenceAdapter.save`."""
        self._texts[key] = data

    async def load(self, key: str) -> str | None:
        """See `PersistenceAdapter.load`."""
        return self._texts.get(key)

    async def delete(self, key: str) -> None:
        """See `PersistenceAdapter.delete`."""
        self._texts.pop(key, None)


def memory() -> MemoryAdapter:
    """A new adapter that keeps sessions in memory; several sessions may share it."""
    return MemoryAdapter()


def storage_key(session_id: str) -> str:
    """The key that a session is saved under. Source: UAP-1.0 section 6.3."""
    return f"session:{session_id}"
