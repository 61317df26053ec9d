"""Sessions and runs as programs use them: submit, follow, wait, control, answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from temporalio.client import Client

from perdure.activities import contracts
from perdure.errors import InvalidInput, ServerUnavailable
from perdure.runtime.event_stream import EventStream
from perdure.runtime.temporal import SessionAddress, signal_session, wake
from perdure.runtime.turns import read_turn
from perdure.store import inputs, waits
from perdure.store.agents import AgentRow, find_agent
from perdure.store.database import Database
from perdure.store.events import Announcer, Event
from perdure.store.inputs import Accepted, Submission
from perdure.store.runs import TERMINAL, RunRow, find_run
from perdure.store.sessions import find_address, read_session
from perdure.store.waits import WaitRow
from perdure.testing.crash import crash_point
from perdure.uap.events import RUN_TERMINAL
from perdure.uap.ids import new_id
from perdure.uap.options import RunOptions
from perdure.uap.session_key import SessionKey, checked_session_id
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message, UserMessage
from perdure.upp.turn import Turn

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Controlled:
    """What a pause, resume or cancel came to.

    Attributes:
        state: "paused", "resumed", "cancelled", "ignored" (it meant a run that is not active) or "recorded" (it will
            be done as soon as a worker runs).
        event: the event that says so; None if `recorded`.
    """

    state: str
    event: Event | None = None


class RunHandle:
    """One run. Following it or waiting for it survives restarts of workers and servers."""

    def __init__(self, runtime: Sessions, accepted: Accepted) -> None:
        """Handle the run of an accepted input."""
        self._runtime = runtime
        self.accepted = accepted
        self.id = accepted.run
        self.session = accepted.key.session

    async def events(self, *, after: int | None = None) -> AsyncGenerator[Event, None]:
        """The run's events, live, up to and with its one terminal event.

        Args:
            after: begin behind this number; by default with the run's first event.
        """
        start = self.accepted.after_seq if after is None else after
        async for event in self._runtime.stream.follow(self.accepted.key, after=start):
            if event.run == self.id:
                yield event
                if event.type in RUN_TERMINAL:
                    return

    async def result(self) -> Turn:
        """Wait for the end and return the turn.

        Raises:
            PerdureError: what failed the run, with its own type.
            RunCancelled: the run was cancelled.
        """
        if (await self.status()).status not in TERMINAL:
            async for _ in self.events():
                pass
        return await read_turn(self._runtime.database, await self.status())

    async def status(self) -> RunRow:
        """The run's row as it stands now."""
        return await find_run(self._runtime.database, self.accepted.key.tenant, self.id)


class Sessions:
    """The sessions of one tenant, by their rows and their workflows."""

    def __init__(self, client: Client, database: Database, tenant: str) -> None:
        """Use these servers for one tenant."""
        self.client = client
        self.database = database
        self.tenant = tenant
        self.announcer = Announcer(database)
        self.stream = EventStream(database)

    async def close(self) -> None:
        """Stop following events."""
        await self.announcer.close()
        await self.stream.close()

    async def submit(
        self,
        agent: str,
        message: str | Message,
        *,
        session: str | None = None,
        create: bool = False,
        key: str | None = None,
        options: RunOptions | None = None,
    ) -> RunHandle:
        """Hand in an input. When this returns it is stored, and will be run whatever happens.

        Args:
            agent: the agent's name; a worker must have registered it.
            message: text, or a user's message.
            session: go on in this session; None opens one.
            create: open `session` if it does not exist.
            key: idempotency key; the same key again answers the same run. Drawn if not given.
            options: what this run does otherwise than its agent says.

        Raises:
            InvalidInput: an id, key or message that cannot be used.
            UnknownAgent: no worker has registered the agent.
            UnknownSession: no such session, or it is another agent's.
            KeyConflict: the key was used with another input.
            SessionGone: the session is being deleted.
        """
        given = UserMessage(message) if isinstance(message, str) else message
        if not isinstance(given, UserMessage):
            raise InvalidInput("an input must be a user's message")
        row = await find_agent(self.database, self.tenant, agent)
        submission = Submission(
            tenant=self.tenant,
            agent=row.name,
            agent_id=row.agent_id,
            message=given,
            key=new_id() if key is None else key,
            session=None if session is None else checked_session_id(session),
            create=create,
            options=options or RunOptions(),
        )
        accepted = await inputs.submit(self.database, submission)
        crash_point("submit.stored")
        self.announcer.changed(accepted.key)
        if accepted.status == "queued" and not accepted.paused:
            await self._wake(_address(accepted.key, row))
        return RunHandle(self, accepted)

    async def _wake(self, address: SessionAddress) -> None:
        try:
            await wake(self.client, address)
        except ServerUnavailable as error:  # the row is the acknowledgement; a worker's sweep wakes the session
            logger.warning("input.wake_deferred session=%s %s", address.key.session, error)

    async def run(self, run: str) -> RunHandle:
        """A handle for a run by its id.

        Raises:
            UnknownRun: there is none.
        """
        row = await find_run(self.database, self.tenant, run)
        after = 0 if row.first_seq is None else row.first_seq - 1
        accepted = Accepted(row.key, row.id, row.ordinal, row.status, repeated=True, paused=False, after_seq=after)
        return RunHandle(self, accepted)

    async def pause(self, session: str, *, wait_s: float = 5.0) -> Controlled:
        """Pause a session: its run holds before the next model or tool call, and no input is taken."""
        return await self._control(session, contracts.PAUSE, None, wait_s)

    async def resume(self, session: str, *, wait_s: float = 5.0) -> Controlled:
        """Let a paused session go on."""
        return await self._control(session, contracts.RESUME, None, wait_s)

    async def cancel(self, session: str, *, run: str | None = None, wait_s: float = 5.0) -> Controlled:
        """Cancel a run: the given one, else the active one. One that is still queued is withdrawn at once.

        Raises:
            InvalidInput: no run is given and none is active.
        """
        key = SessionKey(self.tenant, checked_session_id(session))
        target = run or (await read_session(self.database, key)).active_run
        if target is None:
            raise InvalidInput(f"session {session} has no active run; name a queued one to withdraw it")
        row = await find_run(self.database, self.tenant, target)
        if row.status in TERMINAL:
            return Controlled(row.status)
        if row.status == "queued" and await inputs.withdraw(self.database, key, target):
            self.announcer.changed(key)
            return Controlled("cancelled")
        return await self._control(session, contracts.CANCEL, target, wait_s)

    async def _control(self, session: str, kind: str, run: str | None, wait_s: float) -> Controlled:
        key = SessionKey(self.tenant, checked_session_id(session))
        row = await read_session(self.database, key)
        agent = await find_address(self.database, key)
        control = new_id()
        value: JSONObject = {"id": control} if run is None else {"id": control, "run": run}
        await signal_session(self.client, _address(key, agent), kind, value)
        try:
            async with asyncio.timeout(wait_s):
                async for event in self.stream.follow(key, after=row.last_seq):
                    state = _reached(event, control)
                    if state is not None:
                        return Controlled(state, event)
        except TimeoutError:
            pass
        return Controlled("recorded")

    async def answer(self, wait: str, answer: JSONObject, *, by: str) -> WaitRow:
        """Answer an open wait, once; the parked run goes on.

        Args:
            wait: its id.
            answer: for a tool's unknown outcome {"outcome": "happened", "result": ...}, {"outcome": "not_run"} or
                {"outcome": "unknown"}; for a client-side tool {"result": ..., "isError": ...}.
            by: who answers.

        Raises:
            UnknownWait: there is no such open wait.
            InvalidInput: an answer of another form.
        """
        row = await waits.read_wait(self.database, self.tenant, wait)
        _check_answer(row, answer)
        answered = await waits.answer_wait(self.database, self.tenant, wait, answer, by)
        agent = await find_address(self.database, answered.key)
        try:
            await signal_session(self.client, _address(answered.key, agent), contracts.ANSWER, {"wait": wait})
        except ServerUnavailable as error:  # the row is answered; a worker's sweep tells the run
            logger.warning("wait.wake_deferred wait=%s %s", wait, error)
        return answered


def _address(key: SessionKey, agent: AgentRow) -> SessionAddress:
    return SessionAddress(key, agent.name, agent.workflow_type, agent.task_queue)


def _reached(event: Event, control: str) -> str | None:
    """The state that an event says this control has reached."""
    if event.data.get("control") == control:
        return {"session.paused": "paused", "session.resumed": "resumed"}.get(event.type, "ignored")
    controls = event.data.get("controls")
    if isinstance(controls, list) and control in controls:
        return event.type.removeprefix("run.")
    return None


def _check_answer(row: WaitRow, answer: JSONObject) -> None:
    if row.kind == contracts.CLIENT_TOOL:
        if "result" not in answer:
            raise InvalidInput("the answer to a client-side tool needs a 'result'")
    elif answer.get("outcome") not in ("happened", "not_run", "unknown"):
        raise InvalidInput("the answer needs an 'outcome': happened (with its 'result'), not_run or unknown")
