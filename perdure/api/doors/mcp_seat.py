"""One MCP client at one stage session: all that the MCP server asks of the runtime. It knows no transport.

Every call is an action of the session, so the session itself refuses what is not of its stage, whatever the client lists.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeAlias

from mcp_types import CallToolResult, Tool

from perdure.errors import InvalidInput, UnknownAction
from perdure.protocols.mcp.identity import Seat
from perdure.protocols.mcp.resources import (
    SESSION_URI,
    WORKFLOW_URI,
    action_of_uri,
    session_document,
)
from perdure.protocols.mcp.results import call_result, refused_result
from perdure.protocols.mcp.tools import offered, tools
from perdure.protocols.uaip.models import tidy
from perdure.protocols.uaip.reply import Reply
from perdure.protocols.uaip.request import RequestRefused
from perdure.protocols.uaip.schema import workflow_schema
from perdure.runtime.stages import WAIT_SECONDS, Stages
from perdure.uaip.action import Action
from perdure.uaip.definition import WorkflowDefinition
from perdure.uaip.offers import Offer, action_of
from perdure.uaip.refusal import Reason, Refusal, session_not_found
from perdure.uaip.session import StageSession
from perdure.uap.ids import new_id
from perdure.upp.json_value import JSONObject, dumps

_FIRST_NEWS_S = 1.0
_NEWS_S = 5.0
_SOURCE = "stage"
_MOVES = ("stage.moved", "stage.terminated", "stage.expired")

Report: TypeAlias = Callable[[float, str], Awaitable[None]]
"""Tells a client that its call goes on: seconds that have passed, and what is going on."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a session stands.

    Attributes:
        definition: the one that it is pinned to.
        session: its state for the stage machine.
        last_seq: of its event log.
    """

    definition: WorkflowDefinition
    session: StageSession
    last_seq: int

    @property
    def offered(self) -> tuple[Offer, ...]:
        """What is listed then."""
        return offered(self.definition, self.session)


class StageSeat:
    """A stage session as its MCP client uses it.

    Attributes:
        id: of the MCP session.
        workflow: the name that the client asked for.
        is_whole: all that the client asks comes through this seat, so what it knows of the tools is known here.
    """

    def __init__(self, stages: Stages, workflow: str, id: Seat, *, is_whole: bool = False) -> None:
        """Nothing is read before `look`.

        Args:
            stages: of the client's tenant.
            workflow: a session of another one does not exist here.
            id: of the MCP session, which names the stage session.
            is_whole: see the class.
        """
        self.id = id
        self.workflow = workflow
        self.is_whole = is_whole
        self._stages = stages
        self._told: Standing | None = None
        self._has_ended = False

    async def look(self) -> Standing:
        """Where the session stands.

        Raises:
            RequestRefused: this tenant has no such session of this workflow, or it has ended.
        """
        row = await self._stages.find(self.id.session, workflow=self.workflow)
        if row.session.has_ended:
            raise RequestRefused(session_not_found())
        standing = Standing(await self._stages.definition_of(row), row.session, row.last_seq)
        if self._told is None:
            self._told = standing
        return standing

    async def tools(self) -> list[Tool]:
        """What can be called now. Raises RequestRefused."""
        self._told = standing = await self.look()
        return tools(standing.definition, standing.session)

    async def has_changed(self) -> bool:
        """Whether other tools are listed than the client was last told of; from then on it counts as told."""
        try:
            now = await self.look()
        except RequestRefused:
            changed, self._has_ended = not self._has_ended, True
            return changed
        before = self._told or now
        if now.last_seq < before.last_seq:
            return False  # another request has looked later, and told
        self._told = now
        return now.offered != before.offered

    async def changes(self, after: int) -> AsyncGenerator[int]:
        """Follow the session, whoever acts in it: the event's number each time that other tools are listed, until it ends.

        A move is told even if it was undone meanwhile, where the client may have listed the tools in between.

        Args:
            after: a number of the session's event log.

        Raises:
            ServerError: this process is to end.
            SessionGone: the session was deleted.
        """
        key = self._stages.key_of(self.id.session)
        async with aclosing(self._stages.stream.follow_pages(key, after=after)) as pages:
            async for page in pages:
                if not any(event.source == _SOURCE for event in page):
                    continue
                has_moved = not self.is_whole and any(event.type in _MOVES for event in page)
                if await self.has_changed() or has_moved:
                    yield page[-1].seq
                if self._has_ended:
                    return

    async def call(
        self, name: str, arguments: JSONObject, *, key: str | None = None, report: Report | None = None
    ) -> CallToolResult:
        """Call a tool. Whoever stops waiting loses nothing: the action is stored, and done.

        Args:
            name: the tool's.
            arguments: as the client sent them.
            key: idempotency key; None makes the call one of its own.
            report: tells the client that the call goes on; it is waited for as long as it takes then, else for 30 s.
        """
        try:
            dumps(arguments)
            action = action_of(name, tidy(arguments))
        except (ValueError, InvalidInput) as error:
            detail = f"Invalid arguments for tool '{name:.128}': {error}"
            return refused_result(Refusal(Reason.INVALID_ARGUMENTS, detail))
        try:
            return call_result(await self._settled(action, key or f"mcp:{new_id()}", report))
        except RequestRefused as error:
            return refused_result(error.refusal)

    async def _settled(self, action: Action, key: str, report: Report | None) -> Reply:
        """The reply to an action: the last one, unless a person has to act first or it is not to be waited for."""
        handed_in = await self._stages.submit(self.id.session, action, workflow=self.workflow, key=key)
        began = time.monotonic()
        doing = asyncio.create_task(handed_in.done(), name="wait for an action")
        wait_s = WAIT_SECONDS if report is None else _FIRST_NEWS_S
        try:
            while not (await asyncio.wait([doing], timeout=wait_s))[0] and report is not None:
                await report(time.monotonic() - began, f"'{action.name}' is running")
                wait_s = _NEWS_S
        finally:
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)  # it also ends when this process is to end
        return await handed_in.reply()

    async def read(self, uri: str) -> JSONObject | None:
        """What is at a resource's URI; None if there is nothing.

        Raises:
            RequestRefused: the session is not there any more.
        """
        if uri == SESSION_URI:
            standing = await self.look()
            return session_document(standing.definition, standing.session)
        if uri == WORKFLOW_URI:
            return workflow_schema((await self.look()).definition)
        action_id = action_of_uri(uri)
        return None if action_id is None else await self._action(action_id)

    async def _action(self, action_id: str) -> JSONObject | None:
        try:
            return (await (await self._stages.action(self.id.session, action_id)).reply()).body
        except UnknownAction:
            return None
