"""What `launch` and `servers` need to know of a server; `postgres` and `temporal` are the two that there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from perdure.embedded.account import Account
from perdure.embedded.process import Kind


class StillStarting(Exception):
    """The server answers that it is not ready yet, as PostgreSQL does while it recovers: waiting has a point."""


class Server(Protocol):
    """One of the two servers, as it is kept in one folder."""

    kind: Kind
    name: str
    ports: range
    data: Path
    account: Account | None

    def can_adopt(self) -> bool:
        """Tell whether a server that already runs could be used, once it answers."""
        ...

    def prepare(self, lock: int) -> None:
        """Make the data if there are none, and bring them into a state that a server can start on. Blocks.

        Args:
            lock: the descriptor of the data lock, for every child to inherit.

        Raises:
            EmbeddedError: the data or the wheel cannot be used.
        """
        ...

    def arguments(self, port: int) -> Sequence[str]:
        """Return the command line of a server that listens on `port`."""
        ...

    async def probe(self, port: int) -> bool:
        """Tell whether the server on `port` does its work; what it lacks of our settings is added.

        Raises:
            StillStarting: it says that it is starting.
        """
        ...

    def started(self) -> None:
        """Note that the data have been taken into use by this version. Blocks."""
        ...
