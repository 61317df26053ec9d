"""A run's events on their way from its log to its reader, and if wanted those of its sub-agents, to any depth."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Any, cast

from perdure.runtime.agent_events import AgentEvents, OpenAnswer
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.store.events import Event
from perdure.store.sessions import read_session
from perdure.uap.agent_stream import AgentStreamEvent
from perdure.upp.event_flow import Flow

CHILD_STARTED = "child.started"
_LAST_SECONDS = 5.0
"""How long events of sub-agents are waited for once their parent's run has ended: all of theirs have, or soon will."""


class EventChoice:
    """Which events of the run itself are given; here all, as they come."""

    def choose(self, events: list[AgentStreamEvent]) -> list[AgentStreamEvent]:
        """What is given in place of the next events."""
        return events

    def rest(self) -> list[AgentStreamEvent]:
        """What is given when the run has ended well."""
        return []


class FollowedRun:
    """One run.

    Attributes:
        answer: the run's own last answer, as far as it came.
    """

    def __init__(
        self, sessions: Sessions, flow: Flow[AgentStreamEvent], choice: EventChoice, *, sub_agents: bool
    ) -> None:
        """Hand events on to `flow`.

        Args:
            sessions: the connection.
            flow: the reader's.
            choice: of the run's own events.
            sub_agents: whether those of sub-agents are given too, with their path.
        """
        self._sessions = sessions
        self._flow = flow
        self._choice = choice
        self._sub_agents = sub_agents
        self._children: list[asyncio.Task[None]] = []
        self.answer = OpenAnswer()

    async def follow(self, handle: RunHandle, agent_id: str) -> None:
        """Return when the run has ended and all is handed on."""
        try:
            events = AgentEvents(self._sessions.database, handle.accepted.key, handle.id, agent_id)
            async with contextlib.aclosing(handle.events()) as rows:
                async for row in rows:
                    self._look_for_child(row)
                    given = self._choice.choose(await events.read(row))
                    self.answer = events.answer
                    if given:
                        await self._flow.send(given)
            await self._last_of_children()
        finally:
            for task in self._children:
                task.cancel()
            await asyncio.gather(*self._children, return_exceptions=True)

    def _look_for_child(self, row: Event) -> None:
        if self._sub_agents and row.source == "run" and row.type == CHILD_STARTED:
            self._children.append(asyncio.create_task(self._follow_child(row), name="follow a sub-agent"))

    async def _follow_child(self, started: Event) -> None:
        data = cast("dict[str, Any]", started.data)
        handle = await self._sessions.run(data["run"])
        key = handle.accepted.key
        agent_id = (await read_session(self._sessions.database, key)).agent_id
        events = AgentEvents(self._sessions.database, key, handle.id, agent_id)
        path = tuple(str(name) for name in data["path"])
        async with contextlib.aclosing(handle.events()) as rows:
            async for row in rows:
                self._look_for_child(row)
                given = [replace(event, path=path, call=data["call"]) for event in await events.read(row)]
                if given:
                    await self._flow.send(given)

    async def _last_of_children(self) -> None:
        end = asyncio.get_running_loop().time() + _LAST_SECONDS
        while open_tasks := [task for task in self._children if not task.done()]:  # a sub-agent may still have its own
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                break
            await asyncio.wait(open_tasks, timeout=left)
        for task in self._children:
            if task.done():
                task.result()
