"""Who may see stored media: a caller that may read, or whoever has an address that is signed for it."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.requests import HTTPConnection
from starlette.types import Scope as Connection

from perdure.api.principal import Principal, Scope
from perdure.api.requirement import Requirement, Scoped
from perdure.uap.content_refs import content_of


def is_signed(connection: Connection) -> bool:
    """Whether a request's address brings a signature, good or not, and wants to see media."""
    if connection["type"] != "http" or connection["method"] not in ("GET", "HEAD"):
        return False
    return content_of(connection["path"]) is not None and "signature" in parse_qs(
        connection["query_string"].decode("latin-1")
    )


class Viewing(Scoped):
    """A dependency that gives the caller, or None for whoever comes with a signature, which the route has to look at."""

    def __init__(self) -> None:
        """Ask callers for the scope to read."""
        super().__init__(Scope.READ)
        self._known = Requirement(Scope.READ)

    async def __call__(self, connection: HTTPConnection) -> Principal | None:
        """The caller.

        Raises:
            Refused: it has no signature, and is not known (401) or lacks the scope (403).
        """
        return None if is_signed(connection.scope) else await self._known(connection)
