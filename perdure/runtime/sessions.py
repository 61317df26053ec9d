"""Sessions and runs as programs use them: submit, follow, wait, control, answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perdure.activities import contracts
from perdure.errors import InvalidInput, ServerUnavailable
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.session_changes import SessionChanges
from perdure.runtime.session_servers import address_of
from perdure.runtime.session_transfer import SessionTransfer
from perdure.runtime.temporal import signal_session
from perdure.store import inputs, waits
from perdure.store.agents import find_agent
from perdure.store.events import Event
from perdure.store.inputs import Accepted, Submission
from perdure.store.runs import TERMINAL, find_run
from perdure.store.sessions import find_address, read_session
from perdure.store.waits import WaitRow
from perdure.testing.crash import crash_point
from perdure.uap.ids import new_id
from perdure.uap.options import RunOptions
from perdure.uap.session_key import checked_session_id, known_session_id
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message, UserMessage

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


class Sessions(SessionChanges, SessionTransfer):
    """The sessions of one tenant, by their rows and their workflows."""

    async def submit(
        self,
        agent: str,
        message: str | Message,
        *,
        session: str | None = None,
        create: bool = False,
        key: str | None = None,
        options: RunOptions | None = None,
        history: Sequence[Message] = (),
    ) -> RunHandle:
        """Hand in an input. When this returns it is stored, and will be run whatever happens.

        Args:
            agent: the agent's name; a worker must have registered it.
            message: text, or a user's message.
            session: go on in this session; None opens one.
            create: open `session` if it does not exist.
            key: idempotency key; the same key again answers the same run. Drawn if not given.
            options: what this run does otherwise than its agent says.
            history: what was said before, oldest first, in a session that this opens; see `open`.

        Raises:
            InvalidInput: an id, key or message that cannot be used.
            UnknownAgent: no worker has registered the agent.
            UnknownSession: no such session, or it is another agent's.
            KeyConflict: the key was used with another input, or the session was opened with another history.
            SessionGone: the session is being deleted.
            RunActive: it is a sub-agent's session, and the run that called it is open.
        """
        given = UserMessage(message) if isinstance(message, str) else message
        if not isinstance(given, UserMessage):
            raise InvalidInput("an input must be a user's message")
        root = agent if session is None or create else agent.partition("/")[0]  # a sub-agent's session is a path's
        row = await find_agent(self.database, self.tenant, root)
        submission = Submission(
            tenant=self.tenant,
            agent=agent,
            agent_id=row.agent_id,
            message=given,
            key=new_id() if key is None else key,
            session=session if session is None else (checked_session_id if create else known_session_id)(session),
            create=create,
            options=options or RunOptions(),
            history=history,
        )
        accepted = await inputs.submit(self.database, submission)
        crash_point("submit.stored")
        self.announcer.changed(accepted.key)
        if accepted.status == "queued" and not accepted.paused:
            await self.wake(address_of(accepted.key, replace(row, name=agent)))
        return RunHandle(self, accepted)

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
        key = self.key_of(session)
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
        key = self.key_of(session)
        row = await read_session(self.database, key)
        agent = await find_address(self.database, key)
        control = new_id()
        value: JSONObject = {"id": control} if run is None else {"id": control, "run": run}
        await signal_session(self.client, address_of(key, agent), kind, value)
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
            await signal_session(self.client, address_of(answered.key, agent), contracts.ANSWER, {"wait": wait})
        except ServerUnavailable as error:  # the row is answered; a worker's sweep tells the run
            logger.warning("wait.wake_deferred wait=%s %s", wait, error)
        return answered


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
