"""What stands before every route, and before anything is parsed: who may come in, and with how much.

While nobody is asked who they are (`Authenticator.is_open`), a browser on this machine is the way in for strangers: a page
of theirs sends requests here (which its `Origin` tells), or has its own name point to this machine (which `Host` tells).
So only names of this machine pass then, and pages of this server. What a proxy adds (`X-Forwarded-*`) is not believed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias, cast

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from perdure.api.authentication import PRINCIPAL, Authenticates
from perdure.api.bodies import BoundedBody, Bounds
from perdure.api.principal import Principal
from perdure.api.problems import Refused, ShapeOf, everywhere_a_problem, fault_of
from perdure.api.rate_limit import RateLimit
from perdure.config import Settings
from perdure.errors import PerdureError
from perdure.runtime.outbound import is_loopback_name

GUARDED = ("/api/",)
"""Beginnings of the paths of the house itself whose callers must be known."""

IsSigned: TypeAlias = Callable[[Scope], bool]
Serves: TypeAlias = Callable[[str], bool]


def _never_signed(_: Scope) -> bool:
    return False


def _nowhere(_: str) -> bool:
    return False


_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::([0-9]{1,5}))?")


class Gatekeeper(Authenticates, Protocol):
    """What the guard needs of `app.state.authenticator`."""

    @property
    def is_open(self) -> bool:
        """Whether nobody is asked who they are."""
        ...


class Guard:
    """An ASGI middleware. The caller of a guarded path is found before its body is read, and kept for the route."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        bounds: Bounds,
        rate: RateLimit | None = None,
        guarded: tuple[str, ...] = GUARDED,
        public: frozenset[str] = frozenset(),
        asks_itself: Serves = _nowhere,
        open_to_strangers: frozenset[str] = frozenset(),
        is_signed: IsSigned = _never_signed,
        own_bounds: Mapping[str, Bounds] | None = None,
        shape_of: ShapeOf = everywhere_a_problem,
    ) -> None:
        """Stand before `app`.

        Args:
            app: what is guarded.
            bounds: of each request.
            rate: of each caller.
            guarded: beginnings of the paths whose callers must be known.
            public: paths among them that anyone may have.
            asks_itself: whether a path among them is of a door that finds out by itself who calls, or asks nobody.
            open_to_strangers: paths that somebody may call who shows nothing: what is sent there says who it is.
            is_signed: whether a request's address itself says that it may come in; its route looks whether that is so.
            own_bounds: of paths that have others than `bounds`.
            shape_of: how refusals are told.
        """
        self._app = app
        self._bounds = bounds
        self._rate = rate
        self._guarded = guarded
        self._public = public
        self._asks_itself = asks_itself
        self._open_to_strangers = open_to_strangers
        self._is_signed = is_signed
        self._own_bounds = own_bounds or {}
        self._shape_of = shape_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a connection in, or answer it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        body = None  # what comes through a WebSocket is bounded by who reads it
        if scope["type"] == "http":
            body = BoundedBody(scope, receive, send, self._own_bounds.get(scope["path"], self._bounds))
            receive, send = body.receive, body.send
        try:
            if body is not None:
                body.check_length()
            await self._admit(scope)
        except (Refused, PerdureError) as error:
            answer = self._shape_of(scope["path"])(fault_of(error))
        else:
            await self._app(scope, receive, send)
            return
        await _refuse(scope, receive, send, answer)

    async def _admit(self, scope: Scope) -> None:
        gatekeeper = cast(Gatekeeper, scope["app"].state.authenticator)
        if gatekeeper.is_open:
            check_place(Headers(scope=scope))
        path: str = scope["path"]
        if self._is_signed(scope):
            self._count(scope, None)
            return
        if path in self._open_to_strangers:
            principal = await gatekeeper.recognize(HTTPConnection(scope))
        elif not path.startswith(self._guarded) or path in self._public or self._asks_itself(path):
            return
        else:
            principal = await gatekeeper.authenticate(HTTPConnection(scope))
        scope[PRINCIPAL] = principal
        self._count(scope, principal)

    def _count(self, scope: Scope, principal: Principal | None) -> None:
        """Take a request from its caller's bucket; strangers have one for each address that they come from."""
        name = f"a stranger at {(scope.get('client') or ('nowhere',))[0]}" if principal is None else principal.name
        caller = (None if principal is None else principal.tenant, name)
        wait = 0 if self._rate is None else self._rate.take(caller)
        if wait:
            detail = f"{name!r} sends too many requests; try again in {wait} s"
            raise Refused(429, "too_many_requests", detail, {"Retry-After": str(wait)})


def install(
    app: FastAPI,
    settings: Settings,
    *,
    rate: RateLimit | None = None,
    guarded: tuple[str, ...] = GUARDED,
    public: frozenset[str] = frozenset(),
    asks_itself: Serves = _nowhere,
    open_to_strangers: frozenset[str] = frozenset(),
    is_signed: IsSigned = _never_signed,
    own_bounds: Mapping[str, Bounds] | None = None,
    shape_of: ShapeOf = everywhere_a_problem,
) -> None:
    """Put the guard before an app whose `state.authenticator` is an `Authenticator` by the time it serves.

    Args:
        app: of FastAPI.
        settings: the bounds.
        rate: see `Guard`.
        guarded: likewise.
        public: likewise.
        asks_itself: likewise.
        open_to_strangers: likewise.
        is_signed: likewise.
        own_bounds: likewise.
        shape_of: likewise.
    """
    bounds = Bounds(settings.max_request_bytes, settings.max_request_depth, settings.max_request_items)
    app.add_middleware(
        Guard,
        bounds=bounds,
        rate=rate,
        guarded=guarded,
        public=public,
        asks_itself=asks_itself,
        open_to_strangers=open_to_strangers,
        is_signed=is_signed,
        own_bounds=own_bounds,
        shape_of=shape_of,
    )


def check_place(headers: Headers) -> None:
    """See that a request was sent to this machine by name, and by no page of another server.

    Raises:
        Refused: `Host` is another's (421), or `Origin` is (403).
    """
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not _is_this_machine(hosts[0]):
        raise Refused(
            421,
            "misdirected",
            "without authentication this server answers to localhost, 127.0.0.1 and [::1] only; "
            "to serve it under another name create a key: `perdure keys create`",
        )
    origins = headers.getlist("origin")
    if any(origin.lower() not in _own_origins(hosts[0]) for origin in origins):
        raise Refused(
            403, "forbidden_origin", "without authentication this server takes no requests from pages of other servers"
        )


def _is_this_machine(host: str) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and is_loopback_name(found[1]) and int(found[2] or 0) < 65536


def _own_origins(host: str) -> tuple[str, str]:
    return (f"http://{host.lower()}", f"https://{host.lower()}")


async def _refuse(scope: Scope, receive: Receive, send: Send, answer: Response) -> None:
    if scope["type"] == "http":
        await answer(scope, receive, send)
        return
    socket = WebSocket(scope, receive, send)
    if "websocket.http.response" in scope.get("extensions", {}):
        await socket.send_denial_response(answer)
    else:
        await socket.close(1008)
