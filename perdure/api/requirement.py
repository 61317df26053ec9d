"""What a route asks of its caller, as a dependency: a scope, and mostly that it is known."""

from __future__ import annotations

from typing import cast

from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection

from perdure.api.authentication import PRINCIPAL, Authenticates
from perdure.api.principal import Principal, Scope
from perdure.api.problems import Refused


class Scoped(SecurityBase):
    """A dependency that gives the caller if it may do what a route does.

    Attributes:
        scope: what the route needs.
    """

    def __init__(self, scope: Scope) -> None:
        """Ask for `scope`."""
        self.scope = scope
        self.model = HTTPBearer(description="An API key (`perdure keys create`) or a token of the issuer.")
        self.scheme_name = "bearer"


class Requirement(Scoped):
    """For a route that only known callers may call."""

    async def __call__(self, connection: HTTPConnection) -> Principal:
        """The caller.

        Raises:
            Refused: it is not known (401), or lacks the scope (403).
        """
        principal: object = connection.scope.get(PRINCIPAL)
        if not isinstance(principal, Principal):
            authenticator: Authenticates = connection.app.state.authenticator
            principal = await authenticator.authenticate(connection)
        check_scope(principal, self.scope)
        return principal


class OptionalRequirement(Scoped):
    """For a route that strangers may call too, since what they send says who they are: then there is no caller."""

    async def __call__(self, connection: HTTPConnection) -> Principal | None:
        """The caller; None for one that shows nothing.

        Raises:
            Refused: what it shows is worth nothing (401), or it lacks the scope (403).
        """
        if PRINCIPAL in connection.scope:
            principal = cast("Principal | None", connection.scope[PRINCIPAL])
        else:
            authenticator: Authenticates = connection.app.state.authenticator
            principal = await authenticator.recognize(connection)
        if principal is not None:
            check_scope(principal, self.scope)
        return principal


def requires(scope: Scope) -> Requirement:
    """A FastAPI dependency: the caller, which must have a scope."""
    return Requirement(scope)


def check_scope(principal: Principal, scope: Scope) -> None:
    """See that a caller has a scope.

    Raises:
        Refused: it has not (403).
    """
    if not principal.may(scope):
        challenge = f'Bearer realm="perdure", error="insufficient_scope", scope="{scope.value}"'
        detail = f"{principal.name!r} lacks the scope {scope.value!r}"
        raise Refused(403, "forbidden", detail, {"WWW-Authenticate": challenge})
