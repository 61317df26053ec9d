"""Stage workflows and their sessions as programs use them: listed, opened, acted in, looked at, controlled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime

from perdure.errors import KeyConflict
from perdure.protocols.uaip.reply import Reply
from perdure.protocols.uaip.request import RequestRefused
from perdure.runtime.stage_action import RUNNING, WAITING, StageAction
from perdure.runtime.stage_control import StageControl
from perdure.store.events import Event
from perdure.store.stages import definitions, sessions, waits
from perdure.store.stages.accepting import accept_action
from perdure.store.stages.actions import action_page, find_by_key
from perdure.store.stages.definitions import ServedWorkflow
from perdure.store.stages.opening import open_session
from perdure.store.stages.rows import ActionRow, StageSessionRow
from perdure.testing.crash import crash_point
from perdure.uaip.action import Action, key_conflict
from perdure.uaip.definition import WorkflowDefinition
from perdure.uaip.offers import Offer, WayOn, offers, ways_on
from perdure.uaip.session import SessionStatus
from perdure.upp.json_value import JSONObject

__all__ = ["StageAction", "StageView", "Stages"]

WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class StageView:
    """A session, and what can be done in it now.

    Attributes:
        row: the session.
        definition: the one that it is pinned to.
        offers: what can be called.
        ways_on: where it can go.
    """

    row: StageSessionRow
    definition: WorkflowDefinition
    offers: tuple[Offer, ...]
    ways_on: tuple[WayOn, ...]


class Stages(StageControl):
    """The stage workflows of one tenant and their sessions, by their rows and their executions.

    A session that there is not, or that ended where an open one is needed, is a `RequestRefused` with UAIP's words.
    """

    async def workflows(self, *, search: str | None = None) -> list[ServedWorkflow]:
        """The workflows that are served, by name.

        Args:
            search: only those whose name or description has it.
        """
        return await definitions.list_workflows(self.database, self.tenant, search=search)

    async def initialize(
        self, name: str, *, id: str | None = None, key: str | None = None, values: JSONObject | None = None
    ) -> StageSessionRow:
        """Open a session, in its workflow's initial stage.

        Args:
            name: of the workflow.
            id: of the session, a UUIDv4; drawn if not given.
            key: idempotency key; the same key again is the same session.
            values: what its state begins with.

        Raises:
            RequestRefused: no such workflow is served, or the key was used for another one.
        """
        served = await self.workflow(name)
        try:
            row = await open_session(self.database, self.tenant, served, id=id, key=key, values=values)
        except KeyConflict as error:
            raise RequestRefused(key_conflict(str(key))) from error
        self.announcer.changed(row.key)
        return row

    async def submit(
        self, session: str, action: Action, *, workflow: str | None = None, key: str | None = None
    ) -> StageAction:
        """Hand in an action. When this returns it is stored, and will be done whatever happens.

        Args:
            session: whose.
            action: what is asked.
            workflow: the workflow that the session must be of.
            key: idempotency key; the same action with it again is the first one.

        Raises:
            RequestRefused: there is no such session or it has ended, or the key was used with another action.
            QueueFull: as many of its actions are open as may be.
        """
        if workflow is not None:
            await self.find(session, workflow=workflow)
        accepted = await accept_action(self.database, self.key_of(session), action, idempotency_key=key)
        crash_point("action.stored")
        if accepted.news:
            self.announcer.changed(accepted.row.key)
        if accepted.wake and accepted.session.session.status is not SessionStatus.PAUSED:
            await self.wake(accepted.session)
        return StageAction(self, accepted.row, accepted.session, repeated=accepted.repeated)

    async def knows_key(self, session: str, key: str | None) -> bool:
        """Whether an action of the session came under this idempotency key; it is answered also once the session has ended."""
        return key is not None and await find_by_key(self.database, self.key_of(session), key) is not None

    async def execute(
        self,
        session: str,
        action: Action,
        *,
        workflow: str | None = None,
        key: str | None = None,
        wait_s: float = WAIT_SECONDS,
    ) -> Reply:
        """Hand in an action as `submit` does, and return what its client is told.

        Args:
            session: whose.
            action: what is asked.
            workflow: the workflow that the session must be of.
            key: idempotency key.
            wait_s: seconds to wait for the action; after them the reply says that it is running. One that waits for a
                person, or for its session's resumption, is answered at once.
        """
        handed_in = await self.submit(session, action, workflow=workflow, key=key)
        try:
            async with asyncio.timeout(wait_s):
                await handed_in.done()
        except TimeoutError:
            pass
        return await handed_in.reply()

    async def page(
        self,
        *,
        workflow: str | None = None,
        stage: str | None = None,
        status: SessionStatus | None = None,
        after: tuple[datetime, str] | None = None,
        limit: int = 50,
    ) -> list[StageSessionRow]:
        """One page of sessions, newest first.

        Args:
            workflow: only of this one.
            stage: only those that are in this stage of it.
            status: only those that are so.
            after: `created_at` and id of the last one of the page before.
            limit: at most so many.

        Raises:
            InvalidInput: a limit out of range, or a stage without its workflow.
        """
        return await sessions.session_page(
            self.database, self.tenant, workflow=workflow, stage=stage, status=status, after=after, limit=limit
        )

    async def view(self, session: str) -> StageView:
        """A session, and what can be done in it now. Raises RequestRefused."""
        row = await self.find(session)
        definition = await self.definition_of(row)
        return StageView(row, definition, offers(definition, row.session), ways_on(definition, row.session))

    async def state(self, session: str) -> JSONObject:
        """The shared state of a session. Raises RequestRefused."""
        row = await self.find(session)
        return await sessions.read_state(self.database, row.key)

    async def history(self, session: str, *, after: int = 0, limit: int = 100) -> list[ActionRow]:
        """A session's actions in order, from the one behind ordinal `after` on. Raises RequestRefused."""
        row = await self.find(session)
        return await action_page(self.database, row.key, after=after, limit=limit)

    async def action(self, session: str, action: str) -> StageAction:
        """An action by its id.

        Raises:
            RequestRefused: there is no such session.
            UnknownAction: it has no such action.
        """
        row = await self.find(session)
        found = await self._find_action(row.key, action)
        return StageAction(self, found, row, repeated=True)

    async def waits(self, *, after: tuple[datetime, str, int] | None = None, limit: int = 100) -> list[ActionRow]:
        """One page of the actions that wait for a person, those that were asked about longest ago first.

        Args:
            after: when the last action of the page before was asked about, its session and its ordinal.
            limit: at most so many.
        """
        return await waits.open_stage_waits(self.database, self.tenant, after=after, limit=limit)

    async def in_hand(self, row: StageSessionRow) -> ActionRow | None:
        """The action of a session that runs now or waits for a person, if one does: a session does one after the other."""
        first = await action_page(self.database, row.key, after=row.session.taken, limit=1)
        return next((one for one in first if one.state in (RUNNING, WAITING)), None)

    async def events(self, session: str, *, after: int = 0) -> AsyncGenerator[Event, None]:
        """A session's events with a number above `after`, as they come, without end. Raises RequestRefused."""
        row = await self.find(session)
        async for event in self.stream.follow(row.key, after=after):
            yield event
