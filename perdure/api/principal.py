"""Who sends a request, and what that one may do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Scope(StrEnum):
    """What a principal may do; each stands for itself, `ADMIN` for all."""

    READ = "read"
    RUN = "run"
    APPROVE = "approve"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller.

    Attributes:
        name: for records of who did what: a key's name, a token's subject, or "anonymous".
        tenant: whose rows it sees; those of others do not exist for it.
        scopes: what it may do.
        expires_at: when the key or token that says so does; None if it does not.
    """

    name: str
    tenant: str
    scopes: frozenset[Scope]
    expires_at: datetime | None = None

    def may(self, scope: Scope) -> bool:
        """Whether it may do what needs `scope`."""
        return scope in self.scopes or Scope.ADMIN in self.scopes
