"""Who calls, as a route's parameter: `Reader`, `Runner`, `Approver` and `Administrator` say what the route needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from perdure.api.backend import Backend
from perdure.api.principal import Principal, Scope
from perdure.api.requirement import OptionalRequirement, requires
from perdure.runtime.payments import Payments
from perdure.runtime.sessions import Sessions
from perdure.runtime.stages import Stages
from perdure.store.database import Database
from perdure.uap.session_key import SessionKey


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller, and the sessions of its tenant: all that a route can reach.

    Attributes:
        principal: who it is.
        sessions: of its tenant.
        backend: of this process.
    """

    principal: Principal
    sessions: Sessions
    backend: Backend

    @property
    def database(self) -> Database:
        """The store."""
        return self.sessions.database

    @property
    def tenant(self) -> str:
        """Whose rows it sees."""
        return self.principal.tenant

    @property
    def payments(self) -> Payments:
        """The payments of its tenant's runs."""
        return self.backend.payments(self.tenant)

    @property
    def stages(self) -> Stages:
        """The stage sessions of its tenant."""
        return self.backend.stages(self.tenant)

    def key(self, session: str) -> SessionKey:
        """The key of a session that it named. Raises InvalidInput."""
        return self.sessions.key_of(session)


def _caller(scope: Scope) -> Callable[..., Awaitable[Caller]]:
    needed = Depends(requires(scope))

    async def dependency(request: Request, principal: Principal = needed) -> Caller:
        backend = cast(Backend, request.app.state.backend)
        return Caller(principal, backend.sessions(principal.tenant), backend)

    return dependency


Reader = Annotated[Caller, Depends(_caller(Scope.READ))]
Runner = Annotated[Caller, Depends(_caller(Scope.RUN))]
Approver = Annotated[Caller, Depends(_caller(Scope.APPROVE))]
Administrator = Annotated[Caller, Depends(_caller(Scope.ADMIN))]
RunnerOrStranger = Annotated[Principal | None, Depends(OptionalRequirement(Scope.RUN))]
